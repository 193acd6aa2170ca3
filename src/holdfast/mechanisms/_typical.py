"""Noise calibrated to concentration instead of sensitivity: typically stable answers (TS section 5), and
sessions of k such steps on the same data, each chosen after seeing the ones before (TS Algorithm 1).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from holdfast import checks, rounding, search
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.mechanisms._coins import choose_coins
from holdfast.mechanisms._noise import WIDTHS, Floats, Noise, checked_values, noisy_values
from holdfast.records import Record
from holdfast.stability import TwoSampleStability, TypicalStability, gaussian_delta
from holdfast.tails import Tail
from holdfast.typing import BoundForm, NoiseKind, Seed

_Output = TypeVar("_Output")


@dataclass(frozen=True, repr=False, eq=False)
class Release(Record):
    """A noisy answer with what is known about it: the noise, the stability it buys, and its error.

    Guarantee: ``value`` is stable as ``stability`` says; ``error`` bounds its distance from the exact value.
    Assumes: the tail the answer was given with (not checkable). A ``simulated`` release was drawn from a
    seed: whoever knows the seed can subtract the noise, so it protects nothing.
    Reference: TS Theorems 5.1 to 5.4.

    Args:
        noise: The noise that was added.

    >>> from holdfast.tails import SubGaussian
    >>> typical_laplace(0.25, SubGaussian(0.01), eta=0.5, nu=1e-6).stability
    TypicalStability(eta=0.5, tau=0, nu=1e-06)
    """

    value: float | Floats
    noise: Noise
    stability: TypicalStability | TwoSampleStability
    simulated: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.value, np.ndarray):
            self.value.setflags(write=False)

    def __float__(self) -> float:
        return float(self.value)

    def error(self, beta: float) -> float:
        """No coordinate is farther than this from its exact value, except with probability ``beta``.

        Guarantee: over the noise, for the data as they are; ``Noise.error`` for all coordinates together.
        Assumes: nothing further.
        Reference: TS Theorems 5.2 and 5.4.
        """
        farthest = float(np.max(np.abs(self.value)))
        bound = self.noise.error(beta, answers=np.size(self.value))
        if farthest < 2.0**53 * self.noise.grid:
            return bound
        return rounding.up(bound + float(np.spacing(farthest)))

    def to_dict(self) -> dict[str, Any]:
        """The release as a dictionary of plain values, ready for JSON; an array becomes a list."""
        value = self.value.tolist() if isinstance(self.value, np.ndarray) else self.value
        return {**super().to_dict(), "value": value}


def typical_laplace(
    value: ArrayLike,
    tail: Tail,
    eta: float,
    nu: float,
    *,
    form: str = "oracle",
    simulation: bool = False,
    seed: Seed = None,
) -> Release:
    """The value with Laplace noise of scale α(ν)/η: a purely typically stable answer.

    Guarantee: (η, 0, ν) in oracle form; ``form="two-sample"`` takes scale 2α(ν/2)/η and is (η, 0, ν) in
    two-sample form. Rounding to the grid is part of the calibration.
    Assumes: ``value`` is q(x) for a query fixed before the data were seen, or chosen through stable answers,
    with this ``tail``; for d numbers, the tail of the L1 distance ‖q(X) − E q‖₁ (not checkable).
    Reference: TS Algorithm 2 and Theorem 5.1; two-sample: TS1 Theorem 4.1.

    Args:
        eta: η, above 0; smaller is more stable, and noisier.
        nu: ν in (0, 1): the probability of samples for which nothing is promised.
        simulation: Whether this is an experiment in which nothing is protected.
        seed: A seed for the noise. It needs ``simulation=True``.

    >>> from holdfast.tails import SubGaussian
    >>> release = typical_laplace(0.25, SubGaussian(0.01), eta=0.5, nu=1e-6)
    >>> round(release.noise.scale, 6), round(release.error(0.05), 6)
    (0.107735, 0.322747)
    """
    of, by = "typical_laplace", "TS Theorem 5.1"
    eta = checks.real(eta, "eta", "(0, inf)", of=of, by=by)
    nu = checks.real(nu, "nu", "(0, 1)", of=of, by=by)
    if checks.choice(form, "form", ("oracle", "two-sample"), of=of) == "oracle":
        stability: TypicalStability | TwoSampleStability = TypicalStability(eta, nu=nu)
        shift = _radius(tail, nu, of)
    else:
        stability = TwoSampleStability(eta, nu=nu)
        shift = 2.0 * _radius(tail, nu / 2.0, of)
    return _released(value, "laplace", shift, eta, stability, simulation, seed)


def typical_gaussian(
    value: ArrayLike,
    tail: Tail,
    eta: float,
    tau: float,
    nu: float,
    method: BoundForm = "sharp",
    *,
    form: str = "oracle",
    simulation: bool = False,
    seed: Seed = None,
) -> Release:
    """The value with the least Gaussian noise that makes it (η, τ, ν)-typically stable.

    Guarantee: (η, τ, ν) in oracle form. "sharp": the smallest sd whose exact profile has δ(η) ≤ τ, to 1e-9;
    "paper": sd = α(ν)√(2 ln(1.5/τ))/η. ``form="two-sample"`` takes 2α(ν/2) for α(ν) and is (η, τ, ν) in
    two-sample form. Rounding to the grid is part of the calibration.
    Assumes: ``value`` is q(x) for a query fixed before the data were seen, or chosen through stable answers,
    with this ``tail``; for d numbers, the tail of the L2 distance ‖q(X) − E q‖₂ (not checkable). "paper" is
    refused where δ(η) > τ, which is where the printed theorem fails.
    Reference: TS Algorithm 3 and Theorem 5.3, printed for all η; two-sample: TS1 Algorithm 3, Theorems 4.3
    and 4.4; sharp: the profile of Balle and Wang 2018.

    Args:
        eta: η, above 0; smaller is more stable, and noisier.
        tau: τ in (0, 1): the probability of outputs that the bound by η leaves out.
        nu: ν in (0, 1): the probability of samples for which nothing is promised.
        method: "sharp" or "paper".
        simulation: Whether this is an experiment in which nothing is protected.
        seed: A seed for the noise. It needs ``simulation=True``.

    >>> from holdfast.tails import SubGaussian
    >>> sharp = typical_gaussian(0.25, SubGaussian(0.01), eta=0.5, tau=1e-6, nu=1e-6)
    >>> paper = typical_gaussian(0.25, SubGaussian(0.01), eta=0.5, tau=1e-6, nu=1e-6, method="paper")
    >>> round(sharp.noise.scale, 4), round(paper.noise.scale, 4)
    (0.434, 0.5746)
    """
    of, by = "typical_gaussian", "TS Theorem 5.3"
    sharp = checks.choice(method, "method", ("paper", "sharp"), of=of) == "sharp"
    eta = checks.real(eta, "eta", "[0, inf)" if sharp else "(0, inf)", of=of, by=by)
    tau = checks.real(tau, "tau", "(0, 1)", of=of, by=by)
    nu = checks.real(nu, "nu", "(0, 1)", of=of, by=by)
    ratio = widest_ratio(eta, tau) if sharp else _printed_ratio(eta, tau, of)
    if checks.choice(form, "form", ("oracle", "two-sample"), of=of) == "oracle":
        stability: TypicalStability | TwoSampleStability = TypicalStability(eta, tau, nu)
        shift = _radius(tail, nu, of)
    else:
        stability = TwoSampleStability(eta, tau, nu)
        shift = 2.0 * _radius(tail, nu / 2.0, of)
    return _released(value, "gaussian", shift, ratio, stability, simulation, seed)


def _released(
    value: Any,
    kind: NoiseKind,
    shift: float,
    ratio: float,
    stability: TypicalStability | TwoSampleStability,
    simulation: bool,
    seed: Any,
) -> Release:
    coins = choose_coins(simulation, seed, of=f"typical_{kind}")
    values = checked_values(value, of=f"typical_{kind}")
    if values.size == 0:
        raise InvalidArgument("value", "a number or a non-empty array", value, of=f"typical_{kind}")
    noise = Noise.hiding(kind, shift, ratio, dimensions=values.size)
    return Release(noisy_values(values, noise, coins), noise, stability, simulated=coins.simulated)


def _radius(tail: Any, nu: float, of: str) -> float:
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of=of)
    radius = tail.radius(nu)
    if not 1e-280 <= radius <= 1e280:
        raise InvalidArgument("tail", f"a tail whose radius at {nu:g} is in {WIDTHS}", radius, of=of)
    return radius


def _printed_ratio(eta: float, tau: float, of: str) -> float:
    ratio = rounding.down(eta / math.sqrt(2.0 * math.log(1.5 / tau)))
    exact = gaussian_delta(eta, ratio)
    if not exact <= tau:
        raise InvalidArgument(
            "eta",
            f"small enough for method 'paper' (the exact delta here is {exact:.3g}, above tau = {tau:g}); "
            "method 'sharp' has no such limit",
            eta,
            of=of,
            reference="TS Theorem 5.3, erratum",
        )
    return ratio


@lru_cache(maxsize=1024)
def widest_ratio(eta: float, tau: float) -> float:
    """The largest shift/sd, to a relative 1e-9 and on the safe side, with δ(eta) ≤ tau."""

    def allowed(ratio: float) -> bool:
        return gaussian_delta(eta, ratio) <= tau

    return search.greatest_real(allowed, relative=1e-9)


class AdaptiveSession:
    """The k-fold adaptive composition mechanism: it runs k stable steps and refuses the next one.

    Guarantee: everything that k steps print, together, has ``stability``: the composition of k steps that are
    each ``step``-stable, fixed before the first one. It holds for anyone who stops earlier, too.
    Assumes: the data are touched by nothing else, and each step has the stability it declares, whatever was
    printed before it (not checkable). A step counts from the moment it starts, also if it fails.
    Reference: TS Algorithm 1; TS Theorems 4.2 and 4.8 ("paper"), Holdfast's composition ("sharp").

    Args:
        data: The protected rows, in the form that the queries take.
        steps: How many steps there may be.
        slack: The probability that composition may spend.
        method: "sharp" or "paper".
        simulation: Whether this is an experiment in which nothing is protected.
        seed: A seed for the noise. It needs ``simulation=True``.

    >>> import numpy as np
    >>> from holdfast.tails import SubGaussian
    >>> heights = np.linspace(1.5, 1.9, 1001)
    >>> session = AdaptiveSession(heights, 2, TypicalStability(0.05, nu=1e-9), slack=1e-6)
    >>> session.stability
    TypicalStability(eta=0.0999981, tau=1e-06, nu=0.00221034)
    >>> answer = session.ask(np.mean, SubGaussian(0.1).of_mean(1001))
    >>> session.left
    1
    """

    def __init__(
        self,
        data: object,
        steps: int,
        step: TypicalStability,
        *,
        slack: float,
        method: BoundForm = "sharp",
        simulation: bool = False,
        seed: Seed = None,
    ) -> None:
        of = "AdaptiveSession"
        if not isinstance(step, TypicalStability):
            raise InvalidArgument("step", "a TypicalStability (oracle form)", step, of=of, reference="TS 4")
        self._data = data
        self._steps = checks.whole(steps, "steps", of=of, by="TS Algorithm 1")
        self._step = step
        self._stability = step.compose(self._steps, slack=slack, method=method)
        self._coins = choose_coins(simulation, seed, of=of)
        self._taken = 0
        self._lock = threading.Lock()

    @property
    def step(self) -> TypicalStability:
        """The stability that each step must have."""
        return self._step

    @property
    def stability(self) -> TypicalStability:
        """The stability of all steps together."""
        return self._stability

    @property
    def taken(self) -> int:
        """How many steps have been taken."""
        return self._taken

    @property
    def left(self) -> int:
        """How many steps may still be taken."""
        return self._steps - self._taken

    def ask(self, query: Callable[[Any], Any], tail: Tail) -> Release:
        """One step: the query's value with the noise that makes it as stable as a step must be.

        Guarantee: Laplace noise if the step's tau is 0, else the least Gaussian noise; its stability is
        ``step``.
        Assumes: the query has this ``tail`` whatever was printed before (not checkable).
        Reference: TS Algorithms 1, 2 and 3.

        Args:
            query: Takes the data and returns a number or an array.
        """
        if not isinstance(tail, Tail):
            raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of="AdaptiveSession.ask")
        step = self._step
        if not (step.nu > 0.0 and (step.eta > 0.0 or step.tau > 0.0)):
            raise InvalidArgument(
                "step",
                "a step that noise can reach: nu > 0, and eta or tau > 0",
                step,
                of="AdaptiveSession.ask",
            )
        return self.run(lambda data: self._noisy(query(data), tail))

    def run(self, algorithm: Callable[[Any], _Output], stability: TypicalStability | None = None) -> _Output:
        """One step: any algorithm with the stability it declares, which must be that of a step or better.

        Guarantee: the output of ``algorithm`` on the data; the step is counted before it starts.
        Assumes: the declared ``stability``, the session's ``step`` if left out (not checkable).
        Reference: TS Algorithm 1.
        """
        self._check(self._step if stability is None else stability)
        with self._lock:
            if self._taken >= self._steps:
                raise BudgetSpent(
                    f"All {self._steps} steps of this session are taken; one more would break its stability.",
                    asked=self._step.eta,
                    spent=self._stability.eta,
                    left=0.0,
                )
            self._taken += 1
        return algorithm(self._data)

    def _check(self, stability: TypicalStability) -> None:
        limit = self._step
        if not (
            isinstance(stability, TypicalStability)
            and stability.eta <= limit.eta
            and stability.tau <= limit.tau
            and stability.nu <= limit.nu
        ):
            raise InvalidArgument(
                "stability", f"at least as strong as {limit}", stability, of="AdaptiveSession.run"
            )

    def _noisy(self, value: Any, tail: Tail) -> Release:
        step, coins = self._step, self._coins
        if step.tau == 0.0:
            return typical_laplace(
                value, tail, step.eta, step.nu, simulation=coins.simulated, seed=coins.generator
            )
        return typical_gaussian(
            value, tail, step.eta, step.tau, step.nu, simulation=coins.simulated, seed=coins.generator
        )
