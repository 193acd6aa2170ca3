"""The states of a question in an account: asked, reserved, interrupted, settled, released.

Also the lines that a book has about it, and the terms of a book: which of them an earlier version did not
write."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from holdfast import spans
from holdfast.asking._clean_room import killed_for_memory, memory_kills
from holdfast.coding import MICRO, Account, Experience, Learned
from holdfast.ledger import Balance, Book, BookError, Closed, Entry, Receipt


class PreparedQuestion(Protocol):
    """A question that was prepared from an account, without the protected rows."""

    @property
    def worst_price(self) -> float:
        """The most it can cost, in nats."""

    @property
    def plan(self) -> dict[str, Any] | None:
        """The public numbers by which the book distinguishes this plan from others; None if the question is
        not read again."""


@dataclass(frozen=True)
class FixedPrice:
    """A plan of which only the price is known, in nats."""

    worst_price: float
    plan: None = None


_Prepared = TypeVar("_Prepared", bound=PreparedQuestion)

CLOSED = "The account is closed; nothing more is answered from it."
# Part of a reservation: the caller's additions to the question. Without it nothing can be read again.
WISHES = "wishes"

FAILED = (
    "A question could not be computed on the protected rows. This strategy has no price for a failure, so "
    "it closed the account. The answers given before keep their intervals."
)

ORDER = "order"
"""The term for the random order in which the rows are read, if every question reads rows of its own."""

FAILURE = "failure"
"""The term that says that a failure ends the account, because no price is set for a failure."""

LAYOUTS = "layouts"
"""The term that lists the ways in which a series is cut into blocks."""

_CONSECUTIVE = (
    "The account book {} was opened by an earlier version of strategy='split', which gave every question "
    "consecutive rows. In a sorted table these are not a random sample, so the account cannot be continued. "
    "Its answers stay in the book (holdfast.ledger.export); they hold if the rows came in random order. Open "
    "a new book, for rows that no question has read yet."
)


@dataclass(frozen=True)
class Released:
    """A settled question as the book records it: its text, its price, and what was released, if anything."""

    key: str
    text: str
    micro_nats: int
    answer: dict[str, Any] | None
    receipt: Receipt | None


@dataclass(frozen=True)
class Asker:
    """On whose behalf a question is asked, if several people share one account.

    ``name`` is recorded with the price. ``request`` names one request, so that a repetition is recognized.
    ``permit`` is called with the balance and the highest price, in whole micro-nats, before anything is
    reserved; it refuses by raising. Callbacks about the answer run in ``context``, if one thread asks for
    several people.
    """

    name: str = ""
    request: str = ""
    permit: Callable[[Balance, int], None] | None = None
    context: Context | None = None


NOBODY = Asker()


@dataclass(frozen=True)
class Asked(Generic[_Prepared]):
    """A question before it is reserved.

    ``prepare`` decides everything about it from an account without the protected rows, or refuses it.
    ``reader`` names the reading, and ``unit`` is what the book counts its price in. A question that is
    ``alone`` is reserved only once every other reading of the account is settled.

    ``wishes`` are the caller's additions to the question. With them an interrupted question can be read again
    as it was planned. Not if it ``runs_code`` of the caller: that may end the process because of the rows. A
    question that is ``in_order`` is not read again once the account has learned something since.
    """

    key: str
    text: str
    prepare: Callable[[Account], _Prepared]
    reader: str
    asker: Asker = NOBODY
    unit: str = "nats"
    alone: bool = False
    runs_code: bool = False
    wishes: dict[str, Any] | None = None
    in_order: bool = False


@dataclass(frozen=True)
class Reserved(Generic[_Prepared]):
    """A question whose worst price is in the book, at ``line``.

    ``prepared`` is None for a question of a batch: it is prepared from the account of the batch when its turn
    comes. ``interrupted`` is a reservation that another process left behind. ``before`` is the account from
    which the first of several questions that wait for one turn was prepared."""

    line: int
    prepared: _Prepared | None
    batch: dict[str, Any] | None = None
    interrupted: Interrupted | None = None
    before: Account | None = None


@dataclass(frozen=True)
class Interrupted:
    """A reservation whose process ended before it recorded what it read.

    The reservation was made from ``account``. ``wishes`` are the caller's additions to the question. ``plan``
    has the numbers of what was prepared (None for a question of a batch), and ``nats`` is the worst price.
    ``memory`` says that the machine has since ended processes because memory ran out: then the question
    counts as failed. ``undisturbed`` says that since then only questions of the same batch were settled.
    """

    key: str
    line: int
    text: str
    account: Account
    wishes: dict[str, Any]
    plan: dict[str, Any] | None
    nats: float
    memory: bool
    undisturbed: bool


@dataclass(frozen=True)
class Settled:
    """The outcome of a reserved question. ``released`` is all that leaves (None: a refusal that was paid for,
    or a failure). A failure that ``closes`` ends the account. An ``unread`` failure was given up before the
    rows were read. ``acts`` are further lines that cost nothing and are written in the same step."""

    key: str
    line: int
    nats: float
    surprise: bool
    released: dict[str, Any] | None
    learned: Learned | None = None
    failed: bool = False
    closes: bool = False
    unread: bool = False
    acts: tuple[Entry, ...] = ()


class OtherTerms(BookError):
    """The book was opened for other data or another promise: ``differing`` names the terms that differ."""

    _carried = ("differing",)

    def __init__(self, book: str, differing: list[str]) -> None:
        self.differing = differing
        super().__init__(
            f"The account book {book} was opened with other terms ({', '.join(differing)} differ). "
            "Use the same data and the same promise, or another book."
        )


def reservation_of(asked: Asked[_Prepared], balance: Balance, account: Account) -> tuple[_Prepared, Entry]:
    """A question prepared against an account, and the line that reserves the most it can cost."""
    if balance.closed:
        raise Closed(CLOSED)
    again: dict[str, Any] = {}
    if asked.wishes is not None and not asked.runs_code:
        again = {WISHES: asked.wishes, "memory": memory_kills()}
    with spans.step("plan"):
        prepared = asked.prepare(account)
        if again:
            again["plan"] = prepared.plan
        price = math.ceil(prepared.worst_price * MICRO)
    if asked.asker.permit is not None:
        asked.asker.permit(balance, price)
    body: dict[str, Any] = {
        "text": asked.text,
        "micro_nats": price,
        "unit": asked.unit,
        "at": int(time.time()),
        "reader": asked.reader,
        "before": balance.before,
    }
    if asked.asker.name:
        body["by"] = asked.asker.name
    if again and balance.learned is not None:
        again["learned"] = balance.learned
    body |= again
    return prepared, Entry("reserve", body, asked.key, asked.asker.request)


def lines_of(settled: Settled, reserved: dict[str, Any], charge: int) -> list[Entry]:
    """The lines that settle a question whose reservation is ``reserved``, for ``charge`` millionths."""
    body: dict[str, Any] = {
        "reservation": settled.line,
        "micro_nats": charge,
        "surprise": settled.surprise,
        "released": _as_kept(settled.released),  # in the form in which the book returns it
    }
    if "unit" in reserved:  # Reservations of earlier versions have none.
        body["unit"] = reserved["unit"]
    if settled.learned is not None:
        body["learned"] = settled.learned.to_list()
    return [Entry("fail" if settled.failed else "release", body, settled.key), *settled.acts]


def _as_kept(value: Any) -> Any:
    """A JSON value in the form in which a book returns it: names in order, and a list for every sequence."""
    if isinstance(value, dict):
        return {name: _as_kept(value[name]) for name in sorted(value)}
    return [_as_kept(part) for part in value] if isinstance(value, (list, tuple)) else value


def account_before(
    start: Account, before: dict[str, Any], learned: Learned, experience: Experience
) -> Account:
    """The account that a reservation was made from, if the account began as ``start``. ``before`` says what
    was spent, and how many questions were asked, before it or before its batch. The account also has what was
    learned."""
    return replace(
        start,
        steps=before["steps"],
        micro_nats=before["micro_nats"],
        exact=before["micro_nats"] / MICRO,
        experience=experience,
        learned=learned,
        together=before.get("questions", 1),
    )


def interrupted_in(balance: Balance, line: int, body: dict[str, Any], start: Account) -> Interrupted:
    """The reservation at a line that no process reads any more, of an account that began as ``start``."""
    before = body.get("batch") or body["before"]
    learned = body.get("learned")
    account = account_before(
        start,
        before,
        Learned() if learned is None else Learned.from_list(learned),
        Experience(before["confirmed"], before["surprised"]),
    )
    return Interrupted(
        key=body["subject"],
        line=line,
        text=body["text"],
        account=account,
        wishes=body[WISHES],
        plan=body.get("plan"),
        nats=body["micro_nats"] / MICRO,
        memory=killed_for_memory(body.get("memory")),
        undisturbed=_undisturbed(balance, before),
    )


def _undisturbed(balance: Balance, before: dict[str, Any]) -> bool:
    """Whether only questions of its own batch were settled since an account."""
    batches = [body.get("batch", {}) for body in balance.open.values()]
    waiting = sum({**batch, "place": 0} == {**before, "place": 0} for batch in batches)
    own = before["questions"] - waiting if "questions" in before else 0
    settled = balance.confirmed + balance.surprised
    return bool(settled - before["confirmed"] - before["surprised"] == own)


def given_up(asked: Asked[Any], line: int, body: dict[str, Any], *, closed: bool) -> list[Entry]:
    """The lines that settle a reservation at its worst price, without reading it again."""
    settled = {"reservation": line, "micro_nats": body["micro_nats"], "surprise": True, "released": None}
    if "unit" in body:
        settled["unit"] = body["unit"]
    ends = [closing()] if asked.alone and not closed else []
    return [Entry("fail", settled, asked.key), *ends]


def closing() -> Entry:
    """The line that ends an account because a question failed."""
    return Entry("close", {"because": FAILED}, "account")


def recorded_training_share(ledger: Any) -> float | None:
    """The share of the rows that an existing account set aside: earlier versions had another default. None
    for a new account, or if no rows of its own were set aside."""
    opened = _terms_in(ledger)
    share = None if opened is None else opened.get("training", {}).get("share")
    return None if share is None else float(share)


def allows_blocks(ledger: Any) -> bool:
    """Whether rows may be read off blocks: in a new account, and in an account that has set the price of its
    blocks aside. Earlier versions had no blocks."""
    opened = _terms_in(ledger)
    return opened is None or LAYOUTS in opened


def _terms_in(ledger: Any) -> dict[str, Any] | None:
    """The terms that an account was opened with; None for a new account."""
    if not isinstance(ledger, (str, Path, Book)):
        return None
    if not isinstance(ledger, Book) and "://" not in str(ledger) and not Path(ledger).exists():
        return None
    book = ledger if isinstance(ledger, Book) else Book(ledger)
    try:
        opening = book.opening
    finally:
        if book is not ledger:
            book.close()
    return None if opening is None else dict(opening.body)


def terms_to_compare(book: Book, agreed: dict[str, Any], opened: dict[str, Any]) -> dict[str, Any]:
    """The terms that a book must have been opened with. A term that its version did not write is left out, or
    is a reason to refuse the book."""
    if ORDER in agreed and ORDER not in opened:
        raise BookError(_CONSECUTIVE.format(book.name))
    compared = {name: term for name, term in agreed.items() if name != FAILURE or name in opened}
    # These terms are written only if they differ from the default; a missing term is the default.
    return {**dict.fromkeys(("expect", "promise")), **compared}


def failed_before(book: Book, agreed: dict[str, Any], opened: dict[str, Any]) -> bool:
    """Whether a book of an earlier version continued after a question failed, which this version does not."""
    if FAILURE not in agreed or FAILURE in opened:
        return False
    return any(event.kind == "fail" for event in book.events())
