"""The reusable holdout: printed numbers, sharp ones recomputed, an exact check on a real mechanism."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from holdfast.dependence import (
    Clusters,
    DependencyGraph,
    GaussianRows,
    HoldoutSettings,
    Independent,
    MarkovChain,
    MarkovNetwork,
    MDependent,
    Mixing,
    SimilarClusters,
    blanket_holdout_rows,
    reusable_holdout_rows,
    reusable_holdout_tail,
)
from holdfast.errors import InvalidArgument
from holdfast.stability import DP

CHAIN = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=1000)
THEOREM_1 = {"budget": 10, "noise": 0.011, "error": 0.1, "beta": 0.05}
THEOREM_2 = {"queries": 1000, "budget": 10, "error": 0.1, "beta": 0.05}


def test_the_printed_number():
    assert reusable_holdout_rows(**THEOREM_2, method="paper") == 14_631_558
    sigma = 0.05 / (12 * math.log(80_000))
    forgotten = max(9 * math.log(4 / 0.05) / 0.1**2, 27 * 10 / (4 * sigma * 0.1))
    assert 14_631_558 / forgotten == pytest.approx(8, rel=1e-6)


def _sharp_failure(n, queries, budget, error, beta, c):
    """BDP Theorem 2 for independent rows, once more, in mpmath, over a fine grid of b."""
    mp = mpmath.mp
    with mpmath.workdps(40):
        share = mp.mpf(beta) / (4 * queries)
        sigma = (1 - mp.mpf(c)) * error / (12 * mp.log(1 / share))
        t = (1 - mp.mpf(c)) * error / 4
        epsilon = 9 * mp.mpf(budget) / (4 * sigma * n)
        best = mp.mpf(1)
        for log_b in np.linspace(0.1, 60, 600):
            nats = n * epsilon**2 / 8 + epsilon * mp.sqrt(n * mp.mpf(log_b) / 2)
            best = min(best, 2 * queries * mp.exp(nats - 2 * n * t * t) + mp.exp(-mp.mpf(log_b)))
        loud = (budget + queries) * share + budget * mp.exp(-(3 + mp.mpf(c)) * error / (16 * sigma))
        return float(best + loud)


@pytest.mark.parametrize(
    ("queries", "budget", "error", "beta", "c"),
    [(1000, 10, 0.1, 0.05, 0.5), (20, 20, 0.3, 0.1, 0.5), (500, 1, 0.05, 0.01, 0.2), (1, 1, 0.2, 0.05, 0.8)],
)
def test_the_sharp_number_is_the_first_that_keeps_the_promise(queries, budget, error, beta, c):
    rows = reusable_holdout_rows(queries=queries, budget=budget, error=error, beta=beta, c=c)
    assert _sharp_failure(rows, queries, budget, error, beta, c) <= beta * 1.01
    assert _sharp_failure(round(rows * 0.99), queries, budget, error, beta, c) > beta
    printed = reusable_holdout_rows(
        queries=queries, budget=budget, error=error, beta=beta, c=c, method="paper"
    )
    assert rows < printed / 4


def test_the_sharp_number_beats_the_stated_one():
    assert reusable_holdout_rows(**THEOREM_2) <= 2_610_000


@given(st.integers(1, 2000), st.integers(1, 50), st.floats(0.02, 0.9), st.floats(1e-6, 0.5))
def test_rows_grow_with_questions_and_budget_and_fall_with_the_error(queries, budget, error, beta):
    budget = min(budget, queries)
    for method in ("paper", "sharp"):
        given_ = {"queries": queries, "budget": budget, "error": error, "beta": beta, "method": method}
        here = reusable_holdout_rows(**given_)
        assert here <= reusable_holdout_rows(**{**given_, "queries": queries + 10})
        assert here <= reusable_holdout_rows(**{**given_, "budget": budget + 1, "queries": queries + 1})
        assert here >= reusable_holdout_rows(**{**given_, "error": min(1.0, error * 1.1)})
        assert here >= reusable_holdout_rows(**{**given_, "beta": min(0.9, beta * 1.1)})


def test_settings_are_those_of_theorem_2():
    settings = HoldoutSettings(queries=1000, budget=10, error=0.1, beta=0.05, c=0.5)
    assert settings.threshold == pytest.approx(0.075)
    assert settings.noise == pytest.approx(0.05 / (12 * math.log(80_000)))
    assert settings.deviation == pytest.approx(0.0125)
    assert settings.noise_failure <= 0.05 / 2


@pytest.mark.parametrize(("n", "epsilon"), [(40, 0.02), (40, 0.1), (150, 0.05), (150, 0.2)])
@pytest.mark.parametrize("error", [0.15, 0.25, 0.35])
def test_a_private_choice_is_covered_exactly(n, epsilon, error):
    """The exponential mechanism picks, of three independent fair-coin columns, one that deviates; its exact
    failure, over all tables of counts, is below the bound, and the fixed query's tail is not enough."""
    coin = binom.pmf(np.arange(n + 1), n, 0.5)
    off = np.abs(np.arange(n + 1) / n - 0.5)
    weight = np.exp(
        epsilon * n * off / 2
    )  # the utility moves by 1/n with one row, so this is epsilon-private
    a, b, c = np.meshgrid(*[np.arange(n + 1)] * 3, indexing="ij")
    joint = coin[a] * coin[b] * coin[c]
    total = weight[a] + weight[b] + weight[c]
    exact = sum(float((joint * weight[x] / total)[off[x] >= error - 1e-12].sum()) for x in (a, b, c))
    fixed = float(coin[off >= error - 1e-12].sum())
    bound = reusable_holdout_tail(n=n, error=error, epsilon=epsilon)
    assert fixed < exact <= bound


def test_without_privacy_the_bound_would_be_false():
    """A column chosen because it deviates most breaks the tail of a fixed query: privacy is what pays."""
    n, columns, error = 100, 2000, 0.15
    fixed = 2 * binom.sf(64, n, 0.5)
    most = 1 - (1 - fixed) ** columns
    assert most > reusable_holdout_tail(n=n, error=error, epsilon=0.0)
    assert most > reusable_holdout_tail(n=n, error=error, epsilon=0.05)


def test_the_printed_lemma_needs_product_concentration():
    """n identical fair coins: the mean is off by a half, always; the printed bound, which looks at n alone,
    calls that impossible, the sharp one with the model does not."""
    n = 1000
    identical = Clusters([n])
    assert reusable_holdout_tail(n=n, error=0.5, epsilon=0.1, model=identical, method="paper") < 1e-11
    assert reusable_holdout_tail(n=n, error=0.5, epsilon=0.1, model=identical) == 1.0


@given(st.integers(2, 10**6), st.floats(0.01, 1.0), st.floats(0.0, 1.0))
def test_the_tail_is_never_below_that_of_a_fixed_query(n, error, epsilon):
    found = reusable_holdout_tail(n=n, error=error, epsilon=epsilon)
    assert 0 <= found <= 1
    assert found >= min(1.0, 2 * math.exp(-2 * n * error**2)) * (1 - 1e-9)
    assert found <= reusable_holdout_tail(n=n, error=error, epsilon=epsilon + 0.01) * (1 + 1e-2)
    assert found >= reusable_holdout_tail(n=n, error=min(1.0, error * 1.1), epsilon=epsilon) * (1 - 1e-2)


def test_clusters_are_groups():
    pairs = Clusters([2] * 50)
    alone = reusable_holdout_rows(**THEOREM_2)
    together = reusable_holdout_rows(**THEOREM_2, model=pairs)
    assert 2 * alone < together < 4 * alone
    assert reusable_holdout_rows(**THEOREM_2, model=pairs, method="paper") == pytest.approx(
        2 * 14_631_557.36, abs=2
    )
    assert reusable_holdout_rows(**THEOREM_2, model=Clusters([1] * 7)) == pytest.approx(alone, rel=1e-3)


def test_chains():
    given_ = {"queries": 50, "budget": 2, "error": 0.3, "beta": 0.05}
    alone = reusable_holdout_rows(**given_)
    sharp = reusable_holdout_rows(**given_, model=CHAIN)
    printed = reusable_holdout_rows(**given_, model=CHAIN, method="paper")
    assert alone < sharp < printed / 10
    settings = HoldoutSettings(50, 2, 0.3, 0.05, 0.5)
    assert settings.failure(CHAIN.scaled_to(sharp)) <= 0.05
    assert settings.failure(CHAIN.scaled_to(round(sharp * 0.98))) > 0.05
    dp = DP(settings.total_epsilon / sharp)
    assert CHAIN.bayesian_dp(dp).epsilon > dp.epsilon
    cycle = MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], n=100)
    assert alone < reusable_holdout_rows(**given_, model=cycle, method="paper")
    flip = MarkovChain([[0.0, 1.0], [1.0, 0.0]], n=100)
    with pytest.raises(InvalidArgument, match="spectral gap"):
        reusable_holdout_rows(**given_, model=flip, method="paper")


def test_very_long_chains_keep_a_tail():
    long = CHAIN.scaled_to(10**8)
    quick, best = long.share_tail(), CHAIN.mean_tail(0, 1)
    scaled = best.radius_at(50.0) * math.sqrt(CHAIN.n / 10**8)
    assert quick.radius_at(50.0) == pytest.approx(scaled, rel=1e-6)
    started = MarkovChain(CHAIN.transition, 10**8, initial=[1.0, 0.0])
    assert started.share_tail().radius_at(50.0) >= quick.radius_at(50.0)


def test_a_printed_bound_of_a_long_table_is_no_zero():
    assert 0 < reusable_holdout_tail(n=10**6, error=0.1, epsilon=0.01, method="paper") < 1e-300


@pytest.mark.parametrize("model", [Mixing(0.5), Clusters(column="person")])
def test_a_model_that_was_made_before_its_table_has_no_number_of_rows(model):
    with pytest.raises(InvalidArgument, match="how many rows there are") as refused:
        reusable_holdout_rows(queries=10, budget=2, error=0.1, beta=0.05, model=model)
    assert refused.value.argument == "model"


def test_models_of_other_sizes():
    assert Independent(10).scaled_to(7) == Independent(7)
    assert MDependent(10, 2).scaled_to(50) == MDependent(50, 2)
    similar = Clusters([1, 3] * 5).scaled_to(200)
    assert isinstance(similar, SimilarClusters)
    assert (similar.n, similar.largest, similar.square) == (200, 3, 2.5)
    real = Clusters([1, 3] * 50)
    assert similar.mean_tail(0, 1).radius(0.05) == pytest.approx(real.mean_tail(0, 1).radius(0.05))
    assert similar.scaled_to(400).n == 400
    with pytest.raises(InvalidArgument, match="one table of 9 rows"):
        DependencyGraph([(0, 1)], n=9).scaled_to(10)


MODELS = [
    Independent(40),
    MDependent(40, 3),
    MDependent(40, 0),
    Clusters([1, 3] * 10),
    SimilarClusters(40, 3, 2.5),
    MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=40),
    MarkovNetwork([([0, 1], [[2, 1], [1, 2]])]),
    GaussianRows([[1.0, 0.5], [0.5, 1.0]]),
    DependencyGraph([(0, 1)], n=9),
    Mixing(0.5, n=40),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_model_answers_the_same_questions(model):
    """One signature for all: a model that has no bound says so, and names those that have one."""
    assert model.scaled_to(model.n) is model
    assert model.share_tail().radius(0.05) > 0.0
    assert model.mean_tail().radius(0.05) > 0.0
    if not model.has_bayesian_dp:
        for question in (model.bayesian_epsilon, model.joint_epsilon, model.printed_dp):
            with pytest.raises(InvalidArgument, match="no bound on Bayesian differential privacy is known"):
                question(0.1)
        with pytest.raises(InvalidArgument, match="statistics that are not means"):
            model.statistic_tail()
        return
    bayesian = model.bayesian_epsilon(0.1)
    assert bayesian == model.bayesian_dp(DP(0.1)).epsilon >= 0.1
    assert model.bayesian_epsilon(0.0) == 0.0
    assert 0.0 < model.joint_epsilon(0.1) <= bayesian * (1 + 1e-12)
    assert model.statistic_tail().radius(0.05) == pytest.approx(
        model.difference_tail(1.0 / model.n).radius(0.05) if type(model) is not SimilarClusters else 0.3395,
        rel=1e-3,
    )
    if model.has_printed_dp:
        assert 0.0 < model.printed_dp(0.1) <= 0.1


def test_only_rows_with_a_blanket_say_how_it_is_influenced():
    assert Independent(9).blanket_influence() == 0.0
    chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=40)
    assert chain.blanket_influence() == pytest.approx(2 * math.log(3.0))
    with pytest.raises(InvalidArgument, match="blanket"):
        Clusters([2, 2]).blanket_influence()


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (reusable_holdout_rows, {**THEOREM_2, "budget": 1001}, "budget"),
        (reusable_holdout_rows, {**THEOREM_2, "error": 0.0}, "error"),
        (reusable_holdout_rows, {**THEOREM_2, "beta": math.nan}, "beta"),
        (reusable_holdout_rows, {**THEOREM_2, "c": 1.0}, "c"),
        (reusable_holdout_rows, {**THEOREM_2, "method": "best"}, "method"),
        (reusable_holdout_rows, {**THEOREM_2, "model": DependencyGraph([(0, 1)], n=100)}, "model"),
        (reusable_holdout_rows, {**THEOREM_2, "scale": 0.0}, "scale"),
        (reusable_holdout_rows, {**THEOREM_2, "model": MDependent(100, 3), "method": "paper"}, "model"),
        (reusable_holdout_rows, {**THEOREM_2, "model": "chain"}, "model"),
        (reusable_holdout_tail, {"n": 0, "error": 0.1, "epsilon": 0.1}, "n"),
        (reusable_holdout_tail, {"n": 10, "error": 2.0, "epsilon": 0.1}, "error"),
        (reusable_holdout_tail, {"n": 10, "error": 0.1, "epsilon": -1.0}, "epsilon"),
        (reusable_holdout_tail, {"n": 10, "error": 0.1, "epsilon": 0.1, "method": "paper"}, "epsilon"),
        (reusable_holdout_tail, {"n": 10, "error": 2.0, "epsilon": 0.1, "sensitivity": -1.0}, "sensitivity"),
        (blanket_holdout_rows, {**THEOREM_1, "noise": 0.0}, "noise"),
        (blanket_holdout_rows, {**THEOREM_1, "method": "best"}, "method"),
        (blanket_holdout_rows, {**THEOREM_1, "model": Clusters([2, 3])}, "model"),
        (blanket_holdout_rows, {**THEOREM_1, "model": MDependent(9, 2)}, "model"),
        (blanket_holdout_rows, {**THEOREM_1, "model": CHAIN, "method": "paper"}, "error"),
    ],
)
def test_bad_arguments_are_named(function, arguments, name):
    with pytest.raises(InvalidArgument) as caught:
        function(**arguments)
    assert caught.value.argument == name


# Statistics of any kind (BDP Lemma 1 with its Δ), and n_* of Theorem 1.


@pytest.mark.parametrize("sensitivity", [1e-3, 1.0, 250.0])
def test_lemma_1_with_its_own_sensitivity(sensitivity):
    n, error = 2_000, 300 * sensitivity
    printed = 4 * math.exp(-(error**2) / (9 * n * sensitivity**2))
    epsilon = error / (3 * n * sensitivity)
    found = reusable_holdout_tail(
        n=n, error=error, epsilon=epsilon * (1 - 1e-9), sensitivity=sensitivity, method="paper"
    )
    assert found == pytest.approx(printed, rel=1e-9)
    with pytest.raises(InvalidArgument, match="sensitivity"):
        reusable_holdout_tail(
            n=n, error=error, epsilon=epsilon * 1.01, sensitivity=sensitivity, method="paper"
        )
    sharp = reusable_holdout_tail(n=n, error=error, epsilon=epsilon / 4, sensitivity=sensitivity)
    as_a_mean = reusable_holdout_tail(n=n, error=error / (n * sensitivity), epsilon=epsilon / 4)
    assert sharp == pytest.approx(as_a_mean, rel=1e-9)
    assert sharp < printed


@pytest.mark.parametrize("model", [None, Clusters([1, 3] * 5), CHAIN, MDependent(50, 2)])
def test_rows_for_statistics_do_not_depend_on_their_unit(model):
    given_ = {"queries": 50, "budget": 3, "beta": 0.05, "model": model}
    alone = reusable_holdout_rows(**given_, error=0.2, scale=1.0)
    assert reusable_holdout_rows(**given_, error=1e6, scale=5e6) == alone
    with_noise = reusable_holdout_rows(**given_, error=0.2, noise=0.01, scale=1.0)
    assert reusable_holdout_rows(**given_, error=40.0, noise=2.0, scale=200.0) == with_noise
    means = reusable_holdout_rows(**given_, error=0.2)
    assert means <= alone * (1 + 2e-3)
    if model is None:
        assert means == alone
    if model is not None and not isinstance(model, MDependent):
        printed = reusable_holdout_rows(**given_, error=0.2, method="paper")
        assert reusable_holdout_rows(**given_, error=20, scale=100, method="paper") == printed


def test_m_dependence_in_the_calculator_grows_with_m():
    given_ = {"queries": 50, "budget": 3, "error": 0.2, "beta": 0.05}
    rows = [reusable_holdout_rows(**given_, model=MDependent(100, m)) for m in (0, 1, 2, 5)]
    assert rows[0] == pytest.approx(reusable_holdout_rows(**given_), rel=2e-3)
    assert rows == sorted(rows)
    assert rows[3] < 40 * rows[0]


def test_blankets_by_name():
    """n_* as printed, by hand; and sharp, below it and not below the sharp n_#."""
    assert blanket_holdout_rows(**THEOREM_1, method="paper") == math.ceil(
        max(9 * math.log(4 / 0.05) / 0.1**2, 9 * 10 / (4 * 0.011 * 0.1 / 3))
    )
    assert blanket_holdout_rows(**THEOREM_1) == reusable_holdout_rows(**THEOREM_1, queries=1)
    near = 1e-3
    chain = MarkovChain([[0.5 + near, 0.5 - near], [0.5 - near, 0.5 + near]], n=9)
    a = 2 * math.log((0.5 + near) / (0.5 - near))
    printed = 9 * 10 / (4 * 0.011 * (0.1 / 3 - 4 * a))
    assert blanket_holdout_rows(**THEOREM_1, model=chain, method="paper") == math.ceil(printed)
    sharp = blanket_holdout_rows(**THEOREM_1, model=chain)
    assert reusable_holdout_rows(**THEOREM_1, queries=1, model=chain) <= sharp < printed / 10
    epsilon = 9 * 10 / (4 * 0.011 * sharp) + 2 * a
    assert reusable_holdout_tail(n=sharp, error=0.1, epsilon=epsilon, model=chain) <= 0.05
    scaled = {**THEOREM_1, "noise": 1.1, "error": 10.0}
    assert blanket_holdout_rows(**scaled, scale=100.0, model=chain, method="paper") == math.ceil(printed)
    ring = MarkovNetwork([((i, (i + 1) % 5), [[1.0, 0.999], [0.999, 1.0]]) for i in range(5)])
    b = max(ring.max_influence(ring.blanket(i), i) for i in range(5))
    assert blanket_holdout_rows(**THEOREM_1, model=ring, method="paper") == math.ceil(
        9 * 10 / (4 * 0.011 * (0.1 / 3 - 4 * b))
    )
    with pytest.raises(InvalidArgument, match="one table of 5 rows"):
        blanket_holdout_rows(**THEOREM_1, model=ring)


def _algorithm_1(rng, holdout, training, settings, queries):
    """BDP Algorithm 1 on queries given as columns, each a function of the answers so far."""
    threshold = settings.threshold + rng.laplace(0, settings.noise)
    left, answers = settings.budget, []
    for query in queries:
        on_holdout, on_training = query(holdout, answers), query(training, answers)
        if left < 1:
            break
        if abs(on_holdout - on_training) + rng.laplace(0, 2 * settings.noise) > threshold:
            left -= 1
            threshold = settings.threshold + rng.laplace(0, settings.noise)
            answers.append(on_holdout + rng.laplace(0, 4 * settings.noise))
        else:
            answers.append(on_training)
    return answers


def test_the_algorithm_keeps_the_promise_against_the_sign_attack(rng):
    m, runs = 40, 60
    given_ = {"queries": m, "budget": 2, "error": 0.5, "beta": 0.2}
    rows = reusable_holdout_rows(**given_)
    settings = HoldoutSettings(**given_, c=0.5)
    missed = 0
    for _ in range(runs):
        holdout = rng.integers(0, 2, (rows, m - 1)).astype(np.int8)
        training = rng.integers(0, 2, (60, m - 1)).astype(np.int8)

        def column(j):
            return lambda data, answers: float(data[:, j].mean())

        def vote(data, answers):
            signs = np.sign(np.array(answers) - 0.5)
            return float(((2.0 * data[:, : len(signs)] - 1) @ signs > 0).mean())

        queries = itertools.chain(map(column, range(m - 1)), (vote,))
        answers = _algorithm_1(rng, holdout, training, settings, queries)
        off = [abs(answer - 0.5) >= 0.5 for answer in answers]
        overfit = [abs(float(training[:, j].mean()) - 0.5) >= 0.25 for j in range(m - 1)]
        missed += any(off) and sum(overfit) < settings.budget
    assert missed <= binom.ppf(1 - 1e-9, runs, given_["beta"])
