"""Differencing: everyone, and everyone but one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.audit.attacks._protocol import Answerer, Attack, Floats, Question, Rows, Transcript, carried_out
from holdfast.audit.attacks._sql import quoted
from holdfast.errors import InvalidArgument


def differencing_attack(answer: Answerer, rows: Rows, *, targets: Any) -> Attack:
    """For each of ``targets`` people ask for the share with a secret, and for the share with it who are not
    that person: the difference tells the secret.

    ``rows`` holds a person's number in its first column and the secret, 0 or 1, in its second; the attacker
    uses the numbers, and the secrets only judge how many guesses are right: ``details["right"]`` of
    ``details["tried"]``, where luck has half.

    Guarantee: none of its own; answers without noise tell every secret. Guards of this library promise valid
    intervals, and secrecy only where they add noise.
    Assumes: secrets that are fair coins, numbers that nobody shares: the truth of every question is ½.
    Reference: Dwork and Roth 2014, section 1.1.

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
        everyone = transcript.ask(Question(_secret, 0.5, None, "everyone", _secret_said))
        for person, secret in rows[:targets, :2]:
            said = partial(_but_one_said, person)
            others = transcript.ask(Question(partial(_but_one, person), 0.5, None, f"all but {person}", said))
            right += int((everyone - others > 0.5 / len(rows)) == bool(secret))
        return {"right": right, "tried": targets}

    return carried_out("differencing", answer, moves)


def _secret(rows: Rows) -> Floats:
    return np.asarray(rows[:, 1], dtype=np.float64)


def _but_one(person: Any, rows: Rows) -> Floats:
    return np.asarray((rows[:, 1] == 1) & (rows[:, 0] != person), dtype=np.float64)


def _secret_said(names: Sequence[str]) -> str:
    return f"{quoted(names[1])} = 1"


def _but_one_said(person: Any, names: Sequence[str]) -> str:
    return f"{quoted(names[1])} = 1 and {quoted(names[0])} <> {float(person)!r}"
