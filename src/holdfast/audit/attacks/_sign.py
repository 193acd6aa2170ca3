"""The sign attack on a guard: one bit an answer, and the majority of the columns they turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast import queries
from holdfast.audit.attacks._protocol import expected_share, quoted_column, total
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.records import Record

if TYPE_CHECKING:
    from holdfast.guard import Answer, Guard

__all__ = ["SignAttack", "sign_attack"]

_MOST_PREVIEWS = 12


@dataclass(frozen=True, repr=False)
class SignAttack(Record):
    """What a sign attack asked, and the answers.

    ``signs`` has +1 for a column that seemed to agree with the target and −1 for one that seemed not to;
    ``rule`` is the majority of the columns turned by their signs, and ``final`` says how often it agrees with
    the target. Where the guard refused to continue, ``refused`` is the refusal, ``answers`` are those before
    it and ``final`` is None.
    """

    answers: tuple[Answer, ...]
    signs: tuple[int, ...]
    rule: str = ""
    final: Answer | None = None
    refused: str = ""

    def __repr__(self) -> str:
        asked = f"{len(self.answers)} columns, {self.signs.count(-1)} of them turned"
        if self.final is None:
            return f"SignAttack({asked}; refused)"
        final = f"{self.final.value:.6g} in [{self.final.low:.6g}, {self.final.high:.6g}]"
        return f"SignAttack({asked}; the majority agrees {final})"


def sign_attack(
    guard: Guard,
    *,
    columns: Sequence[str],
    target: str,
    on_edge: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> SignAttack:
    """Overfit on purpose: ask how often each column agrees with ``target``, turn each the way its answer
    points, and ask how often their majority agrees.

    If the columns are fair coins, every such rule agrees with the target half of the time; on the rows that
    chose the signs it agrees about 0.32 √(columns / rows) more often, and an interval that does not pay for
    the choice misses. With ``on_edge`` the attacker brings guesses half a cell above ½. Every answer is then
    one bit, above or below ½, however wide the cells are. The cell of the last guess begins just below the
    gain to be expected, so that ½ is as far outside as can be. Without ``on_edge`` the guesses come from the
    training part. ``progress`` is called with the number of questions asked and the number there will be.

    Guarantee: none of its own; that every interval of the result holds is what an audit checks.
    Assumes: columns and target hold 0 and 1, or booleans (their kinds are checked).
    Reference: ``docs/theory/code-guard.md``; Freedman 1983 for the paradox, Blum and Hardt 2015 for the
    attack on a holdout.

    Args:
        columns: The columns of 0 and 1 to search.

    >>> import numpy as np
    >>> from holdfast import Guard
    >>> coins = np.random.default_rng(1).integers(0, 2, (600, 6))
    >>> table = {name: coins[:, i] for i, name in enumerate(["a", "b", "c", "d", "e", "truth"])}
    >>> attack = sign_attack(Guard(table), columns=["a", "b", "c", "d", "e"], target="truth")
    >>> all(answer.low <= 0.5 <= answer.high for answer in (*attack.answers, attack.final))
    True
    """
    names = list(columns)
    if not names:
        raise InvalidArgument("columns", "at least one column", columns, of="sign_attack")
    votes = {name: _vote(guard, name) for name in names}
    truth = f"{quoted_column(target)} = 1" if _kind(guard, target) == "number" else quoted_column(target)
    total, cell = len(names) + 1, 0.0
    just_below = 0.5 - 0.25 / guard.rows  # no share of the rows lies between this and ½
    answers: list[Answer] = []
    signs: list[int] = []
    try:
        for name in names:
            query = queries.share(f"{quoted_column(name)} = {quoted_column(target)}")
            if on_edge:
                query, cell = _on_the_edge(guard, query, just_below, cell)
            answers.append(guard.ask(query))
            signs.append(1 if answers[-1].value >= 0.5 else -1)
            if progress is not None:
                progress(len(answers), total)
        rule = _majority([votes[name] for name in names], signs)
        query = queries.share(f"({rule}) = ({truth})")
        if on_edge:
            query, _ = _on_the_edge(guard, query, expected_share(len(names), guard.rows), cell)
        final = guard.ask(query)
    except BudgetSpent as refusal:
        return SignAttack(tuple(answers), tuple(signs), refused=str(refusal))
    if progress is not None:
        progress(total, total)
    return SignAttack(tuple(answers), tuple(signs), rule, final)


def _on_the_edge(guard: Guard, query: queries.Query, edge: float, cell: float) -> tuple[queries.Query, float]:
    """The query with a guess half a cell above ``edge``, so that the guessed cell begins there.

    The width of a cell is public but may depend on the guess, so a few previews settle both; ``cell`` is
    where to start. Where the width jumps between two guesses the edge is only nearly there; where half a cell
    does not fit the guess is 1, and the answer is less than a bit.
    """
    for _ in range(_MOST_PREVIEWS):
        query = replace(query, guess=min(1.0, edge + cell / 2))
        preview_cell = guard.cost_preview(query).cell
        if abs(preview_cell - cell) <= 1e-12:
            break
        cell = preview_cell
    return query, cell


def _majority(votes: Sequence[str], signs: Sequence[int]) -> str:
    """The majority of the votes, each turned by its sign, as a condition on one row.

    Short, so that hundreds of columns stay within what the reader takes: the sum of the votes with sign +1
    less the sum of the others, above a threshold. Among an even number the first votes twice: no ties.
    """
    weighted = [(vote, sign) for vote, sign in zip(votes, signs, strict=True)]
    weighted += weighted[:1] if len(weighted) % 2 == 0 else []
    agreeing, opposing = ([vote for vote, sign in weighted if sign == side] for side in (1, -1))
    threshold = (len(agreeing) - len(opposing)) / 2
    return f"({total(agreeing)}) - ({total(opposing)}) > {threshold!r}"


def _kind(guard: Guard, name: str) -> str:
    kind = guard.schema[name].kind if name in guard.schema else "missing"
    if kind not in ("number", "boolean"):
        raise InvalidArgument("columns", "columns of 0 and 1, or of booleans", name, of="sign_attack")
    return kind


def _vote(guard: Guard, name: str) -> str:
    """The column as a number."""
    return quoted_column(name) if _kind(guard, name) == "number" else f"cast({quoted_column(name)} as int)"
