"""How often two fresh samples give different results under the same tape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.audit._finding import (
    Finding,
    claim_argument,
    confidence_argument,
    name_of,
    rate_finding,
    subject_of,
)
from holdfast.audit._same import key
from holdfast.audit._trials import Progress, Running, takes_second
from holdfast.errors import InvalidArgument


@dataclass(frozen=True)
class _Pair:
    """One trial: whether two samples gave different results."""

    algorithm: Callable[..., Any]
    sampler: Callable[[np.random.Generator], Any]
    tape: Any

    def __call__(self, number: int, rng: np.random.Generator) -> bool:
        first, second = (self.sampler(child) for child in rng.spawn(2))
        shared = () if self.tape is None else (self.tape.branch(f"trial {number}"),)
        return key(self.algorithm(first, *shared)) != key(self.algorithm(second, *shared))


def replicability(
    algorithm: Callable[..., Any],
    sampler: Callable[[np.random.Generator], Any],
    trials: Any,
    *,
    rho: Any = None,
    tape: Any = "audit",
    confidence: Any = 0.99,
    name: str | None = None,
    seed: Any = 0,
    workers: Any = 1,
    resume: Any = None,
    progress: Progress = False,
) -> Finding:
    """How often ``algorithm`` gives different results on two fresh samples, with exact binomial limits.

    ``sampler(rng)`` draws one sample; ``algorithm(sample, tape)`` is run on two of them with the same branch
    of ``tape``, another one in every trial, and the results are compared exactly. An algorithm that takes
    no second argument gets no tape. ``rho`` is what is claimed: the finding is refuted if more is certain.
    Trials run in ``workers`` processes (threads for what cannot be sent to one), with the same finding for
    any number; ``resume`` names a JSON-lines file where finished trials are kept and taken up again;
    ``progress`` is True for a bar or a function of (done, total).

    Guarantee: with probability ≥ ``confidence`` over the trials, the probability of different results, over
    two samples and a tape, lies in [low, high].
    Assumes: a sampler that draws independent samples of the population meant, and an algorithm whose only
    coins are the tape's (not checkable).
    Reference: Clopper and Pearson 1934; SIS Definition 2.1 for replicability.

    >>> import numpy as np
    >>> from holdfast.replicable import mean
    >>> def rounded(rows, tape):
    ...     return mean(rows, accuracy=0.1, rho=0.2, beta=0.05, bounds=(0, 1), tape=tape)
    >>> found = replicability(rounded, lambda rng: rng.random(1000), 200, rho=0.2)
    >>> found.verdict
    'confirmed'
    >>> replicability(np.mean, lambda rng: rng.random(1000), 200, rho=0.2).verdict
    'refuted'
    """
    of = "replicability"
    trials = checks.whole(trials, "trials", of=of)
    confidence = confidence_argument(confidence, of=of)
    seed = checks.whole(seed, "seed", at_least=0, of=of)
    claim = claim_argument(rho, "rho", "[0, 1]", of=of)
    shared = _tape(tape, of) if takes_second(algorithm, "tape") else None
    about = {"algorithm": name_of(algorithm), "sampler": name_of(sampler), "tape": str(shared)}
    running = Running(of, seed, workers, resume, progress)
    different = sum(running.run(_Pair(algorithm, sampler, shared), trials, about))
    return rate_finding(
        of,
        subject_of(name, algorithm),
        "different results",
        hits=different,
        trials=trials,
        confidence=confidence,
        claim=claim,
        statement=f"{different:,} of {trials:,} pairs of fresh samples gave different results.",
        assumes=("The sampler draws independent samples of the population that is meant.",),
        seed=seed,
        details={"different": different, "tape": None if shared is None else str(shared)},
    )


def _tape(tape: Any, of: str) -> Any:
    """A tape, or the one with this seed."""
    if isinstance(tape, (str, int)):
        from holdfast.replicable import Tape

        return Tape(tape)
    if not callable(getattr(tape, "branch", None)):
        raise InvalidArgument("tape", "a holdfast.replicable.Tape or its seed", tape, of=of)
    return tape
