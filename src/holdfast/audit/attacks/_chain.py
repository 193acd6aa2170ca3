"""An adaptive attack on a chain: long stays make small shares look certain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.audit.attacks._protocol import Answerer, Attack, Floats, Question, Rows, Transcript, carried_out
from holdfast.audit.attacks._sql import quoted

_MOST_BITS = 12


def sticky_states(rng: np.random.Generator, rows: int, *, bits: int, stay: float) -> npt.NDArray[np.int64]:
    """A chain of states of ``bits`` bits that stays with probability ``stay`` and else draws a new state."""
    moves = np.flatnonzero(rng.random(rows) >= stay)
    starts = np.concatenate(([0], moves[moves > 0]))
    return np.repeat(rng.integers(0, 2**bits, len(starts)), np.diff(np.append(starts, rows)))


def chain_attack(answer: Answerer, *, bits: Any, rows: Any = None) -> Attack:
    """Ask how often each parity of a state's bits is even, turn each the way its answer points, and ask how
    often the vote of all of them is positive.

    Rows are states 0 … 2^``bits`` − 1. The 2^bits − 1 parities are all orthogonal functions of a state, so
    the vote finds the states that happened to be visited most. ``rows`` is the number of *effective* rows the
    attacker counts on, n(1 − λ)/(1 + λ) for a chain with norm λ: with it guesses are brought.

    Guarantee: none of its own. An interval for independent rows is too narrow by √((1 + λ)/(1 − λ)).
    Assumes: a chain that is uniform over its states (:func:`sticky_states`); the truths are then exact.
    Reference: theory 1.1 for the tail that withstands it.

    >>> import numpy as np
    >>> from holdfast.audit.attacks import naive
    >>> states = sticky_states(np.random.default_rng(0), 10_000, bits=5, stay=0.9)
    >>> attack = chain_attack(naive(states, failure=0.001), bits=5)
    >>> attack.missed > 0
    True
    """
    of = "chain_attack"
    bits = checks.whole(bits, "bits", at_most=_MOST_BITS, of=of)
    rows = None if rows is None else checks.whole(rows, "rows", of=of)

    def moves(transcript: Transcript) -> dict[str, Any]:
        parities = _parities(bits)
        turned = np.ones(len(parities), dtype=np.int64)
        for place, parity in enumerate(parities):
            guess = None if rows is None else transcript.on_edge(0.5)
            told = transcript.ask(_share_of(parity > 0, 0.5, guess, f"parity {place + 1}"))
            turned[place] = 1 if told >= 0.5 else -1
        vote = turned @ parities > 0
        truth = float(vote.mean())
        guess = None if rows is None else transcript.on_edge(truth - 0.5 + _expected(len(parities), rows))
        transcript.ask(_share_of(vote, truth, guess, "vote"))
        return {"states": int(vote.sum())}

    return carried_out("chain", answer, moves)


def _expected(parities: int, rows: int) -> float:
    return (1 + math.erf(math.sqrt(parities / (math.pi * rows)))) / 2 - 0.5 / math.sqrt(rows)


def _parities(bits: int) -> npt.NDArray[np.int64]:
    """A line for each parity but the empty one, a column for each state: ±1."""
    state = np.arange(2**bits)
    return np.array([1 - 2 * (np.bitwise_count(state & mask).astype(int) % 2) for mask in range(1, 2**bits)])


def _share_of(table: npt.NDArray[np.bool_], truth: float, guess: float | None, name: str) -> Question:
    return Question(partial(_within, table), truth, guess, name, partial(_within_said, table))


def _within_said(table: npt.NDArray[np.bool_], names: Sequence[str]) -> str:
    inside = ", ".join(map(str, np.flatnonzero(table)))
    return f"{quoted(names[0])} in ({inside})" if inside else "1 = 0"


def _within(table: npt.NDArray[np.bool_], rows: Rows) -> Floats:
    return np.asarray(table[np.asarray(rows).ravel().astype(np.int64)], dtype=np.float64)
