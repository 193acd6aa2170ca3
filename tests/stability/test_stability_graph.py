"""The conversion graph: paths, optimised parameters, what is missing, what would help."""

from __future__ import annotations

import itertools
import json
import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.examples import examples, thinned
from enumeration import exact_epsilon, independent, small_mechanisms
from holdfast.errors import InvalidArgument
from holdfast.stability import (
    DP,
    NODES,
    BayesianDP,
    GoodCoins,
    MaxInformation,
    Path,
    PerfectGeneralization,
    Replicability,
    Step,
    TwoSampleStability,
    TypicalStability,
    collision_probability,
    convert,
    explain,
    parse_notion,
    perfect_plan,
    private_plan,
)
from holdfast.stability._arrows import ARROWS, strain
from holdfast.stability._graph import tightest, trace

STARTS = {
    "dp": DP(1e-5),
    "bayesian-dp": BayesianDP(1e-5),
    "typical": TypicalStability(0.01, 1e-6, 1e-6),
    "two-sample": TwoSampleStability(0.01, 1e-6, 1e-6),
    "max-information": MaxInformation(0.01, 1e-6),
    "perfect-generalization": PerfectGeneralization(1e-6, 0.01, 1e-6),
    "one-way": PerfectGeneralization(1e-6, 0.01, 1e-6, kind="one-way"),
    "sample": PerfectGeneralization(1e-6, 0.01, 1e-6, kind="sample"),
    "replicable": Replicability(1e-4),
    "good-coins": GoodCoins(0.01, 0.01),
}
CONTEXT = {"n": 1000, "outcomes": 4, "epsilon": 1.0, "delta": 1e-3}


@pytest.mark.parametrize(("start", "target"), thinned(itertools.product(NODES, NODES), 3))
def test_every_pair_has_a_path_or_says_what_can_be_reached(start, target):
    if target == "bayesian-dp" != start:
        with pytest.raises(InvalidArgument, match="leads to") as refusal:
            explain(STARTS[start], target, **CONTEXT)
        assert refusal.value.argument == "to"
        return
    path = explain(STARTS[start], target, **CONTEXT)
    assert path.result == convert(STARTS[start], target, **CONTEXT)
    assert type(path.result) is NODES[target].type
    assert getattr(path.result, "kind", "") == NODES[target].kind
    assert path.rows == CONTEXT["n"] * path.factor
    here = start
    for step in path.steps:
        assert step.source == here
        assert step.theorem
        assert step.kind
        here = step.target
    assert here == target
    assert len({step.source for step in path.steps}) == len(path.steps)
    json.dumps(path.to_dict())
    assert path.summary in str(path)
    assert "<table>" in path._repr_html_()


def test_figure_1_of_sis_is_in_the_graph():
    arrows = {(arrow.source, arrow.target): arrow for arrow in ARROWS}
    assert len(arrows) == len(ARROWS)
    for source, target, kind in (
        ("dp", "max-information", "same algorithm"),
        ("max-information", "one-way", "same algorithm"),
        ("one-way", "replicable", "explicit, not efficient; finite outcomes"),
        ("good-coins", "dp", "efficient transformation"),
        ("good-coins", "sample", "efficient transformation"),
        ("perfect-generalization", "one-way", "same algorithm"),
    ):
        assert arrows[source, target].kind == kind
    assert "SIS Theorem 3.17" in arrows["one-way", "replicable"].theorem
    assert "SIS Theorem 3.1 " in arrows["good-coins", "dp"].theorem


def test_the_best_path_is_the_best_by_hand():
    path = explain(DP(1e-5), "replicable", n=1000, method="paper")
    assert [step.target for step in path.steps] == ["max-information", "one-way", "replicable"]
    path = explain(MaxInformation(0.01, 1e-6), "replicable")
    assert [step.target for step in path.steps] == ["one-way", "replicable"]
    by_hand = min(
        MaxInformation(0.01, 1e-6).one_way(d).replicability().rho for d in np.geomspace(1e-8, 1e-1, 600)
    )
    assert path.result.rho <= by_hand
    assert path.result.rho == pytest.approx(by_hand, rel=0.02)
    redone = MaxInformation(0.01, 1e-6).one_way(path.steps[0].parameters["d"]).replicability()
    assert redone == path.result


@pytest.mark.parametrize("dp", [DP(1e-5), DP(1e-5, 1e-12), DP(1e-3)])
@pytest.mark.parametrize("outcomes", [None, 2, 4])
def test_privacy_leads_to_replicability_at_once(dp, outcomes):
    path = explain(dp, "replicable", n=1000, outcomes=outcomes)
    (step,) = path.steps
    assert step.kind == "explicit, not efficient; finite outcomes"
    assert "Holdfast, expected distance" in step.theorem
    # ρ = 2x/(1 + x), and x for two outcomes; x = √((cosh(ε/2)^{2n} − 1)/2). For δ > 0, ε in place of ε/2 and
    # 2nδ more, or the same ε/2 and 2n√δ more.
    with mpmath.workdps(50):
        epsilon, delta = mpmath.mpf(dp.epsilon), mpmath.mpf(dp.delta)
        x = min(
            mpmath.sqrt((mpmath.cosh(epsilon * length / 2) ** 2000 - 1) / 2) + cost
            for length, cost in ((2, 2000 * delta), (1, 2000 * mpmath.sqrt(delta)))
        )
        rho = x if outcomes == 2 else 2 * x / (1 + x)
    assert float(rho) <= path.result.rho <= float(rho) * (1.0 + 1e-9)
    around = explain(dp, "replicable", n=1000, outcomes=outcomes, beta=1e-6)
    assert around.steps[0].target != "replicable"
    assert around.result.rho > 3.0 * path.result.rho


def test_what_the_context_gives_is_not_optimised():
    path = explain(DP(1e-5), "one-way", n=1000, beta=0.01, d=0.2)
    assert path.result == DP(1e-5).max_information(1000, 0.01).one_way(0.2)
    assert path.steps[0].parameters == {"n": 1000, "beta": 0.01}


def test_more_context_opens_better_paths():
    without = explain(DP(1e-4), "replicable", n=1000, method="paper")
    with_outcomes = explain(DP(1e-4), "replicable", n=1000, outcomes=4, method="paper")
    assert with_outcomes.steps[0].target == "perfect-generalization"
    assert with_outcomes.result.rho < without.result.rho
    two = explain(DP(1e-4), "replicable", n=1000, outcomes=2).result.rho
    assert two < 0.6 * explain(DP(1e-4), "replicable", n=1000).result.rho


def test_what_is_given_must_play_a_role():
    path = explain(DP(1e-5), "max-information", n=10, beta=0.1)
    assert path.result == DP(1e-5).max_information(10, 0.1)
    assert explain(DP(1e-5), "one-way", n=1000, beta=0.01, d=0.2).steps[0].target == "max-information"
    assert explain(DP(1e-5), "one-way", n=1000).result.beta < 0.01


def test_ties_go_to_the_shortest_path():
    path = explain(PerfectGeneralization(0.01, 0.1, 0.0), "one-way")
    assert len(path.steps) == 1
    path = explain(TypicalStability(0.1, 0.0, 0.01), "perfect-generalization")
    assert len(path.steps) == 1
    assert path.result == PerfectGeneralization(0.01, 0.1, 0.0)


def test_rows_multiply_along_the_path():
    plan = private_plan(1.0, 1e-6, coins=GoodCoins(0.1, 0.1))
    path = explain(GoodCoins(0.1, 0.1), "dp", epsilon=1.0, delta=1e-6, n=1000)
    assert (path.factor, path.rows) == (plan.runs, 1000 * plan.runs)
    assert path.result == DP(1.0, 1e-6)
    assert path.steps[0].parameters["seeds"] == plan.seeds
    assert explain(GoodCoins(0.1, 0.1), "dp", epsilon=1.0, delta=1e-6).rows is None
    by_ends = {(arrow.source, arrow.target): arrow for arrow in ARROWS}
    route = (by_ends["good-coins", "dp"], by_ends["dp", "max-information"])
    at = {"method": "sharp", "epsilon": 1e-3, "delta": 1e-30, "n": 10, "beta": 0.1}
    private, information = trace(GoodCoins(0.01, 0.01), route, at, ())
    assert private.rows > 1
    assert information.parameters["n"] == 10 * private.rows
    assert information.result == DP(1e-3, 1e-30).max_information(10 * private.rows, 0.1)


def test_the_number_of_good_coins_is_chosen_for_the_fewest_rows():
    path = explain(Replicability(0.01), "dp", epsilon=1.0, delta=1e-6)
    for nu in np.geomspace(0.011, 1.0, 30):
        coins = Replicability(0.01).good_coins(nu)
        if coins.eta < 0.5 and coins.nu < 1.0:
            assert path.factor <= private_plan(1.0, 1e-6, coins=coins).runs


@pytest.mark.parametrize("rho", [0.06, 0.1, 0.2, 0.3, 0.45])
def test_good_coins_are_found_however_narrow_their_window(rho):
    # η < ½ needs 2ρ < ν < 1; the fewest runs over a grid of 200 shares in that window are not beaten.
    shares = 2.0 * rho + (1.0 - 2.0 * rho) * np.linspace(0.005, 0.98, 200)
    coins = [Replicability(rho).good_coins(float(nu)) for nu in shares]
    private = explain(Replicability(rho), DP, epsilon=1.0, delta=1e-6)
    assert private.result == DP(1.0, 1e-6)
    assert private.factor <= min(private_plan(1.0, 1e-6, coins=coin).runs for coin in coins)
    perfect = explain(Replicability(rho), "sample", epsilon=1.0, delta=0.01)
    assert perfect.result == perfect_plan(1.0, 0.01).guarantee
    assert perfect.factor <= 1.005 * min(perfect_plan(1.0, 0.01, coins=coin).runs for coin in coins)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.1, 0.3, 0.6, 0.9])
def test_the_share_of_good_coins_is_the_tightest(rho):
    best = min(strain(Replicability(rho).good_coins(float(nu))) for nu in np.geomspace(1e-9, 0.999, 3000))
    assert strain(convert(Replicability(rho), "good-coins")) <= best * (1.0 + 1e-4)


RHOS = [float(rho) for rho in (*np.linspace(0.001, 0.999, 500), 1e-6, 1 - 1e-6, 1 - 1e-9)]


def test_replicability_generalises_for_every_rho():
    """(√ρ, 0, √ρ) is the best, so nothing below ρ = 1 is vacuous; more ρ never gives a tighter end."""
    before = 0.0
    for rho in sorted(RHOS):
        start = Replicability(rho)
        path = explain(start, "perfect-generalization")
        assert [step.target for step in path.steps] == ["perfect-generalization"]
        assert not path.vacuous
        assert path.result.beta == pytest.approx(math.sqrt(rho), rel=1e-4)
        assert path.result.delta == pytest.approx(math.sqrt(rho), rel=1e-4)
        here = strain(path.result)
        assert here <= strain(start.perfect_generalization()) * (1.0 + 1e-8)
        assert before <= here * (1.0 + 1e-8)
        before = here


def test_a_scan_of_d_that_is_even_in_its_logarithm_misses_the_window():
    """From ρ = 0.1155 on, the window (ρ, 1) lies between the last two points of such a scan."""
    scan = np.geomspace(1e-15, 1.0, 17)
    assert all(Replicability(0.2).perfect_generalization(float(d)).vacuous for d in scan)
    assert not Replicability(0.2).perfect_generalization().vacuous
    assert not convert(Replicability(0.2), "perfect-generalization").vacuous


@pytest.mark.parametrize(
    ("notion", "to"),
    [
        (GoodCoins(0.1, 0.01), "replicable"),
        (PerfectGeneralization(0.01, 0.1, 0.01, "one-way"), "perfect-generalization"),
        (MaxInformation(2.0, 0.01), "perfect-generalization"),
    ],
)
def test_a_number_that_only_longer_ways_use_does_no_harm(notion, to):
    # Ways that use beta need more numbers, which nobody gave.
    assert convert(notion, to, n=100, beta=0.01) == convert(notion, to, n=100)


@pytest.mark.parametrize("bits", [0.0, 0.1, 3.0])
def test_max_information_generalises_one_way_for_every_beta(bits):
    before = 0.0
    for beta in sorted(RHOS):
        start = MaxInformation(bits, beta)
        found = convert(start, "one-way")
        assert not found.vacuous
        assert strain(found) <= strain(start.one_way()) * (1.0 + 1e-8)
        assert before <= strain(found) * (1.0 + 1e-8)
        before = strain(found)


@given(st.floats(1e-9, 0.999), st.floats(0.0, 0.999), st.sampled_from([0.0, 0.3]))
def test_sample_form_becomes_two_way_wherever_some_d_makes_it(beta, share, epsilon):
    """The window is (β, 1 − δ), however narrow."""
    delta = share * (1.0 - beta)
    start = PerfectGeneralization(beta, epsilon, delta, kind="sample")
    best = start.two_way(math.sqrt(beta * (1.0 - delta)))
    assert not best.vacuous
    assert strain(convert(start, "perfect-generalization")) <= strain(best) * (1.0 + 1e-6)


@given(st.floats(-9.0, 0.0), st.floats(-30.0, -6.0), st.integers(1, 10**5))
def test_approximate_privacy_has_information_wherever_its_delta_allows_it(exponent, delta_exponent, rows):
    """Both forms of the bound are searched: the windows (nδ, 1) and (n√δ, 1) of β."""
    start = DP(10.0**exponent, 10.0**delta_exponent)
    found = convert(start, "max-information", n=rows)
    spent = [cost for cost in (rows * start.delta, rows * math.sqrt(start.delta)) if cost < 1.0]
    shares = [0.5, *(10.0**-power for power in range(1, 13))]
    by_hand = [start.max_information(rows, cost + (1 - cost) * share) for cost in spent for share in shares]
    assert strain(found) <= min(map(strain, by_hand)) * (1.0 + 1e-6)


def test_after_algorithm_1_no_outcome_is_one_more_outcome():
    """From privacy on, the two outcomes of the original algorithm are three."""
    context = {"epsilon": 8.0, "delta": 0.2, "n": 1, "outcomes": 2}
    by_ends = {(arrow.source, arrow.target): arrow for arrow in ARROWS}
    route = (by_ends["good-coins", "dp"], by_ends["dp", "replicable"])
    private, replicable = trace(GoodCoins(0.3, 0.3), route, {"method": "sharp", **context}, ())
    assert private.result == DP(8.0, 0.2)
    assert replicable.result.rho == pytest.approx(2 / 3)
    # One outcome, or none at all: two runs can differ.
    (step,) = explain(DP(8.0, 0.2), "replicable", n=1, outcomes=1).steps
    assert step.result == Replicability(0.0)
    _, replicable = trace(GoodCoins(0.3, 0.3), route, {"method": "sharp", **context, "outcomes": 1}, ())
    assert replicable.result.rho == pytest.approx(1 / 2)


def test_the_context_keeps_more_outcomes_across_a_milestone():
    """The search optimises stretch by stretch and must hand the larger count on."""
    context = {"epsilon": 8.0, "delta": 0.2, "n": 1, "outcomes": 2, "method": "sharp"}
    by_ends = {(arrow.source, arrow.target): arrow for arrow in ARROWS}
    route = (by_ends["good-coins", "dp"], by_ends["dp", "replicable"])
    key, values = tightest(GoodCoins(0.3, 0.3), route, context, fine=True)
    *_, last = trace(GoodCoins(0.3, 0.3), route, context, values)
    assert key[1] == pytest.approx(strain(last.result), rel=1e-12)
    assert last.result.rho == pytest.approx(2 / 3)


@pytest.mark.parametrize("outcomes", [1, 2, 5])
def test_counted_outcomes_bound_algorithm_2_after_any_notion(outcomes):
    weak = PerfectGeneralization(0.9, 3.0, 0.1, kind="one-way")
    assert explain(weak, "replicable").vacuous
    assert convert(weak, "replicable", outcomes=outcomes).rho == pytest.approx(1 - 1 / outcomes)
    assert explain(weak, "replicable", outcomes=outcomes, method="paper").vacuous


@pytest.mark.parametrize(
    ("notion", "to", "context", "argument", "words"),
    [
        (DP(0.1), "replicable", {}, "n", "dp → replicable needs n"),
        (BayesianDP(0.1), "max-information", {}, "n", "BDP Theorem 3"),
        (Replicability(0.1), "dp", {}, "epsilon", "good-coins → dp needs epsilon and delta"),
        (Replicability(0.1), "dp", {"epsilon": 1.0}, "delta", "SIS Theorem 3.1"),
        (DP(0.1, 0.01), "max-information", {"n": 1000, "beta": 0.1}, "delta", "below 1/n"),
        (DP(0.1, 1e-9), "replicable", {"n": 100, "method": "paper"}, "c", "SIS Lemma 3.11"),
        (GoodCoins(0.3, 0.1), "replicable", {"method": "paper"}, "eta", "SIS Claim 2.12"),
        (GoodCoins(0.6, 0.1), "dp", {"epsilon": 1.0, "delta": 1e-6}, "coins", "eta < 1/2"),
    ],
)
def test_what_is_missing_is_said(notion, to, context, argument, words):
    with pytest.raises(InvalidArgument) as refusal:
        explain(notion, to, **context)
    assert refusal.value.argument == argument
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("to", lambda: explain(DP(0.1), "privacy")),
        ("to", lambda: explain(DP(0.1), 3)),
        ("notion", lambda: explain(0.1, "dp")),
        ("context", lambda: explain(DP(0.1), "replicable", rows=10)),
        ("n", lambda: explain(DP(0.1), "replicable", n=0)),
        ("n", lambda: explain(DP(0.1), "replicable", n=math.nan)),
        ("beta", lambda: explain(DP(0.1), "replicable", n=10, beta=0.0)),
        ("method", lambda: explain(DP(0.1), "replicable", n=10, method="best")),
    ],
)
def test_bad_arguments_are_named(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert refusal.value.argument == argument


def test_names_and_classes_both_work():
    for to in ("replicable", "Replicability", " replicable ", Replicability):
        assert convert(DP(1e-5), to, n=10) == convert(DP(1e-5), "replicable", n=10)
    assert convert(DP(1e-5), PerfectGeneralization, n=10).kind == "two-way"
    assert convert(DP(1e-5), "max information", n=10, beta=0.1) == DP(1e-5).max_information(10, 0.1)
    assert explain(DP(0.1), DP).steps == ()
    assert explain(BayesianDP(0.1), "BayesianDP").steps == ()
    assert explain(TypicalStability(0.1), "TypicalStability").steps == ()
    assert convert(DP(1e-5), "PerfectGeneralization", n=10).kind == "two-way"
    assert "nothing to convert" in str(explain(DP(0.1), "dp"))


def test_paper_and_sharp():
    sharp = explain(DP(1e-5), "replicable", n=1000, beta=1e-9)
    paper = explain(DP(1e-5), "replicable", n=1000, beta=1e-9, method="paper")
    assert sharp.result.rho < paper.result.rho
    assert "Holdfast" in sharp.steps[1].theorem
    assert "Holdfast" not in paper.steps[1].theorem
    with_constants = explain(DP(1e-6, 1e-40), "replicable", n=100, method="paper", c=10.0, C=10.0)
    assert with_constants.steps[0].theorem == "SIS Lemma 3.11"


@examples(15)
@given(st.floats(-7.0, -4.0), st.integers(1, 10_000), st.floats(1.0, 3.0))
def test_conversion_is_monotone(exponent, n, growth):
    epsilon = 10.0**exponent
    base = convert(DP(epsilon), "replicable", n=n).rho
    assert convert(DP(epsilon * growth), "replicable", n=n).rho >= base * (1 - 1e-6)
    assert convert(DP(epsilon), "replicable", n=math.ceil(n * growth)).rho >= base * (1 - 1e-6)


def test_a_vacuous_result_says_what_would_help():
    path = explain(DP(0.01), "replicable", n=100_000)
    assert path.vacuous
    assert path.result.rho == 1.0
    assert "vacuous" in str(path)
    smaller, subsampled = path.advice
    epsilon = float(smaller.split("epsilon ≤ ")[1].split()[0])
    assert convert(DP(epsilon), "replicable", n=100_000).rho <= 0.1
    assert convert(DP(epsilon * 1.2), "replicable", n=100_000).rho > 0.1
    rows = int(subsampled.split("m ≥ ")[1].replace(",", ""))
    assert "SIS Corollary 3.13" in subsampled
    assert convert(DP(0.01).subsample(100_000, rows), "replicable", n=rows).rho <= 0.1
    assert convert(DP(0.01).subsample(100_000, rows // 2), "replicable", n=rows // 2).rho > 0.1


def test_advice_when_delta_is_too_large_for_any_epsilon():
    path = explain(DP(0.01, 1e-6), "replicable", n=100_000)
    smaller, subsampled = path.advice
    assert "with delta = 1e-06" in smaller
    epsilon = float(smaller.split("epsilon ≤ ")[1].split()[0])
    delta = float(smaller.split("delta ≤ ")[1].split()[0])
    assert convert(DP(epsilon, delta), "replicable", n=100_000).rho <= 0.1
    assert convert(DP(epsilon, 1e-6), "replicable", n=100_000).rho > 0.3
    rows = int(subsampled.split("m ≥ ")[1].split(", if")[0].replace(",", ""))
    delta = float(subsampled.split("delta ≤ ")[1])
    assert convert(DP(0.01, delta).subsample(100_000, rows), "replicable", n=rows).rho <= 0.1


@pytest.mark.parametrize(
    ("notion", "words"),
    [
        (MaxInformation(20.0, 1e-9), "bits ≤"),
        (BayesianDP(1.0), "epsilon ≤"),
        (PerfectGeneralization(1e-9, 3.0, 1e-9), "epsilon ≤"),
        (PerfectGeneralization(0.9, 3.0, 0.1, kind="one-way"), "no epsilon is small enough"),
        (PerfectGeneralization(0.0, 0.0, 0.6, kind="one-way"), "besides epsilon"),
        (PerfectGeneralization(1.0, 0.1, 0.1, kind="one-way"), "the start itself says nothing"),
    ],
)
def test_advice_for_other_starts(notion, words):
    path = explain(notion, "replicable", n=1000)
    assert path.vacuous
    assert words in " ".join(path.advice)


def test_useful_results_need_no_advice():
    assert explain(DP(1e-5), "replicable", n=1000).advice == ()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_enumerated_conversions_hold_end_to_end(n, rng):
    # From the exact ε of a table to the exact replicability of correlated sampling from it.
    law = independent(n, 0.5)
    for table in small_mechanisms(rng, n):
        claim = convert(DP(exact_epsilon(table, n)), "replicable", n=n, outcomes=table.shape[1]).rho
        differ = np.array([[1.0 - collision_probability(p, q) for q in table] for p in table])
        assert float(law @ differ @ law) <= claim + 1e-9


def test_records_are_plain_data():
    path = explain(Replicability(0.01), "sample", epsilon=1.0, delta=0.01)
    assert isinstance(path, Path)
    assert all(isinstance(step, Step) for step in path.steps)
    found = path.to_dict()
    assert found["result"]["notion"] == "PerfectGeneralization"
    assert found["steps"][0]["parameters"] == dict(path.steps[0].parameters)
    assert found["assumptions"] == list(path.assumptions)
    assert pickle.loads(pickle.dumps(path)) == path
    assert len({path, path}) == 1
    assert repr(path).startswith("Path(Replicability(rho=0.01) ⇒ ")
    with pytest.raises(AttributeError):
        path.to = "dp"


@pytest.mark.parametrize(
    ("text", "notion"),
    [
        ("dp(0.01, 1e-9)", DP(0.01, 1e-9)),
        ("DP(0.01)", DP(0.01)),
        (" dp ( epsilon = 0.01 , delta=1e-9 ) ", DP(0.01, 1e-9)),
        ("differential privacy(1)", DP(1.0)),
        ("bdp(0.1)", BayesianDP(0.1)),
        ("typical(0.1, 0, 1e-9)", TypicalStability(0.1, 0.0, 1e-9)),
        ("typical(eta=0.1, nu=1e-9)", TypicalStability(0.1, 0.0, 1e-9)),
        ("two_sample(0.1)", TwoSampleStability(0.1)),
        ("max-information(2, 0.01)", MaxInformation(2.0, 0.01)),
        ("pg(0.1, 0.2, 0.3)", PerfectGeneralization(0.1, 0.2, 0.3)),
        ("one-way(0.1, 0.2, delta=0.3)", PerfectGeneralization(0.1, 0.2, 0.3, kind="one-way")),
        ("sample(0.1, 0.2, 0.3)", PerfectGeneralization(0.1, 0.2, 0.3, kind="sample")),
        ("replicable(0.05)", Replicability(0.05)),
        ("good-coins(0.1, 0.2)", GoodCoins(0.1, 0.2)),
    ],
)
def test_notation_is_read(text, notion):
    assert parse_notion(text) == notion


@pytest.mark.parametrize(
    "text",
    [
        "dp",
        "dp()",
        "dp(a)",
        "dp(1, 2, 3)",
        "dp(0.1, epsilon=0.2)",
        "dp(sigma=1)",
        "dp(delta=1e-9, 0.1)",
        "dp(0.1,)",
        "privacy(0.1)",
        "dp(nan)",
        "dp(-1)",
        "dp(1, 1)",
        "dp(__import__('os'))",
        "",
        None,
        3,
    ],
)
def test_bad_notation_is_refused(text):
    with pytest.raises(InvalidArgument):
        parse_notion(text)


def test_round_trips_between_names_and_notions():
    for (name, notion), separator in itertools.product(STARTS.items(), (", ", ",")):
        numbers = separator.join(repr(getattr(notion, field)) for field in NODES[name].numbers)
        assert parse_notion(f"{name}({numbers})") == notion
