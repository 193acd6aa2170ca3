"""``holdfast serve`` and ``holdfast mcp``: accounts over HTTP, and as tools of an agent."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.console import Console

from holdfast.cli._output import print_data
from holdfast.cli.account import AccountOptions, account_options, book_place, opened_account
from holdfast.cli.books import books_password_file, with_password
from holdfast.errors import HoldfastError, QueryRejected

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from holdfast.guard import Guard
    from holdfast.server import Service, Settings
    from holdfast.typing import PersonRole


_WITNESS_SECONDS = 60


@click.command()
@click.argument("home", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    default=8344,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port to listen on; 0 takes any free port.",
)
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of tables that may be registered (default: HOME/data).",
)
@click.option(
    "--books",
    envvar="HOLDFAST_BOOKS",
    show_envvar=True,
    help="A PostgreSQL URL for the account books, for several processes or machines.",
)
@books_password_file
@click.option(
    "--allow-source",
    "allow",
    multiple=True,
    envvar="HOLDFAST_ALLOW_SOURCE",
    show_envvar=True,
    help="Allow tables of databases whose address begins like this, such as postgresql://db.example/town. "
    "May be repeated. Without it, only files can be registered.",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="HOLDFAST_KEY",
    show_envvar=True,
    help="The file of the signing key (default: HOME/key). Machines with the same books need the same key.",
)
@click.option("--replace-key", is_flag=True, help="Sign with this key, although the books name another one.")
@click.option(
    "--accept-restored",
    "restored",
    multiple=True,
    metavar="BOOK",
    help="Continue this book although it runs behind its mark. The book records this.",
)
@click.option(
    "--sign-in",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HOLDFAST_SIGN_IN",
    show_envvar=True,
    help="A TOML file: who may sign in through OpenID Connect or a proxy, and with which role.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus here, without a token.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What to log; info has a line for every request.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How log lines are written, to stderr.",
)
@click.option(
    "--witness",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append signed checkpoints of all books to this file, each minute and at the end.",
)
@click.option(
    "--drain",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds between a stop signal and the stop. Meanwhile /v1/ready answers 503.",
)
@click.option(
    "--demo",
    is_flag=True,
    help="Serve a demonstration: a dataset, a board and four tokens, in a temporary folder.",
)
@click.option(
    "--connections-per-address",
    "per_address",
    default=200,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="How many connections one address may have open. Everyone behind a proxy has one address.",
)
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    envvar="HOLDFAST_WORKERS",
    show_envvar=True,
    help="How many processes serve the folder, all behind one port.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address and new tokens as JSON.")
def serve(
    home: Path | None,
    host: str,
    port: int,
    sources: Path | None,
    books: str | None,
    books_password_file: Path | None,
    allow: tuple[str, ...],
    key: Path | None,
    replace_key: bool,
    restored: tuple[str, ...],
    sign_in: Path | None,
    metrics: str | None,
    log_level: str,
    log_format: str,
    witness: Path | None,
    drain: float,
    demo: bool,
    per_address: int,
    workers: int,
    as_json: bool,
) -> None:
    """Serve the datasets in HOME to many people. Each dataset has one account, which all of them share.

    The first start makes an owner's token and writes it to HOME/owner-token, which only its owner can read.
    Copy the token to a safe place, then delete the file. HOME contains everything that the service keeps: its
    key, tokens (as digests), datasets and account books. With --books, everything except the key is in that
    database.
    """
    if (home is None) != demo:
        raise click.UsageError("Give the folder to serve, or --demo for a demonstration.")
    from holdfast.server import Settings, listen, logging_to, serve_here, stopped_by_signal, supervise

    # Files that are written from here on can be read by their owner only.
    os.umask(0o077)
    _require_addresses(allow)
    if books is not None:
        books = with_password(books, books_password_file)
        _require_books(books)
    with ExitStack() as at_end:
        at_end.enter_context(stopped_by_signal())
        # Before a token is made: one that cannot be shown would be lost.
        places = [at_end.enter_context(place) for place in listen(host, port)]
        scraped = [at_end.enter_context(place) for place in listen(*_address(metrics))] if metrics else []
        if home is None:
            home = Path(at_end.enter_context(tempfile.TemporaryDirectory()))
        at_end.enter_context(logging_to(log_level, log_format))
        settings = Settings(
            home, sources, books, allow, key, sign_in, log_level, log_format, drain, per_address, workers
        )
        lost_key = _lost_key(home, key)
        service = settings.service(replace_key=replace_key)
        at_end.callback(service.close)
        if lost_key is not None:
            click.echo(
                f"There was no signing key at {lost_key}, but there are account books. A new key was made. "
                "Earlier receipts do not match it. If you have the old key, stop the service and put it "
                "back: docs/guides/runbook.md, Lost key.",
                err=True,
            )
        _hold_against_marks(service, restored)
        tokens = _demonstration(service) if demo else _first_owner(service)
        if witness is not None:
            at_end.enter_context(_witnessed(witness, service))
        announce = partial(_announce, settings, service, host, tokens=tokens, as_json=as_json, demo=demo)
        if workers > 1:
            supervise(settings, service, places, scraped, lambda port: announce(port=port))
        else:
            serve_here(settings, service, places, lambda port: announce(port=port), scraped=scraped)


def _address(text: str) -> tuple[str, int]:
    """The host and port of ``HOST:PORT``; the host may be an address in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--metrics must be HOST:PORT, such as 127.0.0.1:9344. Got {text}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


@contextmanager
def _witnessed(path: Path, service: Service) -> Iterator[None]:
    """Write checkpoints in a thread, and once more at the end.

    A failure to write is logged, and the next checkpoint tries again. No question waits for it.
    """
    from holdfast.ledger import Witness

    witness = Witness(path, service.places.all_books, service.key)
    stop = Event()

    def note() -> None:
        try:
            witness.note()
        except (HoldfastError, OSError) as error:
            logging.getLogger("holdfast.server").error("the witness cannot be written: %s", error)

    def watch() -> None:
        note()
        while not stop.wait(_WITNESS_SECONDS):
            note()

    thread = Thread(target=watch, name="witness", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        note()


def _require_addresses(allow: tuple[str, ...]) -> None:
    """Refuse what no address of a database begins with: it would allow nothing, and nobody would notice."""
    from holdfast.engines import is_database

    for text in allow:
        if not is_database(text):
            raise click.UsageError(
                f"--allow-source must be the beginning of an address of a database, such as "
                f"postgresql://db.example/town. Got {text}."
            )


def _lost_key(home: Path, key: Path | None) -> Path | None:
    """The place of the signing key if it is missing there, though the folder has account books."""
    place = home / "key" if key is None else key
    return place if not place.exists() and any((home / "books").glob("*.holdfast")) else None


def _require_books(books: str) -> None:
    """Check the database of books at the start, because every registration needs it."""
    from holdfast.engines import shown
    from holdfast.ledger import Book, BookError, is_postgres

    if not is_postgres(books):
        raise click.UsageError(
            f"--books must be the URL of a PostgreSQL database, such as postgresql://…. Got {shown(books)}. "
            "Without --books, account books are files in HOME."
        )
    try:
        Book(books).close()
    except BookError:
        raise HoldfastError(
            f"No account book can be opened in {shown(books)}, the address in --books. Check the address "
            "and the password, and that the database is running."
        ) from None


def _hold_against_marks(service: Service, restored: tuple[str, ...]) -> None:
    """Accept the restored books that the operator names. Print which other books run behind their marks."""
    for name in restored:
        if service.accept_restored(name):
            click.echo(f"The book {name} continues as it was restored. Close its account now.", err=True)
        else:
            click.echo(f"The book {name} does not run behind its mark. Nothing was changed.", err=True)
    for problem in service.behind():
        click.echo(problem, err=True)


def _first_owner(service: Service) -> dict[str, str]:
    """Make the first owner's token, and keep it in a file that only its owner can read.

    The file stays until the operator deletes it, because a program that starts the service may read it more
    than once. The token is not printed, because logs have other readers.
    """
    place = service.home / "owner-token"
    if service.tokens.all():
        if place.exists():
            click.echo(f"Copy the token in {place} to a safe place, then delete the file.", err=True)
        return {}
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        token = service.tokens.issue("owner", role="owner", days=3650)[0]
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    return {"owner": token}


def _demonstration(service: Service) -> dict[str, str]:
    from holdfast.server import Policy

    stones = resources.files("holdfast").joinpath("data", "diamonds.parquet")
    (service.sources / "diamonds.parquet").write_bytes(stones.read_bytes())
    service.datasets.register("diamonds", "diamonds.parquet", Policy(error=0.03))
    labels = service.sources / "diamonds.parquet"
    _expensive(labels, service.sources / "expensive.parquet")
    terms = {"target": "expensive", "start": 0.5}
    service.boards.register("expensive", "expensive.parquet", terms, blind=False)
    people: tuple[tuple[PersonRole, str, str], ...] = (
        ("owner", "olga", "*"),
        ("analyst", "ann", "*"),
        ("auditor", "ada", "*"),
        ("participant", "pia", "board:expensive"),
    )
    return {role: service.tokens.issue(name, role=role, dataset=reach)[0] for role, name, reach in people}


def _expensive(stones: Path, labels: Path) -> None:
    """Write the labels of a board to try: which stones cost more than half of them."""
    import pandas

    price = pandas.read_parquet(stones, columns=["price"])["price"]
    pandas.DataFrame({"id": range(len(price)), "expensive": (price > price.median()).astype(int)}).to_parquet(
        labels, index=False
    )


def _announce(
    settings: Settings,
    service: Service,
    host: str,
    port: int,
    tokens: dict[str, str],
    as_json: bool,
    demo: bool,
) -> None:
    """Print the address of the service, and where the first token is."""
    url = f"http://{'[' + host + ']' if ':' in host else host}:{port}"
    if as_json:
        print_data({"url": url, "tokens": tokens, "key": service.key.public})
        return
    console = Console(highlight=False)
    processes = f", in {settings.workers} processes" if settings.workers > 1 else ""
    console.print(f"Holdfast serves {url}{processes}", style="bold")
    if tokens and not demo:
        console.print(f"The owner's token is in {service.home / 'owner-token'}.", soft_wrap=True)
        console.print("Copy it to a safe place, then delete the file.", style="dim")
        return
    for role, token in tokens.items():
        console.print(f"  {role:<11} {token}", markup=False, soft_wrap=True)
    if tokens:
        console.print("Tokens are shown only once. Ctrl-C stops the service.", style="dim")


@click.command()
@click.argument("data", metavar="DATA_OR_URL")
@click.option(
    "--token",
    envvar="HOLDFAST_TOKEN",
    help="A token of the service at URL. It is safer to set HOLDFAST_TOKEN.",
)
@click.option("--dataset", help="The dataset of the service, if the token reaches several.")
@click.option(
    "--receipts", type=click.Path(dir_okay=False), help="Write the receipts of the service to this file."
)
@account_options
@click.option("--json", "as_json", is_flag=True, help="Print the tools for an agent as JSON, and stop.")
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
    """Serve tools with which AI agents ask questions.

    Agents talk to it over the Model Context Protocol, on standard input and output.

    \b
      holdfast mcp people.csv
      HOLDFAST_TOKEN=... holdfast mcp https://holdfast.example.org

    With DATA, a CSV or Parquet file, no service is needed. The account is kept beside the data, as with
    holdfast ask, and every session continues it. With the URL of a service, the agent may do what the token
    allows. It pays from the same account as everyone else.
    """
    if data.startswith(("http://", "https://")):
        for name in ("ledger", "no_ledger", "after", *terms):
            if _is_given(name):
                raise click.UsageError(f"--{name.replace('_', '-')} is for a table, not for a service.")
        _serve_service(data, token, dataset, receipts, as_json=as_json)
        return
    for name in ("token", "dataset", "receipts"):
        if _is_given(name):
            raise click.UsageError(f"--{name} is for a service: give its URL, http://… or https://…")
    _check_place(data, ledger, no_ledger, after)
    account = LocalAccount(
        lambda: opened_account(
            data, book_place(data, ledger, no_ledger, after), after, AccountOptions.of(**terms)
        )
    )
    try:
        _serve(_tools("make_local_tools")(account.guard), as_json=as_json)
    finally:
        account.close()


class LocalAccount:
    """The guard on a table of this machine, opened when the first tool needs it.

    A client of the protocol sees nothing of a process that ends before the first message. So a missing file,
    or terms that differ from the account's, do not end the process: every tool answers with the error, and
    the next call tries again.
    """

    def __init__(self, open_account: Callable[[], AbstractContextManager[Guard]]) -> None:
        self._open = open_account
        self._lock = Lock()
        self._at_end = ExitStack()
        self._guard: Guard | None = None

    def guard(self) -> Guard:
        """The guard of this process. Raises a HoldfastError or an OSError if it cannot be opened."""
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


def _is_given(name: str) -> bool:
    """Whether an option was given on the command line, and not by the environment."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _check_place(data: str, ledger: Path | None, no_ledger: bool, after: tuple[str, ...]) -> None:
    """Refuse options that contradict each other. A missing file is only a warning: it may still appear."""
    try:
        book_place(data, ledger, no_ledger, after)
    except HoldfastError as error:
        click.echo(f"holdfast: {error} Until the file is there, the tools answer with this error.", err=True)


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
        raise click.UsageError(
            "Missing option '--token'. A service needs a token: set HOLDFAST_TOKEN, or give --token."
        )
    make_tools = _tools("make_tools")
    with Client(url, token, dataset=dataset, receipts=receipts) as client:
        _serve(make_tools(client, may_report=_may_report(url, token, dataset)), as_json=as_json)


def _may_report(url: str, token: str, dataset: str | None) -> bool:
    """Whether the token may give the report; False if the service does not answer."""
    from holdfast.client import Client

    with Client(url, token, dataset=dataset, tries=1, timeout=10) as client:
        try:
            return bool(client.describe()["may_report"])
        except (HoldfastError, KeyError):
            return False


def _described(tools: MCPServer) -> list[dict[str, Any]]:
    """The description of each tool, as an agent gets it."""
    import asyncio

    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in asyncio.run(tools.list_tools())]
