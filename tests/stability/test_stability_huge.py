"""Whole numbers that no float can hold are refused by name, and bounds beyond the floats are infinite."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.stability import (
    DP,
    BayesianDP,
    Gaussian,
    MaxInformation,
    PerfectGeneralization,
    Replicability,
    TypicalStability,
    adaptive_failure,
    convert,
    gaussian_delta,
    selection_threshold,
    split_error,
    transfer_error,
)

CALLS = {
    "compose": ("k", lambda k: DP(0.1).compose(k)),
    "basic": ("k", lambda k: DP(0.1, 1e-9).compose(k, method="basic")),
    "group": ("size", lambda k: DP(0.1, 1e-9).group(k)),
    "subsample": ("m", lambda k: DP(0.1).subsample(1, k)),
    "max_information": ("n", lambda k: DP(0.1).max_information(k, 0.1)),
    "bayesian": ("n", lambda k: BayesianDP(0.1).max_information(k, 0.1)),
    "nonadaptive": ("k", lambda k: TypicalStability(0.1).compose_nonadaptive(k)),
    "gaussian_delta": ("k", lambda k: gaussian_delta(1, 1, k)),
    "adaptive_failure": ("k", lambda k: adaptive_failure(k, 1e-9, Gaussian(0.1))),
    "under_shift": ("m", lambda k: Replicability(0.1).under_shift(0.1, k)),
    "split_error": ("k", lambda k: split_error(10, k, 0.05)),
    "transfer_error": ("n", lambda k: transfer_error(k, 10, 0.05)),
    "convert": ("n", lambda k: convert(DP(1e-5), "replicable", n=k)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("huge", [10**309, 10**400, 10**5000], ids=["309", "400", "5000"])
def test_what_no_float_can_hold_is_refused_by_name(name, huge):
    argument, call = CALLS[name]
    with pytest.raises(InvalidArgument, match="that a float can hold") as refusal:
        call(huge)
    assert refusal.value.argument == argument
    call(10**300)


@pytest.mark.parametrize("value", [10**309, -(10**400), Fraction(10**400), 10**5000, math.inf], ids=range(5))
def test_whole_refuses_them_in_every_form(value):
    with pytest.raises(InvalidArgument, match="whole number of at least 0"):
        checks.whole(value, "k", at_least=0)
    with pytest.raises(InvalidArgument, match="at least 1 and at most 5"):
        checks.whole(value, "k", at_most=5)


def test_whole_keeps_every_digit_of_what_floats_can_hold():
    for value in (2**53 + 1, 10**22 + 1, 2**1023 + 1):
        assert checks.whole(value, "k") == value
    assert checks.whole(Fraction(6, 2), "k") == 3


@pytest.mark.parametrize(
    ("bound", "exact"),
    [
        (lambda: DP(800.0, 1e-6).subsample(1, 10**9, method="paper").epsilon, mpmath.exp(800) / 10**9),
        (lambda: DP(1e300).compose(10**10, method="basic").epsilon, mpmath.mpf(10) ** 310),
        (lambda: DP(1e300, 1e-9).group(10**10).epsilon, mpmath.mpf(10) ** 310),
        (lambda: TypicalStability(1e308).two_sample().eta, 2 * mpmath.mpf(10) ** 308),
        (lambda: TypicalStability(1e300).compose_nonadaptive(10**10).eta, mpmath.mpf(10) ** 310),
        (lambda: PerfectGeneralization(0.1, 1e308, 0.1).sample().epsilon, 2 * mpmath.mpf(10) ** 308),
        (lambda: MaxInformation(1.5e308, 0.1).one_way(method="paper").epsilon, 2 * mpmath.mpf(10) ** 308),
        (lambda: BayesianDP(1e200).max_information(10, 0.1).bits, mpmath.mpf(10) ** 400),
    ],
)
def test_an_upper_bound_beyond_the_floats_is_still_one(bound, exact):
    assert bound() >= exact


def test_a_bound_of_infinity_says_nothing_and_leads_nowhere():
    infinite = DP(1e300).compose(10**10, method="basic")
    assert infinite.vacuous
    assert infinite.to_dict()["epsilon"] is None
    assert infinite.max_information(10, 0.1).failure(1e-300) == 1.0
    assert convert(infinite, "replicable", n=10) == Replicability(1.0)


def test_a_threshold_beyond_the_floats_is_refused():
    with pytest.raises(InvalidArgument, match="finite"):
        selection_threshold(1e-320, 5e-324)


def test_agreement_without_a_shift_is_rounded_down():
    for rho in (0.1, 0.3, 1e-17, 0.7):
        assert Replicability(rho).under_shift(0.0, 10) <= 1 - Fraction(rho)
        assert Replicability(rho).under_shift(0.0, 10) == pytest.approx(1.0 - rho, rel=1e-12)
    assert Replicability(0.0).under_shift(0.0, 10) == 1.0
    assert Replicability(1.0).under_shift(0.0, 10) == 0.0
