"""The account beside the data: found again, and gone on with on the terms it was opened with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.engines._files import shown
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.guard import Guard
    from holdfast.ledger import Book

_DEFAULTS: dict[str, Any] = {
    "confidence": 0.95,
    "error": None,
    "expect": None,
    "promise": "all",
    "training-share": None,  # The guard's own: it depends on what is expected.
    "split-seed": 0,
    "clusters": None,
    "mixing": None,
}


@dataclass(frozen=True)
class Terms:
    """What was said on the command line; None where nothing was said."""

    train: str | None = None
    confidence: float | None = None
    error: float | None = None
    expect: float | None = None
    promise: str | None = None
    training_share: float | None = None
    split_seed: int | None = None
    clusters: str | None = None
    mixing: float | None = None


def beside(data: str) -> Path:
    """Where the account of a data file is kept unless told otherwise: ``data.csv.holdfast``."""
    if "://" in data or any(sign in data for sign in "*?["):
        raise click.UsageError(
            f"{shown(data)} is not one file, so there is no place beside it for the account: say --ledger "
            "FILE, or --no-ledger to forget it afterwards."
        )
    if not Path(data).is_file():
        raise QueryRejected(f"There is no file {data!r}; check the path (from {str(Path.cwd())!r}).")
    return Path(f"{data}.holdfast")


@contextmanager
def opened(data: str, ledger: Path | None, terms: Terms) -> Iterator[Guard]:
    """A guard on the data whose account is kept in ``ledger`` (None: in memory), which is closed at the end.

    Terms that were not said are those the account was opened with; saying others is an error.
    """
    from holdfast.guard import Guard
    from holdfast.ledger import Book

    new = ledger is None or not ledger.exists()
    book = Book(ledger)
    try:
        options = _settle(terms, ledger, _opening(book))
        try:
            guard = Guard(data, train=terms.train, ledger=book, **options)
        except BaseException:
            _forget(book, ledger if new else None)
            raise
        yield guard
    finally:
        book.close()


def _opening(book: Book) -> Mapping[str, Any]:
    """What the book says it was opened with; empty for a new one."""
    return next((event.body for event in book.events()), {})


def _forget(book: Book, path: Path | None) -> None:
    """Leave no empty file behind where the data could not be opened."""
    if path is not None and not _opening(book):
        book.close()
        path.unlink(missing_ok=True)


def _settle(terms: Terms, ledger: Path | None, agreed: Mapping[str, Any]) -> dict[str, Any]:
    said = {
        "confidence": terms.confidence,
        "error": terms.error,
        "expect": terms.expect,
        "promise": terms.promise,
        "training-share": terms.training_share,
        "split-seed": terms.split_seed,
        "clusters": terms.clusters,
        "mixing": terms.mixing,
    }
    if terms.clusters is not None and terms.mixing is not None:
        raise click.UsageError(
            "--clusters and --mixing contradict each other: rows are in groups, or a series."
        )
    from holdfast.ledger import BookError

    training = agreed.get("training", {})
    if "given" in training and terms.train is None:
        raise BookError(
            f"The account {ledger} was opened with a training file of its own; give it again with --train."
        )
    known = {**_DEFAULTS}
    strategy = {name: agreed[name] for name in ("strategy", "queries", "surprises") if name in agreed}
    if agreed:
        known |= {
            name: agreed[name] for name in ("confidence", "error", "expect", "promise") if name in agreed
        }
        known |= {"training-share": training.get("share"), "split-seed": training.get("seed", 0)}
        model = agreed.get("model", {})
        known |= {"clusters": model.get("clusters"), "mixing": model.get("mixing")}
        for name, value in said.items():
            if value is not None and value != known[name]:
                before = f"--{name} {_shown(known[name])}" if known[name] is not None else f"no --{name}"
                raise BookError(
                    f"The account {ledger} was opened with {before}, and this says --{name} {_shown(value)}. "
                    "Leave it out to go on with the account, or keep another one with --ledger."
                )
    options: dict[str, Any] = {
        name.replace("-", "_"): known[name] if value is None else value for name, value in said.items()
    }
    model = _model(options.pop("clusters"), options.pop("mixing"))
    return {**options, **strategy, **model}


def _model(clusters: str | None, mixing: float | None) -> dict[str, Any]:
    """How the rows depend on each other, where that was said."""
    from holdfast.dependence import Clusters, Mixing

    if clusters is not None:
        return {"dependence": Clusters(column=clusters)}
    return {} if mixing is None else {"dependence": Mixing(mixing)}


def _shown(term: float | str) -> str:
    return term if isinstance(term, str) else f"{term:g}"
