"""The options that say which account is asked, for every command that opens one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli._account import Terms, beside, opened
from holdfast.cli._epochs import opened_epochs

if TYPE_CHECKING:
    from holdfast.guard import Guard

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--train",
        help="A file of training rows; left out, a third of DATA is set aside as the training part.",
    ),
    click.option(
        "--confidence", type=float, help="With this probability the promise is kept.  [default: 0.95]"
    ),
    click.option(
        "--promise",
        type=click.Choice(["all", "each"]),
        help="What holds with that probability: all answers together, or each by itself (narrower).  "
        "[default: all]",
    ),
    click.option(
        "--error", type=float, help="Promise that no interval is wider than ± this, and refuse what would be."
    ),
    click.option(
        "--expect",
        type=float,
        help="About how many questions there will be: a hint that makes so many answers narrower. The "
        "promise never rests on it.",
    ),
    click.option(
        "--ledger",
        type=click.Path(path_type=Path),
        help="Where the account is kept.  [default: DATA.holdfast]",
    ),
    click.option("--no-ledger", is_flag=True, help="Keep no account: it is forgotten at the end."),
    click.option(
        "--training-share",
        type=float,
        help="How much of DATA becomes the training part.  [default: a third; a quarter with --expect of at "
        "most 10]",
    ),
    click.option("--split-seed", type=int, help="The seed of that split.  [default: 0]"),
    click.option(
        "--clusters",
        metavar="COLUMN",
        help="Rows with the same value of this column belong together and may depend on each other, such as "
        "several rows of one person.",
    ),
    click.option(
        "--mixing",
        type=float,
        metavar="RATE",
        help="The rows are a series in this order that forgets its past: after g rows at most RATE^g of it "
        "is still known.",
    ),
    click.option(
        "--after",
        multiple=True,
        help="DATA arrived after this table, as an epoch of its own (holdfast epoch); once for each, in "
        "order.",
    ),
)


def account_options(command: _Command) -> _Command:
    """Let a command take every option about its account."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def place_of(data: str, ledger: Path | None, no_ledger: bool, after: tuple[str, ...]) -> Path | None:
    """Where the account is kept; None for one that is forgotten at the end."""
    if ledger is not None and no_ledger:
        raise click.UsageError("--ledger and --no-ledger contradict each other.")
    return None if no_ledger else ledger or beside((*after, data)[0])


@contextmanager
def opened_account(data: str, ledger: Path | None, after: tuple[str, ...], terms: Terms) -> Iterator[Guard]:
    """The guard to ask: of the table's one account, or of the last of its epochs."""
    if not after:
        with opened(data, ledger, terms) as guard:
            yield guard
        return
    if ledger is None or terms != Terms(terms.train):
        raise click.UsageError(
            "What holds in an epoch was agreed when it was opened: with --after, leave --no-ledger, "
            "--confidence, --promise, --error, --expect, --training-share, --split-seed, --clusters and "
            "--mixing out."
        )
    with opened_epochs((*after, data), ledger, terms.train) as guards:
        yield guards[-1]
