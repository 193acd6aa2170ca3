"""The gate on the command line: files in, verdicts out, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TASKS = 300
HARNESS = """
import sys
fixed, broken, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print("secret score", fixed)
print("secret score", broken, file=sys.stderr)
with open(place, "w") as file:
    file.write("task,score\\n")
    for task in range(300):
        solved = broken <= task < 210 + fixed
        file.write(f"{task},{int(solved)}\\n")
sys.exit(fixed % 256)
"""


def write_scores(path, *, fixed=0, broken=0, tasks=TASKS):
    """A version that solves 210 of 300 tasks, but for some that it fixes and some that it breaks."""
    lines = [f"{task},{int(broken <= task < 210 + fixed)}" for task in range(tasks)]
    path.write_text("task,score\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def gate(tmp_path, holdfast, monkeypatch):
    """An open gate, as the path of its file."""
    monkeypatch.chdir(tmp_path)
    place = str(tmp_path / "agent.gate")
    incumbent = write_scores(tmp_path / "incumbent.csv")
    status, _, errors = holdfast("gate", "open", place, incumbent, "--name", "v1")
    assert (status, errors) == (0, "")
    return place


@pytest.fixture
def harness(tmp_path):
    script = tmp_path / "harness.py"
    script.write_text(HARNESS, encoding="utf-8")
    return str(script)


def test_the_file_of_a_gate_is_for_its_owner_alone(gate, tmp_path, holdfast):
    holdfast("gate", "submit", gate, write_scores(tmp_path / "better.csv", fixed=30), "--name", "v2")
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.glob("agent.gate*")}
    assert modes["agent.gate"] == 0
    assert set(modes.values()) == {0}


def test_the_exit_status_is_the_verdict(gate, tmp_path, holdfast):
    better = write_scores(tmp_path / "better.csv", fixed=30)
    luck = write_scores(tmp_path / "luck.csv", fixed=33, broken=1)
    status, shown, _ = holdfast("gate", "submit", gate, better, "--name", "v2")
    assert status == 0
    assert "Promoted: 'v2' is better than 'v1' by more than 0.04" in shown
    assert "passed through the submitter's hands" in shown
    status, shown, _ = holdfast("gate", "submit", gate, luck, "--name", "v3")
    assert status == 1
    assert "Not shown" in shown


def test_a_verdict_for_machines_has_no_score(gate, tmp_path, holdfast):
    better = write_scores(tmp_path / "better.csv", fixed=30)
    status, shown, _ = holdfast("gate", "submit", gate, better, "--name", "v2", "--json")
    verdict = json.loads(shown)
    assert status == 0
    assert (verdict["promoted"], verdict["margin"], verdict["incumbent"]) == (True, 0.04, "v1")
    assert "scores" not in verdict


def test_the_same_name_repeats_its_verdict_and_costs_nothing(gate, tmp_path, holdfast):
    first = write_scores(tmp_path / "first.csv", fixed=30)
    other = write_scores(tmp_path / "other.csv", fixed=0)
    assert holdfast("gate", "submit", gate, first, "--name", "v2")[0] == 0
    before = json.loads(holdfast("gate", "status", gate, "--json")[1])
    status, shown, _ = holdfast("gate", "submit", gate, other, "--name", "v2")
    assert status == 0
    assert "earlier verdict on 'v2'. The new scores were not read" in shown
    assert json.loads(holdfast("gate", "status", gate, "--json")[1]) == before


def test_a_summary_is_appended_for_a_pull_request(gate, tmp_path, holdfast):
    summary = tmp_path / "summary.md"
    summary.write_text("# Checks\n", encoding="utf-8")
    better = write_scores(tmp_path / "better.csv", fixed=30)
    holdfast("gate", "submit", gate, better, "--name", "v2", "--summary", str(summary))
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# Checks\n### Promoted\n")
    assert "| better by at least | 0.04 |" in text


def test_a_harness_is_run_and_only_the_verdict_is_shown(gate, harness, tmp_path):
    # A process of its own: what the harness prints must not reach the terminal.
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "gate", "run", gate]
    command += ["--name", "v2", "--results", "report.csv", "--", sys.executable, harness, "30", "0"]
    done = subprocess.run([*command, "{results}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "secret score" not in done.stdout + done.stderr
    assert "Promoted: 'v2'" in done.stdout
    assert "passed through the submitter's hands" not in done.stdout
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["incumbent.csv"]


def test_the_log_of_a_harness_is_for_its_owner(gate, harness, tmp_path, holdfast):
    log = tmp_path / "harness.log"
    arguments = [
        "--log",
        str(log),
        "--results",
        "r.csv",
        "--",
        sys.executable,
        harness,
        "0",
        "0",
        "{results}",
    ]
    status, shown, _ = holdfast("gate", "run", gate, "--name", "v2", *arguments)
    assert status == 1
    assert "secret score" not in shown
    assert log.read_text(encoding="utf-8").count("secret score") == 2
    assert log.stat().st_mode & 0o077 == 0


def test_a_harness_that_writes_nothing_costs_nothing(gate, holdfast):
    before = json.loads(holdfast("gate", "status", gate, "--json")[1])
    status, _, errors = holdfast("gate", "run", gate, "--name", "v2", "--", sys.executable, "-c", "pass")
    assert status == 2
    assert "wrote nothing to {results}" in errors
    status, _, errors = holdfast("gate", "run", gate, "--name", "v2", "--", "no-such-harness")
    assert status == 2
    assert "Cannot run 'no-such-harness'" in errors
    status, _, errors = holdfast("gate", "run", gate, "--", sys.executable, "-c", "pass")
    assert status == 2
    assert "--name is needed" in errors
    assert json.loads(holdfast("gate", "status", gate, "--json")[1]) == before


def test_bad_results_are_refused_and_cost_nothing(gate, tmp_path, holdfast):
    before = json.loads(holdfast("gate", "status", gate, "--json")[1])
    few = write_scores(tmp_path / "few.csv", tasks=299)
    many = write_scores(tmp_path / "many.csv", tasks=301)
    for path, words in ((few, "1 of 300 tasks are missing"), (many, "1 task that this gate does not know")):
        status, _, errors = holdfast("gate", "submit", gate, path, "--name", "v2")
        assert status == 2
        assert words in " ".join(errors.split())
    assert holdfast("gate", "submit", gate, str(tmp_path / "none.csv"), "--name", "v2")[0] == 2
    assert holdfast("gate", "submit", str(tmp_path / "none.gate"), few, "--name", "v2")[0] == 2
    assert json.loads(holdfast("gate", "status", gate, "--json")[1]) == before


def test_a_gate_that_cannot_be_opened_leaves_no_file(gate, tmp_path, holdfast):
    incumbent = write_scores(tmp_path / "tiny.csv", tasks=3)
    status, _, errors = holdfast("gate", "open", str(tmp_path / "tiny.gate"), incumbent)
    assert status == 1
    assert "needs at least 6 tasks" in errors
    assert not (tmp_path / "tiny.gate").exists()
    status, _, errors = holdfast("gate", "open", gate, incumbent)
    assert status == 2
    assert "There is a gate in" in errors


def test_a_report_closes_the_gate_and_shows_the_scores(gate, tmp_path, holdfast):
    better = write_scores(tmp_path / "better.csv", fixed=30)
    holdfast("gate", "submit", gate, better, "--name", "v2")
    status, _, errors = holdfast("gate", "report", gate)
    assert status == 2
    assert "--yes" in errors
    status, shown, _ = holdfast("gate", "report", gate, "--yes", "--json")
    report = json.loads(shown)
    assert status == 0
    assert [version["score"] for version in report["versions"]] == [0.7, 0.8]
    assert report["versions"][1]["gain"] == pytest.approx(0.1)
    assert json.loads(holdfast("gate", "report", gate, "--json")[1]) == report
    status, _, errors = holdfast("gate", "submit", gate, better, "--name", "v3")
    assert status == 1
    assert "closed" in errors


def test_seen_scores_are_paid_for(gate, holdfast):
    status, shown, _ = holdfast("gate", "seen", gate, "2", "--json")
    assert status == 0
    assert json.loads(shown)["cost"] == pytest.approx(2 * 5.7071, abs=1e-3)


def test_power_is_shown_before_a_gate_is_opened(holdfast):
    status, shown, _ = holdfast("gate", "power", "--tasks", "300", "--differing", "0.1", "--json")
    assert status == 0
    assert 0.05 < json.loads(shown)["gain"] < 0.08
    status, shown, _ = holdfast("gate", "power", "--gain", "0.05", "--candidates", "20")
    assert status == 0
    assert "tasks, candidate 20 is promoted with probability" in shown
    assert holdfast("gate", "power")[0] == 2
    assert holdfast("gate", "power", "--tasks", "0")[0] == 2
