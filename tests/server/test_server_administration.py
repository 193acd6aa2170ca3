"""Owners change shares, rates, people and datasets while the service runs; each act is a line of a book."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pandas as pd
import psutil
import pytest
from server_caller import Caller
from starlette.testclient import TestClient

from holdfast.ledger import Balance, Book, BookError, export, verify
from holdfast.server import Service, back_up, create_app, restore


def acts(owner):
    return [line["act"] for line in owner("GET", "/administration").json()["acts"]]


def dataset_acts(service, name="people"):
    book = service.datasets.book_of(name)
    found = [event.body for event in book.events() if event.kind == "act" and "act" in event.body]
    book.close()
    return found


def another(service, **options):
    """Another process on the same folder, as far as this one can tell."""
    return Service(service.home, **options)


class Elsewhere:
    """Another service, with another key and the same tables among its sources."""

    def __init__(self, home, set_up, books=None):
        shutil.copytree(set_up / "data", home / "data")
        self.service = Service(home, books=books)
        self.client = TestClient(create_app(self.service), raise_server_exceptions=False)
        self.owner = Caller(self.client, self.service.tokens.issue("otto", role="owner")[0])
        self.key = self.service.key.public

    def take_in(self, content, sender, name=""):
        return self.client.post(
            f"/v1/imports?key={sender.replace('+', '%2B')}&name={name}",
            content=content,
            headers={**self.owner.headers, "Content-Type": "application/x-tar"},
        )


@pytest.fixture
def elsewhere(set_up, tmp_path_factory):
    found = Elsewhere(tmp_path_factory.mktemp("elsewhere") / "home", set_up)
    yield found
    found.service.close()


def test_shares_and_rates_change_for_the_next_question(owner, person, service):
    bob = person("analyst", "bob", team="red")
    assert bob.ask("share(age > 40, guess = 0.7)").status_code == 403  # It could cost more than 3 nats.
    before = owner("GET", "/datasets/people/terms").json()
    assert before == {"shares": {"red/bob": 3.0}, "rate": 600, "report": "owner"}
    raised = owner("PATCH", "/datasets/people/terms", {"shares": {"red/bob": 50.0}})
    assert raised.json()["shares"] == {"red/bob": 50.0}
    assert bob.ask("share(age > 40, guess = 0.7)").status_code == 200
    more = {"shares": {"red/bob": None, "red": 50.0}, "rate": 2, "report": "analyst"}
    changed = owner("PATCH", "/datasets/people/terms", more)
    assert changed.json() == {"shares": {"red": 50.0}, "rate": 2, "report": "analyst"}
    assert bob.ask("share(age > 41, guess = 0.7)").status_code == 200
    assert bob.ask("share(age > 42, guess = 0.7)").status_code == 429
    assert bob("GET", "/datasets/people").json()["may_report"]
    lines = [body for body in dataset_acts(service) if body["act"] == "change terms"]
    assert [line["terms"]["shares"] for line in lines] == [{"red/bob": 50.0}, {"red": 50.0}]
    assert {line["by"] for line in lines} == {"/owner"}
    assert acts(owner).count("change terms") == 2


def test_terms_hold_in_every_process_and_after_a_restart(owner, service):
    beside = another(service)
    assert beside.datasets.get("people").policy.rate == 600
    owner("PATCH", "/datasets/people/terms", {"rate": 7})
    assert beside.datasets.get("people").policy.rate == 7
    later = another(service)
    assert later.datasets.get("people").policy.rate == 7
    beside.close()
    later.close()


def test_terms_of_an_epoch_hold_for_those_after_it(owner, service):
    pd.DataFrame({"age": np.arange(3_000) % 70 + 18.5, "income": np.arange(3_000) * 7.0}).to_csv(
        service.sources / "more.csv", index=False
    )
    owner("PATCH", "/datasets/people/terms", {"rate": 7})
    assert owner("POST", "/datasets/people/epochs", {"source": "more.csv"}).status_code == 201
    assert owner("GET", "/datasets/people/terms").json()["rate"] == 7
    owner("PATCH", "/datasets/people/terms", {"rate": 8})
    rates = {"people@1": 7, "people@2": 8}
    later = another(service)
    for name, rate in rates.items():
        assert owner("GET", f"/datasets/{name}/terms").json()["rate"] == rate
        assert later.datasets.get(name).policy.rate == rate
    later.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"rate": 0},
        {"shares": {"red": -1.0}},
        {"report": "everybody"},
        {"confidence": 0.5},
        {"seconds": 1.0},
        {"shares": {"red": "many"}},
    ],
)
def test_what_cannot_be_changed_is_refused_without_a_line(owner, service, wrong):
    before = dataset_acts(service)
    refused = owner("PATCH", "/datasets/people/terms", wrong)
    assert refused.status_code == 422
    assert dataset_acts(service) == before
    assert acts(owner) == []


def test_people_change_and_keep_their_names(client, owner, person):
    given = owner("POST", "/tokens", {"name": "eve", "role": "analyst", "dataset": "people", "team": "red"})
    identity, eve = given.json()["identity"], Caller(client, given.json()["token"])
    assert eve("GET", "/datasets/people/ledger").status_code == 403
    changed = owner("PATCH", f"/tokens/{identity}", {"role": "auditor", "days": 1})
    assert changed.status_code == 200
    assert eve("GET", "/datasets/people/ledger").status_code == 200
    assert abs(eve("GET", "/me").json()["expires"] - time.time() - 86_400) < 60
    assert eve("GET", "/me").json()["team"] == "red"
    owner("PATCH", f"/tokens/{identity}", {"dataset": "other"})
    assert eve("GET", "/datasets/people").status_code == 404
    assert owner("DELETE", f"/tokens/{identity}").status_code == 204
    assert owner("PATCH", f"/tokens/{identity}", {"days": 10}).status_code == 404
    assert eve("GET", "/me").status_code == 401
    assert acts(owner) == ["issue token", "change token", "change token", "revoke token"]
    lines = owner("GET", "/administration").json()["acts"]
    assert all(given.json()["token"] not in str(line) for line in lines)
    assert {line["token"]["identity"] for line in lines} == {identity}


def test_an_owner_of_one_thing_widens_no_token(owner, person, service):
    lead = person("owner", "lead", dataset="dataset:people")
    own = lead("POST", "/tokens", {"name": "a", "role": "analyst", "dataset": "people"}).json()["identity"]
    foreign = service.tokens.issue("b", role="analyst", dataset="other")[1].identity
    assert lead("PATCH", f"/tokens/{own}", {"dataset": "*"}).status_code == 403
    assert lead("PATCH", f"/tokens/{own}", {"role": "owner", "dataset": "other"}).status_code == 403
    assert lead("PATCH", f"/tokens/{foreign}", {"days": 1}).status_code == 404
    assert lead("PATCH", f"/tokens/{own}", {}).status_code == 422
    assert service.tokens.find(own).dataset == "dataset:people"
    assert acts(owner) == ["issue token"]


def test_archived_datasets_are_not_served_and_come_back(owner, person, service):
    ann = person("analyst", "ann")
    answer = ann.ask("share(age > 40)").json()
    beside = another(service)
    assert beside.datasets.get("people").guard.rows
    assert owner("POST", "/datasets/people/archive").json() == {"name": "people", "state": "archived"}
    for refused in (ann.ask("share(age > 40)"), ann("GET", "/datasets/people")):
        assert refused.status_code == 409
        assert "unarchive people" in refused.json()["detail"]
    with pytest.raises(Exception, match="archived"):
        beside.datasets.get("people")
    assert [one["name"] for one in owner("GET", "/datasets").json()] == ["other"]
    assert [one["state"] for one in owner("GET", "/states").json()] == ["archived"]
    assert owner("GET", "/datasets/people/ledger").status_code == 200
    taken = owner("POST", "/datasets", {"name": "people", "source": "other.parquet"})
    assert taken.status_code == 422
    assert owner("POST", "/datasets/people/unarchive").json()["state"] == "served"
    again = ann.ask("share(age > 40)").json()
    assert again["value"] == answer["value"]
    assert beside.datasets.get("people").guard.rows
    assert owner("POST", "/datasets/people/unarchive").status_code == 409
    assert [line["act"] for line in dataset_acts(service)] == ["archive", "unarchive"]
    beside.close()


def test_what_an_archived_dataset_had_open_is_closed(owner, service):
    """Each time 20 MB, 25 threads and 2 files were kept: the owner of one dataset could end the service."""
    process, counts = psutil.Process(), []
    for _ in range(30):
        assert owner("POST", "/datasets/other/archive").status_code == 200
        assert owner("POST", "/datasets/other/unarchive").status_code == 200
        assert owner.ask("share(x > 0.5)", dataset="other").status_code == 200
        counts.append(process.num_fds())
    assert counts[-1] < counts[0] + 30, counts


def test_an_archived_dataset_needs_no_rows(owner, service):
    owner("POST", "/datasets/people/archive")
    (service.sources / "people.csv").unlink()
    again = another(service)
    assert again.datasets.names() == ["other"]
    again.close()
    assert owner("GET", "/datasets/people/ledger").status_code == 200


def test_deleting_needs_the_name_and_leaves_the_book_and_the_claim(client, owner, person, service, tmp_path):
    person("analyst", "ann").ask("share(age > 40)")
    assert owner("DELETE", "/datasets/people").status_code == 422
    assert owner("DELETE", "/datasets/people?confirm=other").status_code == 422
    assert acts(owner) == []
    gone = owner("DELETE", "/datasets/people?confirm=people")
    assert gone.json() == {"name": "people", "state": "deleted"}
    assert owner("GET", "/datasets/people").status_code == 410
    assert owner("POST", "/datasets/people/unarchive").status_code == 409
    assert owner("POST", "/datasets/people/archive").status_code == 410
    assert owner("DELETE", "/datasets/people?confirm=people").status_code == 410
    for name in ("people", "anew"):  # Neither the name nor the rows get a second account.
        refused = owner("POST", "/datasets", {"name": name, "source": "people.csv"})
        assert refused.status_code == 422, name
    exported = owner("GET", "/datasets/people/ledger")
    (tmp_path / "export").write_bytes(exported.content)
    checked = verify(tmp_path / "export", service.key.public)
    assert checked.whole
    assert b'"It was deleted."' in exported.content.replace(b'\\"', b'"')
    service.close()
    again = Service(service.home)
    assert again.datasets.names() == ["other"]
    again.close()


def test_states_and_terms_survive_backup_and_restore(owner, service, tmp_path_factory):
    owner("PATCH", "/datasets/other/terms", {"rate": 9})
    owner("POST", "/datasets/people/archive")
    folder = tmp_path_factory.mktemp("copy")
    back_up(service.home, folder / "backup")
    restore(folder / "backup", folder / "home")
    again = Service(folder / "home")
    assert again.datasets.names() == ["other"]
    assert again.datasets.get("other").policy.rate == 9
    assert [line["act"] for line in again.administration.lines()] == ["change terms", "archive"]
    again.close()


def test_registrations_and_epochs_are_acts(owner, service, rng):
    for number in range(2):
        rows = pd.DataFrame({"x": rng.random(500)})
        rows.to_parquet(service.sources / f"new-{number}.parquet")
    (service.sources / "v1.csv").write_text("task,score\n" + "\n".join(f"t{n},1" for n in range(30)))
    pd.DataFrame({"id": range(400), "y": rng.integers(0, 2, 400)}).to_csv(
        service.sources / "new.csv", index=False
    )
    assert owner("POST", "/datasets", {"name": "new", "source": "new-0.parquet"}).status_code == 201
    assert owner("POST", "/datasets", {"name": "again", "source": "new-0.parquet"}).status_code == 422
    assert owner("POST", "/datasets/new/epochs", {"source": "new-1.parquet"}).status_code == 201
    assert owner("POST", "/boards", {"name": "new", "source": "new.csv", "target": "y"}).status_code == 201
    assert owner("POST", "/gates", {"name": "new", "source": "v1.csv", "incumbent": "v1"}).status_code == 201
    assert owner("POST", "/gates", {"name": "new", "source": "v1.csv", "incumbent": "v1"}).status_code == 422
    lines = owner("GET", "/administration").json()["acts"]
    about = [
        (line["act"], next(line[kind] for kind in ("dataset", "board", "gate") if kind in line))
        for line in lines
    ]
    assert about == [("register", "new"), ("open epoch", "new@2"), ("register", "new"), ("register", "new")]
    assert {line["by"] for line in lines} == {"/owner"}


def test_ends_of_boards_and_gates_are_acts_once(owner, service, rng):
    (service.sources / "v1.csv").write_text("task,score\n" + "\n".join(f"t{n},1" for n in range(30)))
    labels = pd.DataFrame({"id": range(400), "y": rng.integers(0, 2, 400)})
    labels.to_csv(service.sources / "new.csv", index=False)
    asked = {"name": "new", "source": "new.csv", "target": "y", "sealed": 0.5, "blind": True}
    assert owner("POST", "/boards", asked).status_code == 201
    assert owner("POST", "/gates", {"name": "new", "source": "v1.csv", "incumbent": "v1"}).status_code == 201
    assert owner("POST", "/boards/new/final").status_code == 422  # It is blind.
    assert owner("POST", "/boards/new/unblind").status_code == 200
    assert owner("POST", "/boards/new/final").status_code == 422  # There is nothing to score.
    right = labels.rename(columns={"y": "prediction"}).to_csv(index=False)
    headers = {**owner.headers, "Content-Type": "text/csv"}
    sent = owner.client.post("/v1/boards/new/submissions", content=right, headers=headers)
    assert sent.status_code == 200, sent.text
    for _ in range(2):
        for path in ("/boards/new/unblind", "/boards/new/final", "/gates/new/report"):
            assert owner("POST", path).status_code == 200
    ends = [
        line["act"] for line in owner("GET", "/administration").json()["acts"] if line["act"] != "register"
    ]
    assert ends == ["end blind phase", "final", "close"]


def test_nothing_is_registered_without_its_line(owner, service, monkeypatch):
    def full(*_, **__):
        raise BookError("The disk is full.")

    pd.DataFrame({"x": range(500)}).to_parquet(service.sources / "new.parquet")
    monkeypatch.setattr(service.administration, "record", full)
    assert owner("POST", "/datasets", {"name": "new", "source": "new.parquet"}).status_code == 503
    assert "new" not in service.datasets.names()
    monkeypatch.undo()
    assert owner("POST", "/datasets", {"name": "new", "source": "new.parquet"}).status_code == 201


def test_an_act_on_a_book_that_cannot_be_used_leaves_no_line(owner, service):
    def away(name):
        raise BookError("The book is away.")

    with pytest.MonkeyPatch.context() as books:
        books.setattr(type(service.places), "book", lambda self, name, **_: away(name))
        assert owner("POST", "/datasets/other/archive").status_code == 503
    assert acts(owner) == []


def test_the_book_of_acts_is_whole_and_signed(owner, service, tmp_path):
    owner("POST", "/tokens", {"name": "eve", "role": "analyst"})
    owner("POST", "/datasets/other/close")
    (tmp_path / "export").write_bytes(owner("GET", "/administration/ledger").content)
    checked = verify(tmp_path / "export", service.key.public)
    assert (checked.whole, checked.lines, checked.spent) == (True, 3, 0.0)
    page = owner("GET", "/administration?limit=1").json()
    assert [line["act"] for line in page["acts"]] == ["issue token"]
    after = owner("GET", f"/administration?after={page['after']}").json()
    assert [line["act"] for line in after["acts"]] == ["close"]
    assert owner("GET", "/administration?after=1000").json() == {"acts": [], "after": 1000}


def moved(owner, to=None):
    return owner("POST", "/datasets/people/export", {} if to is None else {"to": to})


def test_a_copy_has_the_history_and_a_closed_account(owner, person, service, elsewhere):
    answer = person("analyst", "ann").ask("share(age > 40)").json()
    bundle = moved(owner)
    assert bundle.status_code == 200
    taken = elsewhere.take_in(bundle.content, service.key.public)
    assert taken.status_code == 201, taken.json()
    assert taken.json()["open"] is False
    assert elsewhere.owner("GET", "/datasets/people").json()["closed"]
    history = elsewhere.owner("GET", "/datasets/people/history").json()["answers"]
    assert [one["value"] for one in history] == [answer["value"]]
    assert elsewhere.owner.ask("share(age > 41)").status_code == 409
    assert person("analyst", "ann").ask("share(age > 41)").status_code == 200  # The original goes on.


def test_an_account_that_is_handed_over_continues_there_and_ends_here(owner, person, service, elsewhere):
    ann = person("analyst", "ann")
    answer = ann.ask("share(age > 40)").json()
    owner("PATCH", "/datasets/people/terms", {"rate": 11})
    spent = owner("GET", "/datasets/people").json()["spent"]
    bundle = moved(owner, elsewhere.key)
    assert ann.ask("share(age > 41)").status_code == 409
    assert owner("POST", "/datasets/people/unarchive").status_code == 409
    assert moved(owner, elsewhere.key).status_code == 200  # The file was lost on the way.
    assert moved(owner, service.key.public).status_code == 422
    taken = elsewhere.take_in(bundle.content, service.key.public)
    assert taken.status_code == 201, taken.json()
    there = elsewhere.owner("GET", "/datasets/people").json()
    assert (there["closed"], there["spent"]) == (False, pytest.approx(spent))
    assert elsewhere.owner("GET", "/datasets/people/terms").json()["rate"] == 11
    again = elsewhere.owner.ask("share(age > 40)").json()
    assert (again["value"], elsewhere.owner("GET", "/datasets/people").json()["spent"]) == (
        answer["value"],
        pytest.approx(spent),
    )
    assert elsewhere.owner.ask("share(age > 41)").status_code == 200
    verified = elsewhere.owner("GET", "/datasets/people/verify").json()
    assert verified["whole"], verified
    assert elsewhere.take_in(bundle.content, service.key.public).status_code == 422  # Once only.
    elsewhere.service.close()
    later = Service(elsewhere.service.home)
    assert not later.datasets.get("people").guard.closed
    later.close()


def test_a_bundle_is_for_one_service_and_for_its_own_rows(
    owner, service, elsewhere, set_up, tmp_path_factory
):
    third = Elsewhere(tmp_path_factory.mktemp("third") / "home", set_up)
    bundle = moved(owner, elsewhere.key).content
    wrong_service = third.take_in(bundle, service.key.public)
    assert (wrong_service.status_code, wrong_service.json()["title"]) == (409, "conflict")
    wrong_key = elsewhere.take_in(bundle, third.key)
    assert wrong_key.status_code == 422
    changed = bytearray(bundle)
    place = bundle.index(b'"policy"')
    changed[place + 1 : place + 7] = b"policz"
    assert elsewhere.take_in(bytes(changed), service.key.public).status_code == 422
    assert elsewhere.take_in(bundle[:5_000], service.key.public).status_code == 422
    rows = elsewhere.service.sources / "people.csv"
    content = rows.read_bytes()
    rows.unlink()
    missing = elsewhere.take_in(bundle, service.key.public)
    assert missing.status_code == 422
    assert "folder of sources" in missing.json()["detail"]
    rows.write_bytes(content.replace(b"\n3", b"\n4"))
    assert elsewhere.take_in(bundle, service.key.public).status_code in (422, 503)
    assert "people" not in elsewhere.service.datasets.names()
    rows.write_bytes(content)  # What the interrupted import placed is used.
    assert elsewhere.take_in(bundle, service.key.public).status_code == 201
    third.service.close()


def test_a_dataset_is_imported_under_another_name(owner, service, elsewhere):
    bundle = moved(owner).content
    assert elsewhere.take_in(bundle, service.key.public, "town").status_code == 201
    assert elsewhere.owner("GET", "/datasets/town").json()["closed"]
    assert elsewhere.take_in(bundle, service.key.public, "again").status_code == 422  # The same rows.


def test_a_dataset_moves_into_postgresql(owner, person, service, set_up, tmp_path, database):
    person("analyst", "ann").ask("share(age > 40)")
    there = Elsewhere(tmp_path / "there", set_up, books=database)
    bundle = moved(owner, there.key).content
    taken = there.take_in(bundle, service.key.public)
    assert taken.status_code == 201, taken.json()
    assert there.owner.ask("share(age > 41)").status_code == 200
    back = moved(there.owner)  # A copy of what is in the database.
    assert back.status_code == 200
    there.owner("POST", "/datasets/people/archive")
    beside = Service(tmp_path / "there", books=database)
    assert "people" not in beside.datasets.names()
    beside.close()
    there.service.close()


def test_a_book_is_handed_over_only_as_it_says(tmp_path):
    """The lines of a hand-over fit only where nothing is open, and only its own key takes the account up."""
    handed, taken = {"handed_over": "b"}, {"taken_over": "b"}
    reserve = {"micro_nats": 5}
    cases = {
        "taken by nobody's leave": [("act", taken)],
        "taken by another": [("act", handed), ("act", {"taken_over": "c"})],
        "asked meanwhile": [("act", handed), ("reserve", reserve)],
        "handed over twice": [("act", handed), ("act", handed)],
        "with a question open": [("reserve", reserve), ("act", handed)],
        "opened after it was closed": [("act", handed), ("close", {}), ("act", taken)],
    }
    for number, (name, lines) in enumerate(cases.items()):
        book, balance = Book(tmp_path / str(number)), Balance()
        book.append("open", {}, after=0)
        for after, (kind, body) in enumerate(lines, start=1):
            book.append(kind, body, after=after)
        *fitting, wrong = book.events()
        for event in fitting:
            balance.apply(event)
        with pytest.raises(BookError):
            balance.apply(wrong)
        export(book, tmp_path / f"{number}.jsonl")
        assert not verify(tmp_path / f"{number}.jsonl").whole, name
        book.close()
    balance = Balance()
    book = Book(tmp_path / "right")
    for after, (kind, body) in enumerate(
        [("open", {}), ("act", handed), ("act", taken), ("reserve", reserve)]
    ):
        balance.apply(book.append(kind, body, after=after))
        assert Balance(balance.to_dict()).to_dict() == balance.to_dict()
    assert not balance.closed
    book.close()


def test_acts_of_owners_do_not_count_as_questions(owner):
    """Lines of owners do not count for a rate."""
    for rate in (2, 3, 1):
        owner("PATCH", "/datasets/other/terms", {"rate": rate})
    assert owner.ask("share(x > 0.5, guess = 0.5)", dataset="other").status_code == 200
    assert owner.ask("share(x > 0.6, guess = 0.4)", dataset="other").status_code == 429
