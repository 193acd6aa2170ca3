"""The analyst of Dwork et al. 2015: verify attributes on the holdout, then let the verified ones vote.

A row is the agreement of each of d attributes with the label, as bits: all that the analyst ever asks about.
Attributes whose agreement is at least a standard deviation away from one half in training are checked on the
holdout, the most informative first. An attribute is kept if the holdout's answer is as far from one half, on
the same side. The first k kept ones, each turned the way it points in training, vote for the label, and the
holdout is asked how often they are right.

Many runs make bands: numbers for the table, panels for the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BudgetSpent
from holdfast.intervals import clopper_pearson
from holdfast.lab._figures import Palette, percent, quiet

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """``rows`` rows of agreements, packed eight to a byte: attribute j is ``bits[j]``."""

    bits: NDArray[np.uint8]
    rows: int

    def __len__(self) -> int:
        return self.rows

    @classmethod
    def of(cls, agreements: NDArray[np.bool_]) -> Sample:
        """From booleans, an attribute a line."""
        return cls(np.packbits(agreements, axis=1), agreements.shape[1])

    def shares(self) -> Floats:
        """How often each attribute agrees with the label."""
        counts: Floats = np.bitwise_count(self.bits).sum(axis=1, dtype=np.int64) / self.rows
        return counts

    def agreement(self, attribute: int) -> NDArray[np.uint8]:
        """One attribute: 1 where it agrees with the label."""
        return np.unpackbits(self.bits[attribute], count=self.rows)

    def votes(self, chosen: NDArray[np.int64], signs: NDArray[np.int8]) -> Floats:
        """1 where the vote of the chosen attributes is right, ½ where it is tied."""
        agreeing, opposing = (
            np.unpackbits(self.bits[chosen[signs == sign]], axis=1, count=self.rows).sum(0, dtype=np.int32)
            for sign in (1, -1)
        )
        margin = 2 * (agreeing - opposing) - int(signs.sum())
        right: Floats = (np.sign(margin) + 1) / 2
        return right


class Reported(Protocol):
    """What an answer needs to have."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class Holdout(Protocol):
    """Anything that can be asked for the mean of a function."""

    def ask(self, f: Callable[[Any], Any]) -> Reported:
        """The mean of ``f``."""


@dataclass(frozen=True)
class PlainAnswer:
    """A mean with the interval that would hold if the question had been fixed and the rows independent."""

    value: float
    low: float
    high: float


class PlainHoldout:
    """Naive reuse: every question gets the holdout's own mean."""

    def __init__(self, holdout: Sample) -> None:
        self._holdout = holdout
        self._nats = -float(np.log(1 - 0.95))

    def ask(self, f: Callable[[Any], Any]) -> PlainAnswer:
        """The mean of ``f`` on the holdout, and the exact binomial interval of its rounded count."""
        value = float(np.mean(f(self._holdout)))
        interval = clopper_pearson(round(value * self._holdout.rows), self._holdout.rows, self._nats)
        return PlainAnswer(value, interval.low, interval.high)


@dataclass(frozen=True)
class Vote:
    """What was found for ``attributes`` votes: accuracy in training, as reported, and on fresh rows.

    ``held`` says whether every interval so far contained its true value; NaN where those are not known.
    """

    attributes: int
    training: float
    reported: float
    low: float
    high: float
    fresh: float
    held: float


_NOTHING = (np.nan, np.nan, np.nan)


@dataclass
class _Asking:
    """A holdout until it refuses; remembers whether every interval contained ``truth``."""

    holdout: Holdout
    truth: float | None
    refused: bool = False
    held: bool = True

    def ask(self, f: Callable[[Any], Any]) -> Reported | None:
        if self.refused:
            return None
        try:
            answer = self.holdout.ask(f)
        except BudgetSpent:
            self.refused = True
            return None
        self.held &= self.truth is None or answer.low <= self.truth <= answer.high
        return answer


def _agreement(attribute: int) -> Callable[[Sample], Any]:
    return lambda rows: rows.agreement(attribute)


def _vote(chosen: NDArray[np.int64], signs: NDArray[np.int8]) -> Callable[[Sample], Any]:
    return lambda rows: rows.votes(chosen, signs)


def analyse(
    holdout: Holdout,
    train: Sample,
    sizes: Sequence[int],
    fresh: Callable[[Any, Any], float],
    *,
    truth: float | None = None,
) -> list[Vote]:
    """Build the classifiers of all ``sizes``, each from what the one before it learned.

    ``fresh`` says how often a vote is right on rows that nobody asked about, and ``truth`` is what every
    question's answer should be where that is known. Once the holdout refuses, what would have been reported
    is NaN, and the classifiers continue to grow from the training part alone.
    """
    shares = train.shares()
    spread = 0.5 / np.sqrt(train.rows)
    order = np.argsort(-np.abs(shares - 0.5), kind="stable")
    waiting = iter(order[np.abs(shares[order] - 0.5) >= spread].tolist())
    asking = _Asking(holdout, truth)
    kept_attributes: list[int] = []
    votes = []
    for size in sizes:
        while len(kept_attributes) < size and (attribute := next(waiting, None)) is not None:
            answer = asking.ask(_agreement(attribute))
            share = shares[attribute] if answer is None else answer.value
            if (share - 0.5) * np.sign(shares[attribute] - 0.5) >= spread:
                kept_attributes.append(attribute)
        chosen = np.array(kept_attributes[:size], dtype=np.int64)
        signs = np.where(shares[chosen] >= 0.5, 1, -1).astype(np.int8)
        answer = asking.ask(_vote(chosen, signs))
        reported = _NOTHING if answer is None else (answer.value, answer.low, answer.high)
        training = float(train.votes(chosen, signs).mean())
        held = np.nan if truth is None else float(asking.held)
        votes.append(Vote(size, training, *reported, fresh(chosen, signs), held))
    return votes


COLUMNS = ("votes", "training", "reported", "sd", "fresh", "half-width", "answered", "holds", "all hold")


@dataclass(frozen=True)
class Bands:
    """All runs of one method: every array has a line for each run and a column for each size."""

    attributes: Floats
    training: Floats
    reported: Floats
    low: Floats
    high: Floats
    fresh: Floats
    held: Floats

    @classmethod
    def of(cls, runs: Sequence[Sequence[Vote]]) -> Bands:
        """Collect the runs."""
        columns = {
            field.name: np.array([[getattr(vote, field.name) for vote in run] for run in runs], dtype=float)
            for field in fields(Vote)
        }
        return cls(**columns)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Where the holdout did not refuse."""
        return np.isfinite(self.reported)

    def rows(self, truth: float | None) -> list[tuple[float | None, ...]]:
        """A line for each size; ``truth`` is the true accuracy where it is known, else fresh rows stand for
        it. A method that never answered has None there."""
        true = self.fresh if truth is None else np.full_like(self.fresh, truth)
        holds = (self.low <= true) & (true <= self.high)
        lines: list[tuple[float | None, ...]] = []
        for place, size in enumerate(self.attributes[0]):
            answered = self.answered[:, place]
            reported = self.reported[answered, place]
            numbers = (
                _mean(self.training[:, place]),
                _mean(reported),
                round(float(reported.std()), 4) if len(reported) else None,
                _mean(self.fresh[:, place]),
                _mean((self.high - self.low)[answered, place] / 2),
                _mean(answered.astype(float)),
                _mean(holds[answered, place].astype(float)),
                _mean(self.held[:, place]),
            )
            lines.append((int(size), *numbers))
        return lines


def _mean(values: Floats) -> float | None:
    """To four digits; None where there is nothing to average."""
    return round(float(values.mean()), 4) if len(values) and np.isfinite(values).all() else None


def draw_bands(axes: Any, bands: Bands, colours: Palette) -> None:
    """Accuracy against the number of attributes: training, as reported (with its interval), fresh rows."""
    places = bands.attributes[0]
    answered = bands.answered.any(axis=0)
    low, high = (
        np.array([column[np.isfinite(column)].mean() for column in end[:, answered].T])
        for end in (bands.low, bands.high)
    )
    axes.fill_between(
        places[answered], low, high, color=colours.reported, alpha=0.13, lw=0, label="interval (95 %)"
    )
    for name, values, colour, style in (
        ("training", bands.training, colours.training, (0, (1, 1.5))),
        ("fresh rows", bands.fresh, colours.fresh, (0, (5, 2))),
        ("reported", bands.reported, colours.reported, "-"),
    ):
        use = np.isfinite(values).any(axis=0)
        columns = [column[np.isfinite(column)] for column in values[:, use].T]
        middle = np.array([column.mean() for column in columns])
        spread = np.array([column.std() for column in columns])
        axes.fill_between(places[use], middle - spread, middle + spread, color=colour, alpha=0.28, lw=0)
        axes.plot(places[use], middle, color=colour, ls=style, lw=2, label=name)
    axes.yaxis.set_major_formatter(percent)
    quiet(axes, colours)
