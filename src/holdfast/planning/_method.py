"""What every method of the planner is: a promise for so many rows and queries, and what it rests on; and
where a bound crosses a target: the least number of rows, or the largest number of queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from holdfast import search
from holdfast.dependence import Dependence, Independent
from holdfast.tails import BoundedDifferences, SubGaussian, Tail
from holdfast.typing import PromiseKind

MOST_QUERIES = 10**9
MOST_ROWS = 10**15

_ONLY_ANSWERS = "The questions depend on the rows only through the answers given before."
_BOUNDED = "Every answer is the mean over the rows of values in [0, 1]."
_OF_THE_ROWS = "Every answer is a linear statistic of the rows whose variance is at most that of their mean."


@dataclass(frozen=True)
class CertifiedError:
    """The certified error of a method, and every number needed to check it again."""

    error: float
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """What was stated: how the rows depend (None: they are independent), the probability that may fail, and
    how many questions may surprise (None: not stated). ``promise`` is that of a guard: "all" answers hold
    together, or "each" by itself."""

    model: Dependence | None
    beta: float
    surprises: int | None
    promise: PromiseKind = "all"
    tails: dict[int, Tail] = field(default_factory=dict, compare=False)

    @property
    def independent(self) -> bool:
        """Whether the rows were stated to be independent."""
        return self.model is None or isinstance(self.model, Independent)

    @property
    def bounded(self) -> bool:
        """Whether answers lie in [0, 1]; those about Gaussian rows do not."""
        return self.model is None or self.model.bounded

    @property
    def limit(self) -> float:
        """No answer in [0, 1] is off by more."""
        return 1.0 if self.bounded else float("inf")

    @property
    def normal_like(self) -> bool:
        """Whether radii go with the number of rows n as 1/√n, and with the nats as those of a normal."""
        return isinstance(
            self.tail(1 if self.model is None else self.model.n), (SubGaussian, BoundedDifferences)
        )

    def rows(self, n: int) -> Dependence:
        """The model with this many rows."""
        return Independent(n) if self.model is None else self.model.scaled_to(n, of="plan")

    def tail(self, n: int) -> Tail:
        """The tail of a query fixed in advance on n rows."""
        if n not in self.tails:
            model = self.rows(n)
            self.tails[n] = model.share_tail() if model.bounded else model.mean_tail()
        return self.tails[n]

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """What every method assumes."""
        stated = Independent(1).assumptions if self.model is None else self.model.assumptions
        return (*stated, _BOUNDED if self.bounded else _OF_THE_ROWS, _ONLY_ANSWERS)


QuestionKind = Literal["means", "filtered", "quantiles", "custom"]
KINDS: tuple[QuestionKind, ...] = get_args(QuestionKind)
MEANS, FILTERED, QUANTILES, CUSTOM = KINDS
"""Kinds of questions: means and shares of all rows; the same among rows that pass a filter; quantiles; and
statistics of one's own with a declared tail. Errors are certified for the first kind."""


class Method(ABC):
    """One way to keep a promise, in one setting."""

    name: ClassVar[str]
    own_assumptions: ClassVar[tuple[str, ...]] = ()
    answers: tuple[str, ...] = (MEANS,)
    noisy: ClassVar[bool] = False
    # How far rows and queries found by search may be from the best ones, where each try takes long.
    tolerance: ClassVar[float] = 0.0

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @abstractmethod
    def at(self, rows: int, queries: int) -> CertifiedError:
        """The certified error for this many rows and queries."""

    def keeping(self, error: float, rows: int, queries: int) -> CertifiedError:
        """A promise of this error, which these rows and queries are known to allow."""
        return self.at(rows, queries)

    def reason(self) -> str:
        """Why the method is not valid in this setting; empty if it is."""
        return ""

    def unstated(self) -> str:
        """What it needs that was not stated; empty if nothing."""
        return ""

    def assumptions(self, rows: int, queries: int) -> tuple[str, ...]:
        """What the promise assumes."""
        return (*self.setting.assumptions, *self.own_assumptions)

    def printed(self) -> Method | None:
        """The route as the literature prints it, where there is one."""
        return None

    def variants(self) -> tuple[Method, ...]:
        """Other ways to compute the same promise."""
        return ()

    def rows_for(self, error: float, queries: int) -> int | None:
        """The least number of rows for this error; None if none is known."""
        return search.whole_root(
            lambda n: self.at(n, queries).error,
            error,
            start=max(1, round(10.0 / error**2)),
            growth=-0.5,
            most=MOST_ROWS,
            tolerance=0.0 if self.setting.normal_like else self.tolerance,
        )

    def queries_for(self, error: float, rows: int) -> int:
        """The largest number of queries for which this error can be promised."""
        queries = search.whole_root(
            lambda k: self.at(rows, k).error,
            error,
            start=16,
            growth=0.5,
            most=MOST_QUERIES,
            tolerance=self.tolerance,
        )
        return queries or 0
