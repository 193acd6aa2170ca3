"""``holdfast gate``: keep a candidate only if it is shown to be better.

Exit status of ``submit`` and ``run``: 0 promoted, 1 not shown to be better, 2 bad input.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from holdfast.cli._output import json_option, print_data
from holdfast.cli.account import service_client
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.guard import Gate, Verdict
    from holdfast.results import Results

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RESULTS_MARK = "{results}"
_ENDS = "A report closes the gate for good: no candidate can be submitted after it."

_READING = (
    click.option("--format", help="The format of the results.  [default: recognised by content]"),
    click.option("--metric", help="Which score to read, where the results have several."),
    click.option("--task", help="CSV and JSON Lines: the column of task ids.  [default: task]"),
    click.option("--score", help="CSV and JSON Lines: the column of scores.  [default: score]"),
    click.option("--output", help="CSV and JSON Lines: a column of outputs."),
    click.option("--filter", help="lm-evaluation-harness: which filter's scores to read."),
)
_SUMMARY = click.option(
    "--summary",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the verdict to this file, as Markdown for a pull request.",
)
_SERVICE = (
    click.option(
        "--service",
        "--url",
        "service",
        help="The address of a service that keeps the gate. GATE is then the name of the gate.",
    ),
    click.option("--token", envvar="HOLDFAST_TOKEN", help="A token. It is safer to set HOLDFAST_TOKEN."),
)
_NAME = click.option(
    "--name",
    help="The name of the candidate, such as a commit. A name that was used gets its first verdict again.",
)


@click.group()
def gate() -> None:
    """Keep a candidate only if it is shown to be better.

    The promise holds for any number of candidates.

    \b
      holdfast gate power --tasks 300 --candidates 20
      holdfast gate open agent.gate baseline.jsonl --expect 20
      holdfast gate run agent.gate --name v2 -- pytest --junitxml {results}
      holdfast gate submit agent.gate v2.jsonl --name v2
      holdfast gate status agent.gate
      holdfast gate report agent.gate
      holdfast gate run agent --service https://gates.example.org --name v2 -- pytest --junitxml {results}

    GATE is the file, or the PostgreSQL URL, that keeps the account of the gate. With --service it is the name
    of a gate. With probability --confidence no promotion is ever wrong, if tasks are independent and the
    people or programs that make candidates see verdicts only.
    """


def _reading_options(command: _Command) -> _Command:
    for option in reversed(_READING):
        command = option(command)
    return command


def _service_options(command: _Command) -> _Command:
    for option in reversed(_SERVICE):
        command = option(command)
    return command


@gate.command("open")
@click.argument("place", metavar="GATE")
@click.argument("incumbent", metavar="RESULTS", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="The name of the incumbent.")
@click.option(
    "--promise",
    type=click.Choice(["family", "fdr"]),
    default="family",
    show_default=True,
    help="family: no promotion is ever wrong. fdr: few of the promotions are wrong.",
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="The probability with which the promise holds.",
)
@click.option(
    "--expect",
    type=float,
    help="About how many candidates there will be. A hint: the promise holds for any number.",
)
@click.option("--minimum", type=float, default=0.0, help="Promote only candidates that gain more than this.")
@click.option("--step", type=float, help="Show margins in steps of this size.")
@click.option("--cluster", help="The column of clusters. Tasks of one cluster may depend on each other.")
@click.option(
    "--weight",
    type=click.Choice(["tasks", "clusters"]),
    default="tasks",
    show_default=True,
    help="With clusters: the gain of the average task, or of the average cluster.",
)
@click.option(
    "--scores",
    type=click.Choice(["auto", "binary", "fractions"]),
    default="auto",
    show_default=True,
    help="Whether every score is 0 or 1.",
)
@click.option(
    "--public-inputs",
    is_flag=True,
    help="The makers of candidates know the inputs of the tasks. Verdicts are then about these tasks only.",
)
@_reading_options
@json_option
def open_gate(
    place: str,
    incumbent: Path,
    cluster: str | None,
    public_inputs: bool,
    as_json: bool,
    format: str | None,
    metric: str | None,
    task: str | None,
    score: str | None,
    output: str | None,
    filter: str | None,
    **terms: Any,
) -> None:
    """Open a gate. RESULTS are the results of the incumbent."""
    from holdfast.guard import Gate
    from holdfast.ledger import Book

    file = None if "://" in place else Path(place)
    if file is not None and file.exists():
        raise QueryRejected(f"There is a gate in {place!r} already. Give another file for a new gate.")
    reading = _without_none(
        format=format, metric=metric, task=task, score=score, output=output, filter=filter, cluster=cluster
    )
    results = _read(incumbent, reading)
    if file is not None:
        file.touch(mode=0o600, exist_ok=False)  # It will hold scores.
    book = Book(place)
    try:
        opened = Gate(
            None,
            incumbent=results,
            clusters=results.clusters,
            inputs="public" if public_inputs else "hidden",
            reading=reading,
            ledger=book,
            **terms,
        )
    except BaseException:
        book.close()
        if file is not None:
            file.unlink(missing_ok=True)  # A gate that was not opened leaves no file behind.
        raise
    try:
        _show_status(opened, as_json=as_json)
    finally:
        opened.close()


@gate.command()
@click.argument("place", metavar="GATE")
@click.argument("results", type=click.Path(exists=True, path_type=Path))
@_NAME
@click.option("--sealed", is_flag=True, help="Nobody has seen these scores.")
@_reading_options
@_service_options
@_SUMMARY
@json_option
def submit(
    place: str,
    results: Path,
    name: str | None,
    sealed: bool,
    service: str | None,
    token: str | None,
    summary: Path | None,
    as_json: bool,
    **options: str | None,
) -> None:
    """Compare the candidate in RESULTS with the incumbent of GATE.

    RESULTS are read as those of the incumbent were. Prefer `holdfast gate run`: the promise does not cover
    scores that somebody has seen.

    With --service the scores are sent to a service. A submitter's token cannot see how the results of the
    incumbent were read, so give the same options again.
    """
    if service is not None:
        if name is None:
            raise click.UsageError("--name is needed: a service recognises a candidate by its name.")
        if sealed:
            raise click.UsageError(
                "--sealed is for gates of your own. In a service, the role of the token decides."
            )
        with service_client(service, token) as client:
            verdict = client.gate_submit(place, results, name, reading=_without_none(**options))
        _tell(verdict, summary, as_json=as_json)
        return
    with _opened(place) as opened:
        candidate = _read(results, opened.reading | _without_none(**options))
        verdict = opened.submit(candidate, name, sealed=sealed)
    _tell(verdict, summary, as_json=as_json)


@gate.command(context_settings={"ignore_unknown_options": True})
@click.argument("place", metavar="GATE")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_NAME
@click.option(
    "--results",
    default="results",
    show_default=True,
    help="The name of the file or folder that {results} stands for.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the output of the COMMAND here. The makers of candidates must not read it.",
)
@_reading_options
@_service_options
@_SUMMARY
@json_option
def run(
    place: str,
    command: tuple[str, ...],
    name: str | None,
    results: str,
    log: Path | None,
    service: str | None,
    token: str | None,
    summary: Path | None,
    as_json: bool,
    **options: str | None,
) -> None:
    """Run the COMMAND that scores a candidate. Show only the verdict.

    \b
      holdfast gate run agent.gate --name v2 -- pytest --junitxml {results}
      holdfast gate run agent.gate --name v2 -- inspect eval task.py --log-dir {results}

    {results} stands for a file or folder that is deleted afterwards. The environment variable
    HOLDFAST_RESULTS names it too. The output and the exit status of the COMMAND may reveal scores, so neither
    is shown. With --service the scores are sent to a service. The COMMAND does not get the token.
    """
    if name is None:
        raise click.UsageError("--name is needed: the gate recognises a candidate by its name.")
    if Path(results).name != results:
        raise click.UsageError("--results must be a name without folders, such as report.xml.")
    with _judged_by(place, service, token) as judge, tempfile.TemporaryDirectory() as folder:
        results_path = Path(folder) / results
        _run(command, results_path, log)
        if not results_path.exists():
            raise QueryRejected(
                "The command ended and wrote nothing to {results}. Its output is not shown, because it may "
                "reveal scores. --log FILE keeps it for the owner of the tasks."
            )
        verdict = judge(results_path, name, _without_none(**options))
    _tell(verdict, summary, as_json=as_json)


@gate.command()
@click.argument("place", metavar="GATE")
@_service_options
@json_option
def status(place: str, service: str | None, token: str | None, as_json: bool) -> None:
    """Show the promotions of GATE, and what the next candidate needs."""
    if service is not None:
        with service_client(service, token) as client:
            _show_standing(client.gate(place), as_json=as_json)
        return
    with _opened(place) as opened:
        _show_status(opened, as_json=as_json)


@gate.command()
@click.argument("place", metavar="GATE")
@click.option("--yes", is_flag=True, help="Close the gate without asking for confirmation.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@json_option
def report(place: str, yes: bool, markdown: bool, as_json: bool) -> None:
    """Close GATE. Show the exact score of every version, and its gain over the first incumbent."""
    if markdown and as_json:
        raise click.UsageError("--markdown and --json contradict each other.")
    with _opened(place) as opened:
        if not opened.closed and not yes:
            if as_json or not sys.stdin.isatty():
                raise click.UsageError(f"{_ENDS} Add --yes to give it without a prompt.")
            click.confirm(f"{_ENDS} Give it now?", abort=True)
        final_report = opened.report()
    if as_json:
        print_data(final_report.to_dict())
    else:
        click.echo(final_report.to_markdown() if markdown else str(final_report))


@gate.command()
@click.argument("place", metavar="GATE")
@click.argument("scores", type=int)
@json_option
def seen(place: str, scores: int, as_json: bool) -> None:
    """Pay for scores on these tasks that somebody has seen.

    SCORES is how many total scores were seen. Each score costs ln(tasks + 1) nats. Afterwards candidates may
    be chosen by these scores.
    """
    with _opened(place) as opened:
        nats = opened.declare_seen(scores)
        standing = opened.status()
    if as_json:
        print_data({"scores": scores, "cost": nats, **standing})
    else:
        click.echo(f"Paid {nats:.3g} nats for {scores:,} seen scores. {standing['text']}")


@gate.command()
@click.option("--tasks", type=int, help="How many tasks there are.")
@click.option("--candidates", type=int, default=1, show_default=True, help="How many candidates.")
@click.option(
    "--gain", type=float, help="Instead of --tasks: show how many tasks are needed to see this gain."
)
@click.option(
    "--differing",
    type=float,
    help="The share of tasks on which a candidate differs from the incumbent. It decides the power.",
)
@click.option(
    "--power",
    type=float,
    default=0.8,
    show_default=True,
    help="The probability with which a candidate with this gain is promoted.",
)
@click.option("--baseline", type=float, default=0.0, help="The incumbent's score.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="The confidence of the gate.")
@click.option("--expect", type=float, help="The hint that the gate is opened with.")
@json_option
def power(
    tasks: int | None,
    candidates: int,
    gain: float | None,
    baseline: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Show which gain a gate can see, or how many tasks it needs. No gate is opened."""
    from holdfast.planning import gate_gain, gate_tasks

    if (tasks is None) == (gain is None):
        raise click.UsageError("Give --tasks to show the gain, or --gain to show the number of tasks.")
    if gain is not None:
        needed = gate_tasks(gain, candidates, **options)
        if as_json:
            print_data({"gain": gain, "candidates": candidates, "tasks": needed, **options})
        else:
            click.echo(
                f"With {needed:,} tasks, candidate {candidates:,} is promoted with probability "
                f"{options['power']:g}, if its true gain is {gain:g}."
            )
        return
    assert tasks is not None
    seen_gain = gate_gain(tasks, candidates, baseline=baseline, **options)
    if as_json:
        print_data({**seen_gain.to_dict(), "text": seen_gain.text})
    else:
        click.echo(seen_gain.text)


def _without_none(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _read(place: Path, reading: dict[str, str]) -> Results:
    from holdfast.results import read_results

    options: dict[str, Any] = dict(reading)
    return read_results(place, **options)


@contextmanager
def _opened(place: str) -> Iterator[Gate]:
    from holdfast.guard import Gate

    opened = Gate.at(place)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def _judged_by(
    place: str, service: str | None, token: str | None
) -> Iterator[Callable[[Path, str, dict[str, str]], Verdict]]:
    """A function that submits results that nobody has seen, to a gate of your own or of a service."""
    if service is None:
        with _opened(place) as opened:
            yield lambda results_path, name, options: opened.submit(
                _read(results_path, opened.reading | options), name, sealed=True
            )
        return
    with service_client(service, token) as client:
        # Check the name and the token before the command runs, which may take hours.
        me = client.me()
        if me["role"] != "submitter":
            client.gate(place)
        elif me["dataset"] != f"gate:{place}":
            raise QueryRejected(f"This token may only submit to {me['dataset']}, and GATE is {place!r}.")
        yield lambda results_path, name, options: client.gate_submit(
            place, results_path, name, reading=options
        )


def _run(command: tuple[str, ...], results: Path, log: Path | None) -> None:
    """Run a harness. Its output and its exit status are not shown, because they may reveal scores."""
    arguments = [argument.replace(_RESULTS_MARK, str(results)) for argument in command]
    environment = {**os.environ, "HOLDFAST_RESULTS": str(results)}
    environment.pop("HOLDFAST_TOKEN", None)  # The command may run the candidate's own code.
    console = Console(stderr=True)
    with console.status(f"Running {command[0]}; its output is sealed."), _written_to(log) as stream:
        try:
            subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                check=False,
            )
        except OSError as error:
            raise QueryRejected(f"Cannot run {command[0]!r}: {error.strerror}.") from None


@contextmanager
def _written_to(log: Path | None) -> Iterator[Any]:
    if log is None:
        yield subprocess.DEVNULL
        return
    with log.open("ab") as stream:
        log.chmod(0o600)
        yield stream


def _tell(verdict: Verdict, summary: Path | None, *, as_json: bool) -> None:
    """Show a verdict, then exit with its status."""
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(verdict.to_markdown())
    if as_json:
        print_data(verdict.to_dict())
    else:
        click.echo(verdict.text)
        if verdict.repeated:
            click.echo(
                f"This is the earlier verdict on {verdict.name!r}. The new scores were not read. Give a new "
                "candidate a new name."
            )
        click.echo("What must be true:")
        for sentence in verdict.assumed:
            click.echo(f"  - {sentence}")
    sys.exit(0 if verdict.promoted else 1)


def _show_status(opened: Gate, *, as_json: bool) -> None:
    versions = [version.to_dict() for version in opened.promotions]
    _show_standing({**opened.status(), "versions": versions}, as_json=as_json)


def _show_standing(standing: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_data(standing)
        return
    click.echo(standing["text"])
    for version in standing["versions"][1:]:
        place, name, margin = version["place"], version["name"], version["margin"]
        click.echo(f"  {place:>6,}  {name}  better by more than {margin:.6g}")
