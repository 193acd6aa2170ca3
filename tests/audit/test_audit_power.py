"""The auditor has power: each wrong twin is caught at the stated size, and the right one passes there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast.audit import coverage, indistinguishability, prior, replicability
from holdfast.coding import Experience
from holdfast.intervals import clopper_pearson, quantile
from holdfast.mechanisms import gaussian, laplace
from holdfast.replicable import Tape, mean
from holdfast.stability import gaussian_delta

SURE = 0.999
TOO_SMALL = 0.7


def answers(mechanism, value, noise):
    """The product's own sampler; only its seed comes from the trial."""

    def draw(rng, count):
        return mechanism(np.full(count, value), noise, simulation=True, seed=int(rng.integers(2**32)))

    return draw


@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (TOO_SMALL, True)])
def test_laplace_noise_30_percent_too_small_is_caught_with_20000_draws(share, caught, seed):
    laws = [answers(laplace, value, share) for value in (0.0, 1.0)]
    found = indistinguishability(*laws, 20, batch=1000, epsilon=1.0, confidence=SURE, seed=seed)
    assert found.refuted is caught


@pytest.mark.parametrize(("share", "caught"), [(1.0, False), (TOO_SMALL, True)])
def test_gaussian_noise_30_percent_too_small_is_caught_with_20000_draws(share, caught, seed):
    delta = gaussian_delta(1.0, 1.0)
    laws = [answers(gaussian, value, share) for value in (0.0, 1.0)]
    found = indistinguishability(*laws, 20, batch=1000, epsilon=1.0, delta=delta, confidence=SURE, seed=seed)
    assert found.refuted is caught


def share_interval(failure):
    def draw(rng):
        return clopper_pearson(int(rng.binomial(1000, 0.5)), 1000, -math.log(failure))

    return draw


def median_interval(failure):
    def draw(rng):
        return quantile(np.sort(rng.random(1000)), 0.5, -math.log(failure))

    return draw


@pytest.mark.parametrize("interval", [share_interval, median_interval])
@pytest.mark.parametrize(("failure", "caught"), [(0.05, False), (0.10, True)])
def test_an_interval_with_twice_the_error_is_caught_in_4000_sessions(interval, failure, caught, seed):
    found = coverage(
        interval(failure), lambda told: [(told, 0.5)], 4000, failure=0.05, confidence=SURE, seed=seed
    )
    assert found.refuted is caught


def prices(experience, mass):
    """Prices of a confirmation, a failure and the 20,000 nearest surprises, for a prior of this ``mass``."""
    surprises = [experience.surprise_price(cell) for cell in range(1, 10_001) for _ in (0, 1)]
    paid = [experience.confirmation_price(), experience.failure_price(), *surprises]
    return [max(0.0, price - math.log(mass)) for price in paid]


@pytest.mark.parametrize("experience", [Experience(), Experience(10, 0), Experience(3, 5)])
def test_a_prior_that_sums_to_one_and_a_half_is_caught_by_its_prices(experience):
    fair = prior(prices(experience, 1.0))
    assert not fair.refuted
    assert fair.low > 0.999
    # No price is below 0, so a prior heavier than 1 on one output shows as less than its mass.
    assert prior(prices(experience, 1.5)).refuted


def extremal(mass, *, cells=20, failure=0.05):
    """A session for which the code guard's bound is an equality.

    The first answer says in which of ``cells`` equal parts a uniform number lies, and costs
    ln(cells/mass). The second question is the one whose interval misses when the number lies in the first δ
    of that part, δ = failure · mass/cells: valid if fixed in advance, and chosen to miss.
    """

    def draw(rng):
        place = rng.random()
        cell = math.floor(cells * place)
        return place - cell / cells >= failure * mass / cells

    return draw


@pytest.mark.parametrize(("mass", "caught"), [(1.0, False), (1.5, True)])
def test_a_prior_that_sums_to_one_and_a_half_is_caught_in_8000_sessions(mass, caught, seed):
    found = coverage(extremal(mass), lambda held: [held], 8000, failure=0.05, confidence=SURE, seed=seed)
    assert found.refuted is caught


class RepeatingTape(Tape):
    """Every branch is the tape itself."""

    def branch(self, name):
        return self


@pytest.mark.parametrize(("kind", "caught"), [(Tape, False), (RepeatingTape, True)])
def test_a_tape_with_a_repeated_branch_is_caught_with_400_pairs(kind, caught, seed):
    def drawn(rng):
        tape = kind(int(rng.integers(2**32)))
        return [float(tape.branch(name).uniforms(1)[0]) for name in ("first", "second")]

    found = indistinguishability(
        drawn, lambda rng: rng.random(2), 400, epsilon=0.0, confidence=SURE, seed=seed
    )
    assert found.refuted is caught


def test_private_coins_are_caught_in_400_pairs_and_a_tape_passes(seed):
    promise = {"accuracy": 0.1, "rho": 0.2, "beta": 0.05, "bounds": (0, 1)}
    private = iter(range(10**9))

    def shared(rows, tape):
        return mean(rows, tape=tape, **promise)

    def alone(rows, tape):
        return mean(rows, tape=tape.branch(f"mine {next(private)}"), **promise)

    def rows(rng):
        return rng.random(1500)

    assert replicability(shared, rows, 400, rho=0.2, confidence=SURE, seed=seed).verdict == "confirmed"
    assert replicability(alone, rows, 400, rho=0.2, confidence=SURE, seed=seed).refuted
