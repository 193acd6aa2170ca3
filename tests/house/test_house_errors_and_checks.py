"""One voice for bad input."""

from __future__ import annotations

import decimal
import fractions
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import checks, errors, rounding
from holdfast.errors import InvalidArgument


def test_a_bad_argument_names_itself_its_domain_its_theorem_and_what_it_got():
    with pytest.raises(InvalidArgument) as caught:
        checks.real(1.5, "nu", "[0, 1)", of="TypicalStability", by="TS Definition 2.2")
    assert str(caught.value) == (
        "The 'nu' argument of TypicalStability must be a number in [0, 1) (TS Definition 2.2). Got "
        "1.5 instead."
    )
    assert (caught.value.argument, caught.value.got) == ("nu", 1.5)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, -1e-300, 1.0, "0.5", None, True, 1j, [0.5], 10**400]
)
def test_real_refuses_everything_outside_its_domain(bad):
    with pytest.raises(InvalidArgument):
        checks.real(bad, "x", "[0, 1)")


def test_the_message_for_a_confidence_in_per_cent_suggests_the_share():
    with pytest.raises(InvalidArgument, match=r"in \(0, 1\); 95 per cent is 0\.95"):
        checks.real(95, "confidence", "(0, 1)")


@pytest.mark.parametrize("bad", [-math.inf, math.inf, math.nan])
def test_infinity_is_bad_even_where_the_domain_has_no_end(bad):
    with pytest.raises(InvalidArgument):
        checks.real(bad, "x", "(-inf, inf)")


@pytest.mark.parametrize("good", [0, 0.25, np.float32(0.25), np.int64(0), fractions.Fraction(1, 4)])
def test_real_takes_every_kind_of_number(good):
    assert checks.real(good, "x", "[0, 1)") == float(good)
    assert type(checks.real(good, "x", "[0, 1)")) is float


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, math.inf, "3", None, True, decimal.Decimal(3)])
def test_whole_refuses_everything_that_is_not_a_count(bad):
    with pytest.raises(InvalidArgument, match="whole number of at least 1"):
        checks.whole(bad, "k")


def test_whole_takes_counts_written_as_floats():
    assert checks.whole(1e6, "k") == 10**6
    with pytest.raises(InvalidArgument, match="at most 5"):
        checks.whole(6, "k", at_most=5)


def test_reals_names_the_place_of_the_bad_one():
    with pytest.raises(InvalidArgument, match=r"steps\[1\]"):
        checks.reals([1.0, -1.0], "steps", "[0, inf)")
    for bad in ("12", 3.0, []):
        with pytest.raises(InvalidArgument):
            checks.reals(bad, "steps", "[0, inf)")


def test_choice_lists_what_there_is():
    with pytest.raises(InvalidArgument, match="'paper', 'sharp'"):
        checks.choice("best", "method", ("paper", "sharp"))


def test_errors_share_one_root_and_carry_their_numbers():
    for name in errors.__all__:
        root = UserWarning if name.endswith("Warning") else errors.HoldfastError
        assert issubclass(getattr(errors, name), root)
    spent = errors.BudgetSpent("no", asked=1.0, spent=2.0, left=0.5)
    assert (spent.asked, spent.spent, spent.left) == (1.0, 2.0, 0.5)
    rows = errors.NotEnoughRows(5847, 100)
    assert (rows.needed, rows.got) == (5847, 100)
    assert "5,847" in str(rows)
    assert "pip install 'holdfast-guard[plots]'" in str(errors.MissingExtra("plots", what="guard.plot()"))


@given(st.floats(allow_nan=False))
def test_rounding_goes_to_the_safe_side_and_stays_close(value):
    assert rounding.down(value) <= value <= rounding.up(value)
    if math.isfinite(value) and 1e-300 < abs(value) < 1e300:
        assert abs(rounding.up(value) - value) <= 1e-13 * abs(value)
        assert rounding.up(value) > value > rounding.down(value)
    assert rounding.probability(value) <= 1


def test_a_message_shows_no_more_than_the_ends_of_what_was_given():
    with pytest.raises(InvalidArgument) as caught:
        checks.real(list(range(100_000)), "x", "[0, 1)")
    assert len(str(caught.value)) < 300
