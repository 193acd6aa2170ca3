"""How long the arms of ratios, differences, slopes and correlations are, next to those of a normal estimate.

Each question is fixed in advance. Its rows are simulated from five laws, with a training part of half as many
rows. Beside each arm stands σ√(2 ln(2/δ)/n), where σ is the standard deviation of one row's influence on the
statistic. An estimate with exactly normal errors needs that much for the same error δ = exp(−nats), by the
usual exponential bound. It is no interval, because nobody knows σ.

    python benchmarks/statistics_width.py [--runs 5]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from machine import keep

from holdfast.statistics import (
    NO_AXIS,
    Axis,
    Bets,
    Cells,
    Contrast,
    Correlation,
    Form,
    Mean,
    Ratio,
    Slope,
    Statistic,
    Steps,
)

UNITS = 2**24
ROWS = (10**3, 10**4, 10**5, 10**6)
NATS = (4.0, 12.0)
LIGHT, HEAVY = ("uniform", "coin", "normal"), ("rare event", "lognormal")
# As the guard divides the values of a question: of one value, and of each of two.
STEPS_OF_ONE, STEPS_OF_TWO = 64, 32
MOST = 30.0


class Law(NamedTuple):
    """How values are drawn, and between what they lie."""

    draw: Callable[[np.random.Generator, int], np.ndarray]
    low: float
    high: float


LAWS = {
    "uniform": Law(lambda rng, rows: rng.random(rows), 0.0, 1.0),
    "coin": Law(lambda rng, rows: (rng.random(rows) < 0.5).astype(float), 0.0, 1.0),
    "normal": Law(lambda rng, rows: np.clip(rng.normal(size=rows), -4, 4), -4.0, 4.0),
    "rare event": Law(lambda rng, rows: (rng.random(rows) < 0.01).astype(float), 0.0, 1.0),
    "lognormal": Law(lambda rng, rows: np.minimum(np.exp(rng.normal(size=rows)), MOST), 0.0, MOST),
}


class Sample(NamedTuple):
    """Rows of a question: values, perhaps second values and groups, and the declared ranges."""

    x: np.ndarray
    axis: Axis
    z: np.ndarray | None = None
    other: Axis = NO_AXIS
    group: np.ndarray | None = None


def ratio(law: Law, rng: np.random.Generator, rows: int) -> Sample:
    """Something a visit, with half to one and a half visits."""
    visits = 0.5 + rng.random(rows)
    return Sample(law.draw(rng, rows), _axis(law), visits, Axis(0.0, 2.0, UNITS))


def difference(law: Law, rng: np.random.Generator, rows: int) -> Sample:
    """Two groups of the same law."""
    return Sample(law.draw(rng, rows), _axis(law), group=rng.integers(0, 2, rows))


def paired(law: Law, rng: np.random.Generator, rows: int) -> Sample:
    """The difference of two values of each row."""
    width = law.high - law.low
    return Sample(law.draw(rng, rows) - law.draw(rng, rows), Axis(-width, width, UNITS))


def slope(law: Law, rng: np.random.Generator, rows: int) -> Sample:
    """Half of the second value and as much of another draw, on the second value."""
    z, rest = law.draw(rng, rows), law.draw(rng, rows)
    return Sample((z + rest) / 2, _axis(law), z, _axis(law))


def correlation(strength: float) -> Callable[[Law, np.random.Generator, int], Sample]:
    """Two values with this correlation, both cut off four deviations from their means."""

    def drawn(law: Law, rng: np.random.Generator, rows: int) -> Sample:
        x, rest = law.draw(rng, rows), law.draw(rng, rows)
        share = math.sqrt(1 - strength**2)
        mean, deviation = _size(law)
        z = strength * x + share * rest
        ends = [(at - 4 * deviation, at + 4 * deviation) for at in (mean, (strength + share) * mean)]
        axes = [Axis(low, high, UNITS) for low, high in ends]
        x, z = (np.clip(values, axis.low, axis.high) for values, axis in zip((x, z), axes, strict=True))
        return Sample(x, axes[0], z, axes[1])

    return drawn


def _axis(law: Law) -> Axis:
    return Axis(law.low, law.high, UNITS)


def _size(law: Law) -> tuple[float, float]:
    values = law.draw(np.random.default_rng(0), 10**5)
    return float(values.mean()), float(values.std())


QUESTIONS: dict[str, tuple[Statistic, Callable[[Law, np.random.Generator, int], Sample]]] = {
    "ratio": (Ratio(), ratio),
    "difference": (Contrast(), difference),
    "paired difference": (Mean(), paired),
    "slope": (Slope(), slope),
    "correlation 0": (Correlation(), correlation(0.0)),
    "correlation 0.6": (Correlation(), correlation(0.6)),
    "correlation -0.6": (Correlation(), correlation(-0.6)),
}


def deviation(question: str, sample: Sample) -> float:
    """σ: how much one row moves the statistic, times the number of rows, by its influence function."""
    x, z = sample.x, sample.z
    if sample.group is not None:
        shares = [np.mean(sample.group == group) for group in (0, 1)]
        spreads = [np.var(x[sample.group == group]) for group in (0, 1)]
        return math.sqrt(sum(spread / share for spread, share in zip(spreads, shares, strict=True)))
    if z is None:
        return float(np.std(x))
    if question == "ratio":
        return float(np.std(x - x.mean() / z.mean() * z) / z.mean())
    x, z = x - x.mean(), z - z.mean()
    if question == "slope":
        line = float(np.mean(x * z) / np.mean(z * z))
        return float(np.std((x - line * z) * z) / np.mean(z * z))
    x, z = x / x.std(), z / z.std()
    return float(np.std(x * z - np.mean(x * z) * (x * x + z * z) / 2))


def cells_of(sample: Sample, steps: tuple[Steps, Steps]) -> Cells:
    """The rows by cells."""
    units = [
        None if values is None else np.rint((values - axis.low) / axis.width * UNITS).astype(np.int64)
        for values, axis in ((sample.x, sample.axis), (sample.z, sample.other))
    ]
    return Cells.of_values((sample.axis, sample.other), steps, units[0], units[1], sample.group)


def steps_of(sample: Sample) -> tuple[Steps, Steps]:
    """As finely as the guard divides protected rows once it saw the training part."""
    count = STEPS_OF_ONE if sample.z is None else STEPS_OF_TWO
    first, second = (
        Steps.over(axis, count)
        if values is None
        else Steps.where_values_are(axis, float(values.mean()), float(values.std()), count)
        for values, axis in ((sample.x, sample.axis), (sample.z, sample.other))
    )
    return first, second


def arm(question: str, law: str, rows: int, nats: float, seed: int) -> dict[str, float]:
    """Half of one interval's length over the normal radius; of a slope also without its box."""
    statistic, draw = QUESTIONS[question]
    rng = np.random.default_rng(seed)
    training, sample = draw(LAWS[law], rng, rows // 2), draw(LAWS[law], rng, rows)
    steps = steps_of(training)
    trained, cells = cells_of(training, steps), cells_of(sample, steps)
    evidence = Bets(cells, trained.times(cells.rows / trained.rows))
    radius = deviation(question, sample) * math.sqrt(2 * (nats + math.log(2)) / rows)
    ratios = {"arm": statistic.interval(evidence, nats).half_width / radius}
    if question == "slope":
        ratios["without its box"] = _slope_without_box(evidence, statistic, nats) / radius
    return ratios


def _slope_without_box(evidence: Bets, statistic: Statistic, nats: float) -> float:
    assert evidence.trained is not None
    around, line = evidence.around(*evidence.trained.mean), statistic.estimate(evidence.trained)
    form, level = Form.of((0, 0, 0, 0, 1, -line), (0, 0, 0, 0, 0, 1)), nats - math.log(0.9) + math.log(2)
    return (around.upper(form, level) - around.lower(form, level)) / 2


def target(question: str, law: str, rows: int, nats: float) -> float | None:
    """What the arm is to be at most, where something is promised."""
    if rows < 10**4:
        return None
    if question in ("ratio", "difference", "paired difference"):
        return 1.25 if law in LIGHT else 1.7
    if question == "slope":
        return 1.35 if law in ("uniform", "coin") else None
    return {4.0: 1.5, 12.0: 2.3}[nats] if law == "normal" else None


def point(question: str, law: str, rows: int, nats: float, runs: int) -> dict[str, float | str | bool | None]:
    """The mean over runs; a slope is judged without its box."""
    each = [arm(question, law, rows, nats, seed) for seed in range(runs)]
    means = {name: float(np.mean([ratios[name] for ratios in each])) for name in each[0]}
    limit = target(question, law, rows, nats)
    judged = means.get("without its box", means["arm"])
    described = {"question": question, "law": law, "rows": rows, "nats": nats, **means, "target": limit}
    return described if limit is None else {**described, "within target": judged <= limit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    points = [
        point(question, law, rows, nats, runs if rows < 10**6 else 1)
        for question in QUESTIONS
        for law in LAWS
        for rows in ROWS
        for nats in NATS
    ]
    missed = [entry for entry in points if entry.get("within target") is False]
    keep("statistics_width", {"runs": runs, "beyond their target": missed, "points": points})


if __name__ == "__main__":
    main()
