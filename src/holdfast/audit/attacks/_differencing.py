"""Attacks on single rows: differencing (everyone, and everyone but one), and the fingerprint that accurate
answers carry: find the rows they came from, and ask for just these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.audit.attacks._protocol import (
    Answerer,
    Attack,
    AttackQuestion,
    Floats,
    Rows,
    Transcript,
    carried_out,
    quoted_column,
    weighted,
)
from holdfast.errors import InvalidArgument


def differencing_attack(answer: Answerer, rows: Rows, *, targets: int) -> Attack:
    """For each of ``targets`` people ask for the share with a secret, and for the share with it who are not
    that person: the difference reveals the secret.

    ``rows`` holds a person's number in its first column and the secret, 0 or 1, in its second; the attacker
    uses the numbers, and the secrets only judge how many guesses are right: ``details["right"]`` of
    ``details["tried"]``, where luck has half.

    Guarantee: none of its own; answers without noise tell every secret. Guards of this library promise valid
    intervals, and secrecy only where they add noise.
    Assumes: secrets that are fair coins, numbers that nobody shares: the truth of every question is ½.
    Reference: Dwork and Roth 2014, section 1.1.

    Args:
        answer: A function that answers one question; see :mod:`holdfast.audit.attacks`.

    >>> import numpy as np
    >>> from holdfast.audit.attacks import naive
    >>> secrets = np.random.default_rng(0).integers(0, 2, 500)
    >>> rows = np.column_stack([np.arange(500), secrets])
    >>> differencing_attack(naive(rows), rows, targets=50).details
    {'right': 50, 'tried': 50}
    """
    of = "differencing_attack"
    rows = np.asarray(rows)
    if rows.ndim != 2 or rows.shape[1] < 2 or not np.isin(rows[:, 1], (0, 1)).all():
        raise InvalidArgument("rows", "a matrix of numbers and secrets that are 0 or 1", rows, of=of)
    targets = checks.whole(targets, "targets", at_most=len(rows), of=of)

    def moves(transcript: Transcript) -> dict[str, Any]:
        right = 0
        everyone = transcript.ask(AttackQuestion(_secret, 0.5, None, "everyone", _secret_condition))
        for person, secret in rows[:targets, :2]:
            condition = partial(_but_one_condition, person)
            others = transcript.ask(
                AttackQuestion(partial(_but_one, person), 0.5, None, f"all but {person}", condition)
            )
            right += int((everyone - others > 0.5 / len(rows)) == bool(secret))
        return {"right": right, "tried": targets}

    return carried_out("differencing", answer, moves)


def _secret(rows: Rows) -> Floats:
    return np.asarray(rows[:, 1], dtype=np.float64)


def _but_one(person: Any, rows: Rows) -> Floats:
    return np.asarray((rows[:, 1] == 1) & (rows[:, 0] != person), dtype=np.float64)


def _secret_condition(names: Sequence[str]) -> str:
    return f"{quoted_column(names[1])} = 1"


def _but_one_condition(person: Any, names: Sequence[str]) -> str:
    return f"{quoted_column(names[1])} = 1 and {quoted_column(names[0])} <> {float(person)!r}"


def fingerprint_attack(answer: Answerer, *, columns: int, inside: Rows, outside: Rows) -> Attack:
    """Ask for the mean of each of ``columns`` columns, score rows by how far the answers lean towards them,
    and ask for the share of rows with a positive score.

    ``inside`` are rows of the answerer and ``outside`` are fresh rows. Both are mixed and sorted by score.
    The highest ones, as many as there are inside, are called members. ``details["found"]`` is how many of
    these are, ``details["advantage"]`` how much likelier a member is called one than a stranger: 0 is luck, 1
    is reconstruction of the membership.

    Guarantee: none of its own. Plain averages of n rows over d columns give away nearly all members once d is
    several times n.
    Assumes: rows of fair signs (:func:`fair_signs`): every truth is ½.
    Reference: SIS 5.1; Dwork, Smith, Steinke, Ullman and Vadhan 2015.

    Args:
        answer: A function that answers one question; see :mod:`holdfast.audit.attacks`.

    >>> import numpy as np
    >>> from holdfast.audit.attacks import fair_signs, naive
    >>> rng = np.random.default_rng(0)
    >>> rows, fresh = fair_signs(rng, 100, 1001), fair_signs(rng, 100, 1001)
    >>> attack = fingerprint_attack(naive(rows), columns=1001, inside=rows, outside=fresh)
    >>> attack.details["advantage"] > 0.9, attack.gain > 0.4
    (True, True)
    """
    of = "fingerprint_attack"
    columns = checks.whole(columns, "columns", of=of)
    inside, outside = np.asarray(inside), np.asarray(outside)
    for name, rows in (("inside", inside), ("outside", outside)):
        if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] < columns:
            raise InvalidArgument(name, f"rows of at least {columns} columns", rows, of=of)

    def moves(transcript: Transcript) -> dict[str, Any]:
        means = [
            transcript.ask(
                AttackQuestion(
                    partial(_positive, column),
                    0.5,
                    None,
                    f"column {column}",
                    partial(_positive_condition, column),
                )
            )
            for column in range(columns)
        ]
        weights = 2 * np.array(means) - 1
        weights[0] += 1e-9  # answers of exactly one half could add up to nothing
        condition = partial(_leans_condition, weights)
        transcript.ask(
            AttackQuestion(partial(_leans, weights), 0.5, None, "rows that the answers lean to", condition)
        )
        return _traced(weights, inside, outside)

    return carried_out("fingerprint", answer, moves)


def _traced(weights: Floats, inside: Rows, outside: Rows) -> dict[str, Any]:
    scores = [rows[:, : len(weights)] @ weights for rows in (inside, outside)]
    threshold = np.sort(np.concatenate(scores))[-len(inside)]
    called = [int((side >= threshold).sum()) for side in scores]
    return {
        "found": called[0],
        "members": len(inside),
        "advantage": called[0] / len(inside) - called[1] / len(outside),
    }


def _positive(column: int, rows: Rows) -> Floats:
    return np.asarray(rows[:, column] > 0, dtype=np.float64)


def _leans(weights: Floats, rows: Rows) -> Floats:
    return np.asarray(rows[:, : len(weights)] @ weights > 0, dtype=np.float64)


def _positive_condition(column: int, names: Sequence[str]) -> str:
    return f"{quoted_column(names[column])} > 0"


def _leans_condition(weights: Floats, names: Sequence[str]) -> str:
    return f"({weighted(names[: len(weights)], weights.tolist())}) > 0"
