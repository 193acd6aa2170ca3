"""What a model of dependence is: it bounds the tail of a mean, and says how rows may be set aside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._best import BestTail, TailReport, TailRow, report
from holdfast.dependence._fingerprint import fingerprint_of
from holdfast.dependence._layouts import Layout, layouts_of
from holdfast.dependence._split import Split, all_fresh
from holdfast.errors import InvalidArgument
from holdfast.records import Record, show
from holdfast.tails import SubGaussian, Tail

GIVEN_TRAINING = (
    "The training part was supplied by the caller; that it is independent of the protected rows is assumed "
    "and cannot be checked from the data."
)

LATER = "The rows of this epoch come after all rows of earlier epochs in the same sequence."
NEW_ROWS = "The rows of this epoch are independent of all rows of earlier epochs."
# More than any table has; beyond, bounds that look at every block length run out of memory.
MOST_ROWS = 10**15


@dataclass(frozen=True, repr=False)
class Dependence(Record, ABC):
    """A statement about how the rows depend on one another, made before they are seen.

    ``extra_assumptions`` are sentences added to the model's own for the certificate.
    """

    extra_assumptions: tuple[str, ...] = field(default=(), kw_only=True, repr=False)

    name: ClassVar[str]

    if TYPE_CHECKING:
        # Some models are given n and others compute it; at run time a property here would become the default
        # of a field of that name.
        @property
        def n(self) -> int: ...

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that the model describes; None: all of them."""
        return None

    @property
    def failure(self) -> float:
        """The probability that the model is wrong because it was estimated; charge it to the confidence."""
        return 0.0

    @property
    def fitted_rows(self) -> int:
        """How many rows the model was fitted to; 0 for one that is given, or that does not count them."""
        return 0

    @property
    def follows_training(self) -> bool:
        """Whether a training part that is given is taken for the rows right before these, in one series: a
        gap is then left out and charged for, and nothing more is assumed."""
        return False

    def with_rows(self, n: int) -> Self:
        """The same model about ``n`` rows: itself, where it was made for them."""
        if n != self.n:
            raise InvalidArgument("dependence", f"a model of the {n:,} rows of the data", self, of="Guard")
        return self

    def log_remembered(self, steps: Any) -> NDArray[np.float64] | None:
        """For rows in order, ln of how much of the past the rows from ``steps`` places later on still know.

        ``steps`` are whole numbers; after 0 steps everything is known, ln 1.

        Guarantee: the mean total variation between the law of the rows from t + steps on, given all rows up
        to t, and their own law is at most exp of the result, for every t.
        Assumes: the sentences in ``assumptions`` (not checkable from the data). None: the model says nothing
        about rows in order.
        Reference: ``docs/theory/dependence.md``, "What a gap is worth".
        """
        return None

    @property
    def operator_norm(self) -> float | None:
        """Of a stationary chain, the norm of its transition matrix on mean-zero functions, below 1; None for
        other models."""
        return None

    def layouts(self, beta: Any = 0.05) -> tuple[Layout, ...]:
        """Ways to cut these rows into blocks that are nearly independent; none for models that say nothing
        about rows in order.

        ``beta`` is the probability that may fail in all. All layouts together cost at most a twentieth of it.
        Guarantee: that of each :class:`Layout`.
        Assumes: the sentences in ``assumptions`` (not checkable from the data).
        Reference: ``docs/theory/dependence.md``, "Blocks".
        """
        beta = checks.real(beta, "beta", "(0, 1)", of=f"{type(self).__name__}.layouts")
        if self.log_remembered(np.array([1])) is None:
            return ()

        def remembered(steps: NDArray[np.int64]) -> NDArray[np.float64]:
            logs = self.log_remembered(steps)
            assert logs is not None
            return logs

        return layouts_of(remembered, bound_to(self, of="layouts"), beta / 20.0)

    @property
    @abstractmethod
    def _stated(self) -> tuple[str, ...]:
        """What the model itself assumes."""

    @abstractmethod
    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        """Every bound on the tail of the mean of values in [lo, hi] that holds under the model."""

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything the model says about the law of the rows, in hexadecimal digits.

        Guarantee: models with the same content have the same fingerprint, on every machine, whether they were
        given as lists, arrays, graphs or models of another library; the order in which edges or factors are
        listed does not matter, nor do the names of nodes. Other content has another fingerprint; numbers
        that agree in their first twelve digits count as the same.
        Assumes: SHA-256 without collisions.
        """
        return fingerprint_of(type(self).__name__, self._content_of_law())

    def _content_of_law(self) -> tuple[Any, ...]:
        """What the fingerprint is of: by default every field that takes part in comparisons."""
        own = (item.name for item in fields(self) if item.compare and item.name != "extra_assumptions")
        return tuple(getattr(self, name) for name in own)

    @cached_property
    def description(self) -> str:
        """The model with its parameters in one line, for the certificate: all of them where they are few,
        else how many there are and what follows from them; and how the fingerprint begins."""
        parameters = "".join(f", {words}" for words in self._parameters)
        rows = "any number of" if self.n is None else f"{self.n:,}"
        return f"{self.name}, {rows} rows{parameters} (fingerprint {self.fingerprint[:16]})"

    @property
    def _parameters(self) -> tuple[str, ...]:
        """The parameters in words, beside the number of rows."""
        return ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken for granted and cannot be checked from the data, in words, for the certificate."""
        return (*self._stated, *self.extra_assumptions)

    def mean_tail(self, lo: Any, hi: Any) -> Tail:
        """The tail of the mean of f(X_1), …, f(X_n), for a function fixed in advance, values in [lo, hi].

        Guarantee: two-sided, about the average of the rows' own means; the best bound known at every
        distance.
        Assumes: the sentences in ``assumptions`` (not checkable from the data).
        Reference: the table of theory 1.1; ``mean_tail_report`` names each bound.
        """
        return best(self._rows(*value_range(lo, hi, of=type(self).__name__)))

    def mean_tail_report(self, lo: Any, hi: Any, nu: Any = 0.05) -> TailReport:
        """Every bound that ``mean_tail`` chooses from, with its theorem and its radius at ``nu``."""
        return report(self.name, self._rows(*value_range(lo, hi, of=type(self).__name__)), nu)

    def split(self, share: Any, rng: Any, beta: Any = 0.05) -> Split:
        """Set about ``share`` of the rows aside as the free training part (theory 2.2).

        ``beta`` is the probability that may fail in all; only models whose parts are not exactly independent
        need it.
        """
        raise InvalidArgument(
            "dependence",
            "a model with a rule for setting rows aside; for this one give the training part yourself "
            "(train=…) or bring a guess with every question",
            self.name,
            reference="theory 2.2, the training part",
        )

    def fresh(self, beta: Any = 0.05) -> Split:
        """Which of these rows may be protected from one who may know every row that came before them.

        There is no training part in it; rows that the earlier ones still reach are dropped. ``beta`` is the
        probability that may fail in all, of which at most a twentieth is spent here.
        Guarantee: the law of (earlier rows, protected rows) is within total variation ``bias`` of the law in
        which the two are independent.
        Assumes: the sentences of the split; that rows of different epochs are independent is one of them
        where the model says nothing about it.
        Reference: ``docs/theory/epochs.md``.
        """
        return all_fresh(self, NEW_ROWS)

    def protected_only(self) -> Self:
        """The same model where the caller supplied the training part, its independence now an assumption."""
        return replace(self, extra_assumptions=(*self.extra_assumptions, GIVEN_TRAINING))

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values, with its name and its assumptions."""
        return {"name": self.name, **super().to_dict(), "assumptions": list(self.assumptions)}


def best(rows: tuple[TailRow, ...]) -> Tail:
    """The one tail, or the best of several."""
    return rows[0].tail if len(rows) == 1 else BestTail(rows)


def bound_to(model: Dependence, *, of: str) -> int:
    """The number of rows of a model that may be made before its table is there."""
    if model.n is None:
        raise InvalidArgument(
            "n",
            "the number of rows of a table. Bind the model to a table first: model.with_rows(n), or give it "
            "to Guard",
            None,
            of=f"{type(model).__name__}.{of}",
        )
    return model.n


def whole_steps(steps: Any) -> NDArray[np.int64]:
    """Check numbers of steps: whole numbers, none negative."""
    array = np.asarray(steps)
    if array.dtype.kind not in "iu" or not (array >= 0).all():
        raise InvalidArgument("steps", "whole numbers of at least 0", steps, of="log_remembered")
    return array.astype(np.int64)


def column_names(columns: Any, *, of: str) -> tuple[str, ...]:
    """Check names of columns: one, or several that differ; in their order."""
    listed = (columns,) if isinstance(columns, str) else columns
    names = tuple(listed) if np.iterable(listed) and not isinstance(listed, bytes) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise InvalidArgument("columns", "the name of a column, or several different names", columns, of=of)
    return names


def state_is(columns: frozenset[str]) -> str:
    """What a state is, where the model describes named columns only, for the certificate."""
    word = "column" if len(columns) == 1 else "columns"
    return (
        f"A state is the value of the {word} {', '.join(map(repr, sorted(columns)))}. Given all that came "
        "before, other columns included, the next state depends on the chain's own past alone."
    )


def value_range(lo: Any, hi: Any, *, of: str) -> tuple[float, float]:
    """Check the bounds of the values whose mean is taken."""
    lo = checks.real(lo, "lo", "(-inf, inf)", of=f"{of}.mean_tail")
    hi = checks.real(hi, "hi", "(-inf, inf)", of=f"{of}.mean_tail")
    if not lo < hi or not np.isfinite(hi - lo):
        raise InvalidArgument("hi", f"above lo = {lo}", hi, of=f"{of}.mean_tail")
    return lo, hi


def from_squared_differences(total: float) -> SubGaussian:
    """The tail 2 exp(−2t²/total) of every bound of McDiarmid's kind: subgaussian with σ² = total/4."""
    return SubGaussian(rounding.up(0.5 * float(np.sqrt(total))))


def few(values: Any, words: str, most: int = 16) -> str:
    """Numbers as they are where they are few, else ``words`` about them."""
    array = np.asarray(values)
    return words if array.size > most else _listed(array.tolist())


def _listed(values: Any) -> str:
    return f"[{', '.join(map(_listed, values))}]" if isinstance(values, list) else show(values)


def row_differences(differences: Any, n: int, *, of: str) -> NDArray[np.float64]:
    """How far the statistic moves when one row changes: one number for all rows, or one for each."""
    owner = f"{of}.difference_tail"
    if np.ndim(differences) == 0:
        values = np.full(n, checks.real(differences, "differences", "(0, inf)", of=owner))
    else:
        values = np.array(checks.reals(differences, "differences", "[0, inf)", of=owner))
    if len(values) != n or not values.max() > 0.0:
        raise InvalidArgument(
            "differences",
            f"one number or {n} numbers, one for each row and not all zero",
            differences,
            of=owner,
        )
    return values
