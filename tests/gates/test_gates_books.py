"""Gates in books: on files and in PostgreSQL, signed, raced, killed, and long."""

from __future__ import annotations

import math
import time
from threading import Thread

import numpy as np
import pytest
from gates_workers import TASKS, climb, die_while_comparing, people, scores_of, solving, submit

from holdfast import Gate
from holdfast.asking import Session
from holdfast.intervals import gain_steps
from holdfast.ledger import Balance, Book, SigningKey, export, verify

FIRST = dict(enumerate(scores_of("first").tolist()))


def opened(place, **terms):
    return Gate(None, incumbent=FIRST, name="first", ledger=place, **terms)


def test_a_gate_continues_where_it_was(place):
    gate = opened(place, promise="fdr", confidence=0.9, step=0.05, expect=5, inputs="public")
    submit(gate, "0-21")
    submit(gate, "0-60")
    submit(gate, "0-59")
    before = (gate.status(), gate.promotions, gate.history, gate.tasks, gate.spent, gate.needed_gain(0.1))
    gate.close()
    again = Gate.at(place)
    after = (
        again.status(),
        again.promotions,
        again.history,
        again.tasks,
        again.spent,
        again.needed_gain(0.1),
    )
    assert after == before
    assert (again.promise, again.confidence, again.step, again.minimum) == ("fdr", 0.9, 0.05, 0.0)
    assert submit(again, "0-60").repeated
    assert submit(again, "0-110").promoted
    same_terms = opened(place, promise="fdr", confidence=0.9, step=0.05, expect=5, inputs="public")
    assert same_terms.incumbent.name == "0-110"
    again.close()
    same_terms.close()


def test_signed_books_and_exports(place, tmp_path):
    key = SigningKey.generate()
    book = Book(place, key=key)
    gate = opened(book)
    verdicts = [submit(gate, name) for name in ("0-22", "0-70", "1-71")]
    report = gate.report()
    for verdict in (*verdicts, report):
        assert verdict.receipt is not None
        assert verdict.to_dict()["receipt"] == verdict.receipt.to_dict()
    export(book, tmp_path / "export")
    verified = verify(tmp_path / "export", key.public)
    assert verified.whole, verified.problems
    assert verified.unit == "nats"
    assert verified.spent == pytest.approx(gate.spent)
    gate.close()


def test_no_score_is_in_any_line_verdict_or_error(place, tmp_path):
    """Scores are unlike any other number here, so that a copy of one would be seen."""
    rng = np.random.default_rng(1)
    incumbent = {f"task-{task}": 0.512_345_671 if task % 2 else 0.598_765_431 for task in range(200)}
    better = {name: 0.912_345_673 if rng.random() < 0.9 else 0.1 for name in incumbent}
    key = SigningKey.generate()
    book = Book(place, key=key)
    gate = Gate(None, incumbent=incumbent, ledger=book)
    texts = []
    for number, scores in enumerate((incumbent, better, incumbent)):
        verdict = gate.submit(scores, name=f"c{number}")
        texts += [repr(verdict), str(verdict.to_dict()), verdict.to_markdown(), verdict._repr_html_()]
    assert gate.incumbent.name == "c1"
    for bad in ({**better, "task-3": 1.912_345_673}, {**better, "task-4": -0.912_345_673}):
        with pytest.raises(Exception, match="from 0 to 1") as refusal:
            gate.submit(bad, name="bad")
        texts.append(str(refusal.value))
    export(book, tmp_path / "export")
    texts += [str(gate.history), str(gate.status()), str(gate.promotions)]
    texts.append((tmp_path / "export").read_text(encoding="utf-8"))
    texts += [str(event.body) for event in book.events()]
    for text in texts:
        for secret in ("12345671", "98765431", "12345673", "task-3", "task-199"):
            assert secret not in text
    # The same session with other scores that have the same verdicts writes the same lines.
    twin = Gate(None, incumbent=incumbent)
    for number, scores in enumerate((dict.fromkeys(incumbent, 0.2), better, dict.fromkeys(incumbent, 0.3))):
        verdict = twin.submit(scores, name=f"c{number}")
        assert verdict.to_dict() == {**gate.history[number].to_dict(), "receipt": None}
    gate.close()


def recomputed(book):
    """Check every verdict in a book against its own scores and the incumbent of its time; returns how many
    there are, and how many were promoted."""
    incumbent, verdicts, places = "first", 0, []
    for event in book.events():
        if event.kind != "release":
            continue
        answer = event.body["released"]
        assert answer["incumbent"] == incumbent, "promoted or refused against a stale incumbent"
        differences = scores_of(answer["name"]) - scores_of(incumbent)
        steps = gain_steps(differences, nats=answer["nats"], step=0.05, binary=True)
        assert answer["steps"] == steps
        places.append(answer["place"])
        verdicts += 1
        if answer["promoted"]:
            incumbent = answer["name"]
    # No more comparisons share the weights of the first places than there are such places.
    for number, place in enumerate(sorted(places), start=1):
        assert place >= number
    promotions = sum(event.kind == "act" and event.subject.startswith("promotion") for event in book.events())
    return verdicts, promotions


def test_processes_that_submit_at_once_never_promote_against_a_stale_incumbent(place):
    opened(place, confidence=0.6, step=0.05).close()
    counts = [[30, 45, 62, 80, 100], [31, 46, 63, 81, 101], [33, 47, 64, 83, 103]]
    pipes = [people.Pipe(duplex=False) for _ in counts]
    racers = [
        people.Process(target=climb, args=(place, person, mine, pipe[1]))
        for person, (mine, pipe) in enumerate(zip(counts, pipes, strict=True))
    ]
    for racer, (_, theirs) in zip(racers, pipes, strict=True):
        racer.start()
        theirs.close()
    sent = []
    for ours, _ in pipes:
        while True:
            try:
                sent.append(ours.recv())
            except EOFError:
                break
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    book = Book(place)
    verdicts, promotions = recomputed(book)
    assert verdicts == len(sent) == 15
    gate = Gate.at(book)
    assert promotions == len(gate.promotions) - 1 >= 2
    assert {(v.name, v.incumbent, v.promoted, v.margin) for v in gate.history} == set(sent)
    assert not gate._session.balance.open
    gate.close()


def test_threads_that_submit_at_once():
    gate = opened(None, confidence=0.6, step=0.05)

    def person(number):
        for count in (30, 50, 75, 100):
            submit(gate, f"{number}-{count + number}")

    threads = [Thread(target=person, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recomputed(gate._book) == (16, len(gate.promotions) - 1)


def test_a_promotion_in_between_drops_the_comparison_unseen(tmp_path, monkeypatch):
    """While one process compares, another promotes. The first compares again, with the new incumbent, and its
    first reservation is given back."""
    slow, fast = opened(tmp_path / "gate"), Gate.at(tmp_path / "gate")
    settle, compared = Session.settle, []

    def slowly(session, settled, **options):
        compared.append(None)
        if len(compared) == 1:
            assert submit(fast, "1-80").promoted
        return settle(session, settled, **options)

    monkeypatch.setattr(Session, "settle", slowly)
    verdict = submit(slow, "0-70")  # better than the first, not than the one promoted meanwhile
    assert len(compared) == 3
    assert not verdict.promoted
    assert verdict.incumbent == "1-80"
    assert recomputed(slow._book) == (2, 1)
    returned = [event for event in slow._book.events() if event.kind == "return"]
    assert len(returned) == 1
    assert slow.spent == fast.spent == pytest.approx(sum(v.cost for v in slow.history))


def test_killed_between_reservation_and_record_costs_nothing(place):
    opened(place).close()
    process = people.Process(target=die_while_comparing, args=(place, "0-70"))
    process.start()
    process.join()
    assert process.exitcode == -9
    book = Book(place)
    assert [event.kind for event in book.events()] == ["open", "reserve"]
    gate = Gate.at(book)
    verdict = submit(gate, "1-71")
    weight = 1 / (2.10975 * 2 * math.log(2) ** 2)
    assert verdict.level == pytest.approx(-math.log(0.05 * weight))  # as if nothing had been reserved
    assert verdict.promoted
    assert gate.spent == verdict.cost
    assert submit(gate, "0-70").repeated is False  # What was never said can be asked.
    gate.close()


def test_a_crash_on_another_machine_is_given_back_after_patience(tmp_path, monkeypatch):
    gate = opened(tmp_path / "gate")

    append_all = Book.append_all

    def on_another_machine(book, entries, *, after):
        for entry in entries:
            if "reader" in entry.body:
                entry.body["reader"] = "anotherhost:1:ab"
        return append_all(book, entries, after=after)

    def crash(*_args, **_options):
        raise MemoryError

    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Book, "append_all", on_another_machine)
        elsewhere.setattr(Session, "settle", crash)
        with pytest.raises(MemoryError):
            submit(gate, "0-70")
    # Nobody here can tell whether that process lives, so its worst price counts for now.
    reserved = gate.spent
    assert reserved > 5
    verdict = submit(gate, "1-22")
    assert verdict.level > reserved
    assert verdict.place == 2
    later = time.time() + 122
    monkeypatch.setattr(time, "time", lambda: later)
    verdict = submit(gate, "1-23")
    assert verdict.place == 2  # The place is free again too.
    assert verdict.level < reserved
    assert not gate._session.balance.open
    assert gate.spent < math.log(2)


def test_a_slow_comparison_that_was_given_back_starts_again(tmp_path, monkeypatch):
    """Another process took it for dead and gave its reservation back: what it computed is dropped unseen."""
    slow, other = opened(tmp_path / "gate"), Gate.at(tmp_path / "gate")
    settle, compared = Session.settle, []

    def slowly(session, settled, **options):
        compared.append(None)
        if len(compared) == 1:
            with monkeypatch.context() as late:
                later = time.time() + 3_600
                late.setattr(time, "time", lambda: later)
                submit(other, "1-22")
        return settle(session, settled, **options)

    monkeypatch.setattr(Session, "settle", slowly)
    verdict = submit(slow, "0-70")
    assert verdict.promoted
    assert verdict.place == 2
    assert recomputed(slow._book) == (2, 1)


SOLVED = [dict(enumerate(solving(count).tolist())) for count in (18, 19, 20)]


def seconds(gate, number):
    """How long one submission takes."""
    start = time.perf_counter()
    gate.submit(SOLVED[number % 3], name=f"c{number}")
    return time.perf_counter() - start


def lines_read_to_open(place, monkeypatch):
    """How many lines of the book are read by opening the gate and looking at its status, two minutes later:
    the reservations of the last minute are read too, up to a fixed number."""
    count, now = 0, time.time()
    lines = Book.lines

    def counted(book, after=0):
        nonlocal count
        for line in lines(book, after):
            count += 1
            yield line

    with monkeypatch.context() as patched:
        patched.setattr(Book, "lines", counted)
        patched.setattr(time, "time", lambda: now + 120)
        gate = Gate.at(place)
        gate.status()
        gate.close()
    return count


@pytest.mark.parametrize("submissions", [1_500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_last_submission_is_as_fast_as_the_first(submissions, tmp_path, monkeypatch):
    gate, fresh = opened(tmp_path / "gate"), opened(tmp_path / "fresh")
    for number in range(submissions - 200):
        seconds(gate, number)
    # In turns, so that both are measured on a machine that is equally busy.
    last, first = zip(
        *((seconds(gate, submissions - 200 + number), seconds(fresh, number)) for number in range(200)),
        strict=True,
    )
    assert np.median(last) < 3 * np.median(first)
    assert gate.status()["submissions"] == submissions
    fresh.close()
    gate.close()
    assert lines_read_to_open(tmp_path / "gate", monkeypatch) < 2_500
    again = Gate.at(tmp_path / "gate")
    assert submit(again, "0-110").place == submissions + 1


def test_a_book_adds_up(tmp_path):
    book = Book(tmp_path / "gate")
    gate = opened(book)
    for name in ("0-22", "0-70", "1-71", "0-119"):
        submit(gate, name)
    balance = Balance()
    for event in book.events():
        balance.apply(event)
    assert balance.micro_nats / 1e6 == gate.spent
    assert balance.confirmed + balance.surprised == 4
    assert balance.surprised == len(gate.promotions) - 1
    assert len(FIRST) == TASKS


def test_a_promotion_during_a_comparison_makes_it_start_again(tmp_path, monkeypatch):
    """Two processes as two gates on one file: one promotes while the other compares."""
    tasks = range(300)
    place = tmp_path / "shared.gate"
    slow = Gate(None, incumbent={task: int(task < 150) for task in tasks}, name="v1", ledger=place)
    quick = Gate.at(place)
    compare_for_real, comparisons = slow._compared, []

    def compared(*arguments):
        settled = compare_for_real(*arguments)
        if not comparisons:
            assert quick.submit({task: int(task < 250) for task in tasks}, name="v2").promoted
        comparisons.append(settled)
        return settled

    monkeypatch.setattr(slow, "_compared", compared)
    verdict = slow.submit({task: int(task < 240) for task in tasks}, name="v3")
    assert [settled.released["promoted"] for settled in comparisons] == [True, False]
    assert (verdict.promoted, verdict.incumbent) == (False, "v2")
    assert [version.name for version in slow.promotions] == ["v1", "v2"]
    assert slow.spent == pytest.approx(sum(given.cost for given in slow.history))
    quick.close()
    slow.close()
