"""The vector sampler: every decision is the exact one, and the draws have the declared law."""

from __future__ import annotations

import math
import os

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms_oracles import LEVEL, cells, p_value, power, rounded_law
from scipy import stats

from holdfast.mechanisms import Noise, _coins
from holdfast.mechanisms._coins import FARTHEST, MOST_STEPS, Coins, rounded_noise, settle

KINDS = ["laplace", "gaussian"]
DRAWS = 400_000


def coins(seed: int) -> Coins:
    return Coins(np.random.default_rng(seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 3, 1000, 2**40 + 12345, MOST_STEPS])
def test_every_fast_decision_is_the_exact_one(kind, steps, seed):
    # The same first bits, once through the vector path and once each through exact arithmetic.
    count, rows = 1000, 3 if kind == "gaussian" else 2
    fast = _coins._candidates(count, steps, coins(seed), kind == "gaussian")
    replay = coins(seed)
    fraction = replay.words(count)
    short = replay.words((rows * count + 1) // 2).view(np.uint32)[: rows * count].reshape(rows, count)
    exact = []
    for i in range(count):
        size = settle(
            int(short[0, i]) >> 1, int(fraction[i]), [int(u) for u in short[1:, i]], steps, coins(seed + i)
        )
        if size is not None:
            exact.append(-size if short[0, i] & 1 else size)
    assert fast.tolist() == exact


@pytest.mark.parametrize("kind", KINDS)
def test_unsettled_decisions_are_settled(kind, seed, monkeypatch):
    # If everything that is not clearly rejected counts as unsettled, nothing changes: no word is drawn
    # beyond the known ones but with probability 2^-30.
    fast = rounded_noise(200, 12345, coins(seed), gaussian=kind == "gaussian")
    asked = []

    def counted(*arguments, **options):
        asked.append(1)
        return settle(*arguments[:-1], coins(1), **options)

    monkeypatch.setattr(_coins, "settle", counted)
    monkeypatch.setattr(_coins, "_DOUBT", 2.0)
    assert rounded_noise(200, 12345, coins(seed), gaussian=kind == "gaussian").tolist() == fast.tolist()
    assert len(asked) >= 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_exact_arithmetic_alone_draws_the_declared_law(kind, bits, seed):
    # Only one or three bits are known at first, so every proposal draws more.
    source, steps, draws = coins(seed), 3, 2000
    found = []
    while len(found) < draws:
        words = [source.word() for _ in range(4)]
        size = settle(
            words[0] >> (65 - bits),
            words[1] >> (64 - 2 * bits),
            [words[2] >> (64 - bits), words[3] >> (64 - bits)][: 2 if kind == "gaussian" else 1],
            steps,
            source,
            bits=bits,
        )
        if size is not None:
            found.append(size if words[0] & 1 else -size)
    law = rounded_law(steps, 8, kind)
    edges = np.arange(-7.5, 8)
    assert p_value(np.array(found), edges, law) > LEVEL
    assert p_value(np.array(found), edges, rounded_law(1.4 * steps, 8, kind)) < LEVEL


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 7, 2**40, 2**41 - 12345])
def test_draws_have_the_declared_law_and_a_scale_wrong_by_3_percent_is_caught(kind, steps, seed):
    edges, claimed = cells(steps, 1.0, kind)
    assert math.isclose(claimed.sum(), 1.0, abs_tol=1e-12)
    drawn = rounded_noise(DRAWS, steps, coins(seed), gaussian=kind == "gaussian")
    assert drawn.dtype == np.int64
    assert p_value(drawn, edges, claimed) > LEVEL
    for wrong in (0.97, 1.03):
        _, true = cells(steps, wrong, kind)
        assert power(true, claimed, DRAWS) > 1 - 1e-6
        # The draws, compared with a wrong scale.
        assert p_value(drawn, edges, true) < LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_whose_scale_is_wrong_by_3_percent_is_rejected(kind, seed):
    edges, claimed = cells(2**40, 1.0, kind)
    for wrong in (0.97, 1.03):
        drawn = rounded_noise(DRAWS, round(wrong * 2**40), coins(seed), gaussian=kind == "gaussian")
        assert p_value(drawn, edges, claimed) < LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_the_operating_systems_coins_give_the_declared_law(kind):
    # Not seeded, on purpose: it fails by chance once in a million runs.
    edges, claimed = cells(2**40, 1.0, kind)
    drawn = rounded_noise(DRAWS, 2**40, Coins(), gaussian=kind == "gaussian")
    assert p_value(drawn, edges, claimed) > LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_far_tails_are_there(kind, seed):
    # Beyond 8 scales (4 sd): a sampler that cuts its tails there fails.
    far, draws = (4.0, 10**6) if kind == "gaussian" else (8.0, 10**6)
    chance = stats.norm.sf(far) * 2 if kind == "gaussian" else math.exp(-far)
    drawn = rounded_noise(draws, 2**40, coins(seed), gaussian=kind == "gaussian")
    hits = int((np.abs(drawn) > far * 2**40).sum())
    assert stats.binomtest(hits, draws, chance).pvalue > LEVEL
    assert stats.binomtest(0, draws, chance).pvalue < LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_neighbouring_draws_signs_and_low_digits_are_independent(kind, seed):
    drawn = rounded_noise(DRAWS, 2**40, coins(seed), gaussian=kind == "gaussian")
    sign, large, low = drawn > 0, np.abs(drawn) > 0.7 * 2**40, np.abs(drawn) % 4
    for first, second in (
        (sign[:-1], sign[1:]),
        (large[:-1], large[1:]),
        (sign, large),
        (large, low),
        (sign, low),
    ):
        table = np.histogram2d(first, second, bins=(2, int(second.max()) + 1))[0]
        assert stats.chi2_contingency(table).pvalue > LEVEL
    assert stats.chisquare(np.bincount(low)).pvalue > LEVEL


@given(st.integers(1, MOST_STEPS), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_the_product_of_pieces_is_the_product(steps, fractions):
    nearest, crossing = _coins._nearest(steps, np.array(fractions, dtype=np.uint64))
    for i, fraction in enumerate(fractions):
        least = (steps * fraction + 2**63) >> 64
        most = (steps * (fraction + 1) - 1 + 2**63) >> 64
        assert nearest[i] == least
        assert crossing[i] == (least != most)


def test_a_crossing_is_seen_at_both_ends_of_the_half():
    steps = 2**40 + 1
    at = [((2 * k + 1) * 2**63) // steps for k in (0, 5, 2**39 - 1)]
    nearest, crossing = _coins._nearest(steps, np.array(at, dtype=np.uint64))
    assert crossing.all()
    assert nearest.tolist() == [0, 5, 2**39 - 1]
    after, settled = _coins._nearest(steps, np.array(at, dtype=np.uint64) + np.uint64(1))
    assert not settled.any()
    assert after.tolist() == [1, 6, 2**39]


def test_the_whole_part_is_exact_or_doubted():
    edges = [math.exp(-j) * 2**31 for j in range(1, 22)]
    prefixes = np.unique([max(0, int(e) + d) for e in edges for d in range(-3, 4)] + list(range(2000)))
    whole, doubted = _coins._whole_part(prefixes.astype(np.uint32))
    with mpmath.workdps(40):
        for prefix, value, doubt in zip(prefixes, whole, doubted, strict=True):
            if prefix == 0:
                assert doubt
                continue
            near, far = (mpmath.floor(-mpmath.log(mpmath.mpf(int(u)) / 2**31)) for u in (prefix, prefix + 1))
            assert doubt or near == far == value
    assert doubted.mean() < 0.5


def test_the_machines_exp_and_log_are_as_good_as_the_sampler_assumes(rng):
    points = np.concatenate((rng.random(2000), 60 * rng.random(2000), [0.0, 1.0, 700.0]))
    prefixes = np.concatenate((np.floor(2.0**31 * rng.random(2000)), np.arange(100.0))) + 0.5
    with mpmath.workdps(40):
        exp_error = max(
            abs(mpmath.exp(-mpmath.mpf(x)) - y) for x, y in zip(points, np.exp(-points), strict=True)
        )
        log_error = max(
            abs(mpmath.log(mpmath.mpf(x)) - y) for x, y in zip(prefixes, np.log(prefixes), strict=True)
        )
    # A thousandth of what is allowed.
    assert max(exp_error, log_error) < 2.0**-50 * 16


def test_noise_stays_below_two_to_the_53_steps(monkeypatch):
    assert (FARTHEST + 1) * MOST_STEPS < 2**53
    assert FARTHEST * math.log10(math.e) > 868

    class Zeros(Coins):
        def word(self) -> int:
            return 0

    # A uniform number of zeros only is below every e^-k: such a draw ends at the limit and is rejected.
    monkeypatch.setattr(_coins, "FARTHEST", 50)
    assert settle(0, 0, [0], 5, Zeros()) is None


def test_no_global_generator_and_no_seed_are_used(monkeypatch):
    asked = []
    real = os.urandom

    def counted(size):
        asked.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", counted)
    noise = Noise.of("gaussian", 1.0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = noise.add(np.zeros(50)), noise.add(np.zeros(50))
    assert (first != second).all()
    assert sum(asked) >= 2 * 50 * 8
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
