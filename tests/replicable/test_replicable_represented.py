"""Probabilistic representations: what a draw misses, and how often two laboratories differ."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from replicable_pairs import clearly_above, not_above

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, hashed_points, learn_represented, sample_size
from holdfast.replicable import _represented as represented

SETTING = {"size": 41, "miss": 0.25, "class_error": 0.1, "accuracy": 0.3, "rho": 0.2, "beta": 0.1}
LAWS = [np.full(5, 0.2), np.array([0.05, 0.5, 0.25, 0.1, 0.1]), np.array([0.9, 0.1, 0.0, 0.0, 0.0])]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("cells", "error"), [(2, 0.6), (3, 0.4), (4, 0.3)])
def test_what_a_hashed_class_misses_by_enumeration(law, cells, error):
    """All ways to deal five items to the cells: the cell of item 0 errs on what else is in it."""
    missed = 0
    for dealt in product(range(cells), repeat=5):
        wrong = sum(law[item] for item in range(1, 5) if dealt[item] == dealt[0])
        missed += min(wrong, law[0]) > error + 1e-12
    assert missed / cells**5 <= 1.0 / (cells * error) + 1e-12


def test_a_draw_is_the_same_on_both_sides_and_even():
    predict = hashed_points(7)(Tape("even").branch(3))
    again = hashed_points(7)(Tape("even").branch(3))
    items = list(range(7000))
    table = predict(items)
    assert (table == again(np.array(items))).all()
    assert not table[:, 7].any()
    assert (table.sum(axis=1) == 1).all()
    assert abs(table[:, :7].sum(axis=0) - 1000).max() < 150


def pairs(rng, runs, private=False):
    """Learned pairs (draw, column) of two laboratories, and how often the first errs too much."""
    rows = sample_size("learn_represented", **SETTING)
    differ = wrong = 0
    for i in range(runs):
        values = []
        for side in range(2):
            x = rng.integers(0, 2**40, rows)
            x[rng.random(rows) < 0.5] = 7
            tape = Tape("pairs").branch(i).branch(side if private else 0)
            values.append(learn_represented(hashed_points(40), x, x == 7, tape=tape, **SETTING).value)
        differ += values[0] != values[1]
        draw, column = values[0]
        tape = Tape("pairs").branch(i).branch(0).branch("representation").branch(draw)
        predict = hashed_points(40)(tape)
        others = predict(np.arange(100, 2100))[:, column].mean()
        wrong += 0.5 * others + 0.5 * (not predict([7])[0, column]) > 0.3
    return differ, wrong


def test_two_laboratories_learn_the_same_from_drawn_classes(rng):
    differ, wrong = pairs(rng, 30)
    assert not_above(differ, 30, SETTING["rho"])
    assert not_above(wrong, 30, SETTING["beta"])


def test_classes_drawn_by_private_coins_do_not_agree(rng):
    differ, _ = pairs(rng, 10, private=True)
    assert clearly_above(differ, 10, SETTING["rho"])


def test_two_thousand_pairs_choose_alike_given_the_classes(rng):
    """The choice at its smallest size, on the errors of the drawn classes with 240 equal ones among them."""
    plan = represented._plan(
        *(SETTING[name] for name in ("size", "miss", "class_error", "accuracy", "rho", "beta")), of="test"
    )
    needed, models = plan.choice.rows, plan.choice.problem.models
    assert plan.missed == pytest.approx(0.25**plan.draws, rel=1e-9)
    shares = rng.binomial(needed, 0.5, (2, 2000, models)) / needed
    differ = 0
    for i in range(2000):
        tape = Tape("many").branch(i)
        first, second = (plan.choice.choose(side[i], needed, tape, best_effort=False) for side in shares)
        differ += first != second
    assert not_above(differ, 2000, SETTING["rho"])


def test_sizes_do_not_grow_with_the_items():
    """Points of any countable set: fewer rows than the choice among 2⁶² of them."""
    points = {"size": 121, "miss": 0.42, "class_error": 0.02, "accuracy": 0.1, "rho": 0.1, "beta": 0.05}
    assert sample_size("learn_represented", **points) == 217_935
    assert sample_size("choose", models=2**62, accuracy=0.1, rho=0.1, beta=0.05, realizable=True) == 1_094_159
    exact = {**points, "class_error": 0.0}
    assert sample_size("learn_represented", **exact) < 217_935


def test_a_representation_without_error_uses_that_one_model_is_perfect(rng):
    def everything(tape):
        return lambda x: np.asarray(x)[:, None] == np.arange(9)

    setting = {"size": 9, "miss": 0.0, "accuracy": 0.2, "rho": 0.2, "beta": 0.1}
    rows = sample_size("learn_represented", **setting)
    assert rows == sample_size("choose", models=9, accuracy=0.2, rho=0.2, beta=0.1, realizable=True)
    x = rng.choice(9, rows, p=[0.6] + [0.05] * 8)
    assert learn_represented(everything, x, x == 0, tape=Tape("exact"), **setting).value == (0, 0)


def test_mistakes_are_named(rng):
    x = rng.integers(0, 9, sample_size("learn_represented", **SETTING))
    ask = {**SETTING, "tape": Tape("study-7")}
    with pytest.raises(NotEnoughRows):
        learn_represented(hashed_points(40), x[:-1], x[:-1] == 3, **ask)
    weaker = learn_represented(hashed_points(40), x[:-1], x[:-1] == 3, best_effort=True, **ask)
    assert weaker.guarantee.rho >= SETTING["rho"]
    with pytest.raises(InvalidArgument, match="representation"):
        learn_represented(hashed_points(50), x, x == 3, **ask)
    with pytest.raises(InvalidArgument, match="class_error"):
        sample_size("learn_represented", **{**SETTING, "class_error": 0.3})
    with pytest.raises(InvalidArgument, match="'y'"):
        learn_represented(hashed_points(40), x, x, **ask)
    with pytest.raises(InvalidArgument, match="miss"):
        sample_size("learn_represented", **{**SETTING, "miss": 1.0})
