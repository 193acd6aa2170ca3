"""The free training part: which rows it takes, which stay protected, what it costs (theory 2.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.records import Record

if TYPE_CHECKING:
    from holdfast.dependence._model import Dependence

Mask = NDArray[np.bool_]


@dataclass(frozen=True, repr=False, eq=False)
class Split(Record):
    """A division of the rows into a training part, a protected part and rows that belong to neither.

    ``train`` and ``protected`` are boolean masks over the rows and never overlap; rows in neither are
    dropped, so that the two parts do not touch. ``protected_model`` is the dependence model of the protected
    rows alone.

    Guarantee: the law of (training rows, protected rows) is within total variation ``bias`` of the law in
    which the two are independent, each with its own marginal. An event that has probability ≤ β when they are
    independent therefore has probability ≤ β + bias: charge ``bias`` to the confidence.
    Assumes: ``assumptions``, the sentences that the division itself needs.
    Reference: theory 2.2, the training part.
    """

    train: Mask = field(repr=False)
    protected: Mask = field(repr=False)
    protected_model: Dependence
    bias: float
    assumptions: tuple[str, ...]

    def __post_init__(self) -> None:
        for mask in (self.train, self.protected):
            mask.setflags(write=False)

    @property
    def dropped(self) -> int:
        """How many rows belong to neither part."""
        return int(len(self.train) - self.train.sum() - self.protected.sum())

    def _visible(self) -> dict[str, Any]:
        counts = {
            "train": int(self.train.sum()),
            "protected": int(self.protected.sum()),
            "dropped": self.dropped,
        }
        return {**counts, **super()._visible()}


def check_split(share: Any, rng: Any, beta: Any, *, of: str) -> tuple[float, np.random.Generator, float]:
    """Check the arguments that every rule takes."""
    owner = f"{of}.split"
    share = checks.real(share, "share", "(0, 1)", of=owner)
    beta = checks.real(beta, "beta", "(0, 1)", of=owner)
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgument("rng", "a numpy.random.Generator", rng, of=owner)
    return share, rng, beta


def part_size(share: float, rows: int) -> int:
    """About ``share`` of ``rows`` ≥ 2, with at least one row on each side."""
    return min(rows - 1, max(1, round(share * rows)))


def contiguous(train_rows: int, gap: int, n: int) -> tuple[Mask, Mask]:
    """The first rows as the training part, ``gap`` rows dropped, the rest protected."""
    place = np.arange(n)
    return place < train_rows, place >= train_rows + gap


def all_fresh(model: Dependence, sentence: str) -> Split:
    """Every row protected: none of them depends on a row that came before."""
    nothing, everything = (np.broadcast_to(np.bool_(mark), model.n) for mark in (False, True))
    return Split(nothing, everything, model, 0.0, (*model.assumptions, sentence))
