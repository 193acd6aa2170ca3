"""A board: many people submit predictions, scores stay valid, and a sealed part decides once at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.engines import open_rows
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.guard._account import MICRO, Account
from holdfast.guard._content import Content, open_session
from holdfast.guard._ladder import LadderStrategy
from holdfast.guard._predictions import Predictions
from holdfast.guard._question import Part
from holdfast.guard._readings import BoundedMean, Reading, ShareOfAll
from holdfast.guard._scores import ScoreQuestion, score_question
from holdfast.guard._seam import pass_through
from holdfast.guard._session import NOBODY, Asker, ReadingFailed, Released
from holdfast.intervals import Interval
from holdfast.ledger import Book, BookError, Receipt
from holdfast.records import Record

# Whether more is better, and where a board starts before anyone has submitted.
_METRICS = {"accuracy": (True, 0.0), "brier": (False, 1.0)}


@dataclass(frozen=True, repr=False)
class Submission(Record):
    """What a submission is told: whether it beat the best by at least a step, and an interval for its true
    score.

    Guarantee: with probability ``confidence`` every interval the board ever released contains its true score,
    whatever was tried in between. ``steps`` is how many steps it is better, 0 for "not better"; the interval
    then says no more than that.
    """

    key: str
    by: str
    value: float
    low: float
    high: float
    steps: int
    confidence: float
    cost: float
    receipt: Receipt | None = field(default=None, repr=False)

    @property
    def better(self) -> bool:
        """Whether it beat the best there was."""
        return self.steps > 0


@dataclass(frozen=True, repr=False)
class FinalScore(Record):
    """A score on the sealed part: the plain value, and an interval that holds with those of all finalists."""

    key: str
    by: str
    value: float
    low: float
    high: float
    confidence: float


class Board:
    """A leaderboard whose scores stay valid however often people submit.

    ``labels`` is a table with a column of row ids and the ``target``; a share of its rows (``sealed``) is set
    aside for one final evaluation, and submissions are scored on the rest. A submission is a table with every
    id once and a prediction for it. Labels that the database does not hand over within ``seconds`` are not
    waited for: the submission is charged as one that failed.

    Guarantee: with probability ``confidence`` all intervals of the standing hold; with the same probability
    all intervals of the final hold.
    Assumes: the labelled rows are independent draws from one distribution, and predictions were made without
    them but for what the board released.
    Reference: theory 2.2 with the alphabet of :class:`LadderGrid`; the sealed part is a fixed query for each
    finalist.

    >>> rng = np.random.default_rng(0)
    >>> labels = {"id": np.arange(4000), "y": rng.integers(0, 2, 4000)}
    >>> board = Board(labels, target="y", start=0.5)
    >>> guess = {"id": np.arange(4000), "prediction": np.ones(4000, dtype=int)}
    >>> board.submit(guess).better
    False
    """

    def __init__(
        self,
        labels: Any,
        *,
        target: str,
        id: str = "id",
        metric: str = "accuracy",
        confidence: float = 0.95,
        step: float | None = None,
        start: float | None = None,
        sealed: float = 0.5,
        split_seed: int = 0,
        seconds: float | None = None,
        ledger: str | Path | Book | None = None,
        keep: str | Path | None = None,
    ) -> None:
        checks.choice(metric, "metric", tuple(_METRICS), of="Board")
        self.metric, self.target = metric, target
        self.confidence = checks.real(confidence, "confidence", "(0, 1)", of="Board")
        sealed = checks.real(sealed, "sealed", "[0, 1)", of="Board")
        seed = checks.whole(split_seed, "split_seed", at_least=0, of="Board")
        rows = open_rows(labels)
        for column in (id, target):
            if column not in rows.schema:
                raise QueryRejected(
                    f"The labels have no column {column!r}; there are {', '.join(rows.schema)}."
                )
        table = rows.frame([id, target])
        self._predictions = Predictions.of(table[id], keep)
        if len(table) < 4:
            raise NotEnoughRows(4, len(table), what="A board")
        hidden = np.random.default_rng(seed).permutation(len(table)) < round(sealed * len(table))
        self._sealed_mask: NDArray[np.bool_] = hidden
        self._live = _part(table, target, ~hidden)
        self._sealed = _part(table, target, hidden) if hidden.any() else None
        limit = None if seconds is None else checks.real(seconds, "seconds", "(0, inf)", of="Board")
        for part in (self._live, self._sealed):
            if part is not None:
                part.rows.limit(limit)
        self.upward, first = _METRICS[metric]
        self.start = first if start is None else checks.real(start, "start", "[0, 1]", of="Board")
        count = self._live.rows.count
        self.step = 1 / math.sqrt(count) if step is None else checks.real(step, "step", "(0, 1]", of="Board")
        agreed = {
            "strategy": "board",
            "target": target,
            "metric": metric,
            "confidence": self.confidence,
            "step": self.step,
            "start": self.start,
            "sealed": {"share": sealed, "seed": seed},
            "rows": count,
            "ids": self._predictions.fingerprint,
            "labels": replace(Content.of(table, open_rows(table)), former=None),
        }
        self._book = ledger if isinstance(ledger, Book) else Book(ledger)
        self._session = open_session(self._book, Account(1 - self.confidence), agreed)
        self._strategy = LadderStrategy(count, self.step, self.upward, lambda: self.best)
        self._lock = RLock()
        self._seen = 0  # the line of the book up to which the standing is known
        self._standing: list[Submission] = []

    @property
    def rows(self) -> int:
        """How many rows a submission is scored on before the final."""
        return self._live.rows.count

    @property
    def ids(self) -> list[Any]:
        """Every id that a submission has to have a prediction for."""
        return self._predictions.ids

    @property
    def best(self) -> float:
        """The best value released so far, or where the board started."""
        standing = self.standing
        return standing[0].value if standing else self.start

    @property
    def standing(self) -> tuple[Submission, ...]:
        """Every submission that beat the best of its time, the latest and best first."""
        with self._lock:
            for line, released in self._session.history(self._seen):
                self._seen = line
                entry = self._submission(released)
                if entry.better:
                    self._standing.insert(0, entry)
            return tuple(self._standing)

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        self._session.read()
        return self._session.account.spent

    def submit(self, predictions: Any, *, asker: Asker = NOBODY) -> Submission:
        """Score a table of predictions. The same predictions again cost nothing and say the same."""
        return self.score(self.take_in(predictions, by=asker.name), asker=asker)

    def take_in(self, predictions: Any, *, by: str = "") -> str:
        """Check and keep predictions without scoring them, for a blind phase; returns their key."""
        return self._predictions.take_in(predictions, by)

    def score(self, key: str, *, asker: Asker = NOBODY) -> Submission:
        """Score predictions that were taken in: reserve, read, record, release."""
        question = self._question(key, self._live, ~self._sealed_mask)
        try:
            with self._lock:
                released = pass_through(
                    self._session, self._strategy, question, self._live, asker, submission=key, by=asker.name
                )
        except ReadingFailed as failed:
            raise QueryRejected(
                "The predictions could not be scored; are they of the same kind as the labels? That it "
                f"failed cost {failed.price:.3g} nats.",
                asked=failed.price,
                spent=self.spent,
            ) from None
        return self._submission(released)

    def final(self, finalists: list[str] | None = None) -> tuple[FinalScore, ...]:
        """Score the finalists on the sealed part, once: each person's best submission unless keys are given.

        The finalists are written down before the sealed rows are read, and nobody else is ever scored on
        them; asking again returns the same.
        """
        if self._sealed is None:
            raise QueryRejected("This board has no sealed part; its standing is all there is.")
        recorded = self._session.record("act", {"finalists": finalists or self._finalists()}, "final")
        chosen = recorded["finalists"]
        nats = -math.log((1 - self.confidence) / max(1, len(chosen)))
        scores = [self._final_score(key, self._sealed, nats) for key in chosen]
        return tuple(sorted(scores, key=lambda entry: -entry.value if self.upward else entry.value))

    @property
    def finished(self) -> bool:
        """Whether the sealed part was used."""
        return self._book.about("final", "act") is not None

    def close(self) -> None:
        """Close the account book's file."""
        self._session.close()

    def _finalists(self) -> list[str]:
        best: dict[str, str] = {}
        for entry in reversed(self.standing):
            best[entry.by] = entry.key
        return sorted(best.values())

    def _final_score(self, key: str, sealed: Part, nats: float) -> FinalScore:
        question = self._question(key, sealed, self._sealed_mask)
        count = sealed.rows.count
        reading: Reading = (
            ShareOfAll(question, nats, count)
            if question.binary
            else BoundedMean(question, nats, floors=(count,))
        )
        value = question.moments(sealed).mean
        interval: Interval = reading.interval(value - question.resolution, value + question.resolution, 0)
        by = self._predictions.by(key)
        return FinalScore(key, by, value, interval.low, interval.high, self.confidence)

    def _question(self, key: str, part: Part, mask: NDArray[np.bool_]) -> ScoreQuestion:
        return score_question(
            self._predictions.read(key)[mask],
            target=self.target,
            metric=self.metric,
            guess=None,
            name=None,
            protected=part,
        )

    def _submission(self, released: Released) -> Submission:
        said = released.answer
        if said is None:
            raise BookError("The account book has a line about a submission that is no score.")
        return Submission(
            key=said["submission"],
            by=said["by"],
            value=said["value"],
            low=said["low"],
            high=said["high"],
            steps=said["numbers"]["cells from the guess"],
            confidence=self.confidence,
            cost=released.micro_nats / MICRO,
            receipt=released.receipt,
        )


def _part(table: Any, target: str, mask: NDArray[np.bool_]) -> Part:
    chosen = table.loc[mask, [target]].reset_index(drop=True)
    return Part(open_rows(chosen).stored(), training=False, data_rows=int(mask.sum()))
