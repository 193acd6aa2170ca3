"""Amplification of replicability: branches of the tape, votes, and a threshold that the tape draws."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import bdtr

from contracts.tapes import CountThreshold, rigged
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Result, Tape, amplify, histogram, round_to_grid
from holdfast.stability import Replicability
from limits import PAIRS, lower_limit, upper_limit


@dataclass(frozen=True)
class Plan:
    """What an amplified algorithm runs, and the thresholds that its tape draws for those who differ."""

    runs: int
    branches: int
    threshold: CountThreshold


def _first_branch_echoes(row, tape):
    """The row itself on the first branch; on all later ones an output on which everybody agrees."""
    return row[0] if "amplify 0/" in str(tape) else "refused"


def _most_dissent(strong, coin):
    """How many runs may differ on the first branch, if the tape's coin is this one."""
    few, many = 0, (strong.runs - 1) // 2 + 1
    while many - few > 1:
        dissent = (few + many) // 2
        rows = ["dissent"] * dissent + ["answer"] * (strong.runs - dissent)
        accepted = strong(rows, rigged(coin)) == "answer"
        few, many = (dissent, many) if accepted else (few, dissent)
    return few


def _planned(strong):
    low, high = (_most_dissent(strong, coin) for coin in (0.0, 1.0))
    return Plan(strong.runs, strong.branches, CountThreshold(strong.runs, low, high))


def _plan(rho, target):
    return _planned(amplify(_first_branch_echoes, rho=rho, target=target, rows=1))


def test_the_thresholds_are_those_of_the_lemma():
    strong = amplify(_first_branch_echoes, rho=0.1, target=0.05, rows=1)
    threshold = _planned(strong).threshold
    assert 0.1 * strong.runs < threshold.low < threshold.high < strong.runs / 2
    for coin in np.arange(1, 20) / 20:
        assert _most_dissent(strong, coin) == threshold(coin)
    for tape in map(Tape, range(5)):
        most = threshold(tape.branch("amplify 0").branch("threshold").uniforms(1)[0])
        for dissent, answer in ((most, "answer"), (most + 1, "refused")):
            rows = ["dissent"] * dissent + ["answer"] * (strong.runs - dissent)
            assert strong(rows, tape) == answer


def _agreement(rng, plan, shares, pairs, *, private=False):
    """Two laboratories; each branch has a canonical output with the given probability, else one of its own.

    Returns how many pairs differ and how many first laboratories accept some branch.
    """
    answer = np.full((2, pairs), -1)
    for number in range(plan.branches):
        share = shares(rng, pairs)
        coins = rng.uniform(size=(2 if private else 1, pairs))
        dissent = plan.threshold(coins)
        for side in range(2):
            canonical = rng.binomial(plan.runs, share)
            allowed = dissent[side if private else 0]
            name = np.where(plan.runs - canonical <= allowed, 2 * number, -1)
            # All the dissenters may agree among themselves.
            name = np.where(canonical <= allowed, 2 * number + 1, name)
            answer[side] = np.where(answer[side] < 0, name, answer[side])
    return int((answer[0] != answer[1]).sum()), int((answer[0] >= 0).sum())


def _laws(rho):
    """Probabilities of the canonical output, over the coins; each law is ρ-replicable and no better."""

    def constant(rng, size):
        return np.full(size, (1.0 + math.sqrt(1.0 - 2.0 * rho)) / 2.0)

    def two_kinds(worse):
        part = rho / (2.0 * worse * (1.0 - worse))
        return lambda rng, size: np.where(rng.uniform(size=size) < part, worse, 1.0)

    def hostile(rng, size):
        """As many coins as ρ allows, spread over the window in which verdicts waver."""
        worse = rng.uniform(0.55, 0.8, size)
        part = rho / np.mean(2.0 * np.linspace(0.55, 0.8, 99) * (1.0 - np.linspace(0.55, 0.8, 99)))
        return np.where(rng.uniform(size=size) < part, worse, 1.0)

    return {"constant": constant, "halves": two_kinds(0.5), "wavering": two_kinds(0.65), "hostile": hostile}


@pytest.mark.parametrize(("rho", "target"), [(0.1, 0.05), (0.05, 0.01), (0.2, 0.1)])
@pytest.mark.parametrize("law", _laws(0.1))
def test_many_pairs_at_the_smallest_size(rho, target, law, rng):
    plan = _plan(rho, target)
    shares = _laws(rho)[law]
    # Of 10,000 pairs so many differ by chance that one seed in fifteen would refute a target of 0.01.
    pairs = 4 * PAIRS
    differ, accepted = _agreement(rng, plan, shares, pairs)
    assert upper_limit(differ, pairs) <= target
    assert accepted >= 0.99 * pairs
    once = sum(int((rng.uniform(size=PAIRS) < 2.0 * p * (1.0 - p)).sum()) for p in (shares(rng, PAIRS),))
    assert lower_limit(once, PAIRS) > target * 0.9, "a single run should be about as replicable as rho says"


def test_private_thresholds_and_few_runs_are_caught(rng):
    plan = _plan(0.1, 0.02)
    shares = _laws(0.1)["wavering"]
    differ, _ = _agreement(rng, plan, shares, PAIRS, private=True)
    assert lower_limit(differ, PAIRS) > 0.02
    few = Plan(25, plan.branches, CountThreshold(25, 5, 10))
    differ, _ = _agreement(rng, few, shares, PAIRS)
    assert lower_limit(differ, PAIRS) > 0.02


def test_votes_of_strangers_are_rare():
    """Σ_z P(Bin(t, p_z) ≥ t − q) ≤ 2 P(Bin(t, ½) ≤ q) when all p_z ≤ ½ and q < t/2."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        t = int(rng.integers(3, 60))
        q = int(rng.integers(0, (t + 1) // 2))
        p = rng.dirichlet(np.full(int(rng.integers(2, 9)), 0.5))
        if q < t / 2 and p.max() <= 0.5:
            assert bdtr(q, t, 1.0 - p).sum() <= 2.0 * bdtr(q, t, 0.5) * (1.0 + 1e-9)


def _rounded_mean(x, tape):
    """Two means of 100 coins differ by 1/√(100π) on average: ρ = 0.2 on a grid five times as wide."""
    return float(round_to_grid(x.mean(), 5.0 / math.sqrt(100.0 * math.pi), tape))


def test_the_callable(rng):
    strong = amplify(_rounded_mean, rho=0.2, target=0.1, rows=100, beta=0.05)
    assert strong.guarantee == Replicability(0.1)
    assert strong.rows_needed == strong.runs * 100
    assert 0.05 < strong.failure < 0.3
    differ = 0
    for i in range(8):
        x, y = ((rng.uniform(size=strong.rows_needed + 3) < 0.37).astype(float) for _ in range(2))
        differ += strong(x, Tape(i)) != strong(y, Tape(i))
    assert lower_limit(differ, 8) <= 0.1
    with pytest.raises(NotEnoughRows) as caught:
        strong(x[:100], Tape(0))
    assert (caught.value.needed, caught.value.got) == (strong.rows_needed, 100)
    assert pickle.loads(pickle.dumps(strong)) == strong


def test_a_result_says_what_is_promised_of_it_now():
    def shares(answers, tape):
        return histogram(answers, 2, accuracy=0.2, rho=0.1, tape=tape, best_effort=True)

    strong = amplify(shares, rho=0.1, target=0.05, rows=10, beta=0.05)
    result = strong(np.arange(strong.rows_needed) % 2, Tape("t"))
    assert isinstance(result, Result)
    assert (result.guarantee, result.beta, result.rows) == (
        strong.guarantee,
        strong.failure,
        strong.rows_needed,
    )
    assert result.tape == str(Tape("t"))


def test_too_few_rows_and_best_effort(rng):
    strong = amplify(_rounded_mean, rho=0.2, target=0.05, rows=100, beta=0.01)
    x = rng.uniform(size=strong.rows_needed)
    fewer = strong.reduced(200_000)
    assert 0.05 < fewer.guarantee.rho < 0.2
    assert fewer.rows_needed == fewer.runs * 100 == 200_000
    assert strong.reduced(10**9) == strong
    single = strong.reduced(1_000)
    assert (single.guarantee, single.runs, single.failure) == (Replicability(0.2), 1, 0.01)
    assert strong(x[:1_000], Tape("t"), best_effort=True) == single(x[:1_000], Tape("t"))
    assert single(x[:100], Tape("t")) == _rounded_mean(x[:100], Tape("t").branch("amplify 0").branch("run"))
    for best_effort in (False, True):
        with pytest.raises(NotEnoughRows):
            strong(x[:99], Tape("t"), best_effort=best_effort)
    with pytest.raises(InvalidArgument):
        strong.reduced(99)


@pytest.mark.parametrize("law", ["wavering", "hostile"])
def test_fewer_runs_keep_their_weaker_promise(law, rng):
    weaker = amplify(_first_branch_echoes, rho=0.2, target=0.05, rows=1).reduced(600)
    plan = _planned(weaker)
    differ, _ = _agreement(rng, plan, _laws(0.2)[law], PAIRS)
    assert 0.05 < weaker.guarantee.rho < 0.2
    assert upper_limit(differ, PAIRS) <= weaker.guarantee.rho


def test_any_comparable_output_and_samples_in_parts(rng):
    outputs = [
        lambda sample, tape: int(sample[0].mean() > 0.5),
        lambda sample, tape: [sample[1].tolist()[0] * 0, "a"],
        lambda sample, tape: np.zeros(3),
        lambda sample, tape: None,
    ]
    expected = [0, [0, "a"], np.zeros(3), None]
    for algorithm, value in zip(outputs, expected, strict=True):
        strong = amplify(algorithm, rho=0.1, target=0.05, rows=2)
        sample = (np.zeros(strong.rows_needed), np.ones(strong.rows_needed, dtype=int))
        np.testing.assert_equal(strong(sample, Tape("t")), value)
    with pytest.raises(InvalidArgument):
        amplify(lambda sample, tape: {}, rho=0.1, target=0.05, rows=1)(list(range(10**4)), Tape("t"))


def test_when_no_branch_agrees_the_answer_still_comes():
    strong = amplify(lambda sample, tape: sample[0], rho=0.1, target=0.05, rows=1)
    assert strong(list(range(strong.rows_needed)), Tape("t")) == 0


def test_a_data_frame_is_cut_by_rows():
    pandas = pytest.importorskip("pandas")
    strong = amplify(lambda frame, tape: int(frame["x"].sum()), rho=0.1, target=0.05, rows=3)
    assert strong(pandas.DataFrame({"x": np.ones(strong.rows_needed)}), Tape("t")) == 3


def test_sizes():
    runs = {
        (rho, target): amplify(_rounded_mean, rho=rho, target=target, rows=1).runs
        for rho, target in ((0.1, 0.05), (0.1, 0.02), (0.01, 0.001))
    }
    assert list(runs.values()) == [547, 2_391, 4_699]


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": 3},
        {"rho": 0.5},
        {"rho": math.nan},
        {"target": 0.1},
        {"target": 0.0},
        {"rows": 0},
        {"beta": 1.0},
    ],
)
def test_bad_arguments(change):
    arguments = {"algorithm": _rounded_mean, "rho": 0.1, "target": 0.05, "rows": 10, **change}
    with pytest.raises(InvalidArgument) as refused:
        amplify(arguments.pop("algorithm"), **arguments)
    assert refused.value.argument in change
