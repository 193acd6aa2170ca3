"""Attacks on counts are the attacks on rows, and sessions are the methods themselves."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from holdfast import Guard
from holdfast.audit.attacks import CountedBoard, chain_attack, naive, sticky_states
from holdfast.cli.lab import bench
from holdfast.coding import checked_schedule, grid_schedule
from holdfast.dependence import Independent
from holdfast.errors import BudgetSpent
from holdfast.guard import Board

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
attacked, attackers, coins, guarded, peers, sessions = (
    importlib.import_module(name)
    for name in ("attacked", "attackers", "coins", "guarded", "peers", "sessions")
)

METHODS = {method.name: method for method in guarded.METHODS}
ATTACKS = {attack.name: attack for attack in attackers.ATTACKS}


def bits_of(tossed):
    """The coins as a matrix of 0 and 1, a line a column."""
    bytes_ = tossed.words.astype("<u8").view(np.uint8).reshape(len(tossed.words), -1)
    return np.unpackbits(bytes_, axis=1, bitorder="little")[:, : tossed.rows].astype(int)


@pytest.mark.parametrize(("columns", "rows"), [(1, 65), (7, 100), (50, 1000), (300, 64)])
def test_packed_coins_are_counted_and_added_exactly(columns, rows, rng):
    tossed = coins.Coins.toss(columns, rows, rng)
    bits, weights = bits_of(tossed), rng.integers(-3, 4, columns)
    assert (tossed.counts == bits.sum(axis=1)).all()
    scores = weights @ (2 * bits - 1)
    assert (tossed.scores(weights) == scores).all()
    won = bits_of(tossed.vote(weights, rng))[0]
    assert (won[scores != 0] == (scores > 0)[scores != 0]).all()


def test_a_tie_is_decided_by_a_fair_coin(rng):
    tossed = coins.Coins.toss(2, 20_000, rng)
    weights = np.array([1, 1])
    tied = tossed.scores(weights) == 0
    won = bits_of(tossed.vote(weights, rng))[0][tied]
    assert won.mean() == pytest.approx(0.5, abs=0.03)


def test_coins_are_fair(rng):
    tossed = coins.Coins.toss(200, 10_007, rng)
    assert tossed.counts.sum() / (200 * 10_007) == pytest.approx(0.5, abs=0.002)
    assert bits_of(tossed).mean(axis=0)[-7:] == pytest.approx(np.full(7, 0.5), abs=0.2)


def met(attack, method, place, seed):
    return ATTACKS[attack].run(place, (METHODS[method],), np.random.default_rng(seed))[0]


def test_the_vote_is_that_of_the_rows(seed):
    place = sessions.Place(500, 61)
    found = met("sign", "naive reuse", place, seed)
    rng = np.random.default_rng(seed)
    world = [coins.Coins.toss(60, 250, rng) for _ in range(2)]
    bits = np.hstack([bits_of(part) for part in world])
    shares = bits.mean(axis=1)
    scores = np.where(shares >= 0.5, 1, -1) @ (2 * bits - 1)
    least, most = ((scores > 0).mean(), (scores >= 0).mean())
    assert least - 0.5 <= found.gain <= most - 0.5
    assert found.error >= np.abs(shares - 0.5).max()


def test_the_chain_is_that_of_the_library(seed):
    place = sessions.Place(5_000, 32, 0.9)
    found = met("chain", "naive reuse", place, seed)
    states = sticky_states(np.random.default_rng(seed), 5_000, bits=5, stay=0.9)
    told = chain_attack(naive(states), bits=5)
    assert found.error == pytest.approx(told.error, abs=1e-12)
    assert found.gain == pytest.approx(told.gain, abs=1e-12)


def test_differencing_finds_every_secret_in_exact_answers_and_none_in_noisy_ones(seed):
    place = sessions.Place(1_000, 101)
    assert met("differencing", "naive reuse", place, seed).told == 1.0
    assert met("differencing", "typical-gaussian", place, seed).told < 0.75


def test_a_fingerprint_knows_the_members_of_exact_answers(seed):
    place = sessions.Place(1_000, 10_000)
    assert met("fingerprint", "naive reuse", place, seed).told > 0.7
    # Its answers are guesses from the training part, which the protected rows confirm.
    assert abs(met("fingerprint", "Guess and Check", place, seed).told) < 0.4


def test_ladders_on_counts_are_ladders_on_losses(rng):
    labels = rng.integers(0, 2, 300)
    for board, on_counts in ((peers.Ladder(0.02), peers.Ladder(0.02)), (peers.ParameterFreeLadder(),) * 2):
        best, lines = None, []
        for _ in range(60):
            losses = (rng.integers(0, 2, 300) != labels).astype(float)
            before = board.best
            shown = board.submit(losses)
            lines.append(shown)
            if on_counts is not board:
                assert on_counts.take(float(losses.mean())) == shown
            elif shown < before:
                deviation = 0.0 if best is None else np.std(losses - best, ddof=1)
                assert losses.mean() < before - deviation / math.sqrt(300)
                best = losses
            elif best is not None:
                deviation = np.std(losses - best, ddof=1)
                assert losses.mean() >= before - deviation / math.sqrt(300) - 1e-12
        assert lines == sorted(lines, reverse=True)


def test_the_board_on_counts_is_the_board(rng):
    labels = rng.integers(0, 2, 400)
    terms = {"target": "y", "start": 0.5, "sealed": 0, "compare": "scores"}
    board = Board({"id": np.arange(400), "y": labels}, **terms)
    counted = CountedBoard(400, 1 - board.confidence, start=0.5)
    for share in (0.5, 0.55, 0.5, 0.62, 0.6, 0.7, 0.5):
        right = rng.random(400) < share
        prediction = np.where(right, labels, 1 - labels)
        told = board.submit({"id": np.arange(400), "prediction": prediction})
        interval, better = counted.submit(int(right.sum()))
        assert (told.low, told.high) == (interval.low, interval.high)
        assert (told.better, board.best) == (better, counted.best)
    assert board.spent == counted.account.spent


@pytest.mark.parametrize("strategy", ["agreed-code", "grid-code"])
def test_agreed_numbers_on_counts_are_those_of_the_guard(strategy, rng):
    tail = Independent(400).mean_tail(0, 1)
    rows = np.column_stack(
        [rng.random(400) < share for share in (0.5, 0.9, 0.52, 0.1, 0.5, 0.8, 0.15, 0.5, 0.85, 0.5)]
    )
    table = {f"c{column}": rows[:, column].astype(int) for column in range(10)}
    terms = {"surprises": 2} if strategy == "agreed-code" else {}
    guard = Guard(table, strategy=strategy, queries=10, training_share=0, **terms)
    place = sessions.Place(400, 10, stay=0.5)  # all rows are protected and guesses are brought, as on a chain
    session = (
        sessions.Agreed(place, checked_schedule(tail, 10, 0.05, 2), tail)
        if strategy == "agreed-code"
        else sessions.InCells(place, grid_schedule(tail, 10, 0.05))
    )
    halves = [part.sum(axis=0) for part in (rows[:200], rows[200:])]
    found = session(sessions.Seen(400, 200, *halves, np.full(10, 0.5)))
    for column, answer in enumerate(found):
        if math.isnan(answer):
            with pytest.raises(BudgetSpent):
                guard.share(f"c{column} = 1", guess=0.5)
        else:
            told = guard.share(f"c{column} = 1", guess=0.5 if terms else None)
            assert told.value == pytest.approx(answer, abs=1e-12)
    assert np.isnan(found).any() == (strategy == "agreed-code")


@pytest.mark.parametrize("name", ["sign", "linear classifier", "boosting", "averaging", "fingerprint"])
def test_naive_reuse_fails_and_valid_methods_hold(name, seed):
    lines = {
        line["method"]: line for line in attacked.point(ATTACKS[name], sessions.Place(20_000, 400), 6, seed)
    }
    if "naive reuse" in lines:
        assert lines["naive reuse"]["beyond, at least"] > 0.05
    held = [line for line in lines.values() if line["valid"] and "beyond" in line]
    assert len(held) >= 4
    assert all(line["beyond, at least"] <= 0.05 for line in held)


def test_an_account_that_never_pays_is_caught_on_the_edge(seed, monkeypatch):
    real = sessions.CountedGuard
    monkeypatch.setattr(
        sessions, "CountedGuard", lambda *parts, **terms: real(*parts, **terms, charges=False)
    )
    place = sessions.Place(1_000, 400)
    lines = attacked.point(ATTACKS["sign, guesses on the edge"], place, 8, seed)
    assert next(line for line in lines if line["method"] == "code")["beyond, at least"] > 0.05


def test_runs_are_many_or_none():
    sign = ATTACKS["sign"]
    runs = {
        (place.rows, place.queries): attacked.runs_for(sign, place, attacked.WORK)
        for place in attacked.places(sign)
    }
    for (rows, queries), count in runs.items():
        assert count == 0 if rows * queries > 10**9 else count >= (100 if rows * queries <= 10**7 else 20)
    assert attacked.runs_for(sign, sessions.Place(10**3, 10**4), work=10**6) == 0


def keep_small(monkeypatch, **other):
    """Two runs at the smallest places: for tests of what is done with the runs and not of what they show."""
    few = {"ROWS": (1_000,), "QUERIES": (10,), "STATES": (8,), "MOST_RUNS": 2, "LEAST_RUNS": 2}
    for name, value in (few | other).items():
        monkeypatch.setattr(attacked, name, value)


def test_finished_places_are_not_run_again(tmp_path, monkeypatch):
    keep_small(monkeypatch)
    resume, told = tmp_path / "partial.jsonl", []
    first = attacked.attacked(1e9, lambda *done: told.append(done), resume=resume)
    assert told[-1] == (len(ATTACKS), len(ATTACKS))
    monkeypatch.setattr(attacked, "point", lambda *_: pytest.fail("it was run again"))
    assert attacked.attacked(1e9, resume=resume) == json.loads(json.dumps(first))


def test_any_number_of_workers_finds_the_same(monkeypatch):
    keep_small(monkeypatch, ATTACKS=attacked.ATTACKS[:2])
    assert attacked.attacked(1e9, workers=2) == attacked.attacked(1e9)


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_one_command_writes_numbers_tables_and_pictures(every, tmp_path, monkeypatch):
    """Each method and each promise has a panel, and drawing them takes most of the time."""
    report, certified_picture = (importlib.import_module(name) for name in ("report", "certified_picture"))
    monkeypatch.setattr(attacked, "METHODS", attacked.METHODS[::every])
    monkeypatch.setattr(certified_picture, "PROMISES", list(certified_picture.PROMISES)[::every])
    grid = json.loads((ROOT / "docs" / "benchmarks" / "certified.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(
        report, "certified", lambda progress: {key: grid[key] for key in grid if key != "machine"}
    )
    keep_small(monkeypatch, QUERIES=(10, 20))
    result = CliRunner().invoke(
        bench, ["--output", str(tmp_path), "--work", "1e6", "--workers", "1", "--json"]
    )
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == set(said["files"])
    assert {"attacked.json", "attacked-dark.png", "attacked-rows-light.png", "README.md"} <= written
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page == report.page(
        *(json.loads((tmp_path / f"{n}.json").read_text()) for n in ("certified", "attacked"))
    )
    assert all(line in page for line in said["findings"])
