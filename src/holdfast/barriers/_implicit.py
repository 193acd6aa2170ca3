"""Correlated sampling from a circuit, by inverting hash functions of it (SIS Algorithms 6 to 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.barriers._bucket_plan import BucketPlan, bucket_plan
from holdfast.barriers._buckets import BucketInverter, sample_by_buckets
from holdfast.barriers._circuits import Circuit, circuit_argument
from holdfast.barriers._hashing import ToeplitzHash
from holdfast.barriers._implicit_plan import ImplicitPlan, implicit_plan
from holdfast.barriers._inverter import Inverter, TableInverter
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["ImplicitSample", "implicit_correlated_sample"]

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
        raise InvalidArgument("accuracy", "given, or else a plan, and not both", accuracy, of=of)
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
            raise InvalidArgument("inverter", "one with a method strings, which lists", inverter, of=of)
        value, last = sample_by_buckets(circuit, plan, tape, inverter)
    else:
        if not isinstance(inverter, Inverter):
            raise InvalidArgument("inverter", "one with the methods possible and invert", inverter, of=of)
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
            found = _find(
                circuit,
                plan,
                tape.branch("checks").branch(now),
                inverter,
                some.only(place),
                int(values[now]),
                int(levels[now]),
                float(thresholds[now]),
            )
            if found is not None:
                return found, now
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
    found, counts = np.unique(hit, return_counts=True)
    scaled = counts * 2.0**plan.slack / plan.checks
    inside = found[(threshold / 2.0 < scaled) & (scaled <= threshold)]
    return int(inside[0]) if len(inside) == 1 else None
