"""Lower confidence bounds on ε at δ, for any two laws that can be sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks, rounding
from holdfast.audit._events import Event, Outputs, choose, plain_output
from holdfast.audit._finding import Finding, claim_argument, confidence_argument, name_of, subject_of
from holdfast.audit._trials import Progress, Running
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson


@dataclass(frozen=True)
class _Draws:
    """One trial: outputs of both laws, from generators of their own."""

    a: Callable[..., Any]
    b: Callable[..., Any]
    batch: int | None

    def __call__(self, number: int, rng: np.random.Generator) -> list[list[Any]]:
        return [self._drawn(law, child) for law, child in zip((self.a, self.b), rng.spawn(2), strict=True)]

    def _drawn(self, law: Callable[..., Any], rng: np.random.Generator) -> list[Any]:
        if self.batch is None:
            return [plain_output(law(rng))]
        outputs = law(rng, self.batch)
        if len(outputs) != self.batch:
            raise InvalidArgument("batch", f"the number of outputs drawn, {len(outputs)}", self.batch)
        return [plain_output(output) for output in outputs]


def indistinguishability(
    a: Callable[..., Any],
    b: Callable[..., Any],
    trials: Any,
    *,
    delta: Any = 0.0,
    epsilon: Any = None,
    confidence: Any = 0.99,
    batch: Any = None,
    name: str | None = None,
    seed: Any = 0,
    workers: Any = 1,
    resume: Any = None,
    progress: Progress = False,
) -> Finding:
    """A lower confidence bound on the ε for which two laws are (ε, ``delta``)-indistinguishable.

    ``a(rng)`` and ``b(rng)`` draw one output each, say of a mechanism on two neighbouring tables; a mechanism
    with coins of its own may ignore ``rng``. Outputs are numbers, arrays, or anything discrete, None
    included. Half of the ``trials`` choose the event that tells the laws apart best, the other half count it.
    With ``batch``, ``a(rng, batch)`` draws that many outputs at once, and a trial is one batch: small δ needs
    millions of outputs. ``epsilon`` is what is claimed. ``workers``, ``resume`` and ``progress`` are those of
    :func:`replicability`.

    Guarantee: with probability ≥ ``confidence`` over the trials, a and b are not (ε, δ)-indistinguishable for
    any ε below ``low``, whatever they are. Nothing is bounded from above: a small ``low`` may mean that no
    telling event was found.
    Assumes: independent draws (not checkable for a mechanism that keeps its coins).
    Reference: theory 2 for indistinguishability; Jagielski, Ullman and Oprea 2020 for the audit; exact limits
    by Clopper and Pearson.

    >>> noisy = lambda value, scale: lambda rng: value + rng.laplace(scale=scale)
    >>> indistinguishability(noisy(0, 1), noisy(1, 1), 4000, epsilon=1.0).verdict
    'not refuted'
    >>> indistinguishability(noisy(0, 0.7), noisy(1, 0.7), 4000, epsilon=1.0).verdict
    'refuted'
    """
    of = "indistinguishability"
    trials = checks.whole(trials, "trials", at_least=4, of=of)
    delta = checks.real(delta, "delta", "[0, 1)", of=of)
    confidence = confidence_argument(confidence, of=of)
    seed = checks.whole(seed, "seed", at_least=0, of=of)
    claim = claim_argument(epsilon, "epsilon", "[0, inf)", of=of)
    size = None if batch is None else checks.whole(batch, "batch", of=of)
    about = {"a": name_of(a), "b": name_of(b), "batch": size}
    drawn = Running(of, seed, workers, resume, progress).run(_Draws(a, b, size), trials, about)
    half = trials // 2
    chosen = choose(_outputs(drawn[:half], 0), _outputs(drawn[:half], 1), delta, (1 - confidence) / 2)
    counts, counted = _count(chosen, [_outputs(drawn[half:], side) for side in (0, 1)])
    likelier, other = counts[::-1] if chosen.swapped else counts
    low, estimate = _epsilon(likelier, other, counted, delta, confidence)
    second, first = ("a", "b") if chosen.swapped else ("b", "a")
    return Finding(
        of,
        subject_of(name, a, b),
        "ε" if delta == 0 else f"ε at δ = {delta:g}",
        trials,
        estimate,
        low,
        math.inf,
        confidence,
        claim,
        statement=f"The event that {chosen.words}, chosen on other trials, happened {likelier:,} times in "
        f"{counted:,} under {first} and {other:,} times under {second}.",
        assumes=("The draws are independent, with fresh coins in each.",),
        seed=seed,
        details={"delta": delta, "event": chosen.words, "likelier under": first, "counted": counted}
        | {"in a": counts[0], "in b": counts[1]},
    )


def _outputs(drawn: list[list[list[Any]]], side: int) -> Outputs:
    return Outputs([output for trial in drawn for output in trial[side]])


def _count(event: Event, sides: list[Outputs]) -> tuple[list[int], int]:
    return [int(event.contains(side).sum()) for side in sides], len(sides[0].drawn)


def _epsilon(likelier: int, other: int, counted: int, delta: float, confidence: float) -> tuple[float, float]:
    """The lower limit and the plain estimate of ln((P − δ)/Q)."""
    # One-sided limits with half of the error each: the two-sided interval with all of it has the same ends.
    nats = -math.log1p(-confidence)
    low = clopper_pearson(likelier, counted, nats).low - delta
    high = clopper_pearson(other, counted, nats).high
    share, rest = likelier / counted - delta, other / counted
    estimate = math.log(share / rest) if share > rest > 0 else (math.inf if share > rest else 0.0)
    return (max(0.0, rounding.down(math.log(low / high))) if low > high else 0.0), estimate
