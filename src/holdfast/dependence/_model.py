"""What a model of dependence is: it bounds the tail of a mean, and says how rows may be set aside.

Also here: the division of the rows into a training part and a protected part, and the fingerprint of a model.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, rounding
from holdfast.dependence._privacy import Routes, best_bayesian_dp, best_epsilon, best_required_dp
from holdfast.errors import InvalidArgument
from holdfast.records import Record, show
from holdfast.tails import BestTail, SubGaussian, Tail, TailReport, TailRow
from holdfast.tails import tail_report as report
from holdfast.typing import PrivacyRoute

if TYPE_CHECKING:
    from holdfast.dependence._mixing import Layout
    from holdfast.stability import DP, BayesianDP

GIVEN_TRAINING = (
    "The training part was supplied by the caller; that it is independent of the protected rows is assumed "
    "and cannot be checked from the data."
)

LATER = "The rows of this epoch come after all rows of earlier epochs in the same sequence."
NEW_ROWS = "The rows of this epoch are independent of all rows of earlier epochs."
# More than any table has. With more, bounds that try every block length would run out of memory.
MOST_ROWS = 10**15
Mask = NDArray[np.bool_]
# A fingerprint rounds numbers to this many binary digits, about twelve decimal ones. So a model stays the
# same if a row is divided by its sum once more, or if another machine's logarithm differs slightly.
_DIGITS = 40


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
        """Whether a training part that the caller gives is taken to be the rows right before these, in one
        series. Then a gap is left out and charged for, and nothing more is assumed."""
        return False

    @property
    def bounded(self) -> bool:
        """Whether the model speaks of means of bounded values; False where it speaks of the mean of the rows
        themselves, which have no bounds."""
        return True

    @property
    def exact_search(self) -> bool:
        """Whether the fewest rows for a promise can be searched for row by row: each try takes no time."""
        return False

    def scaled_to(self, n: int, *, of: str = "scaled_to") -> Dependence:
        """Rows of the same kind, ``n`` of them. A planner asks this about tables that do not exist yet.

        A model of one fixed table (a graph, a covariance, a network) has no other size and refuses. ``of`` is
        the function that the message names.
        """
        if self.n is None:
            return self.with_rows(n)
        if n != self.n:
            raise InvalidArgument(
                "model",
                f"a model of {n:,} rows: this one describes one table of {self.n:,} rows",
                repr(self),
                of=of,
            )
        return self

    def with_rows(self, n: int) -> Self:
        """The model for a table of ``n`` rows. A model of another number of rows is refused."""
        if n != self.n:
            raise InvalidArgument("dependence", f"a model of the {n:,} rows of the data", self, of="Guard")
        return self

    def log_remembered(self, steps: ArrayLike) -> NDArray[np.float64] | None:
        """For rows in order, ln of how much the past still says about the rows from ``steps`` places later
        on. ``steps`` are whole numbers. After 0 steps it says everything: ln 1.

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

    def layouts(self, beta: float = 0.05) -> tuple[Layout, ...]:
        """Ways to cut these rows into blocks that are nearly independent; none for models that say nothing
        about rows in order.

        ``beta`` is the error probability of the whole account. All layouts together cost at most a twentieth
        of it.
        Guarantee: that of each :class:`Layout`.
        Assumes: the sentences in ``assumptions`` (not checkable from the data).
        Reference: ``docs/theory/dependence.md``, "Blocks".
        """
        from holdfast.dependence._mixing import (
            layouts_of,  # late: it imports this module
        )

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
        """The content of the fingerprint: by default every field that takes part in comparisons."""
        own = (item.name for item in fields(self) if item.compare and item.name != "extra_assumptions")
        return tuple(getattr(self, name) for name in own)

    @cached_property
    def description(self) -> str:
        """The model in one line, for the certificate. Few parameters are listed. Of many, it says how many
        there are and what follows from them. The line ends with the beginning of the fingerprint."""
        parameters = "".join(f", {words}" for words in self._parameters)
        rows = "any number of" if self.n is None else f"{self.n:,}"
        return f"{self.name}, {rows} rows{parameters} (fingerprint {self.fingerprint[:16]})"

    @property
    def _parameters(self) -> tuple[str, ...]:
        """The parameters in words, beside the number of rows."""
        return ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the model assumes and the data cannot show, in words for the certificate."""
        return (*self._stated, *self.extra_assumptions)

    def mean_tail(self, lo: float = 0.0, hi: float = 1.0) -> Tail:
        """The tail of the mean of f(X_1), …, f(X_n), for a function fixed in advance, values in [lo, hi].

        Guarantee: two-sided, about the average of the rows' own means; the best bound known at every
        distance.
        Assumes: the sentences in ``assumptions`` (not checkable from the data).
        Reference: ``docs/theory/dependence.md``; ``mean_tail_report`` names each bound.

        Args:
            lo: The least value that a row can have.
            hi: The largest value that a row can have.
        """
        return best(self._rows(*value_range(lo, hi, of=type(self).__name__)))

    def mean_tail_report(self, lo: float = 0.0, hi: float = 1.0, nu: float = 0.05) -> TailReport:
        """Every bound that ``mean_tail`` chooses from, with its theorem and its radius at ``nu``.

        Args:
            lo: The least value that a row can have.
            hi: The largest value that a row can have.
        """
        return report(self.name, self._rows(*value_range(lo, hi, of=type(self).__name__)), nu)

    def share_tail(self) -> Tail:
        """The tail of the mean of a function of a row with values in [0, 1], fast for any number of rows.

        Guarantee: as ``mean_tail(0, 1)``; very long chains leave out bounds that need a table of block
        lengths, and Gaussian rows take the bound for any statistic.
        Assumes: the sentences in ``assumptions`` (not checkable from the data).
        """
        return self.mean_tail(0.0, 1.0)

    def difference_tail(self, differences: ArrayLike) -> Tail:
        """The tail of a statistic that moves by at most ``differences`` when one row takes any other value:
        one number for all rows, or one for each row.

        Guarantee: two-sided, for a statistic fixed in advance. Refused where no such bound is known.
        Assumes: the sentences in ``assumptions``, and the differences (not checkable from the data).
        """
        raise InvalidArgument(
            "dependence",
            "a model with a bound for statistics that are not means: independent, m-dependent or Gaussian "
            "rows, clusters, a Markov chain or a network",
            repr(self),
            of=f"{type(self).__name__}.difference_tail",
        )

    def statistic_tail(self) -> Tail:
        """The tail of any statistic that one row moves by at most 1/n, as ``difference_tail(1/n)``."""
        return self.difference_tail(1.0 / self.n)

    def _routes(self) -> Routes:
        """The proofs of Bayesian privacy that apply to the model, by the name of their method."""
        return {}

    # The route that BDP prints for this model; empty if it prints no route.
    _printed_route: ClassVar[str] = ""

    @property
    def has_bayesian_dp(self) -> bool:
        """Whether a bound on the Bayesian privacy of private mechanisms on these rows is known."""
        return bool(self._routes())

    @property
    def has_printed_dp(self) -> bool:
        """Whether BDP prints a bound for these rows. True also if no bound is known at all: asking for it
        then says so."""
        return bool(self._printed_route) or not self.has_bayesian_dp

    def _known_routes(self, of: str) -> Routes:
        routes = self._routes()
        if not routes:
            raise InvalidArgument(
                "model",
                "independent, m-dependent or Gaussian rows, clusters, a Markov chain or a network: for "
                "others no bound on Bayesian differential privacy is known",
                repr(self),
                of=of,
                reference="BDP Lemma 2",
            )
        return routes

    def bayesian_dp(self, dp: DP, method: PrivacyRoute = "sharp") -> BayesianDP:
        """The Bayesian DP of a pure DP mechanism on these rows.

        Every model has the methods "sharp", the best of all that apply, and "group": the parameter times the
        number of rows that may follow one row. These are the row itself (independent rows), the largest
        cluster, the largest independent block (Gaussian rows), the largest component (networks), and all rows
        of a chain or of m-dependent rows with m > 0. Known rows in between may tie rows together that are far
        apart, so m does not enter. Networks and chains also have "quilt" and "blanket", BDP Lemmas 2 and 3
        with 2b; "quilt-paper" and "blanket-paper", as printed, with 4b; "coupling", the chain bound (on
        networks without a loop); "pairs", the same by pairs of values, never worse. Chains have "spectral":
        BDP Lemma 4, for irreducible chains with a spectral gap above 0. Networks have "dobrushin": from the
        coupling of each pair of rows, where no factor vanishes. Large networks count the nearest quilts only.

        Guarantee: whoever knows any of the other rows learns no more than this about a row.
        Assumes: the sentences in ``assumptions`` (not checkable from the data).
        Reference: BDP Lemmas 2 to 4; ``docs/theory/networks.md``, "Bayesian differential privacy";
        ``docs/theory/dependence.md``, "Differential privacy on a chain".

        Args:
            dp: The privacy of the mechanism when one row is replaced and all others stay.
            method: A rule by name. "sharp" is the best of all.
        """
        return best_bayesian_dp(self, self._known_routes(f"{type(self).__name__}.bayesian_dp"), dp, method)

    def required_dp(self, bdp: BayesianDP, method: PrivacyRoute = "sharp") -> DP:
        """The DP parameter that suffices for ``bdp`` on these rows; methods as in ``bayesian_dp``.

        Args:
            method: A rule by name. "sharp" is the best of all.
        """
        return best_required_dp(self, self._known_routes(f"{type(self).__name__}.required_dp"), bdp, method)

    def bayesian_epsilon(self, epsilon: float, *, of: str = "bayesian_epsilon") -> float:
        """The Bayesian DP parameter of an ``epsilon``-DP mechanism: ``bayesian_dp`` on plain numbers.

        ``of`` is the function that a refusal names.
        """
        routes = self._known_routes(of)
        return 0.0 if epsilon == 0.0 else best_epsilon(self, routes, epsilon)

    def joint_epsilon(self, epsilon: float, *, of: str = "joint_epsilon") -> float:
        """The ε' for which an ``epsilon``-DP mechanism reveals at most nε'²/8 + ε'√(n ln(1/b)/2) nats about
        all rows together, except with probability b.

        It is the Bayesian DP parameter, or less where it is enough to reveal rows in order: m-dependent rows
        stretch by stretch, Gaussian rows by their least and largest correlations. ``of`` is the function that
        a refusal names.
        Reference: ``docs/theory/reusable-holdout.md``.
        """
        return self.bayesian_epsilon(epsilon, of=of)

    def printed_dp(self, epsilon: float, *, of: str = "printed_dp") -> float:
        """The DP parameter that BDP proves to suffice for ``epsilon``-Bayesian privacy, as printed.

        ``of`` is the function that a refusal names.
        """
        routes = self._known_routes(of)
        if not self._printed_route:
            raise InvalidArgument(
                "model",
                "independent rows, clusters, a Markov chain or a network for method 'paper': m-dependent and "
                "Gaussian rows have the method 'sharp'",
                repr(self),
                of=of,
                reference="BDP Lemma 2",
            )
        from holdfast.stability import BayesianDP

        return float(best_required_dp(self, routes, BayesianDP(epsilon), self._printed_route).epsilon)

    def blanket_influence(self, *, of: str = "blanket_influence") -> float:
        """The largest influence of a row on its Markov blanket; ``of`` is the function that a refusal names.

        Reference: BDP Lemma 3.
        """
        routes = self._routes()
        if "blanket" not in routes:
            raise InvalidArgument(
                "model",
                "independent rows, a Markov chain or a network: others say nothing about a row's blanket",
                repr(self),
                of=of,
                reference="BDP Lemma 3",
            )
        # The route gives ε + 2a. This ε is negligible beside any a.
        return best_epsilon(self, routes, 1e-300, "blanket") / 2.0

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Set about ``share`` of the rows aside as the free training part.

        ``beta`` is the error probability of the whole account. Only models whose parts are not exactly
        independent need it.

        Args:
            rng: The source of random numbers.
        """
        raise InvalidArgument(
            "dependence",
            "a model with a rule for setting rows aside; for this one give the training part yourself "
            "(train=…) or bring a guess with every question",
            self.name,
            reference="docs/theory/dependence.md, Setting a training part aside",
        )

    def planned_split(self, share: float, beta: float) -> PlannedSplit:
        """The sizes of the parts that ``split`` would make. Models of many rows do not make the parts.

        Args:
            share: The share of the rows for training.
            beta: The error probability of the whole account. Only models whose parts are not exactly
                independent use some of it.
        """
        parts = self.split(share, np.random.default_rng(0), beta)
        return PlannedSplit(int(parts.train.sum()), parts.protected_model, parts.bias)

    def fresh(self, beta: float = 0.05) -> Split:
        """Which of these rows can be protected from somebody who may know every earlier row. There is no
        training part. Rows that still depend on earlier ones are dropped. ``beta`` is the error
        probability of the whole account. At most a twentieth of it is spent here.
        Guarantee: the law of (earlier rows, protected rows) is within total variation ``bias`` of the law in
        which the two are independent.
        Assumes: the sentences of the split; that rows of different epochs are independent is one of them
        where the model says nothing about it.
        Reference: ``docs/theory/epochs.md``.
        """
        return all_fresh(self, NEW_ROWS)

    def protected_only(self) -> Self:
        """The same model for rows whose training part the caller supplied: its independence becomes an
        assumption."""
        return replace(self, extra_assumptions=(*self.extra_assumptions, GIVEN_TRAINING))

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values, with its name and its assumptions."""
        return {"name": self.name, **super().to_dict(), "assumptions": list(self.assumptions)}


def best(rows: tuple[TailRow, ...]) -> Tail:
    """The one tail, or the best of several."""
    return rows[0].tail if len(rows) == 1 else BestTail(rows)


def bound_to(model: Dependence, *, of: str) -> int:
    """The number of rows of a model; refused if the model was made before its table and is not bound to it
    yet."""
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
    """Check names of columns: one name, or several different ones, in their order."""
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
    """The numbers themselves if they are few, else ``words`` about them."""
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
    Reference: ``docs/theory/dependence.md``, "Setting a training part aside".
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


@dataclass(frozen=True)
class PlannedSplit:
    """How many rows a split would set aside, the model of those that stay protected, and the total variation
    between the two parts and independent ones."""

    training: int
    protected_model: Dependence
    bias: float


def check_split(share: Any, rng: Any, beta: float, *, of: str) -> tuple[float, np.random.Generator, float]:
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


def fingerprint_of(name: str, content: Iterable[Any]) -> str:
    """SHA-256 of a model's name and content, in hexadecimal digits.

    ``content`` may hold None, texts, whole numbers, floats, arrays of numbers and sequences of these.
    """
    digest = hashlib.sha256()
    for item in (name, *content):
        _add(digest, item)
    return digest.hexdigest()


def _add(digest: Any, item: Any) -> None:
    """Add one item: what it is, how long it is, and its bytes; no two contents give the same bytes."""
    if isinstance(item, (list, tuple)) and not _whole(item):
        digest.update(f"sequence {len(item)} ".encode())
        for member in item:
            _add(digest, member)
        return
    if isinstance(item, (list, tuple, np.ndarray)):
        array = np.asarray(item)
        whole = array.dtype.kind in "iub"
        kind, plain = ("whole", array.astype("<i8")) if whole else ("real", rounded(array))
        digest.update(f"{kind} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(plain).tobytes())
        return
    if isinstance(item, (float, np.floating)):
        _add(digest, np.array([item]))
        return
    text = repr(int(item)) if isinstance(item, (int, np.integer)) else repr(item)
    data = text.encode()
    digest.update(f"{type(item).__name__ if isinstance(item, str) else 'plain'} {len(data)} ".encode())
    digest.update(data)


def _whole(items: Any) -> bool:
    """Whether a sequence holds whole numbers that fit into eight bytes, as the sizes of clusters do."""
    return bool(items) and all(type(item) is int and abs(item) < 2**63 for item in items)


def rounded(values: Any) -> NDArray[np.float64]:
    """Numbers with 40 binary digits each; zero without a sign."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype="<f8"))
    scale = 2.0**_DIGITS
    shortened: NDArray[np.float64] = np.ldexp(np.round(mantissa * scale) / scale, exponent) + 0.0
    return shortened
