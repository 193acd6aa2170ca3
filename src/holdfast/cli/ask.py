"""``holdfast ask``: questions to a table, from the shell or at a prompt."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._account import Terms
from holdfast.cli._account_options import account_options, opened_account, place_of
from holdfast.cli._output import print_data
from holdfast.errors import BudgetSpent, HoldfastError, NotEnoughRows

if TYPE_CHECKING:
    from holdfast.cli._show import Finer
    from holdfast.guard import Answer, Guard, Left


# What a distribution has besides its answer.
_OF_A_CURVE = ("points", "value", "low", "high")


@click.command()
@click.argument("data")
@click.option(
    "-q", "--question", "questions", multiple=True, help='Such as "share(age > 40)"; may be repeated.'
)
@click.option(
    "--nats",
    type=float,
    help="Tell each answer on finer cells, for about so many nats of the account.",
)
@click.option("--precise", is_flag=True, help="The same as --nats 3.")
@account_options
@click.option("--preview", is_flag=True, help="Say what the questions would cost, and ask nothing.")
@click.option(
    "--diagnose",
    is_flag=True,
    help="Say whether the training rows look independent, in all columns or in the questions' values, and "
    "ask nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
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
    """Ask DATA, a CSV or Parquet file, questions whose answers stay valid however they were chosen.

    \b
    share(condition), mean(expression, lo, hi), quantile(expression, q), median, ratio, difference, lift,
    variance, std, covariance, correlation, slope, cdf, histogram (`help` at the prompt shows how each is
    written):
      holdfast ask people.csv -q "share(age > 40)" -q "median(income)"
      holdfast ask people.csv -q "mean(income, 0, 1e5, where = sex = 'F')"
      holdfast ask trial.csv -q "difference(paid, arm = 'b', arm = 'a')" -q "share(paid, by = country)"

    Without -q a prompt opens; lines that are piped in are questions, one a line. Questions of one call are
    asked together: none pays for what the others reveal, and whoever asks later pays for all. The account is
    kept beside the data, so leaving and coming back does not reset it.
    """
    if precise and nats is not None:
        raise click.UsageError("--nats and --precise contradict each other: --precise means --nats 3.")
    place = place_of(data, ledger, no_ledger, after)
    finer: Finer = {"precise": precise, "nats": nats}
    if diagnose:
        if preview:
            raise click.UsageError("--diagnose and --preview contradict each other.")
        with opened_account(data, place, after, Terms(**terms)) as guard:
            _diagnose(guard, questions, as_json=as_json)
        return
    at_terminal = not questions and sys.stdin.isatty()
    for option, given in (("preview", preview), ("json", as_json), ("precise", precise), ("nats", nats)):
        if at_terminal and given not in (False, None):
            raise click.UsageError(f"--{option} needs a question: say it with -q.")
    with opened_account(data, place, after, Terms(**terms)) as guard:
        if at_terminal:
            from holdfast.cli._prompt import converse

            converse(guard, data=data, ledger=place)
            return
        asked = questions or tuple(line.strip() for line in sys.stdin if line.strip())
        if as_json:
            _print_document(guard, asked, finer, only_preview=preview)
        elif preview:
            _preview(guard, asked, finer)
        else:
            _answer(guard, asked, finer)


def _answer(guard: Guard, questions: Sequence[str], finer: Finer) -> None:
    from rich.console import Console

    from holdfast.cli._show import ask_and_show, show_left, show_together

    console = Console(highlight=False)
    tables = [question for question in questions if is_table(question)]
    questions = [question for question in questions if not is_table(question)]
    for question in tables:
        ask_and_show(console, guard, question, finer)
    if len(questions) == 1:
        ask_and_show(console, guard, questions[0], finer)
    elif questions:
        known = _check(guard, questions, finer)
        outcomes = _together(guard, questions, finer)
        answers = [outcome for outcome in outcomes if not isinstance(outcome, HoldfastError)]
        show_together(console, guard, answers, known)
        for outcome in outcomes:
            if isinstance(outcome, HoldfastError):
                raise outcome
    show_left(console, guard)


def is_table(question: str) -> bool:
    """Whether the answer is a table: one row for each group, or for each bin."""
    from holdfast import queries

    return queries.read(question).is_table


def _together(guard: Guard, questions: Sequence[str], finer: Finer) -> list[Answer | HoldfastError]:
    """The answers, up to the first question that has none."""
    from holdfast.coding import PRECISE_NATS
    from holdfast.guard import Asker

    nats = PRECISE_NATS if finer["precise"] else finer["nats"]
    asked = [(question, Asker()) for question in questions]
    return guard.answer_each(asked, nats=[nats] * len(asked), stop=True)


def _diagnose(guard: Guard, questions: Sequence[str], *, as_json: bool) -> None:
    """What the training rows say about independence, in all columns or in the values of some questions."""
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

    from holdfast.cli._show import show_left, show_preview

    console = Console(highlight=False)
    for question in questions:
        show_preview(console, guard.cost_preview(question, **finer))
    show_left(console, guard)


def _check(guard: Guard, questions: Sequence[str], finer: Finer) -> list[bool]:
    """Find a question that cannot be asked as written before the first is paid for; says which of them were
    answered before."""
    known = []
    for question in questions:
        try:
            known.append(guard.cost_preview(question, **finer).known)
        except (BudgetSpent, NotEnoughRows):
            known.append(False)
    return known


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
        document |= {
            "error": type(error).__name__,
            "message": str(error),
            "asked": getattr(error, "asked", None),
        }
        status = 1 if isinstance(error, (BudgetSpent, NotEnoughRows)) else 2
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
    """What is left, under the name of its unit."""
    if math.isinf(left):
        return {left.unit: None, "words": left.words}
    return {
        left.unit: float(left),
        "words": left.words,
        "confirmed": left.confirmed,
        "surprises": left.surprises,
    }
