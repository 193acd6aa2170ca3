"""Correlated samples from circuits of 40 and 64 inputs: processor time of each draw.

    python benchmarks/implicit_inputs.py

The clauses need the extra ``sat``.
"""

from __future__ import annotations

import time

import numpy as np

from holdfast.barriers import (
    AffineInverter,
    BucketInverter,
    Circuit,
    Gates,
    SatInverter,
    bucket_plan,
    implicit_correlated_sample,
)
from holdfast.replicable import Tape

ACCURACY = 0.5
DRAWS = 3


def parities(inputs: int, outputs: int) -> Circuit:
    """Every output is the parity of a random set of input bits."""
    words = Tape("benchmark").branch(inputs).words(outputs) >> np.uint64(64 - inputs)

    def function(strings: np.ndarray) -> np.ndarray:
        bits = (np.bitwise_count(strings[:, None] & words) & 1).astype(np.uint64)
        return (bits << np.arange(outputs, dtype=np.uint64)).sum(axis=1)

    return Circuit(function, inputs, outputs)


def cases() -> list[tuple[str, Circuit, BucketInverter]]:
    """The circuits, each with an inverter."""
    listed: list[tuple[str, Circuit, BucketInverter]] = [
        (f"parities, {inputs} inputs, {outputs} outputs", parities(inputs, outputs), AffineInverter())
        for inputs in (40, 64)
        for outputs in (8, 32)
    ]
    for inputs in (40, 64):
        gates = Gates(inputs)
        ones = gates.count(gates.inputs)
        listed.append((f"ones of {inputs} bits", gates.circuit(ones), SatInverter(gates.clauses, ones)))
        gates = Gates(inputs)
        top = gates.add(gates.inputs[: inputs // 2], gates.inputs[inputs // 2 :])[-8:]
        name = f"upper 8 bits of a sum, {inputs} inputs"
        listed.append((name, gates.circuit(top), SatInverter(gates.clauses, top)))
    return listed


def main() -> None:
    for name, circuit, inverter in cases():
        plan = bucket_plan(circuit.inputs, circuit.outputs, ACCURACY)
        spent, values = [], []
        for number in range(DRAWS):
            start = time.process_time()
            sample = implicit_correlated_sample(
                circuit, plan=plan, tape=Tape("benchmark").branch(number), inverter=inverter
            )
            spent.append(f"{time.process_time() - start:.2f}")
            values.append(sample.value)
        print(f"{name}: {', '.join(spent)} s, values {values}", flush=True)


if __name__ == "__main__":
    main()
