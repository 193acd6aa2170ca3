"""Replies that were sent before, at hand as bytes.

An answer never changes once it is in the book. So the reply to a question in the same words, to anybody who
may ask the dataset, is the same bytes.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from holdfast.guard import Guard

# So many replies of each dataset are kept, and none that is longer than this.
_MOST_REPLIES = 4_096
_MOST_BYTES = 16 * 2**10


class Recorded:
    """The replies of one process, by guard and question. Whoever asks for one has to be allowed to ask the
    guard."""

    def __init__(self) -> None:
        self._replies: WeakKeyDictionary[Guard, dict[str, bytes]] = WeakKeyDictionary()

    def keep(self, guard: Guard, question: str, reply: bytes) -> None:
        """Keep the reply to a question that has its answer in the book."""
        if len(reply) > _MOST_BYTES:
            return
        replies = self._replies.setdefault(guard, {})
        if len(replies) >= _MOST_REPLIES:
            replies.pop(next(iter(replies)), None)
        replies[question] = reply

    def has(self, question: str) -> bool:
        """Whether any dataset has a reply to a question in these words."""
        return any(question in replies for replies in list(self._replies.values()))

    def reply(self, guard: Guard, question: str) -> bytes | None:
        """The reply of a guard; None if it is not at hand."""
        return self._replies.get(guard, {}).get(question)
