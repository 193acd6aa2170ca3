"""What cells say of a product of bets is never more than the product, and nearly all of it."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.statistics import NO_AXIS, Axis, Cells, Crossing, Form, Steps
from holdfast.statistics._product import best_rate, kappa, least_radius, lower_end

UNITS = 2**24
RANGES = [(0.0, 1.0), (-1.0, 1.0), (0.0, 1e5), (-3.0, 0.5), (1e6, 1e6 + 10)]
SEEDS = st.integers(0, 2**32 - 1)


def log_product(axes, x, z, group, form, centre, a, rate, offset):
    """Σ ln(1 + rate·(u − a·v − offset)) over the rows, to fifty digits."""
    with mpmath.workdps(50):
        x, z = (
            [
                mpmath.mpf(axis.low)
                + (mpmath.mpf(axis.high) - mpmath.mpf(axis.low)) * int(unit) / axis.units
                - mpmath.mpf(middle)
                for unit in units
            ]
            for axis, units, middle in zip(axes, (x, z), centre, strict=True)
        )
        total = mpmath.mpf(0)
        for at_x, at_z, own in zip(x, z, group, strict=True):
            terms = (1, at_x, at_z, at_x * at_x, at_x * at_z, at_z * at_z)
            u, v = (
                sum(
                    (mpmath.mpf(by) * term for by, term in zip(side[own].tolist(), terms, strict=True)),
                    mpmath.mpf(0),
                )
                for side in (form.u, form.v)
            )
            total += mpmath.log(1 + mpmath.mpf(rate) * (u - mpmath.mpf(a) * v - mpmath.mpf(offset)))
        return total


def random_case(seed, count, rows=60):
    """Random rows, a random quadratic form with v ≥ 0, and a candidate at a rate that the ranges allow."""
    rng = np.random.default_rng(seed)
    axes = tuple(Axis(*RANGES[place], UNITS) for place in rng.integers(0, len(RANGES), 2))
    groups = int(rng.integers(1, 3))
    around = rng.random(2)
    spread = 10.0 ** rng.uniform(-6, 0, 2)
    x, z = (
        np.clip(np.rint((middle + by * rng.normal(size=rows)) * UNITS), 0, UNITS).astype(np.int64)
        for middle, by in zip(around, spread, strict=True)
    )
    group = rng.integers(0, groups, rows)
    steps = tuple(
        Steps.between(
            axis, axis.low + axis.width * (middle - 5 * by), axis.low + axis.width * (middle + 5 * by), count
        )
        for axis, middle, by in zip(axes, around, spread, strict=True)
    )
    cells = Cells.of_values(axes, steps, x, z, group)
    centre = tuple(axis.low + axis.width * where for axis, where in zip(axes, rng.random(2), strict=True))
    cells = cells.around(*centre)
    size = np.array([1.0, axes[0].width, axes[1].width])
    terms = np.array([size[0], size[1], size[2], size[1] ** 2, size[1] * size[2], size[2] ** 2])
    u = rng.normal(size=(groups, 6)) * (rng.random((groups, 6)) < 0.6) / terms
    v = np.zeros((groups, 6))
    v[:, 0], v[:, 3], v[:, 5] = (
        rng.random(groups),
        rng.random(groups) / terms[3],
        rng.random(groups) / terms[5],
    )
    form, offset = Form(u, v), float(rng.choice([0.0, 0.01]))
    crossing = Crossing(cells, form, offset)
    a = crossing.estimate - float(rng.uniform(-0.5, 2)) * math.sqrt(crossing.second_moment(crossing.estimate))
    distance = -(form.least(a, axes, cells.centre) - offset)
    rate = float(rng.choice([0.05, 0.5, 0.9, 0.999])) / max(distance, 1e-12)
    return axes, x, z, group, form, centre, a, rate, offset, crossing


@given(seed=SEEDS, count=st.sampled_from([1, 2, 8, 32]))
def test_the_product_is_bounded_from_below(seed, count):
    *case, crossing = random_case(seed, count)
    a, rate = case[-3], case[-2]
    bound = crossing.log_product(a, rate)
    exact = log_product(*case)
    assert mpmath.mpf(bound) <= exact


@given(seed=SEEDS)
def test_the_bound_is_close_where_cells_are_small(seed):
    *case, crossing = random_case(seed, 2**20)
    a, rate = case[-3], case[-2] * 0.5
    case[-2] = rate
    exact = float(log_product(*case))
    assert crossing.log_product(a, rate) == pytest.approx(exact, rel=1e-3, abs=1e-3)


def test_rows_close_together_at_the_upper_end():
    """Sums are counted from the lower end, in numbers millions of times what these rows differ by: nothing of
    their spread may be lost."""
    axes = (Axis(0.0, 1.0, UNITS), NO_AXIS)
    rng = np.random.default_rng(3)
    form = Form.of((0, 1, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0)).mirrored
    for _ in range(30):
        x = UNITS - rng.integers(0, int(rng.integers(2, 9)), 2_000)
        cells = Cells.of_values(axes, (Steps.over(axes[0], 64), Steps.over(axes[1], 64)), x)
        centre = (1 - 3.3 / UNITS, 0.0)
        crossing = Crossing(cells.around(*centre), form)
        a, rate = crossing.estimate - 1 / UNITS, 0.1 * UNITS
        exact = log_product(axes, x, np.zeros_like(x), np.zeros_like(x), form, centre, a, rate, 0.0)
        # The mean itself is known up to a part in 2**29 of a unit.
        assert crossing.log_product(a, rate) <= float(exact) + 1e-9 * len(x)


def by_grid(row, x_low, x_high, z_low, z_high, points=201):
    x, z = np.meshgrid(np.linspace(x_low, x_high, points), np.linspace(z_low, z_high, points))
    one, by_x, by_z, xx, xz, zz = row
    return float(np.min(one + by_x * x + by_z * z + xx * x * x + xz * x * z + zz * z * z))


@given(seed=SEEDS)
def test_the_least_of_a_form_is_that_of_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    axes = tuple(
        Axis(low, low + width, UNITS)
        for low, width in zip(rng.normal(size=2), rng.exponential(size=2) + 0.01, strict=True)
    )
    centre = tuple(rng.normal(size=2).tolist())
    kind = rng.choice(["any", "flat", "bowl"])
    u = rng.normal(size=(2, 6)) * (rng.random((2, 6)) < 0.7)
    if kind == "flat":
        u[:, 3:] = 0
    if kind == "bowl":
        u[:, 3], u[:, 5], u[:, 4] = abs(u[:, 3]) + 0.5, abs(u[:, 5]) + 0.5, u[:, 4] / 4
    form = Form(u, np.zeros((2, 6)))
    least = form.least(0.7, axes, centre)
    edges = [
        edge
        for axis, middle in zip(axes, centre, strict=True)
        for edge in (axis.low - middle, axis.high - middle)
    ]
    grid = min(by_grid(row, *edges) for row in u)
    size = sum(abs(edge) for edge in edges) + 1
    assert least <= grid + 1e-12 * size**2
    # Between two places of the grid a form differs by at most its slope times half a step.
    steepest = np.abs(u).max() * 4 * size
    assert least >= grid - steepest * (axes[0].width + axes[1].width) / 200


@given(seed=SEEDS, a=st.floats(-3, 3), step=st.floats(0.001, 2))
def test_the_true_product_falls_in_the_candidate(seed, a, step):
    """v ≥ 0 makes every factor fall: what the proof needs of the product itself."""
    *case, _ = random_case(seed, 8, rows=12)
    axes, x, z, group, form, centre, _, _, offset = case
    distance = -(form.least(a + step, axes, centre) - offset)
    rate = 0.9 / max(distance, 1.0)
    low, high = (log_product(axes, x, z, group, form, centre, at, rate, offset) for at in (a, a + step))
    assert high <= low


@pytest.mark.parametrize("share", [1e-8, 1e-4, 9.99e-4, 1.001e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9])
def test_kappa_is_rounded_up_and_no_more(share):
    with mpmath.workdps(60):
        exact = (-mpmath.log(1 - mpmath.mpf(share)) - mpmath.mpf(share)) / mpmath.mpf(share) ** 2
        found = mpmath.mpf(float(kappa(np.array([share]))[0]))
        assert exact <= found <= exact * (1 + mpmath.mpf(1e-6))


def test_kappa_at_nothing_is_a_half():
    assert kappa(np.array([0.0]))[0] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("distance", "moment", "rows", "level"),
    [(0.5, 0.25, 1e4, 4.0), (30.0, 2.0, 50.0, 12.0), (1e-6, 1e-13, 3.0, 1.0)],
)
def test_the_rate_has_the_shortest_arm(distance, moment, rows, level):
    def arm(rate):
        return level / (rate * rows) + float(kappa(np.array([rate * distance]))[0]) * rate * moment

    best = best_rate(distance, moment, rows, level)
    assert 0 < best * distance < 1
    others = [best * factor for factor in (0.5, 0.9, 1.1, 2.0) if best * factor * distance < 1]
    assert all(arm(best) <= arm(rate) * (1 + 1e-6) for rate in others)


def test_an_arm_is_found_to_a_thousandth_on_the_safe_side():
    for edge in (1e-9, 0.37, 5e4):
        found = least_radius(
            lambda radius, edge=edge: math.log(radius / edge) if radius else -math.inf, edge / 50, math.inf
        )
        assert edge <= found <= edge * 1.0011
    assert least_radius(lambda radius: -1.0, 1.0, 10.0) is None
    assert least_radius(lambda radius: -1.0, 1.0, math.inf) is None


def test_a_rate_beyond_the_ranges_has_no_evidence():
    """Where the ranges allow a factor below zero, the product proves nothing."""
    axes = (Axis(0.0, 1.0, UNITS), NO_AXIS)
    x = np.full(50, UNITS)
    cells = Cells.of_values(axes, (Steps.over(axes[0], 4), Steps.over(axes[1], 4)), x)
    crossing = Crossing(cells, Form.of((0, 1, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0)))
    assert crossing.log_product(0.5, 2.0) == -math.inf
    assert crossing.log_product(0.5, 1.9) > 0
    assert Fraction(lower_end(crossing, 3.0, [1.5])) < 1
