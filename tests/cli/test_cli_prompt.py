"""The prompt of ``holdfast ask``, with real keys: through a pipe, and in a real terminal."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time

import pandas as pd
import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from holdfast import Guard
from holdfast.cli import main
from waiting import wait_until

COMMANDS = {"help", "columns", "left", "history", "certificate", "preview", "train", "plot", "quit"}


class Keyboard(io.StringIO):
    """The keyboard of a terminal. Nobody uses it: keys come through a pipe."""

    def isatty(self):
        return True


@pytest.fixture
def sitting(people, monkeypatch):
    """Sit at the prompt of ``holdfast ask``: keys go in through a pipe. The account, opened again, and what
    was printed come back. ``sitting.meters`` has the line under the prompt before each key, and
    ``sitting.prompts`` the prompts.

    Completion, history and answers come from the background. A person waits to see them, and so do the keys
    that come next: until something was printed after a line, or until the line changed after other keys.
    """
    prompts, meters, books = [], [], (f"sitting-{number}.book" for number in itertools.count())
    begin = PromptSession.__init__

    def remembered(session, *arguments, **options):
        begin(session, *arguments, **options)
        prompts.append(session)

    monkeypatch.setattr(PromptSession, "__init__", remembered)

    def sit(*keys, data="people.csv", ledger=None, **terms):
        ledger = ledger or next(books)
        options = [f"--{name.replace('_', '-')}={value}" for name, value in terms.items()]
        printed = io.StringIO()

        def seen(some):
            return printed.getvalue() if some.endswith("\r") else prompts[-1].default_buffer.text

        def type_keys(pipe):
            for some in keys:
                wait_until(lambda: prompts and prompts[-1].app.is_running and _has_history(prompts[-1]))
                meters.append(prompts[-1].bottom_toolbar())
                before = seen(some)
                pipe.send_text(some)
                if some.endswith("\t"):
                    # The typed letters change the line too. Wait for more than them: for the completion.
                    typed = before + some.rstrip("\t")
                    wait_until(lambda typed=typed: not typed.startswith(prompts[-1].default_buffer.text))
                elif some not in ("", keys[-1]):
                    wait_until(lambda some=some, before=before: seen(some) != before)

        with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
            prompts.clear()
            meters.clear()
            typing = threading.Thread(target=type_keys, args=(pipe,))
            typing.start()
            with monkeypatch.context() as terminal:
                terminal.setattr(sys, "stdin", Keyboard())
                terminal.setattr(sys, "stdout", printed)
                with pytest.raises(SystemExit) as left:
                    main(["ask", data, "--ledger", ledger, *options])
            typing.join()
        assert left.value.code == 0
        return Guard(data, ledger=ledger, **terms), printed.getvalue()

    sit.meters, sit.prompts = meters, prompts
    return sit


def _has_history(prompt):
    """Whether what was asked before is loaded: an arrow key that comes too early finds nothing."""
    loading = prompt.default_buffer._load_history_task
    return loading is not None and loading.done()


def test_the_prompt_answers_and_continues_after_errors(sitting):
    guard, said = sitting("share(agge > 40)\rshare(age > 40)\rnonsense\rshare(sex = 'F')\r\x04")
    assert [str(answer.query) for answer in guard.history] == ["share(age > 40)", "share(sex = 'F')"]
    assert "'age'" in said
    assert "Cannot read the question 'nonsense'" in said
    assert (said.count("as guessed"), said.count("near the guess")) == (1, 1)
    assert "2,000" not in said
    assert "1,333 protected rows, 667 for training" in said


def test_tab_completes_columns_functions_and_commands(sitting):
    guard, said = sitting(
        *("sha\t", "ag\t", " > 40)\r", "mea\t", "inc\t", ", 0, 1e5, whe\t", "sex = 'F')\r"),
        *("cert\t", "\r", "quit\r"),
    )
    assert [str(answer.query) for answer in guard.history] == [
        "share(age > 40)",
        "mean(income, 0, 100000, where = sex = 'F')",
    ]
    assert "With probability 0.95 every interval" in said


def test_the_arrow_key_brings_back_what_was_asked_before(people, sitting):
    guard, _ = sitting("share(age > 40)\r", "\x1b[A", "\x1b[D0\r", "\x04")
    assert [str(answer.query) for answer in guard.history] == ["share(age > 40)", "share(age > 400)"]
    guard, said = sitting("\x04", ledger="kept.book")
    guard.share("age > 70")
    guard, said = sitting("", "\x1b[A", "\r", "\x04", ledger="kept.book")
    assert "Continuing the account" in said
    assert "asked before, free" in said
    assert len(guard.history) == 1


def test_control_c_clears_the_line_and_the_prompt_continues(sitting):
    guard, _ = sitting("share(age > 10\x03share(age > 40)\r\x04")
    assert [str(answer.query) for answer in guard.history] == ["share(age > 40)"]


def test_every_command_says_something(sitting, tmp_path):
    keys = "".join(
        f"{line}\r"
        for line in (
            "share(age > 40)",
            "HELP",
            "columns",
            "left",
            "history",
            "certificate",
            "preview share(age > 50)",
            "preview share(age > 40)",
            "preview",
            "train",
            "plot",
            "plot answers.png",
            "plot answers.xyz",
            "plot nowhere/answers.png",
            "",
            "quit",
            "share(age > 60)",
        )
    )
    guard, said = sitting(keys, error=0.2)
    for part in (
        "only the rows for which it is true",
        "columns, with what the training rows have",
        "gross income  number",
        "confirmed guesses or",
        "1  share(age > 40)",
        "Theorem: the code guard",
        "answered before: asking again is free",
        "preview QUESTION",
        "667 training rows, free to look at",
        "plot FILE.png",
        "The picture is in answers.png",
        "xyz",
        "nowhere",
    ):
        assert part in said, part
    assert re.search(r"1 to 1, median 1; \d\d% missing", said)
    assert (tmp_path / "answers.png").read_bytes().startswith(b"\x89PNG")
    assert len(guard.history) == 1


def test_a_refusal_at_the_prompt_is_shown_and_the_prompt_continues(sitting):
    guard, said = sitting("mean(income, 0, 1e5)\rshare(age > 40)\r\x04", error=0.15)
    assert "protected rows cannot give ±0.15; the best here is about" in said
    assert [str(answer.query) for answer in guard.history] == ["share(age > 40)"]


def test_the_meter_moves_with_every_question(sitting):
    sitting("share(age > 40, guess = 0.1)\r", "\x04", error=0.2)
    before, after = sitting.meters
    assert "0 asked · 0 nats used · Left: ████████████" in before
    assert "1 asked" in after
    assert "░" in after
    assert "confirmed guesses or" in after
    sitting("\x04")
    (unlimited,) = sitting.meters
    assert unlimited.startswith(" 0 asked · 0 nats used · A share asked now gets about ±0.")


def test_without_a_training_part_the_prompt_says_so(sitting):
    guard, said = sitting(
        "train\rcolumns\rshare(age > 40)\rshare(age > 40, guess = 0.7)\r\x04", training_share=0
    )
    assert "There are no training rows. Give a guess" in said
    assert "There are no training rows to take a guess from" in said
    assert len(guard.history) == 1


def test_suggestions_fit_the_place(sitting):
    names = ("age", "gross income", "select", 'a "b"')
    pd.DataFrame({name: range(400) for name in names}).to_csv("named.csv", index=False)
    _, said = sitting("help\r", "\x04", data="named.csv")
    completer = sitting.prompts[-1].completer

    def completed(line):
        return [offer.text for offer in completer.get_completions(Document(line), CompleteEvent())]

    assert completed("")[:3] == ["share(", "mean(", "quantile("]
    assert {word for word in completed("") if not word.endswith("(")} == COMMANDS
    assert set(re.findall(r"^  (\w+)", said.partition("\nCommands\n")[2], flags=re.M)) == COMMANDS
    assert completed("q") == ["quantile(", "quit"]
    assert completed("preview s") == ["share(", "std(", "slope("]
    assert completed("plot fi") == []
    assert completed("share(a") == ["age", '"a ""b"""', "and", "abs("]
    assert completed("share(gro") == ['"gross income"']
    assert completed('share("gross in') == ['"gross income"']
    assert completed("share(sel") == ['"select"']
    assert completed("mean(age, 0, 1, g") == ['"gross income"', "guess = ", "greatest("]


class Terminal:
    """A real terminal around a real process: what is typed goes in, what appears comes back."""

    def __init__(self, *arguments):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from holdfast.cli import main; main()", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self._looked_at = 0

    def until(self, text, seconds=60.0):
        """Read until ``text`` appears in what has not been looked at yet."""
        deadline = time.monotonic() + seconds
        while (found := self.seen.find(text, self._looked_at)) < 0:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not appear in:\n{self.seen}"
            try:
                read = os.read(self._master, 65_536).decode(errors="replace")
            except OSError:
                read = ""
            assert read, f"the process ended before {text!r}:\n{self.seen}"
            if "\x1b[6n" in read:
                self.type("\x1b[1;1R")  # where the cursor is, as a terminal says when it is asked
            self.seen += read
        self._looked_at = found + len(text)

    def type(self, keys):
        os.write(self._master, keys.encode())

    def status(self):
        return self._process.wait(timeout=60)

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(people):
    opened = []

    def start(*arguments):
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_the_prompt_in_a_real_terminal(terminal, holdfast):
    screen = terminal("ask", "people.csv", "--error", "0.2")
    screen.until("0 asked")
    # A completion comes a while after its key: the next key waits for the last letter of it.
    for keys, shown in (("sha\t", "("), ("ag\t", "e")):
        screen.type(keys)
        screen.until(shown)
    screen.type(" > 40)\r")
    screen.until("as guessed · cost")
    screen.until("1 asked")
    screen.type("share(agge > 40)\r")
    screen.until("'age'")
    screen.until("1 asked")
    screen.type("\x04")
    screen.until("The account is kept in people.csv.holdfast.")
    assert screen.status() == 0
    assert "█" in screen.seen
    document = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(age > 40)")[1])
    assert document["certificate"]["numbers"]["questions"] == 1


def test_json_at_a_terminal_needs_a_question(terminal, tmp_path):
    screen = terminal("ask", "people.csv", "--json")
    screen.until("--json needs a question")
    assert screen.status() == 2
    assert not (tmp_path / "people.csv.holdfast").exists()
