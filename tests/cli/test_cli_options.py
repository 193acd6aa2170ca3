"""What all commands share: help, data, and words about whatever was wrong with what was typed."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from holdfast.cli import cli


def commands(group=cli, path=()):
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("command", [*commands()], ids=" ".join)
def test_every_command_has_help_and_data(holdfast, command):
    status, out, err = holdfast(*command, "--help")
    assert (status, err) == (0, "")
    assert "--json" in out


def test_the_tools_of_agents_as_data(holdfast):
    pytest.importorskip("mcp")
    status, out, _ = holdfast("mcp", "http://127.0.0.1:9", "--token", "hf_secret", "--json")
    assert status == 0
    assert {"preview", "ask", "left"} <= {tool["name"] for tool in json.loads(out)["tools"]}
    assert "hf_secret" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask", "people.csv", "-q", "share(age > 40)", "--confidence", "2"], "The --confidence option"),
        (["ask", "people.csv", "-q", "share(age > 40)", "--error", "nan"], "The --error option"),
        (
            ["ask", "people.csv", "-q", "share(age > 40)", "--training-share", "2"],
            "The --training-share option",
        ),
        (
            ["replicate", "people.csv", "mean(age)", "--tape", "s", "--bounds", "1", "0"],
            "The --bounds option",
        ),
        (["replicate", "people.csv", "share(age > 40)", "--tape", ""], "The --tape option"),
        (["plan", "--queries", "5"], "The --rows option must be given, or --error, or both."),
        (["leak", "--queries", "1", "--digits", "-3", "--rows", "10"], "The --digits option"),
        (["explain", "replicable(0.1)", "--to", "dp"], "needs --epsilon and --delta (SIS"),
        (["explain", "dp(-1)", "--to", "replicable", "--rows", "9"], "The 'epsilon' argument of DP must be"),
        (["explain", "dp(-1)", "--to", "dp", "--epsilon", "1"], "The 'epsilon' argument of DP must be"),
        (["demo", "--rows", "-1"], "The --rows option must be a whole number"),
        (["figures", "--runs", "0"], "The --runs option must be a whole number"),
    ],
)
def test_the_option_that_was_typed_is_named(people, holdfast, arguments, words):
    status, out, err = holdfast(*arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())
    status, out, err = holdfast(*arguments, "--json")
    assert (status, err) == (2, "")
    assert words in json.loads(out)["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan"], "Missing option '--queries'"),
        (["plan", "--queries", "few"], "'few' is not a valid float"),
        (["ask", "people.csv", "--ledger", "here", "--no-ledger"], "contradict each other"),
        (["leak", "--columns", "3"], "No such option"),
        (["verify", "nowhere"], "'nowhere' does not exist"),
        (["guess"], "No such command 'guess'"),
    ],
)
def test_what_cannot_be_read_is_said_to_people_and_to_machines(people, holdfast, arguments, words):
    status, out, err = holdfast(*arguments)
    assert (status, out) == (2, "")
    assert words in err
    status, out, err = holdfast(*arguments, "--json")
    assert (status, err) == (2, "")
    assert words in json.loads(out)["message"]


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_picture_that_cannot_be_written(people, holdfast, extra):
    plan = ["plan", "--queries", "5", "--rows", "100", *extra, "--plot"]
    status, out, err = holdfast(*plan, "nowhere/plan.png")
    assert status == 2
    assert "nowhere/plan.png: No such file" in " ".join((out + err).split())
    status, out, err = holdfast(*plan, "plan.nothing")
    assert status == 2
    assert "Cannot draw into plan.nothing" in out + err


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_reader_that_leaves_early_sees_no_traceback(people, extra):
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from holdfast.cli import main; main()"),
            *("leak", "--queries", "10", "--digits", "3", "--rows", "1000"),
            *extra,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 1
