"""Blocks of rows with gaps between them: nearly independent units of a series."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._best import TailRow
from holdfast.dependence._layouts import Layout, blocks_in, price_of
from holdfast.dependence._mixing import Mixing, Series, block_tail
from holdfast.dependence._model import MOST_ROWS, bound_to, whole_steps
from holdfast.errors import InvalidArgument, NotEnoughRows


@dataclass(frozen=True, repr=False)
class Blocks(Series):
    """Rows in order, cut into blocks of ``length`` rows with ``gap`` rows left out after each.

    ``mixing`` says what of the past is still known after a gap: a number, the largest total variation between
    the rows from there on given all rows before the gap and their own law; or a :class:`Mixing`. ``n`` is the
    number of rows; None: that of the table it is used for.

    Guarantee: the blocks are within total variation (blocks − 1)·mixing of independent blocks. A guard
    charges that once, and then answers by sums over blocks.
    Assumes: ``mixing`` (not checkable from the data).
    Reference: ``docs/theory/dependence.md``, "Blocks".

    >>> Blocks(100, 20, 1e-6).with_rows(12_000).layouts(0.05)[0].blocks
    100
    """

    length: int
    gap: int
    mixing: float | Mixing
    n: int = None  # type: ignore[assignment]  # that of the table it is used for

    name: ClassVar[str] = "blocks of rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", checks.whole(self.length, "length", of="Blocks"))
        object.__setattr__(self, "gap", checks.whole(self.gap, "gap", at_least=0, of="Blocks"))
        if not isinstance(self.mixing, Mixing):
            object.__setattr__(self, "mixing", checks.real(self.mixing, "mixing", "[0, 1)", of="Blocks"))
        if self.n is not None:
            n = checks.whole(self.n, "n", at_most=MOST_ROWS, of="Blocks")
            object.__setattr__(self, "n", n)
            if blocks_in(n, self.length, self.gap) < 2:
                raise NotEnoughRows(
                    2 * self.length + self.gap, n, what="Two blocks with the gap between them"
                )

    def _about(self, n: int) -> Self:
        return replace(self, n=n)

    @property
    def remembered(self) -> float:
        """What of the past is still known after a gap."""
        if isinstance(self.mixing, Mixing):
            return min(1.0, rounding.up(math.exp(float(self.mixing.log_remembered([self.gap + 1])[0]))))
        return self.mixing

    def log_remembered(self, steps: Any) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            after = float(np.log(np.array(self.remembered)))
        return np.where(whole_steps(steps) <= self.gap, 0.0, after)

    @property
    def _parameters(self) -> tuple[str, ...]:
        return (f"blocks of {self.length:,} rows, {self.gap:,} rows between them",)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"The rows are a stationary series in the order of the table. After a gap of {self.gap:,} rows "
            f"what came before moves the law of what follows by at most {self.remembered:.3g} in total "
            "variation.",
        )

    def layouts(self, beta: Any = 0.05) -> tuple[Layout, ...]:
        """The layout that was declared."""
        n = bound_to(self, of="layouts")
        blocks = blocks_in(n, self.length, self.gap)
        return (Layout(self.length, self.gap, blocks, self._price(n, beta)),)

    def _price(self, n: int, beta: float) -> float:
        blocks = blocks_in(n, self.length, self.gap)
        price = price_of(self.log_remembered, blocks, self.gap)
        if not price <= beta / 2:
            raise InvalidArgument(
                "gap",
                f"long enough: {blocks:,} blocks with {self.remembered:.3g} remembered after each gap are "
                f"within {price:.3g} of independent, and at most half of the error, {beta / 2:.3g}, may be "
                "spent on that. Give a longer gap, longer blocks or a lower confidence",
                self.gap,
                of="Blocks",
            )
        return price

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        n = bound_to(self, of="mean_tail")
        tail = block_tail(self.log_remembered, n, hi - lo)
        return (TailRow("β-mixing blocks", "Yu 1994, lemma 4.1, with the best block length", tail),)

    def _gap(self, beta: float) -> tuple[int, float]:
        return self.gap, self.remembered
