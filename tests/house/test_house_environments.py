"""The two commands of the README set up what they need: the demo little, the tests everything."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from holdfast.errors import MissingExtra

ROOT = Path(__file__).resolve().parents[2]


def _locked(name: str) -> dict[str, str]:
    # What stands behind a semicolon says on which machines the package is installed.
    lines = [line.partition(";")[0] for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    return {_plain(package): version for package, version in (line.split("==") for line in lines)}


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _needed(requirements: list[str]) -> set[str]:
    """Everything that these requirements bring, as the installed packages say it."""
    waiting = [Requirement(text) for text in requirements]
    needed: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *requirement.extras):
            if (_plain(requirement.name), extra) in needed:
                continue
            needed.add((_plain(requirement.name), extra))
            for text in metadata.requires(requirement.name) or ():
                further = Requirement(text)
                if further.marker is None or further.marker.evaluate({"extra": extra}):
                    waiting.append(further)
    return {package for package, _ in needed}


def test_the_demo_locks_the_core_and_nothing_else():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(_locked("requirements-demo.lock")) == _needed(project["dependencies"])


def test_both_locks_name_the_same_versions():
    everything = _locked("requirements.lock")
    assert _locked("requirements-demo.lock").items() <= everything.items()
    assert {"pyspark", "playwright", "pytest"} <= set(everything) - set(_locked("requirements-demo.lock"))


@pytest.mark.parametrize(
    ("target", "lock"), [("demo", "requirements-demo.lock"), ("test", "requirements.lock")]
)
def test_a_command_installs_from_its_own_lock_only(target, lock):
    # A folder that does not exist is an environment that was never made. -n only prints the commands.
    command = ["make", "-n", target, "VENV=never-made/all", "DEMO=never-made/demo"]
    planned = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"--requirement (\S+\.lock)", planned)) == {lock}


def test_only_the_demo_leaves_out_parts_of_packages():
    for target, trimmed in (("demo", True), ("test", False)):
        command = ["make", "-n", target, "VENV=never-made/all", "DEMO=never-made/demo"]
        planned = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        assert ("site-packages/*/tests" in planned) == trimmed
        assert "rm -rf never-made/all" not in planned


# The name of the package on the public index that is not ours, where a command would install it.
STRANGER = re.compile(r"""(?:install|add)\b[^\n]*[\s'"]holdfast(?![\w.-])|['"`]holdfast\[""")


def _texts() -> list[Path]:
    folders = [ROOT / name for name in ("src", "docs", "examples", "benchmarks")]
    inside = [path for folder in folders for path in folder.rglob("*")]
    kinds = {".py", ".md", ".html", ".toml", ".yaml", ".yml", ".txt", ".cff", ".ipynb", ".js"}
    return [path for path in [*ROOT.glob("*"), *inside] if path.suffix in kinds and path.is_file()]


def test_nothing_tells_people_to_install_a_package_that_is_not_ours():
    culprits = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in _texts()
        for line in path.read_text(encoding="utf-8").splitlines()
        if STRANGER.search(line)
    }
    assert culprits == set()


@pytest.mark.parametrize(
    "line",
    [
        "pip install holdfast",
        "uv add holdfast",
        "pip install 'holdfast[plots]'",
        "`holdfast[plots]`",
    ],
)
def test_the_check_would_catch_the_other_name(line):
    assert STRANGER.search(line)


def test_the_hint_names_the_distribution_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert all(
        f"pip install '{project['name']}[{extra}]'" in str(MissingExtra(extra, what="This"))
        for extra in project["optional-dependencies"]
    )


def test_a_package_for_some_machines_has_the_same_condition_in_the_lock():
    # A line of the lock without it would end the setup on every other machine.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [Requirement(text) for text in project["dependency-groups"]["dev"]]
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = {_plain(line.name): line for line in map(Requirement, lines)}
    conditions = {_plain(package.name): package.marker for package in wanted if package.marker is not None}
    assert conditions == {package: locked[package].marker for package in conditions}
    assert "helm-binary" in conditions
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"s/^helm[-_]binary==.*/&; {locked['helm-binary'].marker}/" in makefile
