"""``holdfast serve``: a service for a team, and a demonstration of one."""

from __future__ import annotations

import gc
import sys
import tempfile
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from holdfast.cli._listen import listen
from holdfast.cli._output import print_data
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import socket

    from holdfast.server import Service


@click.command()
@click.argument("home", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8344, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder that datasets may be registered from (default: HOME/data).",
)
@click.option("--books", help="A PostgreSQL URL for the account books, for several processes or machines.")
@click.option(
    "--demo", is_flag=True, help="A dataset, a board and four tokens in a folder that is deleted at the end."
)
@click.option(
    "--connections-per-address",
    "per_address",
    default=200,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="How many connections one address may have open. A proxy is one address: give it room.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address and new tokens as data.")
def serve(
    home: Path | None,
    host: str,
    port: int,
    sources: Path | None,
    books: str | None,
    demo: bool,
    per_address: int,
    as_json: bool,
) -> None:
    """Let many people ask the datasets in HOME, each dataset from one account.

    The first start prints an owner's token; it is shown this once. Everything the service knows is in HOME:
    its key, tokens (as digests), datasets and account books.
    """
    if (home is None) != demo:
        raise click.UsageError("Say which folder to serve, or --demo for a demonstration.")
    from holdfast.server import Service

    if books is not None:
        _require_books(books)
    with ExitStack() as at_end:
        # Before a token is made: one that cannot be shown would be lost.
        places = [at_end.enter_context(place) for place in listen(host, port)]
        if home is None:
            home = Path(at_end.enter_context(tempfile.TemporaryDirectory()))
        service = Service(home, sources=sources, books=books)
        at_end.callback(service.close)
        tokens = _demonstration(service) if demo else _first_owner(service)
        _run(service, host, places, tokens, per_address, as_json)


def _require_books(books: str) -> None:
    """Refuse at the start what every registration would stumble over."""
    from holdfast.engines._address import shown
    from holdfast.ledger import Book, BookError
    from holdfast.ledger._places import is_postgres

    if not is_postgres(books):
        raise click.UsageError(
            f"--books must be the URL of a PostgreSQL database, as postgresql://…. Got {shown(books)}; "
            "without --books they are files in HOME."
        )
    try:
        Book(books).close()
    except BookError:
        raise HoldfastError(
            f"No account book can be opened in {shown(books)}, which --books says. Check the address, and "
            "that the database runs and lets you in."
        ) from None


def _first_owner(service: Service) -> dict[str, str]:
    if service.tokens.all():
        return {}
    return {"owner": service.tokens.issue("owner", role="owner", days=3650)[0]}


def _demonstration(service: Service) -> dict[str, str]:
    from holdfast.server import Policy

    stones = resources.files("holdfast").joinpath("data", "diamonds.parquet")
    (service.sources / "diamonds.parquet").write_bytes(stones.read_bytes())
    service.datasets.register("diamonds", "diamonds.parquet", Policy(error=0.03))
    labels = service.sources / "diamonds.parquet"
    _expensive(labels, service.sources / "expensive.parquet")
    terms = {"target": "expensive", "start": 0.5}
    service.boards.register("expensive", "expensive.parquet", terms, blind=False)
    people = (
        ("owner", "olga", "*"),
        ("analyst", "ann", "*"),
        ("auditor", "ada", "*"),
        ("participant", "pia", "board:expensive"),
    )
    return {role: service.tokens.issue(name, role=role, dataset=reach)[0] for role, name, reach in people}


def _expensive(stones: Path, labels: Path) -> None:
    """A board to try: which stones cost more than most?"""
    import pandas

    price = pandas.read_parquet(stones, columns=["price"])["price"]
    pandas.DataFrame({"id": range(len(price)), "expensive": (price > price.median()).astype(int)}).to_parquet(
        labels, index=False
    )


def _run(
    service: Service,
    host: str,
    places: list[socket.socket],
    tokens: dict[str, str],
    per_address: int,
    as_json: bool,
) -> None:
    import uvicorn

    from holdfast.server import create_app
    from holdfast.server._connections import connections_here, watched_protocol
    from holdfast.server._limits import Limits

    limits = Limits(connections=connections_here(per_address), connections_per_address=per_address)

    def started(port: int) -> None:
        url = f"http://{'[' + host + ']' if ':' in host else host}:{port}"
        if as_json:
            print_data({"url": url, "tokens": tokens, "key": service.key.public})
            return
        console = Console(highlight=False)
        console.print(f"Holdfast serves {url}", style="bold")
        for role, token in tokens.items():
            console.print(f"  {role:<11} {token}", markup=False, soft_wrap=True)
        if tokens:
            console.print("Tokens are shown this once. Ctrl-C stops the service.", style="dim")

    class Announced(uvicorn.Server):
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets)  # type: ignore[arg-type]
            if self.started:
                started(self.servers[0].sockets[0].getsockname()[1])

    # Requests are not logged: who asked what is in the book, and nowhere else. Who forwards them is no
    # business of ours either: a token says who asks.
    config = uvicorn.Config(
        create_app(service, limits=limits),
        http=watched_protocol(limits),
        ws="none",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    # The event loop waits for Python's lock behind threads that compute, for up to this long behind each.
    sys.setswitchinterval(0.001)
    # What is here now stays until the end: no collection needs to look through it while people wait.
    gc.collect()
    gc.freeze()
    Announced(config).run(sockets=places)
