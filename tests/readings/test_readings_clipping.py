"""Clipped values: an answer says where more were clipped than the training part predicts, and is charged for
saying so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast import Guard
from holdfast.readings import Clipping, Moments, clipping_of

ROWS = 4_000
QUESTIONS = [
    "mean(x, 0, 90)",
    "mean(x, 0, 90, where = z > 0)",
    "std(x, 0, 90)",
    "correlation(x, z, 0, 90, -5, 5)",
    "mean(x, 0, 90, 0, 2, weights = w)",
]


def rows(rng, middle, count):
    return {"x": rng.normal(middle, 10, count), "z": rng.normal(size=count), "w": rng.random(count) + 0.5}


def says_so(answer):
    return any(note.startswith("More than") and "were clipped" in note for note in answer.notes)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_says_that_more_was_clipped_than_predicted(rng, question):
    training = rows(rng, 50, 1_000)
    assert not says_so(Guard(rows(rng, 50, ROWS), train=training).ask(question))
    farther = rows(rng, 80, ROWS)
    assert says_so(Guard(farther, train=training).ask(question))
    assert says_so(Guard(farther, train=training).report([question]).answers[0])


def test_what_the_training_part_predicts_is_not_worth_a_word(rng):
    guard = Guard(rows(rng, 85, 9_000))  # A third of the values is clipped, in both parts.
    assert not says_so(guard.mean("x", bounds=(0, 90)))


def test_saying_so_is_paid_for(rng):
    """Both tables have the same values within the bounds: they differ in which of them were clipped."""
    training = {"x": np.clip(rng.normal(50, 10, 1_000), 0, 89)}
    inside = np.clip(rng.normal(60, 20, ROWS), 0, 90)
    outside = np.where(inside == 90, 95.0, inside)
    told, quiet = (Guard({"x": values}, train=training) for values in (outside, inside))
    first, second = (guard.mean("x", bounds=(0, 90)) for guard in (told, quiet))
    assert (first.value, first.low, first.high) == (second.value, second.low, second.high)
    assert (says_so(first), says_so(second)) == (True, False)
    assert first.cost - second.cost == pytest.approx(math.log(99), abs=1e-5)
    assert told.spent == first.cost


def test_both_bits_are_a_prior_and_the_most_expensive_is_reserved(rng):
    assert math.exp(-Clipping.price(True)) + math.exp(-Clipping.price(False)) == pytest.approx(1.0)
    guard = Guard(rows(rng, 50, ROWS))
    question = guard._questions.read("mean(x, 0, 90)")
    prepared = guard._strategy.prepare(question, guard._session.account)
    assert prepared.worst_price == prepared.alphabet.worst_price(0) + Clipping.price(True)
    assert guard.cost_preview("mean(x, 0, 90)").at_most == prepared.worst_price


def test_hardly_any_sample_of_the_same_distribution_exceeds_what_is_predicted():
    """Exact for the protected rows, given the worst training counts that are not rarer than one in 8,000."""
    from scipy import stats

    class Share:
        binary = True

        def __init__(self, count, size):
            self.seen = Moments(size, count / size, math.nan)

        def moments(self, part, *, squares):
            return self.seen

    class Training:
        def __init__(self, size):
            self.rows, self.moments = type("Rows", (), {"count": size})(), {}

    for share in (0.0005, 0.01, 0.2):
        for size, protected in ((500, 1_000), (3_000, 6_000)):
            counts = np.arange(size + 1)
            chance = stats.binom.pmf(counts, size, share)
            exceeded = 0.0
            for count in counts[chance > 1e-12]:
                clipping = Clipping((Share(count, size),), Training(size), "")
                most = clipping.most(protected)
                exceeded += chance[count] * stats.binom.sf(math.floor(most * protected), protected, share)
            assert exceeded < 1 / 500


@pytest.mark.parametrize(
    "question", ["share(x > 50)", "quantile(x, 0.5)", "difference(z > 0, x > 50, x <= 50)"]
)
def test_what_cannot_be_clipped_is_not_counted(rng, question):
    guard = Guard(rows(rng, 50, ROWS))
    assert clipping_of(guard._questions.read(question), guard._setup.training) is None


def test_a_guess_of_the_callers_own_is_used_unchanged(rng):
    guard = Guard(rows(rng, 80, ROWS), train=rows(rng, 50, 1_000))
    assert not says_so(guard.mean("x", bounds=(0, 90), guess=78))


def test_missing_values_are_not_clipped(rng):
    table = rows(rng, 50, ROWS)
    table["x"][: ROWS // 2] = np.nan
    guard = Guard(table, train=rows(rng, 50, 1_000))
    assert not says_so(guard.mean("x", bounds=(0, 90), nulls=0))
    assert not says_so(guard.mean("x", bounds=(0, 90), nulls="skip"))


def test_one_scan_reads_the_mean_and_what_is_clipped(rng, monkeypatch):
    seen = []
    guard = Guard({"x": rng.random(9_000)})
    for part in (guard._setup.training, guard._setup.protected):
        ask = part.rows._database.ask
        monkeypatch.setattr(
            part.rows._database, "ask", lambda *asked, ask=ask: seen.append(asked) or ask(*asked)
        )
    guard.mean("x", bounds=(0, 1))
    assert len(seen) == 2  # One of the training rows, one of the protected rows.
