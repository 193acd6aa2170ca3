"""Shared noise: how often two sides differ, exactly on small domains and by seeded runs."""

from __future__ import annotations

import itertools
import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.reductions import noise_replicability, noise_to_replicable
from holdfast.replicable import Tape

LEVEL = 1e-6
SHARES = (0.1, 0.3, 0.5)


def pairs(rows: int, share: float):
    """All pairs of samples of so many bits, by their numbers of ones, and how likely each pair is."""
    ones = stats.binom.pmf(np.arange(rows + 1), rows, share)
    for first, second in itertools.product(range(rows + 1), repeat=2):
        yield first, second, ones[first] * ones[second]


@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0])
def test_exact_mismatch_of_means_of_bits(scale):
    """One dimension: sides differ with probability T exactly, so the mean over all data is exact."""
    for n, parts in product([1, 2, 4], [1, 3]):
        for share in SHARES:
            exact = {"normal": 0.0, "laplace": 0.0}
            for first, second, chance in pairs(n * parts, share):
                apart = abs(first - second) / (n * parts)
                exact["normal"] += chance * math.erf(apart / (2 * math.sqrt(2) * scale))
                exact["laplace"] += chance * -math.expm1(-apart / (2 * scale))
            for noise, mismatch in exact.items():
                promised = noise_replicability(noise, n=n, sensitivity=1 / n, scale=scale, parts=parts).rho
                assert mismatch <= promised + 1e-12
                if share == 0.5 and scale == 2.0:
                    assert mismatch > 0.6 * promised, "0.6 of the promise would be too little"


def test_exact_mismatch_of_laplace_noise_in_three_dimensions():
    # Rows are one of three directions: the location is how often each came. The sum of the moves is 2/n.
    n, scale = 4, 0.6
    counts = [c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n]
    chances = [stats.multinomial.pmf(c, n, [0.5, 0.3, 0.2]) for c in counts]
    exact = sum(
        p * q * -math.expm1(-sum(abs(x - y) for x, y in zip(a, b, strict=True)) / (2 * n * scale))
        for (a, p), (b, q) in itertools.product(zip(counts, chances, strict=True), repeat=2)
    )
    promised = noise_replicability("laplace", n=n, sensitivity=2 / n, scale=scale, dimension=3).rho
    assert promised / 3 < exact <= promised


@pytest.mark.parametrize(
    ("noise", "dimension"), [("normal", 1), ("normal", 4), ("laplace", 1), ("laplace", 3)]
)
def test_two_laboratories_get_the_very_same_numbers(noise, dimension, seed):
    n, scale, rho, trials = 50, 0.4, 0.2, 300
    moved = math.sqrt(dimension) / n if noise == "normal" else dimension / n
    steady = noise_to_replicable(
        lambda rows: rows.mean(axis=0),
        noise=noise,
        rows=n,
        sensitivity=moved,
        scale=scale,
        rho=rho,
        dimension=dimension,
    )
    assert steady.guarantee.rho <= rho
    rng = np.random.default_rng(seed)
    differ = strangers = 0
    for number in range(trials):
        first, second = (rng.integers(0, 2, (steady.rows_needed, dimension)) for _ in range(2))
        tape = Tape(seed).branch(number)
        differ += steady(first, tape) != steady(second, tape)
        strangers += steady(first, tape) != steady(second, tape.branch("own"))
    assert stats.binomtest(differ, trials, rho, alternative="greater").pvalue > LEVEL
    # With coins of their own two sides never agree.
    assert strangers == trials


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_the_noise_has_its_law(noise, seed):
    steady = noise_to_replicable(np.mean, noise=noise, rows=4, sensitivity=0.25, scale=0.5, rho=0.9)
    rows = np.full(steady.rows_needed, 0.25)
    drawn = [steady(rows, Tape(seed).branch(number)) for number in range(800)]
    law = stats.norm(0.25, 0.5) if noise == "normal" else stats.laplace(0.25, 0.5)
    assert stats.kstest(drawn, law.cdf).pvalue > LEVEL
    assert stats.kstest(drawn, stats.norm(0.25, 1.0).cdf).pvalue < LEVEL


def test_it_needs_fewer_rows_than_cells_do():
    # ε = 0.1 for 100 rows: the law in cells needs ρ ≈ ε√(n/2N), shared noise half of it.
    shared = noise_to_replicable(np.mean, noise="laplace", rows=100, sensitivity=0.01, scale=0.1, rho=0.05)
    assert shared.rows_needed * 3.5 < 100 * (0.1**2 * 100 / 2) / (0.05 / 1.95) ** 2 / 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"noise": "uniform"}, "noise"),
        ({"noise": "laplace", "dimension": 8}, "dimension"),
        ({"dimension": 21}, "dimension"),
        ({"scale": 0.0}, "scale"),
        ({"sensitivity": -1.0}, "sensitivity"),
        ({"rho": 0.0}, "rho"),
        ({"rows": 0}, "rows"),
        ({"location": 3}, "location"),
        ({"failure": 2.0}, "failure"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {
        "location": np.mean,
        "noise": "normal",
        "rows": 4,
        "sensitivity": 0.25,
        "scale": 0.5,
        "rho": 0.5,
        **change,
    }
    with pytest.raises(InvalidArgument) as caught:
        noise_to_replicable(arguments.pop("location"), **arguments)
    assert caught.value.argument == named


def test_a_location_of_another_size_is_refused():
    steady = noise_to_replicable(
        lambda rows: [1.0, 2.0], noise="normal", rows=1, sensitivity=1.0, scale=5.0, rho=0.9
    )
    with pytest.raises(InvalidArgument, match="1 finite"):
        steady(np.zeros(steady.rows_needed))
