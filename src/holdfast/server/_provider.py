"""An OpenID Connect provider: where it is, how it is asked, and how its answer is checked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
from authlib.integrations.httpx_client import OAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.server._tokens import Refused

_SECONDS = 10.0
_FRESH = 3_600.0  # how long the provider's addresses and keys are believed
_LEEWAY = 60
# Signatures by a key pair only: whoever knows a shared secret could sign as the provider.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


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

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Provider:
        """The provider that the table [oidc] of a file says."""
        known = {"issuer", "client_id", "client_secret_file", "scopes", "url", "hours", "name_claim"}
        if not set(said) <= known or not {"issuer", "client_id", "url"} <= set(said):
            raise InvalidArgument(
                "oidc", f"a table of {', '.join(sorted(known))}", sorted(said), of="sign-in"
            )
        issuer = str(said["issuer"]).rstrip("/")
        if not issuer.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise InvalidArgument("issuer", "an https address", issuer, of="sign-in")
        file = said.get("client_secret_file")
        secret = None if file is None else Path(str(file)).read_text(encoding="utf-8").strip()
        return cls(issuer, str(said["client_id"]), secret, str(said.get("scopes", cls.scopes)))

    def address(self, back: str, *, state: str, nonce: str, verifier: str) -> str:
        """Where to send a browser that wants to sign in."""
        with self._client(back) as client:
            address, _ = client.create_authorization_url(
                self._known()[0]["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
            )
        return str(address)

    def claims(self, code: str, back: str, *, nonce: str, verifier: str) -> dict[str, Any]:
        """What the provider says about whoever came back with a code; checked against its signature."""
        facts, _ = self._known()
        try:
            with self._client(back) as client:
                reply = client.fetch_token(
                    facts["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                )
        except httpx.HTTPError:
            raise NoProvider("The provider does not answer. Try again.") from None
        except Exception:  # What a provider objects to is for its own log.
            raise Refused("The provider did not confirm this sign-in. Begin again.") from None
        return self._checked(str(reply.get("id_token", "")), nonce)

    def _checked(self, token: str, nonce: str) -> dict[str, Any]:
        for fresh in (False, True):  # A key that is not known yet may be a new one.
            _, keys = self._known(fresh=fresh)
            try:
                decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS)
                break
            except (JoseError, ValueError, KeyError):
                if fresh:
                    raise Refused("The provider's signature is not right. Begin again.") from None
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self.issuer},
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

    def _client(self, back: str) -> Any:
        return OAuth2Client(
            self.client_id,
            self.secret,
            redirect_uri=back,
            scope=self.scopes,
            code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_basic" if self.secret else "none",
            timeout=_SECONDS,
            follow_redirects=False,
        )

    def _known(self, *, fresh: bool = False) -> tuple[dict[str, Any], KeySet]:
        """The provider's addresses and keys."""
        with self._lock:
            if fresh or self._facts is None or time.monotonic() - self._facts[0] > _FRESH:
                try:
                    facts = self._get(f"{self.issuer}/.well-known/openid-configuration")
                    if facts.get("issuer", "").rstrip("/") != self.issuer:
                        raise NoProvider("The provider calls itself by another address than --sign-in says.")
                    keys = KeySet.import_key_set(self._get(facts["jwks_uri"]))  # type: ignore[arg-type]
                except (httpx.HTTPError, JoseError, ValueError, KeyError):
                    raise NoProvider(
                        "The provider does not answer, or not as it should. Try again."
                    ) from None
                self._facts = time.monotonic(), facts, keys
            return self._facts[1], self._facts[2]

    @staticmethod
    def _get(address: str) -> dict[str, Any]:
        reply = httpx.get(address, timeout=_SECONDS, follow_redirects=False).raise_for_status()
        said: dict[str, Any] = reply.json()
        return said
