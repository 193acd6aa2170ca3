"""A gate: may this candidate replace the incumbent? Asked again and again, with one account.

One submission takes these steps:

1. Check the candidate against public facts. What is refused here costs nothing.
2. Fix the test from public facts and earlier verdicts, and put the worst price into the book.
3. Compare the candidate with the incumbent, task by task.
4. Put the verdict and its price into the book. Only then does the verdict leave.

If another candidate was promoted between 2 and 4, the comparison was with an old incumbent. It is dropped
unseen, its reservation is given back, and the candidate is compared with the new incumbent.
Proofs: ``docs/theory/gate.md``.
"""

from __future__ import annotations

import hmac
import itertools
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from holdfast import checks
from holdfast.asking import (
    NOBODY,
    Asked,
    Failed,
    FixedPrice,
    Released,
    Settled,
    may_be_alive,
    read_protected,
    reader,
)
from holdfast.coding import Account, PromotionAlphabet, Weights
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected
from holdfast.gates._tasks import (
    Candidate,
    GateDefinition,
    GivenScores,
    TaskScores,
    checked_name,
    content_of,
    default_step,
    store_content,
    stored_content,
    task_ids,
    text_of_each,
)
from holdfast.gates._verdict import (
    GateReport,
    Promotions,
    Verdict,
    Version,
    assumed,
    declaration_subject,
    promotion_subject,
    recorded_verdict,
    refused_verdict,
    report_rows,
    report_words,
    status_words,
)
from holdfast.guard import Asker, open_session
from holdfast.intervals import certified_gain
from holdfast.ledger import Book, BookError, Closed, Entry
from holdfast.typing import GateStatus, TaskScore

PROMISES = ("family", "fdr")
_MOST_TRIES = 1_000
_PATIENCE = 120  # seconds for a comparison that takes milliseconds
_REPORT, _REPORTED = "report", "report answers"


class Gate:
    """Promotes a candidate only if it is shown to be better than the incumbent, for any number of candidates.

    Guarantee: with ``promise="family"``, with probability ``confidence`` no promotion is ever wrong: each
    promoted candidate beats the incumbent that it replaced by more than the stated margin. With
    ``promise="fdr"``, the expected share of wrong promotions is at most 1 − ``confidence`` at every time.
    Both hold for any number of candidates, however they were made from earlier verdicts.
    Assumes: tasks (or clusters of tasks) are independent draws; the people or programs that make candidates
    know nothing about the scores on these tasks except verdicts (not checkable; every verdict repeats it).
    Reference: docs/theory/gate.md.

    Args:
        tasks: the ids of the tasks; None takes those that the incumbent has scores for.
        incumbent: the scores of the version in use: a mapping from task id to a score in [0, 1], or to a list
            of scores (repeats, which are averaged), or :class:`holdfast.results.Results`.
        promise: "family" or "fdr".
        confidence: the probability that goes with the promise.
        step: margins are stated in steps of this size; None takes about five tasks. A finer margin reveals
            more about the scores, so it costs more.
        minimum: the smallest gain that counts. A candidate is promoted if it is shown to gain more than this.
        clusters: task id to cluster, where tasks of one cluster depend on each other. Cluster sizes are taken
            as given.
        weight: with clusters, whose average gain is meant: "tasks" (each task counts once) or "clusters"
            (each cluster counts once).
        scores: "binary" (0 or 1), "fractions" (anything in [0, 1]), or "auto": as the incumbent's are.
        inputs: "hidden", or "public" if those who make candidates may know the tasks' inputs. Then a verdict
            is about these tasks only, and the test is the one for fractions.
        expect: about how many candidates there will be. A hint; the promise never depends on it.
        name: what the incumbent is called.
        outputs: task id to what the incumbent answered, or a digest of it. With it, candidates that differ on
            too few tasks are refused free of charge.
        reading: how result files are read, as options of :func:`holdfast.results.read_results`. The gate only
            remembers it, so that every candidate is read as the incumbent was.
        ledger: where the account is kept: a path, a PostgreSQL URL or a Book; None keeps it in memory.

    >>> incumbent = {task: int(task < 210) for task in range(300)}
    >>> gate = Gate(None, incumbent=incumbent)
    >>> candidate = {task: int(task < 240) for task in range(300)}
    >>> verdict = gate.submit(candidate, name="v2")
    >>> verdict.promoted, verdict.margin, gate.incumbent.name
    (True, 0.04, 'v2')
    """

    def __init__(
        self,
        tasks: Iterable[Any] | None,
        *,
        incumbent: Mapping[Any, TaskScore] | TaskScores | None = None,
        promise: Literal["family", "fdr"] = "family",
        confidence: float = 0.95,
        step: float | None = None,
        minimum: float = 0.0,
        clusters: Mapping[Any, Any] | None = None,
        weight: Literal["tasks", "clusters"] = "tasks",
        scores: Literal["auto", "binary", "fractions"] = "auto",
        inputs: Literal["hidden", "public"] = "hidden",
        expect: float | None = None,
        name: str | None = None,
        outputs: Mapping[Any, Any] | None = None,
        reading: Mapping[str, str] | None = None,
        ledger: str | Path | Book | None = None,
    ) -> None:
        of = "Gate"
        checks.choice(promise, "promise", PROMISES, of=of)
        checks.choice(weight, "weight", ("tasks", "clusters"), of=of)
        checks.choice(scores, "scores", ("auto", "binary", "fractions"), of=of)
        checks.choice(inputs, "inputs", ("hidden", "public"), of=of)
        confidence = checks.real(confidence, "confidence", "(0, 1)", of=of)
        minimum = checks.real(minimum, "minimum", "[0, 1)", of=of)
        expect = None if expect is None else checks.real(expect, "expect", "[1, 1e9]", of=of)
        given_scores = GivenScores.of(incumbent, outputs, "incumbent", of)
        ids = task_ids(given_scores.scores if tasks is None else tasks)
        groups = text_of_each(clusters, ids, "clusters")
        incumbent_scores = Candidate.of(ids, given_scores)
        # The sign test needs tasks that are drawn from one distribution. Given their inputs, tasks are not.
        same_law = groups is None and inputs == "hidden"
        binary = same_law and scores != "fractions" and incumbent_scores.is_binary
        if scores == "binary" and not binary:
            reason = "where a score is neither 0 nor 1"
            if not same_law:
                reason = "with clusters" if groups else "with public inputs: tasks are then not alike"
            raise InvalidArgument("scores", f"'fractions' {reason}", scores, of=of)
        if step is None:
            step = default_step(len(ids))
        self._definition = GateDefinition(
            ids=ids,
            groups=groups,
            weight=weight,
            binary=binary,
            promise=promise,
            confidence=confidence,
            step=checks.real(step, "step", "[1e-9, 1]", of=of),
            minimum=minimum,
            inputs=inputs,
            expect=expect,
            name=checked_name(_first_given(name, given_scores.name, "first incumbent")),
            reading=dict(reading or {}),
            contents=text_of_each(given_scores.contents, ids, "contents"),
        )
        self._definition.require_enough_tasks()
        self._open(ledger if isinstance(ledger, Book) else Book(ledger), incumbent_scores)

    @classmethod
    def at(cls, ledger: str | Path | Book) -> Gate:
        """Continue a gate that was opened before; its account book has everything about it.

        Args:
            ledger: where the account is kept: a path, a PostgreSQL URL or a Book.
        """
        if isinstance(ledger, (str, Path)) and "://" not in str(ledger) and not Path(ledger).is_file():
            raise QueryRejected(f"There is no gate at {str(ledger)!r}. Open one first: holdfast gate open.")
        book = ledger if isinstance(ledger, Book) else Book(ledger)
        opening = book.opening
        if opening is None or opening.body.get("strategy") != "gate":
            raise BookError(f"The account book {book.name} is not that of a gate.")
        gate = cls.__new__(cls)
        gate._definition = GateDefinition.from_bytes(stored_content(book, opening.body["definition"]))
        gate._open(book, Candidate.from_bytes(stored_content(book, opening.body["incumbent"])))
        return gate

    def _open(self, book: Book, incumbent: Candidate) -> None:
        """Open the book for this gate, or continue it if it was opened for the same gate."""
        self._book = book
        definition = self._definition
        contents = {"definition": definition.to_bytes(), "incumbent": incumbent.to_bytes()}
        if book.opening is None:
            for content in contents.values():
                store_content(book, content)
        agreed = {
            "strategy": "gate",
            "promise": definition.promise,
            "confidence": definition.confidence,
            "tasks": len(definition.ids),
            **{name: content_of(content) for name, content in contents.items()},
        }
        account = Account(1 - definition.confidence, weights=Weights(expect=definition.expect))
        self._session = open_session(book, account, agreed)
        opening = book.opening
        assert opening is not None
        self._promotions = Promotions(book, definition, opening.body["incumbent"])

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks, as texts."""
        return self._definition.ids

    @property
    def promise(self) -> str:
        """What is promised: "family" or "fdr"."""
        return self._definition.promise

    @property
    def confidence(self) -> float:
        """The probability that goes with the promise."""
        return self._definition.confidence

    @property
    def step(self) -> float:
        """The size of the steps in which margins are stated."""
        return self._definition.step

    @property
    def minimum(self) -> float:
        """The smallest gain that counts."""
        return self._definition.minimum

    @property
    def reading(self) -> dict[str, str]:
        """How result files are read, as options of :func:`holdfast.results.read_results`."""
        return dict(self._definition.reading)

    @property
    def incumbent(self) -> Version:
        """The version that a candidate has to beat now."""
        return self.promotions[-1]

    @property
    def promotions(self) -> tuple[Version, ...]:
        """The line of promotions: the first incumbent, then every candidate that was promoted, in order."""
        with self._session.turn():
            self._session.read()
            self._promotions.follow()
            return tuple(self._promotions.versions)

    @property
    def history(self) -> tuple[Verdict, ...]:
        """Every verdict, in the order of the book."""
        with self._session.turn():
            self._promotions.follow()
            lines = [released for _, released in self._session.history()]
            return tuple(self._verdict(released) for released in lines if _is_verdict(released))

    def history_page(self, after: int = 0, limit: int = 100) -> dict[int, Verdict]:
        """At most ``limit`` verdicts by their line in the account book: a long history a page at a time.

        Args:
            after: the last line of the page before; 0 for the first page.
            limit: how many verdicts a page has.
        """
        after_line = checks.whole(after, "after", at_least=0, of="Gate.history_page")
        most_verdicts = min(checks.whole(limit, "limit", of="Gate.history_page"), sys.maxsize)
        verdicts = (
            (line, released) for line, released in self._session.history(after_line) if _is_verdict(released)
        )
        return {line: self._verdict(released) for line, released in itertools.islice(verdicts, most_verdicts)}

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        self._session.read()
        return self._session.account.spent

    @property
    def closed(self) -> bool:
        """Whether the gate was closed by its report; then nothing can be submitted."""
        self._session.read()
        return self._session.balance.closed

    def needed_gain(self, baseline: float = 0.0) -> float:
        """The smallest observed gain that the next candidate is promoted for, if it fixes four tasks for each
        that it breaks; infinity if no gain is enough. With clusters this counts each cluster as one task, so
        it is a guide and not exact.

        Args:
            baseline: the incumbent's score. It limits how many tasks can be fixed.
        """
        self._session.read()
        with self._session.turn():
            self._promotions.follow()
            nats = self._level(self._session.account)
        definition = self._definition
        return certified_gain(
            definition.units, nats, baseline=baseline, binary=definition.binary, least=definition.minimum
        )

    def status(self) -> GateStatus:
        """What a person needs to know before submitting. Everything here is public."""
        needed = self.needed_gain()
        versions, balance = self.promotions, self._session.balance
        submissions = balance.confirmed + balance.surprised - self._promotions.declared
        return {
            "tasks": len(self.tasks),
            "promise": self.promise,
            "confidence": self.confidence,
            "step": self.step,
            "minimum": self.minimum,
            "submissions": submissions,
            "promotions": len(versions) - 1,
            "incumbent": versions[-1].name,
            "certified_gain": versions[-1].total if self.promise == "family" else None,
            "spent": self.spent,
            "needed_gain": needed if math.isfinite(needed) else None,
            "closed": balance.closed,
            "text": status_words(versions, submissions, needed, promise=self.promise, closed=balance.closed),
        }

    def submit(
        self,
        scores: Mapping[Any, TaskScore] | TaskScores,
        name: str | None = None,
        *,
        outputs: Mapping[Any, Any] | None = None,
        sealed: bool = False,
        asker: Asker = NOBODY,
    ) -> Verdict:
        """Compare a candidate with the incumbent, and promote it if it is shown to be better.

        A candidate is known by its ``name``. The same name again gets its first verdict, free of charge, and
        the new scores are not read. So name a candidate after its commit or version. Without a name it is
        recognised by its scores.

        Args:
            scores: as for the incumbent: a mapping from task id to score, or Results.
            name: what the candidate is called, and known by.
            outputs: task id to what the candidate answered, or a digest of it. Sealed outputs on hidden
                inputs are not compared: how many differ would reveal something about the inputs.
            sealed: whether the scores came here without anyone seeing them. Then the candidate needs a name,
                and the verdict assumes less.
            asker: on whose behalf, where several people share one gate.

        Returns:
            The verdict. Nothing else about the scores leaves.
        """
        given_scores = GivenScores.of(scores, outputs, "scores", "Gate.submit")
        candidate = Candidate.of(self.tasks, given_scores)
        self._definition.require_same_tasks(given_scores.contents)
        if self._definition.binary and not candidate.is_binary:
            raise QueryRejected(
                "This gate compares scores of 0 and 1, and at least one score here is neither. Open a gate "
                "with scores='fractions' for partial credit or repeats."
            )
        shown_name = checked_name(_first_given(name, given_scores.name, "unnamed candidate"))
        if name is None and sealed:
            raise QueryRejected(
                "Sealed scores need a name for the candidate, such as a commit. Without a name, equal scores "
                "would get the same verdict again, and that would reveal that two candidates' scores "
                "are equal."
            )
        if name is None:
            key = f"scores {hmac.new(self._book.secret, candidate.to_bytes(), 'sha256').hexdigest()}"
        else:
            key = f"candidate {name}"
        with self._session.turn():
            return self._submitted(candidate, shown_name, key, sealed, asker)

    def declare_seen(self, scores: int) -> float:
        """Declare that people who make candidates have seen ``scores`` total scores on these tasks, and pay
        for these scores. Returns the nats. Later candidates may then depend on them.

        A total of 0/1 scores on n tasks has n + 1 values, so each total costs ln(n + 1) nats.

        Args:
            scores: how many total scores were seen. Scores of single tasks cannot be paid for.
        """
        count = checks.whole(scores, "scores", of="Gate.declare_seen")
        if not self._definition.binary:
            raise QueryRejected(
                "Seen scores can be paid for only if every score is 0 or 1: a total of fractions has too "
                "many values. Keep the scores sealed (holdfast gate run), or submit every candidate."
            )
        nats = count * math.log(len(self.tasks) + 1)
        with self._session.turn(), reader() as process:
            for _ in range(_MOST_TRIES):
                self._session.read()
                self._promotions.follow()
                key = declaration_subject(self._promotions.declared)
                asked = Asked(key, f"{count} scores were seen", lambda _: FixedPrice(nats), process)
                reserved = self._session.reserve([asked]).get(key)
                if reserved is None:
                    continue  # Another process declared scores under this number.
                settled = Settled(key, reserved.line, nats, False, {"seen": count})
                if self._session.settle([settled]):
                    return nats
        raise BookError("Other processes declared scores at the same time. Try again; nothing was charged.")

    def report(self) -> GateReport:
        """Close the gate for good, then show the exact score of every version and its gain over the first.

        Asking again returns the same report.
        """
        with self._session.turn():
            self._session.read()

            def body(account: Account) -> dict[str, Any]:
                self._promotions.follow()
                return {"versions": len(self._promotions.versions), "nats": self._report_nats(account)}

            fixed = self._session.close_for_report(_REPORT, body, permit=None)
            if fixed is None:
                raise Closed("The gate is closed, so it cannot give a report any more.")
            self._promotions.follow()
            versions = tuple(self._promotions.versions[: fixed["versions"]])
            if self._session.act_about(_REPORTED) is None:
                self._session.record(
                    "act", {"versions": self._exact_rows(versions, fixed["nats"])}, _REPORTED
                )
            reported = self._session.act_about(_REPORTED)
            assert reported is not None
            line, answers, receipt = reported
        return GateReport(
            versions=tuple(answers["versions"]),
            text=report_words(
                self._definition,
                submissions=self._session.account.steps - self._promotions.declared,
                promotions=len(versions) - 1,
                book=self._book.identity,
                line=line,
            ),
            assumed=assumed(self._definition, sealed=None),
            receipt=receipt,
        )

    def close(self) -> None:
        """Close the account book's file; the gate can be opened again with :meth:`Gate.at`."""
        self._session.close()

    def _submitted(self, candidate: Candidate, name: str, key: str, sealed: bool, asker: Asker) -> Verdict:
        for _ in range(_MOST_TRIES):
            self._session.read()
            self._give_back_interrupted()
            self._promotions.follow()
            released = self._session.released(key)
            if released is not None:
                return replace(self._verdict(released), repeated=True, cost=0.0)
            # The maker of a candidate knows its outputs, unless both scores and inputs are hidden from them.
            knows_outputs = not sealed or self._definition.inputs == "public"
            refusal = self._differs_too_little(candidate, name) if knows_outputs else None
            if refusal is not None:
                return refusal
            settled = self._compare_once(candidate, name, key, sealed, asker)
            if settled is None:
                continue
            if settled.failed:
                raise QueryRejected(
                    f"The scores could not be compared. This attempt cost {settled.nats:.3g} nats.",
                    asked=settled.nats,
                    spent=self.spent,
                )
            self._promotions.follow()
            released = self._session.released(key)
            assert released is not None
            return self._verdict(released)
        raise BookError("Other candidates were promoted faster than this one could be compared. Try again.")

    def _compare_once(
        self, candidate: Candidate, name: str, key: str, sealed: bool, asker: Asker
    ) -> Settled | None:
        """Reserve, compare, record. None where another process gave this verdict meanwhile, or promoted
        another candidate: then the comparison is dropped unseen."""
        with reader() as process:
            asked = Asked(key, name, self._prepare, process, asker)
            reserved = self._session.reserve([asked]).get(key)
            if reserved is None or reserved.prepared is None:
                return None
            versions = reserved.prepared.versions
            settled = self._compared(reserved.prepared, candidate, name, key, sealed, reserved.line)
            recorded = self._session.settle(
                [settled], unless=lambda: self._promotions.promoted_since(versions)
            )
        return recorded[0] if recorded else None

    def _give_back_interrupted(self) -> None:
        """Give back reservations of comparisons that a crash interrupted. Nothing about them left, and
        whether a process dies while it compares does not depend on the scores. A process that is only slow
        finds its reservation gone and starts again."""
        now = time.time()
        interrupted = [
            line
            for line, body in self._session.balance.open.items()
            if not may_be_alive(body["reader"]) or now - body["at"] > _PATIENCE
        ]
        if interrupted:
            self._session.settle([], returned=interrupted)

    def _prepare(self, account: Account) -> _Prepared:
        """Everything about a comparison but the scores, from public facts and earlier verdicts."""
        self._promotions.follow()
        nats = self._level(account)
        definition = self._definition
        if definition.steps_shown(np.ones(len(definition.ids)), nats) is None:
            raise BudgetSpent(
                f"No candidate can be promoted any more: {len(definition.ids):,} tasks are too few to show "
                "anything at the error probability that is left. Open a new gate on fresh tasks.",
                spent=account.spent,
            )
        prices = PromotionAlphabet(definition.most_steps, account.experience)
        return _Prepared(
            nats, prices, len(self._promotions.versions), account.steps - self._promotions.declared + 1
        )

    def _level(self, account: Account) -> float:
        """ln(1/δ) of the next comparison."""
        nats = account.nats()
        return nats - math.log(len(self._promotions.versions)) if self.promise == "fdr" else nats

    def _compared(
        self, prepared: _Prepared, candidate: Candidate, name: str, key: str, sealed: bool, line: int
    ) -> Settled:
        """Compare the scores, the only place that does; the result is what may leave."""
        incumbent = self._promotions.newest_scores()

        def compare() -> int:
            steps = self._definition.steps_shown(candidate.values - incumbent.values, prepared.nats)
            if steps is None:
                return -1
            # In here, because only a promotion needs it: an error outside would reveal one free of charge.
            store_content(self._book, candidate.to_bytes())
            return steps

        outcome = read_protected(compare, int)
        if isinstance(outcome, Failed):
            return Settled(key, line, prepared.prices.failure_price, True, None, failed=True)
        steps = None if outcome < 0 else outcome
        released: dict[str, Any] = {
            "promoted": steps is not None,
            "name": name,
            "steps": steps,
            "incumbent": self._promotions.newest.name,
            "place": prepared.place,
            "nats": prepared.nats,
            "sealed": sealed,
        }
        acts: tuple[Entry, ...] = ()
        if steps is not None:
            body = {
                "name": name,
                "steps": steps,
                "place": prepared.place,
                "scores": content_of(candidate.to_bytes()).under(self._book.secret),
            }
            acts = (Entry("act", body, promotion_subject(prepared.versions)),)
        return Settled(key, line, prepared.prices.price(steps), steps is not None, released, acts=acts)

    def _differs_too_little(self, candidate: Candidate, name: str) -> Verdict | None:
        """A free refusal for a candidate whose outputs differ on too few tasks, whatever its scores are."""
        incumbent = self._promotions.newest_scores()
        if candidate.outputs is None or incumbent.outputs is None:
            return None
        differs = np.array(
            [mine != theirs for mine, theirs in zip(candidate.outputs, incumbent.outputs, strict=True)]
        )
        nats = self._level(self._session.account)
        if self._definition.steps_shown(differs.astype(np.float64), nats) is not None:
            return None
        count = int(differs.sum())
        return refused_verdict(
            self._definition, name, self._promotions.newest.name, differing=count, level=nats
        )

    def _verdict(self, released: Released) -> Verdict:
        return recorded_verdict(self._definition, released)

    def _report_nats(self, account: Account) -> float:
        """ln(1/δ) of each interval of the report: a score for every version, a gain for all but the first."""
        intervals = 2 * len(self._promotions.versions) - 1
        if self.promise == "family":
            return account.last_nats(intervals)
        return -math.log(account.failure) + account.spent + math.log(intervals)

    def _exact_rows(self, versions: Sequence[Version], nats: float) -> list[dict[str, Any]]:
        scores = (self._promotions.scores_of(number).values for number in range(len(versions)))
        return report_rows(self._definition, versions, scores, nats)


@dataclass(frozen=True)
class _Prepared:
    """One comparison, fixed before the scores are looked at."""

    nats: float
    prices: PromotionAlphabet
    versions: int
    place: int
    plan: None = None

    @property
    def worst_price(self) -> float:
        return self.prices.worst_price


def _first_given(*names: str | None) -> str:
    return next(name for name in names if name is not None)


def _is_verdict(released: Released) -> bool:
    return released.answer is not None and "promoted" in released.answer
