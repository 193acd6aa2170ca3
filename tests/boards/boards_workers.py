"""A board in a folder, processes that score a batch on it, and a crash, for tests that kill and end them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pandas as pd

from holdfast.asking import Session
from holdfast.guard import Board
from holdfast.ledger import Book, SigningKey

ROWS, KEYS = 1_000, 6
LABELS = pd.DataFrame({"id": np.arange(ROWS), "y": np.random.default_rng(1).integers(0, 2, ROWS)})


def opened(folder: str, compare: str = "paired") -> Board:
    """The board, opened again as another process would do."""
    place = Path(folder)
    book = Book(place / "book", key=SigningKey.at(place / "key"))
    return Board(LABELS, target="y", start=0.5, compare=compare, ledger=book, keep=place / "kept")


def submissions(right: float | None = None, seed: int = 0) -> Iterator[pd.DataFrame]:
    """Submissions that get better and better, or one of which about this share is right."""
    rng, y = np.random.default_rng(seed), LABELS["y"]
    for share in np.linspace(0.55, 0.9, KEYS) if right is None else [right]:
        wrong = rng.random(ROWS) >= share
        yield pd.DataFrame({"id": LABELS["id"], "prediction": np.where(wrong, 1 - y, y)})


def score_and_tell(folder: str, told: Connection) -> None:
    """Say that it begins, score everything as one batch, and tell the values."""
    board = opened(folder)
    keys = [board.take_in(frame, by=f"p{i}") for i, frame in enumerate(submissions())]
    told.send(None)
    told.send([entry.value for entry in board.score_all(keys) if entry is not None])


class Crashed(BaseException):
    """The process is gone."""


def crash_before_reading(patch, number):
    """End the process once so many submissions of a batch were read."""
    begin_again, calls = Session.begin_again, count()

    def crashing(session, reserved, reader):
        if reserved and next(calls) == number:
            raise Crashed
        return begin_again(session, reserved, reader)

    patch.setattr(Session, "begin_again", crashing)
