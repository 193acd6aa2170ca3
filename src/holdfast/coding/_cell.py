"""How wide a cell is: for as many questions as are to be expected.

A wide cell makes this interval wider. A narrow one reveals more, and all later intervals pay for that. The
rule supposes that K questions are to come and makes the last of them narrowest. It decides how narrow answers
are, and never whether they are valid. Measured by ``benchmarks/guard_width.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np

from holdfast.coding._account import MICRO, Account, Weights

_COMING_PER_ASKED = 3.0
_FEW = 10
PRECISE_NATS = 3.0
"""What a question that is asked with ``precise=True`` is expected to cost."""

_HALF_CELLS = np.geomspace(0.02, 8.0, 120)  # in predicted deviations of the guess's error


def cell_entropy(half_cell: float) -> float:
    """Nats that the cell of a normal error reveals on average, on cells of this half-width."""
    from scipy import special

    far = math.ceil(6 / half_cell) + 1
    places = np.arange(-far, far + 1)
    reached = special.erfc((2 * places - 1) * half_cell / math.sqrt(2)) / 2
    probabilities = -np.diff(np.append(reached, 0.0))
    return float(-np.sum(special.xlogy(probabilities, probabilities)))


@cache
def _entropies() -> np.ndarray:
    """The entropy of each half-cell that is tried; made on first use: scipy.special is slow to import."""
    return np.array([cell_entropy(half_cell) for half_cell in _HALF_CELLS])


def training_share(weights: Weights) -> float:
    """The share of the rows that is best set aside for guesses: a third, or a quarter where few questions are
    expected."""
    return 1 / 4 if weights.expect is not None and weights.expect <= _FEW else 1 / 3


def after_expected(account: Account, error: float, arm: float, questions: int) -> Account:
    """About what the account will be after so many more questions like one with this predicted ``error`` and
    ``arm``, if their guesses are as good as expected: a forecast."""
    start, spent = account.nats(), account.spent
    for asked in range(questions):
        now = replace(account, steps=account.steps + asked, micro_nats=round(spent * MICRO), together=1)
        half_cell = best_half_cell(now, error, arm * math.sqrt(now.nats() / start))
        spent += float(np.interp(half_cell / error, _HALF_CELLS, _entropies()))
    return replace(account, steps=account.steps + questions, micro_nats=round(spent * MICRO))


def coming_questions(asked: int, expect: float | None) -> float:
    """How many questions to suppose after the next one, of which ``asked`` came before."""
    step = asked + 1
    if expect is None:
        return _COMING_PER_ASKED * step
    return max((expect - step) / 1.5, 0.75 * step)


def best_half_cell(account: Account, error: float, arm: float, *, nats: float | None = None) -> float:
    """Half of a cell.

    ``error`` is the predicted deviation of statistic − guess, ``arm`` the predicted half-width of the
    fixed-query interval at the account's nats. ``nats`` is what the question is wished to cost on average,
    where it may reveal more than the rule would have it.

    Guarantee: none is needed; any cell is valid.
    Reference: docs/theory/code-guard.md, "The cell".
    """
    if nats is not None:
        affordable = int(np.argmax(nats >= _entropies()))
        return float(_HALF_CELLS[affordable]) * error
    coming = coming_questions(account.steps, account.weights.expect)
    level = account.nats()
    growth = max(
        0.0,
        account.weights.nats(account.steps + 1 + math.ceil(coming)) - account.weights.nats(account.steps + 1),
    )
    widths = _HALF_CELLS * error + arm * np.sqrt((level + growth + coming * _entropies()) / level)
    return float(_HALF_CELLS[int(np.argmin(widths))]) * error
