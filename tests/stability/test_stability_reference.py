"""Reference values, each to its stated tolerance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import stability, tails
from holdfast.dependence import coupling_bdp, spectral_dp

CASES = json.loads((Path(__file__).parent / "reference.json").read_text(encoding="utf-8"))


def _radius(name):
    def radius(nu, **parameters):
        return getattr(tails, name)(**parameters).radius(nu)

    return radius


def _typical(eta, tau, nu, k, slack):
    return stability.TypicalStability(eta, tau, nu).compose(k, slack=slack, method="paper")


def _delta_at(epsilon, k, epsilon_total):
    return stability.composed_delta(stability.DP(epsilon), k, epsilon_total)


CALLS = {
    "tails.BoundedDifferences.radius": _radius("BoundedDifferences"),
    "tails.SubGaussian.radius": _radius("SubGaussian"),
    "tails.SubExponential.radius": _radius("SubExponential"),
    "TypicalStability.compose": _typical,
    "DP.compose.advanced": lambda epsilon, k, slack: (
        stability.DP(epsilon).compose(k, slack=slack, method="advanced").epsilon
    ),
    "DP.compose.optimal: delta at epsilon_total": _delta_at,
    "gaussian_delta": stability.gaussian_delta,
    "adaptive_failure.gaussian": lambda k, nu, ratio: stability.adaptive_failure(
        k, nu, stability.Gaussian(ratio)
    ),
    "DP.max_information.sharp": lambda epsilon, n, beta: stability.DP(epsilon).max_information(n, beta).bits,
    "BayesianDP.max_information.paper": lambda epsilon, n, beta: (
        stability.BayesianDP(epsilon).max_information(n, beta, method="paper").bits
    ),
    "MarkovChain spectral h(epsilon, gap, rho, c)": lambda epsilon, gap, rho, c: spectral_dp(
        epsilon, gap, rho, c
    ),
    "MarkovChain.bayesian_dp.coupling": coupling_bdp,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['call']} {case['args']}")
def test_reference_value(case):
    found = CALLS[case["call"]](**case["args"])
    expected = case["expect"]
    if isinstance(expected, dict):
        assert found.to_dict() == pytest.approx(expected, rel=case["rtol"], abs=0)
    else:
        assert found == pytest.approx(expected, rel=case["rtol"], abs=0)


def test_every_kind_of_case_is_there():
    assert {case["call"] for case in CASES} == set(CALLS)
    assert len(CASES) == 29
