"""Boards: the outputs of the ladder, results of submissions, climbers, the sealed final, bad submissions."""

from __future__ import annotations

import hashlib
import json
import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from holdfast.boards import PreparedComparison
from holdfast.coding import LadderGrid
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.guard import Asker, Board
from holdfast.ledger import Book, SigningKey
from holdfast.scoring import ScoreQuestion
from holdfast.strategies import PreparedCode

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


@pytest.fixture
def labels():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"id": np.arange(ROWS), "y": rng.integers(0, 2, ROWS)})


def table(labels, right, seed=0):
    """Predictions of which about this share is right."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(labels)) >= right
    return pd.DataFrame({"id": labels["id"], "prediction": np.where(wrong, 1 - labels["y"], labels["y"])})


def test_a_better_submission_gets_an_interval_and_a_worse_one_almost_nothing(labels):
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


def test_the_same_predictions_get_the_same_result_free_of_charge(labels):
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


def differ_on_sealed_rows(board, frame):
    """The same predictions on live rows, and the opposite on sealed ones."""
    changed = frame["prediction"].to_numpy().copy()
    changed[board._sealed_mask] = 1 - changed[board._sealed_mask]
    return frame.assign(prediction=changed)


def test_a_submission_is_every_prediction_and_who_made_them(labels, tmp_path):
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    board = Board(labels, target="y", start=0.5, **place)
    frame = table(labels, 0.7)
    ann = board.submit(frame, asker=Asker("ann"))
    spent = board.spent
    bob = board.submit(differ_on_sealed_rows(board, frame), asker=Asker("bob"))
    copied = board.submit(frame, asker=Asker("eve"))
    assert len({ann.key, bob.key, copied.key}) == 3
    assert [one.by for one in (ann, bob, copied)] == ["ann", "bob", "eve"]
    for same in (bob, copied):  # The live rows say the same about all three, and were paid for once.
        assert (same.value, same.low, same.high, same.steps) == (ann.value, ann.low, ann.high, ann.steps)
        assert same.cost == 0
    assert board.spent == spent
    assert [entry.by for entry in board.standing] == ["ann", "bob", "eve"]
    final = {entry.by: entry for entry in board.final()}
    assert {by: entry.key for by, entry in final.items()} == {
        "ann": ann.key,
        "bob": bob.key,
        "eve": copied.key,
    }
    assert final["ann"].value == final["eve"].value == pytest.approx(1 - final["bob"].value)
    standing = board.standing
    board.close()
    again = Board(labels, target="y", start=0.5, **place)
    assert again.submit(differ_on_sealed_rows(board, frame), asker=Asker("bob")) == bob
    assert again.standing == standing
    assert again.spent == spent
    again.close()


def test_of_equal_submissions_the_latest_is_in_the_final(labels):
    board = Board(labels, target="y", start=0.5)
    frame = differ_on_sealed_rows(board, table(labels, 0.7))
    board.submit(frame, asker=Asker("ann"))
    mended = board.submit(table(labels, 0.7), asker=Asker("ann"))
    board.submit(table(labels, 0.2), asker=Asker("ann"))
    (score,) = board.final()
    assert score.key == mended.key
    assert score.low < 0.7 < score.high


def test_a_submission_belongs_to_the_person_who_made_it_and_not_to_the_one_who_scores_it(labels):
    board = Board(labels, target="y", start=0.5)
    key = board.take_in(table(labels, 0.7), by="ann")
    told = board.score(key, asker=Asker("bob"))
    assert (told.key, told.by) == (key, "ann")
    assert board.standing[0].by == board.final()[0].by == "ann"


def test_nothing_reveals_the_order_of_the_labels(labels):
    """If a table is sorted by its labels, its order reveals them."""
    sorted_by_label = labels.sort_values("y", kind="stable")
    boards = [Board(frame, target="y", start=0.5) for frame in (labels, sorted_by_label)]
    assert boards[0].ids == boards[1].ids == list(range(ROWS))
    frame, told, refusals = table(labels, 0.7), [], []
    for board in boards:
        told.append(board.take_in(frame, by="ann"))
        with pytest.raises(QueryRejected) as refused:
            board.submit(frame.drop(index=[3, 5, 700]))
        refusals.append(str(refused.value))
    assert told[0] == told[1]
    assert refusals[0] == refusals[1]
    words = Board(labels.assign(id=[f"row {i}" for i in labels["id"]][::-1]), target="y")
    assert words.ids == sorted(words.ids)


def unordered(patch):
    """Rows stay in the order in which they come."""
    patch.setattr(pd.DataFrame, "sort_values", lambda table, *arguments, **options: table)


def test_keys_in_the_order_of_the_table_give_it_away(labels, monkeypatch):
    """The twin: rows as they come. Who submits one 1 and zeros learns from the key where that id stands; in a
    table sorted by its labels, that is its label."""
    few = labels.head(40).sort_values("y", kind="stable")
    ones = int(few["y"].sum())

    def place_of(board, id):
        sent = pd.DataFrame({"id": few["id"], "prediction": (few["id"] == id).astype(int)})
        key = board.take_in(sent, by="eve")
        for place in range(40):
            values = [int(place == here) for here in range(40)]
            content = json.dumps(["eve", "<i8", values]).encode()
            if hashlib.sha256(content).hexdigest()[:32] == key:
                return place
        raise AssertionError

    def guessed_right():
        board = Board(few, target="y")
        return sum((place_of(board, id) >= 40 - ones) == y for id, y in few.to_numpy().tolist())

    assert guessed_right() < 40
    unordered(monkeypatch)
    assert guessed_right() == 40


def test_a_board_opened_before_rows_were_ordered_continues_with_its_rows(labels, tmp_path, monkeypatch):
    shuffled = labels.sample(frac=1, random_state=3)
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    with monkeypatch.context() as before:
        unordered(before)
        old = Board(shuffled, target="y", start=0.5, **place)
        told = old.submit(table(labels, 0.7), asker=Asker("ann"))
        old.close()
    new = Board(shuffled, target="y", start=0.5, **place)
    assert new.standing == (told,)
    assert new.ids == shuffled["id"].tolist()
    assert new.submit(table(labels, 0.7), asker=Asker("ann")) == told
    assert new.final()[0].low < 0.7 < new.final()[0].high
    new.close()


BOTH = pytest.mark.parametrize(
    ("compare", "prepared"), [("paired", PreparedComparison), ("scores", PreparedCode)]
)


@BOTH
def test_the_best_never_falls_when_two_processes_read_at_once(
    labels, tmp_path, monkeypatch, compare, prepared
):
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    first, second = (Board(labels, target="y", start=0.5, compare=compare, **place) for _ in range(2))
    read = prepared.read

    def meanwhile(self, part):
        monkeypatch.setattr(prepared, "read", read)
        second.submit(table(labels, 0.9, seed=1), asker=Asker("bob"))
        return read(self, part)

    monkeypatch.setattr(prepared, "read", meanwhile)
    low = first.submit(table(labels, 0.6), asker=Asker("ann"))  # Released after the better one.
    assert low.better
    third = Board(labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=tmp_path / "book")
    for board in (first, second, third):
        assert [entry.by for entry in board.standing] == ["bob", "ann"]
        assert board.best == board.standing[0].value > low.value
        board.close()


def test_each_of_two_processes_pays_for_the_answers_of_the_other(labels, tmp_path):
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


@BOTH
def test_the_least_is_the_best_where_less_is_better(labels, tmp_path, monkeypatch, compare, prepared):
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    first, second = (Board(labels, target="y", metric="brier", compare=compare, **place) for _ in range(2))
    read = prepared.read

    def meanwhile(self, part):
        monkeypatch.setattr(prepared, "read", read)
        second.submit({"id": labels["id"], "prediction": labels["y"] * 0.8 + 0.1}, asker=Asker("bob"))
        return read(self, part)

    monkeypatch.setattr(prepared, "read", meanwhile)
    first.submit({"id": labels["id"], "prediction": np.full(ROWS, 0.5)}, asker=Asker("ann"))
    assert [entry.by for entry in first.standing] == ["bob", "ann"]
    assert first.best == min(entry.value for entry in first.standing)
    first.close()
    second.close()


def climb(rng, rows, submissions, *, guarded, compare="paired"):
    """The boosting attack of Blum and Hardt: keep every random vector that seems better, then take a vote.

    The labels are coins, so every true score is one half. Returns whether all claims hold, and the last one.
    """
    ids = np.arange(rows)
    truth = rng.integers(0, 2, rows)
    labels = {"id": ids, "y": truth}
    board = Board(labels, target="y", start=0.5, sealed=0.0, compare=compare) if guarded else None
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


@pytest.mark.parametrize("compare", ["paired", "scores"])
def test_climbers_meet_valid_intervals_and_a_board_without_an_account_falls(seed, compare):
    runs = 20
    rngs = [np.random.default_rng([seed, run]) for run in range(runs)]
    held = sum(climb(rng, 400, 40, guarded=True, compare=compare) for rng in rngs)
    assert betaincinv(held, runs - held + 1, 0.05) > 0.85
    assert sum(climb(np.random.default_rng([seed, run]), 400, 40, guarded=False) for run in range(runs)) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("compare", ["paired", "scores"])
def test_climbers_meet_valid_intervals_in_95_percent_of_runs(seed, compare):
    runs = 300
    rngs = [np.random.default_rng([seed, run]) for run in range(runs)]
    held = sum(climb(rng, 400, 200, guarded=True, compare=compare) for rng in rngs)
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


@pytest.mark.parametrize("finalists", [["0" * 32], [], ["../book"]])
def test_finalists_who_are_not_there_are_refused_before_anything_is_written(labels, finalists):
    board = Board(labels, target="y", start=0.5)
    board.submit(table(labels, 0.7))
    with pytest.raises(QueryRejected):
        board.final(finalists)
    assert not board.finished
    assert board.final()[0].low < 0.7


def test_a_final_without_submissions_is_refused_and_can_be_held_later(labels):
    board = Board(labels, target="y", start=0.5)
    with pytest.raises(QueryRejected, match="no submission to score"):
        board.final()
    assert not board.finished


def test_the_final_stays_readable_if_its_files_are_changed_or_lost(labels, tmp_path):
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    board = Board(labels, target="y", start=0.5, **place)
    told = board.submit(table(labels, 0.7), asker=Asker("ann"))
    final = board.final([told.key, told.key])
    assert len(final) == 1
    for path in (tmp_path / "kept").iterdir():
        path.unlink()
    assert board.final() == final
    board.close()


def test_a_submission_whose_file_was_changed_is_left_out_of_the_final(labels, tmp_path):
    board = Board(labels, target="y", start=0.5, keep=tmp_path / "kept")
    key = board.take_in(table(labels, 0.7), by="ann")
    path = tmp_path / "kept" / f"{key}.json"
    path.write_bytes(path.read_bytes().replace(b"ann", b"eve"))
    with pytest.raises(QueryRejected, match="its file was changed"):
        board.score(key)
    assert board.score_all([key]) == [None]
    assert board.spent == 0


def test_sealed_labels_that_cannot_be_read_are_not_quoted(labels, monkeypatch):
    board = Board(labels, target="y", start=0.5)
    told = board.submit(table(labels, 0.7))

    def fails(self, part, **_):
        raise ValueError("could not convert string to float: 'Ms Smith, HIV+'")

    with monkeypatch.context() as broken:
        broken.setattr(ScoreQuestion, "moments", fails)
        with pytest.raises(QueryRejected, match="could not be read") as refused:
            board.final()
    error = refused.value
    assert "HIV" not in str(error)
    assert error.__cause__ is error.__context__ is None
    assert board.final()[0].key == told.key


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
        (lambda frame: frame.iloc[:-3], r"3 ids have no prediction, for example id 1997\."),
        (lambda frame: frame.iloc[:-1], r"1 id has no prediction, for example id 1999\."),
        (lambda frame: pd.concat([frame, frame.iloc[:1]]), r"Id 0 occurs twice\. Give one"),
        (lambda frame: frame.assign(id=frame["id"] + 1), "no row '2000'"),
        (lambda frame: frame.rename(columns={"id": "row"}), "'row'"),
        (lambda frame: frame.assign(extra=1), "'extra'"),
        (lambda frame: frame.assign(id=[*frame["id"][:-1].astype(str), ""]), "no row ''"),
        (lambda frame: frame.assign(prediction=np.nan), "id 0 is missing or not finite"),
        (lambda frame: frame.assign(prediction=np.inf), "missing or not finite"),
        (lambda frame: frame.assign(prediction=[None] + [1] * (ROWS - 1)), "id 0 is missing"),
        (lambda frame: frame.assign(prediction="yes"), "has to be a number, as the labels are; got texts"),
        (lambda frame: frame.assign(prediction=["no"] + [1] * (ROWS - 1)), "id 0 is not a number"),
        (lambda frame: frame.assign(prediction=[[1]] * ROWS), "not a number"),
        (lambda frame: frame.assign(prediction=1j), "not a number"),
        (lambda frame: frame.assign(prediction=pd.Timestamp("2020-01-01")), "not a number"),
        (lambda frame: frame.assign(prediction=[2**70] * ROWS), "64 bits"),
        (lambda frame: frame.iloc[:0], "2,000 ids"),
        (lambda frame: 5, "is a table"),
        (lambda frame: {"id": [1, 2], "prediction": [1]}, "of the same length"),
        (lambda frame: frame.set_axis(["id", "id"], axis=1), "'id', 'id'"),
    ],
)
def test_a_bad_submission_is_refused_with_the_reason_and_costs_nothing(labels, change, words):
    board = Board(labels, target="y")
    with pytest.raises(QueryRejected, match=words):
        board.submit(change(table(labels, 0.7)))
    assert board.spent == 0


@pytest.mark.parametrize("wrong", [1.0001, -1e-9, 7])
def test_predictions_outside_zero_and_one_are_refused_for_brier_scores(labels, wrong):
    board = Board(labels, target="y", metric="brier")
    predictions = np.full(ROWS, 0.5)
    predictions[-1] = wrong
    for door in (board.submit, board.take_in):
        with pytest.raises(QueryRejected, match=r"id 1999 is not a probability; give a number in \[0, 1\]"):
            door({"id": labels["id"], "prediction": predictions})
    assert board.spent == 0


def test_labels_that_are_texts_take_texts_only(labels):
    board = Board(labels.assign(y=labels["y"].map({0: "no", 1: "yes"})), target="y", start=0.5)
    right = labels["y"].map({0: "no", 1: "yes"})
    told = board.submit({"id": labels["id"], "prediction": right})
    assert told.better
    assert board.submit({"id": labels["id"], "prediction": right.astype("category")}) == told
    with pytest.raises(QueryRejected, match="has to be a text, as the labels are; got numbers"):
        board.submit({"id": labels["id"], "prediction": labels["y"]})
    with pytest.raises(QueryRejected, match="id 0 is too long: at most 1,000 characters"):
        board.submit({"id": labels["id"], "prediction": ["x" * 1001] + ["yes"] * (ROWS - 1)})


def test_the_same_numbers_are_the_same_submission_however_they_are_stored(labels):
    board = Board(labels, target="y", start=0.5)
    numbers = table(labels, 0.7)["prediction"]
    first = board.submit({"id": labels["id"], "prediction": numbers})
    for stored in ("float32", "uint64", "Int64", bool, object, "boolean"):
        assert board.submit({"id": labels["id"], "prediction": numbers.astype(stored)}) == first
    assert board.submit({"id": labels["id"].astype(str), "prediction": numbers.tolist()}) == first


def test_booleans_with_nulls_have_a_brier_score(labels):
    frame = labels.assign(y=pd.array([None, *(labels["y"][1:] == 1)], dtype="boolean"))
    board = Board(frame, target="y", metric="brier", sealed=0.1)
    assert board.submit({"id": labels["id"], "prediction": labels["y"] * 0.8 + 0.1}).better
    assert board.final()


@pytest.mark.parametrize("target", ["day", "name"])
def test_labels_that_cannot_be_scored_are_refused_when_the_board_is_made(labels, target):
    frame = labels.assign(day=pd.Timestamp("2020-01-01"), name="Ms Smith, HIV+")
    with pytest.raises(QueryRejected, match=repr(target)) as refused:
        Board(frame, target=target, metric="accuracy" if target == "day" else "brier")
    assert "HIV" not in str(refused.value)


def test_bad_boards_are_refused(labels):
    with pytest.raises(QueryRejected, match="'z'"):
        Board(labels, target="z")
    with pytest.raises(InvalidArgument, match="every id"):
        Board(labels.assign(id=0), target="y")
    with pytest.raises(NotEnoughRows):
        Board(labels.iloc[:3], target="y")
    for wrong in ({"metric": "auc"}, {"sealed": 1.0}, {"step": 0}, {"start": 2}, {"confidence": 1}):
        with pytest.raises(InvalidArgument) as refused:
            Board(labels, target="y", **wrong)
        assert refused.value.argument in wrong


def test_only_the_type_of_the_labels_decides_whether_probabilities_are_refused(labels):
    """The type is public and the labels are not: those of the last two boards are the same numbers."""
    chances = {"id": labels["id"], "prediction": np.full(ROWS, 0.7)}
    for y in (labels["y"], labels["y"] == 1, labels["y"] + 5, labels["y"].astype("uint8")):
        board = Board(labels.assign(y=y), target="y")
        for door in (board.submit, board.take_in):
            with pytest.raises(QueryRejected, match=r"not probabilities\. The prediction for id 0 is 0\.7\."):
                door(chances)
        assert board.spent == 0
    assert not Board(labels.assign(y=labels["y"] * 1.0), target="y", start=0.5).submit(chances).better
    assert Board(labels, target="y", metric="brier").submit(chances).better


def test_what_was_kept_before_probabilities_were_refused_is_scored_and_in_the_final(labels, tmp_path):
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    mixed = table(labels, 0.9).assign(prediction=lambda frame: frame["prediction"] * 1.0)
    mixed.loc[0, "prediction"] = 0.5
    board = Board(labels, target="y", start=0.5, **place)
    with pytest.MonkeyPatch.context() as before:
        before.setattr(type(board._predictions), "_refuse_probabilities", lambda self, values: None)
        waiting = board.take_in(mixed, by="ann")
    assert board.score(waiting).better
    assert board.final()[0].key == waiting
    board.close()


def test_a_choice_of_finalists_outlives_the_process(labels, tmp_path):
    place = {"keep": tmp_path / "kept", "ledger": tmp_path / "book"}
    board = Board(labels, target="y", start=0.5, **place)
    poor, good = (board.submit(table(labels, right), asker=Asker("ann")).key for right in (0.4, 0.8))
    board.choose_finalists([poor], by="ann")
    standing, listed = board.standing, board.submissions()
    board.close()
    again = Board(labels, target="y", start=0.5, **place)
    assert again.finalists("ann") == (poor,)
    assert again.finalists("bob") == ()
    assert (again.standing, again.submissions()) == (standing, listed)
    assert [entry.key for entry in again.submissions("ann")] == [poor, good]
    assert [entry.key for entry in again.final()] == [poor]
    again.close()


def test_a_choice_is_before_the_final_or_refused_when_two_processes_write_at_once(labels, tmp_path):
    """The first process is about to write its finalists; the second one's choice comes in between."""
    first, second = (
        Board(labels, target="y", start=0.5, keep=tmp_path / "kept", ledger=tmp_path / "book")
        for _ in range(2)
    )
    poor, good = (first.submit(table(labels, right), asker=Asker("ann")).key for right in (0.4, 0.8))
    append_all, meanwhile = Book.append_all, []

    def late(book, entries, **options):
        if any("finalists" in entry.body for entry in entries) and not meanwhile:
            meanwhile.append(second.choose_finalists([poor], by="ann"))
        return append_all(book, entries, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Book, "append_all", late)
        final = first.final()
    assert meanwhile == [(poor,)]
    assert [entry.key for entry in final] == [poor]
    with pytest.raises(QueryRejected, match="cannot be changed any more"):
        second.choose_finalists([good], by="ann")
    assert second.final() == final
    first.close()
    second.close()


@pytest.mark.parametrize("bad", [0, -1, 1.5, None, "2"])
def test_a_bad_number_of_finalists_is_refused(labels, bad):
    with pytest.raises(InvalidArgument, match="most_finalists"):
        Board(labels, target="y", most_finalists=bad)
