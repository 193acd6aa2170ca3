"""Boards: the ladder's alphabet, what a submission is told, climbers, the sealed final, bad submissions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.guard import Asker, Board
from holdfast.guard._ladder import LadderGrid
from holdfast.guard._prior import Experience, Failure, Surprise
from holdfast.ledger import Book, SigningKey

ROWS = 2_000
UNIT = st.floats(0, 1, allow_nan=False)


@given(UNIT, st.floats(1e-3, 0.5), st.booleans(), UNIT)
def test_every_value_is_in_its_cell_and_cell_zero_is_not_better(best, step, upward, value):
    grid = LadderGrid(0.0, 1.0, best, step, upward)
    cell = grid.index(value)
    low, high = grid.edges(cell)
    assert low <= value <= high
    gain = value - best if upward else best - value
    if abs(gain - step) > 1e-9:
        assert (cell == 0) == (gain < step) or grid.farthest == 1
    assert 0 <= cell <= grid.farthest


@given(UNIT, st.floats(1e-3, 0.5), st.booleans())
def test_the_cells_cover_the_range_without_gaps(best, step, upward):
    grid = LadderGrid(0.0, 1.0, best, step, upward)
    edges = [grid.edges(cell) for cell in range(grid.farthest + 1)]
    ordered = edges if upward else edges[::-1]
    assert (ordered[0][0], ordered[-1][1]) == (0.0, 1.0)
    for (_, end), (begin, _) in pairwise(ordered):
        assert begin <= end


@pytest.mark.parametrize("experience", [Experience(), Experience(3, 0), Experience(5, 2)])
def test_the_prices_of_the_whole_alphabet_are_those_of_a_prior(experience):
    # Confirmed, failed, better by 1, 2, 3, … steps. Cells on both sides of a guess use up nearly all of the
    # prior; a ladder has those above only.
    above = sum(math.exp(-experience.surprise_price(Surprise(cell))) for cell in range(1, 20_000))
    rest = math.exp(-experience.confirmation_price()) + math.exp(-experience.surprise_price(Failure()))
    assert rest + above <= 1
    assert rest + 2.3 * above > 1  # On both sides, a prior that is too generous by 15 % would not pass.


@pytest.fixture
def labels():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"id": np.arange(ROWS), "y": rng.integers(0, 2, ROWS)})


def table(labels, right, seed=0):
    """Predictions of which about this share is right."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(labels)) >= right
    return pd.DataFrame({"id": labels["id"], "prediction": np.where(wrong, 1 - labels["y"], labels["y"])})


def test_a_better_submission_is_told_an_interval_and_a_worse_one_almost_nothing(labels):
    board = Board(labels, target="y", start=0.5)
    good = board.submit(table(labels, 0.7), asker=Asker("ann"))
    assert good.better
    assert good.low < 0.7 < good.high
    worse = board.submit(table(labels, 0.6, seed=1), asker=Asker("bob"))
    assert not worse.better
    assert worse.low == 0
    assert worse.high >= board.best
    assert worse.cost < good.cost
    assert [entry.by for entry in board.standing] == ["ann"]
    better = board.submit(table(labels, 0.9, seed=2), asker=Asker("bob"))
    assert [entry.by for entry in board.standing] == ["bob", "ann"]
    assert board.best == better.value > good.value
    assert board.spent == pytest.approx(good.cost + worse.cost + better.cost, abs=1e-9)


def test_the_same_predictions_say_the_same_for_nothing(labels):
    board = Board(labels, target="y", start=0.5)
    first = board.submit(table(labels, 0.7))
    spent = board.spent
    shuffled = table(labels, 0.7).sample(frac=1, random_state=0)
    again = board.submit(shuffled)
    assert (again.value, again.steps) == (first.value, first.steps)
    assert board.spent == spent


def test_lower_is_better_where_it_is(labels):
    board = Board(labels, target="y", metric="brier")
    fair = pd.DataFrame({"id": labels["id"], "prediction": 0.5})
    assert board.submit(fair).better
    assert board.best == pytest.approx(0.25, abs=2 * board.step)
    worse = pd.DataFrame({"id": labels["id"], "prediction": 1.0 - labels["y"]})
    assert not board.submit(worse).better


def test_each_of_two_processes_pays_for_what_the_other_was_told(labels, tmp_path):
    """A board looks at the standing while it prepares a submission; the account must not be older."""
    first, second = (
        Board(labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=tmp_path / "book")
        for _ in range(2)
    )
    for place in range(4):
        board = (first, second)[place % 2]
        board.submit(table(labels, 0.6 + place / 10, seed=place))
    spent, questions = 0.0, 0
    for event in first._book.events():
        if event.kind == "release":
            questions += 1
            numbers = event.body["released"]["numbers"]
            assert (numbers["question"], numbers["nats spent before"]) == (questions, pytest.approx(spent))
            spent += event.body["micro_nats"] / 1e6
    first.close()
    second.close()


def climb(rng, rows, submissions, *, guarded):
    """The boosting attack of Blum and Hardt: keep every random vector that seems better, then take a vote.

    The labels are coins, so every true score is one half. Returns whether all claims hold, and the last one.
    """
    ids = np.arange(rows)
    truth = rng.integers(0, 2, rows)
    board = Board({"id": ids, "y": truth}, target="y", start=0.5, sealed=0.0) if guarded else None
    kept, claims = [], []

    def submit(votes):
        if board is None:
            value = float((votes == truth).mean())
            reach = 1.96 * 0.5 / math.sqrt(rows)
            claims.append((value - reach, value + reach))
            return value > 0.5
        told = board.submit({"id": ids, "prediction": votes})
        claims.append((told.low, told.high))
        return told.better

    for _ in range(submissions):
        votes = rng.integers(0, 2, rows)
        if submit(votes):
            kept.append(votes)
    if kept:
        submit((np.mean(kept, axis=0) > 0.5).astype(int))
    if board is not None:
        board.close()
    return all(low <= 0.5 <= high for low, high in claims)


def test_climbers_meet_valid_intervals_and_a_board_without_an_account_falls(seed):
    runs = 25
    held = sum(climb(np.random.default_rng([seed, run]), 400, 40, guarded=True) for run in range(runs))
    assert betaincinv(held, runs - held + 1, 0.05) > 0.85
    assert sum(climb(np.random.default_rng([seed, run]), 400, 40, guarded=False) for run in range(runs)) <= 3


@pytest.mark.slow
def test_climbers_meet_valid_intervals_in_95_percent_of_runs(seed):
    runs = 300
    held = sum(climb(np.random.default_rng([seed, run]), 400, 200, guarded=True) for run in range(runs))
    assert betaincinv(held, runs - held + 1, 0.001) >= 0.95 or held == runs


def test_a_blind_submission_is_kept_and_scored_when_its_time_comes(labels, tmp_path):
    board = Board(labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=tmp_path / "book")
    key = board.take_in(table(labels, 0.8), by="ann")
    assert board.spent == 0
    assert board.standing == ()
    board.close()
    later = Board(labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=tmp_path / "book")
    assert later.score(key, asker=Asker("ann")).better
    later.close()


def test_the_sealed_part_is_used_once_and_for_the_same_finalists(labels, tmp_path):
    key = SigningKey.generate()
    board = Board(
        labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=Book(tmp_path / "book", key=key)
    )
    for by, right in (("ann", 0.6), ("bob", 0.7), ("ann", 0.8)):
        board.submit(table(labels, right, seed=int(100 * right)), asker=Asker(by))
    assert not board.finished
    final = board.final()
    assert board.finished
    assert [entry.by for entry in final] == ["ann", "bob"]
    for entry, right in zip(final, (0.8, 0.7), strict=True):
        assert entry.low < right < entry.high
    spy = board.take_in(table(labels, 0.99), by="eve")
    assert board.final([spy]) == final  # Whoever comes later finds what was written.
    board.close()
    again = Board(
        labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=Book(tmp_path / "book", key=key)
    )
    assert again.final() == final
    assert again.standing[0].receipt.signed_by(key.public)
    again.close()


def test_a_board_without_a_sealed_part_has_no_final(labels):
    board = Board(labels, target="y", sealed=0)
    assert board.rows == ROWS
    with pytest.raises(QueryRejected, match="no sealed part"):
        board.final()


def test_live_and_sealed_rows_are_apart(labels):
    board = Board(labels, target="y", sealed=0.25)
    assert board.rows == 1500
    assert board._sealed.rows.count == 500
    assert len(board.ids) == ROWS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.iloc[:-3], "3 ids have no prediction"),
        (lambda frame: pd.concat([frame, frame.iloc[:1]]), "twice"),
        (lambda frame: frame.assign(id=frame["id"] + 1), "no row '2000'"),
        (lambda frame: frame.rename(columns={"id": "row"}), "'row'"),
        (lambda frame: frame.assign(extra=1), "'extra'"),
        (lambda frame: frame.assign(prediction=np.nan), "missing or not finite"),
        (lambda frame: frame.iloc[:0], "2,000 ids"),
    ],
)
def test_a_bad_submission_is_told_what_is_wrong_and_costs_nothing(labels, change, words):
    board = Board(labels, target="y")
    with pytest.raises(QueryRejected, match=words):
        board.submit(change(table(labels, 0.7)))
    assert board.spent == 0


def test_predictions_of_another_kind_are_simply_wrong(labels):
    board = Board(labels, target="y", start=0.5)
    words = pd.DataFrame({"id": labels["id"], "prediction": "yes"})
    told = board.submit(words)
    assert not told.better


def test_bad_boards_are_refused(labels):
    with pytest.raises(QueryRejected, match="'z'"):
        Board(labels, target="z")
    with pytest.raises(InvalidArgument, match="every id"):
        Board(labels.assign(id=0), target="y")
    with pytest.raises(NotEnoughRows):
        Board(labels.iloc[:3], target="y")
    for wrong in ({"metric": "auc"}, {"sealed": 1.0}, {"step": 0}, {"start": 2}, {"confidence": 1}):
        with pytest.raises(InvalidArgument):
            Board(labels, target="y", **wrong)
