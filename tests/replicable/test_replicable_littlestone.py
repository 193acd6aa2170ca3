"""Littlestone dimension, the standard optimal algorithm, and learning from lists."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learning_lists import band_of, law_of, pick, run_pairs

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import (
    StandardOptimal,
    Tape,
    learn_littlestone,
    list_heavy_hitter,
    littlestone_dimension,
    sample_size,
)

NATS = math.log(1e5)
CLASSES = st.integers(1, 5).flatmap(
    lambda points: st.lists(st.tuples(*[st.integers(0, 1)] * points), min_size=1, max_size=12)
)


def dimension_by_definition(hypotheses):
    """The largest d with a point that both labels keep a class of dimension d − 1."""
    hypotheses = set(hypotheses)
    if not hypotheses:
        return -1
    deepest = 0
    for point in range(len(next(iter(hypotheses)))):
        halves = [{h for h in hypotheses if h[point] == label} for label in (0, 1)]
        if all(halves):
            deepest = max(deepest, 1 + min(map(dimension_by_definition, halves)))
    return deepest


@given(CLASSES)
def test_the_dimension_is_the_definition(hypotheses):
    assert littlestone_dimension(hypotheses) == dimension_by_definition(hypotheses)


def test_known_dimensions():
    assert littlestone_dimension([[0, 1, 0]]) == 0
    assert littlestone_dimension(np.eye(9)) == 1  # points
    assert littlestone_dimension(np.array(list(product((0, 1), repeat=5)))) == 5  # all labellings
    for points in (1, 3, 7, 8, 63, 64, 200):  # thresholds: ⌊log₂ of their number⌋
        assert littlestone_dimension(np.tri(points + 1, points, -1)) == (points + 1).bit_length() - 1
    intervals = [[low <= point < high for point in range(6)] for low in range(6) for high in range(low, 7)]
    expected = dimension_by_definition({tuple(map(int, h)) for h in intervals})
    assert littlestone_dimension(intervals) == expected


def most_mistakes(hypotheses, learner_of):
    """What the worst adversary forces, over every order of points and every consistent labelling."""
    hypotheses = tuple(sorted(set(hypotheses)))
    points = range(len(hypotheses[0]))

    def worst(seen):
        left = [h for h in hypotheses if all(h[p] == label for p, label in seen)]
        forced = 0
        for point in set(points) - {p for p, _ in seen}:
            for label in {h[point] for h in left}:
                learner = learner_of(hypotheses)
                for p, known in seen:
                    learner.update(p, known)
                mistake = learner.predict(point) != label
                forced = max(forced, mistake + worst((*seen, (point, label))))
        return forced

    return worst(())


SMALL = [
    [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)],
    list(product((0, 1), repeat=3)),
    [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)],
    [(0, 0, 1, 1), (0, 1, 0, 1), (1, 1, 1, 0), (1, 0, 0, 1), (0, 1, 1, 1)],
]


@pytest.mark.parametrize("hypotheses", SMALL)
def test_no_adversary_forces_more_mistakes_than_the_dimension(hypotheses):
    assert most_mistakes(hypotheses, StandardOptimal) == littlestone_dimension(hypotheses)


def test_an_adversary_beats_the_learner_that_takes_the_smaller_half():
    class Backwards(StandardOptimal):
        def predict(self, point):
            ones, zeros = self._shatter.split(self._left, point)
            if not ones or not zeros:
                return int(bool(ones))
            return int(self._shatter.dimension(ones) < self._shatter.dimension(zeros))

    thresholds = [tuple(int(point < t) for point in range(4)) for t in range(5)]
    assert most_mistakes(thresholds, Backwards) > littlestone_dimension(thresholds)


def test_the_learner_counts_its_mistakes_and_ends_at_the_truth(rng):
    classes = np.tri(33, 32, -1).astype(int)
    for truth in classes[rng.integers(0, 33, 10)]:
        learner = StandardOptimal(classes)
        wrong = sum(learner.update(int(point), int(truth[point])) for point in rng.permutation(32))
        assert wrong == learner.mistakes <= learner.dimension == 5
        assert learner.hypothesis() == tuple(truth)


def test_a_label_that_no_hypothesis_gives_is_refused():
    learner = StandardOptimal([[0, 0], [1, 1]])
    learner.update(0, 1)
    with pytest.raises(InvalidArgument, match="label"):
        learner.update(1, 0)
    with pytest.raises(InvalidArgument, match="point"):
        learner.predict(2)


@pytest.mark.parametrize("classes", [[], [[]], [0, 1], [[0, 2]], [[0, math.nan]], "01", [["a"]]])
def test_classes_are_tables_of_zero_and_one(classes):
    with pytest.raises(InvalidArgument, match="classes"):
        littlestone_dimension(classes)


# Learning from lists

SETTING = {"list_rows": 12, "list_size": 9, "eta": 0.6, "bad": 0.05, "rho": 0.3, "beta": 0.1}


def consistent(x, y):
    return [threshold for threshold in range(9) if ((x < threshold) == y).all()]


def test_two_laboratories_learn_the_same_hypothesis(rng):
    """The truth is 5; 4 and 6 also agree with a block of 12 rows that misses a point, one in five."""
    rows = sample_size("learn_littlestone", **SETTING)
    differ = far = 0
    for i in range(4):
        samples = rng.integers(0, 8, (2, rows))
        found = [
            learn_littlestone(consistent, x, x < 5, **SETTING, tape=Tape("lists").branch(i)) for x in samples
        ]
        differ += found[0] != found[1]
        far += found[0] not in (4, 5, 6)
    assert clopper_pearson(differ, 4, NATS).low <= 0.3
    assert clopper_pearson(far, 4, NATS).low <= 0.1


def everything_in_common(x, y):
    return [4, 5, 6]


def near_the_band(x, y):
    """Two hypotheses on just over η of the lists: ties at the edge of the promise."""
    return [4, 5] if x[0] < 5 else [3]


@pytest.mark.parametrize("lists", [consistent, everything_in_common, near_the_band])
def test_ten_thousand_pairs_agree_through_the_law_of_the_lists(lists, rng):
    ask = {name: SETTING[name] for name in ("eta", "rho", "beta", "list_size")}

    def block():
        x = rng.integers(0, 8, SETTING["list_rows"])
        return lists(x, x < 5)

    kinds, chances = law_of(block, 2000)
    _, (first, second) = run_pairs(kinds, chances, rng, 10_000, **ask)
    assert clopper_pearson(int((first != second).sum()), 10_000, NATS).high <= 0.3
    assert clopper_pearson(int((first < 0).sum()), 10_000, NATS).high <= 0.1
    if lists is everything_in_common:
        _, (first, second) = run_pairs(kinds, chances, rng, 2000, **ask, private=True)
        assert clopper_pearson(int((first != second).sum()), 2000, NATS).low > 0.3


def test_the_law_of_the_lists_is_what_the_function_sees(rng):
    ask = {name: SETTING[name] for name in ("eta", "rho", "beta", "list_size")}
    rows, low, width = band_of(**ask)
    assert SETTING["eta"] / 2 < low < low + width < SETTING["eta"]
    lists = [tuple(np.flatnonzero(rng.random(6) < 0.55).tolist()) for _ in range(rows)]
    shares = np.array([[sum(h in kind for kind in lists) / rows for h in range(6)]])
    for i in range(10):
        own = Tape("law").branch(i).branch("list_heavy_hitter")
        cutoff = low + width * own.uniforms(1)
        # The name of a whole number is the letter i and its digits.
        order = own.named_words([f"i{h}" for h in range(6)])[None].astype(float)
        found = list_heavy_hitter(lists, **ask, tape=Tape("law").branch(i)).value
        assert (-1 if found is None else found) == pick(shares, cutoff, order)[0]


def test_private_coins_learn_different_ones(rng):
    """Three hypotheses on almost every list: which one is returned is the tape's doing."""

    def three(x, y):
        return [4, 5, 6]

    x = rng.integers(0, 8, sample_size("learn_littlestone", **SETTING))
    tapes = [Tape("private").branch(i) for i in range(12)]
    found = {learn_littlestone(three, x, x < 5, **SETTING, tape=tape).value for tape in tapes}
    assert found == {4, 5, 6}


def test_rows_that_do_not_suffice(rng):
    rows = sample_size("learn_littlestone", **SETTING)
    x = rng.integers(0, 8, rows - 1)
    with pytest.raises(NotEnoughRows) as refusal:
        learn_littlestone(consistent, x, x < 5, **SETTING, tape=Tape("study-7"))
    assert refusal.value.needed == rows
    weaker = learn_littlestone(consistent, x, x < 5, **SETTING, tape=Tape("study-7"), best_effort=True)
    assert weaker.guarantee.rho > 0.3
    with pytest.raises(NotEnoughRows):
        learn_littlestone(consistent, x[:5], x[:5] < 5, **SETTING, tape=Tape("study-7"), best_effort=True)


@pytest.mark.parametrize(
    "changed",
    [{"bad": 0.3}, {"eta": 1.5}, {"list_rows": 0}, {"rho": 0}, {"beta": math.nan}, {"list_size": 0.5}],
)
def test_bad_arguments_are_named(changed):
    with pytest.raises(InvalidArgument) as refusal:
        sample_size("learn_littlestone", **{**SETTING, **changed})
    assert refusal.value.argument in changed
