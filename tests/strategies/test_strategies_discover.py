"""Discoveries: at which level a claim is tested, what one bit costs, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.coding import Claims, Learned, Weights
from holdfast.errors import InvalidArgument, QueryRejected


@pytest.fixture
def table():
    rng = np.random.default_rng(2)
    return pd.DataFrame({"x": rng.random(6_000), "y": rng.normal(size=6_000)})


def test_what_clearly_holds_is_found_and_what_does_not_is_not(table):
    guard = Guard(table)
    assert guard.discover("mean(x, 0, 1) > 0.45")
    assert guard.discover("mean(x, 0, 1) < 0.55")
    assert not guard.discover("mean(x, 0, 1) > 0.55")
    assert guard.discover("share(y > 0) > 0.4")
    assert not guard.discover("correlation(x, y, 0, 1, -4, 4) > 0")
    assert guard.discover("std(y, -4, 4) > 0.9")
    assert guard.discover("quantile(y, 0.5) < 0.3")


def test_the_level_follows_the_rate_the_weight_the_discoveries_and_what_was_spent(table):
    guard = Guard(table)
    guard.share("y > 0")
    before = guard.spent
    first = guard.discover("mean(x, 0, 1) > 0.4", rate=0.1)
    assert first.level == pytest.approx(0.1 * Weights().weight(2) * math.exp(-before))
    assert first.e_value == pytest.approx(1 / first.level)
    assert first.cost == pytest.approx(math.log(2), abs=0.01)
    before = guard.spent
    second = guard.discover("mean(x, 0, 1) > 0.99", rate=0.1)
    assert second.level == pytest.approx(0.1 * Weights().weight(3) * 2 * math.exp(-before))
    assert (second.found, second.e_value) == (False, 0.0)


def test_the_same_claim_costs_nothing_and_is_remembered(table, tmp_path):
    guard = Guard(table, ledger=tmp_path / "book.db")
    found = guard.discover("mean(x, 0, 1) > 0.4")
    spent = guard.spent
    assert guard.discover("mean(x,0,1)>.4") == found
    assert guard.spent == spent
    guard.close()
    again = Guard(table, ledger=tmp_path / "book.db")
    assert again.discoveries == (found,)
    assert again.history == ()
    assert again.discover("mean(x, 0, 1) > 0.4") == found
    with pytest.raises(InvalidArgument, match=r"0\.05"):
        again.discover("mean(x, 0, 1) > 0.3", rate=0.1)


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("mean(x, 0, 1)", "Cannot read the claim"),
        ("mean(x, 0, 1) = 0.5", "Cannot read the claim"),
        ("share(x > 0.5) > 2", "lies between 0 and 1, so the claim > 2 needs no test"),
        ("mean(nothing, 0, 1) > 0.5", "nothing"),
        ("cdf(x) > 0.1", "whole distribution"),
    ],
)
def test_a_text_that_is_not_a_claim_is_refused_free_of_charge(table, claim, words):
    guard = Guard(table)
    with pytest.raises(QueryRejected, match=words):
        guard.discover(claim)
    assert guard.spent == 0


def test_both_bits_and_a_failure_have_a_price_that_sums_to_one():
    for claims in (Claims(), Claims(10, 3, 50_000), Claims(50, 50, 50_000)):
        assert claims.probability(True) + claims.probability(False) == pytest.approx(1.0)
    learned = Learned().after_claim(found=True, rate=0.05)
    assert Learned.from_list(learned.to_list()) == learned
    assert Learned.from_list(Learned().to_list()) == Learned()


def test_a_rate_with_many_digits_is_the_same_rate_each_time(table):
    guard = Guard(table)
    first = guard.discover("mean(x, 0, 1) > 0.4", rate=1 / 30)
    assert guard.discover("mean(x, 0, 1) > 0.45", rate=1 / 30).rate == first.rate <= 1 / 30
    with pytest.raises(InvalidArgument, match="rate"):
        guard.discover("mean(x, 0, 1) > 0.3", rate=1e-9)
