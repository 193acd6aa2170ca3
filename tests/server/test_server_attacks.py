"""Attacks over HTTP. A naive service falls to each of them; this one holds.

Two kinds of attack are told apart. Who wants to know something *exact* about protected rows (averaging,
retry, differencing, error oracle) guesses a secret that has probability p at most beforehand. All that leaves
is priced by a prior over transcripts, so E[1[right] · e^{−cost}] ≤ p, whatever is asked: a secret can be
bought, and no secret comes for less than it says. Who wants an interval that *lies* (collusion, boosting)
makes the rows choose the last question; every interval must hold with the promised confidence.
"""

from __future__ import annotations

import math
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from server_caller import Caller
from server_naive import Naive
from starlette.testclient import TestClient

from holdfast import intervals
from holdfast.engines import Rows
from holdfast.server import Policy, Service, create_app

NATS = math.log(1000)  # every limit below is a two-sided one at 99.9 %
FEW_ROWS = 60


def limits(hits, trials):
    """The exact binomial interval of a share of trials."""
    return intervals.clopper_pearson(int(hits), trials, NATS)


def least_mean(values):
    """The lower limit of the mean of values in [0, 1], by relative entropy."""
    return intervals.kl(float(np.mean(values)), len(values), NATS).low


def most_likely(rows):
    """The probability of the likeliest number of heads among fair coins."""
    return math.comb(rows, rows // 2) / 2**rows


class Arena:
    """The same table behind both services."""

    def __init__(self, home):
        (home / "data").mkdir()
        self.service = Service(home)
        # Entered, so that all requests share one loop: one for each costs more than what is asked.
        self.client = TestClient(create_app(self.service), raise_server_exceptions=False).__enter__()

    def close(self):
        self.client.__exit__()
        self.service.close()

    def real(self, table, name="t", **terms):
        """Callers of the real service, who own their tokens and share the dataset's one account."""
        table.to_parquet(self.service.sources / f"{name}.parquet")
        policy = Policy(**{"training_share": 0.0, "rate": 10**6, **terms})
        self.service.datasets.register(name, f"{name}.parquet", policy)
        return [
            Caller(self.client, self.service.tokens.issue(who, role="analyst", team=who, dataset=name)[0])
            for who in ("ann", "bob")
        ]

    def board(self, table, name):
        table.to_parquet(self.service.sources / f"{name}.parquet")
        self.service.boards.register(
            name, f"{name}.parquet", {"target": "y", "start": 0.5, "sealed": 0.0}, blind=False
        )
        token, _ = self.service.tokens.issue("ann", role="participant", dataset=f"board:{name}")
        return Caller(self.client, token)

    def spent(self, name="t"):
        return self.service.datasets.get(name).guard.spent

    def releases(self, name="t"):
        return len(self.service.datasets.get(name).guard.history)


@contextmanager
def naive(table, **options):
    with TestClient(Naive(table, **options).app()) as client:
        yield Caller(client, None)


@pytest.fixture
def arena(tmp_path):
    arena = Arena(tmp_path)
    yield arena
    arena.close()


def coins(rng, rows, columns):
    table = pd.DataFrame(rng.integers(0, 2, (rows, columns)), columns=[f"c{i}" for i in range(columns)])
    return table.assign(id=range(rows))


def recovers_counts(caller, table, trials, ask, attempts=24):
    """How often an attacker who asks many times about a column gets its exact sum: 1[right] and cost."""
    right, costs = [], []
    for trial in range(trials):
        answers = [ask(caller, f"c{trial}", attempt).json() for attempt in range(attempts)]
        found = round(np.mean([answer["value"] for answer in answers]) * len(table))
        right.append(found == table[f"c{trial}"].sum())
        costs.append(answers[0].get("cost", 0.0))
        if "cost" in answers[0]:
            assert all(answer == answers[0] for answer in answers)
    return np.array(right), np.array(costs)


def falls_and_holds(fallen, right, costs, chance):
    """The naive service gives the secret away free of charge; the real one charges at least its worth."""
    assert limits(fallen.sum(), len(fallen)).low > chance
    assert least_mean(right * np.exp(-costs)) <= chance
    assert limits(right.sum(), len(right)).high < limits(fallen.sum(), len(fallen)).low


WORDS = ["{0} = 1", "not ({0} <> 1)", "1 = {0}", "{0} in (1)", "{0} = 1.0", "{0} = 1 and true"]


def test_averaging_the_same_question_in_other_words(arena, rng, seed):
    trials, table = 25, coins(rng, FEW_ROWS, 25)

    def ask(caller, column, attempt):
        return caller.ask(f"share({WORDS[attempt % len(WORDS)].format(column)}, guess = 0.5)", "t")

    with naive(table, noise=0.01, seed=seed) as twin:
        fallen, _ = recovers_counts(twin, table, trials, ask, attempts=12)
    right, costs = recovers_counts(arena.real(table)[0], table, trials, ask, attempts=12)
    falls_and_holds(fallen, right, costs, most_likely(FEW_ROWS))
    assert arena.releases() == trials
    assert arena.spent() == pytest.approx(costs.sum(), abs=1e-5)


def test_retrying_with_other_guesses(arena, rng):
    """A grid that moves with the guess of each request reveals the exact value."""
    trials, table, cell = 25, coins(rng, FEW_ROWS, 25), 0.2

    def ask(caller, column, attempt):
        guess = 0.5 + (attempt / 24 - 0.5) * cell
        key = {"Idempotency-Key": f"{column} {attempt // 2}"}
        return caller.ask(f"share({column} = 1, guess = {guess!r})", "t", **key)

    with naive(table, cell=cell) as twin:
        fallen, _ = recovers_counts(twin, table, trials, ask)
    right, costs = recovers_counts(arena.real(table)[0], table, trials, ask)
    falls_and_holds(fallen, right, costs, most_likely(FEW_ROWS))
    assert arena.releases() == trials
    assert arena.spent() == pytest.approx(costs.sum(), abs=1e-5)


def test_differencing_two_questions_that_differ_by_one_row(arena, rng):
    trials, table = 100, coins(rng, FEW_ROWS, 100)

    def attack(caller):
        right, costs = [], []
        for trial in range(trials):
            with_him, without_him = (
                caller.ask(f"share(c{trial} = 1{but}, guess = 0.5)", "t").json()
                for but in ("", " and id <> 0")
            )
            right.append((with_him["value"] > without_him["value"]) == (table[f"c{trial}"][0] == 1))
            costs.append(with_him.get("cost", 0.0) + without_him.get("cost", 0.0))
        return np.array(right), np.array(costs)

    with naive(table) as twin:
        fallen, _ = attack(twin)
    assert fallen.all()
    falls_and_holds(fallen, *attack(arena.real(table)[0]), 0.5)


MISTAKES = [
    "cast(case when {0} then 'x' else '1' end as double) = 1",
    "cast(1 / (case when {0} then 0 else 1 end) as int) = 1",
    "cast(exp(case when {0} then 1e4 else 0 end) as int) = 1",
]
MORE_MISTAKES = [
    "1 / (case when {0} then 0 else 1 end) = 1",
    "1 % (case when {0} then 0 else 2 end) = 1",
    "sqrt(case when {0} then -1 else 1 end) = 1",
    "ln(case when {0} then 0 else 1 end) = 0",
    "exp(case when {0} then 1e4 else 0 end) = 1",
    "power(case when {0} then 1e300 else 1 end, 9) = 1",
    "power(case when {0} then -1 else 1 end, 0.5) = 1",
    "(case when {0} then 1e308 else 0.1 end) * 10 = 1",
]


def oracle(caller, table, trials, mistakes):
    """Guess the bit of the first row of each column by whether a question about it fails."""
    right, costs = [], []
    for trial in range(trials):
        secret = f"id = 0 and c{trial} = 1"
        condition = mistakes[trial % len(mistakes)].format(secret)
        answer = caller.ask(f"share({condition}, nulls = false, guess = 1)", "t")
        right.append((answer.status_code != 200) == (table[f"c{trial}"][0] == 1))
        costs.append(answer.json().get("cost", answer.json().get("asked", 0.0)))
    return np.array(right), np.array(costs)


def test_errors_that_only_some_rows_cause(arena, rng):
    trials, table = 99, coins(rng, FEW_ROWS, 99)
    with naive(table) as twin:
        fallen, _ = oracle(twin, table, trials, MISTAKES)
    assert fallen.all()
    ann = arena.real(table)[0]
    right, costs = oracle(ann, table, trials, MISTAKES + MORE_MISTAKES)
    falls_and_holds(fallen, right, costs, 0.5)
    # Casts to whole numbers are refused free of charge, before rows are read. All else has a value for every
    # row, so that neither a status nor a price reveals who the row was.
    refused = costs == 0
    assert set(np.flatnonzero(refused) % len(MISTAKES + MORE_MISTAKES)) == {1, 2}
    history = arena.service.datasets.get("t").guard.history
    assert len(history) == (~refused).sum()
    assert all(answer.confirmed for answer in history)


def test_a_failure_that_does_happen_is_paid_for_and_not_described(arena, rng, monkeypatch, caplog):
    trials, table = 40, coins(rng, FEW_ROWS, 40)
    ann = arena.real(table)[0]
    original = Rows.sums

    def sums(rows, question, **options):
        column = next(iter(question.reads - {"id"}))
        if table[column][0] == 1:
            raise RuntimeError(f"row 0 of {column} holds 1")
        return original(rows, question, **options)

    monkeypatch.setattr(Rows, "sums", sums)
    right, costs = oracle(ann, table, trials, ["{0}"])
    assert right.all()
    assert least_mean(np.exp(-costs)) <= 0.5
    assert arena.releases() == (table.iloc[0, :trials] == 0).sum()
    assert arena.spent() == pytest.approx(costs.sum(), abs=1e-5)
    failed = next(column for column in table if table[column][0] == 1)
    refused = ann.ask(f"share(id = 0 and {failed} = 1, nulls = false, guess = 1)", "t")
    assert refused.status_code == 422
    assert "holds" not in refused.text + caplog.text


def added(terms):
    """A sum that nests only as deep as the logarithm of its length."""
    if len(terms) <= 2:
        return " + ".join(terms) or "0"
    return f"({added(terms[: len(terms) // 2])}) + ({added(terms[len(terms) // 2 :])})"


def majority(columns, signs):
    agreeing = [column for column, sign in zip(columns, signs, strict=True) if sign > 0]
    opposing = [column for column, sign in zip(columns, signs, strict=True) if sign < 0]
    threshold = (len(agreeing) - len(opposing)) / 2
    return f"(({added(agreeing)}) - ({added(opposing)}) > {threshold!r}) = (y = 1)"


def overfit_together(callers, columns):
    """The sign attack, with its questions divided among several people who pool their answers.

    Returns every answer.
    """
    answers = []
    for number, column in enumerate(columns):
        caller = callers[number % len(callers)]
        answers.append(caller.ask(f"share({column} = y, guess = 0.5)", "t").json())
    signs = [1 if answer["value"] >= 0.5 else -1 for answer in answers]
    rule = majority(columns, signs)
    answers.append(callers[0].ask(f"share({rule}, guess = 0.6)", "t").json())
    return answers


def lies(answers, truth=0.5):
    return any(not answer["low"] <= truth <= answer["high"] for answer in answers)


def collude(tmp_path, rng, trials, columns=101, rows=300):
    """How often the last interval of the naive service misses ½, and any interval of the real one."""
    fallen = held = 0
    for trial in range(trials):
        table = coins(rng, rows, columns).drop(columns="id").assign(y=rng.integers(0, 2, rows))
        names = [f"c{i}" for i in range(columns)]
        with naive(table) as twin:
            fallen += lies(overfit_together([twin, twin], names)[-1:])
        (tmp_path / str(trial)).mkdir()
        arena = Arena(tmp_path / str(trial))
        answers = overfit_together(arena.real(table), names)
        held += lies(answers)
        # One account: the last interval pays for the answers of both.
        paid = math.fsum(answer["cost"] for answer in answers)
        before = answers[-1]["certificate"]["numbers"]["nats spent before"]
        assert before == pytest.approx(paid - answers[-1]["cost"], abs=1e-4)
        people = arena.service.datasets.get("t").guard._session.balance.people
        assert math.fsum(people.values()) / 1e6 == pytest.approx(paid, abs=1e-4)
        assert set(people) == {"ann/ann", "bob/bob"}
        arena.close()
    return fallen, held


def test_colluding_people_pay_from_one_account(tmp_path, rng):
    fallen, held = collude(tmp_path, rng, trials=3, columns=75, rows=150)
    assert limits(fallen, 3).low > 0.05
    assert limits(held, 3).low <= 0.05


@pytest.mark.slow
def test_collusion_many_times(tmp_path, rng):
    fallen, held = collude(tmp_path, rng, trials=100)
    assert limits(fallen, 100).low > 0.5
    assert limits(held, 100).high < limits(fallen, 100).low
    assert limits(held, 100).low <= 0.05


def submit(caller, predictions, name):
    table = pd.DataFrame({"id": range(len(predictions)), "prediction": predictions})
    return caller.client.post(
        f"/v1/boards/{name}/submissions",
        content=table.to_csv(index=False),
        headers={**caller.headers, "Content-Type": "text/csv"},
    ).json()


def boost(caller, name, rng, rows, tries):
    """The boosting attack of Blum and Hardt; returns all replies.

    Submit coins, keep those that did better than even (or that the board called better), and submit their
    majority.
    """
    told, votes = [], np.zeros(rows)
    for _ in range(tries):
        guess = rng.integers(0, 2, rows)
        told.append(submit(caller, guess, name))
        better = told[-1]["better"] if "better" in told[-1] else told[-1]["value"] >= 0.5
        votes += (2 * guess - 1) * (1 if better else -1)
    told.append(submit(caller, (votes > 0).astype(int), name))
    return told


def boosted(arena, rng, trials, rows=200, tries=201):
    """As :func:`collude`, on boards."""
    fallen = held = 0
    for trial in range(trials):
        labels = pd.DataFrame({"id": range(rows), "y": rng.integers(0, 2, rows)})
        with naive(labels) as twin:
            fallen += lies(boost(twin, "b", rng, rows, tries)[-1:])
        caller = arena.board(labels, f"b{trial}")
        told = boost(caller, f"b{trial}", rng, rows, tries)
        held += any(entry["better"] for entry in told)  # No coin is better than the start or another coin.
        standing = caller("GET", f"/boards/b{trial}").json()["standing"]
        assert len(standing) == sum(entry["better"] for entry in told)
    return fallen, held


def test_boosting_on_a_board(arena, rng):
    fallen, held = boosted(arena, rng, trials=3, rows=130, tries=75)
    assert limits(fallen, 3).low > 0.05
    assert limits(held, 3).low <= 0.05


@pytest.mark.slow
def test_boosting_many_times(arena, rng):
    fallen, held = boosted(arena, rng, trials=60)
    assert limits(fallen, 60).low > 0.5
    assert limits(held, 60).high < limits(fallen, 60).low
    assert limits(held, 60).low <= 0.05
