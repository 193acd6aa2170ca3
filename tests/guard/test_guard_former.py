"""Account books that an earlier version opened go on, with their own split and weights and new prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.coding import Account, Learned
from holdfast.ledger import BookError
from holdfast.strategies import PreparedCode

ROWS = 2000


@pytest.fixture
def table(rng):
    return pd.DataFrame({"x": rng.random(ROWS), "flag": rng.random(ROWS) < 0.4})


@pytest.fixture
def former(table, tmp_path, monkeypatch):
    """A book in which half of the rows were set aside, and no line says what was learned."""
    path, read = tmp_path / "book.holdfast", PreparedCode.read
    monkeypatch.setattr(PreparedCode, "read", lambda *arguments: replace(read(*arguments), learned=None))
    guard = Guard(table, ledger=path, training_share=0.5)
    answer = guard.share("flag")
    guard.close()
    monkeypatch.undo()
    return path, answer


def test_an_account_continues_with_the_split_it_was_opened_with(table, former):
    path, answer = former
    guard = Guard(table, ledger=path)
    assert (len(guard.train), guard.rows) == (ROWS // 2, ROWS // 2)
    assert guard.spent == answer.cost
    assert guard.share("flag").to_dict() == answer.to_dict()


def test_it_starts_to_learn_from_the_next_answer(table, former):
    path, answer = former
    guard = Guard(table, ledger=path)
    assert guard._session.account.learned == Learned()
    second = guard.share("x > 0.5")
    assert guard._session.account.learned != Learned()
    expected = Account(1 - 0.95, steps=1, micro_nats=round(answer.cost * 1e6)).nats()
    assert second.certificate.numbers["nats of this interval"] == pytest.approx(expected, abs=1e-5)
    again = Guard(table, ledger=path)._session.account
    assert again.learned == guard._session.account.learned
    assert again.nats() == guard._session.account.nats()


def test_other_terms_are_refused_as_ever(table, former):
    path, _ = former
    for terms in ({"expect": 10}, {"promise": "each"}, {"training_share": 0.25}):
        with pytest.raises(BookError, match="other terms"):
            Guard(table, ledger=path, **terms)


@pytest.mark.parametrize("opened", [{"expect": 10}, {"promise": "each"}])
@pytest.mark.parametrize("later", [{}, {"expect": 11}, {"promise": "each", "expect": 10}])
def test_weights_are_never_changed_on_the_way(table, tmp_path, opened, later):
    """Weights of two kinds would sum to more than one."""
    path = tmp_path / "book.holdfast"
    Guard(table, ledger=path, training_share=0.5, **opened).share("flag")
    with pytest.raises(BookError, match=r"other terms \((expect|promise|expect, promise) differ\)"):
        Guard(table, ledger=path, training_share=0.5, **later)
    assert Guard(table, ledger=path, training_share=0.5, **opened).spent > 0


def test_a_new_account_sets_a_third_aside(table, tmp_path):
    assert len(Guard(table, ledger=tmp_path / "new.holdfast").train) == round(ROWS / 3)
    assert len(Guard(table, expect=5).train) == ROWS // 4


@pytest.mark.parametrize("expect", [0, -3, np.nan, np.inf, "many", 0.5])
def test_a_hint_that_is_no_number_of_questions_is_refused(table, expect):
    with pytest.raises(ValueError, match="expect"):
        Guard(table, expect=expect)


def test_more_nats_than_are_left_are_refused_and_nothing_is_charged(table):
    guard = Guard(table, error=0.1)
    with pytest.raises(Exception, match="nats") as refused:
        guard.share("flag", nats=1000)
    assert "left" in str(refused.value)
    assert guard.spent == 0
    for wrong in (0, -1, np.nan):
        with pytest.raises(ValueError, match="nats"):
            guard.share("flag", nats=wrong)


def test_a_precise_question_is_narrower_and_more_expensive(table):
    plain, precise = Guard(table, expect=100), Guard(table, expect=100)
    usual, finer = plain.cost_preview("share(flag)"), precise.cost_preview("share(flag)", precise=True)
    assert finer.cell < usual.cell
    assert finer.half_width < usual.half_width
    assert finer.if_confirmed > usual.if_confirmed
    assert precise.share("flag", precise=True).half_width == pytest.approx(finer.half_width, rel=0.05)
