"""Asking a service: the same methods as a guard, over HTTP."""

from __future__ import annotations

import io
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from holdfast import checks, errors, queries
from holdfast._connection import PASSING, Connection, quoted
from holdfast._replies import (
    answer_of,
    certificate_of,
    gate_report_of,
    left_of,
    parquet_of,
    preview_of,
    refusal_of,
    report_of,
    scores_sent,
    table_of,
    verdict_of,
)
from holdfast.answers import plot_answers
from holdfast.engines import Column, Schema
from holdfast.guard import (
    Answer,
    Certificate,
    Curve,
    Discovery,
    Epoch,
    GateReport,
    Left,
    Preview,
    Report,
    Scale,
    Table,
    Verbs,
    Verdict,
    compare_query,
    score_query,
)
from holdfast.ledger import Receipt, Verification, read_receipts, verify, verify_epochs
from holdfast.queries import Query

if TYPE_CHECKING:
    from holdfast.typing import (
        BoundsLike,
        ExpressionLike,
        Label,
        MetricName,
        NullValue,
        TableLike,
    )

__all__ = ["Client"]

_NO_MODELS = (
    "A service scores predictions that are an expression over its columns, as text. Predictions of your "
    "own, or a "
    "model's, go to a board: client.submit(board, table)."
)
# So many questions are sent in one request.
_TOGETHER = 100


class Client(Connection, Verbs):
    """Ask a dataset of a service; the methods are those of :class:`holdfast.Guard`.

    Guarantee: that of the service's guard: every interval released from the dataset's account holds, for all
    who ask, with the account's confidence. A question is sent with a key of its own, so that trying again
    after a lost connection returns the recorded answer and is charged once.

    ``url`` is the address of the service and ``token`` what it issued to you. A lost connection is tried
    again up to ``tries`` times in all, and each request may take ``timeout`` seconds.
    ``dataset`` may be left out if the token reaches one only. Its name stands for the newest epoch of a table
    that grows, whichever that is when a question arrives, and "people@1" for the first. Receipts are kept in
    the file ``receipts``, one a line, and :meth:`verify` holds the account book against them.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        dataset: str | None = None,
        receipts: str | Path | None = None,
        tries: int = 5,
        timeout: float = 120.0,
    ) -> None:
        super().__init__(url, token, tries=tries, timeout=timeout)
        self._there: dict[str, Any] = {
            "url": url,
            "token": token,
            "receipts": receipts,
            "tries": tries,
            "timeout": timeout,
        }
        self._receipts = None if receipts is None else Path(receipts)
        self._given = dataset

    @cached_property
    def dataset(self) -> str:
        """The name of the dataset that is asked."""
        if self._given is not None:
            return self._given
        names = [found["name"] for found in self._call("GET", "/datasets")]
        if len(names) != 1:
            raise errors.InvalidArgument(
                "dataset",
                f"one of {', '.join(names) or 'none: this token reaches no dataset'}",
                None,
                of="Client",
            )
        return str(names[0])

    def me(self) -> dict[str, Any]:
        """Who the token stands for: name, team, role, what it reaches (``dataset``), and when it ends."""
        person: dict[str, Any] = self._call("GET", "/me")
        return person

    @overload
    def score(
        self,
        predictions: str,
        *,
        target: str,
        metric: MetricName = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def score(
        self,
        predictions: str,
        *,
        target: str,
        metric: list[MetricName] | tuple[MetricName, ...],
        guess: None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> dict[str, Answer]: ...
    def score(
        self,
        predictions: str,
        *,
        target: str,
        metric: MetricName | list[MetricName] | tuple[MetricName, ...] = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The score of predictions that are an expression over the columns, as in
        :meth:`holdfast.Guard.score`; with a list of metrics, one answer for each by its name, asked together.
        Predictions of your own go to a board (:meth:`submit`). There is no model to fit again, so ``cv`` does
        nothing here."""
        if not isinstance(metric, (list, tuple)):
            query = _scored(predictions, target, metric, guess, bounds, positive)
            return self.ask(query, precise=precise, nats=nats)
        if guess is not None:
            raise errors.InvalidArgument(
                "guess", "left out: each metric has a guess of its own", guess, of="Client.score"
            )
        asked = [_scored(predictions, target, one, None, bounds, positive) for one in metric]
        return dict(zip(metric, self.ask_all(asked, precise=precise, nats=nats), strict=True))

    def score_all(
        self,
        predictions: Sequence[str],
        *,
        target: str,
        metric: MetricName = "accuracy",
        names: Sequence[str] | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> list[Answer]:
        """The scores of several expressions, asked together, as in :meth:`holdfast.Guard.score_all`."""
        asked = [_scored(one, target, metric, None, bounds, positive) for one in predictions]
        return self.ask_all(asked, precise=precise, nats=nats)

    def compare(
        self,
        a: str,
        b: str,
        *,
        target: str,
        metric: MetricName = "accuracy",
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The score of one expression less that of another, as in :meth:`holdfast.Guard.compare`."""
        if not (isinstance(a, str) and isinstance(b, str)):
            raise errors.QueryRejected(_NO_MODELS)
        query = compare_query(a, b, target=target, metric=metric, scale=_scale(metric, bounds, positive))
        return self.ask(query, precise=precise, nats=nats)

    def discover(self, claim: str, *, rate: float = 0.05) -> Discovery:
        """Test a claim, as in :meth:`holdfast.Guard.discover`."""
        return Discovery(**self._call("POST", self._path("discoveries"), {"claim": claim, "rate": rate}))

    @property
    def discoveries(self) -> tuple[Discovery, ...]:
        """Every claim of the account that was tested, in order."""
        return tuple(Discovery(**one) for one in self._call("GET", self._path("discoveries")))

    def cdf(
        self,
        x: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Curve:
        """The whole distribution of an expression, as in :meth:`holdfast.Guard.cdf`."""
        return self.curve(queries.cdf(x, where=where, nulls=nulls), precise=precise, nats=nats)

    def curve(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Curve:
        """The same for a question given as a record or as text."""
        said = self._call("POST", self._path("curves"), _question(query, precise=precise, nats=nats))
        answer = self._received(said["answer"])
        parts = (tuple(said[name]) for name in ("points", "value", "low", "high"))
        return Curve(answer, *parts)

    def histogram(
        self,
        x: ExpressionLike,
        bins: int | Sequence[float] = 10,
        *,
        where: ExpressionLike | None = None,
        nulls: NullValue = None,
    ) -> Table:
        """The share of rows in each bin, as in :meth:`holdfast.Guard.histogram`."""
        return self.table(queries.histogram(x, bins, where=where, nulls=nulls))

    def custom(
        self,
        function: Any,
        *,
        tail: Any,
        guess: float | None = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """A service runs no code of those who ask: always refuses, and says what can be asked instead."""
        raise errors.QueryRejected(
            "A service runs no functions of those who ask. Ask mean, share or quantile of an expression, or "
            "use holdfast.Guard.custom where the data are."
        )

    def ask(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Answer:
        """Answer a question given as a record or as text. The same question costs nothing the second time.
        With ``precise`` or ``nats`` the answer is finer and costs more, as in :meth:`holdfast.Guard.ask`."""
        key = {"Idempotency-Key": secrets.token_hex(16)}
        body = _question(query, precise=precise, nats=nats)
        return self._received(self._call("POST", self._path("questions"), body, headers=key))

    def table(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Table:
        """Answer a question by the values of a column, as in :meth:`holdfast.Guard.table`."""
        body = _question(query, precise=precise, nats=nats)
        table = table_of(self._call("POST", self._path("tables"), body))
        for answer in table.answers:
            if self._receipts is not None and answer.receipt is not None:
                self._keep(answer.receipt)
        return table

    def ask_all(
        self, questions: Iterable[Query | str], *, precise: bool = False, nats: float | None = None
    ) -> list[Answer]:
        """Answer several questions together, as in :meth:`holdfast.Guard.ask_all`. A hundred at a time are
        one batch, and are checked before the first of them is asked."""
        waiting = [
            {**_question(question, precise=precise, nats=nats), "key": secrets.token_hex(16)}
            for question in questions
        ]
        answers: list[Answer] = []
        tried = 0
        while waiting:
            body = {"questions": waiting[:_TOGETHER], "stop": True}
            told = self._call("POST", self._path("batches"), body)["outcomes"]
            found = [self._received(one["answer"]) for one in told if "answer" in one]
            answers += found
            waiting = waiting[len(found) :]
            if len(found) == len(told):
                continue
            refusal = told[-1]["problem"]
            tried = 1 if found else tried + 1
            if refusal["status"] not in PASSING or tried >= self._tries:
                raise refusal_of(refusal, refusal["status"])
            time.sleep(float(refusal.get("wait", 0.1 * 2**tried)))
        return answers

    def cost_preview(
        self, query: Query | str, *, precise: bool = False, nats: float | None = None
    ) -> Preview:
        """What a question would cost and show. Never opens the protected rows, charges nothing."""
        body = _question(query, precise=precise, nats=nats)
        return preview_of(self._call("POST", self._path("preview"), body))

    def report(self, questions: Iterable[Query | str]) -> Report:
        """The last word, as in :meth:`holdfast.Guard.report`: ends the account for everyone, and reads a
        short list of questions exactly. The dataset's policy says who may."""
        asked = [str(question) for question in questions]
        if not asked:
            raise errors.InvalidArgument("questions", "at least one question", [], of="Client.report")
        report = report_of(self._call("POST", self._path("report"), {"questions": asked}))
        if self._receipts is not None and report.receipt is not None:
            self._keep(report.receipt)
        return report

    @property
    def reported(self) -> Report | None:
        """The report that was this account's last word; None where there is none (yet)."""
        if not self.describe()["reported"]:
            return None
        return report_of(self._call("GET", self._path("report")))

    def describe(self) -> dict[str, Any]:
        """What the service says of the dataset: its columns, its promise, what is spent and left."""
        said: dict[str, Any] = self._call("GET", self._path())
        return said

    @property
    def _columns(self) -> Any:
        return None

    @property
    def schema(self) -> Schema:
        """The columns that may be asked about, and what kind they are."""
        return Schema({name: Column(kind) for name, kind in self.describe()["columns"].items()})

    @property
    def rows(self) -> int:
        """The number of protected rows."""
        return int(self.describe()["rows"])

    @property
    def closed(self) -> bool:
        """Whether the account was ended for good."""
        return bool(self.describe()["closed"])

    @property
    def unit(self) -> str:
        """What the account counts: "nats" or "answers"."""
        return str(self.describe().get("unit", "nats"))

    @property
    def spent(self) -> float:
        """What everyone together spent, in :attr:`unit`."""
        return float(self.describe()["spent"])

    @property
    def left(self) -> Left:
        """What is left of the account: a number of nats or answers, and the same in words."""
        return left_of(self.describe())

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer of the account, in order."""
        found: list[Answer] = []
        after = 0
        while page := self._call("GET", f"{self._path('history')}?limit=1000&after={after}")["answers"]:
            found += [
                answer_of({name: value for name, value in one.items() if name != "line"}) for one in page
            ]
            after = page[-1]["line"]
        return tuple(found)

    def plot(self) -> Any:
        """Draw the answers of the account; returns the figure. Needs the extra ``plots``."""
        return plot_answers(self.history)

    @property
    def certificate(self) -> Certificate:
        """What all answers together rest on."""
        return certificate_of(self._call("GET", self._path("certificate")))

    @property
    def epoch(self) -> Epoch:
        """Which part of a growing table is asked."""
        return Epoch(**self.describe()["epoch"])

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """Every epoch of the dataset: since when it is open, and what is left of its account."""
        found: list[dict[str, Any]] = self._call("GET", self._path("epochs"))
        return found

    def next_epoch(
        self,
        data: str,
        *,
        confidence: float | None = None,
        together: float | None = None,
        rows: dict[str, Any] | None = None,
        shares: dict[str, float] | None = None,
    ) -> Client:
        """Open an epoch with an account of its own for rows that arrived since; needs an owner's token.
        Returns a client of that epoch.

        ``data`` names them as at registration: a file among the service's sources, or a table of a database.
        ``confidence`` and ``together`` are those of :meth:`holdfast.Guard.next_epoch`; ``rows`` and
        ``shares`` those of :class:`holdfast.server.Policy`, as they were unless they are given.
        """
        said = {
            "source": data,
            "confidence": confidence,
            "together": together,
            "rows": rows,
            "shares": shares,
        }
        body = {name: value for name, value in said.items() if value is not None}
        key = {"Idempotency-Key": secrets.token_hex(16)}
        opened = self._call("POST", self._path("epochs"), body, headers=key)
        return Client(dataset=opened["address"], **self._there)

    def close_account(self) -> None:
        """End the account for good: what was answered stays, nothing new is answered; needs an owner's
        token."""
        self._call("POST", self._path("close"))

    @cached_property
    def train(self) -> Any:
        """The training part as a pandas table: look at it as much as you like. None without one."""
        import pandas

        content = self._send("GET", self._path("train"), None, {}).content
        return pandas.read_parquet(io.BytesIO(content)) if content else None

    def boards(self) -> list[dict[str, Any]]:
        """The boards the token reaches, each with its standing."""
        found: list[dict[str, Any]] = self._call("GET", "/boards")
        return found

    def register_board(self, name: str, source: str, *, target: str, **terms: Any) -> dict[str, Any]:
        """Open a board on a table of labels; needs an owner's token. Returns its description.

        Args:
            name: What the board is called: lower-case letters, digits, - and _.
            source: A file among the service's sources, or a table of a database.
            target: The column of labels.
            terms: Further terms of :class:`holdfast.guard.Board` (``id``, ``metric``, ``confidence``,
                ``step``, ``start``, ``sealed``, ``most_finalists``, ``split_seed``, ``seconds``), the
                ``rate`` of submissions a minute, and ``blind``.
        """
        body = {"name": name, "source": source, "target": target, **terms}
        made: dict[str, Any] = self._call("POST", "/boards", body)
        return made

    def board(self, name: str) -> dict[str, Any]:
        """One board: its ``standing`` with intervals, and its ``final`` once there is one.

        Args:
            name: The board.
        """
        described: dict[str, Any] = self._call("GET", f"/boards/{quoted(name)}")
        return described

    def board_ids(self, name: str) -> list[Any]:
        """Every id that a submission to a board needs a prediction for.

        Args:
            name: The board.
        """
        ids: list[Any] = self._call("GET", f"/boards/{quoted(name)}/ids")
        return ids

    def submissions(self, board: str) -> list[dict[str, Any]]:
        """Your own submissions to a board, in order: what each was told, and whether it is one of your
        finalists. With an owner's or auditor's token, those of all people.

        Args:
            board: The board.
        """
        listed: list[dict[str, Any]] = []
        while page := self._call("GET", f"/boards/{quoted(board)}/submissions?skip={len(listed)}"):
            listed += page
        return listed

    def choose_finalists(self, board: str, keys: Sequence[str]) -> list[str]:
        """Choose which of your own submissions are scored in the final; you can change this until then.
        Returns the keys that are chosen now.

        Args:
            board: The board.
            keys: The ``key`` of each submission, at most as many as the board's ``most_finalists``. Without
                any, your best submission is in the final.
        """
        body = {"submissions": list(keys)}
        chosen: list[str] = self._call("PUT", f"/boards/{quoted(board)}/finalists", body)["finalists"]
        return chosen

    def unblind(self, board: str) -> dict[str, Any]:
        """End the blind phase of a board: score what waits, as one batch; needs an owner's token. Returns its
        description, and under ``unscored`` what could not be scored.

        Args:
            board: The board.
        """
        described: dict[str, Any] = self._call("POST", f"/boards/{quoted(board)}/unblind")
        return described

    def final(self, board: str) -> list[dict[str, Any]]:
        """Score the finalists of a board on its sealed rows, once; needs an owner's token. Asking again
        returns the same.

        Args:
            board: The board.
        """
        scores: list[dict[str, Any]] = self._call("POST", f"/boards/{quoted(board)}/final")["final"]
        return scores

    def submit(self, board: str, predictions: TableLike) -> dict[str, Any]:
        """Submit a table with the columns ``id`` and ``prediction``, or a map from one to the other, to a
        board; returns what it is told.

        The same predictions again cost nothing and are told the same.
        """
        kind = {"Content-Type": "application/vnd.apache.parquet"}
        told: dict[str, Any] = self._send(
            "POST", f"/boards/{quoted(board)}/submissions", None, kind, content=parquet_of(predictions)
        ).json()
        if self._receipts is not None and told.get("receipt"):
            self._keep(Receipt(**told["receipt"]))
        return told

    def gates(self) -> list[dict[str, Any]]:
        """The gates the token reaches: where each stands, and its line of promotions (``versions``)."""
        gates: list[dict[str, Any]] = self._call("GET", "/gates")
        return gates

    def gate(self, name: str) -> dict[str, Any]:
        """One gate: its terms, where it stands (``text`` in words), and its line of promotions
        (``versions``).

        Args:
            name: The gate.
        """
        described: dict[str, Any] = self._call("GET", f"/gates/{quoted(name)}")
        return described

    def gate_tasks(self, name: str) -> list[str]:
        """The id of every task that a candidate for a gate needs a score for.

        Args:
            name: The gate.
        """
        tasks: list[str] = self._call("GET", f"/gates/{quoted(name)}/tasks")
        return tasks

    def register_gate(
        self,
        name: str,
        source: str | None = None,
        *,
        scores: Any = None,
        outputs: Mapping[Any, Any] | None = None,
        clusters: Mapping[Any, Any] | None = None,
        incumbent: str | None = None,
        reading: Mapping[str, str] | None = None,
        kind: str = "auto",
        **terms: Any,
    ) -> dict[str, Any]:
        """Open a gate for an incumbent; needs an owner's token. Returns its description.

        Args:
            name: What the gate is called: lower-case letters, digits, - and _.
            source: A result file among the service's sources. Leave it out and give ``scores`` instead, if
                the scores are here.
            scores: The incumbent's scores, as for :meth:`gate_submit`.
            outputs: Task id to what the incumbent answered, or a digest of it.
            clusters: Task id to cluster, where tasks of one cluster depend on each other.
            incumbent: What the incumbent is called.
            reading: How result files are read: options of :func:`holdfast.results.read_results`.
            kind: What scores may be: "binary" (0 or 1), "fractions", or "auto": as the incumbent's are.
            terms: Further terms of :class:`holdfast.Gate` (``promise``, ``confidence``, ``expect``,
                ``minimum``, ``step``, ``weight``, ``inputs``), and the ``rate`` of candidates a minute.
        """
        body: dict[str, Any] = {"name": name, "scores": kind, "reading": dict(reading or {}), **terms}
        if source is not None:
            body["source"] = source
        if scores is not None:
            scores = _read_here(scores, reading or {})
            clusters = getattr(scores, "clusters", None) if clusters is None else clusters
            body["results"] = _results(scores, outputs) | _texts("clusters", clusters)
        if incumbent is not None:
            body["incumbent"] = incumbent
        made: dict[str, Any] = self._call("POST", "/gates", body)
        return made

    def gate_submit(
        self,
        gate: str,
        scores: Any,
        name: str,
        outputs: Mapping[Any, Any] | None = None,
        *,
        reading: Mapping[str, str] | None = None,
    ) -> Verdict:
        """Send a candidate's scores to a gate; returns the verdict.

        The same name again has its first verdict, free of charge (``verdict.repeated``). With a submitter's
        token the scores count as sealed: a harness sent them, and nobody saw them.

        Args:
            gate: The gate.
            scores: A mapping from task id to a score from 0 to 1 (or to a list of repeats),
                :class:`holdfast.results.Results`, or the path of a result file, which is read here.
            name: What the candidate is called: a commit or a version.
            outputs: Task id to what the candidate answered, or a digest of it.
            reading: How the result file is read, beyond the gate's own options. With a submitter's token,
                which cannot see those, all options are given here.
        """
        options: dict[str, str] = {}
        if isinstance(scores, (str, Path)):
            if self.me()["role"] != "submitter":
                options = self.gate(gate)["reading"]
            options |= reading or {}
        body = {"name": name, **_results(_read_here(scores, options), outputs)}
        verdict = verdict_of(self._call("POST", f"/gates/{quoted(gate)}/submissions", body))
        if self._receipts is not None and verdict.receipt is not None:
            self._keep(verdict.receipt)
        return verdict

    def gate_verdicts(self, gate: str) -> list[Verdict]:
        """Every verdict of a gate, in order.

        Args:
            gate: The gate.
        """
        verdicts: list[Verdict] = []
        after = 0
        while page := self._call("GET", f"/gates/{quoted(gate)}/verdicts?limit=1000&after={after}")[
            "verdicts"
        ]:
            verdicts += [
                verdict_of({name: value for name, value in verdict.items() if name != "line"})
                for verdict in page
            ]
            after = page[-1]["line"]
        return verdicts

    def gate_report(self, gate: str) -> GateReport:
        """Close a gate for good, then tell the exact score of every version; needs an owner's token. Asking
        again returns the same.

        Args:
            gate: The gate.
        """
        report = gate_report_of(self._call("POST", f"/gates/{quoted(gate)}/report"))
        if self._receipts is not None and report.receipt is not None:
            self._keep(report.receipt)
        return report

    def export_gate(self, gate: str, path: str | Path) -> None:
        """Write the account book of a gate to a file that anyone can verify; needs an auditor's token.

        Args:
            gate: The gate.
            path: The file to write.
        """
        Path(path).write_bytes(self._send("GET", f"/gates/{quoted(gate)}/book", None, {}).content)

    def export(self, path: str | Path) -> None:
        """Write the account book to a file that anyone can verify; needs an auditor's token."""
        Path(path).write_bytes(self._send("GET", self._path("ledger"), None, {}).content)

    def verify(self, export: str | Path, public_key: str | None = None) -> Verification:
        """Hold an export of the book against the receipts that this client kept.

        The public key is the service's own unless it is given: whoever got it by another way trusts nobody.
        """
        key = public_key or self._call("GET", "/key")["key"]
        return verify(export, key, receipts=self._kept())

    def verify_epochs(
        self, exports: Sequence[str | Path], public_key: str | None = None
    ) -> tuple[Verification, ...]:
        """The same for the books of all epochs, in order; and that each goes on where the one before it
        says."""
        key = public_key or self._call("GET", "/key")["key"]
        return verify_epochs(exports, key, receipts=self._kept())

    def _path(self, part: str = "") -> str:
        return f"/datasets/{quoted(self.dataset)}" + (f"/{part}" if part else "")

    def _received(self, said: dict[str, Any]) -> Answer:
        answer = answer_of(said)
        if self._receipts is not None and answer.receipt is not None:
            self._keep(answer.receipt)
        return answer

    def _kept(self) -> list[Receipt]:
        if self._receipts is None or not self._receipts.exists():
            return []
        return list(read_receipts(self._receipts))

    def _keep(self, receipt: Receipt) -> None:
        assert self._receipts is not None
        with self._receipts.open("a", encoding="utf-8") as file:
            file.write(json.dumps(receipt.to_dict()) + "\n")

    def __repr__(self) -> str:
        # The token is never shown; and a look at a client sends no request.
        return f"Client({self._url!r}, dataset={vars(self).get('dataset', self._given)!r})"


def _scored(predictions: Any, target: str, metric: str, guess: Any, bounds: Any, positive: Any) -> Query:
    if not isinstance(predictions, str):
        raise errors.QueryRejected(_NO_MODELS)
    scale = _scale(metric, bounds, positive)
    query = score_query(predictions, target=target, metric=metric, guess=guess, scale=scale)
    if query is None:
        raise errors.QueryRejected(
            f"A service does not score expressions by {metric}. Ask for accuracy, error, brier, precision, "
            "recall, "
            "f1, log_loss, mae or mse, or for mean, ratio and correlation of an expression."
        )
    return query


def _read_here(scores: Any, reading: Mapping[str, str]) -> Any:
    """The results in a file, if that is what is given; anything else as it is."""
    if not isinstance(scores, (str, Path)):
        return scores
    from holdfast.results import read_results

    options: dict[str, Any] = dict(reading)
    return read_results(scores, **options)


def _results(scores: Any, outputs: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Scores and outputs as they are sent, from a mapping or Results."""
    if not isinstance(scores, Mapping) and isinstance(getattr(scores, "scores", None), Mapping):
        outputs = scores.outputs if outputs is None else outputs
        scores = scores.scores
    return {"scores": scores_sent(scores)} | _texts("outputs", outputs)


def _texts(name: str, by_task: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Outputs or clusters as they are sent; nothing where there are none."""
    return {} if by_task is None else {name: {str(task): str(text) for task, text in by_task.items()}}


def _scale(metric: str, bounds: Any, positive: Any) -> Scale:
    """What labels and numbers are scored, as the caller says: a client sees no training rows of a service."""
    if bounds is None and metric in ("mae", "mse"):
        raise errors.InvalidArgument("bounds", "a pair (lo, hi) for the target", bounds, of="Client.score")
    return Scale(positive) if bounds is None else Scale(positive, span=tuple(bounds))


def _question(query: Query | str, *, precise: bool, nats: float | None) -> dict[str, Any]:
    """A question as it is sent, with what it is wished to cost."""
    if nats is not None:
        return {"query": str(query), "nats": checks.real(nats, "nats", "(0, inf)", of="Client.ask")}
    return {"query": str(query), "precise": True} if precise else {"query": str(query)}
