"""Every command of the runbook runs, against a real service, and does what the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from server_operated import free_port, operated

from holdfast.server import Policy, Service
from waiting import wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "runbook.md"

_SYSTEMCTL = """#!/bin/bash
# Starts and stops a real service, as the machine's own systemctl would.
set -eu
if [ "$1" = stop ]; then
  if [ -e "$PIDS" ]; then
    pid=$(cat "$PIDS"); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done; rm "$PIDS"
  fi
else
  rm -f "$STARTED"
  holdfast serve "$SERVICE" --port "$PORT" --json --witness "$WITNESS" \\
    >"$STARTED" 2>>"$STARTED.log" </dev/null &
  echo $! >"$PIDS"
  until [ -s "$STARTED" ]; do kill -0 "$(cat "$PIDS")"; sleep 0.05; done
fi
"""


def blocks(section):
    """The commands of one part of the page, in order."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, flags=re.S | re.M)[1]
    return re.findall(r"^```sh\n(.*?)^```", part, flags=re.S | re.M)


class Machine:
    """A machine with a service on it, and a shell."""

    def __init__(self, folder, set_up):
        self.folder = folder
        tools = folder / "bin"
        tools.mkdir()
        source = "from holdfast.cli import main; main()"
        self._tool(tools / "holdfast", f"#!/bin/bash\nexec {sys.executable} -c '{source}' \"$@\"\n")
        self._tool(tools / "systemctl", _SYSTEMCTL)
        self.home = folder / "home"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (self.home / "data").mkdir(parents=True)
        shutil.copy(set_up / "data" / "people.csv", self.home / "data")
        service = Service(self.home)
        service.datasets.register("people", "people.csv", Policy())
        self.owner, _ = service.tokens.issue("olga", role="owner")
        self.mallory, _ = service.tokens.issue("mallory", role="analyst", dataset="people")
        self.key = service.key.public
        service.close()
        self.variables = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "SERVICE": str(self.home),
            "URL": self.url,
            "OWNER": self.owner,
            "BACKUP": str(folder / "backup.tar"),
            "WITNESS": str(folder / "witness.jsonl"),
            "PORT": str(self.port),
            "PIDS": str(folder / "pid"),
            "STARTED": str(folder / "started"),
        }

    @staticmethod
    def _tool(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def shell(self, script, **more):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.variables, **more},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def ask(self, question, token=None):
        headers = {"Authorization": f"Bearer {token or self.mallory}"}
        url = f"{self.url}/v1/datasets/people/questions"
        return httpx.post(url, json={"query": question}, headers=headers, timeout=60)

    def ready(self):
        return httpx.get(f"{self.url}/v1/ready", timeout=60).status_code == 200


@pytest.fixture
def machine(tmp_path, set_up):
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("the runbook needs curl and bash")
    machine = Machine(tmp_path, set_up)
    machine.shell("systemctl start holdfast")
    wait_until(machine.ready)
    assert machine.ask("share(age > 40)").status_code == 200
    yield machine
    machine.shell("systemctl stop holdfast")


def test_every_part_has_commands():
    sections = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    assert sections == [
        "Look first",
        "Lost key",
        "Full disk",
        "Clock",
        "Compromised token",
        "PostgreSQL down",
        "Restore",
    ]
    assert all(blocks(section) for section in sections)


@pytest.mark.slow
def test_looking_a_full_disk_and_the_clock(machine):
    (look,) = blocks("Look first")
    printed = machine.shell(look)
    assert '"live"' in printed
    assert '"ready"' in printed
    assert "Intact: 3 lines" in printed
    space, after = blocks("Full disk")
    assert "%" in machine.shell(space)
    assert "Intact" in machine.shell(after)
    (clock,) = blocks("Clock")
    assert "date:" in machine.shell(clock).lower()


@pytest.mark.slow
def test_a_lost_key_comes_back_from_the_backup(machine):
    machine.shell('holdfast backup "$SERVICE" "$BACKUP" && systemctl stop holdfast && rm "$SERVICE/key"')
    machine.shell("systemctl start holdfast")
    assert httpx.get(f"{machine.url}/v1/key").json()["key"] != machine.key
    (commands,) = blocks("Lost key")
    assert machine.key in machine.shell(commands)
    assert stat.S_IMODE((machine.home / "key").stat().st_mode) == 0o600
    assert machine.ask("share(age > 41)").json()["receipt"]["key"] == machine.key


@pytest.mark.slow
def test_a_compromised_token_is_revoked_and_all_tokens_can_be_replaced(machine):
    revoke, renew = blocks("Compromised token")
    printed = machine.shell(revoke)
    assert "mallory" in printed
    assert machine.ask("share(age > 40)").status_code == 401
    fresh = json.loads((machine.folder / "new-token.json").read_text())["token"]
    assert machine.ask("share(age > 40)", fresh).status_code == 200
    machine.shell(renew)
    assert machine.ask("share(age > 40)", fresh).status_code == 401
    owner = json.loads((machine.folder / "started").read_text())["tokens"]["owner"]
    assert machine.ask("share(age > 40)", owner).status_code == 200


def test_a_restore_closes_the_account_that_is_behind(machine):
    machine.shell('holdfast backup "$SERVICE" "$BACKUP"')
    later = machine.ask("share(age > 50)").json()
    bring_back, close = blocks("Restore")
    printed = machine.shell(bring_back)
    assert "people is behind: a witness saw line 5, the backup ends at 3" in " ".join(printed.split())
    machine.shell(close)
    assert json.loads((machine.folder / "closed.json").read_text())["closed"] is True
    assert machine.ask("share(age > 50)").status_code == 409  # What was answered later is gone, and stays so.
    assert machine.ask("share(age > 40)").status_code == 200
    assert later["receipt"]["sequence"] == 5


@pytest.mark.slow
def test_the_commands_for_postgresql_run(postgres, tmp_path, set_up):
    pgserver = pytest.importorskip("pgserver")
    tools = Path(pgserver.__file__).parent / "pginstall" / "bin"
    psql = shutil.which("psql", path=f"{tools}:{os.environ['PATH']}")
    if psql is None:
        pytest.skip("psql is not installed")
    home = tmp_path / "home"
    with operated(home, "--books", postgres) as running:
        wait_until(lambda: running.call("GET", "/ready").status_code == 200)
        (commands,) = blocks("PostgreSQL down")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            env={
                **os.environ,
                "PATH": f"{Path(psql).parent}:{os.environ['PATH']}",
                "BOOKS": postgres,
                "URL": running.url,
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "count" in done.stdout
        assert '"ready"' in done.stdout
