"""A service in a process of its own, with options, an environment and a log, as an operator starts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

COMMAND = (sys.executable, "-c", "from holdfast.cli import main; main()")


@dataclass
class Operated:
    """A running service: its process, address and log."""

    process: subprocess.Popen[str]
    url: str
    tokens: dict[str, str]
    key: str
    log: Path
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def call(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        headers = options.pop("headers", {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        return self.client.request(method, f"/v1{path}", headers=headers, **options)

    def ask(self, token: str, question: str, dataset: str = "people", **options: Any) -> httpx.Response:
        return self.call("POST", f"/datasets/{dataset}/questions", token, json={"query": question}, **options)

    def lines(self) -> list[dict[str, Any]]:
        """The log, parsed."""
        return [json.loads(row) for row in self.log.read_text().splitlines()]


@contextmanager
def operated(home: Path, *options: str, **environment: str) -> Iterator[Operated]:
    """Start a service, and stop it at the end."""
    log = home.parent / f"{home.name}.log"
    with log.open("a") as file:
        process = subprocess.Popen(
            [*COMMAND, "serve", str(home), "--port", "0", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env={**os.environ, **environment},
        )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first, log.read_text()
    said = json.loads(first)
    service = Operated(process, said["url"], said["tokens"], said["key"], log)
    try:
        yield service
    finally:
        service.client.close()
        stop(process)
        process.stdout.close()


def stop(process: subprocess.Popen[str]) -> int:
    """End a service as an operator does; a second signal ends one that drains."""
    for _ in range(30):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=2)
    process.kill()
    process.wait()
    raise AssertionError("the service did not stop")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])
