"""The requests about boards in the guide are sent as they stand there: curl lines, and the Python block."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from server_process import serving

from holdfast.client import Client
from holdfast.server import Service

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "service.md"
ADDRESS = "http://127.0.0.1:8344"


def block_with(words: str) -> str:
    """The one block of the guide's section on boards that contains these words."""
    section = (
        GUIDE.read_text(encoding="utf-8").partition("### From registration")[2].partition("## Agents")[0]
    )
    (block,) = (
        block for block in re.findall(r"^```\n(.*?)^```", section, flags=re.S | re.M) if words in block
    )
    return block


@pytest.fixture
def home(tmp_path):
    """A service's folder with labels, and tokens that no block has to ask for."""
    service = Service(tmp_path)
    frame = pd.DataFrame({"id": range(400), "y": [1] * 300 + [0] * 100})
    frame.to_csv(service.sources / "labels.csv", index=False)
    tokens = {
        "owner_token": service.tokens.issue("olga", role="owner")[0],
        "ann_token": service.tokens.issue("ann", role="participant", dataset="board:race")[0],
    }
    service.close()
    return tmp_path, tokens


def arguments(command: str) -> dict[str, object]:
    """What a line of curl sends."""
    sent: dict[str, object] = {"method": "GET", "headers": {}, "content": None}
    words = iter(shlex.split(command)[1:])
    for word in words:
        if word == "-X":
            sent["method"] = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            sent["headers"][name] = value
        elif word in ("-d", "--data-binary"):
            sent["content"] = next(words)
            sent["method"] = "POST" if sent["method"] == "GET" else sent["method"]
        else:
            sent["url"] = word
    return sent


def test_curl_takes_a_board_from_registration_to_the_final(home):
    import httpx

    folder, tokens = home
    names = {"$OWNER": tokens["owner_token"]}
    commands = [line for line in block_with("curl").replace("\\\n", " ").splitlines() if line]
    assert len(commands) == 8
    with serving(folder) as started:
        answers = []
        for command in commands:
            for name, value in names.items():
                command = command.replace(name, value)
            sent = arguments(command.replace(ADDRESS, started["url"]))
            if sent["content"] == "@predictions.csv":
                sent["content"] = pd.DataFrame({"id": answers[-1], "prediction": 1}).to_csv(index=False)
            answer = httpx.request(**sent, timeout=60)
            assert answer.status_code < 300, (command, answer.text)
            answers.append(answer.json())
            if "token" in answers[-1]:
                names["$ANN"] = answers[-1]["token"]
            if "steps" in answers[-1]:
                names["6f0c…"] = answers[-1]["key"]
    assert answers[-2]["finalists"] == [names["6f0c…"]]
    assert answers[-1]["final"][0]["key"] == names["6f0c…"]


def test_the_client_takes_a_board_from_registration_to_the_final(home, monkeypatch, capsys):
    folder, tokens = home
    monkeypatch.chdir(folder)
    with serving(folder) as started:
        space: dict[str, object] = {**tokens}
        exec(compile(block_with("Client(").replace(ADDRESS, started["url"]), "guide", "exec"), space)
        shown = capsys.readouterr().out
        assert shown.startswith("True ")
        organiser, ann = space["organiser"], space["ann"]
        assert isinstance(organiser, Client)
        assert isinstance(ann, Client)
        (score,) = organiser.final("race")
        assert score["key"] == space["result"]["key"]
        organiser.close()
        ann.close()
    assert (folder / "receipts.jsonl").exists()
