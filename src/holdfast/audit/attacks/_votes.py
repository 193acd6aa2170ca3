"""Attacks that vote: columns turned the way their answers pointed, with and without averaging noise away.

The linear threshold classifier keeps the columns on which training part and answers agree. Boosting on a
leaderboard takes the majority of the random predictions that scored well. On a chain, long stays make small
shares look certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.audit.attacks._protocol import (
    Answerer,
    Attack,
    AttackQuestion,
    Floats,
    Rows,
    Transcript,
    carried_out,
    expected_share,
    quoted_column,
    weighted,
)
from holdfast.errors import InvalidArgument

_SURE = 1e-3
_TIE = 1e-9  # equal weights could add up to nothing; the first column decides then
Labels = npt.NDArray[np.int64]
_RULES = ("scores", "steps")
_MOST_BITS = 12


def linear_classifier_attack(answer: Answerer, train: Rows, *, kept: int, reach: float = 4.0) -> Attack:
    """Ask how each column correlates with the label, keep the ``kept`` largest of those that training part
    and answers agree on, and ask how often the sign of their sum is the label.

    The last column of ``train`` is the label, ±1. The correlation is the mean of column times label, cut at
    ±``reach`` and carried over to [0, 1]; a column of signs with ``reach=1`` makes questions of 0 and 1. A
    column is kept if both correlations have the same sign and a size of at least 1/√n.

    Guarantee: none of its own. On 10,000 rows of 10,000 columns without signal plain averages report more
    than 63 % for 500 columns.
    Assumes: columns symmetric about 0 and independent of the label and of each other: every truth is ½.
    Reference: Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015.

    Args:
        answer: A function that answers one question; see :mod:`holdfast.audit.attacks`.

    >>> import numpy as np
    >>> from holdfast.audit.attacks import naive
    >>> rng = np.random.default_rng(0)
    >>> world = lambda: np.column_stack([rng.normal(size=(500, 300)), rng.choice([-1.0, 1.0], 500)])
    >>> train, holdout = world(), world()
    >>> linear_classifier_attack(naive(holdout), train, kept=50).gain > 0.05
    True
    """
    of = "linear_classifier_attack"
    kept = checks.whole(kept, "kept", of=of)
    reach = checks.real(reach, "reach", "(0, inf)", of=of)
    train = np.asarray(train)
    if train.ndim != 2 or train.shape[1] < 2 or not (np.abs(train[:, -1]) == 1).all():
        raise InvalidArgument("train", "a matrix whose last column is the label, −1 or 1", train, of=of)
    least = 1 / math.sqrt(len(train))

    # Columns of signs make questions of 0 and 1, which can be written down.
    binary = reach == 1 and bool(np.isin(train[:, :-1], (-1, 1)).all())

    def condition(column: int) -> Callable[[Sequence[str]], str] | None:
        return partial(agrees_condition, column) if binary else None

    def moves(transcript: Transcript) -> dict[str, Any]:
        in_training = np.clip(train[:, :-1] * train[:, -1:], -reach, reach).mean(axis=0)
        answers = np.array(
            [
                transcript.ask(
                    AttackQuestion(
                        partial(_product, j, reach), 0.5, name=f"column {j}", condition=condition(j)
                    )
                )
                for j in range(len(in_training))
            ]
        )
        answers = reach * (2 * answers - 1)
        agreeing = np.flatnonzero(
            (in_training * answers > 0) & (np.abs(in_training) >= least) & (np.abs(answers) >= least)
        )
        chosen = agreeing[np.argsort(-np.abs(in_training[agreeing]), kind="stable")][:kept]
        # The training part's first choice decides where signs add up to nothing.
        signs = np.sign(in_training[chosen]) * np.where(np.arange(len(chosen)) == 0, 1 + 1e-9, 1.0)
        right = AttackQuestion(
            partial(_right, chosen, signs), 0.5, None, "classifier", partial(_right_condition, chosen, signs)
        )
        transcript.ask(right)
        return {"columns": chosen.tolist(), "signs": np.sign(signs).astype(int).tolist()}

    return carried_out("linear classifier", answer, moves)


def _product(column: int, reach: float, rows: Rows) -> Floats:
    return np.asarray((np.clip(rows[:, column] * rows[:, -1] / reach, -1, 1) + 1) / 2)


def _right(chosen: Any, signs: Floats, rows: Rows) -> Floats:
    """How often the classifier is right; with no columns it always says no."""
    return np.asarray((rows[:, chosen] @ signs > 0) == (rows[:, -1] > 0), dtype=np.float64)


def _right_condition(chosen: Any, signs: Floats, names: Sequence[str]) -> str:
    score = weighted([names[j] for j in chosen], signs.tolist())
    return f"(({score}) > 0) = ({quoted_column(names[-1])} > 0)"


def fair_signs(rng: np.random.Generator, rows: int, columns: int) -> npt.NDArray[np.int8]:
    """Rows of fair signs, −1 and 1: every vote of columns agrees with another column half of the time.

    Args:
        rng: The source of random numbers.
        rows: How many rows.
        columns: How many columns.
    """
    return (2 * rng.integers(0, 2, (rows, columns), dtype=np.int8) - 1).astype(np.int8)


def vote_attack(answer: Answerer, *, columns: int, rows: int | None = None) -> Attack:
    """Ask how often each of ``columns`` columns agrees with the last one, weigh each by the log odds of its
    answer, and ask how often the vote agrees.

    ``rows`` is how many rows the attacker thinks there are, for the last guess; none is brought without it.

    Guarantee: none of its own. Plain averages over n rows are too high by about 0.32 √(columns/n) at the end.
    Assumes: rows of fair signs, ``columns`` + 1 of them (:func:`fair_signs`): every truth is ½.
    Reference: Rogers, Roth, Smith, Srebro, Thakkar and Woodworth 2020.

    Args:
        answer: A function that answers one question; see :mod:`holdfast.audit.attacks`.

    >>> import numpy as np
    >>> from holdfast.audit.attacks import naive
    >>> rows = fair_signs(np.random.default_rng(0), 1000, 201)
    >>> vote_attack(naive(rows), columns=200).gain > 0.1
    True
    """
    return _voted("vote", answer, columns, rows, 1, of="vote_attack")


def averaging_attack(answer: Answerer, *, columns: int, repeats: int, rows: int | None = None) -> Attack:
    """The vote attack, but each column is asked about ``repeats`` times, in words that no cache recognises,
    and its answers are averaged: fresh noise is averaged away.

    A repetition mixes the question with a constant, and every other one asks for the contrary: all say the
    same about the rows.

    Guarantee: none of its own; noise of standard deviation s counts as s/√repeats.
    Assumes: as :func:`vote_attack`.
    Reference: Dinur and Nissim 2003, for answers that are asked again.

    Args:
        answer: A function that answers one question; see :mod:`holdfast.audit.attacks`.
        columns: How many columns are asked about.
        rows: How many rows the attacker thinks there are. Without it no guess is given.

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
            share = float(
                np.mean([_once(transcript, column, repetition, rows) for repetition in range(repeats)])
            )
            share = min(1 - _SURE, max(_SURE, share))
            weights[column] = math.log(share / (1 - share)) or _SURE
        weights[0] += _TIE
        expected = None if rows is None else transcript.on_edge(expected_share(columns, rows))
        condition = partial(_agreement_condition, weights)
        transcript.ask(AttackQuestion(partial(_agreement, weights), 0.5, expected, "vote", condition))
        return {"weights": weights.tolist()}

    return carried_out(name, answer, moves)


def _once(transcript: Transcript, column: int, repetition: int, rows: int | None) -> float:
    """One estimate of how often the column agrees with the last."""
    guess = None if rows is None else transcript.on_edge(0.5 - 0.25 / rows)
    if repetition == 0:
        return transcript.ask(
            AttackQuestion(
                partial(_agrees, column), 0.5, guess, f"column {column}", partial(agrees_condition, column)
            )
        )
    mixed = repetition * 1e-7
    contrary = repetition % 2 == 1
    values: Callable[[Rows], Floats] = partial(_reworded, column, mixed, contrary)
    answer = transcript.ask(AttackQuestion(values, 0.5, None, f"column {column}, again {repetition}"))
    share = (answer - mixed / 2) / (1 - mixed)
    return 1 - share if contrary else share


def _agrees(column: int, rows: Rows) -> Floats:
    return np.asarray(rows[:, column] == rows[:, -1], dtype=np.float64)


def _reworded(column: int, mixed: float, contrary: bool, rows: Rows) -> Floats:
    plain = _agrees(column, rows)
    return np.asarray((1 - mixed) * (1 - plain if contrary else plain) + mixed / 2)


def _agreement(weights: Floats, rows: Rows) -> Floats:
    return np.asarray((rows[:, :-1] @ weights > 0) == (rows[:, -1] > 0), dtype=np.float64)


def agrees_condition(column: int, names: Sequence[str]) -> str:
    return f"{quoted_column(names[column])} = {quoted_column(names[-1])}"


def _agreement_condition(weights: Floats, names: Sequence[str]) -> str:
    return f"(({weighted(names[:-1], weights.tolist())}) > 0) = ({quoted_column(names[-1])} > 0)"


def ladder_boosting_attack(
    submit: Callable[[Labels], Any],
    *,
    rows: int,
    rounds: int,
    rng: np.random.Generator,
    rule: str = "scores",
    start: float = 0.5,
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

    Args:
        rng: The source of random numbers.

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
        votes, kept_count = np.zeros(rows, dtype=np.int64), 0
        for _ in range(rounds):
            prediction = rng.integers(0, 2, rows)
            value = transcript.hear(submit(prediction), 0.5)
            if value > (0.5 if rule == "scores" else standing):
                votes += 2 * prediction - 1
                kept_count += 1
            standing = max(standing, value)
        majority = np.where(votes == 0, rng.integers(0, 2, rows), votes > 0).astype(np.int64)
        transcript.hear(submit(majority), 0.5)
        return {"kept": kept_count}

    return carried_out("boosting", None, moves)


def sticky_states(rng: np.random.Generator, rows: int, *, bits: int, stay: float) -> npt.NDArray[np.int64]:
    """A chain of states of ``bits`` bits that stays with probability ``stay`` and else draws a new state.

    Args:
        rng: The source of random numbers.
        rows: How many rows.
    """
    moves = np.flatnonzero(rng.random(rows) >= stay)
    starts = np.concatenate(([0], moves[moves > 0]))
    return np.repeat(rng.integers(0, 2**bits, len(starts)), np.diff(np.append(starts, rows)))


def chain_attack(answer: Answerer, *, bits: int, rows: float | None = None) -> Attack:
    """Ask how often each parity of a state's bits is even, turn each the way its answer points, and ask how
    often the vote of all of them is positive.

    Rows are states 0 … 2^``bits`` − 1. The 2^bits − 1 parities are all orthogonal functions of a state, so
    the vote finds the states that happened to be visited most. ``rows`` is the number of *effective* rows the
    attacker counts on, n(1 − λ)/(1 + λ) for a chain with norm λ: with it guesses are brought.

    Guarantee: none of its own. An interval for independent rows is too narrow by √((1 + λ)/(1 − λ)).
    Assumes: a chain that is uniform over its states (:func:`sticky_states`); the truths are then exact.
    Reference: ``docs/theory/dependence.md``, "The tail of a mean" for the tail that withstands it.

    Args:
        answer: A function that answers one question; see :mod:`holdfast.audit.attacks`.

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
            answer = transcript.ask(_share_of(parity > 0, 0.5, guess, f"parity {place + 1}"))
            turned[place] = 1 if answer >= 0.5 else -1
        vote = turned @ parities > 0
        truth = float(vote.mean())
        guess = None
        if rows is not None:
            guess = transcript.on_edge(truth - 0.5 + expected_share(len(parities), rows, deviations=1.0))
        transcript.ask(_share_of(vote, truth, guess, "vote"))
        return {"states": int(vote.sum())}

    return carried_out("chain", answer, moves)


def _parities(bits: int) -> npt.NDArray[np.int64]:
    """A line for each parity but the empty one, a column for each state: ±1."""
    state = np.arange(2**bits)
    return np.array([1 - 2 * (np.bitwise_count(state & mask).astype(int) % 2) for mask in range(1, 2**bits)])


def _share_of(table: npt.NDArray[np.bool_], truth: float, guess: float | None, name: str) -> AttackQuestion:
    return AttackQuestion(partial(_within, table), truth, guess, name, partial(_within_condition, table))


def _within_condition(table: npt.NDArray[np.bool_], names: Sequence[str]) -> str:
    inside = ", ".join(map(str, np.flatnonzero(table)))
    return f"{quoted_column(names[0])} in ({inside})" if inside else "1 = 0"


def _within(table: npt.NDArray[np.bool_], rows: Rows) -> Floats:
    return np.asarray(table[np.asarray(rows).ravel().astype(np.int64)], dtype=np.float64)
