"""The algorithm as compilers see it, and its parts: the same result for any number of workers."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from reductions_oracles import LEVEL
from scipy import stats

from holdfast import reductions
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import (
    Algorithm,
    dp_to_replicable,
    exponential_choice,
    heavy_hitter,
    laplace_mean,
    replicable_to_dp,
)
from holdfast.replicable import Result, Tape
from holdfast.stability import DP, GoodCoins, Replicability
from holdfast.workers import run_all
from limits import lower_limit


def coin(**fields) -> Algorithm:
    declared = {"rows_needed": 2, "guarantee": DP(1.0), "outcomes": (0, 1, 2), "law_runs": 50}
    return Algorithm(lambda rows, tape: int(tape.integers(1, 3)[0]), **{**declared, **fields})


def test_it_reads_the_rows_it_needs_and_no_more():
    seen = Algorithm(lambda rows, tape: tuple(rows), rows_needed=3, guarantee=DP(1.0))
    assert seen([1, 2, 3, 4, 5]) == (1, 2, 3)
    assert seen(np.arange(9)) == (0, 1, 2)
    with pytest.raises(NotEnoughRows) as caught:
        seen([1, 2])
    assert (caught.value.needed, caught.value.got) == (3, 2)
    with pytest.raises(InvalidArgument, match="rows"):
        seen(iter([1, 2, 3]))


def test_a_tape_fixes_the_coins_and_none_means_fresh_ones():
    algorithm = coin()
    tape = Tape("x")
    assert len({algorithm([0, 0], tape) for _ in range(20)}) == 1
    assert len({algorithm([0, 0]) for _ in range(60)}) == 3
    with pytest.raises(InvalidArgument):
        algorithm([0, 0], "x")


def outcome_of(output):
    """What an algorithm makes of its output."""
    return Algorithm(lambda rows, tape: output, rows_needed=1, guarantee=DP(1.0))([0])


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        (np.float64(0.25), 0.25),
        (-0.0, 0.0),
        (np.array([[1, 2], [3, 4]]), ((1, 2), (3, 4))),
        ([1, [2, 3]], (1, (2, 3))),
        ({3, 1}, frozenset({1, 3})),
        ({"b": 2, "a": [1]}, (("a", (1,)), ("b", 2))),
        ("text", "text"),
        (None, None),
        (Result(0.5, Replicability(0.1), 0.1, 0.1, 10, "tape:holdfast-1:x"), 0.5),
    ],
)
def test_outcomes_can_be_counted(output, outcome):
    settled = outcome_of(output)
    assert settled == outcome
    hash(settled)


def test_all_ways_not_to_be_a_number_are_one_outcome():
    assert len({outcome_of(value) for value in (math.nan, float("nan"), np.float64("nan"))}) == 1
    assert math.copysign(1.0, outcome_of(-0.0)) == 1.0


def test_outputs_are_discretised_before_they_are_compared():
    rounded = Algorithm(
        lambda rows, tape: rows[0], rows_needed=1, guarantee=DP(1.0), discretise=lambda value: round(value, 1)
    )
    assert rounded([0.2499]) == rounded([0.2001]) == 0.2


def test_the_law_is_given_or_estimated_within_its_stated_error(seed):
    given_law = coin(probabilities=lambda rows: [0.2, 0.3, 0.5])
    assert given_law.law([0, 0]).tolist() == [0.2, 0.3, 0.5]
    assert given_law.stated_error == 0.0
    assert coin(probabilities=lambda rows: [0.2, 0.3, 0.5], law_error=0.1).stated_error == 0.1
    estimated = coin()
    distances = [
        0.5 * np.abs(estimated.law([0, 0], Tape(seed).branch(number)) - 1.0 / 3.0).sum()
        for number in range(300)
    ]
    # A uniform law is where the bound ½√((k − 1)/runs) is largest; it is attained up to the mean of |normal|.
    assert 0.5 * estimated.stated_error < np.mean(distances) <= estimated.stated_error
    assert estimated.stated_error == pytest.approx(0.5 * math.sqrt(2 / 50))


@pytest.mark.parametrize("law", [[0.5, 0.5], [0.5, 0.5, 0.1], [1.5, -0.5, 0.0], [math.nan, 0.5, 0.5]])
def test_bad_probabilities_are_refused(law):
    with pytest.raises(InvalidArgument, match="probabilities"):
        coin(probabilities=lambda rows: law).law([0, 0])


def test_an_outcome_that_was_not_listed_is_refused():
    with pytest.raises(InvalidArgument, match="outcomes"):
        coin(outcomes=(0, 1)).law([0, 0], Tape("x"))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"rows_needed": 0}, "rows_needed"),
        ({"guarantee": 0.1}, "guarantee"),
        ({"failure": 1.5}, "failure"),
        ({"failure": math.nan}, "failure"),
        ({"law_error": -0.1}, "law_error"),
        ({"law_error": 0.1}, "law_error"),
        ({"law_runs": -1}, "law_runs"),
        ({"outcomes": (1, 1)}, "outcomes"),
        ({"outcomes": ()}, "outcomes"),
        ({"probabilities": [0.5, 0.5]}, "probabilities"),
        ({"discretise": 3}, "discretise"),
    ],
)
def test_bad_declarations_are_named(fields, named):
    with pytest.raises(InvalidArgument) as caught:
        coin(**fields)
    assert caught.value.argument == named


def test_a_plain_algorithm_explains_itself():
    path = coin().explain()
    assert path.result == DP(1.0)
    assert (path.factor, path.rows) == (1, 2)
    assert "nothing to convert" in str(path)
    with pytest.raises(InvalidArgument, match="run"):
        Algorithm(3, rows_needed=1, guarantee=DP(1.0))


def test_the_room_lists_its_names():
    assert set(dir(reductions)) == set(reductions.__all__)
    with pytest.raises(AttributeError, match="no attribute 'compile'"):
        reductions.compile  # noqa: B018


def square(value: int) -> int:
    return value * value


def steps(rows, tape: Tape) -> float:
    return round(float(np.mean(rows)) + float(tape.uniforms(1)[0]) / 4, 1)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_and_borrowed_threads_give_the_same():
    jobs = [(number,) for number in range(500)]
    algorithm = Algorithm(steps, rows_needed=5, guarantee=GoodCoins(0.2, 0.2))
    rows = np.random.default_rng(1).random(10_000)
    with ProcessPoolExecutor(1) as processes, ThreadPoolExecutor(3) as threads:
        assert run_all(square, jobs, workers=processes) == run_all(square, jobs, workers=threads)
        found = {
            replicable_to_dp(algorithm, epsilon=2.0, delta=0.01, simulation=True, workers=workers)(
                rows, Tape("x")
            )
            for workers in (1, processes, threads)
        }
        assert len(found) == 1
        assert threads.submit(square, 3).result() == 9


def samples_seen(size: int, epsilon: float, rho: float, sampling: str):
    """A compiled algorithm that averages laws over samples of its rows, and the samples it was shown."""
    seen: list = []

    def law(rows):
        seen.append(rows)
        return [0.2, 0.3, 0.5]

    spy = Algorithm(
        lambda rows, tape: 0,
        rows_needed=size,
        guarantee=DP(epsilon),
        outcomes=(0, 1, 2),
        probabilities=law,
    )
    return dp_to_replicable(spy, rho=rho, sampling=sampling), seen


@pytest.mark.parametrize(
    ("size", "total", "epsilon", "rho"),
    [(1, 3, 0.1, 0.05), (2, 4, 0.05, 0.05), (3, 3, 1.0, 0.9), (3, 6, 0.1, 0.1), (4, 4, 1.0, 0.9)],
)
def test_ordered_subsets_are_equally_likely(size, total, epsilon, rho, seed):
    steady, seen = samples_seen(size, epsilon, rho, "subsample")
    assert steady.rows_needed == total
    possible = {choice: place for place, choice in enumerate(itertools.permutations(range(total), size))}
    number = 0
    while len(seen) < 3000:
        steady(list(range(total)), Tape(seed).branch(number))
        number += 1
    counts = np.bincount([possible[tuple(sample)] for sample in seen], minlength=len(possible))
    assert stats.chisquare(counts).pvalue > LEVEL


def test_a_large_subset_is_distinct_and_the_same_again():
    steady, seen = samples_seen(1000, 0.003, 0.05, "subsample")
    total = steady.rows_needed
    assert total >= 2000
    for _ in range(2):
        steady(list(range(total)), Tape("x"))
    draws = len(seen) // 2
    for chosen, again in zip(seen[:draws], seen[draws:], strict=True):
        assert len(set(chosen)) == 1000
        assert max(chosen) < total
        assert chosen == again
        assert chosen != sorted(chosen)


def test_rows_of_every_kind_are_cut_and_taken():
    for sampling, rho in (("subsample", 0.05), ("parts", 0.02)):
        steady, seen = samples_seen(2, 0.05, rho, sampling)
        total = steady.rows_needed
        assert total >= 4
        numbers = list(range(5, 5 + total + 3))  # More than are read.
        table = pd.DataFrame({"x": numbers})
        shown = []
        for rows in (numbers, np.array(numbers, dtype=object), np.array(numbers), table):
            seen.clear()
            steady(rows, Tape("x"))
            shown.append([list(part["x"] if rows is table else part) for part in seen])
        if sampling == "parts":
            whole, expected = shown.pop(2), [numbers[place : place + 2] for place in range(0, total, 2)]
            assert sorted(whole) == expected  # Parts of an array of numbers are counted, not kept in order.
            assert shown == [expected] * 3
        else:
            assert shown == [shown[0]] * 4
            assert {number for part in shown[0] for number in part} <= set(numbers[:total])


def test_the_private_mean_has_its_law_its_privacy_and_its_failure(seed):
    algorithm = laplace_mean(rows=5, epsilon=0.7, accuracy=0.6, cells=6)
    rows = np.array([0.0, 0.2, 0.9, 1.0, 0.4])
    law = algorithm.law(rows)
    scale, edges = 1.0 / (5 * 0.7), np.arange(1, 6) / 6
    cdf = stats.laplace.cdf(edges, loc=0.5, scale=scale)
    assert np.allclose(law, np.diff([0.0, *cdf, 1.0]), atol=1e-15)
    # Worst neighbours: one value moved from end to end. Half of the noise would be twice the ε.
    moved = algorithm.law(np.array([1.0, 0.2, 0.9, 1.0, 0.4]))
    assert 0.69 < np.abs(np.log(law / moved)).max() <= 0.7 + 1e-9
    drawn = [algorithm(rows) for _ in range(2000)]
    counts = [drawn.count(outcome) for outcome in algorithm.outcomes]
    assert stats.chisquare(counts, 2000 * law).pvalue > LEVEL
    wide = laplace_mean(rows=400, epsilon=0.2, accuracy=0.4, cells=20, bounds=(-1.0, 3.0))
    rng = np.random.default_rng(seed)
    wrong = 0.0
    for _ in range(300):
        law = wide.law(4.0 * rng.integers(0, 2, 400) - 1.0)
        wrong += law[np.abs(np.array(wide.outcomes) - 1.0) > 0.4].sum()
    assert 0.001 < wrong / 300 <= wide.failure < 0.4
    assert laplace_mean(rows=5, epsilon=0.7, accuracy=0.01, cells=6).failure == 1.0


def test_far_cells_keep_their_ratio():
    algorithm = laplace_mean(rows=400, epsilon=1.0, accuracy=0.1, cells=4)
    law, moved = algorithm.law(np.zeros(400)), algorithm.law(np.append(np.zeros(399), 1.0))
    assert np.abs(np.log(law / moved)).max() <= 1.0 + 1e-9


def test_the_private_choice_has_its_law_its_privacy_and_its_failure(seed):
    algorithm = exponential_choice(models=3, rows=4, epsilon=0.8, accuracy=0.3)
    losses = np.array([[0, 1, 1], [0, 0, 1], [1, 0, 1], [0, 1, 1]], dtype=float)
    law = algorithm.law(losses)
    weights = np.exp(-0.4 * losses.sum(axis=0))
    assert np.allclose(law, weights / weights.sum())
    other = losses.copy()
    other[0] = 1.0 - other[0]
    assert np.abs(np.log(law / algorithm.law(other))).max() <= 0.8 + 1e-9
    rng = np.random.default_rng(seed)
    large = exponential_choice(models=3, rows=300, epsilon=0.3, accuracy=0.2)
    means = np.array([0.3, 0.45, 0.6])
    trials = 400
    wrong = sum(large((rng.random((300, 3)) < means).astype(float)) == 2 for _ in range(trials))
    assert lower_limit(wrong, trials) <= large.failure
    with pytest.raises(InvalidArgument, match="3 models"):
        algorithm.law(losses[:, :2])


def test_compilers_follow_one_another_and_the_path_shows_all_of_them():
    private = laplace_mean(rows=1000, epsilon=0.02, accuracy=0.5, cells=10)
    steady = dp_to_replicable(private, rho=0.2)
    again = replicable_to_dp(steady, epsilon=1.0, delta=1e-6, simulation=True)
    path = again.explain()
    assert path.start == DP(0.02)
    assert [step.target for step in path.steps] == ["replicable", "dp"]
    assert path.factor * 1000 == path.rows == again.rows_needed
    assert again.outcomes == (*private.outcomes, None)
    assert "protects nothing" in str(path)
    assert "protects nothing" not in str(replicable_to_dp(steady, epsilon=1.0, delta=1e-6).explain())
    rows = np.random.default_rng(0).random(again.rows_needed)
    assert again(rows, Tape("x")) in again.outcomes
    table = pd.DataFrame({"x": rows[: steady.rows_needed]})
    framed = Algorithm(
        private.run,
        rows_needed=1000,
        guarantee=DP(0.02),
        outcomes=private.outcomes,
        probabilities=lambda frame: private.law(frame["x"].to_numpy()),
    )
    assert dp_to_replicable(framed, rho=0.2)(table, Tape("x")) == steady(
        rows[: steady.rows_needed], Tape("x")
    )


def test_replicable_heavy_hitters_become_private(seed):
    replicable = heavy_hitter(threshold=0.4, rho=0.3, beta=1e-3)
    private = replicable_to_dp(replicable, epsilon=4.0, delta=1e-2, beta=0.2, simulation=True)
    rng = np.random.default_rng(seed)
    shares = [0.65, 0.15, 0.12, 0.08]
    found = [
        private(rng.choice(4, p=shares, size=private.rows_needed), Tape(seed).branch(n)) for n in range(20)
    ]
    assert lower_limit(20 - found.count((0,)), 20) <= private.failure <= 0.2
    assert "Theorem 3.1" in str(private.explain())


@pytest.mark.parametrize(
    ("make", "change", "named"),
    [
        (laplace_mean, {"rows": 0}, "rows"),
        (laplace_mean, {"epsilon": 0.0}, "epsilon"),
        (laplace_mean, {"cells": 0}, "cells"),
        (laplace_mean, {"bounds": (1.0, 0.0)}, "bounds"),
        (laplace_mean, {"accuracy": math.nan}, "accuracy"),
        (exponential_choice, {"models": 0}, "models"),
        (exponential_choice, {"epsilon": -1.0}, "epsilon"),
        (exponential_choice, {"accuracy": 0.0}, "accuracy"),
    ],
)
def test_bad_arguments_of_the_instances_are_named(make, change, named):
    arguments = {"rows": 10, "epsilon": 1.0, "accuracy": 0.1}
    arguments |= {"cells": 5} if make is laplace_mean else {"models": 3}
    with pytest.raises(InvalidArgument) as caught:
        make(**{**arguments, **change})
    assert caught.value.argument == named
