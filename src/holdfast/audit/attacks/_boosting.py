"""Boosting on a leaderboard: random predictions, and the majority of those that scored well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.audit.attacks._protocol import Attack, Transcript, carried_out

Labels = npt.NDArray[np.int64]
_RULES = ("scores", "steps")


def ladder_boosting_attack(
    submit: Callable[[Labels], Any],
    *,
    rows: Any,
    rounds: Any,
    rng: np.random.Generator,
    rule: str = "scores",
    start: Any = 0.5,
) -> Attack:
    """Submit ``rounds`` random predictions of 0 and 1 for ``rows`` rows, keep those that did well, and submit
    their majority.

    ``submit(predictions)`` returns an accuracy: a number, or something with ``value`` (and ``better``, as a
    :class:`~holdfast.guard.Board` returns). ``rule="scores"`` keeps what scored above ½; ``"steps"``, against
    ladders, keeps what raised the standing, which begins at ``start``.

    Guarantee: none of its own. With exact scores the majority gains about 0.23 √(rounds/rows): half of the
    predictions are kept, each better than luck by 0.4/√rows.
    Assumes: labels that are fair coins: every truth is ½.
    Reference: Blum and Hardt 2015, section 4.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 1000)
    >>> score = lambda predictions: (predictions == labels).mean()
    >>> ladder_boosting_attack(score, rows=1000, rounds=400, rng=rng).gain > 0.1
    True
    """
    of = "ladder_boosting_attack"
    rows = checks.whole(rows, "rows", of=of)
    rounds = checks.whole(rounds, "rounds", of=of)
    standing = checks.real(start, "start", "[0, 1]", of=of)
    checks.choice(rule, "rule", _RULES, of=of)

    def moves(transcript: Transcript) -> dict[str, Any]:
        nonlocal standing
        votes, kept = np.zeros(rows, dtype=np.int64), 0
        for _ in range(rounds):
            prediction = rng.integers(0, 2, rows)
            value = transcript.hear(submit(prediction), 0.5)
            if value > (0.5 if rule == "scores" else standing):
                votes += 2 * prediction - 1
                kept += 1
            standing = max(standing, value)
        majority = np.where(votes == 0, rng.integers(0, 2, rows), votes > 0).astype(np.int64)
        transcript.hear(submit(majority), 0.5)
        return {"kept": kept}

    return carried_out("boosting", None, moves)
