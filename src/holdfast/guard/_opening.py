"""Open an account, or continue one: its terms, its rows, its strategy and its book.

Rows of a later epoch, and books of earlier versions, are opened here too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from holdfast import checks
from holdfast.answers import Certificate
from holdfast.asking import (
    FAILURE,
    INTERRUPTED,
    OtherTerms,
    Records,
    Session,
    allows_blocks,
    recorded_training_share,
)
from holdfast.coding import PROMISES, Account, Weights
from holdfast.dependence import Dependence
from holdfast.engines import open_rows
from holdfast.errors import InvalidArgument
from holdfast.guard._earlier import not_compared
from holdfast.guard._epoch import Epoch, EpochAccount, NextEpoch
from holdfast.guard._setup import KEYED, Content, model_of, set_up
from holdfast.ledger import Book, BookError, EpochLink
from holdfast.records import Record
from holdfast.strategies import STRATEGIES, Setup, Strategy, choose_strategy, default_share

if TYPE_CHECKING:
    from holdfast.typing import PromiseKind, StrategyName, TableLike

# Book key for the content digests of an account that was opened before digests were recorded.
_CONTENT = "content"
# Terms that books of earlier versions do not have, each with the book key under which it is added later:
# the parameters of the dependence model, and which rows are in which part.
_MODEL, _PARTS = "model", "parts"
_ADDED = (_MODEL, _PARTS)
_MODEL_STATED_LATER = (
    "The account was opened by an earlier version, which recorded the kind of the model but not its "
    "parameters. We assume that they are those given here, which are in the book since line {:,}."
)


def number_option(domain: str, default: float | None) -> Any:
    """An option that is a number in ``domain``, such as "(0, 1)". It may be None if its ``default`` is."""
    return field(default=default, metadata={"domain": domain})


def whole_option(at_least: int, default: int | None) -> Any:
    """An option that is a whole number of at least ``at_least``. It may be None if its ``default`` is."""
    return field(default=default, metadata={"at_least": at_least})


class EpochOptions(TypedDict, total=False):
    """Terms of an account, as keyword arguments; all but its confidence."""

    error: float | None
    strategy: StrategyName
    queries: int | None
    surprises: int | None
    expect: float | None
    promise: PromiseKind
    training_share: float | None
    split_seed: int
    split_by: str | None
    seconds: float | None


class TermsOptions(EpochOptions, total=False):
    """Terms of an account, as keyword arguments."""

    confidence: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Terms(Record):
    """What an account promises and how its rows are set aside: the options that a guard, a service's policy
    and the command line have in common. :class:`~holdfast.Guard` says what they mean.

    Their names, types, defaults and checks, and their form in a book, are defined here.
    """

    confidence: float = number_option("(0, 1)", 0.95)
    error: float | None = number_option("(0, inf)", None)
    strategy: StrategyName = "code"
    queries: int | None = whole_option(1, None)
    surprises: int | None = whole_option(0, None)
    expect: float | None = number_option("[1, inf)", None)
    promise: PromiseKind = "all"
    training_share: float | None = number_option("[0, 1)", None)
    split_seed: int = whole_option(0, 0)
    split_by: str | None = None
    seconds: float | None = number_option("(0, inf)", None)

    # The name of the owner of the options, for messages.
    _of: ClassVar[str] = "Guard"

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value is None and option.default is None:
                continue
            if "domain" in option.metadata:
                value = checks.real(value, option.name, option.metadata["domain"], of=self._of)
            elif "at_least" in option.metadata:
                value = checks.whole(value, option.name, at_least=option.metadata["at_least"], of=self._of)
            object.__setattr__(self, option.name, value)
        checks.choice(self.strategy, "strategy", STRATEGIES, of=self._of)
        checks.choice(self.promise, "promise", PROMISES, of=self._of)
        if self.split_by is not None and not isinstance(self.split_by, str):
            raise InvalidArgument("split_by", "the name of a column", self.split_by, of=self._of)
        for name, value, usual in (("expect", self.expect, None), ("promise", self.promise, "all")):
            if self.strategy != "code" and value != usual:
                raise InvalidArgument(
                    name, f"left out: strategy {self.strategy!r} fixes its own terms", value, of=self._of
                )

    @property
    def options(self) -> TermsOptions:
        """The terms as keyword arguments of :class:`~holdfast.Guard`."""
        return {
            "confidence": self.confidence,
            "error": self.error,
            "strategy": self.strategy,
            "queries": self.queries,
            "surprises": self.surprises,
            "expect": self.expect,
            "promise": self.promise,
            "training_share": self.training_share,
            "split_seed": self.split_seed,
            "split_by": self.split_by,
            "seconds": self.seconds,
        }

    @property
    def weights(self) -> Weights:
        """How the failure probability is shared out among the questions."""
        return Weights(self.promise, self.expect)

    @property
    def in_book(self) -> dict[str, Any]:
        """The terms for the first line of a book. How rows are set aside is among the facts about the rows.
        Usual values are left out if earlier versions did not write that term."""
        names = ["strategy", "queries", "surprises", "confidence", "error"]
        names += ["expect"] * (self.expect is not None) + ["promise"] * (self.promise != "all")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_book(cls, opening: Mapping[str, Any]) -> Terms:
        """The terms from the first line of a book, ``opening``. The time limit of questions is not there."""
        training = opening.get("training", {})
        names = ("strategy", "queries", "surprises", "confidence", "error", "expect", "promise")
        written = {name: opening[name] for name in names if name in opening}
        return cls(**written, training_share=training.get("share"), split_seed=training.get("seed", 0))


@dataclass(frozen=True)
class Opened:
    """An account that can be asked: its terms, both parts of the rows, its strategy and its book.

    ``accounts`` are the open accounts of all epochs so far, the newest last. ``trains`` says whether the
    training part is made of rows of earlier epochs.
    """

    terms: Terms
    setup: Setup
    strategy: Strategy
    book: Book
    session: Session
    records: Records
    epoch: Epoch
    accounts: tuple[EpochAccount, ...]
    trains: bool
    public_categories: bool | Collection[str]

    @property
    def certificate(self) -> Certificate:
        """The certificate of all answers together."""
        account, setup = self.session.account, self.setup
        numbers = {
            "protected rows": setup.protected.rows.count,
            "training rows": setup.facts["training_rows"],
            "questions": account.steps,
            f"{self.strategy.unit} spent": self.strategy.spent(account),
            "charged for the split": setup.bias - sum(setup.besides.values()),
            **setup.besides,
        }
        if self.epoch.number > 1:
            numbers |= {"epoch": self.epoch.number, "all epochs hold together with": self.epoch.together}
        interrupted = self.session.balance.interrupted
        if not interrupted:
            return self.records.certificate(numbers)
        records = replace(self.records, assumptions=(*self.records.assumptions, INTERRUPTED))
        return records.certificate({**numbers, "read again after an interruption": interrupted})


def open_guard(
    data: TableLike,
    train: TableLike | None,
    dependence: Dependence | None,
    ledger: str | Path | Book | NextEpoch | None,
    terms: Terms,
    public_categories: bool | Collection[str] = False,
) -> Opened:
    """Open the rows of an account, and open its book or continue it."""
    failure, weights = 1 - terms.confidence, terms.weights
    share = recorded_training_share(ledger) if terms.training_share is None else terms.training_share
    setup = set_up_epoch(
        ledger,
        data,
        train,
        dependence,
        failure=failure,
        share=default_share(terms.strategy, weights) if share is None else share,
        seed=terms.split_seed,
        split_by=terms.split_by,
        seconds=terms.seconds,
        shuffled=terms.strategy == "split",
        in_units=terms.strategy == "code",
        blocks=allows_blocks(ledger),
        public_categories=public_categories,
    )
    failure -= setup.bias
    if not failure > 0:
        raise InvalidArgument(
            "confidence", "small enough to pay for the training split", terms.confidence, of="Guard"
        )
    strategy = choose_strategy(
        terms.strategy,
        setup,
        failure=failure,
        error=terms.error,
        queries=terms.queries,
        surprises=terms.surprises,
    )
    agreed = {**terms.in_book, **setup.facts}
    if strategy.failure_closes:
        agreed[FAILURE] = "closes"
    book, session, link = open_account(ledger, Account(failure, weights=weights), agreed)
    epoch = Epoch.of(link, terms.confidence)
    own = EpochAccount(
        epoch.number,
        session,
        in_memory=book.in_memory,
        priced=terms.strategy == "code",
        alone=strategy.failure_closes,
        unit=strategy.book_unit,
    )
    assumptions = (*setup.assumptions, *model_stated_later(book), *not_compared(book))
    return Opened(
        terms=terms,
        setup=setup,
        strategy=strategy,
        book=book,
        session=session,
        records=Records(terms.confidence, strategy, assumptions, terms.promise),
        epoch=epoch,
        accounts=(*ledger.arrival.accounts, own) if isinstance(ledger, NextEpoch) else (own,),
        trains=isinstance(ledger, NextEpoch) and ledger.trains,
        public_categories=public_categories,
    )


def set_up_epoch(
    ledger: str | Path | Book | NextEpoch | None,
    data: Any,
    train: Any,
    dependence: Dependence | None,
    *,
    failure: float,
    **options: Any,
) -> Setup:
    """Open the rows of the epoch that a book is for. In a later epoch the rows that earlier rows may still
    influence are dropped, and the influence that remains is charged."""
    if not isinstance(ledger, NextEpoch) and link_in(ledger) is None:
        return set_up(data, train, dependence, failure=failure, **options)
    rows = open_rows(data)
    model = model_of(rows, dependence)
    arrived = model.fresh(failure)
    if arrived.dropped:
        data = rows.split(~arrived.protected, arrived.protected)[1].native()
    model = arrived.protected_model
    setup = set_up(data, train, model, failure=failure - arrived.bias, **options)
    # ``fresh`` states that earlier rows are independent of these, and charges for what is not.
    covered = set(model.protected_only().assumptions) - set(model.assumptions) if _trains(ledger) else set()
    assumptions = (
        *arrived.assumptions,
        *(assumption for assumption in setup.assumptions if assumption not in covered),
    )
    return replace(
        setup,
        bias=setup.bias + arrived.bias,
        assumptions=tuple(dict.fromkeys(assumptions)),
        facts={**setup.facts, "dropped": arrived.dropped},
    )


def _trains(ledger: str | Path | Book | NextEpoch | None) -> bool:
    """Whether the training part is known to be made of earlier rows."""
    return isinstance(ledger, NextEpoch) and ledger.trains


def link_in(ledger: str | Path | Book | None) -> EpochLink | None:
    """The link in a book that may not exist yet. If it does not, no file is created."""
    if isinstance(ledger, Book):
        return EpochLink.of(ledger)
    if ledger is not None and not isinstance(ledger, (str, Path)):
        raise InvalidArgument("ledger", "a path, a Book, or None", ledger, of="Guard")
    if ledger is None or ("://" not in str(ledger) and not Path(ledger).exists()):
        return None
    book = Book(ledger)
    try:
        return EpochLink.of(book)
    finally:
        book.close()


def open_account(
    ledger: str | Path | Book | NextEpoch | None, account: Account, agreed: dict[str, Any]
) -> tuple[Book, Session, EpochLink | None]:
    """Open a book with these terms, or continue it. A later epoch is announced first, and only once."""
    if isinstance(ledger, NextEpoch):
        try:
            return _open_next(ledger, account, agreed)
        except BaseException:
            ledger.close_book()
            raise
    book = ledger if isinstance(ledger, Book) else Book(ledger)
    try:
        link = EpochLink.of(book)
        return book, _session(book, account, agreed, link), link
    except BaseException:
        if book is not ledger:
            book.close()
        raise


def _open_next(
    following: NextEpoch, account: Account, agreed: dict[str, Any]
) -> tuple[Book, Session, EpochLink]:
    link = following.announce(agreed)
    if following.book.opening is None:
        agreed = {**agreed, **following.arrival.earlier.keep(following.book, following.arrival.missing)}
    session = _session(following.book, account, agreed, link)
    following.record_opening()
    return following.book, session, link


def _session(book: Book, account: Account, agreed: dict[str, Any], link: EpochLink | None) -> Session:
    if link is not None:
        agreed = {**agreed, "epoch": link.to_dict()}
    try:
        return open_session(book, account, agreed)
    except OtherTerms as other:
        raise _explained(other, book) from None


def _explained(other: OtherTerms, book: Book) -> BookError:
    """Why a book does not fit the data, and what to do: another model, or a table that has grown."""
    if "model" in other.differing and "data" not in other.differing:
        return BookError(
            f"{other} The dependence model is not the one that this account was opened with, on which its "
            "answers rest. Give the same model with the same parameters."
        )
    if not {"data", "rows"} & set(other.differing):
        return other
    announcement = book.about(EpochLink.ANNOUNCED, "act")
    announced = ""
    if announcement is not None:
        announced = f" (it was: epoch {announcement.body['epoch']}, {announcement.body['rows']:,} rows)"
    return BookError(
        f"{other} If rows were added to the table: an account is never refilled, and rows that arrived later "
        "are an epoch with an account of its own. Open this book with the rows it was opened for, and call "
        f"guard.next_epoch(new_rows){announced}."
    )


def open_session(book: Book, account: Account, agreed: dict[str, Any]) -> Session:
    """Open a book with these terms, or continue it if it was opened for the same rows and model.

    A book of an earlier version says less about its rows or its model. It accepts the rows and the model
    that it is given now and records them. From then on it accepts no others.
    """
    terms_now = _with_contents_named(agreed, lambda content: content.under(book.secret))
    opening = book.opening
    if opening is None:
        return Session(book, account, terms_now)
    opening_terms, later_terms = terms_now, {}
    if not _names_content(opening.body):
        opening_terms = _with_contents_named(agreed, lambda content: content.former)
        changed = {name: term for name, term in terms_now.items() if term != opening_terms[name]}
        later_terms = {_CONTENT: changed}
    missing = [name for name in _ADDED if name in terms_now and name not in opening.body]
    later_terms |= {name: {name: terms_now[name]} for name in missing if not _stated_by_name(name, terms_now)}
    session = Session(
        book, account, {name: term for name, term in opening_terms.items() if name not in missing}
    )
    for subject, terms in later_terms.items():
        recorded = session.record("act", terms, subject)
        if differing := sorted(name for name in terms if recorded.get(name) != terms[name]):
            raise OtherTerms(book.name, differing)
    return session


def model_stated_later(book: Book) -> tuple[str, ...]:
    """What is assumed if a book did not state the parameters of its model when it was opened."""
    stated = book.about(_MODEL, "act")
    return () if stated is None else (_MODEL_STATED_LATER.format(stated.sequence),)


def _stated_by_name(name: str, agreed: dict[str, Any]) -> bool:
    """Whether the older term ``dependence`` says as much as the model does."""
    return name == _MODEL and agreed["dependence"].startswith(("Independent(", "MDependent("))


def _with_contents_named(agreed: dict[str, Any], name_of: Callable[[Content], str | None]) -> dict[str, Any]:
    """The agreed terms, with the name of each content in its place."""
    terms: dict[str, Any] = {}
    for name, term in agreed.items():
        if isinstance(term, dict):
            terms[name] = _with_contents_named(term, name_of)
        else:
            terms[name] = name_of(term) if isinstance(term, Content) else term
    return terms


def _names_content(opening: dict[str, Any]) -> bool:
    return any(isinstance(term, str) and term.startswith(KEYED) for term in opening.values())
