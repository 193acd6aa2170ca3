"""``holdfast admin``: changes that an owner makes to a running service, over HTTP."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli._output import json_option, print_data

if TYPE_CHECKING:
    from holdfast.admin import Admin
    from holdfast.typing import PersonRole, ReportRight

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ROLES = click.Choice(["owner", "analyst", "auditor", "participant", "submitter"])


def _connected(command: _Command) -> _Command:
    """Add the options for the address, the token and the output."""
    options = (
        click.option(
            "--service",
            envvar="HOLDFAST_SERVICE",
            show_envvar=True,
            default="http://127.0.0.1:8344",
            show_default=True,
            help="The address of the service.",
        ),
        click.option(
            "--token", envvar="HOLDFAST_TOKEN", help="An owner's token. It is safer to set HOLDFAST_TOKEN."
        ),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.group()
def admin() -> None:
    """Change shares, people and datasets of a service while it runs.

    Needs an owner's token in HOLDFAST_TOKEN. Every change is recorded in a book. Exit status: 0 done; 1 the
    service refused, or you did not confirm; 2 bad input.
    """


@admin.command()
@_connected
def datasets(service: str, token: str | None, as_json: bool) -> None:
    """List all datasets, archived and deleted ones included."""
    with _admin(service, token) as admin_client:
        listed = admin_client.datasets()
    if as_json:
        print_data(listed)
        return
    rows = [(entry["name"], entry["state"], entry.get("broken") or _left(entry)) for entry in listed]
    _print_table(("dataset", "state", "left"), rows)


@admin.command()
@click.argument("dataset")
@click.option(
    "--share",
    "shares",
    multiple=True,
    metavar="WHO=NATS",
    help="The share of a person (team/name) or of a team.",
)
@click.option("--no-share", "without", multiple=True, metavar="WHO", help="Take a share away.")
@click.option("--rate", type=int, help="New questions that a person may ask in a minute.")
@click.option("--report", type=click.Choice(["owner", "analyst"]), help="Who may give the report.")
@_connected
def terms(
    dataset: str,
    shares: tuple[str, ...],
    without: tuple[str, ...],
    rate: int | None,
    report: ReportRight | None,
    service: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Show or change the terms of DATASET.

    A change holds from the next question on.

    \b
      holdfast admin terms people
      holdfast admin terms people --share red/bob=5 --share blue=20 --rate 60
      holdfast admin terms people --no-share red/bob
    """
    changed: dict[str, float | None] = {**_shares(shares), **dict.fromkeys(without)}
    with _admin(service, token) as admin_client:
        if changed or rate is not None or report is not None:
            terms_now = admin_client.change_terms(dataset, shares=changed or None, rate=rate, report=report)
        else:
            terms_now = admin_client.terms(dataset)
    if as_json:
        print_data(terms_now)
        return
    console = Console(highlight=False)
    console.print(
        f"{dataset}: {terms_now['rate']:,} new questions a minute; report by {terms_now['report']}.",
        markup=False,
    )
    for holder, share in sorted(terms_now["shares"].items()):
        console.print(f"  {holder}: {share:g}", markup=False)
    if not terms_now["shares"]:
        console.print("  No shares: everyone may use the whole account.", style="dim")


@admin.command()
@click.argument("dataset")
@_yes
@_connected
def close(dataset: str, yes: bool, service: str, token: str | None, as_json: bool) -> None:
    """Close the account of DATASET for good. Earlier answers stay readable."""
    _confirm(f"Close the account of {dataset} for good? Nobody can ask it anything afterwards.", yes)
    with _admin(service, token) as admin_client:
        described = admin_client.close_account(dataset)
    _print_result(described, f"The account of {dataset} is closed.", as_json)


@admin.command()
@click.argument("dataset")
@_connected
def archive(dataset: str, service: str, token: str | None, as_json: bool) -> None:
    """Stop serving DATASET, until `holdfast admin unarchive`."""
    with _admin(service, token) as admin_client:
        state = admin_client.archive(dataset)
    _print_result(
        state, f"{dataset} is archived. To serve it again: holdfast admin unarchive {dataset}", as_json
    )


@admin.command()
@click.argument("dataset")
@_connected
def unarchive(dataset: str, service: str, token: str | None, as_json: bool) -> None:
    """Serve an archived DATASET again."""
    with _admin(service, token) as admin_client:
        state = admin_client.unarchive(dataset)
    _print_result(state, f"{dataset} is served again.", as_json)


@admin.command()
@click.argument("dataset")
@click.option(
    "--confirm", metavar="NAME", help="The name of the dataset once more, to delete it without a prompt."
)
@_connected
def delete(dataset: str, confirm: str | None, service: str, token: str | None, as_json: bool) -> None:
    """Close every account of DATASET and remove it, for good.

    Its account books stay, so that receipts can be verified. The same rows cannot be registered again. Files
    of rows are not deleted.
    """
    if confirm is None:
        _require_terminal("--confirm NAME")
        confirm = click.prompt(f"This cannot be undone. Type {dataset} to delete it", err=True)
    if confirm != dataset:
        _stop_unchanged()
    with _admin(service, token) as admin_client:
        state = admin_client.delete(dataset, confirm=confirm)
    _print_result(state, f"{dataset} is deleted. Its account book can still be exported.", as_json)


@admin.command()
@click.argument("dataset")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--to", metavar="KEY", help="The public key of the service that takes over the account.")
@_yes
@_connected
def export(
    dataset: str, file: Path, to: str | None, yes: bool, service: str, token: str | None, as_json: bool
) -> None:
    """Write DATASET to FILE, without its rows.

    FILE gets the registration and the account books. Without --to, FILE is a copy. With --to the account is
    closed here, and only the service with that key can continue it. FILE contains secrets of the books: store
    it as safely as the folder of the service.
    """
    if to is not None:
        _confirm(f"Hand the account of {dataset} over to {to}? It is closed here for good.", yes)
    with _admin(service, token) as admin_client:
        admin_client.export(dataset, file, to=to)
        key = admin_client.key()
    exported = {"dataset": dataset, "file": str(file), "to": to, "key": key}
    _print_result(
        exported,
        f"Exported {dataset} to {file}. To import it: holdfast admin import {file} --key {key}",
        as_json,
    )


@admin.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key", required=True, help="The public key of the service that exported it: ed25519:…")
@click.option("--name", help="The name of the dataset in this service.  [default: as it was]")
@_connected
def take_in(file: Path, key: str, name: str | None, service: str, token: str | None, as_json: bool) -> None:
    """Import a dataset from FILE. Put its rows into the folder of sources first."""
    with _admin(service, token) as admin_client:
        imported = admin_client.take_in(file, key=key, name=name)
    account_words = (
        "its account continues here" if imported["open"] else "it is a copy, and its account is closed"
    )
    _print_result(imported, f"{imported['name']} is imported: {account_words}.", as_json)


@admin.command()
@_connected
def people(service: str, token: str | None, as_json: bool) -> None:
    """List everyone who was given a token, with revoked tokens."""
    with _admin(service, token) as admin_client:
        listed = admin_client.people()
    if as_json:
        print_data(listed)
        return
    rows = [
        (
            person["identity"],
            f"{person['team']}/{person['name']}",
            person["role"],
            person["dataset"],
            "revoked" if person["revoked"] else _day(person["expires"]),
        )
        for person in listed
    ]
    _print_table(("identity", "who", "role", "reaches", "until"), rows)


@admin.command()
@click.argument("name")
@click.option("--role", required=True, type=_ROLES)
@click.option("--team", default="", help="The team whose share the person uses.")
@click.option(
    "--dataset",
    default="*",
    show_default=True,
    help="What the token reaches: NAME, board:NAME, gate:NAME or *.",
)
@click.option("--days", default=90.0, show_default=True, type=float, help="How long the token lasts.")
@_connected
def add(
    name: str,
    role: PersonRole,
    team: str,
    dataset: str,
    days: float,
    service: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Give NAME a token. It is shown only once."""
    with _admin(service, token) as admin_client:
        issued = admin_client.issue(name, role=role, team=team, dataset=dataset, days=days)
    _print_result(issued, issued["token"], as_json)


@admin.command()
@click.argument("identity")
@click.option("--role", type=_ROLES, help="The new role.")
@click.option("--dataset", help="What the token reaches now.")
@click.option("--days", type=float, help="How long the token lasts from now on.")
@_connected
def change(
    identity: str,
    role: PersonRole | None,
    dataset: str | None,
    days: float | None,
    service: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Change the token IDENTITY (see `holdfast admin people`). Its name and team stay."""
    if role is None and dataset is None and days is None:
        raise click.UsageError("Give at least one of --role, --dataset and --days.")
    with _admin(service, token) as admin_client:
        changed = admin_client.change_token(identity, role=role, dataset=dataset, days=days)
    until = _day(changed["expires"])
    _print_result(
        changed, f"{changed['name']}: {changed['role']} of {changed['dataset']} until {until}.", as_json
    )


@admin.command()
@click.argument("identity")
@_connected
def revoke(identity: str, service: str, token: str | None, as_json: bool) -> None:
    """Revoke the token IDENTITY now (see `holdfast admin people`)."""
    with _admin(service, token) as admin_client:
        admin_client.revoke(identity)
    _print_result({"identity": identity, "revoked": True}, "The token is revoked.", as_json)


@admin.command()
@click.option(
    "--export",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the book to a file that `holdfast verify` checks.",
)
@_connected
def log(target: Path | None, service: str, token: str | None, as_json: bool) -> None:
    """List the changes that owners made. The service records them in a book."""
    with _admin(service, token) as admin_client:
        acts = admin_client.acts()
        if target is not None:
            admin_client.export_acts(target)
    if as_json:
        print_data(acts)
        return
    rows = [(str(act["line"]), _moment(act["time"]), act["by"], act["act"], _about(act)) for act in acts]
    _print_table(("line", "time", "by", "change", "about"), rows)


def _admin(service: str, token: str | None) -> Admin:
    from holdfast.admin import Admin

    if token is None:
        raise click.UsageError("An owner's token is needed: set HOLDFAST_TOKEN, or give --token.")
    return Admin(service, token)


def _shares(assignments: Sequence[str]) -> dict[str, float]:
    shares = {}
    for assignment in assignments:
        holder, sign, share = assignment.rpartition("=")
        try:
            shares[holder] = float(share)
        except ValueError:
            sign = ""
        if not sign or not holder:
            raise click.UsageError(f"--share must be WHO=NATS, such as red/bob=5. Got {assignment}.")
    return shares


def _confirm(question: str, yes: bool) -> None:
    """Ask for confirmation of a step that cannot be undone."""
    if yes:
        return
    _require_terminal("--yes")
    if not click.confirm(question, err=True):
        _stop_unchanged()


def _require_terminal(option: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"This cannot be undone. Without a terminal, confirm it with {option}.")


def _stop_unchanged() -> None:
    click.echo("Nothing was changed.", err=True)
    raise SystemExit(1)


def _print_result(data: Mapping[str, Any], words: str, as_json: bool) -> None:
    if as_json:
        print_data(data)
    else:
        Console(highlight=False).print(words, markup=False, soft_wrap=True)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def _left(dataset: dict[str, Any]) -> str:
    return "closed" if dataset.get("closed") else str(dataset.get("words", ""))


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _about(act: dict[str, Any]) -> str:
    if "token" in act:
        token = act["token"]
        return f"{token['team']}/{token['name']} ({token['role']}, {token['dataset']})"
    for kind in ("board", "gate"):
        if kind in act:
            return f"{kind}:{act[kind]}"
    return str(act.get("dataset", act.get("of", "")))
