"""Correlated sampling from finite laws: exact marginals, the exact collision formula, order and size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape, correlated_choice, correlated_log_choice, correlated_name
from holdfast.stability import collision_probability, disagreement_bound

PAIRS = {
    "close": ([0.2, 0.5, 0.3], [0.25, 0.45, 0.3]),
    "with zeros": ([0.5, 0.5, 0.0, 0.0], [0.0, 0.4, 0.0, 0.6]),
    "many": (np.full(200, 1 / 200), np.arange(1, 201) / 20_100),
    "one heavy": ([0.97, 0.01, 0.01, 0.01], [0.90, 0.08, 0.01, 0.01]),
}


def _choices(law, tape, trials, *, private=False):
    """What correlated_choice picks on many branches, all at once: argmin E/p row by row."""
    exponentials = tape.branch("private" if private else "shared").exponentials(trials * len(law))
    with np.errstate(divide="ignore"):
        return np.argmin(exponentials.reshape(trials, -1) / np.asarray(law), axis=1)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_choice_is_the_argmin_of_exponential_over_probability(pair):
    first, _ = PAIRS[pair]
    for i in range(200):
        tape = Tape(i)
        with np.errstate(divide="ignore"):
            assert correlated_choice(first, tape) == np.argmin(
                tape.exponentials(len(first)) / np.asarray(first)
            )


@pytest.mark.parametrize("pair", PAIRS)
def test_measured_collision_equals_the_formula_and_private_coins_do_not(pair, seed):
    first, second = (np.asarray(law) for law in PAIRS[pair])
    tape, trials = Tape(seed), 20_000
    one, two = _choices(first, tape, trials), _choices(second, tape, trials)
    met = int((one == two).sum())
    formula = collision_probability(first, second)
    assert stats.binomtest(met, trials, formula).pvalue > 1e-6
    assert 1.0 - formula <= disagreement_bound(0.5 * np.abs(first - second).sum()) + 1e-12
    alone = int((one == _choices(second, tape, trials, private=True)).sum())
    if pair != "one heavy":
        assert stats.binomtest(alone, trials, formula).pvalue < 1e-6
    for law, chosen in ((first, one), (second, two)):
        expected = law[law > 0] * trials
        counts = np.bincount(chosen, minlength=law.size)
        assert counts[law == 0].sum() == 0
        assert stats.chisquare(counts[law > 0], expected).pvalue > 1e-6


@given(
    weights=st.lists(st.floats(1e-12, 1.0) | st.just(0.0), min_size=1, max_size=40).filter(
        lambda w: max(w) > 0
    ),
    seed=st.integers(0, 10**6),
)
def test_log_weights_choose_as_the_probabilities_do(weights, seed):
    weights = np.asarray(weights)
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    chances = weights / weights.sum()
    tape = Tape(seed)
    assert correlated_log_choice(logs, tape) == correlated_choice(chances, tape)
    assert correlated_log_choice(logs - 1e5, tape) == correlated_choice(chances, tape)


@given(names=st.lists(st.text(max_size=6), min_size=1, max_size=30, unique=True), seed=st.integers(0, 10**6))
def test_names_choose_alike_in_any_order_and_from_a_stream(names, seed):
    weights = {name: (hash(len(name)) + i) % 7 + 0.5 for i, name in enumerate(names)}
    tape = Tape(seed)
    chosen = correlated_name(weights, tape)
    assert correlated_name(dict(sorted(weights.items(), reverse=True)), tape) == chosen
    assert correlated_name(((name, 3.0 * weights[name]) for name in reversed(names)), tape) == chosen
    assert correlated_name({**weights, "of no weight at all": 0.0}, tape) == chosen
    arrivals = {name: tape.named_exponentials([name])[0] / weight for name, weight in weights.items()}
    assert chosen == min(arrivals, key=arrivals.get)


def test_named_choices_collide_as_the_formula_says(seed):
    first = {"a": 0.5, "b": 0.3, "c": 0.2}
    second = {"c": 0.3, "d": 0.1, "b": 0.3, "a": 0.3}
    trials = 3000
    tapes = [Tape(seed).branch(i) for i in range(trials)]
    met = sum(correlated_name(first, tape) == correlated_name(second, tape) for tape in tapes)
    formula = collision_probability([0.5, 0.3, 0.2, 0.0], [0.3, 0.3, 0.3, 0.1])
    assert stats.binomtest(met, trials, formula).pvalue > 1e-6
    apart = sum(correlated_name(first, tape) == correlated_name(second, tape.branch("b")) for tape in tapes)
    assert stats.binomtest(apart, trials, formula).pvalue < 1e-6


def test_a_long_stream_is_one_stream():
    """It is read in blocks of 65,536 pairs, and its choice is the best of its parts, wherever one cuts."""
    weights = {str(i): (1.0 + i % 3) * (1 if i < 65_536 else 15) for i in range(70_000)}
    pairs = list(weights.items())
    late = 0
    for i in range(5):
        whole = correlated_name(iter(pairs), Tape(i))
        late += int(whole) >= 65_536
        parts = [pairs[:40_000], pairs[40_000:67_000], pairs[67_000:]]
        best = [correlated_name(part, Tape(i)) for part in parts]
        assert correlated_name({name: weights[name] for name in best}, Tape(i)) == whole
    assert 0 < late < 5
    with pytest.raises(InvalidArgument, match="twice"):
        correlated_name([*pairs, ("3", 1.0)], Tape(0))


def test_golden_choices_never_change():
    law = np.arange(1, 1001) / 500_500
    assert [correlated_choice(law, Tape(i)) for i in range(6)] == [774, 678, 351, 569, 684, 348]
    assert correlated_name({str(i): 1.0 for i in range(1000)}, Tape("study-7")) == "122"


def test_a_million_outcomes_are_one_vector_operation():
    law = np.full(10**6, 1e-6)
    tape = Tape("many")
    assert correlated_choice(law, tape) == int(np.argmin(tape.exponentials(10**6)))


@pytest.mark.parametrize(
    "bad",
    [[], [0.5, math.nan], [0.5, -0.1, 0.6], [0.5, 0.6], [math.inf, 0.0], [[1.0]], "ab", 0.5, [0.0, 0.0]],
)
def test_bad_probabilities_are_refused(bad):
    with pytest.raises(InvalidArgument, match="'probabilities' argument of correlated_choice"):
        correlated_choice(bad, Tape("a"))


@pytest.mark.parametrize("bad", [[], [math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf], "ab", [[1.0]]])
def test_bad_log_weights_are_refused(bad):
    with pytest.raises(InvalidArgument, match="'log_weights' argument"):
        correlated_log_choice(bad, Tape("a"))


@pytest.mark.parametrize(
    "bad",
    [{}, {"a": 0.0}, {"a": math.nan}, {"a": -1.0}, {"a": math.inf}, "abc", 3, [("a",)], [1, 2], {1: 2.0}],
)
def test_bad_weights_are_refused(bad):
    with pytest.raises(InvalidArgument, match=r"'(weights|names)' argument"):
        correlated_name(bad, Tape("a"))


def test_a_seed_is_not_a_tape():
    for call in (correlated_choice, correlated_log_choice):
        with pytest.raises(InvalidArgument, match="'tape'"):
            call([0.5, 0.5], "study-7")
    with pytest.raises(InvalidArgument, match="'tape'"):
        correlated_name({"a": 1.0}, 7)
