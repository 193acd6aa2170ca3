"""Boards over HTTP: formats, what is told, blind phases, the final, and bad submissions."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from holdfast.engines import Rows
from holdfast.ledger import Receipt

ROWS = 1_000


@pytest.fixture
def labels(service):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"id": [f"row {i:04}" for i in range(ROWS)], "y": rng.integers(0, 2, ROWS)})
    frame.to_csv(service.sources / "labels.csv", index=False)
    return frame


@pytest.fixture
def board(labels, owner):
    """A board, and a function that makes predictions of which a share is right."""
    made = owner("POST", "/boards", {"name": "race", "source": "labels.csv", "target": "y", "start": 0.5})
    assert made.status_code == 201, made.text

    def predictions(right, seed=0):
        wrong = np.random.default_rng(seed).random(ROWS) >= right
        return pd.DataFrame({"id": labels["id"], "prediction": np.where(wrong, 1 - labels["y"], labels["y"])})

    return predictions


def parquet(frame):
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


FORMATS = {
    "text/csv": lambda frame: frame.to_csv(index=False).encode(),
    "application/vnd.apache.parquet": parquet,
    "application/json": lambda frame: json.dumps(frame.to_dict("list")).encode(),
}


def submit(caller, frame, kind="text/csv", name="race"):
    content = FORMATS[kind](frame) if isinstance(frame, pd.DataFrame) else frame
    headers = {**caller.headers, "Content-Type": kind}
    return caller.client.post(f"/v1/boards/{name}/submissions", content=content, headers=headers)


def test_a_submission_in_any_format_is_the_same_submission(board, person, owner):
    ann = person("participant", "ann", dataset="board:race")
    told = [submit(ann, board(0.7), kind) for kind in FORMATS]
    assert [answer.status_code for answer in told] == [200, 200, 200]
    assert told[0].json()["better"]
    assert told[0].json() == told[1].json() == told[2].json()
    key = owner("GET", "/key").json()["key"]
    assert Receipt(**told[0].json()["receipt"]).signed_by(key)


def test_the_standing_is_public_and_has_intervals(board, person):
    ann, bob = person("analyst", "ann", team="red"), person("analyst", "bob")
    submit(ann, board(0.65))
    assert not submit(bob, board(0.6, seed=1)).json()["better"]
    submit(bob, board(0.9, seed=2))
    standing = person("auditor", dataset="board:race")("GET", "/boards/race").json()["standing"]
    assert [entry["by"] for entry in standing] == ["/bob", "red/ann"]
    for entry, right in zip(standing, (0.9, 0.65), strict=True):
        assert entry["low"] < right < entry["high"]
    assert len(ann("GET", "/boards/race/ids").json()) == ROWS


def test_a_blind_board_says_nothing_until_it_is_opened(board, person, owner):
    terms = {"name": "blind", "source": "labels.csv", "target": "y", "start": 0.5, "blind": True}
    assert owner("POST", "/boards", terms).status_code == 201
    ann = person("analyst", "ann")
    told = submit(ann, board(0.8), name="blind").json()
    assert set(told) == {"key", "by", "blind"}
    before = ann("GET", "/boards/blind").json()
    assert before["blind"]
    assert before["standing"] == []
    assert "1 submissions wait" in before["words"]
    assert ann("POST", "/boards/blind/unblind").status_code == 403
    after = owner("POST", "/boards/blind/unblind").json()
    assert not after["blind"]
    assert after["standing"][0]["key"] == told["key"]


def test_the_final_names_who_submitted_what(board, person, owner, service):
    ann, bob, found = person("analyst", "ann"), person("analyst", "bob"), service.boards.get("race")
    frame = board(0.8)
    changed = frame["prediction"].to_numpy().copy()
    changed[found._sealed_mask] = 1 - changed[found._sealed_mask]
    keys = [submit(ann, frame).json()["key"], submit(bob, frame.assign(prediction=changed)).json()["key"]]
    final = owner("POST", "/boards/race/final").json()["final"]
    assert [(entry["by"], entry["key"]) for entry in final] == [("/ann", keys[0]), ("/bob", keys[1])]
    assert final[0]["low"] < 0.8 < final[0]["high"]
    assert final[1]["low"] < 0.2 < final[1]["high"]


def test_texts_are_for_labels_that_are_texts_in_every_format(board, service, owner, person):
    """And ids come in an order that says nothing about the labels."""
    ann = person("analyst", "ann")
    y = np.array(["NA", "007", "1.0", "null"])[np.arange(400) * 4 // 400]
    frame = pd.DataFrame({"id": [f"row {i * 7 % 400:03}" for i in range(400)], "y": y})
    frame.to_parquet(service.sources / "words.parquet")
    terms = {"name": "words", "source": "words.parquet", "target": "y", "start": 0.2}
    assert owner("POST", "/boards", terms).status_code == 201
    assert ann("GET", "/boards/words/ids").json() == sorted(frame["id"])
    sent = frame.rename(columns={"y": "prediction"})
    told = [submit(ann, sent, kind, name="words").json() for kind in FORMATS]
    assert told[0]["better"]
    assert told[0] == told[1] == told[2]
    for kind in FORMATS:
        refused = submit(ann, board(0.7).assign(prediction="yes"), kind)
        assert refused.status_code == 422
        assert "has to be a number" in refused.json()["detail"]
    assert service.boards.get("race").spent == 0


def test_the_final_is_the_owners_and_happens_once(board, person, owner):
    ann = person("analyst", "ann")
    submit(ann, board(0.8))
    assert ann("POST", "/boards/race/final").status_code == 403
    final = owner("POST", "/boards/race/final").json()["final"]
    assert final[0]["low"] < 0.8 < final[0]["high"]
    assert owner("POST", "/boards/race/final").json()["final"] == final
    assert ann("GET", "/boards/race").json()["final"] == final
    assert submit(ann, board(0.95, seed=3)).status_code == 422


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text/csv", b"id,prediction\nrow 0001,1\n"),
        ("text/csv", b"\xff\xfe\x00"),
        ("application/json", b"{"),
        ("application/json", b'{"id": [1], "prediction": {"a": 1}}'),
        ("application/json", b"[]"),
        ("application/vnd.apache.parquet", b"PAR1"),
        ("application/x-pickle", b"cos\nsystem\n(S'true'\ntR."),
        ("", b""),
    ],
)
def test_what_is_no_submission_is_refused_and_costs_nothing(board, person, service, kind, content):
    refused = person("analyst", "ann").client.post(
        "/v1/boards/race/submissions",
        content=content,
        headers={**person("analyst", "bob").headers, "Content-Type": kind},
    )
    assert refused.status_code == 422, refused.text
    assert service.boards.get("race").spent == 0


def test_a_board_out_of_reach_is_not_there(board, person):
    stranger = person("analyst", "eve", dataset="other")
    assert stranger("GET", "/boards").json() == []
    assert stranger("GET", "/boards/race").status_code == 404
    assert submit(stranger, board(0.7)).status_code == 404
    assert submit(person("auditor"), board(0.7)).status_code == 403


def test_a_rate_bounds_new_submissions_of_each_person(labels, board, person, owner):
    terms = {"name": "calm", "source": "labels.csv", "target": "y", "start": 0.5, "rate": 2}
    assert owner("POST", "/boards", terms).status_code == 201
    ann, bob = person("analyst", "ann"), person("analyst", "bob")
    told = [submit(ann, board(0.6, seed), name="calm") for seed in range(3)]
    assert [answer.status_code for answer in told] == [200, 200, 429]
    assert told[2].json()["type"] == "urn:holdfast:too-many-questions"
    assert 0 < int(told[2].headers["Retry-After"]) <= 60
    assert submit(ann, board(0.6, 1), name="calm").json() == told[1].json()  # Known: free of the rate.
    assert (
        submit(bob, board(0.6, 3), name="calm").status_code == 200
    )  # Another person has a rate of their own.
    assert submit(ann, board(0.6, 2)).status_code == 200  # And so has another board.


def test_a_rate_bounds_submissions_to_a_blind_board(labels, board, person, owner, service):
    terms = {"name": "dark", "source": "labels.csv", "target": "y", "blind": True, "rate": 2}
    assert owner("POST", "/boards", terms).status_code == 201
    ann, bob = person("analyst", "ann"), person("analyst", "bob")
    assert [submit(ann, board(0.6, seed), name="dark").status_code for seed in range(3)] == [200, 200, 429]
    assert submit(bob, board(0.6, 2), name="dark").status_code == 200
    assert service.boards.waiting("dark") == 3
    assert (
        owner("POST", "/boards/dark/unblind").status_code == 200
    )  # What was kept is scored whatever the rate.
    assert service.boards.waiting("dark") == 0


def test_labels_that_take_too_long_are_not_waited_for_and_that_is_charged(
    labels, board, person, owner, service, monkeypatch
):
    terms = {"name": "slow", "source": "labels.csv", "target": "y", "seconds": 0.1}
    assert owner("POST", "/boards", terms).status_code == 201
    ann, found = person("analyst", "ann"), service.boards.get("slow")
    endless = "SELECT sum(a.range * b.range) AS y FROM range(1000000) a, range(1000000) b"
    with monkeypatch.context() as slowed:
        slowed.setattr(Rows, "frame", lambda rows, columns: rows._database.arrow(endless, None).to_pandas())
        refused = submit(ann, board(0.6), name="slow")
    assert refused.status_code == 422
    assert 0 < refused.json()["asked"] == pytest.approx(found.spent, abs=1e-6)
    assert "seconds" not in refused.text  # Why it failed may depend on the labels.
    assert submit(ann, board(0.6, 1), name="slow").status_code == 200


@pytest.mark.parametrize("bad", [{"rate": 0}, {"rate": 1.5}, {"seconds": 0}, {"seconds": 1e9}, {"rates": 3}])
def test_bad_limits_of_a_board_are_refused(labels, owner, bad):
    made = owner("POST", "/boards", {"name": "odd", "source": "labels.csv", "target": "y", **bad})
    assert made.status_code == 422


def test_a_board_from_before_there_were_limits_has_the_usual_ones(labels, board, person, service):
    service.boards._database.execute(
        "UPDATE boards SET terms = ? WHERE name = 'race'", (json.dumps({"target": "y", "start": 0.5}),)
    )
    service.boards._open.pop("race").close()
    assert submit(person("analyst", "ann"), board(0.6)).status_code == 200
    assert service.boards._rates["race"] == 600
