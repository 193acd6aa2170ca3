"""Who may do what: one table of roles and reach for every route, looked up before a route runs.

A route that is not in the table is refused, whoever asks. No route checks roles by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.server._places import Unknown, named
from holdfast.server._tokens import Forbidden, Person

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

    The reach is "dataset", "board" or "gate" where the token has to reach the one that the address names;
    "everything" where only a token for all of the service will do; "own" where the route deals with nothing
    but what the token reaches; and "public" where no token is needed.
    """

    roles: tuple[str, ...]
    reach: str

    @property
    def public(self) -> bool:
        """Whether the route is open to anyone."""
        return self.reach == "public"

    def require(self, person: Person, name: str | None) -> Person:
        """Refuse who has none of the roles, and what the token does not reach. ``name`` is the one in the
        address. Returns the person in the role that the rule is about."""
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
            # No database can be asked for text with NUL in it, and nothing has such a name.
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
