"""The account beside the data: the options that name it, its terms, and ``holdfast epoch``.

An account is found again beside its data and continued on the terms it was opened with. Rows that arrived
later form an epoch with an account of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli._output import print_data
from holdfast.errors import QueryRejected
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.client import Client
    from holdfast.guard import Guard
    from holdfast.ledger import Book


@dataclass(frozen=True)
class Given:
    """What was said on the command line about an account: ``options`` has only what was said."""

    train: str | None = None
    clusters: str | None = None
    mixing: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        train: str | None = None,
        clusters: str | None = None,
        mixing: float | None = None,
        **options: Any,
    ) -> Given:
        """From the options of a command, which are None where nothing was said."""
        return cls(
            train, clusters, mixing, {name: value for name, value in options.items() if value is not None}
        )


def beside(data: str) -> Path:
    """Where the account of a data file is kept unless told otherwise: ``data.csv.holdfast``."""
    from holdfast.engines import shown

    if "://" in data or any(sign in data for sign in "*?["):
        raise click.UsageError(
            f"{shown(data)} is not one file, so there is no place beside it for the account: say --ledger "
            "FILE, or --no-ledger to forget it afterwards."
        )
    if not Path(data).is_file():
        raise QueryRejected(f"There is no file {data!r}; check the path (from {str(Path.cwd())!r}).")
    return Path(f"{data}.holdfast")


@contextmanager
def opened(data: str, ledger: Path | None, given: Given) -> Iterator[Guard]:
    """A guard on the data whose account is kept in ``ledger`` (None: in memory), which is closed at the end.

    Options that are not given are those the account was opened with; giving others is an error.
    """
    from holdfast.guard import Guard
    from holdfast.ledger import Book

    new = ledger is None or not ledger.exists()
    book = Book(ledger)
    try:
        options = _settle(given, ledger, _opening(book))
        try:
            guard = Guard(data, train=given.train, ledger=book, **options)
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


def _settle(given: Given, ledger: Path | None, agreed: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a guard: as the account was opened, or as they are given for a new one."""
    from holdfast.guard import Terms
    from holdfast.ledger import BookError

    if given.clusters is not None and given.mixing is not None:
        raise click.UsageError(
            "--clusters and --mixing contradict each other: rows are in groups, or a series."
        )
    if "given" in agreed.get("training", {}) and given.train is None:
        raise BookError(
            f"The account {ledger} was opened with a training file of its own; give it again with --train."
        )
    terms, model = Terms.of_book(agreed), agreed.get("model", {})
    written: dict[str, Any] = {
        **terms.options,
        "clusters": model.get("clusters"),
        "mixing": model.get("mixing"),
    }
    asked_for = {**given.options, "clusters": given.clusters, "mixing": given.mixing}
    for name, value in asked_for.items() if agreed else ():
        if value is not None and value != written[name]:
            option, before = name.replace("_", "-"), written[name]
            opened = f"no --{option}" if before is None else f"--{option} {_shown(before)}"
            raise BookError(
                f"The account {ledger} was opened with {opened}, and this says --{option} {_shown(value)}. "
                "Leave it out to go on with the account, or keep another one with --ledger."
            )
    clusters, mixing = (
        (model.get("clusters"), model.get("mixing")) if agreed else (given.clusters, given.mixing)
    )
    return {**terms.options, **given.options, **_model(clusters, mixing)}


def _model(clusters: str | None, mixing: float | None) -> dict[str, Any]:
    """How the rows depend on each other, where that was said."""
    from holdfast.dependence import Clusters, Mixing

    if clusters is not None:
        return {"dependence": Clusters(column=clusters)}
    return {} if mixing is None else {"dependence": Mixing(mixing)}


def _shown(term: float | str) -> str:
    return term if isinstance(term, str) else f"{term:g}"


_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--train",
        help="A file of training rows; left out, a third of DATA is set aside as the training part.",
    ),
    click.option(
        "--confidence", type=float, help="With this probability the promise is kept.  [default: 0.95]"
    ),
    click.option(
        "--promise",
        type=click.Choice(["all", "each"]),
        help="What holds with that probability: all answers together, or each by itself (narrower).  "
        "[default: all]",
    ),
    click.option(
        "--error", type=float, help="Promise that no interval is wider than ± this, and refuse what would be."
    ),
    click.option(
        "--expect",
        type=float,
        help="About how many questions there will be: a hint that makes so many answers narrower. The "
        "promise never rests on it.",
    ),
    click.option(
        "--ledger",
        type=click.Path(path_type=Path),
        help="Where the account is kept.  [default: DATA.holdfast]",
    ),
    click.option("--no-ledger", is_flag=True, help="Keep no account: it is forgotten at the end."),
    click.option(
        "--training-share",
        type=float,
        help="How much of DATA becomes the training part.  [default: a third; a quarter with --expect of at "
        "most 10]",
    ),
    click.option("--split-seed", type=int, help="The seed of that split.  [default: 0]"),
    click.option(
        "--clusters",
        metavar="COLUMN",
        help="Rows with the same value of this column belong together and may depend on each other, such as "
        "several rows of one person.",
    ),
    click.option(
        "--mixing",
        type=float,
        metavar="RATE",
        help="The rows are a series in this order that forgets its past: after g rows at most RATE^g of it "
        "is still known.",
    ),
    click.option(
        "--after",
        multiple=True,
        help="DATA arrived after this table, as an epoch of its own (holdfast epoch); once for each, in "
        "order.",
    ),
)


def account_options(command: _Command) -> _Command:
    """Let a command take every option about its account."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def book_place(data: str, ledger: Path | None, no_ledger: bool, after: tuple[str, ...]) -> Path | None:
    """Where the account is kept; None for one that is forgotten at the end."""
    if ledger is not None and no_ledger:
        raise click.UsageError("--ledger and --no-ledger contradict each other.")
    return None if no_ledger else ledger or beside((*after, data)[0])


@contextmanager
def opened_account(data: str, ledger: Path | None, after: tuple[str, ...], given: Given) -> Iterator[Guard]:
    """The guard to ask: of the table's one account, or of the last of its epochs."""
    if not after:
        with opened(data, ledger, given) as guard:
            yield guard
        return
    if ledger is None or given != Given(given.train):
        raise click.UsageError(
            "What holds in an epoch was agreed when it was opened: with --after, leave --no-ledger, "
            "--confidence, --promise, --error, --expect, --training-share, --split-seed, --clusters and "
            "--mixing out."
        )
    with opened_epochs((*after, data), ledger, given.train) as guards:
        yield guards[-1]


@contextmanager
def opened_epochs(tables: Sequence[str], ledger: Path, train: str | None = None) -> Iterator[list[Guard]]:
    """The guards of a table's epochs in order, on the terms they were opened with; all are closed at the
    end. ``ledger`` is the first one's account, and ``train`` the training file it was opened with."""
    with opened(tables[0], ledger, Given(train)) as first:
        guards = [first]
        try:
            for table in tables[1:]:
                agreed = _agreed(ledger, len(guards) + 1)
                if agreed is None:
                    raise _not_opened(tables[: len(guards)], table)
                terms = {"confidence": agreed["confidence"], "error": agreed["error"]}
                guards.append(guards[-1].next_epoch(table, **terms))
            yield guards
        finally:
            for guard in guards[1:]:
                guard.close()


def _agreed(ledger: Path, number: int) -> Mapping[str, Any] | None:
    """What an epoch was opened with; None where it was not."""
    from holdfast.ledger import Book, place_of_epoch

    path = Path(str(place_of_epoch(ledger, number)))
    if not path.is_file():
        return None
    book = Book(path)
    try:
        return None if book.opening is None else book.opening.body
    finally:
        book.close()


def _not_opened(before: Sequence[str], table: str) -> Exception:
    from holdfast.engines import shown
    from holdfast.ledger import BookError

    after = " ".join(f"--after {name}" for name in before)
    return BookError(
        f"{shown(table)} is no epoch yet. Rows that arrived later have an account of their own; open it with "
        f"holdfast epoch open {table} {after}"
    )


_after = click.option(
    "--after", multiple=True, help="The table of an epoch before it; once for each, in order."
)
_ledger = click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="Where the first epoch's account is kept.  [default: beside the first --after]",
)
_train = click.option("--train", help="The training file of the first epoch's account, if it has one.")
_service = click.option("--service", help="The address of a service that keeps the accounts.")
_dataset = click.option("--dataset", help="Which of its datasets, if the token reaches several.")
_token = click.option("--token", envvar="HOLDFAST_TOKEN", help="A token; better in HOLDFAST_TOKEN.")
_json = click.option("--json", "as_json", is_flag=True, help="Print data instead of words.")


@click.group()
def epoch() -> None:
    """Tables that grow: rows that arrived later are an epoch with an account of its own, and never refill
    the account before."""


@epoch.command(name="open")
@click.argument("data")
@_after
@click.option(
    "--close",
    is_flag=True,
    help="End the account before for good: all its rows become the training part of the new one.",
)
@click.option("--confidence", type=float, help="The new epoch's own.  [default: that of the epoch before]")
@click.option("--together", type=float, help="The confidence of all epochs that ever follow, together.")
@_ledger
@_train
@_service
@_dataset
@_token
@_json
def open_epoch(
    data: str,
    after: tuple[str, ...],
    close: bool,
    confidence: float | None,
    together: float | None,
    ledger: Path | None,
    train: str | None,
    service: str | None,
    dataset: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Open an epoch for the rows in DATA, which arrived after all rows before; called again, it goes on.

    \b
      holdfast epoch open february.csv --after january.csv --close
      holdfast epoch open march.csv --after january.csv --after february.csv
      holdfast ask march.csv --after january.csv --after february.csv -q "share(paid)"

    With --service an owner opens it in a service, where DATA is one of its sources. Rows of an earlier
    epoch are refused where they can be told. That rows are new in every other way, and were not chosen by
    their values, is for you to know.
    """
    _one_place(after, service)
    terms: dict[str, Any] = {"confidence": confidence, "together": together}
    if service is not None:
        if close or ledger is not None or train is not None:
            raise click.UsageError(
                "--close, --ledger and --train are for accounts of your own. An owner closes an account of a "
                "service with POST /v1/datasets/NAME/close."
            )
        with _client(service, token, dataset) as client, client.next_epoch(data, **terms) as opened:
            _show_epochs(opened.epochs, as_json)
        return
    from holdfast.engines import open_rows
    from holdfast.server import standing

    open_rows(data)  # What cannot be opened closes no account.
    with opened_epochs(after, ledger or beside(after[0]), train) as guards:
        guards.append(guards[-1].next_epoch(data, close=close, **terms))
        _show_epochs([standing(guard) for guard in guards], as_json)


@epoch.command(name="list")
@click.argument("data", required=False)
@_after
@_ledger
@_train
@_service
@_dataset
@_token
@_json
def list_epochs(
    data: str | None,
    after: tuple[str, ...],
    ledger: Path | None,
    train: str | None,
    service: str | None,
    dataset: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Say which epochs there are, and what is left of the account of each.

    \b
      holdfast epoch list february.csv --after january.csv
      holdfast epoch list --service http://127.0.0.1:8344 --dataset people
    """
    if service is not None:
        if data is not None or after:
            raise click.UsageError("A service knows its epochs: leave DATA and --after out.")
        with _client(service, token, dataset) as client:
            _show_epochs(client.epochs, as_json)
        return
    from holdfast.server import standing

    if data is None:
        raise click.UsageError("Say which table, or --service.")
    tables = (*after, data)
    with opened_epochs(tables, ledger or beside(tables[0]), train) as guards:
        _show_epochs([standing(guard) for guard in guards], as_json)


def _one_place(after: tuple[str, ...], service: str | None) -> None:
    if bool(after) == (service is not None):
        raise click.UsageError("Say what the rows come after: --after TABLE, or --service URL.")


def _client(service: str, token: str | None, dataset: str | None) -> Client:
    from holdfast.client import Client

    if token is None:
        raise click.UsageError("A service wants a token: set HOLDFAST_TOKEN, or say --token.")
    return Client(service, token, dataset=dataset)


def _show_epochs(epochs: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_data(list(epochs))
        return
    console = Console(highlight=False)
    table = Table(
        "epoch",
        "rows",
        "confidence",
        "together",
        "spent",
        "left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for epoch in epochs:
        left = "closed" if epoch["closed"] else epoch["words"]
        table.add_row(
            str(epoch["epoch"]),
            f"{epoch['rows']:,}",
            f"{epoch['confidence']:.4g}",
            f"{epoch['together']:.4g}",
            amount(epoch["spent"], epoch["unit"]),
            left,
        )
    console.print(table)
