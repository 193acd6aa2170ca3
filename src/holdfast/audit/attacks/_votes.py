"""Votes of columns that were turned the way their answers pointed, with and without averaging noise away."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.audit.attacks._protocol import Answerer, Attack, Floats, Question, Rows, Transcript, carried_out
from holdfast.audit.attacks._sql import quoted, weighted

_SURE = 1e-3
_TIE = 1e-9  # equal weights could add up to nothing; the first column decides then


def fair_signs(rng: np.random.Generator, rows: int, columns: int) -> npt.NDArray[np.int8]:
    """Rows of fair signs, −1 and 1: every vote of columns agrees with another column half of the time."""
    return (2 * rng.integers(0, 2, (rows, columns), dtype=np.int8) - 1).astype(np.int8)


def vote_attack(answer: Answerer, *, columns: Any, rows: Any = None) -> Attack:
    """Ask how often each of ``columns`` columns agrees with the last one, weigh each by the log odds of its
    answer, and ask how often the vote agrees.

    ``rows`` is how many rows the attacker thinks there are, for the last guess; none is brought without it.

    Guarantee: none of its own. Plain averages over n rows are too high by about 0.32 √(columns/n) at the end.
    Assumes: rows of fair signs, ``columns`` + 1 of them (:func:`fair_signs`): every truth is ½.
    Reference: Rogers, Roth, Smith, Srebro, Thakkar and Woodworth 2020.

    >>> import numpy as np
    >>> from holdfast.audit.attacks import naive
    >>> rows = fair_signs(np.random.default_rng(0), 1000, 201)
    >>> vote_attack(naive(rows), columns=200).gain > 0.1
    True
    """
    return _voted("vote", answer, columns, rows, 1, of="vote_attack")


def averaging_attack(answer: Answerer, *, columns: Any, repeats: Any, rows: Any = None) -> Attack:
    """The vote attack, but each column is asked about ``repeats`` times, in words that no cache recognises,
    and its answers are averaged: fresh noise is averaged away.

    A repetition mixes the question with a constant, and every other one asks for the contrary: all say the
    same about the rows.

    Guarantee: none of its own; noise of standard deviation s counts as s/√repeats.
    Assumes: as :func:`vote_attack`.
    Reference: Dinur and Nissim 2003, for answers that are asked again.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = fair_signs(rng, 1000, 101)
    >>> noisy = lambda question: question(rows).mean() + rng.normal(scale=0.1)
    >>> once, often = (averaging_attack(noisy, columns=100, repeats=r) for r in (1, 100))
    >>> max(once.answers) > 0.6, len(often.answers)
    (True, 10001)
    """
    return _voted("averaging", answer, columns, rows, repeats, of="averaging_attack")


def _voted(name: str, answer: Answerer, columns: Any, rows: Any, repeats: Any, *, of: str) -> Attack:
    columns = checks.whole(columns, "columns", of=of)
    repeats = checks.whole(repeats, "repeats", of=of)
    rows = None if rows is None else checks.whole(rows, "rows", of=of)

    def moves(transcript: Transcript) -> dict[str, Any]:
        weights = np.empty(columns)
        for column in range(columns):
            share = float(np.mean([_once(transcript, column, i, rows) for i in range(repeats)]))
            share = min(1 - _SURE, max(_SURE, share))
            weights[column] = math.log(share / (1 - share)) or _SURE
        weights[0] += _TIE
        expected = None if rows is None else transcript.on_edge(expected_share(columns, rows))
        said = partial(_agreement_said, weights)
        transcript.ask(Question(partial(_agreement, weights), 0.5, expected, "vote", said))
        return {"weights": weights.tolist()}

    return carried_out(name, answer, moves)


def expected_share(columns: int, rows: int) -> float:
    """How often the vote agrees on the rows that chose its signs, less two standard deviations."""
    return (1 + math.erf(math.sqrt(columns / (math.pi * rows)))) / 2 - 1 / math.sqrt(rows)


def _once(transcript: Transcript, column: int, repetition: int, rows: int | None) -> float:
    """One estimate of how often the column agrees with the last."""
    guess = None if rows is None else transcript.on_edge(0.5 - 0.25 / rows)
    if repetition == 0:
        return transcript.ask(
            Question(partial(_agrees, column), 0.5, guess, f"column {column}", partial(agrees_said, column))
        )
    mixed = repetition * 1e-7
    contrary = repetition % 2 == 1
    values: Callable[[Rows], Floats] = partial(_reworded, column, mixed, contrary)
    told = transcript.ask(Question(values, 0.5, None, f"column {column}, again {repetition}"))
    share = (told - mixed / 2) / (1 - mixed)
    return 1 - share if contrary else share


def _agrees(column: int, rows: Rows) -> Floats:
    return np.asarray(rows[:, column] == rows[:, -1], dtype=np.float64)


def _reworded(column: int, mixed: float, contrary: bool, rows: Rows) -> Floats:
    plain = _agrees(column, rows)
    return np.asarray((1 - mixed) * (1 - plain if contrary else plain) + mixed / 2)


def _agreement(weights: Floats, rows: Rows) -> Floats:
    return np.asarray((rows[:, :-1] @ weights > 0) == (rows[:, -1] > 0), dtype=np.float64)


def agrees_said(column: int, names: Sequence[str]) -> str:
    return f"{quoted(names[column])} = {quoted(names[-1])}"


def _agreement_said(weights: Floats, names: Sequence[str]) -> str:
    return f"(({weighted(names[:-1], weights.tolist())}) > 0) = ({quoted(names[-1])} > 0)"
