"""``holdfast serve``: a service for a team, and a demonstration of one."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

import click
from rich.console import Console

from holdfast.cli._listen import listen
from holdfast.cli._output import print_data
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.cli._serving import Settings
    from holdfast.server import Service

_WITNESS_SECONDS = 60


@click.command()
@click.argument("home", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8344, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder that datasets may be registered from (default: HOME/data).",
)
@click.option(
    "--books",
    envvar="HOLDFAST_BOOKS",
    show_envvar=True,
    help="A PostgreSQL URL for the account books, for several processes or machines.",
)
@click.option(
    "--books-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HOLDFAST_BOOKS_PASSWORD_FILE",
    show_envvar=True,
    help="A file with the password for --books. One in a command can be read by everyone on the machine.",
)
@click.option(
    "--allow-source",
    "allow",
    multiple=True,
    envvar="HOLDFAST_ALLOW_SOURCE",
    show_envvar=True,
    help="The beginning of addresses of databases whose tables may be registered, such as "
    "postgresql://db.example/town; may be given several times. Without it: files only.",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="HOLDFAST_KEY",
    show_envvar=True,
    help="The file of the signing key (default: HOME/key). Machines that share books share it.",
)
@click.option("--replace-key", is_flag=True, help="Sign with this key though the books name another one.")
@click.option(
    "--accept-restored",
    "restored",
    multiple=True,
    metavar="BOOK",
    help="Go on with this book though it runs behind its mark, and write that down in it.",
)
@click.option(
    "--sign-in",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HOLDFAST_SIGN_IN",
    show_envvar=True,
    help="A TOML file that says who may sign in by an OpenID Connect provider or by a proxy, and as what.",
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
    help="Append signed checkpoints of all books to this file, every minute and at the end.",
)
@click.option(
    "--drain",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds between a stop signal and the stop; meanwhile /v1/ready says 503.",
)
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
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    envvar="HOLDFAST_WORKERS",
    show_envvar=True,
    help="How many processes serve the folder, behind one port.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address and new tokens as data.")
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
    """Let many people ask the datasets in HOME, each dataset from one account.

    The first start makes an owner's token and writes it to HOME/owner-token, which only its owner can read.
    Take it from there, then delete the file. Everything the service knows is in HOME: its key, tokens (as
    digests), datasets and account books; with --books all but the key is in that database.
    """
    if (home is None) != demo:
        raise click.UsageError("Say which folder to serve, or --demo for a demonstration.")
    from holdfast.cli._serving import Settings, serve_here, stopped_by_signal
    from holdfast.cli._workers import supervise
    from holdfast.server._logs import logging_to

    # Whatever is written from here on is for the eyes of its owner only.
    os.umask(0o077)
    if books is not None:
        books = _with_password(books, books_password_file)
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
        service = settings.service(replace_key=replace_key)
        at_end.callback(service.close)
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
        raise click.UsageError(f"--metrics must be HOST:PORT, as 127.0.0.1:9344. Got {text}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


@contextmanager
def _witnessed(path: Path, service: Service) -> Iterator[None]:
    """Write checkpoints in a thread, and once more at the end. A witness that cannot be written is logged and
    tried again: nobody's question waits for it."""
    from holdfast.ledger import Witness
    from holdfast.server._readiness import books_of

    witness = Witness(path, books_of(service), service.key)
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


def _require_books(books: str) -> None:
    """Refuse at the start what every registration would stumble over."""
    from holdfast.engines._files import shown
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


def _with_password(books: str, file: Path | None) -> str:
    """The address with the password from a file in it."""
    if file is None:
        return books
    parts = urlsplit(books)
    password = file.read_text(encoding="utf-8").strip("\r\n")
    if not password or parts.password:
        raise click.UsageError(
            "--books-password-file must hold a password, and then --books must have none of its own."
        )
    machine = parts.netloc.rpartition("@")[2]
    person = f"{parts.username or ''}:{quote(password, safe='')}@"
    return urlunsplit(parts._replace(netloc=f"{person}{machine}"))


def _hold_against_marks(service: Service, restored: tuple[str, ...]) -> None:
    """Take back the books that the operator names, and say which others run behind their marks."""
    for name in restored:
        if service.accept_restored(name):
            click.echo(f"The book {name} goes on as it was put back. Close its account now.", err=True)
        else:
            click.echo(f"The book {name} does not run behind its mark; nothing was changed.", err=True)
    for problem in service.behind():
        click.echo(problem, err=True)


def _first_owner(service: Service) -> dict[str, str]:
    """Make the first owner's token, and keep it in a file that only its owner can read.

    The file stays until the operator deletes it: what starts the service may read it more than once, and
    what the service prints ends up in logs that others read.
    """
    place = service.home / "owner-token"
    if service.tokens.all():
        if place.exists():
            click.echo(f"Keep the token in {place} somewhere safe, then delete the file.", err=True)
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


def _announce(
    settings: Settings,
    service: Service,
    host: str,
    port: int,
    tokens: dict[str, str],
    as_json: bool,
    demo: bool,
) -> None:
    """Say where the service is, and where the first token is."""
    url = f"http://{'[' + host + ']' if ':' in host else host}:{port}"
    if as_json:
        print_data({"url": url, "tokens": tokens, "key": service.key.public})
        return
    console = Console(highlight=False)
    processes = f", in {settings.workers} processes" if settings.workers > 1 else ""
    console.print(f"Holdfast serves {url}{processes}", style="bold")
    if tokens and not demo:
        console.print(f"The owner's token is in {service.home / 'owner-token'}.", soft_wrap=True)
        console.print("Keep it somewhere safe, then delete the file.", style="dim")
        return
    for role, token in tokens.items():
        console.print(f"  {role:<11} {token}", markup=False, soft_wrap=True)
    if tokens:
        console.print("Tokens are shown this once. Ctrl-C stops the service.", style="dim")
