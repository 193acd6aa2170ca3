"""How long correlated sampling by buckets must run, and what that promises (SIS Lemmas 4.14 and 4.16)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.barriers._circuits import MOST_INPUTS, MOST_OUTPUTS
from holdfast.errors import InvalidArgument
from holdfast.records import Record

__all__ = ["BucketPlan", "bucket_plan"]

_BY = "Holdfast, buckets"
_LEAST_BITS, _MOST_BITS = 3, 24
_MOST_SLACK = 16
# A bucket with more strings than this many times its usual number is left alone.
CROWDED = 8


@dataclass(frozen=True, repr=False)
class BucketPlan(Record):
    """``rounds`` rounds at ``levels`` + 1 levels for ``inputs`` = m and ``outputs`` = n bits.

    An element x is looked at with probability 2^(−level − ``slack``); 2^``bits`` strings of it are expected
    in the bucket at the level that fits its probability.
    Guarantee: see ``accuracy`` and ``disagreement``; any numbers may be given, bad ones promise nothing.
    Assumes: an inverter that lists the whole bucket.
    Reference: Holdfast, after SIS Algorithms 6 and 7.

    >>> round(BucketPlan(inputs=40, outputs=8, levels=16, slack=7, bits=12, rounds=20_000).accuracy, 4)
    0.1009
    """

    inputs: int
    outputs: int
    levels: int
    slack: int
    bits: int
    rounds: int

    def __post_init__(self) -> None:
        limits = {
            "inputs": (1, MOST_INPUTS),
            "outputs": (1, MOST_OUTPUTS),
            "levels": (0, self.inputs),
            "slack": (0, _MOST_SLACK),
            "bits": (0, min(_MOST_BITS, self.inputs)),
            "rounds": (1, 2**53),
        }
        for name, (least, most) in limits.items():
            number = checks.whole(
                getattr(self, name), name, at_least=least, at_most=most, of="BucketPlan", by=_BY
            )
            object.__setattr__(self, name, number)

    @property
    def mean_rounds(self) -> int:
        """(levels + 1) 2^slack: how many rounds pass before an ideal one returns, on average."""
        return (self.levels + 1) << self.slack

    @property
    def round_error(self) -> float:
        """e: how often a round that decides differs from the ideal one; 1 where nothing is proved.

        With N = 2^bits ≥ 8, e = 4.76/√N + (log₂ N + 9.1)/N + 2.2·2^{−slack}, and 2^{n−levels} more where
        there are fewer levels than inputs. Where bits = inputs, counts are exact and the terms with N are 0.
        """
        return _round_error(self.inputs, self.outputs, self.levels, self.slack, self.bits)

    @property
    def silence(self) -> float:
        """(1 − (1 − e)/((levels + 1)2^slack))^rounds: how often nothing is returned, at most."""
        rate = (1.0 - self.round_error) / self.mean_rounds
        return rounding.probability(math.exp(self.rounds * math.log1p(-rate)) if rate < 1.0 else 0.0)

    @property
    def accuracy(self) -> float:
        """e + silence: the total variation between what is returned and the circuit's law, at most."""
        return rounding.probability(self.round_error + self.silence)

    def disagreement(self, total_variation: Any) -> float:
        """How often two circuits whose laws are ``total_variation`` = d apart give different results.

        Guarantee: (6d + 2e)/(1 + 3d) on one tape, for circuits with the same numbers of inputs and outputs;
        two circuits that are the same function never differ.
        Assumes: a tape that does not depend on the circuits.
        Reference: SIS Lemma 4.16; constants ours.

        >>> plan = BucketPlan(inputs=40, outputs=8, levels=16, slack=7, bits=12, rounds=20_000)
        >>> round(plan.disagreement(0.01), 4)
        0.2536
        """
        d = checks.real(total_variation, "total_variation", "[0, 1]", of="BucketPlan.disagreement")
        return rounding.probability((6.0 * d + 2.0 * self.round_error) / (1.0 + 3.0 * d))

    @property
    def strings(self) -> int:
        """(levels + 1)·2^bits: how many strings are listed before a result, about."""
        return (self.levels + 1) << self.bits


def bucket_plan(inputs: Any, outputs: Any, accuracy: float) -> BucketPlan:
    """The numbers with which sampling by buckets is within ``accuracy`` of the circuit's law.

    Guarantee: ``plan.accuracy`` ≤ ``accuracy``, with the fewest rounds and strings together that the search
    finds. Nothing grows with 2^inputs.
    Assumes: accuracy in [0.01, 0.9].
    Reference: Holdfast, buckets.

    >>> bucket_plan(40, 6, 0.5)
    BucketPlan(inputs=40, outputs=6, levels=12, slack=5, bits=8, rounds=2333)
    """
    of = "bucket_plan"
    inputs = checks.whole(inputs, "inputs", at_most=MOST_INPUTS, of=of, by=_BY)
    outputs = checks.whole(outputs, "outputs", at_most=MOST_OUTPUTS, of=of, by=_BY)
    accuracy = checks.real(accuracy, "accuracy", "[0.01, 0.9]", of=of, by=_BY)
    best: BucketPlan | None = None
    for levels in sorted({min(inputs, outputs + more) for more in range(1, 16)}):
        for slack in range(_MOST_SLACK + 1):
            for bits in range(min(_LEAST_BITS, inputs), min(_MOST_BITS, inputs) + 1):
                # Silence takes a tenth of the accuracy.
                error = _round_error(inputs, outputs, levels, slack, bits)
                if error <= 0.9 * accuracy:
                    rounds = math.ceil(((levels + 1) << slack) * math.log(11.0 / accuracy) / (1.0 - error))
                    plan = BucketPlan(inputs, outputs, levels, slack, bits, rounds)
                    if best is None or plan.rounds + plan.strings < best.rounds + best.strings:
                        best = plan
                    break
    if best is None or best.accuracy > accuracy:
        raise InvalidArgument("accuracy", "one that some plan reaches", accuracy, of=of, reference=_BY)
    return best


def _round_error(inputs: int, outputs: int, levels: int, slack: int, bits: int) -> float:
    error = 2.2 * 2.0**-slack
    if bits < inputs:
        if bits < _LEAST_BITS:
            return 1.0
        size = 2.0**bits
        error += 4.76 / math.sqrt(size) + (bits + 9.1) / size
    if levels < inputs:
        error += 2.0 ** min(0, outputs - levels)
    return rounding.probability(error)
