"""Noise calibrated to concentration: stated errors are met, and promises are recomputed from scratch."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import planning_oracle as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.optimize import minimize
from scipy.stats import binom

from holdfast.errors import InvalidArgument
from holdfast.planning import plan, typical_gaussian_error, typical_laplace_error
from holdfast.stability import Gaussian as GaussianNoise
from holdfast.stability import TypicalStability, adaptive_failure
from holdfast.tails import BoundedDifferences, Custom, SubExponential, SubGaussian

UNIT = SubGaussian(1.0)


@pytest.mark.parametrize(("k", "most"), [(10, 22.5), (100, 58.9), (1000, 171.5), (10_000, 536.0)])
def test_gaussian_noise_meets_the_stated_errors(k, most):
    assert typical_gaussian_error(UNIT, k, 0.05).error <= most


@pytest.mark.parametrize("beta", [0.05, 1e-6])
def test_the_gaussian_promise_holds_when_recomputed(beta):
    for k in [1, 2, 7, 10, 100, 1000, 10_000, 1_000_000]:
        found = typical_gaussian_error(SubGaussian(0.3), k, beta)
        p = found.to_dict()
        assert oracle.gaussian_broken(p, 0.3, found.error, 1 - beta) == []
        halved = {**p, "radius": p["radius"] / 2}
        assert oracle.gaussian_broken(halved, 0.3, found.error, 1 - beta) != []
        if k > 1:
            quieter = {**p, "scale": p["scale"] * 0.97, "noise": p["noise"] * 0.97}
            assert "trade-off" in oracle.gaussian_broken(quieter, 0.3, found.error, 1 - beta)


@pytest.mark.parametrize("k", [1, 2, 3, 10, 100, 1000])
def test_the_laplace_promise_holds_when_recomputed(k):
    found = typical_laplace_error(UNIT, k, 0.05)
    p = found.to_dict()
    assert oracle.laplace_broken(p, 1.0, found.error, 0.95) == []
    assert oracle.laplace_broken({**p, "radius": p["radius"] / 2}, 1.0, found.error, 0.95) != []
    if k > 1:
        quieter = {**p, "scale": p["scale"] * 0.97, "noise": p["noise"] * 0.97}
        assert oracle.laplace_broken(quieter, 1.0, found.error, 0.95) != []


def test_the_oracles_delta_is_that_of_one_and_two_answers_in_closed_form():
    for epsilon in (0.0, 0.4, 1.1):
        assert oracle.laplace_delta(epsilon, 1.5, 1) == pytest.approx(
            -math.expm1((epsilon - 1.5) / 2), rel=2e-3
        )
    assert oracle.laplace_delta(3.1, 1.5, 2) == 0.0


def test_the_last_answer_s_noise_is_not_counted():
    """With k = 2 one answer helps to choose: the promise is the trade-off curve of one answer."""
    found = typical_gaussian_error(UNIT, 2, 0.05)
    ideal = 2 * math.exp(found.log_nu)
    ratio = found.radius / found.scale
    assert adaptive_failure(1, ideal, GaussianNoise(ratio)) <= found.b2 * (1 + 1e-9)
    assert adaptive_failure(2, ideal / 2, GaussianNoise(ratio)) > found.b2


@pytest.mark.parametrize("k", [3, 50, 2000])
def test_no_other_choice_is_much_better(k):
    def error(point):
        nats = math.log(k / 0.05) + math.exp(min(point[0], 20))
        b1 = 0.05 * special.expit(point[1])
        room = special.ndtri(0.05 - b1) - special.ndtri_exp(math.log(k) - nats)
        if not room > 0:
            return 1e9
        quantile = -special.ndtri(-math.expm1(math.log1p(-b1) / k) / 2)
        return math.sqrt(2 * (nats + math.log(2))) * (1 + math.sqrt(k - 1) / room * quantile)

    starts = [(a, b) for a in (0.0, 3.0, 6.0) for b in (-2.0, 0.0, 2.0)]
    best = min(minimize(error, start, method="Nelder-Mead").fun for start in starts)
    assert typical_gaussian_error(UNIT, k, 0.05).error <= best * (1 + 1e-6)


@given(st.integers(1, 3000), st.floats(1e-9, 0.3), st.floats(0.01, 100))
def test_more_questions_cost_more_and_everything_scales(k, beta, sigma):
    for find in (typical_gaussian_error,):
        here = find(SubGaussian(sigma), k, beta)
        assert here.error <= find(SubGaussian(sigma), k + 1, beta).error * (1 + 1e-6)
        assert here.error >= find(SubGaussian(sigma), k, min(0.9, 2 * beta)).error * (1 - 1e-6)
        assert here.error == pytest.approx(sigma * find(UNIT, k, beta).error, rel=1e-6)
        assert here.error >= SubGaussian(sigma).radius(beta) * (1 - 1e-12)


@pytest.mark.parametrize("k", [2, 5, 40, 300])
def test_laplace_laws(k):
    here = typical_laplace_error(UNIT, k, 0.05)
    assert here.error <= typical_laplace_error(UNIT, k + 1, 0.05).error
    assert here.error <= typical_laplace_error(UNIT, k, 0.04).error
    assert here.error == pytest.approx(typical_laplace_error(SubGaussian(7.0), k, 0.05).error / 7.0, rel=1e-4)


def test_any_tail_will_do():
    heavy = typical_gaussian_error(SubExponential(1.0, 0.5), 100, 0.05)
    assert heavy.error > typical_gaussian_error(UNIT, 100, 0.05).error
    custom = Custom(lambda alpha: max(0.0, alpha**2 / 2 - math.log(2)))
    assert typical_gaussian_error(custom, 100, 0.05).error == pytest.approx(
        typical_gaussian_error(UNIT, 100, 0.05).error, rel=1e-6
    )
    mean = typical_laplace_error(BoundedDifferences.of_mean(0, 1, 400), 10, 0.05)
    assert mean.error == pytest.approx(typical_laplace_error(UNIT, 10, 0.05).error / 40, rel=1e-6)


@pytest.mark.parametrize("find", [typical_gaussian_error, typical_laplace_error])
def test_a_tail_that_ends_is_used_as_far_as_it_goes(find):
    """Beyond some nats nothing is known: more noise makes up for it, until not even one query is certain."""

    def ending(nats):
        return Custom(lambda alpha: min(nats, max(0.0, alpha * alpha / 2 - math.log(2))))

    few, many = find(ending(40.0), 3, 0.05), find(ending(40.0), 10**6, 0.05)
    assert few.error == pytest.approx(find(UNIT, 3, 0.05).error, rel=1e-3)
    assert -many.log_nu <= 40.0
    assert find(UNIT, 10**6, 0.05).error < many.error < math.inf
    assert find(ending(10.0), 10**6, 0.05).error == math.inf


@pytest.mark.parametrize("k", [1, 2, 100, 3000])
def test_the_printed_route_is_what_the_printed_theorems_say(k):
    rows = 10**12  # So many that even this route certifies an error below 1.
    tail = BoundedDifferences.of_mean(0, 1, rows)
    entry = plan(queries=k, confidence=0.95, rows=rows).method("typical-laplace").paper
    found = SimpleNamespace(**entry.parameters)
    composed = TypicalStability(found.eta, nu=found.nu).compose(k, slack=found.slack, method="paper")
    assert composed.eta <= found.eta_total
    assert composed.nu <= found.nu_total
    failure = composed.two_sample().failure(2 * found.nu_total, method="paper")
    assert failure <= found.b2
    assert found.radius >= tail.radius(2 * found.nu_total) * (1 - 1e-12)
    assert found.scale >= tail.radius(found.nu) / found.eta * (1 - 1e-12)
    assert k * math.exp(-found.noise / found.scale) <= found.b1 * (1 + 1e-9)
    assert found.b1 + found.b2 <= 1 - 0.95
    assert found.radius + found.noise <= entry.error < 1
    assert entry.error > 100 * typical_laplace_error(tail, k, 0.05).error


def test_promises_survive_the_sign_attack_and_a_silent_twin_does_not(rng):
    """1000 coin columns, each asked with a sign; then one query that votes with the signs of the answers."""
    n, k, beta, runs = 500, 1000, 0.05, 60
    tail = BoundedDifferences.of_mean(0, 1, n)
    found = typical_gaussian_error(tail, k, beta)
    silent = tail.radius(beta / k)
    missed, silent_missed = 0, 0
    for _ in range(runs):
        coins = rng.integers(0, 2, (n, k - 1)).astype(np.float64)
        means = coins.mean(axis=0)
        for noise, silent_twin in ((found.scale, False), (0.0, True)):
            answers = means + noise * rng.standard_normal(k - 1)
            votes = (2 * coins - 1) @ np.sign(answers - 0.5)
            last = float((votes > 0).mean() + 0.5 * (votes == 0).mean()) + noise * rng.standard_normal()
            worst = max(float(np.max(np.abs(answers - 0.5))), abs(last - 0.5))
            if silent_twin:
                silent_missed += worst > silent
            else:
                missed += worst > found.error
    assert missed <= binom.ppf(1 - 1e-9, runs, beta)
    assert silent_missed == runs


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((1.0, 10, 0.05), "tail"),
        ((UNIT, 0, 0.05), "k"),
        ((UNIT, 2.5, 0.05), "k"),
        ((UNIT, 10, 0.0), "beta"),
        ((UNIT, 10, math.nan), "beta"),
    ],
)
@pytest.mark.parametrize("find", [typical_gaussian_error, typical_laplace_error])
def test_bad_arguments_are_named(find, arguments, name):
    with pytest.raises(InvalidArgument) as caught:
        find(*arguments)
    assert caught.value.argument == name


def test_results_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        typical_gaussian_error(UNIT, 10, 0.05).error = 0.0
