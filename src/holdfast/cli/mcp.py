"""``holdfast mcp``: the asking tools of a service for AI agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from mcp.server import MCPServer


@click.command()
@click.argument("url")
@click.option("--token", envvar="HOLDFAST_TOKEN", required=True, help="A token; better in HOLDFAST_TOKEN.")
@click.option("--dataset", help="Which dataset, if the token reaches several.")
@click.option("--receipts", type=click.Path(dir_okay=False), help="Keep receipts in this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the tools an agent is offered as data, and end.")
def mcp(url: str, token: str, dataset: str | None, receipts: str | None, as_json: bool) -> None:
    """Serve the asking tools of the service at URL over the Model Context Protocol, on standard input and
    output.

    The agent gets what the token may do, and pays from the same account as everyone else.
    """
    from holdfast.client import Client
    from holdfast.errors import MissingExtra

    try:
        from holdfast.server._agents import make_tools
    except ModuleNotFoundError:
        raise MissingExtra("server", what="Tools for agents") from None
    client = Client(url, token, dataset=dataset, receipts=receipts)
    tools = make_tools(client, may_report=_may_report(url, token, dataset))
    try:
        if as_json:
            print_data({"instructions": tools.instructions, "tools": _described(tools)})
        else:
            tools.run("stdio")
    finally:
        client.close()


def _may_report(url: str, token: str, dataset: str | None) -> bool:
    """Whether the token may give the last word; not where no service answers."""
    from holdfast.client import Client
    from holdfast.errors import HoldfastError

    with Client(url, token, dataset=dataset, tries=1, timeout=10) as client:
        try:
            return bool(client.describe()["may_report"])
        except (HoldfastError, KeyError):
            return False


def _described(tools: MCPServer) -> list[dict[str, Any]]:
    """What an agent reads of each tool, as the protocol lists them."""
    import asyncio

    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in asyncio.run(tools.list_tools())]
