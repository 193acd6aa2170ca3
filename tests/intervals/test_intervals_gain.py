"""Paired gains: exact error probabilities by enumeration, and sabotaged twins that the same checks catch."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from intervals_oracles import mp_log_tail

from enumeration import all_counts
from holdfast.errors import InvalidArgument
from holdfast.intervals import _gain as module
from holdfast.intervals import certified_gain, gain_steps, mean_interval, sign_test, units_needed

ERRORS = (0.5, 0.3, 0.1, 0.05, 0.01, 1e-3, 1e-6)

# Laws of a difference: value and probability. The mean of each is the true gain.
SIGNS = [
    ((1, 0.5), (-1, 0.5)),
    ((1, 0.3), (0, 0.4), (-1, 0.3)),
    ((1, 0.05), (0, 0.9), (-1, 0.05)),
    ((1, 0.6), (-1, 0.4)),
    ((1, 0.4), (0, 0.5), (-1, 0.1)),
    ((1, 0.9), (0, 0.1)),
    ((1, 0.1), (-1, 0.9)),
    ((1, 1.0),),
]
FRACTIONS = [
    ((0.1, 0.9), (-0.9, 0.1)),
    ((0.01, 0.99), (-0.99, 0.01)),
    ((0.5, 0.5), (-0.5, 0.5)),
    ((0.9, 0.1), (-0.1, 0.9)),
    ((1.0, 0.2), (0.25, 0.4), (-0.5, 0.4)),
    ((0.3, 0.8), (-0.2, 0.2)),
    ((-0.1, 0.5), (0.1, 0.5)),
]


def exact_tail(wins, losses):
    """P(Bin(wins + losses, ½) ≥ wins) as a fraction."""
    trials = wins + losses
    return Fraction(sum(math.comb(trials, count) for count in range(wins, trials + 1)), 2**trials)


def mean_of(law):
    return math.fsum(value * probability for value, probability in law)


def samples(law, units):
    """Every sample of so many units up to order, with its probability."""
    for numbers in all_counts(units, len(law)):
        ways = math.factorial(units)
        for number in numbers:
            ways //= math.factorial(number)
        chance = ways * math.prod(p**number for (_, p), number in zip(law, numbers, strict=True))
        values = [value for (value, _), number in zip(law, numbers, strict=True) for _ in range(number)]
        yield np.array(values, dtype=float), chance


def wrong(law, units, delta, *, step, least=0.0, binary=False, test=gain_steps):
    """The exact probability that the stated margin is not below the true gain."""
    nats, gain, total = -math.log(delta), mean_of(law), 0.0
    for values, chance in samples(law, units):
        steps = test(values, nats=nats, step=step, least=least, binary=binary)
        if steps is not None and least + steps * step >= gain - 1e-12:
            total += chance
    return total


@pytest.mark.parametrize("nats", [0.1, math.log(2) + 0.01, 2.0, 3.7, 6.0, 15.0, 25.0])
def test_the_sign_test_is_the_exact_binomial_test(nats):
    agreed = 0
    for wins, losses in itertools.product(range(41), repeat=2):
        expected = wins > losses and math.log(exact_tail(wins, losses)) <= -nats
        assert sign_test(wins, losses, nats) is expected, (wins, losses)
        agreed += expected
    assert agreed or nats > 41 * math.log(2)


@pytest.mark.parametrize("nats", [300.0, 450.0, 520.0, 1_000.0, 5_000.0])
def test_the_sign_test_far_out(nats):
    """Beyond 460 nats a closed bound takes over, which is high by less than .002 nats."""
    mp.mp.dps = 40
    compared = 0
    for losses in (0, 1, 7, 100, 1_000):
        few, many = losses, losses + 100_000
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if sign_test(middle, losses, nats) else (middle, many)
        tail = {wins: float(mp_log_tail(losses, wins + losses, mp.mpf(0.5))) for wins in (many - 1, many)}
        assert tail[many] <= -nats
        assert tail[many - 1] > -nats - 0.002
        compared += 1
    assert compared == 5


def test_a_win_more_helps_and_a_loss_more_hurts():
    for nats in (1.0, 3.7, 30.0):
        shown = np.array([[sign_test(w, b, nats) for b in range(30)] for w in range(120)])
        assert (np.diff(shown.astype(int), axis=0) >= 0).all()
        assert (np.diff(shown.astype(int), axis=1) <= 0).all()


@pytest.mark.parametrize("law", SIGNS, ids=str)
def test_a_stated_margin_is_rarely_wrong_for_scores_of_zero_and_one(law):
    for units in [1, 2, 3, 5, 8, 12]:
        for delta in ERRORS:
            for step in (0.05, 0.3):
                assert wrong(law, units, delta, step=step, binary=True) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("law", [*SIGNS, *FRACTIONS], ids=str)
def test_a_stated_margin_is_rarely_wrong_for_fractions(law):
    for units, least in product([1, 4, 9], [0.0, 0.1]):
        for delta, step in itertools.product((0.5, 0.1, 0.01, 1e-6), (0.05, 0.3)):
            assert wrong(law, units, delta, step=step, least=least) <= delta * (1 + 1e-9)


def test_the_check_can_fail():
    """Promotions do happen in these laws, so that the bounds above say something."""
    assert wrong(SIGNS[0], 12, 0.3, step=0.05, binary=True) > 0.15
    # The sign test is nearly exact where every task differs: P(Bin(12, ½) ≥ 9) = .073.
    assert wrong(SIGNS[0], 12, 0.073, step=0.9, binary=True) == pytest.approx(299 / 4096)
    assert wrong(SIGNS[0], 12, 0.0729, step=0.9, binary=True) < 0.02
    assert wrong(((1, 0.52), (-1, 0.48)), 12, 0.3, step=0.05, binary=True) > 0


def signs_of_fractions(values, *, nats, step, least, binary):
    """A twin: the sign test, whatever the differences are."""
    return 0 if sign_test(int((values > 0).sum()), int((values < 0).sum()), nats) else None


def test_a_sign_test_on_fractions_is_caught():
    law = FRACTIONS[0]
    assert wrong(law, 12, 0.05, step=0.05, test=signs_of_fractions) > 0.6
    assert wrong(law, 12, 0.05, step=0.05) <= 0.05


def expectation(law, units, log_evidence):
    """The exact expectation of an evidence, which must be at most 1 if the claim is false."""
    return math.fsum(chance * math.exp(log_evidence(values)) for values, chance in samples(law, units))


def product_evidence(a, table):
    return lambda values: module._Units.of(values, None).log_evidence(a, -1.0, table)


@pytest.mark.parametrize("table", ["_BETTER_AT_ALL", "_ANY"])
def test_rates_that_follow_the_rows_and_weights_beyond_one_are_caught(table):
    weights, law = getattr(module, table), ((1, 0.5), (-1, 0.5))
    assert math.fsum(weights.values()) <= 1 + 1e-15
    assert all(0 < share < 1 for share in weights)
    assert expectation(law, 12, product_evidence(0.0, weights)) == pytest.approx(1.0, abs=1e-9)

    def best_rate(values):
        """A twin: the rate that suits these very rows best, with all of the weight."""
        return max(product_evidence(0.0, {share: 1.0})(values) for share in weights)

    assert expectation(law, 12, best_rate) > 1.5
    more = {share: 1.02 * weight for share, weight in weights.items()}
    assert expectation(law, 12, product_evidence(0.0, more)) > 1.01


def test_the_evidence_has_an_expectation_of_at_most_one():
    """The theorem behind the product, exactly: for fractions, clusters of given sizes, and tasks that are not
    alike."""
    for law in (*SIGNS, *FRACTIONS):
        for a in (0.0, 0.05, 0.4):
            if mean_of(law) > a:
                continue
            for table in (module._BETTER_AT_ALL, module._ANY):
                assert expectation(law, 7, product_evidence(a, table)) <= 1 + 1e-9
    # Two kinds of tasks: one gains .4, the other loses as much.
    kinds = [((1, 0.7), (-1, 0.3)), ((1, 0.3), (-1, 0.7))]
    total = 0.0
    for (first, p), (second, q) in itertools.product(samples(kinds[0], 4), samples(kinds[1], 4)):
        units = module._Units.of(np.concatenate([first, second]), None)
        total += p * q * math.exp(units.log_evidence(0.0, -1.0, module._BETTER_AT_ALL))
    assert total <= 1 + 1e-9


CLUSTERS = [
    # Sizes, and the law of a cluster's average difference by its size.
    (
        (1, 1, 2, 5),
        {1: ((1, 0.5), (-1, 0.5)), 2: ((1, 0.25), (0, 0.5), (-1, 0.25)), 5: ((1, 0.5), (-1, 0.5))},
    ),
    # Small clusters gain and a large one loses: no gain by tasks, a gain by clusters.
    ((1, 1, 1, 1, 4), {1: ((1, 0.75), (-1, 0.25)), 4: ((1, 0.25), (-1, 0.75))}),
    # A gain of .2 in every task.
    ((2, 2, 3, 3), {2: ((1, 0.6), (-1, 0.4)), 3: ((0.6, 2 / 3), (-0.6, 1 / 3))}),
]


def wrong_by_clusters(sizes, laws, delta, *, step, by_tasks=True):
    """The exact probability of a wrong margin for clusters of given sizes."""
    weights = np.array(sizes, dtype=float)
    means = np.array([mean_of(laws[size]) for size in sizes])
    gain = float(weights @ means / weights.sum()) if by_tasks else float(means.mean())
    total = 0.0
    for outcome in itertools.product(*(laws[size] for size in sizes)):
        values = np.array([value for value, _ in outcome])
        chance = math.prod(p for _, p in outcome)
        if by_tasks:
            steps = gain_steps(values * weights, nats=-math.log(delta), step=step, sizes=weights)
        else:
            steps = gain_steps(values, nats=-math.log(delta), step=step)
        if steps is not None and steps * step >= gain - 1e-12:
            total += chance
    return total


@pytest.mark.parametrize(("sizes", "laws"), CLUSTERS, ids=["noise", "unlike", "gain"])
@pytest.mark.parametrize("by_tasks", [True, False], ids=["tasks", "clusters"])
def test_clusters_of_unequal_sizes(sizes, laws, by_tasks):
    for delta in (0.7, *ERRORS):
        for step in (0.02, 0.2):
            assert wrong_by_clusters(sizes, laws, delta, step=step, by_tasks=by_tasks) <= delta * (1 + 1e-9)


def test_the_gain_of_the_average_cluster_is_not_that_of_the_average_task():
    """A twin: clusters counted once each, as if that bounded the gain of tasks."""
    many, delta = (1,) * 10 + (10,), 0.4
    laws = {1: CLUSTERS[1][1][1], 10: CLUSTERS[1][1][4]}
    gain = (mean_of(laws[1]) + mean_of(laws[10])) / 2
    assert gain == 0
    twin = 0.0
    for outcome in itertools.product(*(laws[size] for size in many)):
        values = np.array([value for value, _ in outcome])
        steps = gain_steps(values, nats=-math.log(delta), step=0.5)
        twin += math.prod(p for _, p in outcome) * (steps is not None)
    assert twin > delta
    assert wrong_by_clusters(many, laws, delta, step=0.5) <= delta


def conditional(values, *, nats, step, least, binary):
    """A twin: the chance of so few losses, given the losses and wins of the rows themselves."""
    wins, losses = int((values == 1).sum()), int((values == -1).sum())
    if wins <= losses:
        return None
    # As if the number of tasks that differ were all tasks, so that ties count as losses avoided.
    trials = len(values)
    tail = exact_tail(wins + (trials - wins - losses), losses)
    return 0 if math.log(tail) <= -nats else None


def test_conditioning_on_something_else_is_caught():
    law, delta = ((1, 0.05), (0, 0.9), (-1, 0.05)), 0.05
    assert wrong(law, 12, delta, step=0.9, test=conditional) > delta
    assert wrong(law, 12, delta, step=0.9, binary=True) <= delta


def test_signs_of_tasks_that_are_not_alike_may_be_wrong_at_one_half():
    """The sign test needs tasks with one law. Two tasks are won with probability ¾, the third is always lost:
    the gain is 0, and at δ = ½ the test errs with probability 9/16. The product does not need that."""
    total = product = 0.0
    for first, second in itertools.product((1, -1), repeat=2):
        chance = (0.75 if first == 1 else 0.25) * (0.75 if second == 1 else 0.25)
        values = np.array([first, second, -1.0])
        # A hair above ½: the test covers its own rounding.
        total += chance * (gain_steps(values, nats=math.log(2) - 1e-6, step=1.0, binary=True) is not None)
        product += chance * (gain_steps(values, nats=math.log(2) - 1e-6, step=1.0) is not None)
    assert total == pytest.approx(9 / 16)
    assert product <= 0.5


def test_claims_are_shown_in_order():
    """The steps that are shown are the first ones, each of them by the product at its own margin."""
    values, nats, step = np.array([1.0] * 40 + [-1.0] * 5 + [0.0] * 55), 3.7, 0.01
    steps = gain_steps(values, nats=nats, step=step, binary=True)
    units = module._Units.of(values, None)
    shown = [units.log_evidence(number * step, -1.0, module._ANY) >= nats for number in range(1, 101)]
    assert sum(shown) == steps
    assert shown[:steps] == [True] * steps


@pytest.mark.parametrize("sizes", [None, [1.0, 2.0, 3.0, 1.0]])
def test_evidence_falls_in_the_claim(sizes, rng):
    weights = np.ones(4) if sizes is None else np.array(sizes)
    for _ in range(20):
        units = module._Units.of(np.round(rng.uniform(-1, 1, 4), 2) * weights, weights)
        for table in (module._BETTER_AT_ALL, module._ANY):
            evidence = [units.log_evidence(a, -1.0, table) for a in np.linspace(-0.9, 1.0, 96)]
            assert all(later <= earlier for earlier, later in itertools.pairwise(evidence))


def test_more_nats_show_fewer_steps(rng):
    values = np.round(rng.uniform(-0.5, 1, 200), 2)
    steps = [gain_steps(values, nats=nats, step=0.005) for nats in (1.0, 3.0, 9.0, 20.0, 40.0, 900.0)]
    assert steps[-1] is None
    assert steps[0] > steps[1] > steps[2] > 0


def test_a_hundred_thousand_values_are_covered_for_rounding():
    """The logarithm is a lower bound on the exact one, to 40 digits."""
    mp.mp.dps = 40
    rng = np.random.default_rng(5)
    values = rng.choice([1.0, 0.3, 0.1, -0.2, -1.0], size=10**5, p=[0.2, 0.2, 0.2, 0.2, 0.2])
    number = Counter(values.tolist())
    for a in (0.0, 0.03, 0.04):
        exact = mp.mpf(0)
        for share, weight in module._ANY.items():
            rate = mp.mpf(share) / (1 + mp.mpf(a))
            total = mp.fsum(n * mp.log1p(rate * (mp.mpf(v) - mp.mpf(a))) for v, n in number.items())
            exact += mp.mpf(weight) * mp.exp(total)
        stated = module._Units.of(values, None).log_evidence(a, -1.0, module._ANY)
        assert stated <= mp.log(exact)
        assert stated >= mp.log(exact) - 1e-5


@pytest.mark.parametrize(
    ("law", "lo", "hi"),
    [
        (((0.0, 0.3), (1.0, 0.7)), 0.0, 1.0),
        (((0.0, 0.98), (1.0, 0.02)), 0.0, 1.0),
        (((0.1, 0.5), (0.5, 0.3), (0.9, 0.2)), 0.0, 1.0),
        (((-1.0, 0.2), (0.0, 0.6), (1.0, 0.2)), -1.0, 1.0),
        (((2.0, 0.9), (7.0, 0.1)), 2.0, 7.0),
    ],
)
def test_intervals_for_means_cover(law, lo, hi):
    for units in [1, 5, 9]:
        mean = mean_of(law)
        for delta in (0.7, 0.2, 1e-3):
            missed = 0.0
            for values, chance in samples(law, units):
                interval = mean_interval(values, -math.log(delta), lo=lo, hi=hi)
                assert lo <= interval.low <= values.mean() <= interval.high <= hi
                missed += chance * (not interval.low <= mean <= interval.high)
            assert missed <= delta


def test_intervals_for_means_of_clusters_cover():
    sizes, laws = (1, 2, 4), {1: ((1, 0.5), (0, 0.5)), 2: ((0.5, 0.4), (1, 0.6)), 4: ((0, 0.3), (1, 0.7))}
    weights = np.array(sizes, dtype=float)
    mean = float(weights @ [mean_of(laws[size]) for size in sizes] / weights.sum())
    for delta in (0.9, 0.7, 0.5, 0.1):
        missed = 0.0
        for outcome in itertools.product(*(laws[size] for size in sizes)):
            values = np.array([value for value, _ in outcome])
            interval = mean_interval(values * weights, -math.log(delta), sizes=weights)
            missed += math.prod(p for _, p in outcome) * (not interval.low <= mean <= interval.high)
        assert missed <= delta


def test_intervals_turn_with_their_values(rng):
    values = rng.random(50)
    up, down = mean_interval(values, 4.0), mean_interval(-values, 4.0, lo=-1.0, hi=0.0)
    assert (up.low, up.high) == pytest.approx((-down.high, -down.low))


def test_what_is_certified_is_shown_and_less_is_not():
    for tasks, nats, binary, least in itertools.product(
        (100, 300, 1_000), (2.0, 3.7, 8.0), (True, False), (0.0, 0.02)
    ):
        gain = certified_gain(tasks, nats, baseline=0.7, binary=binary, least=least)
        if math.isinf(gain):
            continue
        broken = round(gain * tasks / 3)
        for number, shown in ((broken, True), (broken - 1, False)):
            values = [1.0] * (4 * number) + [-1.0] * number + [0.0] * (tasks - 5 * number)
            steps = gain_steps(values, nats=nats, step=0.5, least=least, binary=binary)
            assert (steps is not None) is shown


@pytest.mark.parametrize(("binary", "least"), [(True, 0.0), (False, 0.0), (False, 0.3), (True, 0.3)])
def test_the_units_that_are_needed(binary, least):
    for nats in (0.5, 3.7, 40.0):
        units = units_needed(nats, least=least, binary=binary)
        for number, shown in ((units, True), (units - 1, False)):
            if number:
                steps = gain_steps(np.ones(number), nats=nats, step=0.5, least=least, binary=binary)
                assert (steps is not None) is shown


BAD = [
    (lambda: sign_test(-1, 0, 1.0), "wins"),
    (lambda: sign_test(1, 0.5, 1.0), "losses"),
    (lambda: sign_test(1, 0, math.nan), "nats"),
    (lambda: sign_test(1, 0, -1.0), "nats"),
    (lambda: sign_test(1, 0, math.inf), "nats"),
    (lambda: gain_steps([], nats=1.0, step=0.1), "differences"),
    (lambda: gain_steps([math.nan], nats=1.0, step=0.1), "differences"),
    (lambda: gain_steps([1.1], nats=1.0, step=0.1), "differences"),
    (lambda: gain_steps([[1.0]], nats=1.0, step=0.1), "differences"),
    (lambda: gain_steps(["a"], nats=1.0, step=0.1), "differences"),
    (lambda: gain_steps([0.5], nats=1.0, step=0.1, binary=True), "differences"),
    (lambda: gain_steps([1.0], nats=1.0, step=0.0), "step"),
    (lambda: gain_steps([1.0], nats=1.0, step=0.1, least=1.0), "least"),
    (lambda: gain_steps([1.0], nats=1.0, step=0.1, least=-0.1), "least"),
    (lambda: gain_steps([1.0], nats=1.0, step=0.1, sizes=[1.0, 2.0]), "sizes"),
    (lambda: gain_steps([1.0], nats=1.0, step=0.1, sizes=[0.0]), "sizes"),
    (lambda: gain_steps([3.0], nats=1.0, step=0.1, sizes=[2.0]), "differences"),
    (lambda: gain_steps([1.0], nats=1.0, step=0.1, sizes=[1.0], binary=True), "binary"),
    (lambda: certified_gain(0, 1.0), "tasks"),
    (lambda: certified_gain(10, 1.0, baseline=1.1), "baseline"),
    (lambda: certified_gain(10, 1.0, ratio=1), "ratio"),
    (lambda: certified_gain(10, 1.0, least=1.0), "least"),
    (lambda: units_needed(-1.0), "nats"),
    (lambda: units_needed(1.0, least=1.0), "least"),
    (lambda: mean_interval([], 1.0), "values"),
    (lambda: mean_interval([2.0], 1.0), "values"),
    (lambda: mean_interval([0.5], 1.0, lo=1.0, hi=0.0), "hi"),
    (lambda: mean_interval([0.5], -1.0), "nats"),
]


@pytest.mark.parametrize(("call", "argument"), BAD)
def test_bad_input(call, argument):
    with pytest.raises(InvalidArgument, match=f"'{argument}'"):
        call()
