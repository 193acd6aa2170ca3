"""``holdfast epoch``: rows that arrived later, with an account of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli._account import beside
from holdfast.cli._epochs import opened_epochs
from holdfast.cli._output import print_data
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.client import Client

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
            _show(opened.epochs, as_json)
        return
    from holdfast.engines import open_rows
    from holdfast.server._epochs import standing

    open_rows(data)  # What cannot be opened closes no account.
    with opened_epochs(after, ledger or beside(after[0]), train) as guards:
        guards.append(guards[-1].next_epoch(data, close=close, **terms))
        _show([standing(guard) for guard in guards], as_json)


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
            _show(client.epochs, as_json)
        return
    from holdfast.server._epochs import standing

    if data is None:
        raise click.UsageError("Say which table, or --service.")
    tables = (*after, data)
    with opened_epochs(tables, ledger or beside(tables[0]), train) as guards:
        _show([standing(guard) for guard in guards], as_json)


def _one_place(after: tuple[str, ...], service: str | None) -> None:
    if bool(after) == (service is not None):
        raise click.UsageError("Say what the rows come after: --after TABLE, or --service URL.")


def _client(service: str, token: str | None, dataset: str | None) -> Client:
    from holdfast.client import Client

    if token is None:
        raise click.UsageError("A service wants a token: set HOLDFAST_TOKEN, or say --token.")
    return Client(service, token, dataset=dataset)


def _show(epochs: Sequence[dict[str, Any]], as_json: bool) -> None:
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
    for one in epochs:
        left = "closed" if one["closed"] else one["words"]
        table.add_row(
            str(one["epoch"]),
            f"{one['rows']:,}",
            f"{one['confidence']:.4g}",
            f"{one['together']:.4g}",
            amount(one["spent"], one["unit"]),
            left,
        )
    console.print(table)
