"""``holdfast ask`` as people use it: one-shot, piped, as JSON, at a prompt, today and tomorrow."""

from __future__ import annotations

import doctest
import fcntl
import io
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

import numpy as np
import pandas as pd
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from holdfast import Guard
from holdfast.cli import _figures, _prompt, main
from holdfast.cli._suggest import COMMANDS, Suggestions

ROWS = 2_000


@pytest.fixture
def people(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)  # always the same people: what is tested here is what is shown
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(40_000, 9_000, ROWS).round(2),
            "sex": rng.choice(["F", "M"], ROWS),
            "gross income": np.where(rng.random(ROWS) < 0.2, np.nan, 1.0),
        }
    )
    frame.to_csv("people.csv", index=False)
    return frame


@pytest.fixture
def holdfast(capsys, monkeypatch):
    """Run the command line in this process: exit status, stdout, stderr."""

    def run(*arguments, piped=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run


def test_one_question_one_answer(people, holdfast):
    status, out, _ = holdfast("ask", "people.csv", "-q", "share(age > 40)")
    assert status == 0
    assert out.startswith("share(age > 40)\n")
    for part in ("in  [0.", "●", "━", "as guessed · cost 0.288 nats", "0.288 nats spent in all", "±"):
        assert part in out


def test_answers_are_the_guards_own(people, holdfast):
    questions = [
        "share(age > 40)",
        "mean(income, 0, 1e5)",
        "quantile(income, 0.5)",
        "share(sex = 'F', guess = 0.9)",
    ]
    flags = [part for question in questions for part in ("-q", question)]
    status, out, _ = holdfast("ask", "people.csv", "--json", *flags)
    document = json.loads(out)
    guard = Guard("people.csv")
    asked = guard.ask_all(questions)
    assert status == 0
    assert [(a["value"], a["low"], a["high"], a["cost"], a["confirmed"]) for a in document["answers"]] == [
        (a.value, a.low, a.high, a.cost, a.confirmed) for a in asked
    ]
    assert document["spent"] == guard.spent
    assert document["left"] == {"nats": None, "words": guard.left.words}
    assert document["certificate"]["statement"] == guard.certificate.statement
    assert document["certificate"]["numbers"]["questions"] == len(questions)


def test_a_surprise_is_called_one_and_a_repetition_is_free(people, holdfast):
    _, out, _ = holdfast("ask", "people.csv", "-q", "share(sex = 'F', guess = 0.9)", "-q", "share('F' = sex)")
    assert "a surprise: the guess was 0.9" in out
    assert "○" in out
    assert "asked before, free" in out


def test_the_account_is_kept_beside_the_data(people, holdfast, tmp_path):
    first = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(age > 40)")[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.csv.holdfast"]
    second = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(age > 50)")[1])
    assert second["certificate"]["numbers"]["questions"] == 2
    assert second["spent"] > first["spent"] > 0
    free = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(40 < age)")[1])
    assert free["spent"] == second["spent"]
    assert free["answers"][0] == first["answers"][0]


def test_no_ledger_keeps_nothing_and_ledger_says_where(people, holdfast, tmp_path):
    assert holdfast("ask", "people.csv", "--no-ledger", "-q", "share(age > 40)")[0] == 0
    assert holdfast("ask", "people.csv", "--ledger", "mine.book", "-q", "share(age > 40)")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.book", "people.csv"]
    status, _, err = holdfast("ask", "people.csv", "--ledger", "x", "--no-ledger", "-q", "share(age > 40)")
    assert status == 2
    assert "contradict" in err


@pytest.mark.parametrize(
    ("opened", "again", "says"),
    [
        (["--error", "0.2"], ["--error", "0.1"], "opened with --error 0.2"),
        ([], ["--error", "0.1"], "opened with no --error"),
        ([], ["--confidence", "0.9"], "opened with --confidence 0.95"),
        ([], ["--training-share", "0.3"], "opened with --training-share 0.5"),
        (["--split-seed", "4"], ["--split-seed", "5"], "opened with --split-seed 4"),
        (["--train", "people.csv"], [], "--train"),
        ([], ["--train", "people.csv"], "other terms"),
    ],
)
def test_other_terms_are_an_error_and_charge_nothing(people, holdfast, opened, again, says):
    assert holdfast("ask", "people.csv", *opened, "-q", "share(age > 40)")[0] == 0
    status, out, err = holdfast("ask", "people.csv", *again, "-q", "share(age > 50)")
    assert status == 2
    assert says in " ".join(err.split())
    assert out == ""
    status, out, _ = holdfast("ask", "people.csv", *again, "--json", "-q", "share(age > 50)")
    assert (status, json.loads(out)["error"]) == (2, "BookError")


def test_terms_that_are_not_repeated_are_those_of_the_account(people, holdfast):
    holdfast("ask", "people.csv", "--error", "0.2", "--confidence", "0.9", "-q", "share(age > 40)")
    status, out, _ = holdfast("ask", "people.csv", "--json", "-q", "share(age > 50)")
    document = json.loads(out)
    assert status == 0
    assert document["answers"][0]["confidence"] == 0.9
    assert document["left"]["words"].endswith("±0.2")
    assert document["left"]["nats"] > 0


def test_data_that_changed_is_not_the_same_data(people, holdfast):
    holdfast("ask", "people.csv", "-q", "share(age > 40)")
    people.assign(age=people.age + 1).to_csv("people.csv", index=False)
    status, _, err = holdfast("ask", "people.csv", "-q", "share(age > 40)")
    assert status == 2
    assert "data" in err


def test_a_refusal_in_the_middle_keeps_the_answers_before_it(people, holdfast):
    flags = ["-q", "share(age > 40)", "-q", "mean(income, 0, 1e5)", "-q", "share(age > 50)"]
    status, out, err = holdfast("ask", "people.csv", "--error", "0.15", *flags)
    assert status == 1
    assert out.startswith("share(age > 40)\n")
    assert "mean(income" not in out
    assert "promised" in err
    status, out, _ = holdfast("ask", "people.csv", "--json", *flags)
    document = json.loads(out)
    assert status == 1
    assert [answer["query"] for answer in document["answers"]] == ["share(age > 40)"]
    assert document["error"] == "BudgetSpent"
    assert "promised" in document["message"]
    assert document["spent"] > 0


def test_too_few_rows_are_a_refusal(people, holdfast):
    people.head(40).to_csv("few.csv", index=False)
    status, _, err = holdfast(
        "ask", "few.csv", "-q", "quantile(income, 0.5)", "-q", "quantile(income, 0.999)"
    )
    assert status == 1
    assert "rows" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.csv", "-q", "share(age > 40)"], "There is no file"),
        (["people.csv", "-q", "share(agge > 40)"], "age"),
        (["people.csv", "-q", "how old are they"], "Cannot read the question"),
        (["people.csv", "-q", 'share("gross income" > 0)'], "gross income"),
        (["people.csv", "-q", "share(age > 40)", "--confidence", "1.5"], "confidence"),
        (["people.csv", "-q", "share(age > 40)", "--error", "nan"], "error"),
        (["people.csv", "-q", "share(age > 40)", "--split-seed", "-1"], "split_seed"),
        (["people.csv", "-q", "share(age > 40)", "--train", "nothing.csv"], "nothing.csv"),
        (["*.csv", "-q", "share(age > 40)"], "--ledger"),
        (["people.csv", "--sure"], "No such option"),
    ],
)
def test_bad_input_is_two_and_leaves_nothing_behind(people, holdfast, tmp_path, arguments, says):
    status, out, err = holdfast("ask", *arguments)
    assert status == 2
    assert says in " ".join(err.split())
    spent = [path for path in tmp_path.iterdir() if path.suffix == ".holdfast"]
    if spent:
        assert json.loads(holdfast("ask", "people.csv", "--json")[1])["spent"] == 0
    else:
        assert out == ""


def test_a_typing_error_in_the_third_question_is_found_before_the_first_is_paid_for(people, holdfast):
    flags = ["-q", "share(age > 40)", "-q", "share(age > 50)", "-q", "share(agge > 60)"]
    assert holdfast("ask", "people.csv", *flags)[0] == 2
    document = json.loads(holdfast("ask", "people.csv", "--json")[1])
    assert (document["spent"], document["answers"]) == (0, [])
    status, out, _ = holdfast("ask", "people.csv", "--json", *flags)
    assert (status, json.loads(out)["answers"]) == (2, [])


def test_a_preview_asks_nothing(people, holdfast):
    status, out, _ = holdfast("ask", "people.csv", "--preview", "-q", "share(age > 40)")
    assert status == 0
    assert "cost 0.288 nats if confirmed" in out
    status, out, _ = holdfast("ask", "people.csv", "--preview", "--json", "-q", "share(age > 40)")
    document = json.loads(out)
    assert document["previews"][0]["query"] == "share(age > 40)"
    assert document["previews"][0]["allowed"] is True
    assert document["spent"] == 0
    holdfast("ask", "people.csv", "-q", "share(age > 40)")
    assert "free" in holdfast("ask", "people.csv", "--preview", "-q", "share(age > 40)")[1]
    out = holdfast(
        "ask", "people.csv", "--no-ledger", "--error", "1e-3", "--preview", "-q", "share(age > 40)"
    )[1]
    assert "refused" in out


def test_lines_that_are_piped_in_are_questions(people, holdfast):
    status, out, _ = holdfast("ask", "people.csv", piped="share(age > 40)\n\nshare(sex = 'M')\n")
    assert status == 0
    assert out.count("as guessed") == 2
    status, out, _ = holdfast("ask", "people.csv", "--json", piped="share(age > 40)\n")
    assert len(json.loads(out)["answers"]) == 1


def test_a_training_file_of_ones_own(people, holdfast):
    people.head(500).to_csv("train.csv", index=False)
    people.tail(1500).to_csv("rest.csv", index=False)
    out = holdfast("ask", "rest.csv", "--train", "train.csv", "--json", "-q", "share(sex = 'F')")[1]
    document = json.loads(out)
    assert document["answers"][0]["guess"] == pytest.approx((people.head(500).sex == "F").mean())
    assert document["certificate"]["numbers"]["protected rows"] == 1500


@pytest.fixture
def sitting(people):
    """Sit at the real prompt: keys go in through a pipe, what is printed comes back.

    Completion and history come from the background; a person who uses them waits to see them, and so do the
    keys after a pause.
    """

    def sit(*keys, **terms):
        guard = Guard("people.csv", **terms)
        printed = io.StringIO()
        console = Console(file=printed, width=100, highlight=False)

        def type_keys(pipe):
            for some in keys:
                pipe.send_text(some)
                time.sleep(0.4)

        with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
            typing = threading.Thread(target=type_keys, args=(pipe,))
            typing.start()
            _prompt.converse(guard, data="people.csv", ledger=None, console=console)
            typing.join()
        return guard, printed.getvalue()

    return sit


def test_the_prompt_answers_and_goes_on_after_errors(sitting):
    guard, said = sitting("share(agge > 40)\rshare(age > 40)\rnonsense\rshare(sex = 'F')\r\x04")
    assert [str(answer.query) for answer in guard.history] == ["share(age > 40)", "share(sex = 'F')"]
    assert "'age'" in said
    assert "Cannot read the question 'nonsense'" in said
    assert said.count("as guessed") == 2
    assert "2,000" not in said
    assert "1,000 protected rows, 1,000 for training" in said


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
    assert "Going on with the account" in said
    assert "asked before, free" in said
    assert len(guard.history) == 1


def test_control_c_clears_the_line_and_the_prompt_goes_on(sitting):
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
        "columns, with what the training part shows",
        "gross income  number",
        "confirmed guesses or",
        "1  share(age > 40)",
        "Theorem: the code guard",
        "answered before: asking again is free",
        "preview QUESTION",
        "1,000 training rows, free to look at",
        "plot FILE.png",
        "The picture is in answers.png",
        "xyz",
        "nowhere",
    ):
        assert part in said, part
    assert re.search(r"1 to 1, median 1; \d\d% missing", said)
    assert (tmp_path / "answers.png").read_bytes().startswith(b"\x89PNG")
    assert len(guard.history) == 1


def test_a_refusal_at_the_prompt_is_shown_and_the_prompt_goes_on(sitting):
    guard, said = sitting("mean(income, 0, 1e5)\rshare(age > 40)\r\x04", error=0.15)
    assert "cannot be answered within the promised ±0.15" in said
    assert [str(answer.query) for answer in guard.history] == ["share(age > 40)"]


def test_the_meter_moves_with_every_question(people):
    guard = Guard("people.csv", error=0.2)
    conversation = _prompt.Conversation(guard, Console(file=io.StringIO(), width=100))
    before = conversation.meter
    assert "0 asked · 0 nats spent · left ████████████" in before
    conversation.handle("share(age > 40, guess = 0.1)")
    assert "1 asked" in conversation.meter
    assert "░" in conversation.meter
    assert "confirmed guesses or" in conversation.meter
    unlimited = _prompt.Conversation(Guard("people.csv"), Console(file=io.StringIO(), width=100))
    assert "a share now comes with ±" in unlimited.meter


def test_without_a_training_part_the_prompt_says_so(sitting):
    guard, said = sitting(
        "train\rcolumns\rshare(age > 40)\rshare(age > 40, guess = 0.7)\r\x04", training_share=0
    )
    assert "There is no training part" in said
    assert "There are no training rows to take a guess from" in said
    assert len(guard.history) == 1


def completed(line, columns=("age", "gross income", "select", 'a "b"')):
    return [c.text for c in Suggestions(columns).get_completions(Document(line), CompleteEvent())]


def test_suggestions_fit_the_place():
    assert completed("")[:3] == ["share(", "mean(", "quantile("]
    assert set(COMMANDS) < set(completed(""))
    assert completed("q") == ["quantile(", "quit"]
    assert completed("preview s") == ["share("]
    assert completed("plot fi") == []
    assert completed("share(a") == ["age", '"a ""b"""', "and", "abs("]
    assert completed("share(gro") == ['"gross income"']
    assert completed('share("gross in') == ['"gross income"']
    assert completed("share(sel") == ['"select"']
    assert completed("mean(age, 0, 1, g") == ['"gross income"', "guess = ", "greatest("]


def test_intervals_are_shown_rounded_outward(rng):
    for _ in range(300):
        low, width = rng.normal() * 10.0 ** rng.integers(-4, 6), 10.0 ** rng.uniform(-6, 5)
        high = low + width
        _, interval = _figures.interval_words((low + high) / 2, low, high)
        shown_low, shown_high = map(float, interval[1:-1].split(","))
        assert shown_low <= low + 1e-12 * abs(low)
        assert shown_high >= high - 1e-12 * abs(high)
        assert shown_high - shown_low <= 1.25 * width or shown_high - shown_low <= 2
    assert _figures.interval_words(1.0, -np.inf, np.inf) == ("1", "[-inf, inf]")
    assert _figures.span_of("quantile", None, 1.0, -np.inf, np.inf) is None
    assert doctest.testmod(_figures).failed == 0


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
    for keys in ("sha\t", "ag\t", " > 40)\r"):
        screen.type(keys)
        time.sleep(0.5)
    screen.until("spent in all")
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
