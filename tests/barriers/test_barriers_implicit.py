"""Correlated sampling from circuits: the ideal rule and the counting exactly, the whole by seeded runs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from barriers_oracles import mismatch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.barriers import (
    Circuit,
    ImplicitPlan,
    OneAtATime,
    TableInverter,
    ToeplitzHash,
    implicit_correlated_sample,
    implicit_plan,
)
from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape

LEVEL = 1e-6


def overlap(first: tuple[Fraction, Fraction], second: tuple[Fraction, Fraction]) -> Fraction:
    return max(Fraction(0), min(first[1], second[1]) - max(first[0], second[0]))


def accepted(g: Fraction) -> Fraction:
    """P(β/2 < g ≤ β) for β uniform on [1, 2]: β in [g, 2g)."""
    return overlap((g, 2 * g), (Fraction(1), Fraction(2)))


def both_accepted(g: Fraction, h: Fraction) -> Fraction:
    low, high = max(g, h), min(2 * g, 2 * h)
    return overlap((low, high), (Fraction(1), Fraction(2))) if low < high else Fraction(0)


@pytest.mark.parametrize("inputs", [1, 3, 6])
def test_the_ideal_rule_returns_every_element_with_its_probability(inputs):
    for count in range(1, 2**inputs + 1):
        p = Fraction(count, 2**inputs)
        levels = range(inputs + 1)
        assert sum(accepted(p * 2**level) / 2**level for level in levels) == p
        # A threshold that is not drawn rounds p to a power of two.
        fixed = sum(Fraction(int(Fraction(1, 2) < p * 2**level <= 1), 2**level) for level in levels)
        assert (fixed == p) == (count & (count - 1) == 0)


def test_the_ideal_rule_loses_three_times_the_difference_of_two_probabilities():
    inputs, worst = 5, Fraction(0)
    for first, second in itertools.product(range(1, 2**inputs + 1), repeat=2):
        p, q = Fraction(first, 2**inputs), Fraction(second, 2**inputs)
        apart = sum(
            (accepted(p * 2**i) + accepted(q * 2**i) - 2 * both_accepted(p * 2**i, q * 2**i)) / 2**i
            for i in range(inputs + 1)
        )
        assert apart <= 3 * abs(p - q)
        worst = max(worst, apart / abs(p - q) if p != q else 0)
    assert worst == 3  # so 6d for laws d apart, and no less


def counting_error(hits: int, slack: int, theta: float) -> float:
    """Σ over levels of E[mismatch]/g, K binomial: what counting alone adds to e, without collisions."""
    total, checks = 0.0, hits << slack
    for i in range(-12, slack):
        g = theta * 2.0**i
        mean, spread = g * hits, math.sqrt(g * hits) + 1
        k = np.arange(max(0, int(mean - 12 * spread)), int(mean + 12 * spread + 60))
        total += (stats.binom.pmf(k, checks, g * 2.0**-slack) * mismatch(k / hits, g)).sum() / g
    return total


@pytest.mark.parametrize("hits", [8, 30, 400, 3000])
def test_the_counting_error_is_within_its_bound_and_not_within_half_of_it(hits):
    slack = 6
    worst = max(counting_error(hits, slack, theta) for theta in np.linspace(0.5001, 1.0, 23))
    proved = 4.76 / math.sqrt(hits) + 4 / hits
    proved += 8 * math.exp(-0.0965 * hits) + 0.5 * math.exp(-0.091 * hits)
    assert worst <= proved
    if hits >= 100:
        assert worst > proved / 2
        plan = ImplicitPlan(4, slack, 10**6, hits << slack)
        assert plan.round_error == pytest.approx(proved + 7 / 64 + 17 / 4096)


def every_check(inputs: int, outputs: int) -> tuple[ToeplitzHash, np.ndarray]:
    """All functions of a width with all targets, the offset fixed: only its sum with the target matters."""
    seeds, targets = np.divmod(np.arange(1 << (inputs + 2 * outputs - 1), dtype=np.uint64), 1 << outputs)
    return ToeplitzHash(seeds, np.zeros_like(seeds), inputs, outputs), targets


@pytest.mark.parametrize(
    ("counts", "level", "slack"), [([5, 2, 1], 1, 2), ([4, 3, 1], 2, 3), ([6, 1, 1], 0, 2)]
)
def test_hits_come_as_often_as_the_bonferroni_bounds_say(counts, level, slack):
    circuit = Circuit.of_counts(counts)
    outputs = circuit.inputs - level + slack
    second, targets = every_check(circuit.inputs, outputs)
    # H₁ of one constant bit: all elements share u, the worst case.
    first = ToeplitzHash(np.zeros(1, np.uint64), np.zeros(1, np.uint64), circuit.outputs, 1)
    strings = TableInverter().invert(circuit, first, 0, second, targets)
    found = circuit.table[strings[strings >= 0]]
    shares = [Fraction(count, 2**outputs) for count in counts]
    for x, share in enumerate(shares):
        q = Fraction(int((found == x).sum()), len(second))
        others = sum(shares) - share
        assert share * (1 - share / 2 - others) <= q <= share
    assert any(Fraction(int((found == x).sum()), len(second)) < share for x, share in enumerate(shares)), (
        "some collision should show"
    )


def test_the_table_finds_a_preimage_wherever_there_is_one(rng):
    table = rng.integers(6, size=512).astype(np.uint64)
    circuit = Circuit(lambda r: table[r], 9, 3)
    for width in (2, 9, 13):
        first = ToeplitzHash(*rng.integers(2**64, size=(2, 1), dtype=np.uint64), 3, 1)
        second = ToeplitzHash(*rng.integers(2**64, size=(2, 300), dtype=np.uint64), 9, width)
        targets = rng.integers(2**width, size=300, dtype=np.uint64)
        found = TableInverter().invert(circuit, first, 1, second, targets)
        every = np.arange(512, dtype=np.uint64)
        right = (second(every) == targets[:, None]) & (first(circuit.table)[0] == 1)
        assert ((found >= 0) == right.any(axis=1)).all()
        assert right[np.flatnonzero(found >= 0), found[found >= 0]].all()
        many = ToeplitzHash(*rng.integers(2**64, size=(2, 50), dtype=np.uint64), 3, width)
        values = rng.integers(2**width, size=50, dtype=np.uint64)
        reached = [value in many.only(i)(circuit.table)[0] for i, value in enumerate(values)]
        assert TableInverter().possible(circuit, many, values).tolist() == reached


def search(function, target, inputs):
    hits = np.flatnonzero(function(np.arange(2**inputs, dtype=np.uint64)) == target)
    return int(hits[0]) if len(hits) else None


def test_any_inverter_may_be_used_and_wrong_preimages_are_ignored(seed):
    circuit, plan = Circuit.of_counts([3, 1]), ImplicitPlan(2, slack=3, rounds=12, checks=64)
    for i in range(3):
        tape = Tape(seed).branch(i)
        mine = implicit_correlated_sample(circuit, plan=plan, tape=tape)
        assert implicit_correlated_sample(circuit, plan=plan, tape=tape, inverter=OneAtATime(search)) == mine
        liar = OneAtATime(lambda function, target, inputs: 0 if target % 2 else 3)
        one = ToeplitzHash(*np.zeros((2, 1), np.uint64), 1, 1)
        every = ToeplitzHash(*tape.words(40).reshape(2, 20), 2, 4)
        targets = tape.branch("targets").integers(20, 16).astype(np.uint64)
        answers = liar.invert(circuit, one, 0, every, targets)
        true = answers >= 0
        assert (every.at(np.flatnonzero(true), answers[true].astype(np.uint64)) == targets[true]).all()


LAWS = {"two": [20, 12], "steps": [9, 4, 2, 1], "one": [0, 0, 16]}


@cache
def runs(name: str, count: int, seed: int, accuracy: float = 0.5) -> tuple:
    circuit = Circuit.of_counts(LAWS[name])
    plan = implicit_plan(circuit.inputs, accuracy)
    return tuple(
        implicit_correlated_sample(circuit, plan=plan, tape=Tape(f"{name} {seed}").branch(i)).value
        for i in range(count)
    )


def total_variation_limit(values: tuple, law: dict[int, float]) -> tuple[float, float]:
    """The measured total variation and how far it may be off, at confidence 1 − 10⁻⁶, over all events."""
    shares = {x: sum(v == x for v in values) / len(values) for x in (*law, None)}
    measured = sum(max(share - law.get(x, 0.0), 0.0) for x, share in shares.items())
    return measured, math.sqrt((len(shares) * math.log(2) - math.log(LEVEL)) / (2 * len(values)))


@pytest.mark.parametrize("name", list(LAWS))
def test_samples_have_the_law_of_the_circuit_to_the_stated_accuracy(name, seed):
    measured, margin = total_variation_limit(
        runs(name, 150, seed), Circuit.of_counts(LAWS[name]).probabilities
    )
    assert measured + margin <= 0.5
    assert margin < 0.25


def returned_law(counts: list[int], hits: int, slack: int, threshold: float | None) -> np.ndarray:
    """The law of what a round returns, when it returns, from exact binomials and without collisions.

    The threshold is drawn from [1, 2], or fixed.
    """
    total, inputs = sum(counts), sum(counts).bit_length() - 1
    weights = np.zeros(len(counts))
    for x, count in enumerate(counts):
        for level in range(inputs + 1):
            g = count / total * 2.0**level
            mean = g * hits
            k = np.arange(int(max(0, mean - 15 * math.sqrt(mean))), int(mean + 15 * math.sqrt(mean) + 2))
            a = k / hits
            drawn = np.clip(np.minimum(2 * a, 2.0) - np.maximum(a, 1.0), 0.0, None)
            kept = drawn if threshold is None else (threshold / 2 < a) & (a <= threshold)
            weights[x] += (stats.binom.pmf(k, hits << slack, g * 2.0**-slack) * kept).sum() / 2**level
    return weights / weights.sum()


@pytest.mark.parametrize("counts", [[17, 15], [20, 12], [9, 4, 2, 1], [9, 8, 8, 7]])
def test_a_threshold_that_is_not_drawn_gives_another_law(counts):
    law = np.array(counts) / sum(counts)
    right = returned_law(counts, 400, 6, None)
    assert np.abs(right - law).sum() / 2 < 0.003
    wrong = max(np.abs(returned_law(counts, 400, 6, beta) - law).sum() / 2 for beta in (1.0, 1.2, 1.5, 1.8))
    assert wrong > 0.03


def printed_checks(plan: ImplicitPlan, accuracy: float) -> int:
    """Algorithm 7's T₂ as printed, the logarithm's sign forgiven."""
    return max(1, round(accuracy**-2 * math.log(1 / accuracy) / plan.rounds * math.log(plan.rounds)))


@pytest.mark.parametrize("accuracy", [0.5, 0.1, 0.01])
def test_with_the_printed_number_of_checks_nothing_is_returned(accuracy, seed):
    plan = implicit_plan(4, accuracy)
    short = ImplicitPlan(4, plan.slack, min(plan.rounds, 3000), printed_checks(plan, accuracy))
    # One hit among so few is already more than any level allows.
    assert short.checks < 2 ** (short.slack - 1)
    circuit = Circuit.of_counts(LAWS["steps"])
    drawn = [
        implicit_correlated_sample(circuit, plan=short, tape=Tape(seed).branch(i)).value for i in range(5)
    ]
    assert drawn == [None] * 5
    assert short.accuracy == short.round_error == short.silence == 1.0


def agreement(plan, first, second, pairs, name):
    tapes = [Tape(name).branch(i) for i in range(pairs)]
    return [
        [implicit_correlated_sample(circuit, plan=plan, tape=tape).value for tape in tapes]
        for circuit in (first, second)
    ]


def check_agreement(plan, first, second, pairs, name):
    mine, theirs = agreement(plan, first, second, pairs, name)
    bound = plan.disagreement(first.total_variation(second))
    differ = sum(a != b for a, b in zip(mine, theirs, strict=True))
    assert stats.binomtest(differ, pairs, bound, alternative="greater").pvalue > LEVEL
    # Each with a tape of its own: the same results, paired wrongly, differ more often than the bound.
    apart = sum(a != b for a, b in zip(mine[1:] + mine[:1], theirs, strict=True))
    assert stats.binomtest(apart, pairs, bound, alternative="greater").pvalue < 1e-2
    return differ, bound


def test_circuits_of_one_law_agree_though_they_compute_it_differently(seed):
    first, second = (Circuit(lambda r, s=s: r ^ np.uint64(s), 4, 4) for s in (0, 11))
    plan = ImplicitPlan(4, slack=6, rounds=2000, checks=32_000)
    assert first.total_variation(second) == 0.0
    differ, bound = check_agreement(plan, first, second, 60, f"one law {seed}")
    # The proof counts every error as a disagreement: the upper limit is below the bound too.
    assert stats.binomtest(differ, 60, bound, alternative="less").pvalue < LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("moved", [0, 1])
def test_circuits_of_near_laws_agree_at_a_small_error(moved, seed):
    first = Circuit.of_counts([2] * 8)
    straight = Circuit.of_counts([2 + moved, 2 - moved, *[2] * 6])
    second = Circuit(lambda r: straight.table[r ^ np.uint64(13)], 4, 3)
    plan = ImplicitPlan(4, slack=8, rounds=6000, checks=4600 << 8)
    assert plan.round_error < 0.1
    check_agreement(plan, first, second, 30, f"near {seed} {moved}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "steps"])
def test_samples_have_the_law_of_the_circuit_at_a_quarter(name, seed):
    law = Circuit.of_counts(LAWS[name]).probabilities
    measured, margin = total_variation_limit(runs(name, 500, seed, 0.25), law)
    assert measured + margin <= 0.25


@pytest.mark.slow
def test_sixteen_inputs_and_sixteen_outputs(seed):
    circuit = Circuit(lambda r: r * r & np.uint64(0xFFFF), 16, 16)
    plan = ImplicitPlan(16, slack=5, rounds=2000, checks=2000)
    same = Circuit(lambda r: (r * r) % np.uint64(65536), 16, 16)
    drawn = [implicit_correlated_sample(c, plan=plan, tape=Tape(seed)).value for c in (circuit, same)]
    assert drawn[0] == drawn[1]
    assert drawn[0] is None or drawn[0] in circuit.probabilities


@given(st.integers(1, 16), st.floats(0.001, 0.9))
def test_plans_keep_their_accuracy_with_the_fewest_checks(inputs, accuracy):
    sharp, paper = (implicit_plan(inputs, accuracy, method=method) for method in ("sharp", "paper"))
    for plan in (sharp, paper):
        assert plan.accuracy <= accuracy
    assert sharp.checks < paper.checks
    fewer = ImplicitPlan(inputs, sharp.slack, sharp.rounds, sharp.checks - 1)
    assert fewer.round_error > 0.9 * accuracy


@given(st.integers(1, 16), st.integers(3, 15), st.integers(8, 2**20), st.floats(0, 1), st.floats(0, 1))
def test_more_work_promises_more(inputs, slack, hits, d, more):
    plan = ImplicitPlan(inputs, slack, 10**6, hits << slack)
    better = ImplicitPlan(inputs, slack + 1, 2 * 10**6, (hits + 1) << (slack + 1))
    assert better.round_error <= plan.round_error <= 1.0
    assert ImplicitPlan(inputs, slack, 10**7, hits << slack).silence <= plan.silence
    assert plan.disagreement(min(1.0, d + more)) >= plan.disagreement(d) * (1 - 1e-12)
    worse = ImplicitPlan(inputs, slack, 10**6, hits << slack, inverter_error=0.01)
    assert worse.round_error == pytest.approx(min(1.0, plan.round_error + 0.06 * (inputs + 1)))


def test_the_result_says_where_it_came_from(seed):
    circuit = Circuit.of_counts([5, 3])
    sample = implicit_correlated_sample(circuit, accuracy=0.5, tape=Tape(seed))
    again = implicit_correlated_sample(circuit, accuracy=0.5, tape=Tape.parse(sample.tape))
    assert again == sample
    assert sample.accuracy <= 0.5
    rounds = implicit_plan(3, 0.5).rounds
    assert (sample.value is None) == (sample.round is None)
    assert sample.round is None or 0 <= sample.round < rounds


class OwnHash(TableInverter):
    """An inverter that has an outer hash function of its own, whatever the tape draws, and inverts 0."""

    def __init__(self, seed):
        self._hash = ToeplitzHash(np.array([seed], np.uint64), np.zeros(1, np.uint64), 1, 1)

    def possible(self, circuit, first, values):
        return np.ones(len(values), dtype=bool)

    def invert(self, circuit, first, value, second, targets):
        return super().invert(circuit, self._hash, 0, second, targets)


def test_an_element_is_returned_only_if_it_is_the_only_one():
    """Both elements of a fair coin share u and are hit alike: no unique one, so the round stays silent."""
    circuit, plan = Circuit.of_counts([4, 4]), ImplicitPlan(3, slack=3, rounds=1, checks=2**16)
    tried = 0
    for number in range(200):
        tape = Tape(number)
        drawn = tape.branch("rounds")
        if drawn.integers(1, 4)[0] != 1 or not 0.1 < drawn.uniforms(1)[0] < 0.5:
            continue  # At another level or threshold neither element counts as hit.
        shared, apart = (
            implicit_correlated_sample(circuit, plan=plan, tape=tape, inverter=OwnHash(seed)).value
            for seed in (0, 1)
        )
        assert (shared, apart) == (None, 0)
        tried += 1
    assert tried > 5


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda c: implicit_correlated_sample(3, accuracy=0.5, tape=Tape("t")), "circuit"),
        (lambda c: implicit_correlated_sample(c, accuracy=0.5, tape="t"), "tape"),
        (lambda c: implicit_correlated_sample(c, tape=Tape("t")), "accuracy"),
        (lambda c: implicit_correlated_sample(c, accuracy=math.nan, tape=Tape("t")), "accuracy"),
        (lambda c: implicit_correlated_sample(c, accuracy=0.95, tape=Tape("t")), "accuracy"),
        (
            lambda c: implicit_correlated_sample(c, accuracy=0.5, plan=implicit_plan(3, 0.5), tape=Tape("t")),
            "accuracy",
        ),
        (lambda c: implicit_correlated_sample(c, plan=implicit_plan(4, 0.5), tape=Tape("t")), "plan"),
        (lambda c: implicit_plan(17, 0.5), "inputs"),
        (lambda c: implicit_plan(3, 0.5, method="best"), "method"),
        (lambda c: implicit_plan(3, 0.5, inverter_error=0.1), "inverter_error"),
        (lambda c: implicit_plan(3, 0.5, method="paper", inverter_error=0.1), "inverter_error"),
        (lambda c: ImplicitPlan(3, 17, 10, 10), "slack"),
        (lambda c: ImplicitPlan(3, 3, 0, 10), "rounds"),
        (lambda c: ImplicitPlan(3, 3, 10, math.inf), "checks"),
        (lambda c: ImplicitPlan(3, 3, 10, 10).disagreement(1.5), "total_variation"),
    ],
)
def test_bad_arguments_are_named(make, named):
    with pytest.raises(InvalidArgument) as caught:
        make(Circuit.of_counts([5, 3]))
    assert caught.value.argument == named
