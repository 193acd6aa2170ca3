"""A board: many people submit predictions, scores stay valid, and a sealed part decides once at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.asking import NOBODY, Failed, Member, Released, answer_together, read_protected
from holdfast.boards._predictions import (
    Checked,
    Expected,
    Predictions,
    fingerprint_of_ids,
    require_different,
)
from holdfast.boards._rules import (
    COMPARED,
    STEPS,
    Best,
    ComparisonStrategy,
    FinalScore,
    LadderStrategy,
    Submission,
    comparison_agreed,
    score_reading,
)
from holdfast.coding import MICRO, Account
from holdfast.engines import open_rows
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.guard import Asker, Content, open_session
from holdfast.intervals import Interval
from holdfast.ledger import Balance, Book, BookError
from holdfast.readings import Part, Question
from holdfast.scoring import ScoreQuestion, score_question
from holdfast.typing import BoardMetric

if TYPE_CHECKING:
    from holdfast.typing import TableLike

# Whether more is better, and where a board starts before anyone has submitted.
_METRICS = {"accuracy": (True, 0.0), "brier": (False, 1.0)}
# In a line of the book about the finalists that a person chose: their keys.
_CHOSEN = "chosen finalists"
_NO_SEALED_PART = "This board has no sealed part, so it has no final. The standing is the result."


class Board:
    """A leaderboard whose scores stay valid however often people submit.

    ``labels`` is a table with the ``target`` and the column ``id`` that names its rows; a share of its rows
    (``sealed``) is set aside for one final evaluation, and submissions are scored on the rest, the live rows.
    A submission is a table with every id once and a prediction for it. A table that is no submission is
    refused before a label is read, and costs nothing. If the database does not return the labels within
    ``seconds``, the submission is charged as one that failed. ``metric`` is "accuracy" or "brier".
    ``split_seed`` decides which rows are sealed. The account is kept in ``ledger``, and predictions in the
    folder ``keep``; None keeps them in memory.

    With ``compare="paired"`` a submission is compared with the best one row by row, and climbs if it is shown
    to be better: on new rows, and by how many steps at least. With ``compare="scores"`` it climbs if its
    score on the live rows is a step above the best value, and the score is shown with an interval. This
    detects only larger gains, and does not show that the true score is better. A ``step`` is one over the
    square root of the live rows unless it is given, and ``start`` is the value that the first submission has
    to beat. A book keeps the rule with which it was opened.

    A submission is identified by its person and all its predictions. Two that agree on the live rows get the
    same result, which is paid for once. Each has its own place in the standing and its own score in the
    final.

    Each person may choose up to ``most_finalists`` of their own submissions for the final
    (:meth:`choose_finalists`). If a person chooses none, their best one is in it.

    Guarantee: with probability ``confidence`` all intervals and margins of the standing hold; with the same
    probability all intervals of the final hold. Both hold even if people know which rows are sealed.
    Assumes: the labelled rows are independent draws from one distribution, and predictions were made without
    them, except for what the board released.
    Reference: docs/theory/code-guard.md, "Boards"; the sealed part is a fixed query for each finalist.

    >>> rng = np.random.default_rng(0)
    >>> labels = {"id": np.arange(4000), "y": rng.integers(0, 2, 4000)}
    >>> board = Board(labels, target="y", start=0.5)
    >>> guess = {"id": np.arange(4000), "prediction": np.ones(4000, dtype=int)}
    >>> board.submit(guess).better
    False
    """

    def __init__(
        self,
        labels: TableLike,
        *,
        target: str,
        id: str = "id",
        metric: BoardMetric = "accuracy",
        compare: Literal["paired", "scores"] | None = None,
        confidence: float = 0.95,
        step: float | None = None,
        start: float | None = None,
        sealed: float = 0.5,
        most_finalists: int = 2,
        split_seed: int = 0,
        seconds: float | None = None,
        ledger: str | Path | Book | None = None,
        keep: str | Path | None = None,
    ) -> None:
        checks.choice(metric, "metric", tuple(_METRICS), of="Board")
        self.metric, self.target = metric, target
        self.confidence = checks.real(confidence, "confidence", "(0, 1)", of="Board")
        sealed = checks.real(sealed, "sealed", "[0, 1)", of="Board")
        self.most_finalists = checks.whole(most_finalists, "most_finalists", of="Board")
        seed = checks.whole(split_seed, "split_seed", at_least=0, of="Board")
        rows = open_rows(labels)
        for column in (id, target):
            if column not in rows.schema:
                raise QueryRejected(
                    f"The labels have no column {column!r}; there are {', '.join(rows.schema)}."
                )
        self._expected = Expected.of(rows.schema[target], target, metric)
        table = rows.frame([id, target])
        require_different(table[id])
        if len(table) < 4:
            raise NotEnoughRows(4, len(table), what="A board")
        limit = None if seconds is None else checks.real(seconds, "seconds", "(0, inf)", of="Board")
        self.upward, default_start = _METRICS[metric]
        self.start = default_start if start is None else checks.real(start, "start", "[0, 1]", of="Board")
        is_sealed = np.random.default_rng(seed).permutation(len(table)) < round(sealed * len(table))
        count = int((~is_sealed).sum())
        self.step = 1 / math.sqrt(count) if step is None else checks.real(step, "step", "(0, 1]", of="Board")
        self._book = ledger if isinstance(ledger, Book) else Book(ledger)
        self.compare, compare_term = comparison_agreed(compare, self._book)
        table = _by_id(table, id, self._book)
        self._predictions = Predictions(table[id], self._expected, keep)
        self._sealed_mask: NDArray[np.bool_] = is_sealed
        self._live = _part(table, target, metric, ~is_sealed)
        self._sealed = _part(table, target, metric, is_sealed) if is_sealed.any() else None
        for part in (self._live, self._sealed):
            if part is not None:
                part.rows.limit(limit)
        agreed = {
            "strategy": "board",
            "target": target,
            "metric": metric,
            **compare_term,
            "confidence": self.confidence,
            "step": self.step,
            "start": self.start,
            "sealed": {"share": sealed, "seed": seed},
            "rows": count,
            "ids": fingerprint_of_ids(table[id]),
            "labels": replace(Content.of(table, open_rows(table)), former=None),
        }
        self._session = open_session(self._book, Account(1 - self.confidence), agreed)
        self._strategy: LadderStrategy | ComparisonStrategy
        if self.compare == "paired":
            self._strategy = ComparisonStrategy(self.step, self.upward, self._best_for)
        else:
            self._strategy = LadderStrategy(count, self.step, self.upward, lambda: self.best)
        self._lock = RLock()
        self._seen = 0  # the line of the book up to which the following are known
        self._scored: list[Submission] = []  # in the order of the book
        self._better: list[Submission] = []  # those of the standing, in the same order
        self._lines: dict[str, int] = {}  # the line that recorded each of these, by key
        self._promotions: dict[str, int] = {}  # how many promotions led to each of these, by key
        self._chosen: dict[str, tuple[str, ...]] = {}  # finalists that people chose

    @property
    def rows(self) -> int:
        """How many rows a submission is scored on before the final."""
        return self._live.rows.count

    @property
    def sealed_rows(self) -> int:
        """How many rows decide the final; 0 where there is none."""
        return 0 if self._sealed is None else self._sealed.rows.count

    @property
    def ids(self) -> list[Any]:
        """Every id that a submission has to have a prediction for, in an order that says nothing about the
        labels."""
        return list(self._predictions.ids)

    @property
    def labels_are_text(self) -> bool:
        """Whether the labels are texts. Then predictions must be texts too."""
        return self._expected.text

    @property
    def best(self) -> float:
        """The best value released so far, or where the board started. Row by row it is the score that the
        best submission is shown to reach."""
        standing = self.standing
        return standing[0].value if standing else self.start

    @property
    def standing(self) -> tuple[Submission, ...]:
        """Every submission that beat the best of its time, the best first, and of equal ones the earliest.

        Where two processes score at once, a submission may beat the best of its time and still come after
        another one that was scored meanwhile.
        """
        with self._lock:
            self._read_book()
            return tuple(sorted(self._better, key=self._place))

    def submissions(self, by: str | None = None) -> tuple[Submission, ...]:
        """Every submission that was scored, with its result, in the order of the book.

        Args:
            by: Only the submissions of this person; None for those of all.

        >>> labels = {"id": [1, 2, 3, 4], "y": [0, 1, 0, 1]}
        >>> board = Board(labels, target="y")
        >>> result = board.submit({"id": [1, 2, 3, 4], "prediction": [0, 0, 0, 0]}, asker=Asker("ann"))
        >>> board.submissions("ann") == (result,), board.submissions("bob")
        (True, ())
        """
        with self._lock:
            self._read_book()
            return tuple(entry for entry in self._scored if by is None or entry.by == by)

    def _read_book(self) -> None:
        """Apply the lines that were added to the book since the last look; the caller holds the lock."""
        for event in self._session.events(self._seen):
            self._seen = event.sequence
            released = self._session.released_by(event)
            if released is not None:
                entry = self._submission(released)
                self._scored.append(entry)
                if entry.better:
                    self._better.append(entry)
                    self._lines[entry.key] = event.sequence
                    self._promotions[entry.key] = self._promotions.get(entry.compared_with or "", 0) + 1
            elif event.kind == "act" and _CHOSEN in event.body:
                self._chosen[event.body["by"]] = tuple(event.body[_CHOSEN])

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        self._session.read()
        return self._session.account.spent

    def submit(self, predictions: TableLike | Mapping[Any, Any], *, asker: Asker = NOBODY) -> Submission:
        """Score a table of ``predictions``. The same predictions again get the same result, at no cost.
        ``asker`` says who submits."""
        return self._score(self._predictions.check(predictions, asker.name), asker)

    def take_in(
        self,
        predictions: TableLike | Mapping[Any, Any],
        *,
        by: str = "",
        permit: Callable[[str], None] | None = None,
    ) -> str:
        """Check and keep ``predictions`` without scoring them, for a blind phase; returns their key. ``by``
        is who submits.

        ``permit`` is asked with the key before anything is kept, and refuses by raising.
        """
        submission = self._predictions.check(predictions, by)
        if permit is not None:
            permit(submission.key)
        self._predictions.keep(submission)
        return submission.key

    def score(self, key: str, *, asker: Asker | None = None) -> Submission:
        """Score the predictions that were taken in under ``key``: reserve, read, record, release. The
        submission still belongs to the person who submitted it; ``asker`` says who pays, if that is another
        person."""
        submission = self._predictions.read(key)
        return self._score(submission, Asker(submission.by) if asker is None else asker)

    def score_all(self, keys: Sequence[str]) -> list[Submission | None]:
        """Score predictions that were taken in, by their ``keys``, before any of them is scored; None stands
        for one that could not be scored.

        They are one batch: they do not pay for each other, and later submissions pay for all of them. Each is
        settled by itself. After a crash, call it again with the same keys: it continues where it stopped.
        Submissions that were settled, failed ones too, are not charged again.

        Guarantee: that of the board.
        Assumes: none of them was made with the help of another one's result.
        Reference: docs/theory/code-guard.md, "Asked together".
        """
        submissions = {key: self._kept_submission(key) for key in keys}
        members = [self._member(submission) for submission in submissions.values() if submission is not None]
        with self._lock:
            answer_together(self._session, self._strategy, members, self._live)
            verdicts = {member.facts["submission"]: self._verdict(member) for member in members}
        return [verdicts.get(key) for key in keys]

    def choose_finalists(
        self, keys: Sequence[str], *, by: str = "", permit: Callable[[], None] | None = None
    ) -> tuple[str, ...]:
        """Choose which of a person's own submissions are scored in the final, in place of any that the
        person chose before. The choice is written to the book, and can be changed until the final.

        Without a choice, or with an empty one, it is the person's best submission.

        Guarantee: that of the final, because the finalists are fixed before a sealed row is read.

        Args:
            keys: Keys of at most ``most_finalists`` submissions of this person, better than the best or not.
            by: Who chooses.
            permit: Is called before a choice is written that differs from the last one; refuses by raising.

        >>> labels = {"id": [1, 2, 3, 4], "y": [0, 1, 0, 1]}
        >>> board = Board(labels, target="y")
        >>> result = board.submit({"id": [1, 2, 3, 4], "prediction": [0, 0, 0, 0]}, asker=Asker("ann"))
        >>> board.choose_finalists([result.key], by="ann") == board.finalists("ann") == (result.key,)
        True
        """
        chosen = tuple(dict.fromkeys(keys))
        if self._sealed is None:
            raise QueryRejected(_NO_SEALED_PART)
        if len(chosen) > self.most_finalists:
            most = "1 submission" if self.most_finalists == 1 else f"{self.most_finalists:,} submissions"
            raise QueryRejected(f"Choose at most {most} for the final; got {len(chosen):,}.")
        for key in chosen:
            submission = self._kept_submission(key)
            # The message does not reveal whether somebody else submitted it.
            if submission is None or submission.by != by:
                raise QueryRejected(f"You have no submission {key!r} on this board.")
        if permit is not None and chosen != self.finalists(by):
            permit()

        def line() -> dict[str, Any] | None:
            if self.finished:
                raise QueryRejected("The final is over; the finalists cannot be changed any more.")
            self._read_book()
            if self._chosen.get(by, ()) == chosen:
                return None
            return {_CHOSEN: list(chosen), "by": by, "at": int(time.time())}

        with self._lock:
            self._session.record_newest(line, f"finalists of {by}")
            self._read_book()
            return self._chosen.get(by, ())

    def finalists(self, by: str) -> tuple[str, ...]:
        """The keys that the person ``by`` chose for the final; empty where their best submission is taken."""
        with self._lock:
            self._read_book()
            return self._chosen.get(by, ())

    def final(self, finalists: Sequence[str] | None = None) -> tuple[FinalScore, ...]:
        """Score the ``finalists`` on the sealed part, once. Without keys these are the submissions that each
        person chose. For a person who chose none it is their best one; of equal ones, the latest.

        The finalists are written down before the sealed rows are read, and nobody else is ever scored on
        them; asking again returns the same.
        """
        if self._sealed is None:
            raise QueryRejected(_NO_SEALED_PART)
        recorded = self._book.about("final scores", "act")
        if recorded is None:
            scores = self._final_scores(self._sealed, self._recorded_finalists(finalists))
            body = self._session.record(
                "act", {"scores": [score.to_dict() for score in scores]}, "final scores"
            )
        else:
            body = recorded.body
        return tuple(FinalScore(**score) for score in body["scores"])

    @property
    def next_finalists(self) -> list[str]:
        """The keys that `final` would score now: what each person chose, or their best submission, and of
        equal ones the latest."""
        with self._lock:
            return self._finalists()

    @property
    def finished(self) -> bool:
        """Whether the sealed part was used."""
        return self._book.about("final", "act") is not None

    def close(self) -> None:
        """Close the account book's file."""
        self._session.close()

    def _recorded_finalists(self, finalists: Sequence[str] | None) -> list[str]:
        """The finalists in the book; if it has none yet, these are checked and written down."""

        def line() -> dict[str, Any] | None:
            if self.finished:
                return None
            keys = self._finalists() if finalists is None else list(dict.fromkeys(finalists))
            if not keys:
                raise QueryRejected(
                    "There is no submission to score: none is better than the start, and nobody chose a "
                    "finalist."
                )
            for key in keys:
                self._predictions.read(key)
            return {"finalists": keys}

        with self._lock:
            # Made from the newest book, so that a choice is either in it before the final or refused.
            self._session.record_newest(line, "final")
        recorded = self._book.about("final", "act")
        return [] if recorded is None else list(recorded.body["finalists"])

    def _finalists(self) -> list[str]:
        """What each person chose, or their best submission, and of equal ones the latest."""
        self._read_book()
        best: dict[str, Submission] = {}
        for entry in self._better:
            if self._place(entry) <= self._place(best.get(entry.by, entry)):
                best[entry.by] = entry
        keys: dict[str, tuple[str, ...]] = {by: (entry.key,) for by, entry in best.items()}
        keys.update({by: chosen for by, chosen in self._chosen.items() if chosen})
        return sorted(key for chosen in keys.values() for key in chosen)

    def _final_scores(self, sealed: Part, finalists: list[str]) -> list[FinalScore]:
        nats = -math.log((1 - self.confidence) / max(1, len(finalists)))
        submissions = [self._kept_submission(key) for key in finalists]
        scores = [
            self._final_score(submission, sealed, nats)
            for submission in submissions
            if submission is not None
        ]
        return sorted(scores, key=lambda score: self._rank(score.value))

    def _rank(self, value: float) -> float:
        """Smaller is better."""
        return -value if self.upward else value

    def _place(self, entry: Submission) -> tuple[float, int]:
        """What the standing is ordered by. A submission that is better than another one by an unknown part of
        a step has the same value; more promotions led to it."""
        return self._rank(entry.value), -self._promotions[entry.key]

    def _best_for(self, question: Question, account: Account) -> Best:
        """What a submission is compared with: the best one when its reservation was written, which is now if
        there is none yet. So all of a batch are compared with the best before the batch: the others of the
        batch must not decide which claim is tested, because none of the batch pays for their results.

        A submission whose file cannot be read any more is skipped. What a submission is compared with still
        follows from public facts.
        """
        reserved = self._book.about(question.key, "reserve") if account.together > 1 else None
        best, standing = Best("", self.start, None), self.standing
        for entry in standing:
            if reserved is None or self._lines[entry.key] < reserved.sequence:
                submission = self._kept_submission(entry.key)
                if submission is not None:
                    scored = self._question(submission, self._live, ~self._sealed_mask)
                    best = Best(entry.key, entry.value, scored)
                    break
        if reserved is None or not standing or standing[0].key == best.key:
            return best
        gain = self._rank(best.bound) - self._rank(standing[0].value)
        return replace(best, reached=max(0, round(gain / self.step)))

    def _score(self, submission: Checked, asker: Asker) -> Submission:
        """Score a submission that passed the check. It is kept after it may be scored, and before it is
        scored."""

        def permit(balance: Balance, price: int) -> None:
            if asker.permit is not None:
                asker.permit(balance, price)
            self._predictions.keep(submission)

        member = self._member(submission, replace(asker, permit=permit))
        with self._lock:
            failed = answer_together(self._session, self._strategy, [member], self._live)
            verdict, price = self._verdict(member), failed.get(member.question.key, 0.0)
        if verdict is None:
            raise QueryRejected(
                f"The predictions could not be scored. This attempt cost {price:.3g} nats.",
                asked=price,
                spent=self.spent,
            )
        return verdict

    def _member(self, submission: Checked, asker: Asker | None = None) -> Member:
        question = self._question(submission, self._live, ~self._sealed_mask)
        facts = {"submission": submission.key, "by": submission.by}
        return Member(question, Asker(submission.by) if asker is None else asker, facts)

    def _verdict(self, member: Member) -> Submission | None:
        """The result of a scored submission, or of one with the same live predictions; None if it failed."""
        released = self._session.released(member.question.key)
        if released is None:
            return None
        if released.answer is not None and released.answer["submission"] != member.facts["submission"]:
            subject = f"submission {member.facts['submission']}"
            released = self._session.repeat(released, subject, member.asker, **member.facts)
        return self._submission(released)

    def _kept_submission(self, key: str) -> Checked | None:
        """A submission that was kept; None if it cannot be read, or would not pass the check now."""
        try:
            return self._predictions.read(key)
        except QueryRejected:
            return None

    def _final_score(self, submission: Checked, sealed: Part, nats: float) -> FinalScore:
        question = self._question(submission, sealed, self._sealed_mask)
        count = sealed.rows.count
        reading = score_reading(question, nats, count)
        value = read_protected(lambda: question.moments(sealed).mean, float)
        if isinstance(value, Failed):
            raise QueryRejected("The sealed labels could not be read. Nothing was released; try again.")
        interval: Interval = reading.around(value - question.resolution, value + question.resolution)
        return FinalScore(submission.key, submission.by, value, interval.low, interval.high, self.confidence)

    def _question(self, submission: Checked, part: Part, mask: NDArray[np.bool_]) -> ScoreQuestion:
        return score_question(
            submission.values[mask],
            target=self.target,
            metric=self.metric,
            guess=None,
            name=None,
            protected=part,
        )

    def _submission(self, released: Released) -> Submission:
        answer = released.answer
        if answer is None:
            raise BookError("A line of the account book should contain a score, and does not.")
        numbers, margin = answer["numbers"], None
        if self.compare == "paired":
            steps = numbers[STEPS]
            margin = None if steps is None else steps * self.step
        else:
            steps = numbers["cells from the guess"]
        return Submission(
            key=answer["submission"],
            by=answer["by"],
            value=answer["value"],
            low=answer["low"],
            high=answer["high"],
            steps=steps or 0,
            confidence=self.confidence,
            cost=released.micro_nats / MICRO,
            receipt=released.receipt,
            margin=margin,
            compared_with=numbers.get(COMPARED),
        )


def _by_id(table: Any, id: str, book: Book) -> Any:
    """The labels in the order of their ids. The order of the table may say something about the labels, and
    keys and lists of ids would reveal it.

    A book that was opened with the order of the table keeps it, because rows were sealed by their place.
    """
    ids = table[id]
    numbers = isinstance(ids.dtype, np.dtype) and ids.dtype.kind in "iuf"
    ordered = table.sort_values(id, key=None if numbers else lambda column: column.map(str))
    opening = book.opening
    if opening is not None and opening.body.get("ids") == fingerprint_of_ids(ids):
        return table
    return ordered.reset_index(drop=True)


def _part(table: Any, target: str, metric: str, mask: NDArray[np.bool_]) -> Part:
    import pandas

    labels = table.loc[mask, [target]].reset_index(drop=True)
    if metric == "brier":  # Booleans with nulls come as objects.
        labels[target] = pandas.to_numeric(labels[target])
    rows = open_rows(labels).stored()
    rows.seal()
    return Part(rows, training=False, data_rows=int(mask.sum()))
