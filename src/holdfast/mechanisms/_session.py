"""k stable steps on the same data, each chosen after seeing the ones before (TS Algorithm 1)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast import checks
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.mechanisms._coins import choose_coins
from holdfast.mechanisms._typical import Release, typical_gaussian, typical_laplace
from holdfast.stability import TypicalStability
from holdfast.tails import Tail

__all__ = ["AdaptiveSession"]

_Output = TypeVar("_Output")


class AdaptiveSession:
    """The k-fold adaptive composition mechanism: it runs k stable steps and refuses the next one.

    Guarantee: everything that k steps print, together, has ``stability``: the composition of k steps that are
    each ``step``-stable, fixed before the first one. It holds for anyone who stops earlier, too.
    Assumes: the data are touched by nothing else, and each step has the stability it declares, whatever was
    printed before it (not checkable). A step counts from the moment it starts, also if it fails.
    Reference: TS Algorithm 1; TS Theorems 4.2 and 4.8 ("paper"), Holdfast's composition ("sharp").

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
        data: Any,
        steps: Any,
        step: TypicalStability,
        *,
        slack: Any,
        method: str = "sharp",
        simulation: bool = False,
        seed: Any = None,
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
        """
        if not isinstance(tail, Tail):
            raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of="AdaptiveSession.ask")
        step = self._step
        if not (step.nu > 0.0 and (step.eta > 0.0 or step.tau > 0.0)):
            raise InvalidArgument(
                "step", "one that noise can reach: nu > 0, and eta or tau > 0", step, of="AdaptiveSession.ask"
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
