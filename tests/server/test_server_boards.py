"""Boards over HTTP: formats, results, blind phases, the final, and bad submissions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from server_caller import varied

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
    return frame.to_parquet(index=False)


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


def test_a_blind_board_says_nothing_until_it_is_opened(board, person, owner, service):
    terms = {
        "name": "blind",
        "source": varied(service, "labels.csv", "blind"),
        "target": "y",
        "start": 0.5,
        "blind": True,
    }
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
def test_a_file_that_is_not_a_submission_is_refused_and_costs_nothing(board, person, service, kind, content):
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


def test_a_rate_bounds_new_submissions_of_each_person(labels, board, person, owner, service):
    terms = {
        "name": "calm",
        "source": varied(service, "labels.csv", "calm"),
        "target": "y",
        "start": 0.5,
        "rate": 2,
    }
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
    terms = {
        "name": "dark",
        "source": varied(service, "labels.csv", "dark"),
        "target": "y",
        "blind": True,
        "rate": 2,
    }
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
    terms = {"name": "slow", "source": varied(service, "labels.csv", "slow"), "target": "y", "seconds": 0.1}
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


def own(caller, name="race"):
    answer = caller("GET", f"/boards/{name}/submissions")
    assert answer.status_code == 200, answer.text
    return answer.json()


def choose(caller, *keys, name="race"):
    return caller("PUT", f"/boards/{name}/finalists", {"submissions": list(keys)})


def test_people_see_the_results_of_their_own_submissions_and_of_no_others(board, person, owner):
    ann, bob = person("participant", "ann", dataset="board:race"), person("analyst", "bob")
    told = [submit(ann, board(0.7)).json(), submit(ann, board(0.5, seed=1)).json()]
    other = submit(bob, board(0.55, seed=2)).json()
    assert [entry["better"] for entry in told] == [True, False]
    mine = [{**entry, "finalist": False} for entry in told]
    assert own(ann) == mine
    assert set(mine[1]) >= {"better", "steps", "value", "low", "high", "cost", "confidence", "receipt"}
    assert own(bob) == [{**other, "finalist": False}]
    assert own(person("participant", "eve")) == []
    everything = [*mine, {**other, "finalist": False}]
    assert own(owner) == own(person("auditor", dataset="board:race")) == everything
    assert owner("GET", "/boards/race/submissions?skip=1&limit=1").json() == everything[1:2]
    assert owner("GET", "/boards/race/submissions?limit=0").status_code == 422
    for entry in person("participant", "eve")("GET", "/boards/race").json()["standing"]:
        assert entry["key"] in {told[0]["key"]}  # What did not climb is in no standing.


def test_a_submission_that_waits_is_listed_without_a_score(labels, board, person, owner, service):
    terms = {
        "name": "blind",
        "source": varied(service, "labels.csv", "blind"),
        "target": "y",
        "start": 0.5,
        "blind": True,
    }
    assert owner("POST", "/boards", terms).status_code == 201
    ann, bob = person("participant", "ann"), person("participant", "bob")
    key = submit(ann, board(0.8), name="blind").json()["key"]
    assert own(ann, "blind") == [{"key": key, "by": "/ann", "blind": True, "finalist": False}]
    assert own(bob, "blind") == []
    assert choose(ann, key, name="blind").json() == {"finalists": [key], "most_finalists": 2}
    assert owner("POST", "/boards/blind/unblind").status_code == 200
    (entry,) = own(ann, "blind")
    assert (entry["key"], entry["better"], entry["finalist"]) == (key, True, True)


def test_people_choose_their_finalists_and_the_best_of_the_others_is_taken(board, person, owner, service):
    ann, bob, eve = (person("participant", name, dataset="board:race") for name in ("ann", "bob", "eve"))
    good, poor, middle = (
        submit(ann, board(right, seed)).json()["key"] for seed, right in enumerate((0.8, 0.4, 0.6))
    )
    best = submit(bob, board(0.99, 3)).json()["key"]
    assert not submit(eve, board(0.45, 4)).json()["better"]
    assert choose(ann, good, poor).json()["finalists"] == [good, poor]
    assert choose(ann, poor, middle).status_code == 200  # The last choice counts.
    assert [entry["finalist"] for entry in own(ann)] == [False, True, True]
    events = len(list(service.boards.get("race")._book.events()))
    assert choose(ann, poor, middle, poor).status_code == 200  # The same again is no new line.
    assert len(list(service.boards.get("race")._book.events())) == events
    final = owner("POST", "/boards/race/final").json()["final"]
    assert [(entry["by"], entry["key"]) for entry in final] == [
        ("/bob", best),
        ("/ann", middle),
        ("/ann", poor),
    ]
    for entry, right in zip(final, (0.99, 0.6, 0.4), strict=True):
        assert entry["low"] < right < entry["high"]
    late = choose(ann, good)
    assert late.status_code == 422
    assert "cannot be changed any more" in late.json()["detail"]
    assert owner("POST", "/boards/race/final").json()["final"] == final


def test_an_empty_choice_means_the_best(board, person, owner):
    ann = person("participant", "ann", dataset="board:race")
    poor, best = (submit(ann, board(right, 1)).json()["key"] for right in (0.6, 0.8))
    choose(ann, poor)
    assert choose(ann).json()["finalists"] == []
    final = owner("POST", "/boards/race/final").json()["final"]
    assert [entry["key"] for entry in final] == [best]


def test_a_bad_choice_of_finalists_is_refused_and_changes_nothing(labels, board, person, owner, service):
    ann, bob = person("participant", "ann"), person("participant", "bob")
    mine = [submit(ann, board(0.5 + seed / 10, seed)).json()["key"] for seed in range(3)]
    theirs = submit(bob, board(0.9, 5)).json()["key"]
    assert choose(ann, mine[0]).status_code == 200
    refusals = [choose(ann, key) for key in (theirs, "0" * 32, "../labels")]
    for refused, key in zip(refusals, (theirs, "0" * 32, "../labels"), strict=True):
        assert refused.status_code == 422
        assert refused.json()["detail"] == f"You have no submission {key!r} on this board."
    assert "at most 2 submissions" in choose(ann, *mine).json()["detail"]
    for body in ({"submissions": "all"}, {"submissions": [5]}, {}, {"submissions": [], "by": "/bob"}):
        assert ann("PUT", "/boards/race/finalists", body).status_code == 422
    assert [entry["finalist"] for entry in own(ann)] == [True, False, False]
    assert choose(person("auditor"), mine[0]).status_code == 403
    open_end = {
        "name": "endless",
        "source": varied(service, "labels.csv", "endless"),
        "target": "y",
        "sealed": 0.0,
    }
    assert owner("POST", "/boards", open_end).status_code == 201
    key = submit(ann, board(0.7), name="endless").json()["key"]
    assert "no sealed part" in choose(ann, key, name="endless").json()["detail"]


def test_the_owner_says_how_many_may_be_chosen_and_how_often(labels, board, person, owner, service):
    terms = {
        "name": "many",
        "source": varied(service, "labels.csv", "many"),
        "target": "y",
        "most_finalists": 3,
        "rate": 3,
    }
    made = owner("POST", "/boards", terms)
    assert (made.status_code, made.json()["most_finalists"]) == (201, 3)
    ann = person("participant", "ann")
    keys = [submit(ann, board(0.5, seed), name="many").json()["key"] for seed in range(3)]
    assert choose(ann, *keys, name="many").status_code == 200
    for _ in range(5):  # The same choice, and one that is refused, do not count.
        assert choose(ann, *keys, name="many").status_code == 200
        assert choose(ann, "0" * 32, name="many").status_code == 422
    changes = [choose(ann, key, name="many").status_code for key in keys]
    assert changes == [200, 200, 429]
    for bad in (0, 101, 1.5, "2"):
        assert owner("POST", "/boards", {**terms, "name": "odd", "most_finalists": bad}).status_code == 422


def test_equal_live_and_other_sealed_predictions_are_two_submissions(board, person, owner, service):
    """They get the same result, which is paid for once; each has its own key, place and final score."""
    ann, sealed = person("participant", "ann"), service.boards.get("race")._sealed_mask
    frame = board(0.8)
    changed = np.where(sealed, 1 - frame["prediction"], frame["prediction"])
    first, second = (submit(ann, sent).json() for sent in (frame, frame.assign(prediction=changed)))
    assert first["key"] != second["key"]
    told = ("value", "low", "high", "steps", "better")
    assert [first[name] for name in told] == [second[name] for name in told]
    assert first["cost"] > second["cost"] == 0
    assert [entry["key"] for entry in own(ann)] == [first["key"], second["key"]]
    standing = ann("GET", "/boards/race").json()["standing"]
    assert [entry["key"] for entry in standing] == [first["key"], second["key"]]
    assert choose(ann, first["key"], second["key"]).status_code == 200
    final = {entry["key"]: entry["value"] for entry in owner("POST", "/boards/race/final").json()["final"]}
    assert final[first["key"]] == pytest.approx(1 - final[second["key"]])


@pytest.mark.parametrize("kind", FORMATS)
def test_probabilities_are_refused_where_labels_are_whole_and_cost_nothing(board, person, service, kind):
    ann = person("participant", "ann", dataset="board:race")
    chances = board(0.7).assign(prediction=0.25)
    refused = submit(ann, chances, kind)
    assert refused.status_code == 422
    assert refused.json()["detail"] == (
        "This board scores accuracy: send labels (for example 0 or 1), not probabilities. The prediction for "
        "id 'row 0000' is 0.25."
    )
    assert service.boards.get("race").spent == 0
    assert own(ann) == []
    whole = board(0.7)
    assert submit(ann, whole.assign(prediction=whole["prediction"].astype(float)), kind).status_code == 200
