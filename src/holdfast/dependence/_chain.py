"""Markov chains."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, rounding
from holdfast.dependence._chain_privacy import chain_routes, cross_ratio
from holdfast.dependence._chain_quilts import (
    ChainQuilts,
    chain_influence,
    chain_quilts,
    row_number,
    row_numbers,
)
from holdfast.dependence._forgetting import (
    Forgetting,
    dobrushin,
    forgets,
    operator_norm,
    read_initial,
    read_transition,
    stationary_law,
    steps_to_reach,
    tabulated_forgetting,
    unreachable,
)
from holdfast.dependence._mixing import Layout, block_tail
from holdfast.dependence._model import (
    LATER,
    MOST_ROWS,
    Dependence,
    Split,
    check_split,
    column_names,
    contiguous,
    few,
    from_squared_differences,
    part_size,
    row_differences,
    state_is,
    value_range,
    whole_steps,
)
from holdfast.dependence._privacy import MechanismLike, Routes, chain_law, exact_leakage, refuse_domain
from holdfast.dependence._quilts import Quilt
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.tails import BestTail, ShiftedTail, SubGaussian, Tail, TailReport, TailRow
from holdfast.tails import tail_report as report

if TYPE_CHECKING:
    pass

# Tables of block lengths take too long for chains with more rows.
_LONG = 10**7
_FITTED = (
    "The transition matrix was fitted to {count:,} observed rows and is then taken as exact: that the rows "
    "form such a chain, and the error of the fit, are assumptions that no interval accounts for."
)
# Only in the warning: books keep the sentence above word for word.
_BETTER = " holdfast.dependence.fit accounts for the error of the fit."


@dataclass(frozen=True, repr=False)
class MarkovChain(Dependence):
    """``n`` rows in order whose states follow a Markov chain with the given ``transition`` matrix.

    A row's state is everything the questions may look at. ``initial`` is the law of the first row; None means
    that the chain starts at its stationary law, which needs an irreducible chain. ``columns`` names the
    columns that make up the state, one or several; None: all of them.

    >>> chain = MarkovChain([[0.95, 0.05], [0.05, 0.95]], n=10_000)
    >>> round(chain.spectral_gap, 9), round(chain.contraction, 9), round(chain.cross_ratio, 9)
    (0.1, 0.9, 0.002770083)
    """

    transition: NDArray[np.float64] = field(compare=False)
    n: int
    initial: NDArray[np.float64] | None = field(default=None, compare=False)
    columns: frozenset[str] | None = field(default=None, kw_only=True)
    _content: bytes = field(init=False, repr=False)

    name: ClassVar[str] = "Markov chain"

    if TYPE_CHECKING:  # anything that is an array of numbers is taken; an array is kept

        def __init__(
            self,
            transition: ArrayLike,
            n: int,
            initial: ArrayLike | None = None,
            *,
            columns: Collection[str] | None = None,
            extra_assumptions: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        matrix = read_transition(self.transition)
        matrix.setflags(write=False)
        start = None if self.initial is None else read_initial(self.initial, len(matrix))
        if start is not None:
            start.setflags(write=False)
        object.__setattr__(self, "transition", matrix)
        object.__setattr__(self, "n", checks.whole(self.n, "n", at_most=MOST_ROWS, of="MarkovChain"))
        object.__setattr__(self, "initial", start)
        if self.columns is not None:
            object.__setattr__(self, "columns", frozenset(column_names(self.columns, of="MarkovChain")))
        content = matrix.tobytes() + (b"" if start is None else start.tobytes())
        object.__setattr__(self, "_content", content)

    @classmethod
    def fit(
        cls,
        states: ArrayLike,
        n_states: int | None = None,
        n: int | None = None,
        *,
        columns: str | Collection[str] | None = None,
    ) -> MarkovChain:
        """A chain with the observed frequencies of transitions, started at its stationary law.

        ``states`` are whole numbers 0, 1, …; ``n`` is the number of rows, by default that of ``states``;
        ``columns`` names the columns that make up the state. Fitting is an assumption, warned of here and
        listed on every certificate; ``dependence.fit`` accounts for the error of the fit. Fit on rows that no
        question is asked about: a model read off the protected rows would be an answer nobody paid for.

        Args:
            n_states: How many states there are. None: as many as occur.
        """
        observed = np.asarray(states)
        if observed.ndim != 1 or len(observed) < 2 or observed.dtype.kind not in "iu" or observed.min() < 0:
            raise InvalidArgument(
                "states", "at least two whole numbers 0, 1, … in their order", states, of="MarkovChain.fit"
            )
        highest = int(observed.max()) + 1
        size = (
            highest
            if n_states is None
            else checks.whole(n_states, "n_states", at_least=highest, of="MarkovChain.fit")
        )
        counts = np.zeros((size, size))
        np.add.at(counts, (observed[:-1], observed[1:]), 1.0)
        leaving = counts.sum(axis=1)
        if not leaving.all():
            missing = int(np.flatnonzero(leaving == 0.0)[0])
            raise InvalidArgument(
                "states",
                f"a sequence that leaves every state at least once (state {missing} is never left: join it "
                "with another, or give the transition matrix yourself)",
                states,
                of="MarkovChain.fit",
            )
        sentence = _FITTED.format(count=len(observed))
        warnings.warn(sentence + _BETTER, UserWarning, stacklevel=2)
        rows = len(observed) if n is None else n
        return cls(counts / leaving[:, None], rows, columns=columns, extra_assumptions=(sentence,))

    def _visible(self) -> dict[str, Any]:
        start = None if self.initial is None else self.initial.tolist()
        named = {} if self.columns is None else {"columns": sorted(self.columns)}
        return {"transition": self.transition.tolist(), "n": self.n, "initial": start, **named}

    def __repr__(self) -> str:
        start = "stationary" if self.initial is None else "given"
        named = "" if self.columns is None else f", columns={sorted(self.columns)}"
        return f"MarkovChain(states={len(self.transition)}, n={self.n}, start={start}{named})"

    def _content_of_law(self) -> tuple[Any, ...]:
        # Models without named columns keep the fingerprint that they had before columns could be named.
        named = () if self.columns is None else (sorted(self.columns),)
        return self.transition, self.n, self.initial, *named

    @property
    def _parameters(self) -> tuple[str, ...]:
        states = len(self.transition)
        words = [few(self.transition, f"{states}×{states} numbers")]
        words[0] = f"{states} states, transition matrix {words[0]}"
        start = "stationary" if self.initial is None else few(self.initial, f"{states} numbers")
        words += [f"start {start}", f"contraction {self.contraction:.6g}"]
        if unreachable(self.transition) is None:
            words.append(f"spectral gap {self.spectral_gap:.6g}")
        return tuple(words)

    @cached_property
    def stationary(self) -> NDArray[np.float64]:
        """The stationary law; it needs an irreducible chain."""
        apart = unreachable(self.transition)
        if apart is not None:
            raise InvalidArgument(
                "transition",
                "irreducible, so that there is one stationary law with every state in it "
                f"(state {apart[1]} is never reached from state {apart[0]}); or give the law of the first "
                "row (initial=…)",
                repr(self),
                of="MarkovChain",
            )
        law = stationary_law(self.transition)
        law.setflags(write=False)
        return law

    @cached_property
    def spectral_gap(self) -> float:
        """1 − the operator norm of P on mean-zero functions in L²(π), rounded down; never the eigenvalues."""
        return max(0.0, 1.0 - operator_norm(self.transition, self.stationary))

    @property
    def operator_norm(self) -> float | None:
        """The norm of the transition matrix on mean-zero functions in L²(π); None for a chain that does not
        start at its stationary law, and where the norm is 1."""
        if self.initial is not None or not self.spectral_gap > 0.0:
            return None
        return 1.0 - self.spectral_gap

    def layouts(self, beta: float = 0.05) -> tuple[Layout, ...]:
        """Ways to cut these rows into blocks. There is none if the chain does not start at its stationary
        law: then the blocks have different means."""
        return super().layouts(beta) if self.initial is None else ()

    @cached_property
    def contraction(self) -> float:
        """Dobrushin's θ: the largest total variation between two rows of the matrix, rounded up."""
        return min(1.0, rounding.up(dobrushin(self.transition)))

    @cached_property
    def cross_ratio(self) -> float:
        """The cross ratio κ, rounded down: 1 for independent rows, 0 where some states cannot take a step."""
        return cross_ratio(self.transition)

    @cached_property
    def reversible(self) -> bool:
        """Whether π(x)P(x, y) = π(y)P(y, x) for all states, to 1e-9."""
        flow = self.stationary[:, None] * self.transition
        return bool(np.allclose(flow, flow.T, rtol=1e-9, atol=1e-12))

    def _require_forgetting(self) -> None:
        if not forgets(self.transition):
            raise InvalidArgument(
                "transition",
                "a chain that forgets its start: one closed class of states, without a period",
                repr(self),
                of="MarkovChain",
                reference="docs/theory/dependence.md, The tail of a mean",
            )

    @cached_property
    def _forgetting(self) -> Forgetting:
        start = self.stationary if self.initial is None else None
        self._require_forgetting()
        return tabulated_forgetting(self.transition, self.n, start)

    @cached_property
    def _row_sums(self) -> tuple[float, float]:
        return self._forgetting.row_sums(self.n)

    @property
    def _stated(self) -> tuple[str, ...]:
        start = "started at its stationary law" if self.initial is None else "started at the given law"
        return (
            f"The rows, in the order of the table, are a Markov chain on {len(self.transition)} states with "
            f"the given transition matrix, {start}.",
            *(() if self.columns is None else (state_is(self.columns),)),
        )

    def log_remembered(self, steps: ArrayLike) -> NDArray[np.float64]:
        """ln β(steps) of a stationary chain, ln θ_steps from any other start.

        >>> chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=1000)
        >>> np.exp(chain.log_remembered([0, 1, 2])).round(9).tolist()
        [1.0, 0.25, 0.125]
        """
        steps = whole_steps(steps)
        logs = self._forgetting.log_beta_at if self.initial is None else self._forgetting.log_theta_at
        return np.where(steps == 0, 0.0, logs(steps))

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        spread = hi - lo
        total, squares = self._row_sums
        scale = spread / self.n
        dobrushin_tail = from_squared_differences(squares * scale * scale)
        theorem = f"Kontorovich and Ramanan 2008, with interval lengths and ‖Γ‖ ≤ {total:.6g}"
        rows = [TailRow("Dobrushin contraction", theorem, dobrushin_tail)]
        if self.initial is None and self.spectral_gap > 0.0:
            norm = 1.0 - self.spectral_gap
            tail = from_squared_differences((1.0 + norm) * spread * spread / (self.spectral_gap * self.n))
            rows.append(
                TailRow("stationary chain", f"Fan, Jiang and Sun 2021, theorem 1, with λ = {norm:.6g}", tail)
            )
        if self.n >= 2:
            mixing = block_tail(self._forgetting.log_beta_at, self.n, spread)
            rows.append(TailRow("β-mixing blocks", "Yu 1994, lemma 4.1, with the best block length", mixing))
        return tuple(rows)

    def _rows_about(self, lo: Any, hi: Any, target: Any) -> tuple[TailRow, ...]:
        lo, hi = value_range(lo, hi, of="MarkovChain")
        target = checks.choice(target, "target", ("rows", "stationary"), of="MarkovChain.mean_tail")
        rows = self._rows(lo, hi)
        if target == "rows" or self.initial is None:
            return rows
        away = rounding.up(float(np.abs(self.initial - self.stationary).sum()) / 2.0)
        shift = rounding.up(away * self._row_sums[0] * (hi - lo) / self.n)
        return tuple(
            TailRow(row.name, f"{row.theorem}; start bias {shift:.3g}", ShiftedTail(row.tail, shift))
            for row in rows
        )

    def mean_tail(self, lo: float = 0.0, hi: float = 1.0, *, target: str = "rows") -> BestTail:
        """The tail of the mean of f(X_1), …, f(X_n), for a function fixed in advance, values in [lo, hi].

        Guarantee: two-sided, the best at every distance of Dobrushin's row (any start), Yu's blocks (any
        start) and, for a stationary start only, Fan, Jiang and Sun's row. ``target="rows"``: about the
        average of the rows' own means, under the actual start. ``target="stationary"``: about the stationary
        mean; with another start every radius grows by TV(start, stationary) Σ_k θ_k R/n ≤ R/(n(1−θ)), how far
        apart the two means can be.
        Assumes: the chain and its start (not checkable from the data).
        Reference: ``docs/theory/dependence.md``, "The tail of a mean". Γ_ij is the Dobrushin coefficient of
        P^{j−i}: the means given two values of row i differ, at row j, by at most R times it, so ‖Γ‖ ≤ Σ_k θ_k
        ≤ 1/(1−θ).

        Args:
            lo: The least value that a row can have.
            hi: The largest value that a row can have.

        >>> chain = MarkovChain([[0.95, 0.05], [0.05, 0.95]], n=10_000)
        >>> chain.mean_tail(0, 1).best_at(3.0).name, round(chain.mean_tail(0, 1).radius(0.05), 6)
        ('stationary chain', 0.059198)
        """
        return BestTail(self._rows_about(lo, hi, target))

    def mean_tail_report(
        self, lo: float = 0.0, hi: float = 1.0, nu: float = 0.05, *, target: str = "rows"
    ) -> TailReport:
        """Every bound that ``mean_tail`` chooses from, with its theorem and its radius at ``nu``.

        Args:
            lo: The least value that a row can have.
            hi: The largest value that a row can have.
            target: "rows": about the average of the rows' own means. "stationary": about the stationary mean.
        """
        return report(self.name, self._rows_about(lo, hi, target), nu)

    def difference_tail(self, differences: ArrayLike) -> SubGaussian:
        """The tail of any statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / ‖Γc‖²), ‖Γc‖ ≤ ‖c‖ Σ_k θ_k, for a statistic fixed in
        advance, E under the actual start.
        Assumes: the chain and the differences (not checkable from the data).
        Reference: ``docs/theory/dependence.md``, "The tail of a mean".
        """
        c = row_differences(differences, self.n, of="MarkovChain")
        total = self._row_sums[0]
        return from_squared_differences(float(c @ c) * total * total)

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """The first rows, then a gap, then the protected rows: the shortest gap g with θ_{g+1} ≤ ``beta``/20.

        Proof that the bias is at most θ_{g+1}: given the training rows the protected ones depend on the last
        of them alone, g + 1 steps before; any two values of it give laws within θ_{g+1}, so each is within
        θ_{g+1} of their mixture, the protected rows' own law.

        In the product law that ``bias`` pays for, the protected rows of a stationary chain are stationary, so
        the bound for stationary chains holds on them too; those of a chain with a given start are a chain
        started at the law of their first row.

        Args:
            rng: The source of random numbers.

        >>> chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=1000)
        >>> parts = chain.split(0.5, np.random.default_rng(0), beta=0.05)
        >>> parts.dropped, round(parts.bias, 9), parts.protected_model.n
        (8, 0.001953125, 496)
        """
        share, rng, beta = check_split(share, rng, beta, of="MarkovChain")
        gap, bias = self._gap(beta, of="MarkovChain.split")
        usable = self.n - gap
        if usable < 2:
            raise NotEnoughRows(gap + 2, self.n, what="Setting a training part aside")
        size = part_size(share, usable)
        rest = self._from_row(size + gap)
        return Split(*contiguous(size, gap, self.n), rest, bias, self.assumptions)

    def fresh(self, beta: float = 0.05) -> Split:
        """All rows but the first g, with the same gap and the same proof as ``split``: the earlier rows are
        its training part.

        ``initial`` is the law of the first of these rows, whatever came before it.

        >>> parts = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=1000).fresh(beta=0.05)
        >>> parts.dropped, round(parts.bias, 9), parts.protected_model.n
        (8, 0.001953125, 992)
        """
        beta = checks.real(beta, "beta", "(0, 1)", of="MarkovChain.fresh")
        gap, bias = self._gap(beta, of="MarkovChain.fresh")
        if self.n <= gap:
            raise NotEnoughRows(gap + 1, self.n, what="An epoch after another")
        return Split(*contiguous(0, gap, self.n), self._from_row(gap), bias, (*self.assumptions, LATER))

    def _gap(self, beta: float, *, of: str) -> tuple[int, float]:
        """The shortest gap after which the chain has forgotten all but ``beta``/20, and what it remembers."""
        self._require_forgetting()
        reached = steps_to_reach(self.transition, beta / 20.0)
        if reached is None:
            raise InvalidArgument(
                "beta", "large enough for the chain to forget its start within 2^40 rows", beta, of=of
            )
        return reached[0] - 1, reached[1]

    def _from_row(self, row: int) -> MarkovChain:
        """The chain from one of its rows on."""
        start = None
        if self.initial is not None:
            start = self.initial @ np.linalg.matrix_power(self.transition, row)
            start /= start.sum()
        return replace(self, n=self.n - row, initial=start)

    @cached_property
    def _start(self) -> NDArray[np.float64]:
        return self.stationary if self.initial is None else self.initial

    @cached_property
    def _quilts(self) -> ChainQuilts:
        return ChainQuilts(self.transition, self._start, self.initial is None, self.n)

    def blanket(self, i: int) -> tuple[int, ...]:
        """The rows next to row ``i`` (numbered from 0), given which it is independent of all others."""
        row = row_number(i, self.n, "i", of="blanket")
        return tuple(other for other in (row - 1, row + 1) if 0 <= other < self.n)

    def quilts(self, i: int) -> tuple[Quilt, ...]:
        """Every quilt (i−a, i+b) of row ``i``, one-sided and empty ones too, the smallest nearby set first.

        >>> [quilt.quilt for quilt in MarkovChain([[0.9, 0.1], [0.2, 0.8]], 3).quilts(0)]
        [(1,), (2,), ()]
        """
        return chain_quilts(row_number(i, self.n, "i", of="quilts"), self.n)

    def quilt_influence(self, quilt: Quilt) -> float:
        """b of BDP Lemma 2; on a chain nothing nearby makes the quilt follow the row more closely.

        Args:
            quilt: One of ``quilts``.
        """
        if not isinstance(quilt, Quilt):
            raise InvalidArgument("quilt", "a Quilt, as quilts lists them", quilt, of="MarkovChain")
        return self.max_influence(quilt.quilt, quilt.node)

    def max_influence(
        self, targets: Hashable | Iterable[Hashable], i: Hashable, given: Iterable[Hashable] = ()
    ) -> float:
        """ln max P[targets | x, given]/P[targets | x', given] over all values, x and x' those of row ``i``.

        Guarantee: exact for a chain of any length, rounded up; infinite where a value of the targets is
        possible with x and not with x'.
        Assumes: the chain and its start (not checkable from the data).
        Reference: BDP (5) and (6).

        >>> chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=100_000)
        >>> round(chain.max_influence([50_001], 50_000), 6), chain.max_influence([9], 5, given=[7])
        (1.098612, 0.0)
        """
        of = "max_influence"
        return chain_influence(
            self.transition,
            self._start,
            row_number(i, self.n, "i", of=of),
            row_numbers(targets, self.n, "targets", of=of),
            row_numbers(given, self.n, "given", of=of),
        )

    def leakage(self, mechanism: MechanismLike) -> float:
        """The Bayesian DP of one mechanism on a short chain, exactly, by enumeration.

        ``mechanism``: an array of probabilities with an axis for each row and a last one for the outputs, a
        dictionary {dataset: probabilities}, a ``LaplaceAnswer`` or an ``ExponentialChoice``.
        Guarantee: max over rows, known rows, values and outputs, rounded up; infinite where some output rules
        a value out.
        Assumes: the chain and its start (not checkable from the data).
        Reference: BDP (3) and (4).
        """
        of = "MarkovChain.leakage"
        refuse_domain((len(self.transition),) * self.n, of=of)
        return exact_leakage(chain_law(self._start, self.transition, self.n), mechanism, of=of)

    def scaled_to(self, n: int, *, of: str = "scaled_to") -> MarkovChain:
        """The same chain over ``n`` rows."""
        return self if n == self.n else replace(self, n=n)

    def statistic_tail(self) -> SubGaussian:
        """The Dobrushin bound, in closed form."""
        return from_squared_differences(rounding.up(self._row_sums[0] ** 2 / self.n))

    def share_tail(self) -> Tail:
        """As ``mean_tail(0, 1)``. Very long chains leave out the bounds that need a table of block lengths:
        other bounds are better there."""
        if self.n <= _LONG:
            return self.mean_tail(0.0, 1.0)
        squares = []
        if self.contraction < 1.0:
            squares.append(1.0 / (1.0 - self.contraction) ** 2)
        if self.initial is None and self.spectral_gap > 0.0:
            squares.append((2.0 - self.spectral_gap) / self.spectral_gap)
        return from_squared_differences(min(squares) / self.n) if squares else self.mean_tail(0.0, 1.0)

    _printed_route: ClassVar[str] = "spectral"

    def _routes(self) -> Routes:
        return chain_routes(self)
