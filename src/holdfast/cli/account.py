"""The account beside the data: its options, its terms, and ``holdfast epoch``.

An account is kept beside its data. It continues on the terms with which it was opened. Rows that arrived
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

from holdfast.cli._output import json_option, print_data
from holdfast.errors import QueryRejected
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.client import Client
    from holdfast.guard import Guard
    from holdfast.ledger import Book


@dataclass(frozen=True)
class AccountOptions:
    """The options about an account that were given on the command line, without those left out."""

    train: str | None = None
    clusters: str | None = None
    mixing: float | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        train: str | None = None,
        clusters: str | None = None,
        mixing: float | None = None,
        **terms: Any,
    ) -> AccountOptions:
        """From the options of a command, which are None where they were left out."""
        return cls(
            train, clusters, mixing, {name: value for name, value in terms.items() if value is not None}
        )


def beside(data: str) -> Path:
    """The default place for the account of a data file: ``data.csv.holdfast``."""
    from holdfast.engines import shown

    if "://" in data or any(sign in data for sign in "*?["):
        raise click.UsageError(
            f"{shown(data)} is not one file, so the account cannot be kept beside it. Give --ledger FILE, or "
            "--no-ledger to keep no account."
        )
    if not Path(data).is_file():
        raise QueryRejected(f"There is no file {data!r}. Check the path (from {str(Path.cwd())!r}).")
    return Path(f"{data}.holdfast")


@contextmanager
def opened(data: str, ledger: Path | None, options: AccountOptions) -> Iterator[Guard]:
    """A guard on the data whose account is kept in ``ledger`` (None: in memory), which is closed at the end.

    Options that are left out are those with which the account was opened. Other values are refused.
    """
    from holdfast.guard import Guard
    from holdfast.ledger import Book

    new = ledger is None or not ledger.exists()
    book = Book(ledger)
    try:
        guard_options = _settle(options, ledger, _opening(book))
        try:
            guard = Guard(data, train=options.train, ledger=book, **guard_options)
        except BaseException:
            _forget(book, ledger if new else None)
            raise
        yield guard
    finally:
        book.close()


def _opening(book: Book) -> Mapping[str, Any]:
    """The terms with which the book was opened; empty for a new book."""
    return next((event.body for event in book.events()), {})


def _forget(book: Book, path: Path | None) -> None:
    """Delete a new, empty book after the data could not be opened."""
    if path is not None and not _opening(book):
        book.close()
        path.unlink(missing_ok=True)


def _settle(options: AccountOptions, ledger: Path | None, agreed: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a guard: those of the account, or those given for a new account."""
    from holdfast.guard import Terms
    from holdfast.ledger import BookError

    if options.clusters is not None and options.mixing is not None:
        raise click.UsageError(
            "--clusters and --mixing contradict each other: rows are in groups, or a series."
        )
    if "given" in agreed.get("training", {}) and options.train is None:
        raise BookError(f"The account {ledger} was opened with a training file: give it again with --train.")
    terms, model = Terms.of_book(agreed), agreed.get("model", {})
    agreed_terms: dict[str, Any] = {
        **terms.options,
        "clusters": model.get("clusters"),
        "mixing": model.get("mixing"),
    }
    asked_for = {**options.terms, "clusters": options.clusters, "mixing": options.mixing}
    for name, value in asked_for.items() if agreed else ():
        if value is not None and value != agreed_terms[name]:
            option, before = name.replace("_", "-"), agreed_terms[name]
            opened = f"no --{option}" if before is None else f"--{option} {_shown(before)}"
            raise BookError(
                f"The account {ledger} was opened with {opened}, and now --{option} is {_shown(value)}. "
                "Leave the option out to continue the account, or use another account with --ledger."
            )
    clusters, mixing = (
        (model.get("clusters"), model.get("mixing")) if agreed else (options.clusters, options.mixing)
    )
    return {**terms.options, **options.terms, **_model(clusters, mixing)}


def _model(clusters: str | None, mixing: float | None) -> dict[str, Any]:
    """The model of dependence between rows, if one was given."""
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
        help="A file of training rows. Without it, a part of DATA becomes the training rows.",
    ),
    click.option(
        "--confidence", type=float, help="The probability with which the promise holds.  [default: 0.95]"
    ),
    click.option(
        "--promise",
        type=click.Choice(["all", "each"]),
        help="What --confidence is about: all answers together, or each one by itself (narrower).  "
        "[default: all]",
    ),
    click.option(
        "--error",
        type=float,
        help="Promise that no interval is wider than ± this number. Questions that need a wider one are "
        "refused.",
    ),
    click.option(
        "--expect",
        type=float,
        help="About how many questions you will ask. The hint makes that many answers narrower. The promise "
        "holds for any number.",
    ),
    click.option(
        "--ledger",
        type=click.Path(path_type=Path),
        help="The file of the account.  [default: DATA.holdfast]",
    ),
    click.option("--no-ledger", is_flag=True, help="Keep no account file. The account is gone at the end."),
    click.option(
        "--training-share",
        type=float,
        help="The share of DATA that becomes training rows.  [default: a third; a quarter with --expect up "
        "to 10]",
    ),
    click.option("--split-seed", type=int, help="The seed that chooses the training rows.  [default: 0]"),
    click.option(
        "--clusters",
        metavar="COLUMN",
        help="Rows with the same value in this column may depend on each other, such as several rows of one "
        "person.",
    ),
    click.option(
        "--mixing",
        type=float,
        metavar="RATE",
        help="The rows are a time series, in this order. The dependence of rows that are "
        "g apart is at most RATE^g.",
    ),
    click.option(
        "--after",
        multiple=True,
        help="An earlier table, if DATA is a later epoch (holdfast epoch). Repeat the option for each "
        "earlier table, in order.",
    ),
)


def account_options(command: _Command) -> _Command:
    """Let a command take every option about its account."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def book_place(data: str, ledger: Path | None, no_ledger: bool, after: tuple[str, ...]) -> Path | None:
    """Where the account is kept; None for an account without a file."""
    if ledger is not None and no_ledger:
        raise click.UsageError("--ledger and --no-ledger contradict each other.")
    return None if no_ledger else ledger or beside((*after, data)[0])


@contextmanager
def opened_account(
    data: str, ledger: Path | None, after: tuple[str, ...], options: AccountOptions
) -> Iterator[Guard]:
    """The guard to ask: that of the table, or that of its last epoch."""
    if not after:
        with opened(data, ledger, options) as guard:
            yield guard
        return
    if ledger is None or options != AccountOptions(options.train):
        raise click.UsageError(
            "The terms of an epoch were fixed when it was opened. With --after, leave out --no-ledger, "
            "--confidence, --promise, --error, --expect, --training-share, --split-seed, --clusters and "
            "--mixing."
        )
    with opened_epochs((*after, data), ledger, options.train) as guards:
        yield guards[-1]


@contextmanager
def opened_epochs(tables: Sequence[str], ledger: Path, train: str | None = None) -> Iterator[list[Guard]]:
    """The guards of a table's epochs in order, each on the terms of its opening. All are closed at the end.

    ``ledger`` is the account of the first epoch, and ``train`` its training file.
    """
    with opened(tables[0], ledger, AccountOptions(train)) as first:
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
    """The terms with which an epoch was opened; None if it was not opened."""
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
        f"No epoch was opened for {shown(table)} yet. Open one with: holdfast epoch open {table} {after}"
    )


_after = click.option(
    "--after", multiple=True, help="The table of an earlier epoch. Repeat it for each one, in order."
)
_ledger = click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="The account file of the first epoch.  [default: beside the first --after]",
)
_train = click.option("--train", help="The training file of the first epoch, if it has one.")
_service = click.option("--service", help="The address of a service that keeps the accounts.")
_dataset = click.option("--dataset", help="The dataset of the service, if the token reaches several.")
_token = click.option("--token", envvar="HOLDFAST_TOKEN", help="A token. It is safer to set HOLDFAST_TOKEN.")


@click.group()
def epoch() -> None:
    """Give rows that arrived later an account of their own.

    Such an account, with its rows, is called an epoch. Earlier accounts stay as they are.
    """


@epoch.command(name="open")
@click.argument("data")
@_after
@click.option(
    "--close",
    is_flag=True,
    help="Close the account before it for good. All of its rows become training rows of the new epoch.",
)
@click.option(
    "--confidence", type=float, help="The confidence of the new epoch.  [default: that of the epoch before]"
)
@click.option("--together", type=float, help="The confidence of all epochs together, later ones included.")
@_ledger
@_train
@_service
@_dataset
@_token
@json_option
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
    """Open an epoch for the rows in DATA.

    These rows must have arrived after all earlier rows. A second call continues the epoch.

    \b
      holdfast epoch open february.csv --after january.csv --close
      holdfast epoch open march.csv --after january.csv --after february.csv
      holdfast ask march.csv --after january.csv --after february.csv -q "share(paid)"

    With --service, an owner opens the epoch in a service. DATA is then one of its sources. Rows of an earlier
    epoch are refused if they are recognised. You must make sure that all rows are new, and that nobody chose
    them by their values.
    """
    _one_place(after, service)
    terms: dict[str, Any] = {"confidence": confidence, "together": together}
    if service is not None:
        if close or ledger is not None or train is not None:
            raise click.UsageError(
                "--close, --ledger and --train are for accounts of your own. An owner closes an account of a "
                "service with: holdfast admin close NAME"
            )
        with service_client(service, token, dataset) as client, client.next_epoch(data, **terms) as opened:
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
@json_option
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
    """List the epochs, and what is left of the account of each.

    \b
      holdfast epoch list february.csv --after january.csv
      holdfast epoch list --service http://127.0.0.1:8344 --dataset people
    """
    if service is not None:
        if data is not None or after:
            raise click.UsageError("A service knows its epochs: leave DATA and --after out.")
        with service_client(service, token, dataset) as client:
            _show_epochs(client.epochs, as_json)
        return
    from holdfast.server import standing

    if data is None:
        raise click.UsageError("Give a table, or --service URL.")
    tables = (*after, data)
    with opened_epochs(tables, ledger or beside(tables[0]), train) as guards:
        _show_epochs([standing(guard) for guard in guards], as_json)


def _one_place(after: tuple[str, ...], service: str | None) -> None:
    if bool(after) == (service is not None):
        raise click.UsageError("Give the earlier table with --after TABLE, or a service with --service URL.")


def service_client(service: str, token: str | None, dataset: str | None = None) -> Client:
    """A client of a service. The token may come from the environment, so it is checked here."""
    from holdfast.client import Client

    if token is None:
        raise click.UsageError("A service needs a token: set HOLDFAST_TOKEN, or give --token.")
    return Client(service, token, dataset=dataset)


def _show_epochs(epochs: Sequence[Mapping[str, Any]], as_json: bool) -> None:
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
