"""Administering a service over HTTP with an owner's token: people, terms and datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from holdfast import errors
from holdfast.client import Connection, error_of, quoted
from holdfast.typing import (
    DatasetReply,
    ImportedReply,
    NewTokenReply,
    PersonReply,
    PersonRole,
    ReportRight,
    StateReply,
    TermsReply,
)

__all__ = ["Admin"]

# The request was understood, but the state of the service or this token does not allow it.
_REFUSED = (403, 409, 410)


class Admin(Connection):
    """The owner's side of a service: who may ask how much, and which datasets are served.

    Guarantee: every change is a line of the service's book of acts. A change of a dataset is also a line of
    the dataset's account book. Both books are chained and signed. No change affects what an answer
    guarantees, and none gives the same rows a second account.

    Args:
        url: The address of the service.
        token: An owner's token. Only what it reaches can be changed.
        tries: How often a request is sent before a passing failure counts.
        timeout: How many seconds one request may take.

    >>> with Admin("http://127.0.0.1:8344", token) as admin:  # doctest: +SKIP
    ...     admin.change_terms("people", shares={"red/bob": 5.0}, rate=60)
    """

    def __init__(self, url: str, token: str, *, tries: int = 5, timeout: float = 120.0) -> None:
        super().__init__(url, token, tries=tries, timeout=timeout, of="Admin")

    def key(self) -> str:
        """The public key of the service."""
        return str(self._call("GET", "/key")["key"])

    # Any: a dataset that is served has more fields than one that is not.
    def datasets(self) -> list[dict[str, Any]]:
        """The datasets that are served, and then those that are archived or deleted, each with its
        ``state``."""
        served = [{**dataset, "state": "served"} for dataset in self._call("GET", "/datasets")]
        return [*served, *self._call("GET", "/states")]

    def terms(self, dataset: str) -> TermsReply:
        """The terms of a dataset that can be changed: ``shares``, ``rate`` and ``report``.

        Args:
            dataset: The name of the dataset, or of one of its epochs (people@1).
        """
        terms: TermsReply = self._call("GET", f"/datasets/{quoted(dataset)}/terms")
        return terms

    def change_terms(
        self,
        dataset: str,
        *,
        shares: dict[str, float | None] | None = None,
        rate: int | None = None,
        report: ReportRight | None = None,
    ) -> TermsReply:
        """Change terms of a dataset. The change holds from the next question on. Returns the new terms.

        Args:
            dataset: The name of the dataset, or of one of its epochs.
            shares: Person ("team/name") or team to their share of the account; None takes a share away.
                Shares that are not named stay.
            rate: How many new questions a person may ask in a minute.
            report: Who may give the report that ends the account: "owner" or "analyst".
        """
        changes = {"shares": shares, "rate": rate, "report": report}
        body = {name: value for name, value in changes.items() if value is not None}
        changed: TermsReply = self._call("PATCH", f"/datasets/{quoted(dataset)}/terms", body)
        return changed

    def close_account(self, dataset: str) -> DatasetReply:
        """End an account for good: what was answered stays readable, and nothing new is answered.

        Args:
            dataset: The name of the dataset, or of one of its epochs.
        """
        described: DatasetReply = self._call("POST", f"/datasets/{quoted(dataset)}/close")
        return described

    def archive(self, dataset: str) -> StateReply:
        """Stop serving a dataset until :meth:`unarchive`. Its account stays as it is. Its rows are not needed
        meanwhile.

        Args:
            dataset: The name of the dataset.
        """
        state: StateReply = self._call("POST", f"/datasets/{quoted(dataset)}/archive")
        return state

    def unarchive(self, dataset: str) -> StateReply:
        """Serve an archived dataset again.

        Args:
            dataset: The name of the dataset.
        """
        state: StateReply = self._call("POST", f"/datasets/{quoted(dataset)}/unarchive")
        return state

    def delete(self, dataset: str, *, confirm: str) -> StateReply:
        """End every account of a dataset and forget it, for good. Its account books stay, and the same rows
        stay refused. Files of rows stay where they are.

        Args:
            dataset: The name of the dataset.
            confirm: The name of the dataset once more.
        """
        query = urlencode({"confirm": confirm})
        state: StateReply = self._call("DELETE", f"/datasets/{quoted(dataset)}?{query}")
        return state

    def export(self, dataset: str, path: str | Path, *, to: str | None = None) -> None:
        """Write a dataset to a file: its registration and its account books, without its rows.

        The file holds the secrets of the books, so only its owner can read it. Without ``to`` it is a copy:
        a service that imports it has a closed account.

        Args:
            dataset: The name of the dataset.
            path: The file to write. It must not exist.
            to: The public key of the service that continues the account. Here the account ends for good.
        """
        target = Path(path)
        with target.open("xb") as file:
            target.chmod(0o600)
            try:
                body = {} if to is None else {"to": to}
                file.write(self._send("POST", f"/datasets/{quoted(dataset)}/export", body, {}).content)
            except BaseException:
                target.unlink()
                raise

    def take_in(self, path: str | Path, *, key: str, name: str | None = None) -> ImportedReply:
        """Import a dataset that another service exported. Its rows must be among the sources of this one.

        Returns its ``name``, and whether its account is ``open``: it is if it was handed over to this
        service, and a copy is closed.

        Args:
            path: The exported file.
            key: The public key of the service that exported it.
            name: What the dataset is called here (default: as it was).
        """
        query = urlencode({"key": key, "name": name or ""})
        kind = {"Content-Type": "application/x-tar"}
        content = Path(path).read_bytes()
        imported: ImportedReply = self._send("POST", f"/imports?{query}", None, kind, content=content).json()
        return imported

    def people(self) -> list[PersonReply]:
        """Everyone who has or had a token for something that this token reaches, newest first."""
        people: list[PersonReply] = self._call("GET", "/tokens")
        return people

    def issue(
        self, name: str, *, role: PersonRole, team: str = "", dataset: str = "*", days: float = 90
    ) -> NewTokenReply:
        """Give someone a token. Its text is under ``token``, and is shown only this once.

        Args:
            name: Who it is for.
            role: "owner", "analyst", "auditor", "participant" or "submitter".
            team: The team whose share the person uses.
            dataset: What it reaches: "dataset:NAME" (or NAME), "board:NAME", "gate:NAME" or "*".
            days: How long it lasts.
        """
        body = {"name": name, "role": role, "team": team, "dataset": dataset, "days": days}
        issued: NewTokenReply = self._call("POST", "/tokens", body)
        return issued

    def change_token(
        self,
        identity: str,
        *,
        role: PersonRole | None = None,
        dataset: str | None = None,
        days: float | None = None,
    ) -> PersonReply:
        """Change a token from its next request on. The name and the team stay, because what was spent is
        recorded under them. Returns the token as it is now, without its text.

        Args:
            identity: The token, by the ``identity`` that :meth:`people` lists.
            role: Its new role.
            dataset: What it reaches now.
            days: How long it lasts, from now.
        """
        changes = {"role": role, "dataset": dataset, "days": days}
        body = {name: value for name, value in changes.items() if value is not None}
        changed: PersonReply = self._call("PATCH", f"/tokens/{quoted(identity)}", body)
        return changed

    def revoke(self, identity: str) -> None:
        """End a token now.

        Args:
            identity: The token, by the ``identity`` that :meth:`people` lists.
        """
        self._send("DELETE", f"/tokens/{quoted(identity)}", None, {})

    # Any: each kind of act has fields of its own.
    def acts(self) -> list[dict[str, Any]]:
        """What owners did, in order: who, when, what, and about which dataset or token. Needs a token that
        reaches everything."""
        acts: list[dict[str, Any]] = []
        after = 0
        while (page := self._call("GET", f"/administration?limit=1000&after={after}"))["acts"]:
            acts += page["acts"]
            after = page["after"]
        return acts

    def export_acts(self, path: str | Path) -> None:
        """Write the book of acts to a file that anyone can verify with `holdfast verify`.

        Args:
            path: The file to write.
        """
        Path(path).write_bytes(self._send("GET", "/administration/ledger", None, {}).content)

    def _error(self, response: Any) -> Exception:
        error = error_of(response)
        if response.status_code in _REFUSED and not isinstance(error, errors.BudgetSpent):
            return errors.ServiceRefused(str(error), status=response.status_code)
        return error

    def __repr__(self) -> str:
        return f"Admin({self._url!r})"
