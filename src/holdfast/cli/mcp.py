"""``holdfast mcp``: the asking tools of a service for AI agents."""

from __future__ import annotations

import click


@click.command()
@click.argument("url")
@click.option("--token", envvar="HOLDFAST_TOKEN", required=True, help="A token; better in HOLDFAST_TOKEN.")
@click.option("--dataset", help="Which dataset, if the token reaches several.")
@click.option("--receipts", type=click.Path(dir_okay=False), help="Keep receipts in this file.")
def mcp(url: str, token: str, dataset: str | None, receipts: str | None) -> None:
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
    try:
        make_tools(client).run("stdio")
    finally:
        client.close()
