"""Algorithm 9 with learners that keep and break their promises, and the examples they need."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.barriers import (
    agnostic_bound,
    marginals_from_learner,
    overflow_probability,
    sign_one_way_marginals_bound,
)
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.replicable import Tape, choose, sample_size
from holdfast.stability import Replicability

NATS = math.log(1e4)


def signs(rng, rows, p):
    return np.where(rng.random((rows, len(p))) < (1.0 + np.asarray(p)) / 2.0, 1, -1)


def agreeing(width):
    """An agnostic learner on d points: the mean label at each point against a shared threshold."""

    def learn(points, labels, tape):
        d = int(points.max()) + 1
        counts = np.maximum(np.bincount(points, minlength=d), 1)
        mean = np.bincount(points, labels, minlength=d) / counts
        return np.where(mean < width * (tape.uniforms(d) - 0.5), -1.0, 1.0)

    return learn


def test_each_example_gets_a_new_entry_of_its_own_column():
    table = np.where(np.arange(7 * 40).reshape(40, 7) % 3 == 0, 1, -1)
    seen = {}

    def remember(points, labels, tape):
        seen.update(points=points, labels=labels)
        return np.zeros(7)

    marginals_from_learner(table, remember, examples=100, tape=Tape("study-7"))
    for point in range(7):
        mine = seen["labels"][seen["points"] == point]
        assert mine.tolist() == table[: len(mine), point].tolist()


def test_the_labels_look_like_examples_drawn_afresh(seed):
    """For each point the share of positive labels is that of its column."""
    p, rng = np.array([0.8, -0.5, 0.0]), np.random.default_rng(seed)
    total = np.zeros((3, 2))
    for k in range(400):

        def count(points, labels, tape):
            for j in range(3):
                total[j] += (labels[points == j] == 1).sum(), (points == j).sum()
            return np.ones(3)

        marginals_from_learner(signs(rng, 40, p), count, examples=60, tape=Tape(f"{seed}-{k}"))
    for (ones, n), mean in zip(total, p, strict=True):
        inside = clopper_pearson(int(ones), int(n), NATS)
        assert inside.low <= (1.0 + mean) / 2.0 <= inside.high
    assert clopper_pearson(int(total[0, 1]), int(total[:, 1].sum()), NATS).low <= 1 / 3


def run_pairs(p, rows, examples, width, pairs, seed, *, shared=True):
    """How often two laboratories differ, and how often the average loss is above 0.3."""
    rng, learner = np.random.default_rng(seed), agreeing(width)
    differ = missed = 0
    for k in range(pairs):
        first, second = Tape(f"{seed}-{k}"), Tape(f"{seed}-{k}" if shared else f"{seed}-other-{k}")
        one = marginals_from_learner(signs(rng, rows, p), learner, examples=examples, tape=first)
        two = marginals_from_learner(signs(rng, rows, p), learner, examples=examples, tape=second)
        differ += not np.array_equal(one.value, two.value)
        missed += bool((np.abs(p) - one.value * p).mean() > 0.3)
    return differ, missed


def direct_mismatch(p, examples, width, pairs, seed):
    """The learner's own mismatch: independent examples, the points drawn afresh as well, the same coins."""
    rng, learner, d = np.random.default_rng([seed, 1]), agreeing(width), len(p)
    differ = 0
    for k in range(pairs):
        outputs = []
        for _ in range(2):
            points = np.concatenate([np.arange(d), rng.integers(0, d, examples - d)])
            labels = np.where(rng.random(examples) < (1.0 + p[points]) / 2.0, 1, -1)
            outputs.append(learner(points, labels, Tape(f"{seed}-{k}").branch("learner")))
        differ += not np.array_equal(*outputs)
    return differ


def test_algorithm_9_is_as_replicable_as_its_learner(seed):
    """Shared points can only help: SIS charges 0.0002 more for them."""
    p, rows, examples, width, pairs = np.array([0.3, -0.2, 0.1, 0.0]), 130, 400, 2.0, 1200
    differ, missed = run_pairs(p, rows, examples, width, pairs, seed)
    own = direct_mismatch(p, examples, width, pairs, seed)
    assert clopper_pearson(differ, pairs, NATS).low <= clopper_pearson(own, pairs, NATS).high
    assert missed == 0
    twin, _ = run_pairs(p, rows, examples, width, 200, seed, shared=False)
    assert clopper_pearson(twin, 200, NATS).low > clopper_pearson(own, pairs, NATS).high


def test_shared_points_only_help_by_enumeration(seed):
    """Two points, three examples, any learner: agreement with shared points ≥ with fresh ones (Jensen)."""
    rng = np.random.default_rng(seed)
    p = np.array([0.4, -0.7])
    cases = list(itertools.product(itertools.product((0, 1), repeat=3), itertools.product((-1, 1), repeat=3)))
    chance = np.array([np.prod([(1 + y * p[x]) / 4 for x, y in zip(*case, strict=True)]) for case in cases])
    strict = 0
    for _ in range(50):
        output = rng.integers(0, 3, size=len(cases))
        fresh = sum(chance[output == v].sum() ** 2 for v in range(3))
        shared = 0.0
        for points in itertools.product((0, 1), repeat=3):
            mine = np.array([case[0] == points for case in cases])
            shared += sum((chance[mine & (output == v)].sum()) ** 2 for v in range(3)) * 8
        assert shared >= fresh - 1e-12
        strict += shared > fresh + 1e-6
    assert strict > 0


def test_a_point_that_runs_out_of_rows_ends_in_ones():
    found = marginals_from_learner(
        -np.ones((2, 3)), lambda points, labels, tape: -np.ones(3), examples=50, tape=Tape("study-7")
    )
    assert found.overflow
    assert found.value.tolist() == [1.0, 1.0, 1.0]
    assert found.overflow_probability == 1.0


@pytest.mark.parametrize(("d", "rows", "examples"), [(2, 3, 4), (3, 2, 5), (4, 3, 6)])
def test_the_overflow_bound_by_enumeration(d, rows, examples):
    draws = np.array(list(itertools.product(range(d), repeat=examples)))
    counts = (draws[:, :, None] == np.arange(d)).sum(axis=1)
    exact = float((counts.max(axis=1) > rows).mean())
    union = d * float((counts[:, 0] > rows).mean())
    bound = overflow_probability(d, rows=rows, examples=examples)
    assert exact <= bound
    assert bound == pytest.approx(min(1.0, union), rel=1e-6)


def test_overflow_at_its_ends():
    assert overflow_probability(5, rows=7, examples=7) == 0.0
    assert overflow_probability(1, rows=7, examples=8) == 1.0
    assert overflow_probability(10, rows=9, examples=10**6) == 1.0


def test_examples_grow_with_the_square_of_the_dimension():
    stability = Replicability(0.001)
    found = [
        agnostic_bound(vc, accuracy=0.01, beta=0.001, stability=stability) for vc in (10**3, 10**4, 10**5)
    ]
    slopes = np.diff(np.log10(found))
    assert slopes == pytest.approx([2.0, 2.0], abs=0.02)


def test_the_bound_contradicts_itself_nowhere():
    """One example fewer would give signs from fewer rows than the bound on signs allows."""
    vc, stability = 50, Replicability(0.05)
    examples = agnostic_bound(vc, accuracy=0.05, beta=0.01, stability=stability) - 1
    refuted = []
    for overflow in np.geomspace(1e-6, 0.1, 11):
        rows = sign_one_way_marginals_bound(vc, accuracy=0.1, beta=0.01 + overflow, stability=stability) - 1
        refuted.append(overflow_probability(vc, rows=rows, examples=examples) <= overflow)
    assert any(refuted)
    assert examples > 10_000


def chooser(d, promise):
    """``replicable.choose`` over all 2^d sign patterns on d points: a class of VC dimension d."""
    patterns = np.array(list(itertools.product((-1, 1), repeat=d)))

    def learn(points, labels, tape):
        wrong = labels[:, None] != patterns[:, points].T
        return patterns[int(choose(wrong, tape=tape, **promise))]

    return learn


def test_algorithm_9_with_a_replicable_learner_of_this_package(seed):
    d, promise = 3, {"accuracy": 0.2, "rho": 0.3, "beta": 0.1}
    examples = sample_size("choose", models=2**d, **promise)
    rows = math.ceil(1.2 * examples / d)
    p, rng, pairs = np.array([0.8, -0.5, 0.02]), np.random.default_rng(seed), 60
    differ = missed = 0
    for k in range(pairs):
        one, two = (
            marginals_from_learner(
                signs(rng, rows, p), chooser(d, promise), examples=examples, tape=Tape(f"{seed}-{k}")
            )
            for _ in range(2)
        )
        assert not one.overflow
        differ += not np.array_equal(one.value, two.value)
        missed += bool((np.abs(p) - one.value * p).mean() > 2 * promise["accuracy"])
    assert clopper_pearson(differ, pairs, NATS).low <= promise["rho"]
    assert clopper_pearson(missed, pairs, NATS).low <= promise["beta"] + one.overflow_probability


@pytest.mark.parametrize("vc", [1, 3, 8, 20])
@pytest.mark.parametrize(
    ("accuracy", "rho", "beta"), [(0.01, 1e-3, 1e-3), (0.1, 0.1, 0.01), (0.02, 0.3, 0.001)]
)
def test_the_learner_of_this_package_reads_more_examples_than_the_bound(vc, accuracy, rho, beta):
    enough = sample_size("choose", models=2**vc, accuracy=accuracy, rho=rho, beta=beta)
    assert agnostic_bound(vc, accuracy=accuracy, beta=beta, stability=Replicability(rho)) <= enough


def test_a_grid_learner_reads_more_examples_than_the_bound():
    """Thresholds on d points with n/d labels each mismatch d·1.13√(d/n)/w times at most and lose w/4."""
    for d, rho, alpha in ((10, 0.1, 0.1), (200, 0.02, 0.05)):
        width = 2.0 * alpha
        examples = d * (1.13 * 2 * d / (rho * width)) ** 2
        assert agnostic_bound(d, accuracy=alpha, beta=0.01, stability=Replicability(rho)) <= examples


@given(st.integers(1, 10**5), st.floats(0.005, 0.2), st.floats(0.0, 0.05), st.floats(1e-4, 0.3))
def test_laws(vc, accuracy, beta, rho):
    found = agnostic_bound(vc, accuracy=accuracy, beta=beta, stability=Replicability(rho))
    assert agnostic_bound(2 * vc, accuracy=accuracy, beta=beta, stability=Replicability(rho)) >= found
    assert agnostic_bound(vc, accuracy=1.2 * accuracy, beta=beta, stability=Replicability(rho)) <= found
    assert agnostic_bound(vc, accuracy=accuracy, beta=beta, stability=Replicability(1.5 * rho)) <= found


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("samples", {"samples": np.zeros((4, 2))}),
        ("learner", {"learner": lambda points, labels, tape: [2.0, 0.0]}),
        ("learner", {"learner": lambda points, labels, tape: lambda points: [float("nan")] * 2}),
        ("examples", {"examples": 0}),
        ("tape", {"tape": 7}),
    ],
)
def test_bad_arguments(argument, changed):
    arguments = {
        "samples": np.ones((40, 2)),
        "learner": lambda points, labels, tape: [1.0, 1.0],
        "examples": 20,
        "tape": Tape("study-7"),
    }
    with pytest.raises(InvalidArgument) as caught:
        marginals_from_learner(**{**arguments, **changed})
    assert caught.value.argument == argument


def test_only_replicability_bounds_learners_here():
    with pytest.raises(InvalidArgument, match="stability"):
        agnostic_bound(10, accuracy=0.01, beta=0.01, stability=0.1)
