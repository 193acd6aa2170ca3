"""Attacks do to plain averages what they say, their truths are truths, and guards withstand them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from holdfast import Guard
from holdfast.audit import attacks, coverage
from holdfast.audit.attacks import AttackQuestion, CodeAnswerer, fair_signs, naive, sticky_states, through
from holdfast.dependence import MarkovChain
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.guard import Board

ROWS, COLUMNS, ATTRIBUTES = 600, 101, 800


def classified(rng, rows=ROWS):
    return fair_signs(rng, rows, ATTRIBUTES + 1)


def people(rng):
    return np.column_stack([np.arange(ROWS), rng.integers(0, 2, ROWS)])


# Each attack on independent rows: how rows are drawn, and the attack on an answerer.
WORLDS = {
    "vote": (
        lambda rng: fair_signs(rng, ROWS, COLUMNS + 1),
        lambda answer, rows, rng: attacks.vote_attack(answer, columns=COLUMNS, rows=ROWS),
    ),
    "linear": (
        classified,
        lambda answer, rows, rng: attacks.linear_classifier_attack(
            answer, classified(rng), kept=ATTRIBUTES, reach=1
        ),
    ),
    "differencing": (people, lambda answer, rows, rng: attacks.differencing_attack(answer, rows, targets=40)),
    "fingerprint": (
        lambda rng: fair_signs(rng, ROWS, COLUMNS),
        lambda answer, rows, rng: attacks.fingerprint_attack(
            answer, columns=COLUMNS, inside=rows, outside=fair_signs(rng, ROWS, COLUMNS)
        ),
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_truths_are_the_population_means(name, rng):
    """A question asked of 100,000 fresh rows has its truth as mean, within five standard deviations."""
    draw, attack = WORLDS[name]
    rows, asked = draw(rng), []

    def answer(question):
        asked.append(question)
        return question(rows).mean()

    attack(answer, rows, rng)
    fresh = np.vstack([draw(rng) + ([ROWS, 0] if name == "differencing" else 0) for _ in range(170)])
    for question in (asked[0], asked[-1]):
        values = question(fresh)
        assert values.min() >= 0
        assert values.max() <= 1
        assert values.mean() == pytest.approx(question.truth, abs=2.5 / math.sqrt(len(fresh)))


@pytest.mark.parametrize(
    ("name", "sessions", "asked"),
    [
        ("vote", 20, COLUMNS + 1),
        ("linear", 5, ATTRIBUTES + 1),
        ("fingerprint", 20, COLUMNS + 1),
        pytest.param("vote", 40, COLUMNS + 1, marks=pytest.mark.slow),
        pytest.param("linear", 12, ATTRIBUTES + 1, marks=pytest.mark.slow),
        pytest.param("fingerprint", 40, COLUMNS + 1, marks=pytest.mark.slow),
    ],
)
def test_plain_averages_break_and_the_code_guard_holds(name, sessions, asked, seed):
    draw, attack = WORLDS[name]

    def session(make):
        def run(rng):
            world, coins = rng.spawn(2)
            rows = draw(world)
            return attack(make(rows), rows, coins)

        return run

    broken = coverage(session(lambda rows: naive(rows, failure=0.05 / asked)), list, sessions, seed=seed)
    assert broken.refuted
    held = coverage(session(CodeAnswerer), list, sessions, seed=seed, confidence=0.999)
    assert not held.refuted
    assert held.details["asked"] == sessions * asked


def test_the_vote_gains_what_is_said(seed):
    rngs = [np.random.default_rng([seed, run]) for run in range(30)]
    gains = [attacks.vote_attack(naive(fair_signs(rng, 1000, 202)), columns=201).gain for rng in rngs]
    # Log odds weigh telling columns more: a little above 0.32 √(columns/rows).
    assert 1.0 <= np.mean(gains) / (0.32 * math.sqrt(201 / 1000)) <= 1.3


def test_boosting_gains_what_is_said(seed):
    def gain(run):
        rng = np.random.default_rng([seed, run])
        labels = rng.integers(0, 2, 1000)
        attack = attacks.ladder_boosting_attack(
            lambda said: float((said == labels).mean()), rows=1000, rounds=200, rng=rng
        )
        assert 60 <= attack.details["kept"] <= 140
        return attack.gain

    assert np.mean([gain(run) for run in range(30)]) == pytest.approx(0.23 * math.sqrt(0.2), rel=0.15)


def test_a_board_withstands_boosting(seed):
    rng = np.random.default_rng(seed)
    labels = {"id": np.arange(400), "y": rng.integers(0, 2, 400)}
    board = Board(labels, target="y", start=0.5, sealed=0)

    def submit(said):
        return board.submit({"id": np.arange(400), "prediction": said})

    for rule in ("scores", "steps"):
        attack = attacks.ladder_boosting_attack(submit, rows=400, rounds=15, rng=rng, rule=rule)
        assert len(attack.answers) == 16
        assert attack.missed == 0


def test_averaging_undoes_noise(seed):
    rng = np.random.default_rng(seed)
    rows = fair_signs(rng, 600, 62)

    def noisy(question):
        return float(question(rows).mean() + rng.normal(scale=0.05))

    truth = np.array([(rows[:, j] == rows[:, -1]).mean() for j in range(61)])
    right = [
        np.mean(
            np.sign(attacks.averaging_attack(noisy, columns=61, repeats=repeats).details["weights"])
            == np.where(truth >= 0.5, 1, -1)
        )
        for repeats in (1, 200)
    ]
    assert right[0] < 0.85 < right[1]


def test_differencing_finds_secrets_in_plain_averages_and_not_in_noisy_ones(seed):
    rng = np.random.default_rng(seed)
    rows = people(rng)
    plain = attacks.differencing_attack(naive(rows), rows, targets=100).details
    assert plain["right"] == plain["tried"] == 100
    noisy = attacks.differencing_attack(
        lambda question: question(rows).mean() + rng.normal(scale=0.05), rows, targets=100
    )
    # One answer about everyone is shared, so the guesses are not independent; luck has half.
    assert noisy.details["right"] < 85


def test_a_fingerprint_finds_members_of_averages_of_few_rows(rng):
    rows, fresh = fair_signs(rng, 50, 1200), fair_signs(rng, 50, 1200)
    told = attacks.fingerprint_attack(naive(rows), columns=1200, inside=rows, outside=fresh)
    assert told.details["advantage"] > 0.8
    blind = attacks.fingerprint_attack(
        lambda question: rng.random(), columns=1200, inside=rows, outside=fresh
    )
    assert abs(blind.details["advantage"]) < 0.6


STAY = 0.9


@pytest.mark.parametrize(("aware", "broken"), [(True, False), (False, True)])
def test_a_chain_breaks_intervals_for_independent_rows_only(aware, broken, seed):
    tail = MarkovChain(STAY * np.eye(32) + (1 - STAY) / 32, 10_000).mean_tail(0, 1) if aware else None

    def attack(rng):
        states = sticky_states(rng, 10_000, bits=5, stay=STAY)
        return attacks.chain_attack(CodeAnswerer(states, tail=tail), bits=5, rows=526)

    assert coverage(attack, list, 60, seed=seed).refuted is broken


def test_sticky_states_are_the_stated_chain(rng):
    states = sticky_states(rng, 200_000, bits=3, stay=0.7)
    assert np.bincount(states, minlength=8) / 200_000 == pytest.approx(np.full(8, 1 / 8), abs=0.01)
    assert (states[1:] == states[:-1]).mean() == pytest.approx(0.7 + 0.3 / 8, abs=0.01)


@pytest.mark.parametrize(
    ("strategy", "terms"),
    [
        ("code", {}),
        ("agreed-code", {"queries": 13, "surprises": 6}),
        *(
            (name, {"queries": 13})
            for name in ("grid-code", "typical-gaussian", "typical-laplace", "transfer-gaussian", "split")
        ),
    ],
)
def test_every_strategy_can_be_attacked_and_holds(strategy, terms, seed):
    rng = np.random.default_rng(seed)
    rows = fair_signs(rng, 900, 13)
    guard = Guard({f"column {j:02d}": rows[:, j] for j in range(13)}, strategy=strategy, **terms)
    attack = attacks.vote_attack(through(guard), columns=12)
    assert len(attack.answers) == 13
    assert attack.missed == 0


@pytest.mark.parametrize("name", WORLDS)
def test_conditions_say_what_values_say(name, rng):
    draw, attack = WORLDS[name]
    rows = draw(rng)
    guard = Guard({f"c {j:03d}": rows[:, j] for j in range(rows.shape[1])}, training_share=0)
    asked = []

    def answer(question):
        asked.append(question)
        return float(question(rows).mean())

    attack(answer, rows, rng)
    for question in (asked[0], asked[1], asked[-1]):
        told = through(guard)(replace(question, guess=0.5))
        assert told.low <= question(rows).mean() <= told.high
        cell = told.certificate.numbers["cell"]
        assert abs(told.value - question(rows).mean()) <= cell / 2 + 1e-9


def test_a_guard_answers_what_has_no_condition(rng):
    guard = Guard({"x": rng.random(500)}, training_share=0)
    told = through(guard)(AttackQuestion(lambda rows: rows[:, 0], 0.5, 0.5))
    assert told.low <= 0.5 <= told.high


def test_a_refusal_ends_the_attack(rng):
    rows = fair_signs(rng, 100, 11)
    told = []

    def tired(question):
        if len(told) == 4:
            raise BudgetSpent("that was all")
        told.append(question)
        return 0.5

    attack = attacks.vote_attack(tired, columns=10)
    assert (attack.refused, len(attack.answers)) == ("that was all", 4)
    assert math.isnan(attack.gain)
    assert "refused" in repr(attack)
    assert naive(rows)(told[0]) == (rows[:, 0] == rows[:, -1]).mean()


def test_arguments_are_checked(rng):
    rows = fair_signs(rng, 20, 5)
    answer = naive(rows)
    for argument, call in (
        ("columns", lambda: attacks.vote_attack(answer, columns=0)),
        ("repeats", lambda: attacks.averaging_attack(answer, columns=4, repeats=math.nan)),
        ("train", lambda: attacks.linear_classifier_attack(answer, rows[:, :1], kept=1)),
        ("train", lambda: attacks.linear_classifier_attack(answer, rows * 2, kept=1)),
        ("rows", lambda: attacks.differencing_attack(answer, rows, targets=1)),
        ("inside", lambda: attacks.fingerprint_attack(answer, columns=6, inside=rows, outside=rows)),
        ("bits", lambda: attacks.chain_attack(answer, bits=13)),
        (
            "rule",
            lambda: attacks.ladder_boosting_attack(lambda _: 0.5, rows=5, rounds=5, rng=rng, rule="best"),
        ),
        ("question", lambda: CodeAnswerer(rows)(AttackQuestion(lambda rows: np.full(len(rows), 0.5), 0.5))),
    ):
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert refused.value.argument == argument
