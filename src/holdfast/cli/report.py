"""``holdfast report``: the last word of an account, with exact values."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._account import Terms
from holdfast.cli._account_options import account_options, opened_account, place_of
from holdfast.cli._output import print_data
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.records import amount, interval_words

if TYPE_CHECKING:
    from holdfast.guard import Guard, Report

_ENDS = "A report closes the account for good: nothing more is answered from it, for anyone."


@click.command()
@click.argument("data")
@click.argument("questions", nargs=-1)
@click.option(
    "--preregister",
    is_flag=True,
    help="Set no training rows aside: the questions were fixed before anyone saw a row.",
)
@click.option("--yes", is_flag=True, help="Close the account without asking for confirmation.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a page here too."
)
@account_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report(
    data: str,
    questions: tuple[str, ...],
    preregister: bool,
    yes: bool,
    markdown: bool,
    page: Path | None,
    ledger: Path | None,
    no_ledger: bool,
    after: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Give the last word about DATA: close its account, then read the QUESTIONS exactly.

    \b
      holdfast report people.csv "share(age > 40)" "mean(income, 0, 1e5)"
      holdfast report people.csv "share(age > 40)" --preregister --yes --markdown

    Nobody asks after a report, so its values are not rounded and its intervals are as narrow as the account
    allows. They hold together with all earlier answers. A report is given once; without QUESTIONS the one
    that was given is shown again.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json contradict each other.")
    if page is not None and not page.parent.is_dir():
        raise click.UsageError(f"--html cannot write {page}: there is no folder {page.parent}.")
    terms = _terms(Terms(**given), preregister=preregister)
    place = place_of(data, ledger, no_ledger, after)
    new = place is None or not place.exists()
    asked = _readable(questions)
    if new:  # Whoever says no leaves no account behind.
        _require_questions(asked)
        _confirm(data, asked=0, yes=yes, as_json=as_json)
    with opened_account(data, place, after, terms) as guard:
        if not new and not guard.closed:
            _require_questions(asked)
            before = guard.certificate.numbers["questions"]
            _require_nothing_before(before, preregister=preregister)
            _check(guard, asked)
            _confirm(data, asked=before, yes=yes, as_json=as_json)
        given_before = None if asked else guard.reported
        told = given_before or guard.report(asked)
        _show(guard, told, markdown=markdown, as_json=as_json)
    if page is not None:
        page.write_text(_page(data, told), encoding="utf-8")


def _terms(terms: Terms, *, preregister: bool) -> Terms:
    if not preregister:
        return terms
    if terms.train is not None or terms.training_share:
        raise click.UsageError(
            "A preregistration has no training part: leave --train and --training-share out."
        )
    return replace(terms, training_share=0.0)


def _readable(questions: tuple[str, ...]) -> tuple[str, ...]:
    """The questions, once each can be read: what cannot be opens no account."""
    from holdfast import queries

    for question in questions:
        queries.read(question)
    return questions


def _require_questions(questions: tuple[str, ...]) -> None:
    if not questions:
        raise InvalidArgument("questions", 'at least one question, as "share(age > 40)"', [], of="report")


def _require_nothing_before(asked: int, *, preregister: bool) -> None:
    if preregister and asked:
        raise QueryRejected(
            f"This account has answered {amount(asked, 'questions')} before, so its report is no "
            "preregistration. Leave --preregister out."
        )


def _check(guard: Guard, questions: tuple[str, ...]) -> None:
    """Find a question that cannot be asked before anyone is asked to confirm."""
    for question in questions:
        guard.cost_preview(question)


def _confirm(data: str, *, asked: int, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise click.UsageError(f"{_ENDS} Say --yes to give it without being asked.")
    before = f"{amount(asked, 'questions')} asked before" if asked else "nothing asked before"
    click.echo(f"{data}: {before}. {_ENDS}", err=True)
    if not click.confirm("Give the report now?", err=True):
        click.echo("No report was given. The account is as it was.", err=True)
        sys.exit(1)


def _show(guard: Guard, told: Report, *, markdown: bool, as_json: bool) -> None:
    if as_json:
        answers = [None if answer is None else answer.to_brief_dict() for answer in told.answers]
        print_data({**told.to_dict(), "answers": answers, "spent": guard.spent, "unit": guard.unit})
    elif markdown:
        click.echo(told.to_markdown())
    else:
        _print_table(told)


def _print_table(told: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from holdfast.cli._show import short

    console = Console(highlight=False)
    table = Table("question", "value", "interval", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for question, answer in zip(told.questions, told.answers, strict=True):
        if answer is None:
            table.add_row(Text(short(question)), Text("could not be computed", style="yellow"), "")
        else:
            value, interval = interval_words(answer.value, answer.low, answer.high)
            table.add_row(Text(short(question)), Text(value, style="bold green"), Text(interval))
    console.print(table)
    console.print()
    console.print(Text(told.text))


def _page(data: str, told: Report) -> str:
    import html

    from holdfast.cli._page import filled

    return filled("report_page.html", title=html.escape(f"Report on {data}"), report=told._repr_html_())
