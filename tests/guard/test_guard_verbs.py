"""The verbs: what each computes, how its texts read, and what is refused before anything is charged."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.dependence import Clusters
from holdfast.engines import unsealed
from holdfast.errors import InvalidArgument, QueryRejected

ROWS = 3_000
BOTH = {"x": (-4, 4), "z": (-6, 6)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    x = rng.normal(size=ROWS)
    frame = pd.DataFrame({"x": x, "z": 0.5 * x + rng.normal(size=ROWS), "u": rng.gamma(2, 1, ROWS)})
    frame["w"] = rng.integers(0, 5, ROWS)
    frame["arm"] = np.where(rng.random(ROWS) < 0.4, "b", "a")
    frame["paid"] = rng.random(ROWS) < np.where(frame.arm == "b", 0.6, 0.4)
    frame["gap"] = np.where(rng.random(ROWS) < 0.1, np.nan, frame.x)
    return frame


@pytest.fixture(scope="module")
def guard(table):
    return Guard(table)


def protected(guard):
    with unsealed():
        return guard._setup.protected.rows.frame()


QUESTIONS = {
    "ratio(u, w, 0, 20, 0, 5)": lambda t: t.u.clip(0, 20).mean() / t.w.mean(),
    "mean(u, 0, 20, 0, 5, weights = w)": lambda t: np.average(t.u.clip(0, 20), weights=t.w),
    "difference(x, arm = 'b', arm = 'a', -4, 4)": lambda t: (
        t.x[t.arm == "b"].clip(-4, 4).mean() - t.x[t.arm == "a"].clip(-4, 4).mean()
    ),
    "difference(paid, arm = 'b', arm = 'a')": lambda t: (
        t.paid[t.arm == "b"].mean() - t.paid[t.arm == "a"].mean()
    ),
    "lift(u, arm = 'b', arm = 'a', 0, 20)": lambda t: (
        t.u[t.arm == "b"].clip(0, 20).mean() / t.u[t.arm == "a"].clip(0, 20).mean() - 1
    ),
    "variance(x, -4, 4)": lambda t: t.x.clip(-4, 4).var(ddof=0),
    "std(x, -4, 4)": lambda t: t.x.clip(-4, 4).std(ddof=0),
    "covariance(x, z, -4, 4, -6, 6)": lambda t: np.cov(t.x.clip(-4, 4), t.z.clip(-6, 6), ddof=0)[0, 1],
    "correlation(x, z, -4, 4, -6, 6)": lambda t: np.corrcoef(t.x.clip(-4, 4), t.z.clip(-6, 6))[0, 1],
    "slope(z, x, -6, 6, -4, 4)": lambda t: np.polyfit(t.x.clip(-4, 4), t.z.clip(-6, 6), 1)[0],
    "variance(gap, -4, 4, nulls = skip, where = w > 1)": lambda t: (
        t.gap[t.w > 1].dropna().clip(-4, 4).var(ddof=0)
    ),
}


def test_a_report_gives_each_statistic_of_the_protected_rows(table):
    guard = Guard(table)
    report = guard.report(list(QUESTIONS))
    rows = protected(guard)
    for answer, (text, statistic) in zip(report.answers, QUESTIONS.items(), strict=True):
        assert answer.value == pytest.approx(statistic(rows), abs=2e-5), text
        assert answer.low < answer.value < answer.high, text
        assert answer.low <= statistic(table) <= answer.high, text


@pytest.mark.parametrize("text", list(QUESTIONS))
def test_an_answer_contains_the_statistic_of_the_rows_and_its_text_reads_back(guard, table, text):
    answer = guard.ask(text)
    assert answer.low <= QUESTIONS[text](protected(guard)) <= answer.high
    again = guard.ask(str(answer.query))
    assert again == answer
    assert guard.cost_preview(text).known


def test_the_methods_ask_the_same_as_the_texts(guard):
    pairs = [
        (guard.ratio("u", "w", bounds={"u": (0, 20), "w": (0, 5)}), "ratio(u, w, 0, 20, 0, 5)"),
        (
            guard.mean("u", bounds={"u": (0, 20), "w": (0, 5)}, weights="w"),
            "mean(u, 0, 20, 0, 5, weights = w)",
        ),
        (guard.difference("paid", between="arm"), "difference(paid, arm = 'b', arm = 'a')"),
        (guard.lift("u", between="arm = 'b', arm = 'a'", bounds=(0, 20)), "lift(u, arm, 0, 20)"),
        (guard.variance("x", bounds=(-4, 4)), "variance(x, -4, 4)"),
        (guard.std("x", bounds=(-4, 4)), "std(x, -4, 4)"),
        (guard.covariance("x", "z", bounds=BOTH), "covariance(x, z, -4, 4, -6, 6)"),
        (guard.correlation("x", "z", bounds=BOTH), "correlation(x, z, -4, 4, -6, 6)"),
        (guard.slope("z", "x", bounds=BOTH), "slope(z, x, -6, 6, -4, 4)"),
        (guard.median("x"), "quantile(x, 0.5)"),
    ]
    for answer, text in pairs:
        assert guard.ask(text) == answer


def test_bounds_from_the_training_part_are_shown_and_have_room(guard):
    answer = guard.std("u", bounds="train")
    low, high = answer.query.bounds
    assert low == 0.0
    assert high > guard.train.u.max()
    assert f"[0, {high:g}]" in " ".join(answer.notes)
    assert guard.ask("std(u, bounds = train)") == answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ratio(u, x, 0, 20, -4, 4)", "not below zero"),
        ("lift(x, arm = 'b', arm = 'a', -4, 4)", "not below zero"),
        ("difference(x, arm = 'b', arm = 'b', -4, 4)", "two different ones"),
        ("difference(x, w, -4, 4)", "a column with two values"),
        ("difference(x, w > 1, w > 2, -4, 4)", "overlap"),
        ("difference(x, arm = 'b', arm = 'a')", "needs bounds"),
        ("variance(x)", "needs bounds"),
        ("correlation(x, z)", "a dict with a pair for each"),
        ("correlation(x, arm, -4, 4, 0, 1)", "a number"),
        ("slope(gap, x, -4, 4, -4, 4)", "nulls='skip'"),
        ("ratio(u, w, 0, 20, 0, 5, where = u > 1000)", "say nothing"),
        ("count(x)", "share of the rows"),
        ("share(paid, by = arm)", "guard.table"),
    ],
)
def test_what_is_wrong_is_said_and_costs_nothing(guard, text, words):
    spent = guard.spent
    with pytest.raises((QueryRejected, InvalidArgument), match=words):
        guard.ask(text)
    assert guard.spent == spent


def test_a_guess_outside_the_range_is_refused(guard):
    with pytest.raises(InvalidArgument, match="guess"):
        guard.correlation("x", "z", bounds=BOTH, guess=2)


def test_a_statistic_around_training_means_needs_a_training_part(table):
    guard = Guard(table, training_share=0)
    with pytest.raises(QueryRejected, match="needs training rows"):
        guard.report(["correlation(x, z, -4, 4, -6, 6)"])
    assert not guard.closed
    answer = guard.report(["difference(paid, arm = 'b', arm = 'a')"]).answers[0]
    assert answer.low < 0.2 < answer.high


def test_other_strategies_refuse_what_they_have_no_answer_for(table):
    guard = Guard(table, strategy="typical-gaussian", queries=10)
    with pytest.raises(QueryRejected, match="strategy='code'"):
        guard.ask("std(x, -4, 4)")


def test_a_group_without_protected_rows_gets_the_whole_range():
    rows = pd.DataFrame({"x": np.tile([0.0, 1.0], 500), "arm": "a"})
    train = rows.assign(arm=np.where(np.arange(1000) % 3 == 0, "b", "a"))
    answer = Guard(rows, train=train).difference("x", between="arm = 'b', arm = 'a'", bounds=(0, 1))
    assert (answer.low, answer.high) == (-1.0, 1.0)


def test_dependent_rows_are_not_conditioned_on_their_groups(table):
    people = Clusters([2] * (ROWS // 2))
    independent = Guard(table).difference("paid", between="arm")
    clustered = Guard(table, dependence=people).difference("paid", between="arm")
    assert clustered.certificate.interval == "e-values of the groups' means, over independent units of rows"
    assert clustered.half_width > 1.4 * independent.half_width
    assert clustered.low < 0.2 < clustered.high


def test_a_whole_distribution_holds_at_every_point(guard, table):
    curve = guard.cdf("x")
    for point, low, high in zip(curve.points, curve.low, curve.high, strict=True):
        assert low <= (table.x <= point).mean() <= high
    assert curve.at(-100).low == 0.0
    assert curve.at(100).high == 1.0
    spent = guard.spent
    bins = guard.histogram("x", [-2, 0, 2])
    assert guard.spent == spent
    for row, (low, high) in zip(bins.rows, [(-2, 0), (0, 2)], strict=True):
        share = ((table.x > low) & (table.x <= high)).mean()
        assert row.answer.low <= share <= row.answer.high
    assert curve.to_frame().shape == (len(curve.points), 4)


def test_a_histogram_is_a_table_in_all_words(guard):
    bins = guard.histogram("x", [-2, 0, 2])
    spent = guard.spent
    assert guard.table("histogram(x, -2, 0, 2)") == bins
    assert guard.cdf("x").histogram([-2, 0, 2]) == bins
    assert len(guard.table("histogram(x, 7)")) == len(guard.histogram("x", 7)) == 7
    assert guard.spent == spent
    assert str(bins.query) == "histogram(x, -2, 0, 2)"
    with pytest.raises(QueryRejected, match=r"guard\.table"):
        guard.ask("histogram(x, 7)")


@pytest.mark.parametrize("bins", [0, 2.5, [1], [1, 0], "ten", [0, float("nan")]])
def test_bad_bins_are_refused_free_of_charge(guard, bins):
    spent = guard.spent
    with pytest.raises(InvalidArgument, match="bins"):
        guard.histogram("z + 1", bins)
    assert guard.spent == spent


def test_a_distribution_of_filtered_rows_is_wider(guard):
    whole, part = guard.cdf("z"), guard.cdf("z", where="w = 1")
    assert part.answer.half_width > 1.5 * whole.answer.half_width


def test_a_difference_is_narrower_than_two_shares(table):
    one = Guard(table).report(["difference(paid, arm = 'b', arm = 'a')"]).answers[0].half_width
    texts = ["share(paid, where = arm = 'b')", "share(paid, where = arm = 'a')"]
    two = Guard(table).report(texts).answers
    assert one < 0.9 * math.fsum(answer.half_width for answer in two)
