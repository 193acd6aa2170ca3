"""The guide shows what happens: every command of docs/guides/ask.md is run, and its output compared.

``python tests/cli/test_cli_guide.py`` writes the outputs again.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.shortcuts import PromptSession

from holdfast.cli import main
from holdfast.lab import Stones

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "ask.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", flags=re.S | re.M)
WIDTH = "96"
PROMPT = "holdfast> "


class Terminal(io.StringIO):
    """An input at which a person sits."""

    def isatty(self) -> bool:
        return True


class Shell:
    """As much of a shell as the guide uses; what a command prints on either stream is its output."""

    def __init__(self) -> None:
        self.status = 0

    def run(self, command: str, typed: list[str]) -> str:
        """The output of one command; ``typed`` are the lines entered at its prompt, which are echoed."""
        if command == "echo $?":
            return f"{self.status}\n"
        if command == "holdfast demo":
            return ""  # its stones are there already; test_cli_demo runs it
        piped = ""
        if command.startswith("echo "):
            said, _, command = command.partition(" | ")
            piped = shlex.split(said)[1]
        program, *arguments = shlex.split(command)
        assert program == "holdfast"
        return self._converse(arguments, typed) if typed else self._call(arguments, piped)

    def _call(self, arguments: list[str], piped: str) -> str:
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            mock.patch.object(sys, "stdin", io.StringIO(piped)),
            pytest.raises(SystemExit) as left,
        ):
            main(arguments)
        self.status = left.value.code
        # Every book has a name of its own.
        return re.sub(r"(account\s+book\s+)[0-9a-f]{16}", r"\g<1>0123456789abcdef", printed.getvalue())

    def _converse(self, arguments: list[str], typed: list[str]) -> str:
        printed, prompt = io.StringIO(), PromptSession.prompt

        def echoed(session: PromptSession[str], message: str) -> str:
            line = prompt(session, message)
            print(message + line)
            return line

        with (
            contextlib.redirect_stdout(printed),
            create_pipe_input() as pipe,
            create_app_session(input=pipe, output=DummyOutput()),
            mock.patch.object(sys, "stdin", Terminal()),
            mock.patch.object(PromptSession, "prompt", echoed),
        ):
            pipe.send_text("".join(f"{line}\r" for line in typed))
            with pytest.raises(SystemExit):
                main(arguments)
        return printed.getvalue()


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Each command of a block, and what is typed at its prompt."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith(PROMPT):
            found[-1][1].append(line.removeprefix(PROMPT))
    return found


def performed(block: str, shell: Shell) -> str:
    """The block as it should be: every command with what it prints."""
    printed = "".join(f"$ {command}\n{shell.run(command, typed)}" for command, typed in commands(block))
    return "".join(line.rstrip() + "\n" for line in printed.splitlines())


def set_up(folder: Path) -> None:
    """The stones that the demo leaves; they do not depend on how many coins it flips."""
    (folder / "holdfast-demo").mkdir()
    Stones.draw(8_000, 1, 0).plain().to_csv(folder / "holdfast-demo" / "stones.csv", index=False)


def test_every_command_prints_what_the_guide_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    set_up(tmp_path)
    shell = Shell()
    for block in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        assert block == performed(block, shell), "run `python tests/cli/test_cli_guide.py`"


def test_the_guide_shows_refusals_and_a_conversation():
    text = GUIDE.read_text(encoding="utf-8")
    run = [command for block in BLOCK.findall(text) for command in commands(block)]
    assert sum(bool(typed) for _, typed in run) == 1
    assert {"1", "2"} == set(re.findall(r"^\$ echo \$\?\n(\d)$", text, flags=re.M))
    assert len(run) >= 15


def rewrite() -> None:
    os.environ["COLUMNS"] = WIDTH
    text = GUIDE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        set_up(Path(folder))
        shell = Shell()
        written = BLOCK.sub(lambda found: f"```console\n{performed(found.group(1), shell)}```", text)
    GUIDE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
