"""The code guard as a method of the planner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.coding import Weights, training_share
from holdfast.dependence import Independent
from holdfast.dependence._holdout import SimilarClusters
from holdfast.dependence._model import part_size
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.planning._code import expected_width, promised_width
from holdfast.planning._method import KINDS, Method, Promise, Setting
from holdfast.planning._noise import parameters_of
from holdfast.tails import Tail


@dataclass(frozen=True)
class Parts:
    """How many rows are protected and how many set aside, the tail of a mean over the former, and the total
    variation between the two and independent ones."""

    protected: int
    training: int
    tail: Tail
    bias: float


class Code(Method):
    """No noise; every surprise is paid for by later intervals (theory 2.2)."""

    name = "code"
    answers: tuple[str, ...] = KINDS
    tolerance = 1e-4

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._known: dict[tuple[int, float], Parts] = {}

    def share(self, queries: int) -> float:
        """The share of the rows that is set aside."""
        return training_share(Weights(expect=float(queries)))

    @cached_property
    def _refusal(self) -> str:
        if not self.setting.bounded:
            return "The rows are unbounded: ask with a tail of your own and a guess."
        if self.setting.model is not None:
            try:
                self._parts(self.setting.model.n, 1)
            except InvalidArgument:
                return "Under this model no training part of our own is known to be independent of the rest."
            except NotEnoughRows:
                return ""
        return ""

    def reason(self) -> str:
        """A training part must be independent of the protected rows."""
        return self._refusal

    def unstated(self) -> str:
        """How many guesses may be off decides the width."""
        if self.setting.surprises is not None:
            return ""
        return (
            "A forecast for honest guesses: state how many answers may surprise (surprises=…) to have it "
            "promised."
        )

    def assumptions(self, rows: int, queries: int) -> tuple[str, ...]:
        """The training part, and the surprises."""
        share = f"{'A quarter' if self.share(queries) == 1 / 4 else 'A third'} of the rows"
        part = f"{share} is a training part, free to look at, that gives the guesses."
        stated = self.setting.surprises
        if stated is None:
            often = "The guesses are as good as those from a fresh sample."
        else:
            often = (
                f"At most {stated:,} of the answers surprise: they are farther from the guess than half a "
                "cell."
            )
        return (*self.setting.assumptions, part, often)

    def _parts(self, rows: int, queries: int) -> Parts:
        share = self.share(queries)
        if (rows, share) not in self._known:
            self._known[rows, share] = self._split(rows, share)
        return self._known[rows, share]

    def _split(self, rows: int, share: float) -> Parts:
        model = self.setting.rows(rows)
        if isinstance(model, (Independent, SimilarClusters)):
            if rows < 2:
                raise NotEnoughRows(2, rows, what="Setting a training part aside")
            training = part_size(share, rows)
            kept = rows - training
            return Parts(kept, training, self.setting.tail(kept), 0.0)
        split = model.split(share, np.random.default_rng(0), self.setting.beta)
        kept_model = split.protected_model
        return Parts(kept_model.n, int(split.train.sum()), kept_model.mean_tail(0.0, 1.0), split.bias)

    def at(self, rows: int, queries: int) -> Promise:
        """The half-width that is promised for the stated surprises, else the one to expect."""
        if self.reason():
            return Promise(self.setting.limit, {})
        try:
            parts = self._parts(rows, queries)
        except NotEnoughRows:
            return Promise(1.0, {})
        found = self._promised(parts, queries, self.setting.beta - parts.bias)
        rows_of = {"protected_rows": parts.protected, "training_rows": parts.training, "bias": parts.bias}
        return Promise(found.error, {**found.parameters, **rows_of})

    def _promised(self, parts: Parts, queries: int, beta: float) -> Promise:
        """The promise on these parts."""
        stated = self.setting.surprises
        if stated is None:
            ratio = parts.protected / max(1, parts.training)
            promise = self.setting.promise
            found = expected_width(parts.tail, queries, beta, rows_a_training_row=ratio, promise=promise)
        else:
            found = promised_width(parts.tail, queries, beta, stated, promise=self.setting.promise)
        return Promise(found.error, parameters_of(found))

    def rows_for(self, error: float, queries: int) -> int | None:
        """Training part included."""
        return None if self.reason() else super().rows_for(error, queries)

    def queries_for(self, error: float, rows: int) -> int:
        """How many questions fit, with the stated surprises among them."""
        return 0 if self.reason() else super().queries_for(error, rows)
