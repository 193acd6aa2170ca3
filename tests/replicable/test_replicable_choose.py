"""Choosing among models: the same winner on fresh rows, a good one, and the sizes that were proven."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.examples import examples
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import Tape, choose, sample_size
from holdfast.replicable._choose import amplified_by_means, amplified_plan, choice_design, choose_rows
from holdfast.replicable._ways import (
    WAYS,
    ChoiceProblem,
    delayed_choice,
    delayed_failure,
    delayed_rho,
    harmonic_number,
    mean_exp_excess,
    pair_choice,
    pair_failure,
    pair_rho,
    softmin_failure,
    softmin_rho,
    threshold_choice,
)
from holdfast.stability import collision_probability

NATS = math.log(1e5)
HEADLINE = ChoiceProblem(100, 0.05, 0.05, realizable=False)
PERFECT = ChoiceProblem(100, 0.05, 0.05, realizable=True)
RHO = 0.1
GOLDEN = {
    "delayed": [0, 5, 0, 2, 1, 3, 2, 2],
    "exponential": [5, 0, 1, 3, 2, 0, 3, 3],
    "threshold": [0, 0, 4, 1, 1, 0, 5, 5],
    "pair": [1, 1, 1, 1, 1, 1, 0, 0],
}


def below(count, trials):
    """A lower limit of the probability behind a count, wrong once in 10⁵."""
    return clopper_pearson(count, trials, NATS).low


def above(count, trials):
    return clopper_pearson(count, trials, NATS).high


def equal(rng, rows, models):
    return rng.binomial(rows, 0.5, models) / rows


def camps(rng, rows, models):
    """Two camps of models that are right exactly when the other is wrong."""
    wrong = rng.binomial(rows, 0.5)
    return np.where(np.arange(models) % 2, wrong, rows - wrong) / rows


def chain(rng, rows, models):
    """Losses that grow from one model to e, to e² … within the accuracy: Algorithm 10's worst."""
    loss = 0.5 + 0.05 * np.log(np.arange(1, models + 1)) / math.log(models)
    return rng.binomial(rows, loss) / rows


def one_good(rng, rows, models):
    loss = np.full(models, 0.5 + 0.0501)
    loss[0] = 0.5
    return rng.binomial(rows, loss) / rows


def perfect_and_near(rng, rows, models):
    """One perfect model and the others where they weigh most against it."""
    loss = np.full(models, 0.024)
    loss[0] = 0.0
    return rng.binomial(rows, loss) / rows


def perfect_and_bad(rng, rows, models):
    loss = np.full(models, 0.0501)
    loss[0] = 0.0
    return rng.binomial(rows, loss) / rows


def run_pairs(sample, way, problem, rng, pairs, *, rows=None, private=False):
    """Mismatches and choices other than model 0, at the smallest size and its width."""
    needed = WAYS[way].rows(problem, RHO)
    width = WAYS[way].width(problem, needed)
    differ = other = 0
    for i in range(pairs):
        means = [sample(rng, rows or needed, problem.models) for _ in range(2)]
        tapes = [Tape("pairs").branch(i), Tape("pairs").branch(f"{i} twin" if private else i)]
        first, second = (
            WAYS[way].pick(problem, m, width, tape) for m, tape in zip(means, tapes, strict=True)
        )
        differ += first != second
        other += first != 0
    return differ, other


def softmin_mismatch(first, second, scale):
    """The exact probability that shared clocks choose differently, in the centred form of the formula."""
    centre, half = -(first + second) / (2 * scale), (second - first) / (2 * scale)
    weights = np.exp(centre - centre.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    ratios = np.exp(half)[..., :, None] / np.exp(half)[..., None, :]
    pairs = np.maximum(ratios, 1 / ratios)
    return 1 - np.sum(weights / (pairs @ weights[..., None])[..., 0], axis=-1)


# Sizes


def test_the_harmonic_number_is_an_upper_bound_and_close():
    exact = Fraction(0)
    for models in range(1, 301):
        exact += Fraction(1, models)
        assert exact <= Fraction(harmonic_number(models)) <= exact * (1 + Fraction(1, 10**13))
    # The twin without the last term of the series is below the sum.
    assert math.log(300) + np.euler_gamma + 1 / 600 - 1 / (12 * 300**2) < float(exact) * (1 - 1e-13)


def test_a_billion_models_need_no_list_of_them():
    ask = {"models": 10**9, "accuracy": 0.1, "rho": 0.1, "beta": 0.05}
    tracemalloc.start()
    try:
        assert sample_size("choose", **ask) == 860_329
        assert sample_size("choose", **ask, realizable=True) == 248_782
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 10_000_000


def test_the_headline_sizes():
    ask = {"models": 100, "accuracy": 0.05, "rho": 0.1, "beta": 0.05}
    sizes = {
        method: sample_size("choose", **ask, method=method)
        for method in ("best", "delayed", "exponential", "threshold", "amplified")
    }
    printed = (math.log(100) ** 2 + math.log(1 / 0.005)) / (0.05 * 0.1) ** 2 * math.log(10) ** 3
    assert sizes == {
        "best": 336_577,
        "delayed": 336_577,
        "exponential": 347_767,
        "threshold": 1_004_880,
        "amplified": 73_775_236,
    }
    assert round(printed) == 12_943_442
    assert sample_size("choose", **ask, realizable=True) == 24_923
    assert sample_size("choose", **ask, realizable=True, method="threshold") == 143_721
    assert sample_size("choose", models=2, accuracy=0.05, rho=0.1, beta=0.05) == 11_429
    # For a tiny beta the exponential mechanism's long tail is expensive.
    rare = {"models": 100, "accuracy": 0.05, "rho": 0.1, "beta": 1e-6}
    sizes = [sample_size("choose", **rare, method=name) for name in ("delayed", "threshold", "exponential")]
    assert sizes == [695_825, 1_180_075, 2_056_493]
    few = {"models": 3, "accuracy": 0.05, "rho": 0.1, "beta": 1e-6}
    assert sample_size("choose", **few) == sample_size("choose", **few, method="threshold")


@examples(25)
@given(
    st.integers(2, 1000),
    st.floats(0.01, 0.4),
    st.floats(0.01, 0.5),
    st.floats(0.001, 0.4),
    st.booleans(),
)
def test_sizes_fall_with_every_slack_and_grow_with_the_models(models, accuracy, rho, beta, realizable):
    def rows(**changed):
        ask = {"models": models, "accuracy": accuracy, "rho": rho, "beta": beta, "realizable": realizable}
        return choose_rows(**{**ask, **changed})

    base = rows()
    assert rows(accuracy=1.2 * accuracy) <= base
    assert rows(rho=1.2 * rho) <= base
    assert rows(beta=1.2 * beta) <= base
    assert rows(models=models + 1) >= base
    if not realizable:
        assert rows(realizable=True) <= base


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("realizable", [False, True])
def test_one_row_fewer_does_not_suffice(way, realizable):
    problem = ChoiceProblem(2 if way == "pair" else 20, 0.1, 0.1, realizable)
    rows = WAYS[way].rows(problem, 0.2)
    assert WAYS[way].rho_at(problem, rows) <= 0.2 < WAYS[way].rho_at(problem, rows - 1)
    assert WAYS[way].failure(problem, rows, WAYS[way].width(problem, rows)) <= 0.1


# The lemmas behind the constants


def signed_sums(coefficients):
    signs = np.array(list(itertools.product((-1, 1), repeat=len(coefficients))))
    return signs @ np.asarray(coefficients)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=10), st.floats(0.01, 1))
def test_a_signed_sum_is_hardly_larger_than_a_normal_one(coefficients, factor):
    coefficients = np.array(coefficients) * factor
    sums = np.abs(signed_sums(coefficients))
    variance, step = float(coefficients @ coefficients), float(coefficients.max())
    assert sums.mean() <= math.sqrt(2 / math.pi * (variance + 8 * step**2)) + step / 60 + 1e-12
    assert np.exp(sums).mean() - 1 <= mean_exp_excess(variance + 8 * step**2) + step / 60 + 1e-12


def test_without_the_correction_the_normal_value_is_too_small():
    sums = np.abs(signed_sums([0.3]))
    assert np.exp(sums).mean() - 1 > mean_exp_excess(0.09)


def test_the_spread_is_concave_where_it_is_averaged_and_bends_no_faster_than_stated():
    grid = np.linspace(1e-4, 0.4, 4001)
    values = np.array([mean_exp_excess(v) for v in grid])
    assert np.diff(values, 2).max() < 0
    wide = np.linspace(1e-4, 60, 60_001)
    ratio = [(mean_exp_excess(v) - math.sqrt(2 * v / math.pi)) / (v * math.exp(v / 2)) for v in wide]
    assert max(ratio) <= 0.605


def test_the_centred_formula_is_the_collision_formula(rng):
    first, second = rng.random((2, 5))
    laws = [np.exp(-means / 0.3) / np.exp(-means / 0.3).sum() for means in (first, second)]
    assert softmin_mismatch(first, second, 0.3) == pytest.approx(1 - collision_probability(*laws), rel=1e-12)


# Exact enumeration on small domains


def mean_laws(rows, joint):
    """All vectors of mean losses of so many observations, with their probabilities."""
    law = {(0,) * len(next(iter(joint))): 1.0}
    for _ in range(rows):
        step = {}
        for total, chance in law.items():
            for pattern, share in joint.items():
                key = tuple(a + b for a, b in zip(total, pattern, strict=True))
                step[key] = step.get(key, 0.0) + chance * share
        law = step
    return np.array(list(law)) / rows, np.array(list(law.values()))


JOINTS = {
    "independent": dict.fromkeys(itertools.product((0, 1), repeat=3), 1 / 8),
    "opposed": {(0, 1, 0): 0.5, (1, 0, 1): 0.5},
    "one of three": {(1, 0, 0): 1 / 3, (0, 1, 0): 1 / 3, (0, 0, 1): 1 / 3},
    "skewed": {(0, 0, 0): 0.6, (1, 0, 1): 0.25, (0, 1, 1): 0.15},
}


@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize(("rows", "scale"), [(6, 0.7), (12, 0.5), (12, 2.0)])
def test_exact_mismatch_of_clocks_is_within_the_bound(joint, rows, scale):
    means, chances = mean_laws(rows, JOINTS[joint])
    exact = sum(
        chance * float(chances @ softmin_mismatch(np.broadcast_to(one, means.shape), means, scale))
        for one, chance in zip(means, chances, strict=True)
    )
    assert exact <= softmin_rho(3, rows, scale, realizable=False)


@pytest.mark.parametrize("rows", [10, 16])
def test_exact_mismatch_of_clocks_with_a_perfect_model(rows):
    joint = {(0, 0, 0): 0.7, (0, 1, 0): 0.1, (0, 0, 1): 0.1, (0, 1, 1): 0.1}
    means, chances = mean_laws(rows, joint)
    for scale in (0.2, 0.4, 1.0):
        exact = sum(
            chance * float(chances @ softmin_mismatch(np.broadcast_to(one, means.shape), means, scale))
            for one, chance in zip(means, chances, strict=True)
        )
        assert exact <= softmin_rho(3, rows, scale, realizable=True)


@pytest.mark.parametrize(
    ("joint", "realizable"),
    [
        ({(0, 0, 0): 0.7, (0, 1, 1): 0.3}, True),
        ({(0, 1, 1): 0.65, (1, 0, 0): 0.35}, False),
        ({(0, 1, 1): 0.3, (0, 0, 0): 0.3, (1, 1, 1): 0.4}, False),
    ],
)
def test_exact_failure_of_clocks_is_within_the_bound(joint, realizable):
    means, chances = mean_laws(20, joint)
    for scale in (0.05, 0.1, 0.3):
        weights = np.exp(-(means - means.min(axis=1, keepdims=True)) / scale)
        wrong = float(chances @ (1 - weights[:, 0] / weights.sum(axis=1)))
        assert wrong <= softmin_failure(3, 20, 0.3 - 1e-12, scale, realizable=realizable)
        if scale == 0.3:  # models claimed to be half as bad again as they are
            assert wrong > softmin_failure(3, 20, 0.45, scale, realizable=realizable) or len(joint) == 3


@pytest.mark.parametrize("joint", [{(0, 1): 0.5, (1, 0): 0.5}, {(0, 1): 0.3, (1, 0): 0.2, (0, 0): 0.5}])
def test_exact_mismatch_and_failure_of_the_pair_rule(joint):
    means, chances = mean_laws(30, joint)
    gaps = means[:, 0] - means[:, 1]
    places = np.clip((gaps[:, None] / 0.4 + 1) / 2, 0, 1)
    exact = float(chances @ np.abs(places - places.T) @ chances)
    assert exact <= pair_rho(30, 0.4)
    means, chances = mean_laws(30, {(0, 1): 0.6, (1, 0): 0.4})
    gaps = means[:, 1] - means[:, 0]
    wrong = float(chances @ np.clip((1 - gaps / 0.2) / 2, 0, 1))
    assert wrong <= pair_failure(30, 0.2 - 1e-12, 0.2) <= 1.2 * wrong


def test_the_pair_rule_differs_exactly_as_often_as_its_gaps(rng):
    first, second = np.array([0.42, 0.4]), np.array([0.4, 0.43])
    tapes = [Tape("pair").branch(i) for i in range(4000)]
    differ = sum(pair_choice(first, 0.1, tape) != pair_choice(second, 0.1, tape) for tape in tapes)
    assert below(differ, 4000) <= 0.25 <= above(differ, 4000)


def test_the_threshold_rule_differs_as_the_symmetric_differences_say(rng):
    first, second, width = rng.random((2, 6)), rng.random((2, 6)), 0.3
    first, second = 0.3 * first[0], 0.3 * second[0]
    start = min(first.min(), second.min())
    grid = start + width * (np.arange(20_000) + 0.5) / 20_000
    inside = [(means[:, None] <= grid) for means in (first, second)]
    expected = np.mean((inside[0] ^ inside[1]).sum(axis=0) / (inside[0] | inside[1]).sum(axis=0))
    tapes = [Tape("threshold").branch(i) for i in range(4000)]
    picks = [[threshold_choice(m, width, t, realizable=False) for m in (first, second)] for t in tapes]
    differ = sum(one != two for one, two in picks)
    assert below(differ, 4000) <= expected <= above(differ, 4000)


# Measured at the smallest size


@pytest.mark.parametrize("sample", [equal, camps, chain, one_good])
def test_mismatch_at_the_smallest_size_given_both_samples(sample, rng):
    """10⁴ pairs; given the two samples the mismatch over tapes is known exactly."""
    rows = WAYS["exponential"].rows(HEADLINE, RHO)
    scale = WAYS["exponential"].width(HEADLINE, rows)
    mismatch = []
    for _ in range(100):
        means = np.array([sample(rng, rows, 100) for _ in range(200)]).reshape(2, 100, 100)
        mismatch.append(softmin_mismatch(means[0], means[1], scale))
    mismatch = np.concatenate(mismatch)
    standard_error = mismatch.std() / math.sqrt(mismatch.size)
    assert mismatch.mean() + 5 * standard_error <= RHO
    if sample is equal:
        assert mismatch.mean() >= 0.95 * RHO  # the bound has almost no slack left


@pytest.mark.parametrize(
    ("sample", "way", "problem"),
    [
        (equal, "exponential", HEADLINE),
        (equal, "delayed", HEADLINE),
        (chain, "threshold", HEADLINE),
        (perfect_and_near, "exponential", PERFECT),
        (perfect_and_near, "threshold", PERFECT),
        (camps, "pair", ChoiceProblem(2, 0.05, 0.05, realizable=False)),
        (equal, "pair", ChoiceProblem(2, 0.05, 0.05, realizable=False)),
    ],
)
def test_two_laboratories_choose_the_same_and_private_coins_do_not(sample, way, problem, rng):
    differ, _ = run_pairs(sample, way, problem, rng, 500)
    assert below(differ, 500) <= RHO
    twin, _ = run_pairs(sample, way, problem, rng, 300, private=True)
    assert below(twin, 300) > RHO


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exponential", "threshold"])
@pytest.mark.parametrize("sample", [equal, camps, chain, one_good])
def test_ten_thousand_pairs_agree(sample, way, rng):
    differ, other = run_pairs(sample, way, HEADLINE, rng, 10_000)
    assert (below if sample is equal and way == "exponential" else above)(differ, 10_000) <= RHO
    if sample is one_good:
        assert below(other, 10_000) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exponential", "threshold"])
@pytest.mark.parametrize("sample", [perfect_and_near, perfect_and_bad])
def test_ten_thousand_pairs_agree_with_a_perfect_model(sample, way, rng):
    differ, other = run_pairs(sample, way, PERFECT, rng, 10_000)
    assert below(differ, 10_000) <= RHO
    if sample is perfect_and_bad:
        assert below(other, 10_000) <= 0.05


def test_a_third_of_the_rows_would_not_do(rng):
    rows = WAYS["exponential"].rows(HEADLINE, RHO)
    differ, _ = run_pairs(equal, "exponential", HEADLINE, rng, 1500, rows=rows // 3)
    assert below(differ, 1500) > RHO


@pytest.mark.parametrize(
    ("sample", "way", "problem"),
    [
        (one_good, "exponential", HEADLINE),
        (one_good, "delayed", HEADLINE),
        (one_good, "threshold", HEADLINE),
        (perfect_and_bad, "exponential", PERFECT),
        (perfect_and_bad, "threshold", PERFECT),
        (one_good, "pair", ChoiceProblem(2, 0.05, 0.05, realizable=False)),
    ],
)
def test_a_bad_model_is_chosen_rarely(sample, way, problem, rng):
    _, other = run_pairs(sample, way, problem, rng, 500)
    assert below(other, 500) <= problem.beta


def test_a_scale_twice_too_wide_chooses_bad_models(rng):
    rows = WAYS["exponential"].rows(HEADLINE, RHO)
    scale = 2 * WAYS["exponential"].width(HEADLINE, rows)
    wrong = sum(
        WAYS["exponential"].pick(HEADLINE, one_good(rng, rows, 100), scale, Tape("wide").branch(i)) != 0
        for i in range(300)
    )
    assert below(wrong, 300) > HEADLINE.beta


# Delayed clocks


def delayed_picks(means, scale, exponentials):
    return np.argmin(np.log(0.05 / means.shape[1] + exponentials) + means / scale, axis=1)


@pytest.mark.parametrize("sample", [equal, camps, chain, one_good])
def test_ten_thousand_pairs_of_delayed_clocks_agree(sample, rng):
    rows = WAYS["delayed"].rows(HEADLINE, RHO)
    scale = WAYS["delayed"].width(HEADLINE, rows)
    exponentials = rng.exponential(size=(10_000, 100))
    picks = []
    for _ in range(2):
        means = np.array([sample(rng, rows, 100) for _ in range(10_000)])
        picks.append(delayed_picks(means, scale, exponentials))
    differ, other = int((picks[0] != picks[1]).sum()), int((picks[0] != 0).sum())
    assert below(differ, 10_000) <= RHO
    if sample is equal:
        assert above(differ, 10_000) >= 0.97 * RHO  # the bound has almost no slack left
    if sample is one_good:
        assert below(other, 10_000) <= HEADLINE.beta
    private = delayed_picks(means, scale, rng.exponential(size=(10_000, 100)))
    if sample is equal:
        assert below(int((picks[0] != private).sum()), 10_000) > RHO


def test_delayed_clocks_are_the_rule_of_the_tape(rng):
    means = rng.random(7)
    tape = Tape("delayed")
    expected = delayed_picks(means[None], 0.2, tape.branch("delayed").exponentials(7)[None])[0]
    assert delayed_choice(means, 0.2, tape) == expected


@pytest.mark.parametrize(("models", "nats"), [(3, 4.0), (100, 7.0), (100, 8.5)])
def test_the_failure_of_delayed_clocks_without_sampling_noise(models, nats):
    """One model ahead of all others by so many scales: the probability that it loses is known."""
    ratio, delay = math.exp(nats), 0.05 / models
    exact = math.exp(-delay * (ratio - 1)) * (models - 1) / (models - 1 + ratio)
    bound = delayed_failure(models, 10**12, 0.1 - 1e-12, 0.1 / nats)
    assert exact <= bound <= 1.12 * exact


@pytest.mark.parametrize("joint", JOINTS)
def test_delayed_clocks_on_small_samples_are_within_the_bound(joint, rng):
    means, chances = mean_laws(12, JOINTS[joint])
    drawn = rng.choice(len(means), p=chances, size=(2, 40_000))
    exponentials = rng.exponential(size=(40_000, 3))
    first, second = (delayed_picks(means[rows], 0.6, exponentials) for rows in drawn)
    assert below(int((first != second).sum()), 40_000) <= delayed_rho(3, 12, 0.6)


# Amplification


def test_amplified_choices_agree_and_are_good(rng):
    problem = ChoiceProblem(3, 0.3, 0.2, realizable=False)
    plan = amplified_plan(problem, 0.3)
    loss = np.array([0.5, 0.5, 0.81])
    differ = wrong = 0
    for i in range(25):
        blocks = rng.binomial(plan.block_rows, loss, (2, plan.blocks, 3)) / plan.block_rows
        picks = [amplified_by_means(block, plan, Tape("amplified").branch(i)) for block in blocks]
        differ += picks[0] != picks[1]
        wrong += picks[0] == 2
    assert below(differ, 25) <= 0.3
    assert below(wrong, 25) <= 0.2


def test_the_amplified_method_through_the_door(rng):
    ask = {"accuracy": 0.4, "rho": 0.5, "beta": 0.3, "method": "amplified"}
    rows = sample_size("choose", models=2, **ask)
    losses = rng.random((rows, 2)) < [0.9, 0.2]
    result = choose(losses, **ask, tape=Tape("study-7"))
    assert result == 1
    assert result.details["blocks"] * result.details["block_rows"] == rows
    with pytest.raises(NotEnoughRows) as refusal:
        choose(losses[:-1], **ask, tape=Tape("study-7"))
    assert refusal.value.needed == rows


# The function


def test_the_result_is_an_index_with_its_promise(rng):
    ask = {"accuracy": 0.2, "rho": 0.2, "beta": 0.1}
    rows = sample_size("choose", models=4, **ask)
    losses = rng.random((rows, 4)) < [0.6, 0.1, 0.7, 0.6]
    result = choose(losses, **ask, tape=Tape("study-7"))
    assert ["a", "b", "c", "d"][result] == "b"
    assert (result.guarantee.rho, result.beta, result.rows) == (0.2, 0.1, rows)
    assert result.tape == "tape:holdfast-1:study-7"
    with pytest.raises(NotEnoughRows) as refusal:
        choose(losses[:-1], **ask, tape=Tape("study-7"))
    assert (refusal.value.needed, refusal.value.got) == (rows, rows - 1)


def test_more_rows_do_not_change_the_rule(rng):
    ask = {"accuracy": 0.2, "rho": 0.2, "beta": 0.1}
    rows = sample_size("choose", models=3, **ask)
    losses = rng.random((2 * rows, 3))
    losses[rows:, 0] = 0.0
    few, many = (choose(losses[:size], **ask, tape=Tape("study-7")) for size in (rows, 2 * rows))
    assert few == many
    assert few.rows == many.rows == rows


def test_best_effort_reports_the_weaker_promise(rng):
    ask = {"accuracy": 0.2, "rho": 0.05, "beta": 0.1}
    needed = sample_size("choose", models=3, **ask)
    results = [
        choose(rng.random((rows, 3)), **ask, tape=Tape("study-7"), best_effort=True)
        for rows in (needed, needed // 4, needed // 100, 2)
    ]
    promises = [result.guarantee.rho for result in results]
    assert promises[0] == 0.05
    assert promises == sorted(promises)
    assert promises[1] == pytest.approx(0.1, rel=0.05)
    assert promises[-1] == 1.0
    assert [result.details["width"] for result in results] == [results[0].details["width"]] * 4
    assert results[0].beta == 0.1 < results[1].beta < results[-1].beta


def test_one_model_needs_no_promise():
    result = choose([[0.5]], accuracy=0.1, rho=0.1, beta=0.1, tape=Tape("study-7"))
    assert (result, result.guarantee.rho) == (0, 0.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"losses": [0.1, 0.2]},
        {"losses": [[0.1, 1.2]]},
        {"losses": [[0.1, math.nan]]},
        {"losses": [["a", "b"]]},
        {"losses": np.empty((0, 2))},
        {"accuracy": 0.0},
        {"accuracy": math.nan},
        {"rho": 0.0},
        {"beta": 1.0},
        {"realizable": 1},
        {"realizable": True},
        {"method": "pairs"},
        {"method": "pair"},
        {"tape": "study-7"},
    ],
)
def test_bad_arguments_are_named(changed):
    ask = {"losses": np.full((50, 3), 0.5), "accuracy": 0.1, "rho": 0.1, "beta": 0.1, "tape": Tape("study-7")}
    with pytest.raises(InvalidArgument) as refusal:
        choose(**{**ask, **changed}, best_effort=True)
    assert refusal.value.argument in {*changed, "losses"}


def test_kinds_of_numbers_do_not_matter(rng):
    errors = rng.random((2000, 3)) < [0.5, 0.3, 0.4]
    ask = {"accuracy": 0.2, "rho": 0.3, "beta": 0.2, "tape": Tape("study-7"), "best_effort": True}
    tables = (
        errors,
        errors.astype(np.int8),
        errors.astype(np.float32),
        errors.tolist(),
        errors.astype(object),
    )
    assert len({int(choose(table, **ask)) for table in tables}) == 1


def test_golden_choices_never_change():
    means = np.array([0.31, 0.30, 0.32, 0.3, 0.33, 0.305])
    problem = ChoiceProblem(6, 0.05, 0.05, realizable=False)
    tapes = [Tape("golden").branch(i) for i in range(8)]
    assert [WAYS["exponential"].pick(problem, means, 0.02, tape) for tape in tapes] == GOLDEN["exponential"]
    assert [WAYS["threshold"].pick(problem, means, 0.04, tape) for tape in tapes] == GOLDEN["threshold"]
    assert [WAYS["delayed"].pick(problem, means, 0.02, tape) for tape in tapes] == GOLDEN["delayed"]
    assert [pair_choice(means[:2], 0.03, tape) for tape in tapes] == GOLDEN["pair"]


def test_the_choice_depends_on_the_means_alone(rng):
    problem = ChoiceProblem(5, 0.3, 0.2, realizable=False)
    table = rng.random((400, 5))
    design = choice_design(problem, 0.3)
    expected = design.choose(table.mean(axis=0), 400, Tape("study-7"), best_effort=True)
    result = choose(table, accuracy=0.3, rho=0.3, beta=0.2, tape=Tape("study-7"), best_effort=True)
    assert result == expected
