"""Whatever people do in whatever order, the service agrees with a model of it that fits on a page."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from server_caller import Caller
from starlette.testclient import TestClient

from holdfast.asking import Answering, Session
from holdfast.server import Policy, Service, Tokens, create_app

ROWS = 200
RATE = 3
SHARES = {"red/bob": 6.0, "blue": 9.0}
PEOPLE = {"ann": "red", "bob": "red", "cleo": "blue", "dora": "blue"}

names = st.sampled_from(["one", "two"])
people = st.sampled_from(sorted(PEOPLE))
limits = st.integers(1, 9)
guesses = st.sampled_from([0.02, 0.5, 0.97])
words = st.sampled_from(["x > 0.{0}", "not (x <= 0.{0})", "0.{0} < x"])
keys = st.sampled_from(["", "k1", "k2", "k3"])
questions = st.tuples(limits, guesses, words, keys)
submissions = st.tuples(st.sampled_from([0.5, 0.7, 0.9]), st.integers(0, 3))


class Model:
    """One epoch of a dataset: what was answered, what each paid, who asked how often, and whether it is
    over."""

    def __init__(self):
        self.answers = {}
        self.paid = dict.fromkeys(PEOPLE, 0.0)
        self.asked = dict.fromkeys(PEOPLE, 0)
        self.requests = {}
        self.closed = False

    def room(self, who):
        """What is left of the share that bounds a person."""
        mates = [name for name, team in PEOPLE.items() if team == PEOPLE[who]]
        own = SHARES.get(f"{PEOPLE[who]}/{who}", math.inf) - self.paid[who]
        return min(own, SHARES.get(PEOPLE[who], math.inf) - sum(self.paid[mate] for mate in mates))


class Team(RuleBasedStateMachine):
    """Four people in two teams, two datasets, one board."""

    # The rates that the service is asked to hold. The model always expects RATE.
    rate_of_datasets = RATE
    rate_of_boards = RATE

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        (self.home / "data").mkdir()
        rng = np.random.default_rng(5)
        table = pd.DataFrame({"x": rng.random(ROWS)})
        for name in ("one", "two"):  # A table is registered once: these differ in a column.
            table.assign(variant=name).to_parquet(self.home / "data" / f"{name}.parquet")
        self.labels = rng.integers(0, 2, ROWS)
        pd.DataFrame({"id": range(ROWS), "y": self.labels}).to_csv(self.home / "data" / "y.csv", index=False)
        self.models, self.board, self.revoked = {}, [], set()
        self.older = {}
        self.sent = {}
        self.submitted = dict.fromkeys(PEOPLE, 0)
        self.now = int(time.time())
        # The clock is the test's own, and checkpoints come often.
        self.patches = [
            mock.patch("time.time", self.time),
            mock.patch("holdfast.asking._session._CHECKPOINT_EVERY", 6),
        ]
        for patch in self.patches:
            patch.start()
        self.start()

    @initialize()
    def sign_in(self):
        self.tokens = {
            who: self.service.tokens.issue(who, role="analyst", team=team) for who, team in PEOPLE.items()
        }
        self.owner = self.service.tokens.issue("olga", role="owner")[0]
        self.service.boards.register(
            "race",
            "y.csv",
            {"target": "y", "start": 0.5, "sealed": 0.0, "rate": self.rate_of_boards},
            blind=False,
        )
        self.register("one")

    def start(self):
        self.service = Service(self.home)
        self.client = TestClient(create_app(self.service), raise_server_exceptions=False).__enter__()

    def stop(self):
        self.client.__exit__()
        self.service.close()

    def time(self):
        return self.now

    def caller(self, who):
        return Caller(self.client, self.owner if who == "olga" else self.tokens[who][0])

    @rule()
    def restart(self):
        self.stop()
        self.start()

    @rule()
    def a_minute_passes(self):
        self.now += 60
        for model in self.epochs().values():
            model.asked = dict.fromkeys(PEOPLE, 0)
        self.submitted = dict.fromkeys(PEOPLE, 0)

    @rule(name=names)
    def register(self, name):
        body = {"name": name, "source": f"{name}.parquet"}
        body["policy"] = {"rate": self.rate_of_datasets, "shares": SHARES, "training_share": 0.0}
        made = self.caller("olga")("POST", "/datasets", body)
        assert made.status_code == (422 if name in self.models else 201)
        self.models.setdefault(name, Model())

    def epochs(self):
        """Every epoch's model by its address; a dataset's name alone is the newest."""
        older = {
            f"{name}@{number}": model
            for name, models in self.older.items()
            for number, model in enumerate(models, start=1)
        }
        return {**self.models, **older}

    def asked_in(self, name, who, key):
        """The epoch that has seen a request, or the newest."""
        seen = (model for model in self.older.get(name, ()) if key and (who, key) in model.requests)
        return next(seen, self.models[name])

    @rule(name=names, who=people, asked=st.lists(questions, min_size=1, max_size=RATE + 1))
    def ask(self, name, who, asked):
        for question in asked:
            self.ask_one(name, who, *question)

    @rule(name=names, who=people)
    def ask_in_a_hurry(self, name, who):
        """One new question more than the rate allows, while there are so many."""
        known = self.models[name].answers if name in self.models else {}
        for limit in [limit for limit in range(1, 10) if limit not in known][: RATE + 1]:
            self.ask_one(name, who, limit, 1 - limit / 10, "x > 0.{0}", "")

    def ask_one(self, name, who, limit, guess, form, key):
        headers = {"Idempotency-Key": key} if key else {}
        question = f"share({form.format(limit)}, guess = {guess})"
        price = self.price(name, limit, guess)
        answer = self.caller(who).ask(question, name, **headers)
        status, said = answer.status_code, answer.json()
        if who in self.revoked:
            assert status == 401
            return
        if name not in self.models:
            assert status == 404
            return
        self.check(self.asked_in(name, who, key), who, limit, key, status, said, price)

    def check(self, model, who, limit, key, status, said, price):
        """Compare the reply to one question and its price with the model, and record the reply there."""
        if key and model.requests.get((who, key), limit) != limit:
            assert (status, said.get("asked")) == (422, 0)
        elif limit in model.answers:
            assert (status, said) == (200, model.answers[limit])
        elif model.closed:
            assert status == 409
        elif status == 403 or price > model.room(who) + 1e-5:
            # Refused ahead of reading, because it could cost more than is left; and only then.
            assert status == 403
            assert said["asked"] == pytest.approx(price, abs=1e-5)
            assert price > model.room(who) - 1e-5
            assert said["left"] == pytest.approx(max(0.0, model.room(who)), abs=1e-5)
        elif model.asked[who] >= RATE:
            assert status == 429
        else:
            assert status == 200
            model.answers[limit] = said
            model.paid[who] += said["cost"]
            model.asked[who] += 1
            if key:
                model.requests[who, key] = limit

    @rule(name=names, limit=limits, guess=guesses)
    def preview(self, name, limit, guess):
        self.price(name, limit, guess)

    def price(self, name, limit, guess):
        """The most that a question can cost, as everyone can know before."""
        body = {"query": f"share(x > 0.{limit}, guess = {guess})"}
        seen = self.caller("olga")("POST", f"/datasets/{name}/preview", body)
        assert seen.status_code == (200 if name in self.models else 404)
        if name not in self.models:
            return 0.0
        assert seen.json()["known"] == (limit in self.models[name].answers)
        return seen.json()["at_most"]

    @precondition(lambda self: self.models)
    @rule(name=names, sure=st.integers(0, 3))
    def close(self, name, sure):
        if sure or name not in self.models:  # Seldom, so that there is something to close.
            return
        assert self.caller("ann")("POST", f"/datasets/{name}/close").status_code in (401, 403)
        assert self.caller("olga")("POST", f"/datasets/{name}/close").json()["closed"]
        self.models[name].closed = True

    @rule(who=people, sure=st.integers(0, 5))
    def revoke(self, who, sure):
        if sure:
            return
        assert self.caller("olga")("DELETE", f"/tokens/{self.tokens[who][1].identity}").status_code == 204
        self.revoked.add(who)

    @rule(who=people, sent=st.lists(submissions, min_size=1, max_size=RATE + 1))
    def submit(self, who, sent):
        for right, seed in sent:
            self.submit_one(who, right, seed)

    def submit_one(self, who, right, seed):
        wrong = np.random.default_rng(seed).random(ROWS) >= right
        sent = pd.DataFrame({"id": range(ROWS), "prediction": np.where(wrong, 1 - self.labels, self.labels)})
        caller = self.caller(who)
        answer = caller.client.post(
            "/v1/boards/race/submissions",
            content=sent.to_csv(index=False),
            headers={**caller.headers, "Content-Type": "text/csv"},
        )
        if who in self.revoked:
            assert answer.status_code == 401
            return
        told, known = answer.json(), self.sent.get((right, seed, who))
        if known is not None:
            assert told == known
        elif self.submitted[who] >= RATE:
            assert answer.status_code == 429
        else:
            assert answer.status_code == 200, told
            assert told["by"] == f"{PEOPLE[who]}/{who}"
            first = next((self.sent[one] for one in self.sent if one[:2] == (right, seed)), None)
            if first is not None:  # The same predictions of somebody else: a submission of their own.
                assert told["key"] != first["key"]
                assert told["cost"] == 0
                assert all(told[name] == first[name] for name in ("value", "low", "high", "steps"))
            self.sent[right, seed, who] = told
            self.board.append(told)
            self.submitted[who] += 1

    @invariant()
    def the_account_is_the_sum_of_what_was_released(self):
        owner = self.caller("olga") if hasattr(self, "owner") else None
        for name, model in self.epochs().items():
            found = owner("GET", f"/datasets/{name}").json()
            paid = math.fsum(answer["cost"] for answer in model.answers.values())
            assert found["spent"] == pytest.approx(paid, abs=1e-6)
            assert found["closed"] == model.closed
            balance = self.service.datasets.get(name).guard._session.balance
            assert balance.open == {}
            for who, team in PEOPLE.items():
                assert balance.people.get(f"{team}/{who}", 0) == round(model.paid[who] * 1e6)
                assert model.room(who) > -1e-9

    @invariant()
    def history_is_what_people_got(self):
        for name, model in self.epochs().items():
            page = self.caller("olga")("GET", f"/datasets/{name}/history?limit=1000").json()["answers"]
            for answer in page:
                answer.pop("line")
            assert page == list(model.answers.values())

    @invariant()
    def the_standing_is_who_was_shown_to_be_better(self):
        if hasattr(self, "owner"):
            standing = self.caller("olga")("GET", "/boards/race").json()["standing"]
            better = sorted((entry for entry in self.board if entry["better"]), key=lambda e: -e["value"])
            assert [entry["key"] for entry in standing] == [entry["key"] for entry in better]

    def teardown(self):
        for name in self.epochs():
            assert self.caller("olga")("GET", f"/datasets/{name}/verify").json()["whole"]
        self.stop()
        for patch in self.patches:
            patch.stop()
        self.folder.cleanup()


class GrowingTeam(Team):
    """The same people, who also ask several questions at once, of tables that grow."""

    @precondition(lambda self: self.models)
    @rule(name=names, sure=st.integers(0, 2))
    def grow(self, name, sure):
        if sure:  # Seldom, so that an epoch is asked before the next one opens.
            return
        body = {"source": f"{name}{len(self.older.get(name, ())) + 2}.parquet"}
        rng = np.random.default_rng([7, len(body["source"]), len(self.older.get(name, ()))])
        pd.DataFrame({"x": rng.random(ROWS)}).to_parquet(self.home / "data" / body["source"])
        assert self.caller("ann")("POST", f"/datasets/{name}/epochs", body).status_code in (401, 403)
        made = self.caller("olga")("POST", f"/datasets/{name}/epochs", body)
        assert made.status_code == (201 if name in self.models else 404)
        if name in self.models:
            self.older.setdefault(name, []).append(self.models[name])
            self.models[name] = Model()

    @rule(name=names, who=people, asked=st.lists(questions, min_size=2, max_size=RATE + 2))
    def ask_together(self, name, who, asked):
        sent = [
            {"query": f"share({form.format(limit)}, guess = {guess})", "key": key}
            for limit, guess, form, key in asked
        ]
        answer = self.caller(who)("POST", f"/datasets/{name}/batches", {"questions": sent})
        if who in self.revoked or name not in self.models:
            assert answer.status_code == (401 if who in self.revoked else 404)
            return
        for (limit, _, _, key), outcome in zip(asked, answer.json()["outcomes"], strict=True):
            model = self.asked_in(name, who, key)
            if "answer" in outcome:
                self.check(model, who, limit, key, 200, outcome["answer"], price=0.0)
            else:
                problem = outcome["problem"]
                self.check(
                    model, who, limit, key, problem["status"], problem, price=problem.get("asked", 0.0)
                )


def run(examples, steps=25, team=Team, **options):
    run_state_machine_as_test(
        team,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )


def test_the_service_agrees_with_its_model():
    run(2)


def test_the_service_agrees_with_its_model_where_tables_grow():
    run(2, team=GrowingTeam)


@pytest.mark.slow
def test_the_service_agrees_with_its_model_for_long():
    run(150, steps=50)
    run(60, steps=50, team=GrowingTeam)


SABOTAGE = {
    "shares are not held": (Policy, "require_share", lambda *arguments: None),
    "rates are not held": (Team, "rate_of_datasets", 600),
    "rates of boards are not held": (Team, "rate_of_boards", 600),
    "a known question is read again": (Answering, "known", lambda *arguments: None),
    "a retry is not recognised": (Session, "requested", lambda *arguments: None),
    "revoked tokens go on": (Tokens, "revoke", lambda *arguments: True),
    "an account cannot be closed": (Session, "close_account", lambda *arguments: None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SABOTAGE)
def test_the_model_notices(name, monkeypatch):
    owner, method, twin = SABOTAGE[name]
    monkeypatch.setattr(owner, method, twin)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run(60, steps=40, phases=[Phase.generate], database=None)


def start_with_first_epochs(team):
    """Start a service that answers from the first epoch of a dataset, whichever is the newest."""
    Team.start(team)
    datasets = team.service.datasets
    newest = datasets.get
    datasets.get = lambda name: newest(name) if "@" in name else newest(name).epochs[0]
    datasets.at_hand = lambda name: None


SABOTAGE_WHERE_TABLES_GROW = {
    "the first epoch goes on": (GrowingTeam, "start", start_with_first_epochs),
    "shares are not held": SABOTAGE["shares are not held"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SABOTAGE_WHERE_TABLES_GROW)
def test_the_model_notices_where_tables_grow(name, monkeypatch):
    owner, method, twin = SABOTAGE_WHERE_TABLES_GROW[name]
    monkeypatch.setattr(owner, method, twin)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run(60, steps=40, team=GrowingTeam, phases=[Phase.generate], database=None)
