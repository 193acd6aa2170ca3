"""``holdfast ask`` and ``holdfast report``: questions to a table, one by one or all at once at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._output import json_option, print_data, status_of
from holdfast.cli.account import AccountOptions, account_options, book_place, opened_account
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.records import amount, interval_words

if TYPE_CHECKING:
    from holdfast.cli._output import Finer
    from holdfast.guard import Answer, Guard, Left, Report


# What a distribution has besides its answer.
_OF_A_CURVE = ("points", "value", "low", "high")


@click.command()
@click.argument("data")
@click.option(
    "-q",
    "--question",
    "questions",
    multiple=True,
    help='A question, such as "share(age > 40)". May be repeated.',
)
@click.option(
    "--nats",
    type=float,
    help="Pay about this many nats for each answer, and get it on finer cells.",
)
@click.option("--precise", is_flag=True, help="The same as --nats 3.")
@account_options
@click.option("--preview", is_flag=True, help="Show what the questions would cost, and ask nothing.")
@click.option(
    "--diagnose",
    is_flag=True,
    help="Show whether the training rows look independent, in all columns or in the values of the questions, "
    "and ask nothing.",
)
@json_option
def ask(
    data: str,
    questions: tuple[str, ...],
    nats: float | None,
    precise: bool,
    ledger: Path | None,
    no_ledger: bool,
    after: tuple[str, ...],
    preview: bool,
    diagnose: bool,
    as_json: bool,
    **terms: Any,
) -> None:
    """Ask questions about DATA, a CSV or Parquet file. Answers stay valid however you chose the questions.

    \b
    share(condition), mean(expression, lo, hi), quantile(expression, q), median, ratio, difference, lift,
    variance, std, covariance, correlation, slope, cdf, histogram (`help` at the prompt shows how each is
    written):
      holdfast ask people.csv -q "share(age > 40)" -q "median(income)"
      holdfast ask people.csv -q "mean(income, 0, 1e5, where = sex = 'F')"
      holdfast ask trial.csv -q "difference(paid, arm = 'b', arm = 'a')" -q "share(paid, by = country)"

    Without -q a prompt opens. Lines that are piped in are questions, one on each line. Questions of one call
    are asked together: they do not pay for each other, and later questions pay for all of them. The account
    is kept in a file beside the data, so leaving and coming back does not reset it.
    """
    if precise and nats is not None:
        raise click.UsageError("--nats and --precise contradict each other: --precise means --nats 3.")
    place = book_place(data, ledger, no_ledger, after)
    finer: Finer = {"precise": precise, "nats": nats}
    if diagnose:
        if preview:
            raise click.UsageError("--diagnose and --preview contradict each other.")
        with opened_account(data, place, after, AccountOptions.of(**terms)) as guard:
            _diagnose(guard, questions, as_json=as_json)
        return
    at_terminal = not questions and sys.stdin.isatty()
    for option, value in (("preview", preview), ("json", as_json), ("precise", precise), ("nats", nats)):
        if at_terminal and value not in (False, None):
            raise click.UsageError(f"--{option} needs a question: give it with -q.")
    with opened_account(data, place, after, AccountOptions.of(**terms)) as guard:
        if at_terminal:
            from holdfast.cli._prompt import converse

            converse(guard, data=data, ledger=place)
            return
        all_questions = questions or tuple(line.strip() for line in sys.stdin if line.strip())
        if as_json:
            _print_document(guard, all_questions, finer, only_preview=preview)
        elif preview:
            _preview(guard, all_questions, finer)
        else:
            _answer(guard, all_questions, finer)


def _answer(guard: Guard, questions: Sequence[str], finer: Finer) -> None:
    from rich.console import Console

    from holdfast.cli._output import ask_and_show, show_left, show_together

    console = Console(highlight=False)
    tables = [question for question in questions if is_table(question)]
    questions = [question for question in questions if not is_table(question)]
    for question in tables:
        ask_and_show(console, guard, question, finer)
    if len(questions) == 1:
        ask_and_show(console, guard, questions[0], finer)
    elif questions:
        answered_before = _check(guard, questions, finer)
        outcomes = _together(guard, questions, finer)
        answers = [outcome for outcome in outcomes if not isinstance(outcome, HoldfastError)]
        show_together(console, guard, answers, answered_before)
        for outcome in outcomes:
            if isinstance(outcome, HoldfastError):
                raise outcome
    show_left(console, guard)


def is_table(question: str) -> bool:
    """Whether the answer is a table: one row for each group, or for each bin."""
    from holdfast import queries

    return queries.read(question).is_table


def _together(guard: Guard, questions: Sequence[str], finer: Finer) -> list[Answer | HoldfastError]:
    """The answers, up to the first question that is refused."""
    from holdfast.coding import PRECISE_NATS
    from holdfast.guard import Asker

    nats = PRECISE_NATS if finer["precise"] else finer["nats"]
    askers = [(question, Asker()) for question in questions]
    return guard.answer_each(askers, nats=[nats] * len(askers), stop=True)


def _diagnose(guard: Guard, questions: Sequence[str], *, as_json: bool) -> None:
    """Print what the training rows say about independence, in all columns or for some questions."""
    pairs = [(question, guard.diagnose(question)) for question in questions or (None,)]
    if as_json:
        listed = [{"query": query, **diagnosis.to_dict()} for query, diagnosis in pairs]
        print_data({"diagnoses": listed, "spent": guard.spent, "unit": guard.unit})
        return
    for query, diagnosis in pairs:
        if query is not None:
            click.echo(query)
        click.echo(str(diagnosis))


def _preview(guard: Guard, questions: Sequence[str], finer: Finer) -> None:
    from rich.console import Console

    from holdfast.cli._output import show_left, show_preview

    console = Console(highlight=False)
    for question in questions:
        show_preview(console, guard.cost_preview(question, **finer))
    show_left(console, guard)


def _check(guard: Guard, questions: Sequence[str], finer: Finer) -> list[bool]:
    """Check all questions before the first one is paid for. Returns which of them were answered before."""
    answered_before = []
    for question in questions:
        try:
            answered_before.append(guard.cost_preview(question, **finer).known)
        except (BudgetSpent, NotEnoughRows):
            answered_before.append(False)
    return answered_before


def _print_document(guard: Guard, questions: Sequence[str], finer: Finer, *, only_preview: bool) -> None:
    """Everything as one JSON document; a refusal is in it, with the answers that came before."""
    document: dict[str, Any] = {}
    status = 0
    try:
        if only_preview:
            document["previews"] = []
            for question in questions:
                shown = guard.cost_preview(question, **finer)
                document["previews"].append({**shown.to_dict(), "query": str(shown.query)})
        else:
            document["answers"] = []
            tables = [question for question in questions if is_table(question)]
            questions = [question for question in questions if not is_table(question)]
            if len(questions) > 1:
                _check(guard, questions, finer)
            if tables:
                document["tables"] = [guard.table(question, **finer).to_dict() for question in tables]
            for outcome in _together(guard, questions, finer):
                if isinstance(outcome, HoldfastError):
                    raise outcome
                document["answers"].append(outcome.to_brief_dict())
                if getattr(outcome.query, "kind", "") == "cdf":
                    curve = guard.curve(outcome.query).to_dict()
                    document["answers"][-1]["curve"] = {name: curve[name] for name in _OF_A_CURVE}
    except HoldfastError as error:
        document |= {"asked": None, **error.to_dict()}
        status = status_of(error)
    document |= {
        "spent": guard.spent,
        "unit": guard.unit,
        "left": _left_as_data(guard.left),
        "certificate": guard.certificate.to_dict(),
    }
    print_data(document)
    if status:
        sys.exit(status)


def _left_as_data(left: Left) -> dict[str, Any]:
    """What is left, and the same number under the name of its unit."""
    values = left.to_dict()
    return {left.unit: values["left"], **values}


_ENDS = "A report closes the account for good. Nobody can ask it anything afterwards."


@click.command()
@click.argument("data")
@click.argument("questions", nargs=-1)
@click.option(
    "--preregister",
    is_flag=True,
    help="Use all rows for the answers. Only for questions that were fixed before anyone saw a row.",
)
@click.option("--yes", is_flag=True, help="Close the account without asking for confirmation.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Also write a page to this file."
)
@account_options
@json_option
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
    **account_terms: Any,
) -> None:
    """Close an account, and answer QUESTIONS with exact values.

    The account is that of DATA.

    \b
      holdfast report people.csv "share(age > 40)" "mean(income, 0, 1e5)"
      holdfast report people.csv "share(age > 40)" --preregister --yes --markdown

    No question can follow a report. So its values are not rounded, and its intervals are as narrow as the
    account allows. They hold together with all earlier answers. An account has one report. Without QUESTIONS
    it is shown again.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json contradict each other.")
    if page is not None and not page.parent.is_dir():
        raise click.UsageError(f"--html cannot write {page}: there is no folder {page.parent}.")
    terms = _with_preregistration(AccountOptions.of(**account_terms), preregister=preregister)
    place = book_place(data, ledger, no_ledger, after)
    is_new = place is None or not place.exists()
    readable_questions = _readable(questions)
    if is_new:  # Ask first: a person who says no must not leave an account file behind.
        _require_questions(readable_questions)
        _confirm(data, asked=0, yes=yes, as_json=as_json)
    with opened_account(data, place, after, terms) as guard:
        if not is_new and not guard.closed:
            _require_questions(readable_questions)
            answered_before = guard.certificate.numbers["questions"]
            _require_nothing_before(answered_before, preregister=preregister)
            _check_report(guard, readable_questions)
            _confirm(data, asked=answered_before, yes=yes, as_json=as_json)
        earlier_report = None if readable_questions else guard.reported
        final = earlier_report or guard.report(readable_questions)
        _show_report(guard, final, markdown=markdown, as_json=as_json)
    if page is not None:
        page.write_text(_page(data, final), encoding="utf-8")


def _with_preregistration(options: AccountOptions, *, preregister: bool) -> AccountOptions:
    if not preregister:
        return options
    if options.train is not None or options.terms.get("training_share"):
        raise click.UsageError("--preregister uses no training rows: leave out --train and --training-share.")
    return replace(options, terms={**options.terms, "training_share": 0.0})


def _readable(questions: tuple[str, ...]) -> tuple[str, ...]:
    """The questions. A question that cannot be read is refused before an account is opened."""
    from holdfast import queries

    for question in questions:
        queries.read(question)
    return questions


def _require_questions(questions: tuple[str, ...]) -> None:
    if not questions:
        raise InvalidArgument(
            "questions", 'at least one question, such as "share(age > 40)"', [], of="report"
        )


def _require_nothing_before(answered: int, *, preregister: bool) -> None:
    if preregister and answered:
        raise QueryRejected(
            f"This account has answered {amount(answered, 'questions')} before, so its report is no "
            "preregistration. Leave --preregister out."
        )


def _check_report(guard: Guard, questions: tuple[str, ...]) -> None:
    """Refuse a question that cannot be asked, before the confirmation."""
    for question in questions:
        guard.cost_preview(question)


def _confirm(data: str, *, asked: int, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise click.UsageError(f"{_ENDS} Add --yes to give the report without a prompt.")
    before = f"{amount(asked, 'questions')} asked before" if asked else "nothing asked before"
    click.echo(f"{data}: {before}. {_ENDS}", err=True)
    if not click.confirm("Give the report now?", err=True):
        click.echo("No report was given. The account is as it was.", err=True)
        sys.exit(1)


def _show_report(guard: Guard, final: Report, *, markdown: bool, as_json: bool) -> None:
    if as_json:
        answers = [None if answer is None else answer.to_brief_dict() for answer in final.answers]
        print_data({**final.to_dict(), "answers": answers, "spent": guard.spent, "unit": guard.unit})
    elif markdown:
        click.echo(final.to_markdown())
    else:
        _print_table(final)


def _print_table(final: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from holdfast.cli._output import short

    console = Console(highlight=False)
    table = Table("question", "value", "interval", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for question, answer in zip(final.questions, final.answers, strict=True):
        if answer is None:
            table.add_row(Text(short(question)), Text("could not be computed", style="yellow"), "")
        else:
            value, interval = interval_words(answer.value, answer.low, answer.high)
            table.add_row(Text(short(question)), Text(value, style="bold green"), Text(interval))
    console.print(table)
    console.print()
    console.print(Text(final.text))


def _page(data: str, final: Report) -> str:
    import html

    from holdfast.cli._output import filled

    return filled("report_page.html", title=html.escape(f"Report on {data}"), report=final._repr_html_())
