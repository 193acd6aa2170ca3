"""The GitHub Action: its steps are run as GitHub would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holdfast import Gate

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SCORES = {f"task-{number}": int(number < 210) for number in range(300)}


def run_steps(tmp_path, **given):
    """Run every step but the install, with these inputs; returns the exit status, outputs and summary."""
    inputs = {name: details.get("default", "") for name, details in ACTION["inputs"].items()} | given
    assert set(inputs) == set(ACTION["inputs"])
    outputs, summary = tmp_path / "outputs", tmp_path / "summary"
    for file in (outputs, summary):
        file.write_text("", encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    status, printed = 0, ""
    for step in ACTION["runs"]["steps"]:
        if step.get("if") == "${{ inputs.install == 'true' }}":
            continue
        assert step["shell"] == "bash"
        values = {}
        for name, text in step["env"].items():
            assert text.startswith("${{ inputs.")
            values[name] = inputs[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        environment = os.environ | values
        environment |= {"PATH": path, "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        status, printed = done.returncode, printed + done.stdout + done.stderr
        if status:
            break
    told = dict(line.split("=", 1) for line in outputs.read_text(encoding="utf-8").splitlines())
    return status, told, summary.read_text(encoding="utf-8"), printed


@pytest.fixture
def gate(tmp_path):
    place = tmp_path / "agent.gate"
    Gate(None, incumbent=SCORES, name="main", ledger=place).close()
    return str(place)


def write(path, scores):
    path.write_text("task,score\n" + "".join(f"{task},{score}\n" for task, score in scores.items()), "utf-8")
    return path.name


def test_a_better_candidate_passes(gate, tmp_path):
    results = write(tmp_path / "v2.csv", {task: int(i < 245) for i, task in enumerate(SCORES)})
    status, told, summary, _ = run_steps(tmp_path, gate=gate, results=results, name="v2")
    assert status == 0
    assert told == {"promoted": "true", "margin": "0.06"}
    assert summary.startswith("### Promoted")


def test_a_candidate_that_is_not_shown_fails_by_default(gate, tmp_path):
    results = write(tmp_path / "v2.csv", SCORES)
    status, told, summary, _ = run_steps(tmp_path, gate=gate, results=results, name="v2")
    assert (status, told["promoted"]) == (1, "false")
    assert summary.startswith("### Not shown")
    status, told, _, _ = run_steps(tmp_path, gate=gate, results=results, name="v2", required="false")
    assert (status, told["promoted"]) == (0, "false")


def test_a_command_is_run_with_its_scores_sealed(gate, tmp_path):
    script = "import sys; print('secret'); lines = [f'task-{i},{int(i < 245)}' for i in range(300)]; "
    script += "open(sys.argv[1], 'w').write('task,score\\n' + '\\n'.join(lines))"
    (tmp_path / "harness.py").write_text(script, encoding="utf-8")
    status, told, _, printed = run_steps(
        tmp_path, gate=gate, results="r.csv", name="v2", command=f"{sys.executable} harness.py {{results}}"
    )
    assert (status, told["promoted"]) == (0, "true")
    assert "secret" not in printed


def test_bad_input_fails_whatever_is_required(gate, tmp_path):
    write(tmp_path / "v2.csv", {"task-1": 1})
    status, told, _, _ = run_steps(tmp_path, gate=gate, results="v2.csv", name="v2", required="false")
    assert (status, told) == (2, {})
