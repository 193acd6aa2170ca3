"""``holdfast ask``: questions to a table, from the shell or at a prompt."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._account import Terms, beside, opened
from holdfast.cli._epochs import opened_epochs
from holdfast.cli._output import print_data
from holdfast.errors import BudgetSpent, HoldfastError, NotEnoughRows

if TYPE_CHECKING:
    from holdfast.guard import Answer, Guard, Left


@click.command()
@click.argument("data")
@click.option(
    "--train", help="A file of training rows; left out, half of DATA is set aside as the training part."
)
@click.option(
    "-q", "--question", "questions", multiple=True, help='Such as "share(age > 40)"; may be repeated.'
)
@click.option(
    "--confidence", type=float, help="With this probability all answers hold together.  [default: 0.95]"
)
@click.option(
    "--error", type=float, help="Promise that no interval is wider than ± this, and refuse what would be."
)
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="Where the account is kept.  [default: DATA.holdfast]"
)
@click.option("--no-ledger", is_flag=True, help="Keep no account: it is forgotten at the end.")
@click.option(
    "--training-share", type=float, help="How much of DATA becomes the training part.  [default: 0.5]"
)
@click.option("--split-seed", type=int, help="The seed of that split.  [default: 0]")
@click.option(
    "--after",
    multiple=True,
    help="DATA arrived after this table, as an epoch of its own (holdfast epoch); once for each, in order.",
)
@click.option("--preview", is_flag=True, help="Say what the questions would cost, and ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def ask(
    data: str,
    questions: tuple[str, ...],
    ledger: Path | None,
    no_ledger: bool,
    after: tuple[str, ...],
    preview: bool,
    as_json: bool,
    **terms: Any,
) -> None:
    """Ask DATA, a CSV or Parquet file, questions whose answers stay valid however they were chosen.

    \b
    share(condition), mean(expression, lo, hi), quantile(expression, q):
      holdfast ask people.csv -q "share(age > 40)" -q "quantile(income, 0.5)"
      holdfast ask people.csv -q "mean(income, 0, 1e5, where = sex = 'F')"

    Without -q a prompt opens; lines that are piped in are questions, one a line. The account is kept beside
    the data, so leaving and coming back does not reset it.
    """
    if ledger is not None and no_ledger:
        raise click.UsageError("--ledger and --no-ledger contradict each other.")
    at_terminal = not questions and sys.stdin.isatty()
    if at_terminal and (preview or as_json):
        raise click.UsageError(f"--{'preview' if preview else 'json'} needs a question: say it with -q.")
    place = None if no_ledger else ledger or beside((*after, data)[0])
    with _opened(data, place, after, Terms(**terms)) as guard:
        if at_terminal:
            from holdfast.cli._prompt import converse

            converse(guard, data=data, ledger=place)
            return
        asked = questions or tuple(line.strip() for line in sys.stdin if line.strip())
        if as_json:
            _print_document(guard, asked, only_preview=preview)
        elif preview:
            _preview(guard, asked)
        else:
            _answer(guard, asked)


@contextmanager
def _opened(data: str, ledger: Path | None, after: tuple[str, ...], terms: Terms) -> Iterator[Guard]:
    """The guard to ask: of the table's one account, or of the last of its epochs."""
    if not after:
        with opened(data, ledger, terms) as guard:
            yield guard
        return
    if ledger is None or terms != Terms(terms.train, None, None, None, None):
        raise click.UsageError(
            "What holds in an epoch was agreed when it was opened: with --after, leave --no-ledger, "
            "--confidence, --error, --training-share and --split-seed out."
        )
    with opened_epochs((*after, data), ledger, terms.train) as guards:
        yield guards[-1]


def _answer(guard: Guard, questions: Sequence[str]) -> None:
    from rich.console import Console

    from holdfast.cli._show import ask_and_show, show_left

    console = Console(highlight=False)
    _check(guard, questions)
    for question in questions:
        ask_and_show(console, guard, question)
    show_left(console, guard)


def _preview(guard: Guard, questions: Sequence[str]) -> None:
    from rich.console import Console

    from holdfast.cli._show import show_left, show_preview

    console = Console(highlight=False)
    for question in questions:
        show_preview(console, guard.cost_preview(question))
    show_left(console, guard)


def _check(guard: Guard, questions: Sequence[str]) -> None:
    """Find a question that cannot be asked as written before the first is paid for."""
    for question in questions if len(questions) > 1 else ():
        try:
            guard.cost_preview(question)
        except (BudgetSpent, NotEnoughRows):
            continue


def _print_document(guard: Guard, questions: Sequence[str], *, only_preview: bool) -> None:
    """Everything as one JSON document; a refusal is in it, with the answers that came before."""
    document: dict[str, Any] = {}
    status = 0
    try:
        if only_preview:
            document["previews"] = []
            for question in questions:
                shown = guard.cost_preview(question)
                document["previews"].append({**shown.to_dict(), "query": str(shown.query)})
        else:
            document["answers"] = []
            _check(guard, questions)
            for question in questions:
                document["answers"].append(_as_data(guard.ask(question)))
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


def _as_data(answer: Answer) -> dict[str, Any]:
    """The answer with the numbers of its own certificate; the sentences all answers share come once."""
    own = answer.certificate
    return {**answer.to_dict(), "certificate": {"interval": own.interval, "numbers": own.numbers}}


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
