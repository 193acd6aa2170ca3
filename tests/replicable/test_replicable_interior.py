"""Interior points and threshold functions: the lemma on counts, hostile laws, ten thousand pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr

from contracts.tapes import CountThreshold, rigged
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, interior_point, learn_threshold, sample_size
from limits import PAIRS, lower_limit, upper_limit

DOMAIN = 1023
LEARNING = {"accuracy": 0.1, "rho": 0.1, "beta": 0.05}


def coarsest(low, high):
    """The place in ``low`` … ``high`` whose successor is divisible by the highest power of two."""
    powers = (1 << bits for bits in reversed(range((high + 1).bit_length())))
    return next(place for power in powers if (place := (high + 1) // power * power - 1) >= low)


def chosen(low, high):
    """The interior point of rows at two places: fewer than half are dropped, so both places stay."""
    rows = [low] * 10 + [high] * 10
    return interior_point(rows, domain=2**41, rho=0.5, tape=Tape("t"), best_effort=True).value


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_coarsest_place_is_the_one_with_the_highest_power_of_two(first, second):
    low, high = sorted((first, second))
    powers = {place: (place + 1) & -(place + 1) for place in range(low, high + 1)}
    place = chosen(low, high)
    assert [other for other in powers if powers[other] >= powers[place]] == [place]
    assert place == coarsest(low, high)


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40))
def test_two_intervals_that_contain_each_others_choice_choose_the_same(a, b, c, d):
    first, second = sorted((a, b)), sorted((c, d))
    mine, theirs = chosen(*first), chosen(*second)
    assert (mine, theirs) == (coarsest(*first), coarsest(*second))
    if first[0] <= theirs <= first[1] and second[0] <= mine <= second[1]:
        assert mine == theirs


@pytest.mark.parametrize("n", [1, 2, 5, 19, 20, 100, 1000])
def test_the_lemma_on_counts(n):
    """2 Σ h_r P(X ≤ r) P(X > r) ≤ 1/√(3(n+1)) for h_r = 1/(2√((r+1)(n−r))), whatever the law."""
    r = np.arange(n)
    weights = 1.0 / (2.0 * np.sqrt((r + 1.0) * (n - r)))
    worst = 0.0
    for p in np.concatenate([np.geomspace(1e-3 / n, 0.5, 200), [0.5]]):
        below = bdtr(r, n, p)
        worst = max(worst, float(2.0 * (weights * below * (1.0 - below)).sum()))
    assert worst <= 1.0 / math.sqrt(3.0 * (n + 1.0))
    if n >= 100:
        assert worst >= 0.97 / math.sqrt(3.0 * (n + 1.0))


def test_walks_are_as_the_proof_of_the_lemma_has_them():
    """E r_N² ≤ 2/3 for N binomial, r_N = E|S_N|/√N: the odd N up to 9 are paid for by their neighbours."""
    share = {0: 0.0}
    for steps in range(1, 13):
        counts = [math.comb(steps, k) * abs(2 * k - steps) for k in range(steps + 1)]
        share[steps] = (sum(counts) / 2**steps) ** 2 / steps
    assert all(share[n] > 2 / 3 for n in (1, 3, 5, 7, 9))
    assert all(share[n] < 2 / 3 for n in (0, 2, 4, 6, 8, 10, 11, 12))
    spent = {1: 0.55, 3: 0.35, 5: 0.1, 7: 0.05, 9: 0.05}
    left = 1.0
    for odd, taken in spent.items():
        before, after = left * (2 / 3 - share[odd - 1]), taken * (2 / 3 - share[odd + 1])
        ratio = (odd + 1) / odd * (21 - odd) / (20 - odd)
        assert 2.0 * math.sqrt(before * after / ratio) >= share[odd] - 2 / 3
        left = 1.0 - taken


def dropped_by(statistic, tape, rows):
    """How many rows, or labels, a tape makes the statistic drop or contradict."""
    x = np.zeros(rows, dtype=int)
    if statistic == "interior_point":
        result = interior_point(x, domain=DOMAIN, rho=0.1, tape=tape, best_effort=True)
        return result.details["dropped"]
    result = learn_threshold(x, x, domain=DOMAIN, tape=tape, best_effort=True, **LEARNING)
    return result.details["allowed"]


class Thresholds(CountThreshold):
    """What the tape of a statistic draws on so many rows: its law, and what the law promises."""

    def __init__(self, statistic, rows):
        super().__init__(rows, 0, dropped_by(statistic, rigged(1.0), rows))

    @property
    def mismatch(self):
        """At each ancestor of a point two samples part with probability 1/√(3(n+1)) / arc, at most."""
        return (DOMAIN.bit_length() - 1) / math.sqrt(3.0 * (self.trials + 1)) / (self.ends[1] - self.ends[0])

    def below(self, share):
        """P(Bin(n, share) ≤ threshold)."""
        return float(bdtr(self((np.arange(20_000) + 0.5) / 20_000), self.trials, share).mean())


@pytest.mark.parametrize(
    ("statistic", "rows", "branch"),
    [
        ("interior_point", 4_765, "interior point"),
        ("interior_point", 1_200, "interior point"),
        ("learn_threshold", 27_221, "learn threshold"),
        ("learn_threshold", 6_000, "learn threshold"),
    ],
)
def test_the_thresholds_are_those_of_the_lemma(statistic, rows, branch):
    thresholds, coins = Thresholds(statistic, rows), (np.arange(200) + 0.5) / 200
    assert [dropped_by(statistic, rigged(coin), rows) for coin in coins] == thresholds(coins).tolist()
    assert dropped_by(statistic, rigged(0.0), rows) == 0
    for tape in map(Tape, range(5)):
        assert dropped_by(statistic, tape, rows) == thresholds(tape.branch(branch).uniforms(1)[0])


def test_what_the_thresholds_promise_is_what_the_bounds_say():
    for rows in (1_200, 2_500, 4_764):
        thresholds = Thresholds("interior_point", rows)
        result = interior_point([0] * rows, domain=DOMAIN, rho=0.1, tape=Tape("t"), best_effort=True)
        exact = thresholds.mismatch + 4.0 * thresholds.below(0.5)
        assert exact <= result.guarantee.rho <= exact * 1.02
    for rows in (6_000, 27_220):
        thresholds, x = Thresholds("learn_threshold", rows), np.zeros(rows)
        result = learn_threshold(x, x, domain=DOMAIN, tape=Tape("t"), best_effort=True, **LEARNING)
        assert result.guarantee.rho == pytest.approx(thresholds.mismatch, rel=1e-9)
        assert 2.0 * thresholds.below(0.1) <= result.beta == 0.05


def _hostile_interior():
    """Every ancestor of the median is crossed at its own threshold, evenly on the lemma's scale."""
    left, right = [255, 319, 335, 339], [511, 383, 351, 343, 341]
    angles = np.linspace(0.0, math.pi / 4, 11)[1:-1]
    levels = np.sin(angles) ** 2
    law = {}
    for places, chosen, step in ((left, levels[1::2], -1), (right, levels[0::2], 1)):
        for place, mass in zip(places, np.diff(chosen, prepend=0.0), strict=False):
            law[place + step] = mass if place == places[0] else law.get(place + step, 0.0) + mass
    law[340] = 1.0 - sum(law.values())
    return law


INTERIOR_LAWS = {
    "hostile": _hostile_interior(),
    "even": dict.fromkeys(range(16, 1023, 16), 1.0 / 63),
    "two points": {3: 0.5, 1000: 0.5},
    "ties at the root": {510: 0.25, 511: 0.5, 512: 0.25},
}


def _interior_points(rng, law, rows, threshold, coins):
    support = np.array(sorted(law))
    counts = rng.multinomial(rows, [law[place] for place in support], coins.size)
    dropped = threshold(coins)[:, None]
    low = support[(np.cumsum(counts, axis=1) > dropped).argmax(axis=1)]
    backwards = np.cumsum(counts[:, ::-1], axis=1) > dropped
    high = support[::-1][backwards.argmax(axis=1)]
    return np.array([coarsest(int(a), int(b)) for a, b in zip(low, high, strict=True)]), low, high


@pytest.mark.parametrize("law", INTERIOR_LAWS)
def test_ten_thousand_pairs_of_interior_points_at_the_smallest_size(law, rng):
    rows = sample_size("interior_point", domain=DOMAIN, rho=0.1)
    threshold = Thresholds("interior_point", rows)
    coins = rng.uniform(size=PAIRS)
    first, low, high = _interior_points(rng, INTERIOR_LAWS[law], rows, threshold, coins)
    second, _, _ = _interior_points(rng, INTERIOR_LAWS[law], rows, threshold, coins)
    differ = int((first != second).sum())
    assert threshold.mismatch + 4.0 * threshold.below(0.5) <= 0.1
    assert lower_limit(differ, PAIRS) <= 0.1
    if law != "hostile":
        assert upper_limit(differ, PAIRS) <= 0.1
    assert ((low <= first) & (first <= high)).all()
    if law == "hostile":
        private, _, _ = _interior_points(rng, INTERIOR_LAWS[law], rows, threshold, rng.uniform(size=PAIRS))
        assert lower_limit(int((first != private).sum()), PAIRS) > 0.1
        assert upper_limit(differ, PAIRS) >= 0.05


def test_a_quarter_of_the_rows_is_caught(rng):
    rows = sample_size("interior_point", domain=DOMAIN, rho=0.1) // 4
    threshold = Thresholds("interior_point", rows)
    coins = rng.uniform(size=PAIRS)
    first, second = (
        _interior_points(rng, INTERIOR_LAWS["hostile"], rows, threshold, coins)[0] for _ in range(2)
    )
    assert lower_limit(int((first != second).sum()), PAIRS) > 0.1


def _hostile_learning(accuracy):
    """True z = 340; every ancestor has its own error, evenly on the lemma's scale up to ``accuracy``."""
    left, right = [255, 319, 335, 339], [511, 383, 351, 343, 341]
    errors = accuracy * (np.arange(1, 10) / 10.0) ** 2
    law = {}
    for places, chosen, step in ((left, errors[1::2][::-1], 1), (right, errors[0::2][::-1], 0)):
        below = np.append(chosen[1:], 0.0)
        for place, mass in zip(places, chosen - below, strict=False):
            law[place + step] = law.get(place + step, 0.0) + mass
    law[0] = law.get(0, 0.0) + (1.0 - sum(law.values())) / 2.0
    law[1022] = 1.0 - sum(law.values())
    return law


LEARNING_LAWS = {
    "hostile": _hostile_learning(0.1),
    "even": dict.fromkeys(range(16, 1023, 16), 1.0 / 63),
    "far from the threshold": {0: 0.5, 1022: 0.5},
    "ties next to the threshold": {340: 0.5, 341: 0.5},
}


def _learned(rng, law, rows, threshold, coins):
    support = np.array(sorted(law))
    counts = rng.multinomial(rows, [law[place] for place in support], coins.size)
    allowed = threshold(coins)[:, None]
    zeros = np.where(support <= 340, counts, 0)
    ones = np.where(support > 340, counts, 0)
    above = np.cumsum(zeros[:, ::-1], axis=1) > allowed
    low = np.where(above.any(axis=1), support[::-1][above.argmax(axis=1)], 0)
    below = np.cumsum(ones, axis=1) > allowed
    high = np.where(below.any(axis=1), support[below.argmax(axis=1)] - 1, DOMAIN - 1)
    return np.array([coarsest(int(a), int(b)) for a, b in zip(low, high, strict=True)])


@pytest.mark.parametrize("law", LEARNING_LAWS)
def test_ten_thousand_pairs_of_thresholds_at_the_smallest_size(law, rng):
    rows = sample_size("learn_threshold", domain=DOMAIN, **LEARNING)
    threshold = Thresholds("learn_threshold", rows)
    coins = rng.uniform(size=PAIRS)
    first, second = (_learned(rng, LEARNING_LAWS[law], rows, threshold, coins) for _ in range(2))
    differ = int((first != second).sum())
    assert threshold.mismatch <= 0.1
    assert 2.0 * threshold.below(0.1) <= 0.05
    assert lower_limit(differ, PAIRS) <= 0.1
    support = np.array(sorted(LEARNING_LAWS[law]))
    masses = np.array([LEARNING_LAWS[law][place] for place in support])
    wrong = (support > first[:, None]) != (support > 340)
    assert lower_limit(int((wrong @ masses > 0.1).sum()), PAIRS) <= 0.05
    if law == "hostile":
        private = _learned(rng, LEARNING_LAWS[law], rows, threshold, rng.uniform(size=PAIRS))
        assert lower_limit(int((first != private).sum()), PAIRS) > 0.1
        assert upper_limit(differ, PAIRS) >= 0.05


def test_the_functions_on_rows(rng):
    promise = {"accuracy": 0.2, "rho": 0.3, "beta": 0.1}
    inner = sample_size("interior_point", domain=64, rho=0.3)
    learned = sample_size("learn_threshold", domain=64, **promise)
    differ = [0, 0]
    for i in range(500):
        x, y = (np.minimum(rng.geometric(0.05, inner + 5) + 7, 63) for _ in range(2))
        first, second = (interior_point(z, domain=64, rho=0.3, tape=Tape(i)) for z in (x, y))
        assert x[:inner].min() <= int(first) <= x[:inner].max()
        differ[0] += first != second
        x, y = (rng.integers(0, 64, learned) for _ in range(2))
        first, second = (learn_threshold(z, z > 20, domain=64, tape=Tape(i), **promise) for z in (x, y))
        assert abs(int(first) - 20) / 64 <= 0.2
        differ[1] += first != second
    assert lower_limit(differ[0], 500) <= 0.3
    assert lower_limit(differ[1], 500) <= 0.3
    assert first.guarantee.rho == pytest.approx(0.3, abs=1e-9)


def test_a_listed_domain_and_a_counted_one_are_the_same(rng):
    x = rng.integers(0, 40, 5000)
    points = np.arange(40) * 2.5 - 7.0
    counted = interior_point(x, domain=40, rho=0.2, tape=Tape("t"))
    listed = interior_point(points[x], domain=points, rho=0.2, tape=Tape("t"))
    assert listed == points[int(counted)]
    promise = {"accuracy": 0.2, "rho": 0.2, "beta": 0.1, "tape": Tape("t")}
    assert (
        learn_threshold(points[x], points[x] > 3.0, domain=points, **promise)
        == points[int(learn_threshold(x, x > 4, domain=40, **promise))]
    )


def test_one_sided_labels_and_a_domain_of_one_point():
    promise = {"accuracy": 0.2, "rho": 0.2, "beta": 0.1, "tape": Tape("t")}
    x = np.arange(5000) % 8
    assert int(learn_threshold(x, np.zeros(5000), domain=8, **promise)) == 7
    assert int(interior_point([0] * 50, domain=1, rho=0.2, tape=Tape("t"), best_effort=True)) == 0


def test_sizes():
    sizes = [sample_size("interior_point", domain=size, rho=0.1) for size in (1000, 2**20, 2**32)]
    assert sizes == [4_765, 22_505, 56_797]
    sizes = [sample_size("learn_threshold", domain=size, **LEARNING) for size in (1000, 2**20)]
    assert sizes == [27_221, 131_327]
    # Linear in 1/accuracy, where SIS Theorem 6.12 is quadratic.
    fine = sample_size("learn_threshold", domain=1000, accuracy=0.01, rho=0.1, beta=0.05)
    assert fine <= 11.5 * sample_size("learn_threshold", domain=1000, **LEARNING)


def test_too_few_rows_and_best_effort(rng):
    x = rng.integers(0, 64, 1200)
    with pytest.raises(NotEnoughRows):
        interior_point(x, domain=64, rho=0.1, tape=Tape("t"))
    weaker = interior_point(x, domain=64, rho=0.1, tape=Tape("t"), best_effort=True)
    assert 0.1 < weaker.guarantee.rho < 0.2
    with pytest.raises(NotEnoughRows):
        learn_threshold(x, x > 9, domain=64, tape=Tape("t"), **LEARNING)
    weaker = learn_threshold(x, x > 9, domain=64, tape=Tape("t"), best_effort=True, **LEARNING)
    assert 0.1 < weaker.guarantee.rho < 1.0
    assert weaker.beta == 0.05
    none = learn_threshold(x[:3], x[:3] > 9, domain=64, tape=Tape("t"), best_effort=True, **LEARNING)
    assert (none.guarantee.rho, none.beta) == (1.0, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"x": [0, 64]},
        {"x": [0.5, 1.0]},
        {"x": [math.nan, 1.0]},
        {"x": [[0, 1]]},
        {"domain": 0},
        {"domain": [3, 2, 1]},
        {"domain": [1, 1]},
        {"domain": [2, 3]},
        {"rho": 0.0},
        {"rho": math.nan},
        {"beta": 1.5},
        {"tape": "t"},
    ],
)
def test_bad_arguments_of_interior_point(change):
    arguments = {"x": [0, 1], "domain": 64, "rho": 0.1, "tape": Tape("t"), "best_effort": True, **change}
    with pytest.raises(InvalidArgument, match="of interior_point must"):
        interior_point(**arguments)


@pytest.mark.parametrize(
    "change",
    [
        {"y": [0, 2]},
        {"y": [0]},
        {"y": [1, 0]},
        {"x": [0, 1], "y": [1, 1]},
        {"accuracy": 1.0},
        {"beta": math.nan},
    ],
)
def test_bad_arguments_of_learn_threshold(change):
    arguments = {"x": [3, 5], "y": [0, 1], "domain": 64, "tape": Tape("t"), "best_effort": True, **LEARNING}
    with pytest.raises(InvalidArgument, match="of learn_threshold must"):
        learn_threshold(**{**arguments, **change})
