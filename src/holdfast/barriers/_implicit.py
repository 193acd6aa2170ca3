"""Correlated sampling from a circuit, by inverting hash functions of it (SIS Algorithms 6 to 8).

The plan says how long this must run, and what that promises (SIS Lemmas 4.14 and 4.16).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast import checks, rounding, search
from holdfast.barriers._buckets import BucketInverter, BucketPlan, bucket_plan, sample_by_buckets
from holdfast.barriers._circuits import MOST_TABLE, Circuit, ToeplitzHash, circuit_argument
from holdfast.barriers._inverter import Inverter, TableInverter
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable import Tape, tape_argument
from holdfast.typing import BoundForm

__all__ = ["ImplicitPlan", "ImplicitSample", "implicit_correlated_sample", "implicit_plan"]


_AT_ONCE = 2**20
_HALF = np.uint64(32)


@dataclass(frozen=True, repr=False)
class ImplicitSample(Record):
    """``value`` has the circuit's law up to ``accuracy`` in total variation; None if no round returned.

    ``round`` is the one that did, ``tape`` the text that reproduces it.
    """

    value: int | None
    accuracy: float
    round: int | None
    tape: str


def implicit_correlated_sample(
    circuit: Circuit,
    *,
    tape: Tape,
    accuracy: float | None = None,
    plan: ImplicitPlan | BucketPlan | None = None,
    inverter: Inverter | BucketInverter | None = None,
) -> ImplicitSample:
    """A sample of a circuit's law that another circuit of nearly the same law will give too, on the same
    tape.

    The circuit is only evaluated and inverted: nobody writes down its law. Give an ``accuracy``, or a
    ``plan``. A ``BucketPlan``, the default, asks the inverter for all strings of small buckets: by a table up
    to 16 inputs (the default), by ``AffineInverter`` or ``SatInverter`` up to 64. An ``ImplicitPlan`` is the
    algorithm as printed, which asks for one preimage at a time.
    Guarantee: within ``plan.accuracy`` of the law in total variation, over the tape; two circuits differ with
    probability at most ``plan.disagreement(d)``, d the total variation of their laws. With a bucket plan the
    inverter is called ``plan.rounds`` times at most, whatever 2^inputs is.
    Assumes: an inverter that lists whole buckets, or one as good as the printed plan says (a table never
    fails); for agreement, circuits of the same number of inputs and outputs and the same plan.
    Reference: SIS Algorithms 6, 7 and 8, Lemmas 4.14 and 4.16, with T₂ corrected; buckets: Holdfast.

    Args:
        circuit: The circuit that is sampled from.
        tape: The shared coins; both laboratories use the same.
        inverter: What inverts the hash functions; None chooses by the size of the circuit.

    >>> circuit = Circuit.of_counts([5, 3])
    >>> implicit_correlated_sample(circuit, accuracy=0.5, tape=Tape("study-7"))  # doctest: +ELLIPSIS
    ImplicitSample(value=..., tape='tape:holdfast-1:study-7')
    >>> from holdfast.barriers import AffineInverter
    >>> low = Circuit(lambda r: r & np.uint64(255), inputs=64, outputs=8)
    >>> sample = implicit_correlated_sample(low, accuracy=0.5, tape=Tape("a"), inverter=AffineInverter())
    >>> 0 <= sample.value < 256
    True
    """
    of = "implicit_correlated_sample"
    circuit, tape = circuit_argument(circuit, of=of), tape_argument(tape, of=of)
    if (accuracy is None) == (plan is None):
        raise InvalidArgument(
            "accuracy", "given if no plan is given, and left out otherwise", accuracy, of=of
        )
    inverter = TableInverter() if inverter is None else inverter
    if accuracy is not None:
        if isinstance(inverter, BucketInverter):
            plan = bucket_plan(circuit.inputs, circuit.outputs, accuracy)
        else:
            plan = implicit_plan(circuit.inputs, accuracy)
    if not isinstance(plan, (ImplicitPlan, BucketPlan)) or plan.inputs != circuit.inputs:
        expected = f"a BucketPlan or an ImplicitPlan for {circuit.inputs} inputs"
        raise InvalidArgument("plan", expected, plan, of=of)
    if isinstance(plan, BucketPlan):
        if plan.outputs != circuit.outputs:
            raise InvalidArgument("plan", f"a BucketPlan for {circuit.outputs} outputs", plan, of=of)
        if not isinstance(inverter, BucketInverter):
            raise InvalidArgument(
                "inverter",
                "an inverter that lists strings (method strings), because the plan has buckets",
                inverter,
                of=of,
            )
        value, last = sample_by_buckets(circuit, plan, tape, inverter)
    else:
        if not isinstance(inverter, Inverter):
            raise InvalidArgument(
                "inverter", "an inverter with the methods possible and invert", inverter, of=of
            )
        value, last = _sample(circuit, plan, tape, inverter)
    return ImplicitSample(value, plan.accuracy, last, str(tape))


def _sample(
    circuit: Circuit, plan: ImplicitPlan, tape: Tape, inverter: Inverter
) -> tuple[int | None, int | None]:
    """Algorithm 6: the value and the number of the first round that returns one."""
    rounds = tape.branch("rounds")
    thresholds = 1.0 + rounds.uniforms(plan.rounds)
    levels = rounds.integers(plan.rounds, plan.inputs + 1)
    words = rounds.words(2 * plan.rounds)
    first = ToeplitzHash(words[0::2].copy(), words[1::2] >> _HALF, circuit.outputs, levels + plan.slack)
    values = words[1::2] & first.mask
    step = max(1, _AT_ONCE // len(circuit.support[0]))
    for start in range(0, plan.rounds, step):
        block = slice(start, start + step)
        some = ToeplitzHash(
            first.seeds[block], first.offsets[block], first.inputs, levels[block] + plan.slack
        )
        for place in np.flatnonzero(inverter.possible(circuit, some, values[block])).tolist():
            now = start + place
            value_found = _find(
                circuit,
                plan,
                tape.branch("checks").branch(now),
                inverter,
                some.only(place),
                int(values[now]),
                int(levels[now]),
                float(thresholds[now]),
            )
            if value_found is not None:
                return value_found, now
    return None, None


def _find(
    circuit: Circuit,
    plan: ImplicitPlan,
    tape: Tape,
    inverter: Inverter,
    first: ToeplitzHash,
    value: int,
    level: int,
    threshold: float,
) -> int | None:
    """Algorithm 7: the one x with H₁(x) = u that is hit as often as its level says, or None."""
    words = tape.words(2 * plan.checks).reshape(2, plan.checks)
    second = ToeplitzHash(words[0], words[1] >> _HALF, plan.inputs, plan.inputs - level + plan.slack)
    strings = inverter.invert(circuit, first, value, second, words[1] & second.mask)
    hit = circuit.table[strings[strings >= 0]]
    if len(hit) == 0:
        return None
    distinct, counts = np.unique(hit, return_counts=True)
    scaled = counts * 2.0**plan.slack / plan.checks
    inside = distinct[(threshold / 2.0 < scaled) & (scaled <= threshold)]
    return int(inside[0]) if len(inside) == 1 else None


_LEAST_SLACK, _MOST_SLACK = 3, 16
_LEAST_CHECKS = 8


@dataclass(frozen=True, repr=False)
class ImplicitPlan(Record):
    """The numbers of Algorithms 6 and 7: ``slack`` is k, ``rounds`` T₁ and ``checks`` T₂, for ``inputs`` =
    m bits.

    ``inverter_error`` is what the inverter is allowed to miss (Definition 4.11), 0 for a table.
    Guarantee: see ``accuracy`` and ``disagreement``; any numbers may be given, bad ones promise nothing.
    Assumes: nothing about the circuit but its number of inputs.
    Reference: SIS Algorithms 6 and 7, with constants of our own.

    >>> round(ImplicitPlan(inputs=8, slack=9, rounds=60_000, checks=10**8).accuracy, 4)
    0.0245
    """

    inputs: int
    slack: int
    rounds: int
    checks: int
    inverter_error: float = 0.0

    def __post_init__(self) -> None:
        of = "ImplicitPlan"
        inputs = checks.whole(self.inputs, "inputs", at_most=MOST_TABLE, of=of, by="SIS Algorithm 6")
        slack = checks.whole(self.slack, "slack", at_most=_MOST_SLACK, of=of, by="SIS Algorithm 6")
        rounds = checks.whole(self.rounds, "rounds", of=of, by="SIS Algorithm 6")
        number = checks.whole(self.checks, "checks", at_most=2**53, of=of, by="SIS Algorithm 7")
        error = checks.real(self.inverter_error, "inverter_error", "[0, 1]", of=of, by="SIS Definition 4.11")
        for name, value in zip(
            ("inputs", "slack", "rounds", "checks", "inverter_error"),
            (inputs, slack, rounds, number, error),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    @property
    def mean_rounds(self) -> int:
        """(m + 1) 2^k: how many rounds pass before an ideal one returns, on average."""
        return (self.inputs + 1) << self.slack

    @property
    def round_error(self) -> float:
        """e: how often a round that decides differs from the ideal one; 1 where nothing is proved.

        With N = T₂/2^k, e = 4.76/√N + 4/N + 8e^{−0.0965N} + ½e^{−0.091N} + 7·2^{−k} + 17·4^{−k} + 6(m+1)ν',
        for k ≥ 3 and N ≥ 8.
        """
        hits = self.checks / 2**self.slack
        if not (self.slack >= _LEAST_SLACK and hits >= _LEAST_CHECKS):
            return 1.0
        counting = 4.76 / math.sqrt(hits) + 4.0 / hits
        counting += 8.0 * math.exp(-0.0965 * hits) + 0.5 * math.exp(-0.091 * hits)
        collisions = 7.0 * 2.0**-self.slack + 17.0 * 4.0**-self.slack
        return rounding.probability(counting + collisions + 6.0 * (self.inputs + 1) * self.inverter_error)

    @property
    def silence(self) -> float:
        """(1 − (1 − e)/((m + 1)2^k))^T₁: how often all rounds pass and nothing is returned, at most."""
        rate = (1.0 - self.round_error) / self.mean_rounds
        return rounding.probability(math.exp(self.rounds * math.log1p(-rate)))

    @property
    def accuracy(self) -> float:
        """e + silence: the total variation between what is returned and the circuit's law, at most."""
        return rounding.probability(self.round_error + self.silence)

    def disagreement(self, total_variation: float) -> float:
        """How often two circuits whose laws are ``total_variation`` = d apart give different results on one
        tape.

        Guarantee: (6d + 2e)/(1 + 3d), for circuits with the same numbers of inputs and outputs; two
        circuits that are the same function never differ.
        Assumes: a tape that does not depend on the circuits.
        Reference: SIS Lemma 4.16; constants ours. The ideal rule loses 6d/(1 + 3d), for d small three times
        the optimum.

        >>> round(ImplicitPlan(inputs=8, slack=9, rounds=60_000, checks=10**8).disagreement(0.01), 4)
        0.1059
        """
        d = checks.real(total_variation, "total_variation", "[0, 1]", of="ImplicitPlan.disagreement")
        return rounding.probability((6.0 * d + 2.0 * self.round_error) / (1.0 + 3.0 * d))


def implicit_plan(
    inputs: int, accuracy: float, *, method: BoundForm = "sharp", inverter_error: float = 0.0
) -> ImplicitPlan:
    """The numbers with which correlated sampling from ``inputs`` bits is within ``accuracy`` of the
    circuit's law.

    Guarantee: ``plan.accuracy`` ≤ ``accuracy``. "sharp": the fewest checks by our theorem, T₂ = O(2^k/ν²),
    2^k = O(1/ν). "paper": the corrected orders with constants that suffice, 2^k ≥ 16(m+1)/ν, T₁ = (m+1)2^k
    k ln(2/ν) and T₂ = 2^k(64 ln(T₁/ν)/ν² + 16m).
    Assumes: accuracy in [0.001, 0.9]; an inverter good enough to reach it (checked).
    Reference: SIS Algorithms 6 and 7, whose T₂ is printed with T₁⁻¹ and its logarithm, a negative number.

    Args:
        method: "sharp", or "paper" for the constants as printed.
        inverter_error: How often the inverter may fail.

    >>> implicit_plan(4, 0.5)
    ImplicitPlan(inputs=4, slack=6, rounds=1799, checks=14290, inverter_error=0)
    """
    of, by = "implicit_plan", "SIS Lemma 4.14"
    inputs = checks.whole(inputs, "inputs", at_most=MOST_TABLE, of=of, by=by)
    accuracy = checks.real(accuracy, "accuracy", "[0.001, 0.9]", of=of, by=by)
    checks.choice(method, "method", ("paper", "sharp"), of=of)
    error = checks.real(inverter_error, "inverter_error", "[0, 1]", of=of, by="SIS Definition 4.11")
    plans = [_paper(inputs, accuracy, error)] if method == "paper" else _sharp(inputs, accuracy, error)
    good = [plan for plan in plans if plan.accuracy <= accuracy]
    if not good:
        expected = (
            f"small enough for an accuracy of {accuracy:g}, well below {accuracy / (6 * (inputs + 1)):.3g}"
        )
        raise InvalidArgument("inverter_error", expected, error, of=of, reference="SIS Lemma 4.19")
    return min(good, key=lambda plan: plan.checks)


def _sharp(inputs: int, accuracy: float, inverter_error: float) -> list[ImplicitPlan]:
    """For each slack the fewest checks with e ≤ 0.9 accuracy; silence takes the rest."""
    allowed = 0.9 * accuracy

    def plan(slack: int, number: int) -> ImplicitPlan:
        rounds = math.ceil(((inputs + 1) << slack) * math.log(11.0 / accuracy) / (1.0 - allowed))
        return ImplicitPlan(inputs, slack, rounds, number, inverter_error)

    def fewest_checks(slack: int) -> int | None:
        # The error falls with the number of checks.
        return search.least_whole(
            lambda number: plan(slack, number).round_error <= allowed,
            above=(_LEAST_CHECKS << slack) - 1,
            most=2**53,
        )

    slacks = range(_LEAST_SLACK, _MOST_SLACK + 1)
    return [plan(slack, number) for slack in slacks if (number := fewest_checks(slack)) is not None]


def _paper(inputs: int, accuracy: float, inverter_error: float) -> ImplicitPlan:
    slack = min(_MOST_SLACK, math.ceil(math.log2(16 * (inputs + 1) / accuracy)))
    rounds = math.ceil(((inputs + 1) << slack) * slack * math.log(2.0 / accuracy))
    number = math.ceil(2**slack * (64.0 * math.log(rounds / accuracy) / accuracy**2 + 16 * inputs))
    return ImplicitPlan(inputs, slack, rounds, number, inverter_error)
