"""What the command line prints on terminals and into files that cannot write every character."""

from __future__ import annotations

import io
import json
import sys

import pytest

from holdfast.cli import main, print_data

COMMANDS = {
    "ask": ["ask", "people.csv", "-q", "share(age > 40)", "-q", "quantile(income, 0.5)"],
    "plan": ["plan", "--queries", "5", "--rows", "1000"],
    "explain": ["explain", "dp(0.01)", "--to", "replicable", "--rows", "1000"],
    "leak": ["leak", "--queries", "10", "--digits", "3", "--rows", "1000"],
}


@pytest.fixture
def terminal(monkeypatch):
    """Run the command line with output streams of an encoding: exit status, stdout, stderr."""

    def run(encoding, *arguments):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        for stream in streams:
            stream.flush()
        return left.value.code, *(stream.buffer.getvalue().decode(encoding) for stream in streams)

    return run


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_encoding_shows_the_whole_output(people, terminal, command, encoding):
    status, out, err = terminal(encoding, *COMMANDS[command])
    assert (status, err) == (0, "")
    if encoding != "utf-8":
        assert "?" not in out.replace("error can be promised?", "")
    whole = terminal("utf-8", *COMMANDS[command])[1]
    assert len(out.splitlines()) == len(whole.splitlines())


def test_what_was_paid_for_is_shown(people, terminal):
    _, out, _ = terminal("ascii", "ask", "people.csv", "-q", "share(age > 40)")
    assert "--=O==--" in out
    assert "- cost 1.39 nats" in out
    assert "nats used. A share asked now gets about +/-0.0" in out
    assert terminal("utf-8", "ask", "people.csv", "-q", "share(age > 40)")[1].count("asked before, free") == 1


def test_the_help_is_shown(terminal):
    assert "one-way, typical, ..." in " ".join(terminal("latin-1", "explain", "--help")[1].split())


def test_what_no_letter_stands_for_is_a_question_mark(people, terminal):
    status, _, err = terminal("ascii", "ask", "people.csv", "-q", 'share("ändert 年" > 0)')
    assert status == 2
    assert "andert ?" in err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_data_loses_no_character(people, terminal, encoding):
    people.rename(columns={"age": "年 älter"}).to_csv("people.csv", index=False)
    status, out, _ = terminal(encoding, "ask", "people.csv", "-q", 'share("年 älter" > 40)', "--json")
    assert status == 0
    assert "年 älter" in json.loads(out)["answers"][0]["query"]
    assert ("年" in out) == (encoding == "utf-8")
    status, out, _ = terminal(encoding, "ask", "people.csv", "-q", 'share("年" > 40)', "--json")
    assert status == 2
    assert "年" in json.loads(out)["message"]


def test_data_has_no_numbers_that_json_lacks(capsys):
    print_data({"high": float("inf"), "inside": [(float("nan"), 1.5)]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "high": None,
        "inside": [[None, 1.5]],
    }
