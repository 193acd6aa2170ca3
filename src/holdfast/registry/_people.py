"""People and what they may do. Tokens are stored as digests only, with a role, a reach and an end.

One table has the roles and the reach for every route. It is looked up before a route runs. A route that is
not in the table is refused to everybody. No route checks roles by itself.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from holdfast import checks
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.records import Record
from holdfast.registry._storage import SqliteStore, Store, Unknown, adopt, named
from holdfast.typing import PersonRole

ROLES = ("owner", "analyst", "auditor", "participant", "submitter")
_SCOPE = re.compile(r"(dataset:|board:|gate:|)([a-z0-9][a-z0-9_-]{0,62})")
TOKENS_SCHEMA = """
CREATE TABLE IF NOT EXISTS [tokens] (
    digest TEXT PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    team TEXT NOT NULL,
    role TEXT NOT NULL,
    dataset TEXT NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0
) STRICT;
"""
_COLUMNS = "identity, name, team, role, dataset, expires, revoked"


class Refused(HoldfastError):
    """The token is unknown, expired or revoked, or does not reach this thing. The error does not say
    which."""


class Forbidden(Refused):
    """The token is valid and its role does not allow this."""


class Grant(NamedTuple):
    """A role for what a scope reaches, and the team whose share is used there."""

    role: str
    dataset: str
    team: str = ""

    def reaches(self, kind: str, name: str) -> bool:
        """Whether it is for the "dataset", the "board" or the "gate" of this name."""
        return self.dataset in ("*", f"{kind}:{name}")


@dataclass(frozen=True, repr=False)
class Person(Record):
    """Who holds a token or a session: a name in a team, a role, and what it reaches.

    ``dataset`` is "dataset:NAME", "board:NAME", "gate:NAME", or "*" for everything. A person who signed in
    with a provider may have further roles for other things (``also``).
    """

    identity: str
    name: str
    team: str
    role: str
    dataset: str
    expires: int
    revoked: int = 0
    also: tuple[Grant, ...] = ()

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Every role with what it reaches."""
        return (Grant(self.role, self.dataset, self.team), *self.also)

    def acting(self, grant: Grant, *others: Grant) -> Person:
        """The same person with these roles only, in the team of the first."""
        return replace(self, role=grant.role, dataset=grant.dataset, team=grant.team, also=others)

    def to_dict(self) -> dict[str, Any]:
        """The person as plain values."""
        values = super().to_dict()
        values["also"] = [{"role": grant.role, "dataset": grant.dataset} for grant in self.also]
        return values

    @property
    def account(self) -> str:
        """The name under which prices are recorded. It has the team, so a team's prices can be summed."""
        return f"{self.team}/{self.name}"

    def reaches(self, kind: str, name: str) -> bool:
        """Whether the token is for the "dataset", the "board" or the "gate" of this name. These may have the
        same name; a token for one of them does not reach the others."""
        return any(grant.reaches(kind, name) for grant in self.grants)

    def covers(self, scope: str) -> bool:
        """Whether the token reaches all that a token with this scope reaches. An owner gives, lists and
        revokes only such tokens."""
        return any(grant.dataset in ("*", scope) for grant in self.grants)


class Tokens:
    """The tokens of one service. What is stored cannot be turned back into a token.

    Guarantee: a token has 256 random bits. The store has SHA-256 digests, and looks tokens up by digest. So
    neither the file nor the time of a look-up helps to guess a token. A revoked token ends at once, on every
    machine that shares the store. Expiry follows the machine's clock. A clock that goes back makes tokens
    last longer, and locks nobody out.

    Args:
        place: The file of the tokens, or a store that is open.
    """

    def __init__(self, place: Path | str | Store) -> None:
        self._database: Store = SqliteStore(place) if isinstance(place, (str, Path)) else place
        self._database.make(TOKENS_SCHEMA)

    def issue(
        self,
        name: str,
        *,
        role: PersonRole,
        team: str = "",
        dataset: str = "*",
        days: float = 90,
        by: Person | None = None,
    ) -> tuple[str, Person]:
        """A new token, shown only this once, and its holder: :meth:`draft` and :meth:`keep` in one.

        Args:
            name: The person's name.
            role: "owner", "analyst", "auditor", "participant" or "submitter".
            team: The person's team; empty for none.
            dataset: What the token reaches, as for :meth:`draft`.
            days: How long the token is valid.
            by: The owner who gives it.
        """
        secret, person = self.draft(name, role=role, team=team, dataset=dataset, days=days, by=by)
        self.keep(secret, person)
        return secret, person

    def draft(
        self,
        name: str,
        *,
        role: PersonRole,
        team: str = "",
        dataset: str = "*",
        days: float = 90,
        by: Person | None = None,
    ) -> tuple[str, Person]:
        """A new token and its holder. The token is valid after :meth:`keep`.

        ``name`` and ``team`` are recorded with every question. ``role`` says what the person may do, and
        ``days`` how long the token is valid. ``dataset`` says what it reaches: "dataset:NAME", or NAME alone,
        which means the same; "board:NAME"; "gate:NAME"; or "*" for everything. A participant reaches boards
        and gates only. A submitter may only submit to one gate. ``by`` is the owner who gives it; a reach
        beyond the owner's own is refused.
        """
        dataset = _checked_reach(role, dataset, by)
        for argument, text in (("name", name), ("team", team)):
            if "/" in text or not text.isprintable() or len(text) > 100 or (argument == "name" and not text):
                wanted = "at most 100 printable characters without '/'"
                raise InvalidArgument(argument, wanted, text, of="Tokens.issue")
        days = checks.real(days, "days", "(0, 3660]", of="Tokens.issue")
        secret = f"hf_{secrets.token_urlsafe(32)}"
        expires = int(time.time() + days * 86_400)
        return secret, Person(secrets.token_hex(8), name, team, role, dataset, expires)

    def keep(self, secret: str, person: Person) -> None:
        """Make the token ``secret`` of a ``person`` valid, as :meth:`draft` returned them."""
        self._database.execute(
            f"INSERT INTO [tokens] (digest, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (
                _digest(secret),
                person.identity,
                person.name,
                person.team,
                person.role,
                person.dataset,
                person.expires,
            ),
        )

    def holder(self, secret: str) -> Person:
        """Who holds the token ``secret``; refused if it is not valid now."""
        person = self._first("WHERE digest = ?", _digest(secret))
        if person is None or person.revoked or person.expires <= time.time():
            raise Refused("This token is not valid. Ask the owner of the data for a new one.")
        return person

    def revoke(self, identity: str, *, by: Person | None = None) -> bool:
        """End the token with this ``identity`` now. False if there is none, or the owner ``by`` does not
        reach it."""
        if self.find(identity, by=by) is None:
            return False
        self._database.execute("UPDATE [tokens] SET revoked = 1 WHERE identity = ?", (identity,))
        return True

    def changed(
        self,
        identity: str,
        *,
        role: PersonRole | None = None,
        dataset: str | None = None,
        days: float | None = None,
        by: Person | None = None,
    ) -> Person | None:
        """The holder of a token with another ``role``, another reach (``dataset``) or another end (in
        ``days`` from now). :meth:`write` records the change. None if there is no token with this
        ``identity``, it was revoked, or the owner ``by`` does not reach it. The name and the team stay,
        because what was spent is recorded under them."""
        person = self.find(identity, by=by)
        if person is None or person.revoked:
            return None
        if role is None and dataset is None and days is None:
            raise InvalidArgument("role", "given, or dataset, or days: there is nothing to change", None)
        new_role = person.role if role is None else role
        reach = _checked_reach(new_role, person.dataset if dataset is None else dataset, by)
        expires = person.expires
        if days is not None:
            expires = int(time.time() + checks.real(days, "days", "(0, 3660]", of="Tokens.changed") * 86_400)
        return replace(person, role=new_role, dataset=reach, expires=expires)

    def write(self, person: Person) -> None:
        """Record the ``person`` that :meth:`changed` returned. It holds from the next request on."""
        self._database.execute(
            "UPDATE [tokens] SET role = ?, dataset = ?, expires = ? WHERE identity = ?",
            (person.role, person.dataset, person.expires, person.identity),
        )

    def find(self, identity: str, *, by: Person | None = None) -> Person | None:
        """The holder of the token with this ``identity``, if the owner ``by`` reaches it."""
        person = self._first("WHERE identity = ?", identity) if identity.isalnum() else None
        return person if person is None or by is None or by.covers(person.dataset) else None

    def name_kinds(self, *, datasets: Collection[str], boards: Collection[str]) -> None:
        """Rewrite tokens of earlier versions, which have a name without its kind. They become "dataset:NAME"
        if the name is one of ``datasets``, and "board:NAME" if it is only one of ``boards``.

        If a dataset and a board have the name, the token reaches the dataset only, because its purpose is
        unknown. A service does this at every start.
        """
        for (name,) in self._database.execute("SELECT DISTINCT dataset FROM [tokens]"):
            if name != "*" and ":" not in name:
                kind = "board" if name in boards and name not in datasets else "dataset"
                self._database.execute(
                    "UPDATE [tokens] SET dataset = ? WHERE dataset = ?", (f"{kind}:{name}", name)
                )

    def adopt(self, path: Path) -> None:
        """Copy the tokens of the file ``path``, if this store has none yet: tokens are kept with the books
        now."""
        adopt(self._database, path, "tokens", ("digest", *_COLUMNS.split(", ")))

    @property
    def remote(self) -> bool:
        """Whether looking up a token needs the network."""
        return self._database.remote

    def all(self, *, by: Person | None = None) -> list[Person]:
        """Everyone who ever had a token, newest first. With an owner ``by``, only those that the owner
        reaches."""
        everyone = self._select("ORDER BY rowid DESC")
        return [person for person in everyone if by is None or by.covers(person.dataset)]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _first(self, condition: str, *values: object) -> Person | None:
        people = self._select(condition, *values)
        return people[0] if people else None

    def _select(self, condition: str, *values: object) -> list[Person]:
        rows = self._database.execute(f"SELECT {_COLUMNS} FROM [tokens] {condition}", values)
        return [Person(*row) for row in rows]


def _checked_reach(role: str, dataset: str, by: Person | None) -> str:
    """The reach of a token, checked: the role must allow it, and the owner ``by`` must be able to give it."""
    checks.choice(role, "role", ROLES, of="Tokens.issue")
    dataset = scope_of(dataset)
    if by is not None and not by.covers(dataset):
        raise Forbidden(
            f"This owner's token reaches {by.dataset!r} only, and so do the tokens it gives: say "
            f'"dataset": "{by.dataset}". No token was made.'
        )
    if role == "participant" and dataset.startswith("dataset:"):
        wanted = "'board:NAME', 'gate:NAME', or '*' for all of these: a participant asks no dataset"
        raise InvalidArgument("dataset", wanted, dataset, of="Tokens.issue")
    if role == "submitter" and not dataset.startswith("gate:"):
        wanted = "'gate:NAME': a submitter may only submit, and to one gate"
        raise InvalidArgument("dataset", wanted, dataset, of="Tokens.issue")
    return dataset


def scope_of(scope: str) -> str:
    """What a token reaches, with its kind."""
    if scope == "*":
        return scope
    parts = _SCOPE.fullmatch(scope)
    if parts is None:
        raise InvalidArgument(
            "dataset", "'*', 'dataset:NAME', 'board:NAME' or 'gate:NAME'", scope, of="Tokens.issue"
        )
    return f"{parts[1] or 'dataset:'}{parts[2]}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_OWNER = ("owner",)
_ASKERS = (*_OWNER, "analyst")
_READERS = (*_ASKERS, "auditor")
_AUDITORS = (*_OWNER, "auditor")
_PLAYERS = (*_ASKERS, "participant")
_WATCHERS = (*_PLAYERS, "auditor")
_EVERYBODY = (*_WATCHERS, "submitter")


@dataclass(frozen=True)
class Rule:
    """What a route needs of a token: one of the ``roles``, and a ``reach``.

    The reach is "dataset", "board" or "gate" if the token must reach the thing that the address names. It is
    "everything" if only a token for the whole service is enough, and "own" if the route uses only what the
    token reaches. It is "public" if no token is needed.
    """

    roles: tuple[str, ...]
    reach: str

    @property
    def public(self) -> bool:
        """Whether the route is open to anyone."""
        return self.reach == "public"

    def require(self, person: Person, name: str | None) -> Person:
        """Refuse a person who has none of the roles, or whose token does not reach ``name``, the name in the
        address. Returns the person with the role that fits the rule."""
        fitting = tuple(grant for grant in person.grants if grant.role in self.roles)
        if not fitting:
            raise Forbidden(
                f"This is for {_listed(self.roles)} tokens; this one is for {_article(person.role)} "
                f"{person.role}."
            )
        if self.reach == "own":
            return person.acting(*fitting)
        if self.reach == "everything":
            reaching = [grant for grant in fitting if grant.dataset == "*"]
            if not reaching:
                raise Forbidden(
                    f"This is for tokens that reach everything ('*'); this one reaches {person.dataset!r} "
                    "only. Nothing was changed. Ask an owner of the whole service."
                )
        else:
            reaching = [grant for grant in fitting if grant.reaches(self.reach, named(name or "")[0])]
            # Databases do not accept text with NUL, and nothing has such a name.
            if not reaching or "\0" in (name or ""):
                raise Unknown(f"There is no {self.reach} {name!r} that this token reaches.")
        return person.acting(reaching[0])


_KINDS = ("dataset", "board", "gate")
_PUBLIC = Rule((), "public")

ROUTES: dict[tuple[str, str], Rule] = {
    ("GET", "/v1/health"): _PUBLIC,
    ("GET", "/v1/live"): _PUBLIC,
    ("GET", "/v1/ready"): _PUBLIC,
    ("GET", "/v1/key"): _PUBLIC,
    ("GET", "/"): _PUBLIC,
    ("GET", "/page.css"): _PUBLIC,
    ("GET", "/page.js"): _PUBLIC,
    ("GET", "/boards.js"): _PUBLIC,
    ("GET", "/gates.js"): _PUBLIC,
    ("GET", "/results.js"): _PUBLIC,
    ("GET", "/dataset.js"): _PUBLIC,
    ("GET", "/columns.js"): _PUBLIC,
    ("GET", "/answers.js"): _PUBLIC,
    ("GET", "/report.js"): _PUBLIC,
    ("GET", "/owner.js"): _PUBLIC,
    ("GET", "/registering.js"): _PUBLIC,
    ("GET", "/administration.js"): _PUBLIC,
    ("GET", "/tools.js"): _PUBLIC,
    ("GET", "/v1/metrics"): Rule(_OWNER, "everything"),
    # People. An owner of one thing gives, lists and takes tokens for that thing only.
    ("GET", "/v1/sign-in"): _PUBLIC,
    ("GET", "/v1/sign-in/start"): _PUBLIC,
    ("GET", "/v1/sign-in/back"): _PUBLIC,
    ("POST", "/v1/sign-out"): Rule(_EVERYBODY, "own"),
    ("DELETE", "/v1/sessions/{identity}"): Rule(_OWNER, "everything"),
    ("GET", "/v1/me"): Rule(_EVERYBODY, "own"),
    ("POST", "/v1/tokens"): Rule(_OWNER, "own"),
    ("GET", "/v1/tokens"): Rule(_OWNER, "own"),
    ("PATCH", "/v1/tokens/{identity}"): Rule(_OWNER, "own"),
    ("DELETE", "/v1/tokens/{identity}"): Rule(_OWNER, "own"),
    ("GET", "/v1/administration"): Rule(_AUDITORS, "everything"),
    ("GET", "/v1/administration/ledger"): Rule(_AUDITORS, "everything"),
    # Datasets. Who may give a report is also decided by the dataset's policy.
    ("POST", "/v1/datasets"): Rule(_OWNER, "everything"),
    ("GET", "/v1/datasets"): Rule(_READERS, "own"),
    ("GET", "/v1/datasets/{name}"): Rule(_READERS, "dataset"),
    ("POST", "/v1/datasets/{name}/preview"): Rule(_ASKERS, "dataset"),
    ("POST", "/v1/datasets/{name}/questions"): Rule(_ASKERS, "dataset"),
    ("POST", "/v1/datasets/{name}/batches"): Rule(_ASKERS, "dataset"),
    ("POST", "/v1/datasets/{name}/tables"): Rule(_ASKERS, "dataset"),
    ("POST", "/v1/datasets/{name}/curves"): Rule(_ASKERS, "dataset"),
    ("POST", "/v1/datasets/{name}/discoveries"): Rule(_ASKERS, "dataset"),
    ("GET", "/v1/datasets/{name}/discoveries"): Rule(_READERS, "dataset"),
    ("GET", "/v1/datasets/{name}/history"): Rule(_READERS, "dataset"),
    ("GET", "/v1/datasets/{name}/train"): Rule(_ASKERS, "dataset"),
    ("GET", "/v1/datasets/{name}/columns"): Rule(_ASKERS, "dataset"),
    ("GET", "/v1/datasets/{name}/certificate"): Rule(_READERS, "dataset"),
    ("GET", "/v1/datasets/{name}/ledger"): Rule(_AUDITORS, "dataset"),
    ("GET", "/v1/datasets/{name}/verify"): Rule(_READERS, "dataset"),
    ("GET", "/v1/datasets/{name}/terms"): Rule(_AUDITORS, "dataset"),
    ("PATCH", "/v1/datasets/{name}/terms"): Rule(_OWNER, "dataset"),
    ("POST", "/v1/datasets/{name}/close"): Rule(_OWNER, "dataset"),
    ("POST", "/v1/datasets/{name}/archive"): Rule(_OWNER, "dataset"),
    ("POST", "/v1/datasets/{name}/unarchive"): Rule(_OWNER, "dataset"),
    ("POST", "/v1/datasets/{name}/export"): Rule(_OWNER, "dataset"),
    ("DELETE", "/v1/datasets/{name}"): Rule(_OWNER, "dataset"),
    ("GET", "/v1/states"): Rule(_AUDITORS, "own"),
    ("POST", "/v1/imports"): Rule(_OWNER, "everything"),
    ("POST", "/v1/datasets/{name}/epochs"): Rule(_OWNER, "dataset"),
    ("GET", "/v1/datasets/{name}/epochs"): Rule(_READERS, "dataset"),
    ("POST", "/v1/datasets/{name}/report"): Rule(_ASKERS, "dataset"),
    ("GET", "/v1/datasets/{name}/report"): Rule(_READERS, "dataset"),
    # Boards.
    ("POST", "/v1/boards"): Rule(_OWNER, "everything"),
    ("GET", "/v1/boards"): Rule(_WATCHERS, "own"),
    ("GET", "/v1/boards/{name}"): Rule(_WATCHERS, "board"),
    ("GET", "/v1/boards/{name}/ids"): Rule(_WATCHERS, "board"),
    ("POST", "/v1/boards/{name}/submissions"): Rule(_PLAYERS, "board"),
    ("GET", "/v1/boards/{name}/submissions"): Rule(_WATCHERS, "board"),
    ("GET", "/v1/boards/{name}/finalists"): Rule(_PLAYERS, "board"),
    ("PUT", "/v1/boards/{name}/finalists"): Rule(_PLAYERS, "board"),
    ("POST", "/v1/boards/{name}/unblind"): Rule(_OWNER, "board"),
    ("POST", "/v1/boards/{name}/final"): Rule(_OWNER, "board"),
    # Gates.
    ("POST", "/v1/gates"): Rule(_OWNER, "everything"),
    ("GET", "/v1/gates"): Rule(_WATCHERS, "own"),
    ("GET", "/v1/gates/{name}"): Rule(_WATCHERS, "gate"),
    ("GET", "/v1/gates/{name}/tasks"): Rule(_WATCHERS, "gate"),
    ("POST", "/v1/gates/{name}/submissions"): Rule((*_PLAYERS, "submitter"), "gate"),
    ("GET", "/v1/gates/{name}/verdicts"): Rule(_WATCHERS, "gate"),
    ("POST", "/v1/gates/{name}/report"): Rule(_OWNER, "gate"),
    ("GET", "/v1/gates/{name}/book"): Rule(_AUDITORS, "gate"),
}


def rule_of(method: str, path: str) -> Rule:
    """The rule of a route; a route without one is refused to everybody."""
    rule = ROUTES.get((method, path))
    if rule is None:
        raise Forbidden("This address is closed: the table of roles does not say who may use it.")
    return rule


def _listed(roles: tuple[str, ...]) -> str:
    return " and ".join((*(role for role in roles if role != "owner"), "owner"))


def _article(role: str) -> str:
    return "a" if role in ("participant", "submitter") else "an"
