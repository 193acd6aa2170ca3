"""The reusable holdout: its exact privacy, its law, its intervals; and the code guard beside it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from holdfast.dependence import (
    Clusters,
    DependencyGraph,
    HoldoutSettings,
    Independent,
    MarkovChain,
    reusable_holdout_rows,
    reusable_holdout_tail,
)
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected
from holdfast.guard import CodeHoldout, Guard, ReusableHoldout
from holdfast.holdout import Promise, SparseNoise
from holdfast.mechanisms import Noise
from holdfast.queries import share
from holdfast.stability import DP, BayesianDP
from limits import lower_limit

# Noise takes a coin across this threshold about once in a million questions.
SETTINGS = {"threshold": 0.08, "noise": 0.0025, "budget": 4}


def coins(rng, rows=20_000, columns=6):
    return rng.integers(0, 2, (2, rows, columns)).astype(bool)


def column(place):
    return lambda rows: rows[:, place]


# Privacy, exactly: the law of a round on a coarse grid, for any pair of neighbours.

STEPS = 4  # grid steps by which one row moves a mean


def laplace_cdf(x, scale):
    return np.where(
        x < 0, 0.5 * np.exp(np.minimum(x, 0) / scale), 1 - 0.5 * np.exp(-np.maximum(x, 0) / scale)
    )


class Round:
    """One round on a grid: rounded Laplace noise on the threshold (at 0), the comparisons and the answer."""

    def __init__(self, threshold, comparison, answer):
        self.comparison, self.answer = comparison, answer
        far = round(60 * threshold)
        self.cuts = np.arange(-far, far + 1)
        self.weights = laplace_cdf(self.cuts + 0.5, threshold) - laplace_cdf(self.cuts - 0.5, threshold)

    @classmethod
    def of(cls, noise):
        """The scales of the real mechanism, in units of what one row moves."""
        return cls(
            *(n.steps * STEPS / noise.moved for n in (noise.threshold, noise.comparison, noise.answer))
        )

    def below(self, difference):
        return laplace_cdf(self.cuts - difference + 0.5, self.comparison)

    def probability(self, kept, fired):
        """That differences ``kept`` stay below and then ``fired`` (None: nothing) does not."""
        inside = self.weights.copy()
        for difference in kept:
            inside = inside * self.below(difference)
        if fired is not None:
            # The upper tail itself: 1 − cdf would lose all digits far out.
            inside = inside * laplace_cdf(difference_to(fired, self.cuts), self.comparison)
        return float(inside.sum())

    def loss(self, kept, fired, moves, value_move):
        """The largest privacy loss of this pattern when the differences move by ``moves``."""
        there = [difference + move for difference, move in zip((*kept, fired), moves, strict=True)]
        pattern = math.log(self.probability(kept, fired) / self.probability(there[:-1], there[-1]))
        return pattern + abs(value_move) / self.answer

    def worst(self):
        """The worst of small patterns, all neighbours each, and of patterns that press on the threshold."""
        moves = (-STEPS, 0, STEPS)
        found = 0.0
        for kept, fired in itertools.product([(), (0,), (-20, 40), (60, 60)], (-60, 0, 60)):
            for move in itertools.product(moves, repeat=len(kept) + 1):
                found = max(found, self.loss(kept, fired, move, STEPS))
        for height, often, fired in itertools.product((0, 60, 120), (1, 10, 200), (-240, -60)):
            press = [STEPS] * often
            found = max(found, self.loss((height,) * often, fired, (*press, -STEPS), STEPS))
        return found


def difference_to(fired, cuts):
    return fired - cuts - 0.5


@pytest.mark.parametrize(("scale", "rows"), [(0.03, 100), (0.002, 2_500), (0.25, 40)])
def test_a_round_is_as_private_as_it_says(scale, rows):
    noise = SparseNoise(scale, rows)
    worst = Round.of(noise).worst()
    assert worst <= noise.epsilon(1) * (1 + 1e-9)
    assert worst >= 0.95 * noise.epsilon(1)  # the account is not wasteful either
    assert noise.epsilon(1) <= 9 / (4 * scale * rows) * (1 + 1e-12)


@pytest.mark.parametrize("part", ["threshold", "comparison", "answer"])
def test_half_the_noise_on_any_part_is_caught(part):
    noise = SparseNoise(0.03, 100)
    scales = {
        name: getattr(noise, name).steps * STEPS / noise.moved
        for name in ("threshold", "comparison", "answer")
    }
    assert Round(**{**scales, part: scales[part] / 2}).worst() > 1.05 * noise.epsilon(1)


def test_keeping_the_threshold_would_not_break_privacy():
    """B releases under one threshold cost 1 + 5B/4 row-moves over σ, less than the 9B/4 of refreshed ones:
    a twin that does not refresh is caught by its law below, not by its privacy."""
    noise = SparseNoise(0.03, 100)
    one = Round.of(noise)
    pressed, fired = (60,) * 50, -60

    def twice(kept_move, fired_move):
        inside = one.weights.copy()
        for difference in pressed:
            inside = inside * one.below(difference + kept_move)
        inside = inside * laplace_cdf(difference_to(fired + fired_move, one.cuts), one.comparison) ** 2
        return math.log(inside.sum()) + 0.0

    loss = twice(0, 0) - twice(STEPS, -STEPS) + 2 * STEPS / one.answer
    unit = noise.epsilon(1) * 4 / 9
    assert loss <= (1 + 5 * 2 / 4) * unit * (1 + 1e-9)
    assert loss < 2 * noise.epsilon(1) * 0.8


def transcripts(scale, rows):
    """The law of a whole session on ``rows`` coins, for every dataset: three questions, two releases, each
    released value known up to its third of [0, 1]."""
    training, threshold = (0.5, 0.3, 0.9), 0.2
    cuts = np.linspace(-30 * scale, 30 * scale, 4_001)
    weights = np.exp(-np.abs(cuts) / scale)
    weights /= weights.sum()
    functions = (lambda x: x, lambda x: 1 - x, lambda x: x)
    law = {}
    for dataset in itertools.product((0, 1), repeat=rows):
        means = [float(np.mean([f(x) for x in dataset])) for f in functions]
        below = [
            laplace_cdf(threshold + cuts - abs(mean - guess), 2 * scale)
            for mean, guess in zip(means, training, strict=True)
        ]
        thirds = [np.diff(laplace_cdf(np.array([-1e6, 1 / 3, 2 / 3, 1e6]) - m, 4 * scale)) for m in means]
        law[dataset] = [
            chance
            for fired in itertools.product((False, True), repeat=3)
            if sum(fired) < 3
            for chance in _session(fired, below, weights, thirds)
        ]
    return law


def _session(fired, below, weights, thirds):
    chances, open_round = np.ones(1), weights
    for place, fires in enumerate(fired):
        if fires:
            chances = np.outer(
                chances, float((open_round * (1 - below[place])).sum()) * thirds[place]
            ).ravel()
            open_round = weights
        else:
            open_round = open_round * below[place]
        if sum(fired[: place + 1]) == 2:
            return chances if not any(fired[place + 1 :]) else []
    return chances * float(open_round.sum())


@pytest.mark.parametrize("scale", [0.4, 1.0])
def test_whole_sessions_leak_no_more_than_the_account_says_under_any_model(scale):
    rows = 5
    law = transcripts(scale, rows)
    assert all(sum(chances) == pytest.approx(1, abs=1e-6) for chances in law.values())
    table = np.array([law[dataset] for dataset in law]).reshape((2,) * rows + (-1,))
    table /= table.sum(axis=-1, keepdims=True)
    private = DP(SparseNoise(scale, rows).epsilon(2))
    chain = MarkovChain([[0.7, 0.3], [0.3, 0.7]], rows)
    leaks = {}
    for model in (Independent(rows), chain, Clusters([2, 3])):
        leaks[model.name] = model.leakage(table)
        assert leaks[model.name] <= model.bayesian_dp(private).epsilon
    alone = leaks.pop("independent rows")
    assert alone > 0.2 * private.epsilon
    assert all(leak > 1.2 * alone for leak in leaks.values())  # dependence makes every answer say more


@given(st.integers(1, 10**7), st.floats(1e-6, 1.0), st.data())
def test_one_row_moves_a_rounded_mean_by_the_counted_steps(rows, scale, data):
    noise = SparseNoise(scale, rows)
    total = data.draw(st.integers(0, rows * 2**24))
    moved = data.draw(st.integers(max(0, total - 2**24), min(rows * 2**24, total + 2**24)))
    here, there = (noise.on_grid(Fraction(t, rows * 2**24)) / noise.grid for t in (total, moved))
    assert here == int(here)
    assert abs(here - there) <= noise.moved
    assert abs(here * noise.grid - total / (rows * 2**24)) <= noise.grid
    assert noise.threshold.scale >= scale
    assert noise.threshold.scale <= scale * (1 + 2.0**-30 * max(1, rows * scale)) + noise.grid
    assert noise.comparison.steps == 2 * noise.threshold.steps
    assert noise.answer.steps == 4 * noise.threshold.steps
    exact = Fraction(9 * noise.moved, 4 * noise.unit)
    assert exact <= Fraction(9) / (4 * Fraction(scale) * rows)
    assert noise.epsilon(1) >= exact


def test_the_account_is_that_of_algorithm_1(rng):
    train, fresh = coins(rng, rows=2_000)
    holdout = ReusableHoldout(train, fresh, **SETTINGS)
    assert holdout.privacy.epsilon == pytest.approx(9 * 4 / (4 * 0.0025 * 2_000))
    assert isinstance(holdout.privacy, DP)
    assert holdout.bayesian_privacy == BayesianDP(holdout.privacy.epsilon)
    other = ReusableHoldout(train[:500], fresh, **SETTINGS)
    assert other.privacy == holdout.privacy  # the size of the training part does not enter
    pairs = ReusableHoldout(train, fresh, **SETTINGS, dependence=Clusters([2] * 1_000))
    assert pairs.bayesian_privacy.epsilon == pytest.approx(2 * holdout.privacy.epsilon)
    chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], 2_000)
    chained = ReusableHoldout(train, fresh, **SETTINGS, dependence=chain)
    assert chained.bayesian_privacy.epsilon == pytest.approx(chain.bayesian_dp(holdout.privacy).epsilon)
    said = chained.certificate
    assert any("chain" in sentence.lower() for sentence in said.assumed)
    assert any("supplied by the caller" in sentence for sentence in said.assumed)
    assert said.numbers["Bayesian differential privacy"] == chained.bayesian_privacy.epsilon


# The law of what is released.


class Unrefreshed(ReusableHoldout):
    """A twin that draws one threshold and keeps it."""

    _first: float | None = None

    def _fresh_threshold(self):
        if self._first is None:
            self._first = super()._fresh_threshold()
        return self._first


class Halved(SparseNoise):
    """A twin with half of the noise."""

    def _noise(self, units):
        return Noise("laplace", units * self.unit // 2 * self.grid, self.grid)


QUESTIONS = 4


def patterns(maker, seed, sessions, gap, *, noise=None):
    """Which of four questions, each with training and holdout ``gap`` apart, the holdout answered."""
    rows = 1_000
    train = np.arange(rows) < 500
    fresh = np.arange(rows) < 500 + round(gap * rows)
    rng = np.random.default_rng(seed)
    seen = {}
    for _ in range(sessions):
        holdout = maker(train, fresh, threshold=0.1, noise=0.02, budget=QUESTIONS, simulation=True, seed=rng)
        if noise is not None:
            holdout._noise = noise(0.02, rows)
            holdout._cut = holdout._fresh_threshold()
        fired = tuple(not holdout.ask(lambda rows: rows).confirmed for _ in range(QUESTIONS))
        seen[fired] = seen.get(fired, 0) + 1
    return seen


def exact_patterns(gap):
    cuts = np.linspace(-0.6, 0.6, 240_001)
    weights = np.exp(-np.abs(cuts) / 0.02)
    weights /= weights.sum()
    fires = 1 - laplace_cdf(0.1 + cuts - gap, 0.04)
    expected = {}
    for pattern in itertools.product((False, True), repeat=QUESTIONS):
        probability, open_round = 1.0, weights
        for fired in pattern:
            if fired:
                probability, open_round = probability * float(open_round @ fires), weights
            else:
                open_round = open_round * (1 - fires)
        expected[pattern] = probability * float(open_round.sum())
    return expected


def agrees(seen, expected):
    sessions = sum(seen.values())
    return all(
        binomtest(seen.get(pattern, 0), sessions, probability).pvalue > 1e-6
        for pattern, probability in expected.items()
    )


@pytest.mark.parametrize("gap", [0.1, pytest.param(0.06, marks=pytest.mark.slow)])
def test_what_fires_has_the_law_of_the_algorithm(seed, gap):
    expected = exact_patterns(gap)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-4)
    assert agrees(patterns(ReusableHoldout, seed, 1_500, gap), expected)


def test_a_twin_that_keeps_its_threshold_is_caught(seed):
    assert not agrees(patterns(Unrefreshed, seed, 1_500, 0.1), exact_patterns(0.1))


def test_a_twin_with_half_the_noise_is_caught(seed):
    assert not agrees(patterns(ReusableHoldout, seed, 400, 0.06, noise=Halved), exact_patterns(0.06))


def test_released_values_have_four_times_the_noise(seed):
    rng = np.random.default_rng(seed)
    train, fresh = np.zeros(100, dtype=bool), np.arange(100) < 50
    drawn = []
    for _ in range(1_500):
        holdout = ReusableHoldout(
            train, fresh, threshold=1e-3, noise=0.005, budget=1, simulation=True, seed=rng
        )
        answer = holdout.ask(lambda rows: rows)
        drawn.append(abs(answer.value - 0.5))
    within = int((np.array(drawn) < 0.02 * math.log(2)).sum())  # the median of |Lap(4σ)|
    assert binomtest(within, len(drawn), 0.5).pvalue > 1e-6
    assert binomtest(int((np.array(drawn) < 0.01 * math.log(2)).sum()), len(drawn), 0.5).pvalue < 1e-9


# The intervals.


def held(holdout, functions, truth=0.5):
    for function in functions:
        try:
            answer = holdout.ask(function)
        except BudgetSpent:
            break
        if not answer.low <= truth <= answer.high:
            return False
    return True


def overfit_the_training_part(rng, maker):
    """Ask about the columns that look best in training, then about their votes; every truth is one half."""
    train, fresh = rng.integers(0, 2, (2, 2_000, 300), dtype=np.int8)
    chosen = np.argsort(-train.sum(0))[:25]
    votes = [lambda rows, k=k: 2 * rows[:, chosen[:k]].sum(1) > k for k in range(1, 26, 2)]
    return held(maker(train, fresh, rng), [*map(column, chosen), *votes])


def read_the_holdout(rng, maker):
    """A threshold and noise so small that the holdout speaks every time, and the vote it was made to cast."""
    train, fresh = rng.integers(0, 2, (2, 400, 101), dtype=np.int8)
    holdout = maker(train, fresh, rng)
    signs = np.array([np.sign(holdout.ask(column(j)).value - 0.5) or 1.0 for j in range(101)])
    answer = holdout.ask(lambda rows: (2.0 * rows - 1) @ signs > 0)
    return answer.low <= 0.5 <= answer.high


def careful(rng_train, rng_fresh, rng):
    return ReusableHoldout(
        rng_train, rng_fresh, threshold=0.1, noise=0.01, budget=40, simulation=True, seed=rng
    )


def careless(train, fresh, rng):
    return ReusableHoldout(train, fresh, threshold=1e-4, noise=1e-4, budget=200, simulation=True, seed=rng)


def runs_held(analyst, maker, seed, runs):
    return sum(analyst(np.random.default_rng([seed, run]), maker) for run in range(runs))


def test_all_intervals_hold_for_an_analyst_who_overfits_the_training_part(seed):
    assert lower_limit(runs_held(overfit_the_training_part, careful, seed, 60), 60, confidence=0.95) >= 0.95


def test_a_twin_that_forgets_the_threshold_misses(seed, monkeypatch):
    monkeypatch.setattr(Promise, "kept", lambda self, step, releases: 0.0)
    assert runs_held(overfit_the_training_part, careful, seed, 40) < 0.8 * 40


def test_all_intervals_hold_for_an_analyst_who_reads_the_holdout(seed):
    assert lower_limit(runs_held(read_the_holdout, careless, seed, 30), 30, confidence=0.95) >= 0.9


def test_a_twin_that_does_not_pay_for_releases_misses(seed, monkeypatch):
    plain = Promise._chosen_nats
    monkeypatch.setattr(Promise, "_chosen_nats", lambda self, releases: plain(self, 0))
    assert runs_held(read_the_holdout, careless, seed, 16) < 0.5 * 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("analyst", "maker"), [(overfit_the_training_part, careful), (read_the_holdout, careless)]
)
def test_all_intervals_hold_in_2000_runs(seed, analyst, maker):
    assert lower_limit(runs_held(analyst, maker, seed, 2_000), 2_000) >= 0.95


def promise(rows, threshold, noise, failure=0.05, queries=None):
    model = Independent(rows)
    return Promise(model, SparseNoise(noise, rows), threshold, failure, queries)


@pytest.mark.parametrize(
    ("queries", "budget", "error", "beta", "c"),
    [
        (1000, 10, 0.1, 0.05, 0.5),
        (500, 1, 0.05, 0.01, 0.2),
        (1, 1, 0.2, 0.05, 0.8),
        (10**5, 30, 0.1, 0.05, 0.5),
    ],
)
def test_with_the_rows_of_theorem_2_no_interval_is_wider_than_its_error(queries, budget, error, beta, c):
    settings = HoldoutSettings(queries, budget, error, beta, c)
    rows = reusable_holdout_rows(queries=queries, budget=budget, error=error, beta=beta, c=c)
    made = promise(rows, settings.threshold, settings.noise, beta, queries)
    for releases, released in itertools.product(range(budget), (True, False)):
        assert made.half_width(queries, releases, released=released) <= error


def test_before_the_first_release_a_query_has_the_radius_of_a_fixed_query():
    """Half of β, half of that for round 0, and the weight of the question: a fixed query's radius."""
    made = promise(10_000, 0.04, 0.0025)
    nats = math.log(4 / 0.05) + made.step_nats(7)
    assert made.deviation(7, 0) == pytest.approx(
        Independent(10_000).mean_tail(0, 1).radius_at(nats), rel=1e-5
    )
    widths = [made.deviation(7, releases) for releases in range(6)]
    assert widths == sorted(widths)
    assert widths[1] > 1.5 * widths[0]


def test_the_noise_that_a_kept_value_hides():
    """P(threshold noise − comparison noise > z) = (4 e^{−z/2σ} − e^{−z/σ})/6, below ⅔ e^{−z/2σ}."""
    grid = np.linspace(-40, 40, 400_001)
    weights = np.exp(-np.abs(grid))
    weights /= weights.sum()
    for z in (0.0, 0.5, 2.0, 6.0):
        exact = float(weights @ laplace_cdf(grid - z, 2.0))
        assert exact == pytest.approx((4 * math.exp(-z / 2) - math.exp(-z)) / 6, rel=1e-3)
        assert exact <= 2 / 3 * math.exp(-z / 2) * (1 + 1e-3)


# Asking.


def test_training_values_are_free_and_the_holdout_speaks_at_most_so_often(rng):
    train, fresh = coins(rng)
    fresh[:, 5] = np.arange(len(fresh)) % 20 > 2  # a share of .85, far from 1: no noise takes a value there
    holdout = ReusableHoldout(train, fresh, **SETTINGS)
    quiet = [holdout.ask(column(j)) for j in range(5)]
    assert [answer.value for answer in quiet] == [train[:, j].mean() for j in range(5)]
    assert all(answer.confirmed and answer.cost == 0 for answer in quiet)
    assert (holdout.spent, holdout.left.surprises) == (0.0, 4)
    assert float(holdout.left) == pytest.approx(holdout.privacy.epsilon)
    loud = [holdout.ask(column(5)) for _ in range(4)]
    assert all(not answer.confirmed and abs(answer.value - 0.85) < 0.15 for answer in loud)
    assert len({answer.value for answer in loud}) == 4  # Each has noise of its own.
    assert sum(answer.cost for answer in loud) == pytest.approx(holdout.privacy.epsilon)
    assert holdout.spent == pytest.approx(holdout.privacy.epsilon)
    with pytest.raises(BudgetSpent, match="answered 4 times") as refused:
        holdout.ask(column(0))
    assert refused.value.left == 0.0
    assert refused.value.spent == holdout.spent
    assert refused.value.asked == pytest.approx(holdout.privacy.epsilon / 4)
    assert len(holdout.history) == 9
    assert holdout.history[0] is quiet[0]
    assert holdout.certificate.numbers["releases"] == 4
    assert "4 of 4 releases" in repr(holdout)
    assert "nothing may be asked" in holdout.left.words


def test_a_number_of_questions_may_be_fixed(rng):
    train, fresh = coins(rng)
    fixed = ReusableHoldout(train, fresh, **SETTINGS, queries=2)
    free = ReusableHoldout(train, fresh, **SETTINGS)
    assert fixed.ask(column(0)).half_width < free.ask(column(0)).half_width
    fixed.ask(column(1))
    with pytest.raises(BudgetSpent, match="all 2 questions"):
        fixed.ask(column(2))


@pytest.mark.parametrize(
    "bad",
    [
        lambda rows: np.where(np.arange(len(rows)) == 0, np.nan, 0.5),
        lambda rows: rows[:, 0] * 2.0,
        lambda rows: rows[1:, 0],
        lambda rows: 0.5,
        lambda rows: np.array(["a"] * len(rows)),
    ],
)
@pytest.mark.parametrize("maker", [lambda *parts: ReusableHoldout(*parts, **SETTINGS), CodeHoldout])
def test_functions_that_do_not_fit_are_refused_before_the_holdout_is_read(rng, bad, maker):
    train, fresh = coins(rng)
    holdout = maker(train, fresh)
    with pytest.raises(QueryRejected, match=r"one number in \[0, 1\]") as refused:
        holdout.ask(bad)
    assert (refused.value.asked, refused.value.spent, holdout.spent) == (0.0, 0.0, 0.0)
    assert holdout.ask(column(0)).value >= 0
    with pytest.raises(InvalidArgument, match="function"):
        holdout.ask(3.0)


@pytest.mark.parametrize("failure", [math.nan, 2.0, "error"])
def test_a_failure_on_the_holdout_alone_closes_it(rng, failure):
    train, fresh = coins(rng)
    holdout = ReusableHoldout(train, fresh, **SETTINGS)
    kept = holdout.ask(column(0))

    def treacherous(rows):
        if np.array_equal(rows, train):
            return rows[:, 0]
        if failure == "error":
            raise RuntimeError(f"secret {rows[0]}")
        return np.where(rows[:, 0], 1.0, failure)

    with pytest.raises(QueryRejected, match="nothing more is answered") as refused:
        holdout.ask(treacherous)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert holdout.spent == pytest.approx(holdout.privacy.epsilon)
    assert (float(holdout.left), holdout.left.confirmed) == (0.0, 0)
    with pytest.raises(BudgetSpent, match="failed"):
        holdout.ask(column(1))
    assert holdout.history == (kept,)


def test_everything_is_charged_before_the_holdout_is_read(rng):
    train, fresh = coins(rng)
    holdout = ReusableHoldout(train, fresh, **SETTINGS)
    seen = {}

    def spy(rows):
        seen[np.array_equal(rows, train)] = (holdout.spent, float(holdout.left))
        return rows[:, 0]

    holdout.ask(spy)
    assert seen[True] == (0.0, pytest.approx(holdout.privacy.epsilon))
    assert seen[False] == (pytest.approx(holdout.privacy.epsilon), 0.0)
    assert holdout.spent == 0.0

    def interrupted(rows):
        if np.array_equal(rows, fresh):
            raise KeyboardInterrupt
        return rows[:, 0]

    with pytest.raises(QueryRejected, match="nothing more is answered"):
        holdout.ask(interrupted)
    with pytest.raises(BudgetSpent):
        holdout.ask(column(0))


def test_a_question_inside_a_question_gets_no_more_than_the_budget(rng):
    train, fresh = coins(rng)
    fresh[:] = True
    holdout = ReusableHoldout(train, fresh, threshold=0.04, noise=0.0025, budget=1)

    def sly(rows):
        if np.array_equal(rows, train):
            holdout.ask(column(1))
        return rows[:, 0]

    with pytest.raises(BudgetSpent):
        holdout.ask(sly)
    assert len(holdout.history) == 1


def test_tables_are_asked_by_text_and_by_functions(rng):
    train, fresh = (
        pd.DataFrame({"a": part[:, 0], "x": part[:, 1] / 2, "far": part[:, 2] * 9.0}) for part in coins(rng)
    )
    holdout = ReusableHoldout(train, fresh, **SETTINGS)
    code = CodeHoldout(train, fresh)
    for guard in (holdout, code):
        assert float(guard.ask("share(a)")) == pytest.approx(train.a.mean(), abs=0.05)
        assert guard.ask(share("a")) is guard.ask("share(a)")
        assert float(guard.ask("mean(x, 0, 1)")) == pytest.approx(train.x.mean(), abs=0.05)
        assert float(guard.ask(lambda rows: rows["x"])) == pytest.approx(train.x.mean(), abs=0.05)
        for bad in ("share(a, where = x > 0)", "mean(far, 0, 9)", "quantile(x, 0.5)", "share(nowhere)"):
            with pytest.raises(QueryRejected) as refused:
                guard.ask(bad)
            assert refused.value.asked == 0.0
    assert len(holdout.history) == 3
    with pytest.raises(QueryRejected, match="named columns"):
        ReusableHoldout(*coins(rng), **SETTINGS).ask("share(a)")
    assert code.ask("share(a)").half_width == Guard(fresh, train=train).share("a").half_width


@pytest.mark.parametrize("holdout", [{"y": [1.0, 0.0]}, {"x": ["a", "b"], "y": [1.0, 0.0]}])
def test_a_holdout_on_which_functions_could_only_fail_is_refused(holdout):
    with pytest.raises(QueryRejected, match=r"'x'.*both need"):
        ReusableHoldout({"x": [0.0, 1.0], "y": [1.0, 0.0]}, holdout, **SETTINGS)


def test_other_objects_with_a_length_will_do():
    class Rows(list):
        pass

    train, fresh = Rows([0.25] * 50), Rows([0.5] * 60)
    holdout = ReusableHoldout(train, fresh, threshold=0.9, noise=1e-3, budget=1)
    assert holdout.rows == 60
    assert holdout.ask(list).value == 0.25
    assert CodeHoldout(train, fresh).rows == 60


@pytest.mark.parametrize(
    ("given_", "name"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"noise": 0.0}, "noise"),
        ({"noise": math.inf}, "noise"),
        ({"budget": 0}, "budget"),
        ({"confidence": 1.0}, "confidence"),
        ({"queries": 0}, "queries"),
        ({"seed": 1}, "seed"),
        ({"simulation": True}, "seed"),
        ({"dependence": "chain"}, "dependence"),
        ({"dependence": Independent(7)}, "dependence"),
        ({"dependence": DependencyGraph([(0, 1)], n=2_000)}, "model"),
    ],
)
def test_bad_arguments_are_named(rng, given_, name):
    with pytest.raises(InvalidArgument) as caught:
        ReusableHoldout(*coins(rng, rows=2_000), **{**SETTINGS, **given_})
    assert caught.value.argument == name
    with pytest.raises(InvalidArgument, match="dependence"):
        CodeHoldout(*coins(rng), dependence="chain")


def test_no_rows_are_no_holdout():
    with pytest.raises(InvalidArgument, match="at least one row"):
        ReusableHoldout(np.zeros((0, 2)), np.zeros((3, 2)), **SETTINGS)
    with pytest.raises(QueryRejected, match="no file"):
        ReusableHoldout("nowhere.csv", np.zeros((3, 2)), **SETTINGS)
    with pytest.raises(InvalidArgument, match="noise"):
        SparseNoise(1.0, 2 * 10**12).unit  # noqa: B018


# The code guard behind the same interface.


def test_the_code_guard_keeps_the_same_promise_with_narrower_intervals(rng):
    train, fresh = coins(rng, rows=20_000)
    code, plain = CodeHoldout(train, fresh), ReusableHoldout(train, fresh, **SETTINGS)
    for j in range(6):
        here, there = code.ask(column(j)), plain.ask(column(j))
        assert here.low < 0.5 < here.high
        assert there.low < 0.5 < there.high
        assert here.half_width < 0.5 * there.half_width
    assert code.spent > 0
    assert len(code.history) == 6
    assert code.certificate.numbers["questions"] == 6
    assert math.isinf(code.left)
    assert "20,000 protected rows" in repr(code)


def test_the_code_guard_charges_a_failure_and_continues(rng):
    train, fresh = coins(rng)
    code = CodeHoldout(train, fresh)
    with pytest.raises(QueryRejected, match="could not be computed"):
        code.ask(lambda rows: rows[:, 0] if np.array_equal(rows, train) else rows[:, 0] * 3.0)
    assert code.spent > 0
    assert code.ask(column(0)).low < 0.5


def test_the_code_guard_refuses_what_would_break_a_promised_error(rng):
    train, fresh = coins(rng, rows=2_000)
    fresh[:, 5] = train[:, 5] = True
    code = CodeHoldout(train, fresh, error=0.06)

    def wrong_guess(_):
        rule = rng.random(2_000) < 0.5
        return code.ask(lambda rows: rule if np.array_equal(rows, train) else ~rule)

    with pytest.raises(BudgetSpent):
        list(map(wrong_guess, range(200)))
    assert len(code.history) >= 1
    assert max(answer.half_width for answer in code.history) <= 0.06


@pytest.mark.parametrize("analyst", [overfit_the_training_part])
def test_the_code_guard_withstands_the_same_analyst(seed, analyst):
    def maker(train, fresh, rng):
        return CodeHoldout(train, fresh)

    assert runs_held(analyst, maker, seed, 12) >= binom.ppf(1e-6, 12, 0.95)


# The calculators for a given noise (BDP Theorem 1).


def test_theorem_1_for_a_given_noise():
    given_ = {"queries": 1, "budget": 10, "error": 0.1, "beta": 0.05, "noise": 0.011}
    printed = max(9 * math.log(4 / 0.05) / 0.1**2, 9 * 10 / (4 * 0.011 * 0.1 / 3))
    assert reusable_holdout_rows(**given_, method="paper") == math.ceil(printed)
    rows = reusable_holdout_rows(**given_)
    epsilon = 9 * 10 / (4 * 0.011 * rows)
    assert rows < printed / 5
    assert reusable_holdout_tail(n=rows, error=0.1, epsilon=epsilon) <= 0.05
    assert reusable_holdout_tail(n=rows - 20, error=0.1, epsilon=epsilon * rows / (rows - 20)) > 0.05
    settings = HoldoutSettings(1000, 10, 0.1, 0.05, 0.5)
    inside = {"queries": 1000, "budget": 10, "error": settings.deviation, "noise": settings.noise}
    assert reusable_holdout_rows(**inside, beta=0.025, method="paper") == 14_631_558
    for bad in (0.0, math.nan, -1.0):
        with pytest.raises(InvalidArgument, match="noise"):
            reusable_holdout_rows(**{**given_, "noise": bad})


def test_theorem_1_on_a_chain():
    chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], 1_000)
    given_ = {"queries": 20, "budget": 2, "error": 0.2, "beta": 0.05, "noise": 0.02}
    alone, sharp = reusable_holdout_rows(**given_), reusable_holdout_rows(**given_, model=chain)
    assert alone < sharp < reusable_holdout_rows(**given_, model=chain, method="paper")
