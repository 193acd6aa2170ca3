"""More perfect generalisation: averages on all data of six binary rows, the compiled law through counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_oracles import LEVEL, SHARES, mean_mismatch, samples
from scipy import stats

from enumeration import data, independent
from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, amplify_generalization
from holdfast.reductions._amplify import _averaged, averaged_rho
from holdfast.replicable import Tape
from holdfast.stability import DP, PerfectGeneralization
from limits import lower_limit

LEAN = 0.009
EPSILON, DELTA = 8.0, 0.6


def leaning(lean: float = LEAN, kind: str = "one-way", declared: float | None = None) -> Algorithm:
    """One bit in, one bit out: the row itself with probability ½ + lean.

    At most 1 + 2·lean times as likely as by a fair coin, which is the simulator, whatever the rows' law is.
    """
    return Algorithm(
        lambda rows, tape: int(rows[0]) ^ int(tape.uniforms(1)[0] > 0.5 + lean),
        rows_needed=1,
        guarantee=PerfectGeneralization(
            0.0, math.log1p(2.0 * (lean if declared is None else declared)), 0.0, kind=kind
        ),
        outcomes=(0, 1),
        probabilities=lambda rows: [0.5 + lean, 0.5 - lean] if rows[0] == 0 else [0.5 - lean, 0.5 + lean],
    )


def averages(lean: float, parts: int) -> np.ndarray:
    """The averaged law on all data of so many binary rows."""
    one = 0.5 + lean * (2.0 * data(parts).mean(axis=1) - 1.0)
    return np.column_stack([1.0 - one, one])


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
@pytest.mark.parametrize("lean", [0.01, 0.1, 0.25])
def test_averages_agree_as_often_as_promised_on_all_data_of_six_rows(lean, parts):
    promised = averaged_rho(leaning(lean), parts, of="")
    exact = [mean_mismatch(independent(parts, p), averages(lean, parts)) for p in SHARES]
    assert max(exact) <= promised + 1e-9
    # Half of what is promised would be too little.
    if parts > 1:
        assert max(exact) > promised / 2.0 + 1e-9


@pytest.mark.parametrize("parts", [2, 6])
def test_rare_samples_that_reveal_everything_are_paid_for(parts):
    # A row of 1, which is rare, is revealed. For a row of 0 the law is that of a fair coin.
    rare = 0.05
    telling = Algorithm(
        lambda rows, tape: 0,
        rows_needed=1,
        guarantee=PerfectGeneralization(rare, 0.0, 0.0, kind="one-way"),
        outcomes=(0, 1),
        probabilities=lambda rows: [0.0, 1.0] if rows[0] else [0.5, 0.5],
    )
    one = 0.5 + 0.5 * data(parts).mean(axis=1)
    exact = mean_mismatch(independent(parts, rare), np.column_stack([1.0 - one, one]))
    assert exact <= averaged_rho(telling, parts, of="") + 1e-9
    # Forgetting the rare samples is caught.
    silent = Algorithm(
        lambda rows, tape: 0,
        rows_needed=1,
        guarantee=PerfectGeneralization(0.0, 0.0, 0.0, kind="one-way"),
        outcomes=(0, 1),
        probabilities=telling.probabilities,
    )
    assert exact > averaged_rho(silent, parts, of="") + 1e-3


@given(st.floats(0.0, 0.4), st.floats(0.0, 0.9), st.floats(0.0, 0.3), st.integers(2, 9), st.integers(2, 500))
def test_more_parts_and_better_guarantees_agree_more_often(beta, epsilon, delta, outcomes, parts):
    def rho(count: int, share: float = beta, loss: float = epsilon, off: float = delta) -> float:
        algorithm = Algorithm(
            lambda rows, tape: 0,
            rows_needed=1,
            guarantee=PerfectGeneralization(share, loss, off, kind="one-way"),
            outcomes=range(outcomes),
            probabilities=lambda rows: np.full(outcomes, 1.0 / outcomes),
        )
        return averaged_rho(algorithm, count, of="")

    assert 0.0 < rho(parts) <= 1.0
    assert rho(4 * parts + 4) <= rho(parts)
    assert rho(parts, share=beta / 2.0) <= rho(parts)
    assert rho(parts, loss=epsilon / 2.0) <= rho(parts)
    assert rho(parts, off=delta / 2.0) <= rho(parts)


def chance_of_one(counts: np.ndarray, parts: int, lean: float, sensitivity: float) -> np.ndarray:
    """P(the outcome is 1) given how many rows of each seed are 1 (a line a sample), over coins and choice.

    Shared coins say 0, or 1, whatever the row is, with probability ½ − lean each; else they echo it.
    """
    total = np.zeros(len(counts))
    for moods in itertools.product(("zero", "one", "echo"), repeat=counts.shape[1]):
        weight = math.prod(2.0 * lean if mood == "echo" else 0.5 - lean for mood in moods)
        echoing = np.array([mood == "echo" for mood in moods])
        votes = np.where(echoing, np.maximum(counts, parts - counts), parts)
        one = np.where(echoing, 2 * counts > parts, [mood == "one" for mood in moods])
        shares = np.exp(EPSILON * (votes - votes.max(axis=1, keepdims=True)) / (2.0 * sensitivity))
        total += weight * (shares * one).sum(axis=1) / shares.sum(axis=1)
    return total


def share_far_from(
    simulator: float, values: np.ndarray, law: np.ndarray, epsilon: float, delta: float
) -> float:
    """How likely a sample's law (1 − a, a) is not within (ε, δ) of the simulator's, both ways."""
    grow = math.exp(epsilon)
    pairs = ((values, simulator), (1.0 - values, 1.0 - simulator))
    there = sum(np.maximum(a - grow * b, 0.0) for a, b in pairs)
    back = sum(np.maximum(b - grow * a, 0.0) for a, b in pairs)
    return float(law @ (np.maximum(there, back) > delta + 1e-12))


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_exact_perfect_generalisation_with_a_simulator(p):
    perfect = amplify_generalization(leaning(), epsilon=EPSILON, delta=DELTA, method="seeds")
    assert perfect.guarantee == PerfectGeneralization(DELTA, EPSILON, DELTA, kind="two-way")
    used = perfect.explain().steps[1].parameters
    assert (used["seeds"], used["parts"] % 2) == (2, 1)
    assert perfect.explain().steps[0].parameters == {"draws": 1, "rows": 1}
    counts, law = samples(used["parts"], 2, p)
    values = chance_of_one(counts, used["parts"], LEAN, used["sensitivity"])
    simulator = float(law @ values)
    assert share_far_from(simulator, values, law, EPSILON, DELTA) <= DELTA + 1e-9
    # The promise holds with much room here, but the laws do differ: both coins echo once in 1/(2·lean)².
    if p == 0.5:
        assert share_far_from(simulator, values, law, 0.0, LEAN**2 / 4.0) > 0.25


@pytest.mark.parametrize("delta", [0.9, 0.3, 0.01, 1e-6])
def test_the_split_of_delta_is_enough_and_twice_the_share_is_not(delta):
    known = Algorithm(
        lambda rows, tape: 0,
        rows_needed=1,
        guarantee=PerfectGeneralization(0.0, 0.001, 0.0, kind="one-way"),
        outcomes=(0, 1),
        probabilities=lambda rows: [1, 0],
    )
    perfect = amplify_generalization(known, epsilon=1.0, delta=delta, method="seeds")
    sample, d = perfect.steps[1].result, perfect.steps[2].parameters["d"]
    assert sample.kind == "sample"
    assert max(sample.beta / d, sample.delta + d) <= delta + 1e-12
    assert min(sample.beta / d, sample.delta + d) > 0.999 * delta
    assert max(2.0 * sample.beta / d, 2.0 * sample.delta + d) > delta * (1.0 + delta / 4.0)


@pytest.mark.parametrize("parts", [1, 3])
def test_the_law_that_is_sampled_is_the_average(parts, seed):
    steady = _averaged(leaning(0.4), parts, "")
    assert steady.rows_needed == parts
    rows = [1, 0, 1][:parts]
    trials = 600 if parts == 1 else 2500
    hits = sum(steady(rows, Tape(seed).branch(number)) for number in range(trials))
    exact = float(np.mean([0.9 if row else 0.1 for row in rows]))
    assert stats.binomtest(hits, trials, exact).pvalue > LEVEL
    assert stats.binomtest(hits, trials, 0.5 + (exact - 0.5) / 2.0).pvalue < LEVEL


def test_the_compiled_algorithm_has_the_law_that_was_computed(seed):
    # What is declared is false, so that much depends on the rows: coins echo them 49 times out of 50.
    perfect = amplify_generalization(
        leaning(0.49, declared=1e-6), epsilon=50.0, delta=0.9, method="seeds", simulation=True
    )
    used = perfect.explain().steps[1].parameters
    assert used["seeds"] == 1
    rows = (np.arange(perfect.rows_needed) % 3 > 0).astype(int)
    trials = 40
    hits = sum(perfect(rows, Tape(seed).branch(number)) for number in range(trials))
    law = chance_of_one(np.array([[rows.sum()]]), used["parts"], 0.49, used["sensitivity"])
    assert float(law[0]) == pytest.approx(0.99)
    assert stats.binomtest(hits, trials, float(law[0])).pvalue > LEVEL
    assert stats.binomtest(hits, trials, 0.5).pvalue < LEVEL


def test_it_fails_no_more_often_than_it_says(seed):
    def rarely_wrong(wrong: float, declared: float) -> Algorithm:
        return Algorithm(
            lambda rows, tape: int(tape.uniforms(1)[0] > wrong),
            rows_needed=1,
            guarantee=PerfectGeneralization(0.0, 0.0, 0.0, kind="two-way"),
            failure=declared,
            outcomes=(0, 1),
            probabilities=lambda rows: [wrong, 1.0 - wrong],
        )

    for wrong, keeps, trials in ((0.02, True, 20), (0.999, False, 12)):
        perfect = amplify_generalization(rarely_wrong(wrong, 0.02), epsilon=50.0, delta=0.9, simulation=True)
        assert perfect.failure < 0.45
        rows = np.zeros(perfect.rows_needed)
        failures = sum(perfect(rows, Tape(seed).branch(number)) == 0 for number in range(trials))
        assert (lower_limit(failures, trials) <= perfect.failure) == keeps


def test_weak_guarantees_are_amplified_by_averages():
    weak = amplify_generalization(leaning(0.25), epsilon=EPSILON, delta=DELTA)
    first, second, third = weak.explain().steps
    assert first.parameters["draws"] > 1
    assert (
        weak.rows_needed
        == first.parameters["draws"] * second.parameters["seeds"] * second.parameters["parts"]
    )
    assert "Theorem 6.3" in third.theorem
    assert weak.guarantee.kind == "two-way"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"workers": 0}, "workers"),
        ({"simulation": 1}, "simulation"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(0.1))}, "algorithm"),
        (
            {
                "algorithm": Algorithm(
                    lambda r, t: 0, rows_needed=1, guarantee=PerfectGeneralization(0, 0.1, 0, kind="one-way")
                )
            },
            "outcomes",
        ),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": leaning(), "epsilon": 4.0, "delta": 0.5, **change}
    with pytest.raises(InvalidArgument) as caught:
        amplify_generalization(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named
