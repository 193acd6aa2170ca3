"""What the owner decides about a dataset before the first question, as plain values that are written down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast import checks, dependence
from holdfast.coding import PROMISES
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.ledger import Balance
from holdfast.records import Record
from holdfast.server._rate import RATE, SECONDS
from holdfast.server._tokens import Forbidden, Person

if TYPE_CHECKING:
    from holdfast.typing import PromiseKind, StrategyName

_MICRO = 1_000_000


@dataclass(frozen=True, repr=False)
class Policy(Record):
    """The promise, the model of the rows, and how the account is shared.

    ``shares`` gives people ("team/name") and whole teams ("team") at most so much of the one account: nats,
    or answers with a strategy that adds noise or splits the rows. Who is not named is bounded by the account
    alone. ``rate`` is how many new questions a person may ask in a
    minute, and ``seconds`` how long one may take: a question that is stopped was read, and is charged as one
    that failed. ``split_by`` names the column by which rows that stay in a database are split.
    ``rows`` describes how rows depend on each other: ``{"kind": "independent"}``,
    ``{"kind": "markov", "transition": [[…]]}``, ``{"kind": "clusters", "sizes": […]}`` or
    ``{"kind": "m-dependent", "m": 3}``.
    ``expect`` and ``promise`` are those of :class:`holdfast.Guard`. ``report`` says who may give the last
    word, which ends the account: "owner", or "analyst" for everyone who may ask.
    """

    confidence: float = 0.95
    error: float | None = None
    strategy: StrategyName = "code"
    queries: int | None = None
    surprises: int | None = None
    expect: float | None = None
    promise: PromiseKind = "all"
    report: str = "owner"
    training_share: float | None = None
    split_seed: int = 0
    split_by: str | None = None
    rate: int = RATE
    seconds: float = SECONDS
    shares: dict[str, float] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=lambda: {"kind": "independent"})

    def __post_init__(self) -> None:
        checks.choice(self.promise, "promise", PROMISES, of="Policy")
        checks.choice(self.report, "report", ("owner", "analyst"), of="Policy")
        if self.expect is not None:
            checks.real(self.expect, "expect", "[1, inf)", of="Policy")
        checks.whole(self.rate, "rate", at_least=1, of="Policy")
        checks.real(self.seconds, "seconds", "(0, 86400]", of="Policy")
        for who, nats in self.shares.items():
            checks.real(nats, f"shares[{who!r}]", "[0, inf)", of="Policy")
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
        """Refuse a question whose dearest price does not fit what is left of the person's or the team's
        share."""
        for who in self._shares_of(person):
            share, spent = self.shares[who], _spent(balance, who)
            if spent + price > math.floor(share * _MICRO):
                left = max(0.0, share - spent / _MICRO)
                raise BudgetSpent(
                    f"The share of {who} is {share:g} {self.share_unit}. {left:.4g} are left, and this "
                    f"question could cost up to {price / _MICRO:.4g}, which is reserved before the rows are "
                    "read. Ask the owner for a larger share.",
                    asked=price / _MICRO,
                    spent=spent / _MICRO,
                    left=left,
                    unit=self.share_unit,
                )

    def share_left(self, person: Person, balance: Balance) -> float | None:
        """What is left of the person's share, or of the team's where that is less; None without a share."""
        left = [self.shares[who] - _spent(balance, who) / _MICRO for who in self._shares_of(person)]
        return max(0.0, min(left)) if left else None

    @property
    def share_unit(self) -> str:
        """What shares are counted in: what the account book counts."""
        return "nats" if self.strategy in ("code", "agreed-code", "grid-code") else "answers"

    def may_report(self, person: Person) -> bool:
        """Whether this person may give the last word."""
        return person.role == "owner" or (person.role == "analyst" and self.report == "analyst")

    def require_reporter(self, person: Person) -> None:
        """Refuse the last word of whoever may not give it."""
        if not self.may_report(person):
            raise Forbidden(
                "A report ends the account. Here only an owner may give it, and this token is for an "
                f"{person.role}. Nothing was changed. Ask the owner to give the report."
            )

    def _shares_of(self, person: Person) -> list[str]:
        return [who for who in (person.account, person.team) if who in self.shares]


def _spent(balance: Balance, who: str) -> int:
    """Micro-nats of one person, or of everyone in a team."""
    if "/" in who:
        return balance.spent_by(who)
    names = {*balance.people, *(str(body.get("by", "")) for body in balance.open.values())}
    return sum(balance.spent_by(name) for name in names if name.split("/")[0] == who)


_MODELS: dict[str, Any] = {
    "independent": lambda count, said: dependence.Independent(count, **said),
    "markov": lambda count, said: dependence.MarkovChain(said.pop("transition"), count, **said),
    "clusters": lambda count, said: dependence.Clusters(said.pop("sizes", None), **said),
    "mixing": lambda count, said: dependence.Mixing(said.pop("rate"), n=count, **said),
    "blocks": lambda count, said: dependence.Blocks(
        said.pop("length"), said.pop("gap"), said.pop("mixing"), n=count, **said
    ),
    "m-dependent": lambda count, said: dependence.MDependent(count, said.pop("m"), **said),
}
