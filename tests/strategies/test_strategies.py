"""Strategies for a number of questions fixed in advance: noise, transfer, splitting."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.dependence import MarkovChain
from holdfast.engines import unsealed
from holdfast.errors import BudgetSpent, InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.mechanisms import Noise
from holdfast.stability import split_error, transfer_error, typical_gaussian_error, typical_laplace_error
from holdfast.tails import BoundedDifferences, SubGaussian

ROWS = 20_000
NOISY = ("typical-laplace", "typical-gaussian", "transfer-gaussian")
ALL = (*NOISY, "split")


@pytest.fixture
def table(rng):
    return {
        "coin": rng.integers(0, 2, ROWS),
        "score": rng.normal(0.4, 0.1, ROWS),
        "group": rng.choice(["a", "b"], ROWS, p=[0.7, 0.3]),
    }


@pytest.mark.parametrize("strategy", ALL)
def test_every_asking_method_holds_the_truth(table, strategy):
    guard = Guard(table, strategy=strategy, queries=8)
    frame = pd.DataFrame(table)
    assert guard.rows == ROWS
    for answer, truth in (
        (guard.share("coin = 1"), 0.5),
        (guard.mean("score", bounds=(0, 1)), 0.4),
        (guard.mean("10 * score", bounds=(0, 10), where="group = 'a'"), 4.0),
        (guard.share("coin = 1", where="group = 'b'"), 0.5),
        (guard.score("coin", target="coin"), 1.0),
    ):
        assert answer.low <= truth <= answer.high, answer
        assert answer.low <= answer.value <= answer.high
        assert math.isnan(answer.guess)
    assert guard.share("coin = 1").to_dict() == guard.history[0].to_dict()
    assert guard.train is None
    assert frame.coin.mean() != guard.history[0].value or strategy == "split"


@pytest.mark.parametrize("strategy", ALL)
def test_the_number_agreed_on_is_the_number_answered(table, strategy):
    guard = Guard(table, strategy=strategy, queries=3)
    for threshold in (0.3, 0.4, 0.5):
        guard.share(f"score > {threshold}")
    assert guard.left == 0
    assert "0 of 3 answers" in str(guard.left)
    with pytest.raises(BudgetSpent) as caught:
        guard.share("score > 0.6")
    assert (caught.value.asked, caught.value.spent, caught.value.left) == (1, 3, 0)
    assert guard.share("score > 0.3") is guard.history[0]
    assert not guard.cost_preview("share(score > 0.6)").allowed


def test_widths_are_the_certified_errors(table):
    failure, unit = 0.05, BoundedDifferences.of_mean(0, 1, ROWS)
    wanted = {
        "typical-gaussian": typical_gaussian_error(unit, 100, failure).error,
        "typical-laplace": typical_laplace_error(unit, 100, failure).error,
        "transfer-gaussian": transfer_error(ROWS, 100, failure).error,
    }
    for strategy, error in wanted.items():
        guard = Guard(table, strategy=strategy, queries=100)
        half_width = guard.share("coin = 1").half_width
        assert half_width == pytest.approx(error, rel=1e-3)
        assert half_width <= error * (1 + 1e-6)
        assert guard.cost_preview("share(score > 0.4)").half_width == pytest.approx(half_width, rel=1e-6)
    splitting = Guard(table, strategy="split", queries=100).share("coin = 1").half_width
    assert splitting <= split_error(ROWS, 100, failure)


def test_noise_is_fresh_and_only_the_first_answer_to_a_question_is_ever_drawn(table):
    values = {Guard(table, strategy="typical-gaussian", queries=10).share("coin = 1").value for _ in range(3)}
    assert len(values) == 3
    guard = Guard(table, strategy="typical-gaussian", queries=10)
    assert len({guard.share("coin = 1").value for _ in range(5)}) == 1


def test_a_statistic_of_the_callers_own_with_its_tail(table):
    tail = SubGaussian(0.1).of_mean(ROWS)
    for strategy in ("typical-gaussian", "typical-laplace"):
        guard = Guard(table, strategy=strategy, queries=20)
        answer = guard.custom(lambda frame: frame.score.mean(), tail=tail)
        assert answer.low < 0.4 < answer.high
        assert answer.half_width < 0.1
    for strategy in ("transfer-gaussian", "split"):
        with pytest.raises(QueryRejected, match="code"):
            Guard(table, strategy=strategy, queries=20).custom(lambda frame: 0.0, tail=tail)


def test_quantiles_by_splitting_and_not_with_noise(table):
    answer = Guard(table, strategy="split", queries=4).quantile("score", 0.5)
    assert answer.low < 0.4 < answer.high
    guard = Guard(table, strategy="typical-gaussian", queries=4)
    with pytest.raises(QueryRejected, match="share"):
        guard.quantile("score", 0.5)
    assert guard.left == 4


def test_dependent_rows_get_the_tail_of_their_model_or_a_clear_refusal(rng):
    states = np.cumsum(rng.random(ROWS) > 0.9) % 2
    chain = MarkovChain([[0.9, 0.1], [0.1, 0.9]], ROWS)
    guard = Guard({"state": states}, strategy="typical-gaussian", queries=10, dependence=chain)
    plain = Guard({"state": states}, strategy="typical-gaussian", queries=10)
    answer = guard.share("state = 1")
    assert answer.low < 0.5 < answer.high
    assert answer.half_width > 2 * plain.share("state = 1").half_width
    assert any("chain" in sentence.lower() for sentence in answer.certificate.assumed)
    for strategy in ("transfer-gaussian", "split"):
        with pytest.raises(QueryRejected, match="independent rows"):
            Guard({"state": states}, strategy=strategy, queries=10, dependence=chain)


def test_a_promised_error_is_kept_by_every_strategy(table):
    guard = Guard(table, strategy="typical-gaussian", queries=10, error=0.5)
    assert guard.share("coin = 1").half_width <= 0.5
    tight = Guard(table, strategy="typical-gaussian", queries=10, error=1e-3)
    with pytest.raises(BudgetSpent):
        tight.share("coin = 1")


def test_the_number_of_questions_is_asked_for_where_it_is_needed(table):
    with pytest.raises(InvalidArgument, match="fixes the number"):
        Guard(table, strategy="split")
    with pytest.raises(InvalidArgument, match="fixes no number"):
        Guard(table, queries=5)
    with pytest.raises(InvalidArgument, match="queries"):
        Guard(table, strategy="split", queries=0)
    with pytest.raises(NotEnoughRows):
        Guard(table, strategy="split", queries=ROWS + 1)


def test_splitting_reads_each_row_once(table):
    guard = Guard(table, strategy="split", queries=4)
    seen = []
    for threshold in range(4):
        guard.share(f"score > {threshold / 10}")
        seen.append(guard.history[-1].certificate.numbers["question"])
    assert seen == [1, 2, 3, 4]
    with unsealed():
        blocks = [guard._setup.protected.rows.block(start, 5000).frame() for start in range(0, ROWS, 5000)]
        assert pd.concat(blocks, ignore_index=True).equals(guard._setup.protected.rows.frame())


def test_answers_with_noise_outlive_the_session(table, tmp_path):
    path = tmp_path / "account.holdfast"
    options = {"strategy": "typical-laplace", "queries": 5, "ledger": path}
    first = Guard(table, **options).share("coin = 1")
    again = Guard(table, **options)
    assert again.share("coin = 1").to_dict() == first.to_dict()
    assert again.left == 4


@pytest.mark.parametrize("strategy", NOISY)
@pytest.mark.parametrize("where", [None, "coin >= 0"])
def test_one_row_moves_what_noise_is_added_to_by_its_influence_wherever_the_range_is(
    strategy, where, monkeypatch
):
    """Far from zero floats have few digits: rounded to them, a mean may move by more than one row's share."""
    rows, low, added = 5_000, 2.0**40, []
    add = Noise.add
    monkeypatch.setattr(Noise, "add", lambda noise, value: added.append(value) or add(noise, value))
    for last in (0.0, 1.0):
        table = {"x": low + np.append(np.full(rows - 1, 0.25), last), "coin": np.zeros(rows)}
        guard = Guard(table, strategy=strategy, queries=4)
        answer = guard.mean("x", bounds=(low, low + 1), where=where)
        assert answer.low <= low + 0.25 <= answer.high
    first, second = added[0], added[len(added) // 2]
    assert 0 <= first < second <= 1
    assert second - first <= 1 / rows * (1 + 1e-9)
