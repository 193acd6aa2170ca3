"""Scores that whoever makes candidates has seen are declared and paid for."""

from __future__ import annotations

import math
import time

import pytest

from holdfast import Gate
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected

INCUMBENT = {task: int(task < 210) for task in range(300)}
BETTER = {task: int(task < 250) for task in range(300)}


def test_a_total_of_n_scores_costs_the_logarithm_of_its_values():
    gate = Gate(None, incumbent=INCUMBENT)
    assert gate.declare_seen(2) == pytest.approx(2 * math.log(301))
    assert gate.spent == pytest.approx(2 * math.log(301), abs=2e-6)
    verdict = gate.submit(BETTER, name="v2")
    assert verdict.promoted  # 40 wins without a loss: 27.7 nats against 3 + 1.7 + 11.4
    assert verdict.level == pytest.approx(
        math.log(20) + math.log(2.10975 * 3 * math.log(3) ** 2) + 2 * math.log(301), abs=1e-5
    )


def test_declarations_are_no_submissions(tmp_path):
    here = Gate(None, incumbent=INCUMBENT, ledger=tmp_path / "gate")
    there = Gate.at(tmp_path / "gate")
    for gate in (here, there, here):
        gate.declare_seen(1)
    assert here.submit(INCUMBENT, name="same").place == 1
    assert there.submit(INCUMBENT, name="again").place == 2
    assert here.status()["submissions"] == 2
    assert here.status()["text"].startswith("2 submissions, 0 promotions.")
    assert here.spent == there.spent > 3 * math.log(301)
    assert len(here.history) == 2
    assert here.report().text.startswith("2 submissions on 300 tasks, 0 promotions.")


def test_a_declaration_that_another_process_gave_back_is_made_again(tmp_path, monkeypatch):
    """A process that is too slow finds its reservation gone. It must not say that it paid."""
    gate, other = Gate(None, incumbent=INCUMBENT, ledger=tmp_path / "gate"), Gate.at(tmp_path / "gate")
    settle, calls = type(gate._session).settle, []

    def too_slow(session, *args, **kwargs):
        if session is gate._session and not calls:
            calls.append(None)
            with monkeypatch.context() as late:
                later = time.time() + 3_600
                late.setattr(time, "time", lambda: later)
                other.submit(INCUMBENT, name="meanwhile")
            session.read()
        return settle(session, *args, **kwargs)

    monkeypatch.setattr(type(gate._session), "settle", too_slow)
    nats = gate.declare_seen(1)
    assert calls
    assert nats == pytest.approx(math.log(301))
    assert other.spent > nats


def test_after_too_many_seen_scores_nothing_can_be_shown():
    gate = Gate(None, incumbent=INCUMBENT)
    gate.declare_seen(100)
    with pytest.raises(BudgetSpent, match="Open a new gate on fresh tasks"):
        gate.submit(BETTER, name="v2")
    assert gate.spent == pytest.approx(100 * math.log(301), abs=1e-5)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True])
def test_a_number_of_scores_is_a_whole_number(bad):
    gate = Gate(None, incumbent=INCUMBENT)
    with pytest.raises(InvalidArgument, match="scores"):
        gate.declare_seen(bad)
    assert gate.spent == 0


def test_totals_of_fractions_cannot_be_paid_for():
    gate = Gate(None, incumbent=dict.fromkeys(range(300), 0.5))
    with pytest.raises(QueryRejected, match="too many values"):
        gate.declare_seen(1)
    assert gate.spent == 0
