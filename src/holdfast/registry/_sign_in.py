"""Signing in by the organisation's own provider (OpenID Connect), or by a proxy that has done so already.

A file says which provider or proxy to trust, and who may do what:

    [oidc]
    issuer = "https://id.example/realms/town"
    client_id = "holdfast"
    client_secret_file = "/run/secrets/holdfast-oidc"
    url = "https://holdfast.example"          # where people reach this service

    [proxy]
    secret_file = "/run/secrets/holdfast-proxy"   # sent by the proxy as X-Holdfast-Proxy
    name = "X-Forwarded-User"
    groups = "X-Forwarded-Groups"

    [[allow]]
    claim = "groups"
    value = "analysts"
    role = "analyst"
    reach = "dataset:people"
    team = "town"

A person who fits a rule has its role for what it reaches. Several rules can fit. Nobody else gets in. What a
person may do is decided at each request from the claims that were kept at sign-in. So a changed file counts
from the next start on, also for open sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from itsdangerous import BadData, URLSafeTimedSerializer
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from holdfast import checks
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.registry._people import ROLES, Grant, Person, Refused, scope_of
from holdfast.registry._storage import Store

_PROVIDER_SECONDS = 10.0
_FACTS_SECONDS = 3_600.0  # how long the provider's addresses and keys are kept
_AWAY_SECONDS = 5.0  # how long a provider that did not answer is not asked again
_LEEWAY = 60
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
_AWAY = "The provider does not answer, or not as it should. Try again."
# Only signatures by a key pair: anyone with a shared secret could sign as the provider.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def _is_protected(address: str) -> bool:
    """Whether nobody can listen on the way to an address: it has https, or is on this machine."""
    parts = urlsplit(address)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)
    )


class NoProvider(HoldfastError):
    """The provider does not answer, or not as it should."""


@dataclass
class Provider:
    """A provider and this service's account with it.

    Args:
        issuer: The address by which the provider calls itself.
        client_id: This service's name there.
        secret: This service's password there; None for a public client.
        scopes: What is asked for.
    """

    issuer: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    scopes: str = "openid profile email"

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._facts: tuple[float, dict[str, Any], KeySet] | None = None
        self._away_until = -math.inf

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Provider:
        """The provider that the table [oidc] of a file describes."""
        allowed_names = {"issuer", "client_id", "client_secret_file", "scopes", "url", "hours", "name_claim"}
        if not set(table) <= allowed_names or not {"issuer", "client_id", "url"} <= set(table):
            raise InvalidArgument(
                "oidc", f"a table of {', '.join(sorted(allowed_names))}", sorted(table), of="sign-in"
            )
        issuer = str(table["issuer"]).rstrip("/")
        if not _is_protected(issuer):
            raise InvalidArgument("issuer", "an https address", issuer, of="sign-in")
        file = table.get("client_secret_file")
        secret = None if file is None else Path(str(file)).read_text(encoding="utf-8").strip()
        return cls(issuer, str(table["client_id"]), secret, str(table.get("scopes", cls.scopes)))

    def address(self, return_url: str, *, state: str, nonce: str, verifier: str) -> str:
        """Where to send a browser that wants to sign in. It takes no client, whose certificates take 20 ms to
        load: anybody may ask."""
        address = prepare_grant_uri(
            self._addresses_and_keys()[0]["authorization_endpoint"],
            self.client_id,
            "code",
            return_url,
            self.scopes,
            state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return str(address)

    def claims(self, code: str, return_url: str, *, nonce: str, verifier: str) -> dict[str, Any]:
        """The provider's claims about the person who came back with a code. Its signature is checked."""
        facts, _ = self._addresses_and_keys()
        try:
            with self._client(return_url) as client:
                reply = client.fetch_token(
                    facts["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                )
        except httpx.HTTPError:
            raise NoProvider("The provider does not answer. Try again.") from None
        except Exception:  # The provider's own log has the reason.
            raise Refused("The provider did not confirm this sign-in. Begin again.") from None
        return self._checked(str(reply.get("id_token", "")), nonce)

    def _checked(self, token: str, nonce: str) -> dict[str, Any]:
        for fresh in (False, True):  # An unknown key may be a new key of the provider.
            facts, keys = self._addresses_and_keys(fresh=fresh)
            try:
                decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS)
                break
            except (JoseError, ValueError, KeyError):
                if fresh:
                    raise Refused("The provider's signature is not right. Begin again.") from None
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": facts["issuer"]},  # Some issuers end with a slash.
            aud={"essential": True, "value": self.client_id},
            exp={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(decoded.claims)
        except JoseError:
            raise Refused("The provider's answer is not for this sign-in. Begin again.") from None
        return dict(decoded.claims)

    def _client(self, return_url: str) -> Any:
        return OAuth2Client(
            self.client_id,
            self.secret,
            redirect_uri=return_url,
            scope=self.scopes,
            token_endpoint_auth_method="client_secret_basic" if self.secret else "none",
            timeout=_PROVIDER_SECONDS,
            follow_redirects=False,
        )

    def _addresses_and_keys(self, *, fresh: bool = False) -> tuple[dict[str, Any], KeySet]:
        """The provider's addresses and keys."""
        with self._lock:
            if fresh or self._facts is None or time.monotonic() - self._facts[0] > _FACTS_SECONDS:
                # Those who waited for the lock meanwhile do not wait for the provider one after the other.
                if time.monotonic() < self._away_until:
                    raise NoProvider(_AWAY)
                try:
                    facts = self._get(f"{self.issuer}/.well-known/openid-configuration")
                    if facts.get("issuer", "").rstrip("/") != self.issuer:
                        raise NoProvider(
                            "The provider's issuer address is not the one in the file of --sign-in."
                        )
                    keys = KeySet.import_key_set(self._get(facts["jwks_uri"]))  # type: ignore[arg-type]
                except (httpx.HTTPError, JoseError, ValueError, KeyError):
                    self._away_until = time.monotonic() + _AWAY_SECONDS
                    raise NoProvider(_AWAY) from None
                self._facts = time.monotonic(), facts, keys
            return self._facts[1], self._facts[2]

    @staticmethod
    def _get(address: str) -> dict[str, Any]:
        reply = httpx.get(address, timeout=_PROVIDER_SECONDS, follow_redirects=False).raise_for_status()
        document: dict[str, Any] = reply.json()
        return document


COOKIE = "holdfast_session"
STATE_COOKIE = "holdfast_sign_in"
PAGE_HEADER = "x-holdfast"
"""Requests of a browser that change something carry it: no other site can make a browser send it."""

_PROXY_HEADER = "x-holdfast-proxy"
_STATE_SECONDS = 600
_LONGEST_NAME = 100
_MOST_CLAIM = 1_000  # values of one claim that are kept
_SCHEMA = """
CREATE TABLE IF NOT EXISTS [sessions] (
    digest TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    name TEXT NOT NULL,
    claims TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
"""


@dataclass(frozen=True)
class Allowed:
    """A rule: a person with this value of a claim has a role, a reach and a team."""

    claim: str
    value: str
    role: str
    reach: str
    team: str = ""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Allowed:
        """The rule that a table of the file describes."""
        names = {"claim", "value", "role", "reach", "team"}
        if not set(table) <= names or not names - {"team"} <= set(table):
            raise InvalidArgument(
                "allow", f"a table of {', '.join(sorted(names))}", dict(table), of="sign-in"
            )
        checks.choice(table["role"], "role", ROLES, of="sign-in")
        texts = {name: str(value) for name, value in table.items()}
        return cls(**{**texts, "reach": scope_of(texts["reach"])})

    def fits(self, claims: Mapping[str, Any]) -> bool:
        """Whether the rule applies to a person with these claims."""
        values = claims.get(self.claim)
        return self.value in (values if isinstance(values, list) else [values])


@dataclass(frozen=True)
class Proxy:
    """A proxy that signs people in, and proves its identity by a secret."""

    secret: str = field(repr=False)
    name: str = "x-forwarded-user"
    groups: str = "x-forwarded-groups"

    def claims(self, headers: Mapping[str, str]) -> dict[str, Any] | None:
        """The proxy's claims about the person; None for a request that did not come through the proxy."""
        sent_secret = headers.get(_PROXY_HEADER, "")
        if not sent_secret or not hmac.compare_digest(sent_secret.encode(), self.secret.encode()):
            return None
        names = [header for header, _ in headers.items() if header in (self.name, self.groups)]
        if len(names) != len(set(names)):  # One is the proxy's, and one may be the client's.
            raise Refused("A header that says who signs in came twice. The proxy must send each once.")
        name = headers.get(self.name, "")
        groups = [group.strip() for group in headers.get(self.groups, "").split(",")]
        return {"sub": name, "groups": [group for group in groups if group]} if name else None


class SignIn:
    """Who may sign in without a token, and the sessions of those who did.

    Guarantee: a session is 256 random bits, kept as a digest only. It ends after its hours, or when its
    person signs out. A provider is trusted only about sign-ins that this service began, in the browser that
    began them (state, nonce and PKCE), with a signature by the provider's key.

    Args:
        store: Where sessions are kept; machines that share the store share them.
        path: The file that says whom to trust (see the top of this module).
        key: A secret of this service, which every machine of it has.
    """

    def __init__(self, store: Store, path: Path, key: bytes) -> None:
        tables = _read(path)
        self._store = store
        self._store.make(_SCHEMA)
        self._rules = [Allowed.of(rule) for rule in tables.get("allow", [])]
        if not self._rules:
            raise InvalidArgument("allow", "at least one [[allow]] table", str(path), of="sign-in")
        self._proxy = _proxy(tables.get("proxy"))
        oidc = tables.get("oidc")
        self.provider = None if oidc is None else Provider.of(oidc)
        self._name = str((oidc or {}).get("name_claim", "sub"))
        self._seconds = checks.real((oidc or {}).get("hours", 8), "hours", "(0, 720]", of="sign-in") * 3600
        self.url = str((oidc or {}).get("url", "")).rstrip("/")
        if oidc is not None and not _is_protected(self.url):
            raise InvalidArgument("url", "the https address of this service", self.url, of="sign-in")
        self._signer = URLSafeTimedSerializer(hashlib.sha256(b"holdfast sign-in\n" + key).digest())

    @property
    def secure(self) -> bool:
        """Whether cookies are for encrypted connections only."""
        return self.url.startswith("https://")

    @property
    def _return_url(self) -> str:
        return f"{self.url}/v1/sign-in/back"

    def begin(self) -> tuple[str, str]:
        """Where to send the browser, and what to keep in its cookie until it comes back."""
        provider = self._require_provider()
        challenge = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        return provider.address(self._return_url, **challenge), str(self._signer.dumps(challenge))

    def finish(self, cookie: str, state: str, code: str) -> str:
        """A new session for the person who comes back from the provider. Returns the secret for the
        cookie."""
        provider = self._require_provider()
        try:
            challenge = self._signer.loads(cookie, max_age=_STATE_SECONDS)
        except BadData:
            raise Refused("This sign-in was not begun in this browser, or is too old. Begin again.") from None
        if not hmac.compare_digest(state, challenge["state"]):
            raise Refused("This sign-in was not begun in this browser. Begin again.")
        claims = provider.claims(
            code, self._return_url, nonce=challenge["nonce"], verifier=challenge["verifier"]
        )
        return self._new_session(claims)

    def holder(self, secret: str) -> Person:
        """The person of the session with this ``secret``."""
        row = self._store.execute(
            "SELECT identity, name, claims, expires FROM [sessions] WHERE digest = ?", (_digest(secret),)
        ).fetchone()
        if row is None or row[3] <= time.time():
            raise Refused("This session is over. Sign in again.")
        return self._person(row[0], row[1], json.loads(row[2]), row[3])

    def forwarded(self, headers: Mapping[str, str]) -> Person | None:
        """The person whom the proxy names for a request; None for a request that did not come through a
        proxy."""
        claims = None if self._proxy is None else self._proxy.claims(headers)
        if claims is None:
            return None
        return self._person(_identity("proxy", claims["sub"]), _name(claims["sub"]), claims, 0)

    def end(self, secret: str) -> None:
        """End a session."""
        self._store.execute("DELETE FROM [sessions] WHERE digest = ?", (_digest(secret),))

    def end_all(self, identity: str) -> bool:
        """End all sessions of a person; False if there are none."""
        if not identity.isalnum():  # PostgreSQL refuses text with NUL, and no identity has it.
            return False
        deleted = self._store.execute("DELETE FROM [sessions] WHERE identity = ?", (identity,))
        return deleted.rowcount > 0

    def close(self) -> None:
        """Close the store of sessions."""
        self._store.close()

    def _new_session(self, claims: Mapping[str, Any]) -> str:
        secret = secrets.token_urlsafe(32)
        identity, name = _identity(str(claims["iss"]), str(claims["sub"])), _name(claims.get(self._name))
        claim_names = {rule.claim for rule in self._rules}
        kept_claims = {claim: _values(claims.get(claim)) for claim in claim_names}
        expires = int(time.time() + self._seconds)
        self._person(identity, name, kept_claims, expires)  # Refused before anything is kept.
        self._store.execute("DELETE FROM [sessions] WHERE expires <= ?", (int(time.time()),))
        self._store.execute(
            "INSERT INTO [sessions] (digest, identity, name, claims, expires) VALUES (?, ?, ?, ?, ?)",
            (_digest(secret), identity, name, json.dumps(kept_claims), expires),
        )
        return secret

    def _person(self, identity: str, name: str, claims: Mapping[str, Any], expires: int) -> Person:
        fitting = [rule for rule in self._rules if rule.fits(claims)]
        if not fitting:
            raise Refused(
                "You are signed in, but no rule of this service gives you a role. Ask the owner of the data."
            )
        first_rule, *other_rules = fitting
        grants = tuple(Grant(rule.role, rule.reach, rule.team) for rule in other_rules)
        return Person(
            identity, name, first_rule.team, first_rule.role, first_rule.reach, expires, also=grants
        )

    def _require_provider(self) -> Provider:
        if self.provider is None:
            raise Refused("Nobody signs in by a provider here. Use a token.")
        return self.provider


def _read(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HoldfastError(f"The file of --sign-in cannot be read: {error}.") from None
    unknown = set(tables) - {"oidc", "proxy", "allow"}
    if unknown:
        raise InvalidArgument("sign-in", "tables oidc, proxy and allow", sorted(unknown), of="--sign-in")
    return tables


def _proxy(table: Mapping[str, Any] | None) -> Proxy | None:
    if table is None:
        return None
    secret = Path(str(table["secret_file"])).read_text(encoding="utf-8").strip()
    if len(secret) < 32:
        raise InvalidArgument(
            "secret_file", "a secret of at least 32 characters", "a shorter one", of="proxy"
        )
    names = {name: str(table[name]).lower() for name in ("name", "groups") if name in table}
    return Proxy(secret, **names)


def _values(claim: Any) -> list[str]:
    """The values of a claim as texts."""
    listed = claim if isinstance(claim, list) else [] if claim is None else [claim]
    return [str(value) for value in listed[:_MOST_CLAIM]]


def _name(claim: Any) -> str:
    """A name under which prices can be recorded. A text that cannot be a name as it is gets a digest of it at
    the end, so two people never have the same name."""
    full_name = str(claim or "")
    name = "".join(letter for letter in full_name if letter.isprintable() and letter != "/")
    if not name:
        raise Refused("The provider does not say who you are: the claim of the name is empty.")
    if name == full_name and len(name) <= _LONGEST_NAME:
        return name
    digest = _digest(full_name)[:16]
    return f"{name[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def _identity(issuer: str, subject: str) -> str:
    return hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()[:16]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
