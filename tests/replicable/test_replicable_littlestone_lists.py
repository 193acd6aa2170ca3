"""The list learner for Littlestone classes: reduction trees, their sizes, and the learner built on them."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from learning_lists import law_of, run_pairs
from replicable_pairs import clearly_above, not_above

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, learn_littlestone, plan_littlestone, sample_size
from holdfast.replicable import _learn_littlestone as sizes
from holdfast.replicable._littlestone import Reduction, Shatter, most_leaves

PROMISE = {"accuracy": 0.3, "rho": 0.3, "beta": 0.2}


def sparse(points, most):
    """All labellings with at most so many ones: dimension ``most``."""
    return np.array(
        [
            [int(i in ones) for i in range(points)]
            for k in range(most + 1)
            for ones in combinations(range(points), k)
        ]
    )


def common_hypothesis(reduction, small, spare, depth, steady):
    """What the lists of every class between ``small`` and ``small`` with all ``spare`` have in common."""
    common = None
    for chosen in range(1 << len(spare)):
        between = small | sum(1 << bit for place, bit in enumerate(spare) if chosen >> place & 1)
        listed = set(reduction.hypotheses(between, depth, steady))
        common = listed if common is None else common & listed
        if not common:
            break
    return common


def lists_without_a_common_hypothesis(points, depth, steady, below, seed, trials=60, missing=5):
    """Among pairs of classes whose reached dimensions agree, those with two lists that share nothing."""
    rng = np.random.default_rng(seed)
    shatter = Shatter(sparse(points, 2), of="test")
    reduction = Reduction(shatter)
    looked = broken = 0
    for _ in range(trials):
        large = shatter.part_of(rng.random(len(shatter.table)) < 0.8)
        members = [bit for bit in range(len(shatter.table)) if large >> bit & 1]
        spare = rng.choice(members, missing, replace=False).tolist()
        small = large & ~sum(1 << bit for bit in spare)
        reached = reduction.reached(large, depth)
        if reduction.reached(small, below) != reached or reached == 0:
            continue
        looked += 1
        broken += not common_hypothesis(reduction, small, spare, depth, steady)
    return looked, broken


@pytest.mark.parametrize(("points", "depth", "steady"), [(5, 0, 1), (6, 0, 1), (6, 0, 2), (7, 1, 1)])
def test_every_class_between_two_lists_the_same_hypothesis(points, depth, steady):
    """The theorem by enumeration: all classes between two whose reached dimensions agree."""
    trials = 12 if points == 7 else 60
    looked, broken = lists_without_a_common_hypothesis(points, depth, steady, 2 * depth + steady, 1, trials)
    assert looked >= 4
    assert broken == 0


@pytest.mark.parametrize(("points", "depth", "steady"), [(5, 0, 1), (6, 0, 2)])
def test_without_the_deeper_tree_lists_part(points, depth, steady):
    """The twin compares both classes at one depth: then some lists have nothing in common."""
    looked, broken = lists_without_a_common_hypothesis(points, depth, steady, depth, 1)
    assert looked >= 4
    assert broken > 0


def leaves_of_the_best_tree(shatter, part, depth):
    """The most leaves, none empty, that a tree of this depth has on the part."""
    if depth == 0 or not part:
        return int(bool(part))
    counts = [
        sum(leaves_of_the_best_tree(shatter, side, depth - 1) for side in shatter.split(part, point))
        for point in range(shatter.points)
    ]
    return max(counts)


def test_a_tree_has_no_more_leaves_than_the_sum_of_binomials(rng):
    for _ in range(40):
        shatter = Shatter(rng.integers(0, 2, (rng.integers(2, 12), 4)), of="test")
        dimension = shatter.dimension(shatter.everything)
        for depth in range(5):
            assert leaves_of_the_best_tree(shatter, shatter.everything, depth) <= most_leaves(
                depth, dimension
            )
    cube = Shatter(sparse(3, 3), of="test")
    assert leaves_of_the_best_tree(cube, cube.everything, 3) == most_leaves(3, 3) == 8


def test_what_is_listed_agrees_with_members_on_any_few_points(rng):
    """A majority of an r-irreducible class is, on any r points, a member of the class."""
    for _ in range(30):
        shatter = Shatter(sparse(7, 2)[rng.random(29) < 0.8], of="test")
        reduction = Reduction(shatter)
        for steady in (1, 2, 3):
            for name in reduction.hypotheses(shatter.everything, 0, steady):
                labels = np.array(list(map(int, name)))
                for few in combinations(range(7), steady):
                    assert (shatter.table[:, few] == labels[list(few)]).all(axis=1).any()


def test_levels_hold_as_often_as_promised(rng):
    """Between its two errors every level keeps and drops what it should, on blocks of the computed size."""
    points, errs, misled = 40, 0.3, 0.2
    block, mistakes = sizes._levels(1, points, errs, misled)
    edges = [0.0, 2.0 * errs / (2.0 + math.sqrt(2.0)) ** 2, errs]
    # Two hypotheses err exactly as much as an edge has it, the rest hardly or far too much.
    law = np.full(points, (1.0 - edges[1] - errs) / (points - 2))
    law[1], law[2] = edges[1], errs
    counts = rng.multinomial(block, law, 4000)
    for level, most in enumerate(mistakes):
        keep, drop = counts[:, law <= edges[level]] > most, counts[:, law > edges[level + 1]] <= most
        failed = keep.any(axis=1) | drop.any(axis=1)
        assert not_above(failed.sum(), 4000, misled)


@pytest.mark.parametrize("method", ["choose", "consistent", "trees"])
def test_two_laboratories_learn_the_same_from_the_class_alone(method, rng):
    """Single points among 30, uniform rows: every hypothesis is good, so only the tape can decide."""
    classes = np.eye(30)
    rows = sample_size("learn_littlestone", classes=classes, method=method, **PROMISE)
    runs, differ, bad = 4 if method == "trees" else 12, 0, 0
    for i in range(runs):
        values = []
        for x in rng.integers(0, 30, (2, rows)):
            tape = Tape("class alone").branch(i)
            values.append(learn_littlestone(classes, x, x == 7, tape=tape, method=method, **PROMISE).value)
        differ += values[0] != values[1]
        bad += sum(value != label for value, label in zip(values[0], np.eye(30)[7], strict=True)) > 9
    assert not_above(differ, runs, PROMISE["rho"])
    assert not_above(bad, runs, PROMISE["beta"])


def tree_lists(points, law, trees, block, rng):
    """One block's list by reduction trees, for single points and the truth at point 0."""
    shatter = Shatter(np.eye(points), of="test")
    reduction = Reduction(shatter)

    def draw():
        counts = rng.multinomial(block, law)
        wrong = (counts + counts[0]) * (np.arange(points) > 0)
        by_row = wrong[shatter.table.argmax(axis=1)]
        listed = set()
        for most, depth in zip(trees.mistakes, trees.depths, strict=True):
            listed.update(reduction.hypotheses(shatter.part_of(by_row <= most), depth, trees.steady))
        return listed

    return draw


def test_ten_thousand_pairs_agree_through_the_law_of_tree_lists(rng):
    """Most rows at the point that the truth marks, the rest spread over the others."""
    points = 24
    law = np.full(points, 0.3 / (points - 1))
    law[0] = 0.7
    way, trees = sizes.tree_way(1, points, points, **PROMISE)
    kinds, chances = law_of(tree_lists(points, law, trees, way.list_rows, rng), 500)
    ask = {"eta": way.eta, "rho": 0.3, "beta": 0.2, "list_size": way.list_size}
    assert max(map(len, kinds)) <= way.list_size
    names, (first, second) = run_pairs(kinds, chances, rng, 10_000, **ask)
    assert not_above(int((first != second).sum()), 10_000, 0.3)
    errors = [sum(law[i] for i in range(points) if (name[i] == "1") != (i == 0)) for name in names]
    bad = np.isin(first, [i for i, error in enumerate(errors) if error > 0.3]) | (first < 0)
    assert not_above(int(bad.sum()), 10_000, 0.2)


def test_private_coins_learn_different_hypotheses(rng):
    classes = np.eye(30)
    rows = sample_size("learn_littlestone", classes=classes, method="consistent", **PROMISE)
    x = rng.integers(0, 30, rows)
    values = [
        learn_littlestone(
            classes, x, x == 7, tape=Tape("own").branch(i), method="consistent", **PROMISE
        ).value
        for i in range(40)
    ]
    differ = sum(values[i] != values[i + 1] for i in range(0, 40, 2))
    assert clearly_above(differ, 20, PROMISE["rho"])


def test_a_majority_that_is_no_member_is_learned_by_trees():
    """Among many single points the trees list the hypothesis that marks none: steady, and nearly right."""
    shatter = Shatter(np.eye(60), of="test")
    reduction = Reduction(shatter)
    assert reduction.hypotheses(shatter.everything, 0, 20) == ("0" * 60,)
    assert reduction.irreducible(shatter.everything, 58)
    assert not reduction.irreducible(shatter.everything, 59)


def test_sizes_of_every_way():
    """The table of docs/theory/littlestone.md."""
    ask = {"accuracy": 0.1, "rho": 0.1, "beta": 0.05}
    table = {
        (dimension, hypotheses): {
            way.name: way.rows
            for way in plan_littlestone(dimension=dimension, hypotheses=hypotheses, **ask).ways
        }
        for dimension, hypotheses in [(1, 1000), (1, 2**900), (1, None), (2, None)]
    }
    assert table[1, 1000] == {"choose": 27_266, "consistent": 376_950, "trees": 41_633_768}
    assert table[1, 2**900]["choose"] == 240_086_536 < table[1, None]["trees"]
    assert [f"{table[d, None]['trees']:.2g}" for d in (1, 2)] == ["4e+08", "8.6e+09"]


def test_plans_say_what_they_are_for():
    plan = plan_littlestone(np.eye(9), **PROMISE)
    assert plan.dimension == 1
    assert plan.hypotheses == 9
    assert plan.best.name == "choose"
    assert plan.to_dict()["ways"][0]["name"] == "choose"
    assert sample_size("learn_littlestone", classes=np.eye(9), **PROMISE) == plan.best.rows
    with pytest.raises(InvalidArgument, match="name"):
        plan.way("magic")
    with pytest.raises(InvalidArgument, match="hypotheses"):
        plan_littlestone(dimension=4, hypotheses=9, **PROMISE)
    with pytest.raises(InvalidArgument, match="classes"):
        plan_littlestone(np.eye(9), dimension=1, **PROMISE)
    with pytest.raises(InvalidArgument, match="dimension"):
        plan_littlestone(**PROMISE)


def test_mistakes_are_named_and_few_rows_refused(rng):
    classes = np.eye(9)
    x = rng.integers(0, 9, 5)
    ask = {**PROMISE, "tape": Tape("study-7")}
    with pytest.raises(NotEnoughRows):
        learn_littlestone(classes, x, x == 3, **ask)
    for method in ("choose", "consistent"):
        weaker = learn_littlestone(
            classes, np.tile(x, 9), np.tile(x, 9) == 3, method=method, best_effort=True, **ask
        )
        assert weaker.guarantee.rho > PROMISE["rho"]
    rows = sample_size("learn_littlestone", classes=classes, **PROMISE)
    x = rng.integers(0, 9, rows)
    with pytest.raises(InvalidArgument, match="'x'"):
        learn_littlestone(classes, x + 1, x == 3, **ask)
    with pytest.raises(InvalidArgument, match="'y'"):
        learn_littlestone(classes, x, x, **ask)
    with pytest.raises(InvalidArgument, match="labels that one hypothesis"):
        learn_littlestone(classes, x, x < 5, **ask)


def test_every_pair_of_classes_on_three_points():
    """The theorem on all pairs G ⊂ G′ of the 255 classes on three points, and every class between them."""
    shatter = Shatter(sparse(3, 3), of="test")
    reduction = Reduction(shatter)
    looked, at_zero, without, twins = 0, 0, 0, 0
    for depth, steady in [(0, 1), (0, 2), (1, 1), (2, 3)]:
        lists = {part: frozenset(reduction.hypotheses(part, depth, steady)) for part in range(1, 256)}
        for large in lists:
            reached = reduction.reached(large, depth)
            for small in parts_of(large):
                shared = frozenset.intersection(
                    *(lists[small | spare] for spare in [*parts_of(large & ~small), 0])
                )
                if reduction.reached(small, 2 * depth + steady) == reached:
                    looked += 1
                    at_zero += reached == 0
                    without += not shared
                elif reduction.reached(small, depth) == reached:
                    twins += not shared
    assert (looked > 1500, at_zero > 1000, without) == (True, True, 0)
    assert twins > 50  # compared at one depth, many lists have nothing in common


def parts_of(whole):
    """Every part of a class but the empty one."""
    part = whole
    while part:
        yield part
        part = (part - 1) & whole
