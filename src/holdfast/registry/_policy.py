"""What an owner decides about a dataset: its policy and terms, its epochs, and whether it is served.

The policy is fixed before the first question. Terms (shares, the rate, and who may give the report) may
change while people ask. The last line about terms in the account book decides which terms hold. So a change
is one write, every process has it, and auditors see who made it. Terms hold for their epoch and for later
epochs, until one of these has terms of its own. Terms do not change what an answer guarantees: they say only
who may ask how much.

Epochs are recorded before any book is changed. The books decide whether an epoch exists: the book before it
announces it. If an opening was interrupted after the announcement, the next start completes it. If it was
interrupted before, the record has no effect.

A dataset that is not served is archived or deleted. An archived dataset can be served again, a deleted one
cannot. In both cases its account book and the claim on its rows stay: the same rows never get a second
account.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from holdfast import checks, dependence
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument
from holdfast.guard import Guard, Terms, number_option, whole_option
from holdfast.ledger import Balance, Book
from holdfast.records import Record
from holdfast.registry._people import Forbidden, Person
from holdfast.registry._storage import Store
from holdfast.typing import ReportRight

RATE = 600
SECONDS = 30.0
_MICRO = 1_000_000


class TooMany(HoldfastError):
    """More questions in a minute than the rate allows; ``wait`` is in seconds."""

    def __init__(self, rate: int, wait: float, *, what: str = "new questions") -> None:
        self.wait = wait
        super().__init__(f"At most {rate} {what} a minute; try again in {wait:.0f} s.")


def require_rate(rate: int, person: str, balance: Balance) -> None:
    """Refuse a question of a person who reserved ``rate`` questions in the last minute.

    A time more than a minute in the future was written before the clock went back. It does not count, so
    nobody is locked out for longer than two minutes.
    """
    now, times = time.time(), balance.recent.get(person, ())
    lately = [at for at in times if abs(now - at) < balance.window] if len(times) >= rate else []
    if len(lately) >= rate:
        raise TooMany(rate, balance.window - max(0.0, now - min(lately)))


@dataclass(frozen=True, kw_only=True, repr=False)
class Policy(Terms):
    """The promise, the model of the rows, and how the account is shared.

    ``shares`` limits how much of the account people ("team/name") and whole teams ("team") may use. It counts
    nats, or answers with a strategy that adds noise or splits the rows. People who are not named are limited
    by the account alone. ``rate`` is how many new questions a person may ask in a minute. ``seconds`` is how
    long one question may take. A question that is stopped was read, and is charged as one that failed.
    ``split_by`` names the column by which rows that stay in a database are split.
    ``rows`` describes how rows depend on each other: ``{"kind": "independent"}``,
    ``{"kind": "markov", "transition": [[…]]}``, ``{"kind": "clusters", "sizes": […]}`` or
    ``{"kind": "m-dependent", "m": 3}``.
    ``confidence``, ``error``, ``strategy``, ``queries``, ``surprises``, ``expect``, ``promise``,
    ``training_share`` and ``split_seed`` are those of :class:`holdfast.Guard`. ``report`` says who may give
    the report, which ends the account: "owner", or "analyst" for everyone who may ask.
    """

    report: ReportRight = "owner"
    rate: int = whole_option(1, RATE)
    seconds: float | None = number_option("(0, 86400]", SECONDS)
    shares: dict[str, float] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=lambda: {"kind": "independent"})

    _of: ClassVar[str] = "Policy"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice(self.report, "report", ("owner", "analyst"), of="Policy")
        for holder, nats in self.shares.items():
            checks.real(nats, f"shares[{holder!r}]", "[0, inf)", of="Policy")
        if self.rows.get("kind") not in _MODELS:
            raise InvalidArgument("rows", f"a kind of {', '.join(_MODELS)}", self.rows, of="Policy")

    def model(self, count: int) -> Any:
        """The dependence model of a table of ``count`` rows."""
        kind, make = self.rows["kind"], _MODELS[self.rows["kind"]]
        try:
            return make(count, {name: value for name, value in self.rows.items() if name != "kind"})
        except (TypeError, KeyError):
            raise InvalidArgument("rows", f"what {kind} rows need", self.rows, of="Policy") from None

    def require_share(self, person: Person, balance: Balance, price: int) -> None:
        """Refuse a question that could cost more than is left of the share of a person or a team.

        Args:
            person: Who asks.
            balance: The balance of the account book, which says what each person spent.
            price: The most that the question can cost, in millionths of the account's unit.
        """
        for holder in self._shares_of(person):
            share, spent = self.shares[holder], _spent(balance, holder)
            if spent + price > math.floor(share * _MICRO):
                left = max(0.0, share - spent / _MICRO)
                raise BudgetSpent(
                    f"The share of {holder} is {share:g} {self.share_unit}. {left:.4g} are left, and this "
                    f"question could cost up to {price / _MICRO:.4g}, which is reserved before the rows are "
                    "read. Ask the owner for a larger share.",
                    asked=price / _MICRO,
                    spent=spent / _MICRO,
                    left=left,
                    unit=self.share_unit,
                )

    def share_left(self, person: Person, balance: Balance) -> float | None:
        """What is left of the share of ``person``, or of their team if that is less; None without a share.
        ``balance`` is that of the account book, which says what each person spent.
        """
        shares_left = [
            self.shares[holder] - _spent(balance, holder) / _MICRO for holder in self._shares_of(person)
        ]
        return max(0.0, min(shares_left)) if shares_left else None

    @property
    def share_unit(self) -> str:
        """The unit of shares: that of the account book."""
        return "nats" if self.strategy in ("code", "agreed-code", "grid-code") else "answers"

    def may_report(self, person: Person) -> bool:
        """Whether this ``person`` may give the report, which ends the account."""
        return person.role == "owner" or (person.role == "analyst" and self.report == "analyst")

    def require_reporter(self, person: Person) -> None:
        """Refuse the report to a ``person`` who may not give it."""
        if not self.may_report(person):
            raise Forbidden(
                "A report ends the account. Here only an owner may give it, and this token is for an "
                f"{person.role}. Nothing was changed. Ask the owner to give the report."
            )

    def _shares_of(self, person: Person) -> list[str]:
        return [holder for holder in (person.account, person.team) if holder in self.shares]


def _spent(balance: Balance, holder: str) -> int:
    """What one person, or everyone in a team, has spent: in millionths of the unit of the account."""
    if "/" in holder:
        return balance.spent_by(holder)
    names = {*balance.people, *(str(body.get("by", "")) for body in balance.open.values())}
    return sum(balance.spent_by(name) for name in names if name.split("/")[0] == holder)


_MODELS: dict[str, Any] = {
    "independent": lambda count, options: dependence.Independent(count, **options),
    "markov": lambda count, options: dependence.MarkovChain(options.pop("transition"), count, **options),
    "clusters": lambda count, options: dependence.Clusters(options.pop("sizes", None), **options),
    "mixing": lambda count, options: dependence.Mixing(options.pop("rate"), n=count, **options),
    "blocks": lambda count, options: dependence.Blocks(
        options.pop("length"), options.pop("gap"), options.pop("mixing"), n=count, **options
    ),
    "m-dependent": lambda count, options: dependence.MDependent(count, options.pop("m"), **options),
}


TERMS_SUBJECT = "terms"
TERMS = ("shares", "rate", "report")


def terms_of(policy: Policy) -> dict[str, Any]:
    """The terms of a policy that can be changed."""
    return {name: getattr(policy, name) for name in TERMS}


def with_terms(policy: Policy, book: Book) -> Policy:
    """A policy with the terms that a book says hold now."""
    changed = book.about(TERMS_SUBJECT, "act")
    return policy if changed is None else replace(policy, **changed.body[TERMS_SUBJECT])


def changed_terms(
    policy: Policy,
    *,
    shares: dict[str, float | None] | None = None,
    rate: int | None = None,
    report: ReportRight | None = None,
) -> dict[str, Any]:
    """The terms of a policy after a change. Shares that are not named stay. A share of None is removed, so
    only the account limits that person or team."""
    if shares is None and rate is None and report is None:
        raise InvalidArgument("shares", "given, or rate, or report: there is nothing to change", None)
    new_shares = dict(policy.shares)
    for holder, share in (shares or {}).items():
        if share is None:
            new_shares.pop(holder, None)
        else:
            new_shares[holder] = share
    changed = replace(
        policy,
        shares=new_shares,
        rate=policy.rate if rate is None else rate,
        report=policy.report if report is None else report,
    )
    return terms_of(changed)


EPOCHS_SCHEMA = """
CREATE TABLE IF NOT EXISTS [epochs] (
    dataset TEXT NOT NULL,
    number INTEGER NOT NULL,
    arrived TEXT NOT NULL,
    request TEXT NOT NULL,
    since INTEGER NOT NULL,
    whole INTEGER NOT NULL,
    PRIMARY KEY (dataset, number)
) STRICT;
"""
EPOCH_COLUMNS = ("dataset", "number", "arrived", "request", "since", "whole")
_EPOCH_COLUMNS = ", ".join(EPOCH_COLUMNS)


class Overtaken(HoldfastError):
    """Another epoch was opened before the one that was planned."""

    def __init__(self, dataset: str, number: int) -> None:
        super().__init__(
            f"Epoch {number} of {dataset!r} was opened already, with other rows or on other terms. Look at "
            "the dataset's epochs. To continue it, send the source and the terms it was opened with; "
            "for rows that arrived after it, open the epoch that comes next."
        )


@dataclass(frozen=True, repr=False)
class Arrived(Record):
    """Rows that arrived later, and the terms that change with them. Other terms are as in the epoch before.

    ``source`` is where the rows are: a file in the folder of sources, or the address of a table.
    ``confidence`` is that of the new epoch; ``together`` is that of this and all later epochs together.
    ``rows`` describes how the new rows depend on each other, and ``shares`` gives people and teams shares of
    the new account, each as in :class:`~holdfast.server.Policy`.
    """

    source: str
    confidence: float | None = None
    together: float | None = None
    rows: dict[str, Any] | None = None
    shares: dict[str, float] | None = None

    def policy(self, before: Policy) -> Policy:
        """The policy of the new epoch, apart from its confidence. ``before`` is that of the epoch before."""
        return replace(
            before,
            rows=before.rows if self.rows is None else self.rows,
            shares=before.shares if self.shares is None else self.shares,
        )

    def guard(self, before: Guard, policy: Policy, count: int) -> Guard:
        """The guard of the new epoch, on ``count`` rows. Called again, it continues the same epoch.

        Args:
            before: The guard of the epoch before.
            policy: The policy of the new epoch.
        """
        model = None if policy.rows == {"kind": "independent"} else policy.model(count)
        return before.next_epoch(
            self.source,
            confidence=self.confidence,
            together=self.together,
            dependence=model,
        )


def standing(guard: Guard) -> dict[str, Any]:
    """The epoch of a guard, and what is left of its account."""
    left = guard.left
    return {
        "epoch": guard.epoch.number,
        "rows": guard.rows,
        "confidence": guard.confidence,
        "together": guard.epoch.together,
        "spent": guard.spent,
        "unit": guard.unit,
        "left": float(left) if math.isfinite(left) else None,
        "words": left.words,
        "closed": guard.closed,
    }


@dataclass(frozen=True)
class Planned:
    """An epoch as it was recorded. ``is_open`` is set once both books say that it is open."""

    number: int
    arrived: Arrived
    request: str
    since: int | None
    is_open: bool


class Epochs:
    """The records of the epochs of a service's datasets, in the datasets' own database."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._database.make(EPOCHS_SCHEMA)

    def plan(self, dataset: str, number: int, arrived: Arrived, request: str = "") -> Planned:
        """Record the epoch that is about to be opened. Refused if another epoch is open already."""
        since = int(time.time())
        arrived_text = json.dumps(arrived.to_dict())
        inserted = self._database.execute(
            f"INSERT INTO [epochs] ({_EPOCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, 0) "
            "ON CONFLICT (dataset, number) DO UPDATE SET "
            "arrived = excluded.arrived, request = excluded.request, since = excluded.since "
            "WHERE [epochs].whole = 0",
            (dataset, number, arrived_text, request, since),
        )
        if inserted.rowcount != 1:
            raise Overtaken(dataset, number)
        return Planned(number, arrived, request, since, is_open=False)

    def settle(self, dataset: str, planned: Planned) -> None:
        """Record that an epoch is open, even if another one was planned meanwhile."""
        arrived_text = json.dumps(planned.arrived.to_dict())
        self._database.execute(
            f"INSERT INTO [epochs] ({_EPOCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, 1) "
            "ON CONFLICT (dataset, number) DO UPDATE SET arrived = excluded.arrived, "
            "request = excluded.request, since = excluded.since, whole = 1",
            (dataset, planned.number, arrived_text, planned.request, planned.since or 0),
        )

    def after(self, dataset: str, number: int) -> list[Planned]:
        """Every recorded epoch after epoch ``number``, in order."""
        rows = self._database.execute(
            "SELECT number, arrived, request, since, whole FROM [epochs] WHERE dataset = ? AND number > ? "
            "ORDER BY number",
            (dataset, number),
        )
        return [
            Planned(number, Arrived(**json.loads(arrived_text)), request, since, bool(is_open))
            for number, arrived_text, request, since, is_open in rows
        ]


STATES_SCHEMA = """
CREATE TABLE IF NOT EXISTS [dataset_states] (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS [dataset_terms] (
    name TEXT PRIMARY KEY,
    changes INTEGER NOT NULL
) STRICT;
"""
STATE_COLUMNS = ("name", "state", "since")
ARCHIVED, DELETED = "archived", "deleted"


class Archived(HoldfastError):
    """The dataset is archived: nothing about it is answered until an owner serves it again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The dataset {name!r} is archived. Its account book can be exported; to ask again, an owner "
            f"takes it back with `holdfast admin unarchive {name}`."
        )


class Deleted(HoldfastError):
    """The dataset was deleted: only its account book is left."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The dataset {name!r} was deleted. Its account book can still be exported, and nothing else."
        )


class States:
    """The datasets of a service that are archived or deleted, in the datasets' own database."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._database.make(STATES_SCHEMA)

    def of(self, name: str) -> str | None:
        """The state of a dataset: "archived", "deleted", or None for one that is served or unknown."""
        row = self._database.execute("SELECT state FROM [dataset_states] WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def require_served(self, name: str) -> None:
        """Refuse a dataset that is archived or deleted."""
        state = self.of(name)
        if state is not None:
            raise Deleted(name) if state == DELETED else Archived(name)

    def all(self) -> dict[str, tuple[str, int]]:
        """Every dataset that is not served: its state, and since when in seconds."""
        rows = self._database.execute("SELECT name, state, since FROM [dataset_states] ORDER BY name")
        return {name: (state, since) for name, state, since in rows}

    def write(self, name: str, state: str) -> None:
        """Record the state of a dataset. A deleted dataset stays deleted."""
        self._database.execute(
            "INSERT INTO [dataset_states] (name, state, since) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET state = excluded.state, since = excluded.since WHERE [dataset_states].state <> 'deleted'",
            (name, state, int(time.time())),
        )

    def serve(self, name: str) -> None:
        """Serve an archived dataset again."""
        self._database.execute("DELETE FROM [dataset_states] WHERE name = ? AND state = ?", (name, ARCHIVED))

    def announce_terms(self, name: str) -> None:
        """Let every other process notice that the terms of a dataset were changed."""
        self._database.execute(
            "INSERT INTO [dataset_terms] (name, changes) VALUES (?, 1) ON CONFLICT (name) DO UPDATE "
            "SET changes = [dataset_terms].changes + 1",
            (name,),
        )
