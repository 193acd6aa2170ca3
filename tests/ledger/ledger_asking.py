"""Asks in two threads from a book in a folder, and writes there which questions it read and their answers.

python ledger_asking.py FOLDER KEY SYNCHRONOUS QUESTIONS
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from holdfast import Guard
from holdfast.ledger import Book, SigningKey
from holdfast.strategies import PreparedCode

folder, key, synchronous, questions = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
book = Book(folder / "book", key=SigningKey.at(key))
guard = Guard({"x": np.random.default_rng(3).random(500)}, ledger=book)
connection = book._lines._connection  # type: ignore[attr-defined]
connection.execute(f"PRAGMA synchronous = {synchronous}")
# Checkpoints come more often than they would by themselves, so that crashes meet many of them.
connection.execute("PRAGMA wal_autocheckpoint = 50")
said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
read = PreparedCode.read


def watched(self, part):  # type: ignore[no-untyped-def]
    os.write(said, f"reads {self.question.key}\n".encode())
    return read(self, part)


PreparedCode.read = watched  # type: ignore[method-assign]


def ask(number: int) -> None:
    answer = guard.share(f"x > {number / 1e4!r}", guess=1 - number / 1e4)
    assert answer.receipt is not None
    os.write(said, f"told {answer.receipt.sequence} {answer.receipt.digest}\n".encode())


with ThreadPoolExecutor(2) as people:
    list(people.map(ask, range(1, questions + 1)))
guard.close()
