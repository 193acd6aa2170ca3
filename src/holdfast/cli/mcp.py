"""``holdfast mcp``: asking tools for AI agents, about a table on this machine or a service's dataset."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from holdfast.cli._account import Terms
from holdfast.cli._account_options import account_options, opened_account, place_of
from holdfast.cli._output import print_data
from holdfast.errors import HoldfastError, QueryRejected

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from holdfast.guard import Guard


@click.command()
@click.argument("data", metavar="DATA_OR_URL")
@click.option(
    "--token", envvar="HOLDFAST_TOKEN", help="A token of the service at URL; better in HOLDFAST_TOKEN."
)
@click.option("--dataset", help="Which dataset of the service, if the token reaches several.")
@click.option("--receipts", type=click.Path(dir_okay=False), help="Keep the service's receipts in this file.")
@account_options
@click.option("--json", "as_json", is_flag=True, help="Print the tools an agent is offered as data, and end.")
def mcp(
    data: str,
    token: str | None,
    dataset: str | None,
    receipts: str | None,
    ledger: Path | None,
    no_ledger: bool,
    after: tuple[str, ...],
    as_json: bool,
    **terms: Any,
) -> None:
    """Serve asking tools over the Model Context Protocol, on standard input and output.

    \b
      holdfast mcp people.csv
      HOLDFAST_TOKEN=... holdfast mcp https://holdfast.example.org

    With DATA, a CSV or Parquet file, no service is needed. The account is kept beside the data, as holdfast
    ask keeps it, and every session goes on with it. With the URL of a service, the agent gets what the token
    may do, and pays from the same account as everyone else.
    """
    if data.startswith(("http://", "https://")):
        for name in ("ledger", "no_ledger", "after", *terms):
            if _given(name):
                raise click.UsageError(f"--{name.replace('_', '-')} is for a table, and not for a service.")
        _serve_service(data, token, dataset, receipts, as_json=as_json)
        return
    for name in ("token", "dataset", "receipts"):
        if _given(name):
            raise click.UsageError(f"--{name} is for a service: give its URL, http://… or https://…")
    _check_place(data, ledger, no_ledger, after)
    account = LocalAccount(
        lambda: opened_account(data, place_of(data, ledger, no_ledger, after), after, Terms(**terms))
    )
    try:
        _serve(_tools("make_local_tools")(account.guard), as_json=as_json)
    finally:
        account.close()


class LocalAccount:
    """The guard on a table of this machine, opened when the first tool needs it.

    A client of the protocol waits for the first greeting and sees nothing of a process that ends before it.
    So a missing file, or terms that differ from the account's, are told by every tool, and the next call
    tries again.
    """

    def __init__(self, open_account: Callable[[], AbstractContextManager[Guard]]) -> None:
        self._open = open_account
        self._lock = Lock()
        self._at_end = ExitStack()
        self._guard: Guard | None = None

    def guard(self) -> Guard:
        """The one guard of this process. Raises a HoldfastError or an OSError if it cannot be opened."""
        with self._lock:
            if self._guard is None:
                try:
                    self._guard = self._at_end.enter_context(self._open())
                except click.UsageError as error:
                    raise QueryRejected(error.format_message()) from None
            return self._guard

    def close(self) -> None:
        """Close the account book."""
        with self._lock:
            self._at_end.close()


def _given(name: str) -> bool:
    """Whether an option stands on the command line; a token in the environment does not count."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _check_place(data: str, ledger: Path | None, no_ledger: bool, after: tuple[str, ...]) -> None:
    """End at once where the options contradict each other; a file may still appear."""
    try:
        place_of(data, ledger, no_ledger, after)
    except HoldfastError as error:
        click.echo(f"holdfast: {error} The tools will say so too, until it is there.", err=True)


def _tools(name: str) -> Any:
    from holdfast import server
    from holdfast.errors import MissingExtra

    try:
        return getattr(server, name)
    except MissingExtra:
        raise MissingExtra("server", what="Tools for agents") from None


def _serve(tools: MCPServer, *, as_json: bool) -> None:
    if as_json:
        print_data({"instructions": tools.instructions, "tools": _described(tools)})
    else:
        tools.run("stdio")


def _serve_service(
    url: str, token: str | None, dataset: str | None, receipts: str | None, *, as_json: bool
) -> None:
    from holdfast.client import Client

    if token is None:
        raise click.UsageError("Missing option '--token', or HOLDFAST_TOKEN: a service wants one.")
    make_tools = _tools("make_tools")
    with Client(url, token, dataset=dataset, receipts=receipts) as client:
        _serve(make_tools(client, may_report=_may_report(url, token, dataset)), as_json=as_json)


def _may_report(url: str, token: str, dataset: str | None) -> bool:
    """Whether the token may give the last word; not where no service answers."""
    from holdfast.client import Client

    with Client(url, token, dataset=dataset, tries=1, timeout=10) as client:
        try:
            return bool(client.describe()["may_report"])
        except (HoldfastError, KeyError):
            return False


def _described(tools: MCPServer) -> list[dict[str, Any]]:
    """What an agent reads of each tool, as the protocol lists them."""
    import asyncio

    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in asyncio.run(tools.list_tools())]
