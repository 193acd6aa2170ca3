"""Records and errors travel in one form: what a service says becomes what a guard would have given."""

from __future__ import annotations

import json
import math

import httpx
import pytest

from holdfast import Guard
from holdfast.answers import Curve, Table
from holdfast.client import Client, error_of
from holdfast.errors import (
    BudgetSpent,
    DatabaseAway,
    HoldfastError,
    InvalidArgument,
    MissingExtra,
    NotEnoughRows,
    QueryRejected,
)
from holdfast.gates import GateReport, Verdict
from holdfast.guard import Answer, Certificate, Discovery, Epoch, Left, Preview, Report
from holdfast.ledger import BookError, Closed
from holdfast.registry import Dataset

# The keys of these are names of the data, and not names of fields.
MAPS = ("columns", "numbers", "reading")


def with_more(value):
    """The same with an entry that nobody knows at every level."""
    if isinstance(value, list):
        return [with_more(item) for item in value]
    if not isinstance(value, dict):
        return value
    inside = {key: item if key in MAPS else with_more(item) for key, item in value.items()}
    return {**inside, "news": {"of": ["a later version"]}}


class Later:
    """The connection of a client to a service of a later version, which says more everywhere."""

    def __init__(self, client, token):
        self._client, self._headers = client, {"Authorization": f"Bearer {token}"}

    def request(self, method, path, *, headers, **sent):
        sent = {name: value for name, value in sent.items() if value is not None}
        reply = self._client.request(method, f"/v1{path}", headers={**self._headers, **headers}, **sent)
        kind = reply.headers.get("content-type", "")
        if "json" in kind and "jsonl" not in kind:
            reply._content = json.dumps(with_more(reply.json())).encode()
        return reply

    def close(self):
        pass


@pytest.fixture
def later(service, client, tmp_path):
    """Makes clients of a service that says more than they know."""

    def later(role, dataset="people"):
        token = service.tokens.issue(role, role=role)[0]
        asked = Client("http://later", token, dataset=dataset, receipts=tmp_path / "receipts", tries=1)
        asked._http = Later(client, token)
        return asked

    return later


def test_entries_that_are_new_do_no_harm(later):
    owner = later("owner")
    answer = owner.share("age > 40", guess=0.7)
    assert isinstance(answer, Answer)
    assert answer.certificate.checked
    assert answer.receipt is not None
    assert owner.ask_all(["share(age > 50, guess = 0.5)", "share(age > 40, guess = 0.7)"])[1] == answer
    assert owner.cost_preview("share(age > 40)").known
    assert owner.history[0] == answer
    assert len(owner.cdf("income").points) > 10
    assert owner.histogram("income", 3).answers
    assert owner.discover("share(age > 40) > 0.1").rate == 0.05
    assert len(owner.discoveries) == 1
    assert owner.left.words
    assert owner.certificate.statement
    assert owner.epoch.number == len(owner.epochs) == 1
    assert {"age", "income"} == set(owner.schema)
    assert owner.board("people")["rows"]
    verdict = owner.gate_submit("people", {f"task {number}": 1 for number in range(100)}, "v1")
    assert verdict.promoted
    assert owner.gate_verdicts("people") == [verdict]
    assert owner.gate_report("people").versions
    report = owner.report(["share(age > 40)"])
    assert owner.reported == report
    assert report.answers[0].low <= answer.high


def test_a_closed_account_and_a_mistake_come_back_as_a_guard_raises_them(later):
    owner = later("owner")
    with pytest.raises(QueryRejected, match="no column") as mistake:
        owner.share("height > 3")
    assert mistake.value.asked == 0
    with pytest.raises(InvalidArgument) as wrong:
        owner.next_epoch("nowhere.csv", confidence=0.5, together=0.5)
    assert isinstance(wrong.value, ValueError)
    owner.close_account()
    with pytest.raises(Closed) as closed:
        owner.share("age > 40")
    assert "HTTP" not in str(closed.value)


ERRORS = [
    BudgetSpent("Nothing is left.", asked=0.5, spent=2.0, left=0.25, unit="answers"),
    QueryRejected("There is no column x.", asked=0.0),
    NotEnoughRows(1_000, 10, what="This mean"),
    InvalidArgument("rate", "at most 1", 2, of="discover"),
    MissingExtra("postgres", what="A book"),
    DatabaseAway("The database does not answer."),
    Closed("The account is closed."),
]


@pytest.fixture
def fail(service, monkeypatch):
    """Makes the service fail with an error: whatever it is asked about a dataset, and in each place of a
    batch."""

    def raised(error):
        raise error

    def broken(error):
        monkeypatch.setattr(service.datasets, "get", lambda name: raised(error))

    def broken_in_a_batch(error):
        monkeypatch.setattr(Dataset, "ask_all", lambda dataset, person, asked, **more: [error for _ in asked])

    return {"alone": broken, "in a batch": broken_in_a_batch}


ASKING = {
    "alone": lambda client: client.share("age > 40"),
    "in a batch": lambda client: client.ask_all(["share(age > 40)"]),
}


@pytest.mark.parametrize("place", ASKING)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_keeps_its_class_and_what_it_carries(error, place, later, fail):
    fail[place](error)
    with pytest.raises(HoldfastError) as raised:
        ASKING[place](later("owner"))
    back = raised.value
    assert (type(back), str(back)) == (type(error), str(error))
    for name in ("asked", "spent", "left", "unit", "needed", "what", "argument", "extra"):
        assert getattr(back, name, None) == getattr(error, name, None)
    assert type(back).from_dict(json.loads(json.dumps(error.to_dict()))).to_dict() == error.to_dict()


def problem(owner, place):
    """What the service says about a failed question, as it is sent."""
    if place == "alone":
        return owner.ask("share(age > 40)").json()
    reply = owner("POST", "/datasets/people/batches", {"questions": [{"query": "share(age > 40)"}]})
    return reply.json()["outcomes"][0]["problem"]


@pytest.mark.parametrize("place", ASKING)
def test_the_given_value_of_an_argument_is_no_field_of_a_reply(place, owner, fail):
    fail[place](InvalidArgument("source", "a file", "/srv/secret/place.csv"))
    sent = problem(owner, place)
    assert set(sent) == {"type", "title", "status", "detail", "argument", "error"}


@pytest.mark.parametrize("place", ASKING)
def test_an_account_book_that_fails_is_said_without_its_place(place, later, owner, fail):
    fail[place](BookError("/srv/books/people.holdfast is broken"))
    with pytest.raises(HoldfastError) as raised:
        ASKING[place](later("owner"))
    assert type(raised.value) is BookError
    assert "/srv" not in str(problem(owner, place))


def test_errors_of_the_service_itself_and_of_earlier_versions(later):
    with pytest.raises(HoldfastError, match=r"There is no dataset 'x'.* \(HTTP 404\)") as unknown:
        later("owner", dataset="x").describe()
    assert type(unknown.value) is HoldfastError

    def error(status, **problem):
        return error_of(httpx.Response(status, json=problem))

    earlier = error(403, type="urn:holdfast:budget-spent", detail="Spent.", left=0.0)
    assert type(earlier) is BudgetSpent
    assert earlier.unit == "nats"
    assert type(error(409, type="urn:holdfast:account-closed", detail="Closed.")) is Closed
    assert type(error(422, detail="body.query: too long")) is QueryRejected


@pytest.fixture(scope="module")
def guard():
    rows = {"x": [number % 7 for number in range(4_000)], "g": ["ab"[number % 2] for number in range(4_000)]}
    return Guard(rows, expect=20)


def records(guard):
    yield Answer, guard.share("x > 3")
    yield Preview, guard.cost_preview("share(x > 4)")
    yield Preview, guard.cost_preview("quantile(x, 0.5)")
    yield Certificate, guard.certificate
    yield Left, guard.left
    yield Curve, guard.cdf("x")
    yield Table, guard.table("share(x > 3, by = g)")
    yield Discovery, guard.discover("mean(x, 0, 6) > 1")
    yield Epoch, guard.epoch
    yield Report, guard.report(["share(x > 2)"])


def test_a_record_survives_the_way_through_json(guard):
    for kind, record in records(guard):
        values = json.loads(json.dumps(record.to_dict()))
        back = kind.from_dict(with_more(values))
        assert type(back) is kind
        assert json.loads(json.dumps(back.to_dict())) == values
        assert repr(back) == repr(record)


def test_verdicts_and_reports_of_a_gate_survive_too():
    verdict = Verdict(True, 0.1, 0.1, 0.5, "b", "a", 1, 3.0, text="Promoted.", assumed=("Tasks are drawn.",))
    assert Verdict.from_dict(with_more(json.loads(json.dumps(verdict.to_dict())))) == verdict
    report = GateReport(({"name": "a", "score": 0.5},), "One version.", ("Tasks are drawn.",))
    assert GateReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_the_brief_form_of_an_answer_can_be_read(guard):
    answer = guard.history[0]
    brief = Answer.from_dict(json.loads(json.dumps(answer.to_brief_dict())))
    assert (brief.value, brief.low, brief.high) == (answer.value, answer.low, answer.high)
    assert brief.certificate.statement == ""


def test_numbers_that_json_has_no_word_for(guard):
    values = {**guard.history[0].to_dict(), "guess": None, "low": None, "high": None}
    answer = Answer.from_dict(values)
    assert math.isnan(answer.guess)
    assert (answer.low, answer.high) == (-math.inf, math.inf)
    assert Answer.from_dict({**values, "query": "a verb(of later)"}).query == "a verb(of later)"
