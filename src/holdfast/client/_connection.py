"""A connection to a service with a token. A request is sent again after a temporary failure. An error has the
same class here as in the service."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

from holdfast import checks, errors
from holdfast.engines import shown
from holdfast.ledger import BookError, Closed

TEMPORARY = (429, 502, 503, 504)
"""Statuses of failures that pass by themselves: a service that restarts, a minute that is full."""

# Errors that a service passes on. Others are its own, and come back as a HoldfastError.
_PASSED_ON: dict[str, type[errors.HoldfastError]] = {
    kind.__name__: kind
    for kind in (
        errors.BudgetSpent,
        errors.QueryRejected,
        errors.NotEnoughRows,
        errors.InvalidArgument,
        errors.MissingExtra,
        errors.DatabaseAway,
        errors.ResultsRejected,
        BookError,
        Closed,
    )
}
# What a service of an earlier version said instead of the class.
_BY_TYPE = {"budget-spent": "BudgetSpent", "account-closed": "Closed"}


class Connection:
    """Sends requests to one service as the holder of a token. ``of`` is the class that errors speak of."""

    def __init__(
        self, url: str, token: str, *, tries: int = 5, timeout: float = 120.0, of: str = "Client"
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise errors.MissingExtra("server", what="The client") from None
        if not (token.isascii() and token.isprintable()):
            raise errors.InvalidArgument("token", "a token that the service issued", "another text", of=of)
        # The longest wait that sockets accept is about three hundred years.
        seconds = checks.real(timeout, "timeout", "(0, 9e9]", of=of)
        self._http = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=seconds)
        try:
            self._http.base_url = url.rstrip("/") + "/v1"
            self._url = shown(url)
        except (httpx.InvalidURL, ValueError):
            self._url = ""
        if not self._url.startswith(("http://", "https://")):
            wanted = "the address of a service, http://… or https://…"
            raise errors.InvalidArgument("url", wanted, self._url or "none", of=of)
        self._temporary_errors: tuple[type[Exception], ...] = (httpx.TransportError,)
        self._tries = checks.whole(tries, "tries", of=of)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        response = self._send(method, path, body, headers or {})
        try:
            return response.json()
        except ValueError:
            raise errors.HoldfastError(
                f"The server at {self._url} is not a Holdfast service: check the address and the port."
            ) from None

    def _send(
        self, method: str, path: str, body: Any, headers: dict[str, str], *, content: bytes | None = None
    ) -> Any:
        """Send a request, and send it again after a temporary failure. Repeating a request does no harm."""
        for attempt in range(1, self._tries + 1):
            try:
                response = self._http.request(method, path, json=body, content=content, headers=headers)
            except ValueError as error:
                if "JSON" not in str(error):
                    raise
                raise errors.HoldfastError(
                    "The request has a number that is not finite (NaN or infinity). Nothing was sent."
                ) from None
            except self._temporary_errors as error:
                if attempt == self._tries:
                    raise self._unreachable(error) from None
                time.sleep(0.1 * 2**attempt)
                continue
            if response.status_code not in TEMPORARY or attempt == self._tries:
                break
            time.sleep(float(response.headers.get("Retry-After", 0.1 * 2**attempt)))
        if response.is_error:
            raise self._error(response)
        return response

    def _error(self, response: Any) -> Exception:
        """The error of a reply."""
        return error_of(response)

    def _unreachable(self, error: Exception) -> errors.HoldfastError:
        return errors.HoldfastError(
            f"No service answers at {self._url} ({str(error) or type(error).__name__}, tries: {self._tries})."
            " Check the address, and that the service runs. A question that did arrive was charged once, and "
            "asking it again is free."
        )


def error_of(response: Any) -> errors.HoldfastError:
    """The error of a reply, as the guard itself would have raised it."""
    try:
        reply = response.json()
    except ValueError:
        reply = {}
    problem = reply if isinstance(reply, dict) else {}
    return error_from({"detail": response.reason_phrase, **problem}, response.status_code)


def error_from(problem: Mapping[str, Any], status: int) -> errors.HoldfastError:
    """The error that a problem describes; ``status`` is its HTTP status."""
    by_type = _BY_TYPE.get(str(problem.get("type", "")).rpartition(":")[2], "")
    kind = _PASSED_ON.get(str(problem.get("error", by_type)))
    if kind is None and status == 422:
        kind = errors.QueryRejected
    if kind is None:
        return errors.HoldfastError(f"{problem['detail']} (HTTP {status})")
    return kind.from_dict({"unit": "nats", **problem, "message": problem["detail"]})


def quoted(name: str) -> str:
    """A name as one part of an address, whatever characters it has: an agent may have made it up."""
    if not name.strip("."):
        raise errors.InvalidArgument("name", "the name of a dataset, board or gate", name, of="Client")
    return quote(name, safe="@")
