"""``holdfast explain``: a table for people, data for machines, one way to fail."""

from __future__ import annotations

import json

import pytest

from holdfast.cli import main
from holdfast.stability import DP, convert


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as status:
        main(["explain", *arguments])
    captured = capsys.readouterr()
    return status.value.code, captured.out, captured.err


def test_the_headline_example(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, err = run(capsys, "dp(0.01, 1e-9)", "--to", "replicable", "--rows", "100000")
    assert status == 0
    assert err == ""
    for words in (
        "expected distance",
        "SIS Algorithm 2",
        "dp → replicable",
        "vacuous",
        "SIS Corollary 3.13",
    ):
        assert words in out


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_the_table_fits_any_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, _ = run(capsys, "dp(1e-5)", "--to", "replicable", "--rows", "1000", "--outcomes", "4")
    assert status == 0
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= int(columns)


def test_json_is_the_same_path(capsys):
    status, out, _ = run(capsys, "dp(1e-5)", "--to", "replicable", "--rows", "1e3", "--json")
    assert status == 0
    found = json.loads(out)
    assert found["result"] == {"notion": "Replicability", "rho": convert(DP(1e-5), "replicable", n=1000).rho}
    assert [step["target"] for step in found["steps"]] == ["replicable"]
    assert found["rows"] == 1000
    assert found["vacuous"] is False


def test_every_option_reaches_the_graph(capsys):
    status, out, _ = run(
        capsys,
        "replicable(0.01)",
        "--to",
        "dp",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--rows",
        "50",
        "--json",
    )
    assert status == 0
    assert json.loads(out)["result"] == {"notion": "DP", "epsilon": 1.0, "delta": 1e-6}
    status, out, _ = run(
        capsys,
        "dp(1e-4)",
        "--to",
        "max-information",
        "--rows",
        "100",
        "--beta",
        "0.01",
        "--method",
        "paper",
        "--json",
    )
    assert json.loads(out)["result"]["bits"] == DP(1e-4).max_information(100, 0.01, method="paper").bits
    status, out, _ = run(
        capsys, "dp(1e-4)", "--to", "pg", "--rows", "100", "--outcomes", "2", "--beta", "0.1", "--json"
    )
    assert json.loads(out)["result"]["epsilon"] == DP(1e-4).perfect_generalization(100, 0.1, 2).epsilon


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["dp(0.1)", "--to", "replicable"],
            "The --rows option must be given: the step dp → replicable needs --rows",
        ),
        (["dp(x)", "--to", "replicable"], "dp(epsilon, delta)"),
        (["dp(0.1)", "--to", "privacy"], "one of dp, bayesian-dp"),
        (["dp(0.1)", "--to", "replicable", "--rows", "nan"], "The --rows option must be a whole number"),
        (["dp(0.1)", "--to", "replicable", "--rows", "2.5"], "The --rows option must be a whole number"),
        (["dp(0.1)", "--to", "replicable", "--rows", "ten"], "--rows"),
        (["dp(0.1)"], "--to"),
        (["dp(0.1)", "--to", "replicable", "--rows", "10", "--method", "best"], "--method"),
    ],
)
def test_bad_input_leaves_with_status_two(capsys, arguments, words):
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert words in " ".join(err.split())


def test_bad_input_as_json(capsys):
    status, out, _ = run(capsys, "dp(0.1)", "--to", "replicable", "--json")
    assert status == 2
    found = json.loads(out)
    assert (found["error"], found["argument"]) == ("InvalidArgument", "--rows")


def test_help(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert "--rows" in out
