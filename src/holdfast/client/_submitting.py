"""Boards and gates of a service: opening them, submitting to them, and where they stand."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast import errors
from holdfast.client._connection import Connection, quoted
from holdfast.guard import GateReport, Verdict
from holdfast.ledger import Receipt

if TYPE_CHECKING:
    from typing import TypeAlias, Unpack

    from holdfast.results import Results
    from holdfast.typing import (
        BoardReply,
        BoardTerms,
        BrokenReply,
        FinalistReply,
        GateReply,
        GateTerms,
        ListedReceivedReply,
        ListedSubmissionReply,
        PersonReply,
        ReceivedReply,
        SubmissionReply,
        TableLike,
        TaskScore,
        UnblindBoardReply,
    )

    # Scores by task id, results, or the path of a result file.
    ScoresLike: TypeAlias = Mapping[Any, TaskScore] | Results | str | Path


class Submitting(Connection):
    """The part of a client that is about boards and gates, and the file in which it keeps receipts."""

    def __init__(
        self, url: str, token: str, *, receipts: str | Path | None, tries: int, timeout: float
    ) -> None:
        super().__init__(url, token, tries=tries, timeout=timeout)
        self._receipts = None if receipts is None else Path(receipts)

    def me(self) -> PersonReply:
        """Who the token stands for: name, team, role, what it reaches (``dataset``), and when it ends."""
        person: PersonReply = self._call("GET", "/me")
        return person

    def boards(self) -> list[BoardReply | BrokenReply]:
        """The boards the token reaches, each with its standing."""
        boards: list[BoardReply | BrokenReply] = self._call("GET", "/boards")
        return boards

    def register_board(
        self, name: str, source: str, *, target: str, **terms: Unpack[BoardTerms]
    ) -> BoardReply:
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
        described: BoardReply = self._call("POST", "/boards", body)
        return described

    def board(self, name: str) -> BoardReply:
        """One board: its ``standing`` with intervals, and its ``final`` once there is one.

        Args:
            name: The name of the board.
        """
        described: BoardReply = self._call("GET", f"/boards/{quoted(name)}")
        return described

    def board_ids(self, name: str) -> list[int | str | float | bool]:
        """Every id that a submission to a board needs a prediction for.

        Args:
            name: The name of the board.
        """
        ids: list[int | str | float | bool] = self._call("GET", f"/boards/{quoted(name)}/ids")
        return ids

    def submissions(self, board: str) -> list[ListedSubmissionReply | ListedReceivedReply]:
        """Your own submissions to a board, in order: the reply to each, and whether it is one of your
        finalists. With an owner's or auditor's token, the submissions of all people.

        Args:
            board: The name of the board.
        """
        listed: list[ListedSubmissionReply | ListedReceivedReply] = []
        while page := self._call("GET", f"/boards/{quoted(board)}/submissions?skip={len(listed)}"):
            listed += page
        return listed

    def choose_finalists(self, board: str, keys: Sequence[str]) -> list[str]:
        """Choose which of your own submissions are scored in the final. You can change the choice until then.
        Returns the keys that are chosen now.

        Args:
            board: The name of the board.
            keys: The ``key`` of each submission, at most as many as the board's ``most_finalists``. Without
                any, your best submission is in the final.
        """
        body = {"submissions": list(keys)}
        chosen: list[str] = self._call("PUT", f"/boards/{quoted(board)}/finalists", body)["finalists"]
        return chosen

    def unblind(self, board: str) -> UnblindBoardReply:
        """End the blind phase of a board: score what waits, as one batch; needs an owner's token. Returns its
        description, and under ``unscored`` what could not be scored.

        Args:
            board: The name of the board.
        """
        described: UnblindBoardReply = self._call("POST", f"/boards/{quoted(board)}/unblind")
        return described

    def final(self, board: str) -> list[FinalistReply]:
        """Score the finalists of a board on its sealed rows, once; needs an owner's token. Asking again
        returns the same.

        Args:
            board: The name of the board.
        """
        scores: list[FinalistReply] = self._call("POST", f"/boards/{quoted(board)}/final")["final"]
        return scores

    def submit(
        self, board: str, predictions: TableLike | Mapping[Any, Any]
    ) -> SubmissionReply | ReceivedReply:
        """Submit ``predictions`` to a ``board``: a table with the columns ``id`` and ``prediction``, or a map
        from one to the other. Returns the reply of the board. A board in its blind phase replies without a
        ``value``: it has only received the submission.

        The same predictions again cost nothing and get the same reply.
        """
        kind = {"Content-Type": "application/vnd.apache.parquet"}
        reply: SubmissionReply | ReceivedReply = self._send(
            "POST", f"/boards/{quoted(board)}/submissions", None, kind, content=parquet_of(predictions)
        ).json()
        if "receipt" in reply and reply["receipt"] is not None:
            self._keep(Receipt.from_dict(reply["receipt"]))
        return reply

    def gates(self) -> list[GateReply]:
        """The gates the token reaches: where each stands, and its line of promotions (``versions``)."""
        gates: list[GateReply] = self._call("GET", "/gates")
        return gates

    def gate(self, name: str) -> GateReply:
        """One gate: its terms, where it stands (``text`` in words), and its line of promotions
        (``versions``).

        Args:
            name: The name of the gate.
        """
        described: GateReply = self._call("GET", f"/gates/{quoted(name)}")
        return described

    def gate_tasks(self, name: str) -> list[str]:
        """The id of every task that a candidate for a gate needs a score for.

        Args:
            name: The name of the gate.
        """
        tasks: list[str] = self._call("GET", f"/gates/{quoted(name)}/tasks")
        return tasks

    def register_gate(
        self,
        name: str,
        source: str | None = None,
        *,
        scores: ScoresLike | None = None,
        outputs: Mapping[Any, Any] | None = None,
        clusters: Mapping[Any, Any] | None = None,
        incumbent: str | None = None,
        reading: Mapping[str, str] | None = None,
        kind: Literal["auto", "binary", "fractions"] = "auto",
        **terms: Unpack[GateTerms],
    ) -> GateReply:
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
            results = _read_if_file(scores, reading or {})
            clusters = getattr(results, "clusters", None) if clusters is None else clusters
            body["results"] = _results(results, outputs) | _texts("clusters", clusters)
        if incumbent is not None:
            body["incumbent"] = incumbent
        described: GateReply = self._call("POST", "/gates", body)
        return described

    def gate_submit(
        self,
        gate: str,
        scores: ScoresLike,
        name: str,
        outputs: Mapping[Any, Any] | None = None,
        *,
        reading: Mapping[str, str] | None = None,
    ) -> Verdict:
        """Send a candidate's scores to a gate; returns the verdict.

        The same name again has its first verdict, free of charge (``verdict.repeated``). With a submitter's
        token the scores count as sealed: a harness sent them, and nobody saw them.

        Args:
            gate: The name of the gate.
            scores: A mapping from task id to a score from 0 to 1 (or to a list of repeats),
                :class:`holdfast.results.Results`, or the path of a result file, which is read here.
            name: What the candidate is called: a commit or a version.
            outputs: Task id to what the candidate answered, or a digest of it.
            reading: How the result file is read, beyond the gate's own options. A submitter's token cannot
                see those options, so give all of them here with such a token.
        """
        options: dict[str, str] = {}
        if isinstance(scores, (str, Path)):
            if self.me()["role"] != "submitter":
                options = self.gate(gate)["reading"]
            options |= reading or {}
        body = {"name": name, **_results(_read_if_file(scores, options), outputs)}
        verdict = Verdict.from_dict(self._call("POST", f"/gates/{quoted(gate)}/submissions", body))
        self._keep(verdict.receipt)
        return verdict

    def gate_verdicts(self, gate: str) -> list[Verdict]:
        """Every verdict of a gate, in order.

        Args:
            gate: The name of the gate.
        """
        verdicts: list[Verdict] = []
        after = 0
        while page := self._call("GET", f"/gates/{quoted(gate)}/verdicts?limit=1000&after={after}")[
            "verdicts"
        ]:
            verdicts += map(Verdict.from_dict, page)
            after = page[-1]["line"]
        return verdicts

    def gate_report(self, gate: str) -> GateReport:
        """Close a gate for good, then give the exact score of every version; needs an owner's token. Asking
        again returns the same.

        Args:
            gate: The name of the gate.
        """
        report = GateReport.from_dict(self._call("POST", f"/gates/{quoted(gate)}/report"))
        self._keep(report.receipt)
        return report

    def export_gate(self, gate: str, path: str | Path) -> None:
        """Write the account book of a gate to a file that anyone can verify; needs an auditor's token.

        Args:
            gate: The name of the gate.
            path: The file to write.
        """
        Path(path).write_bytes(self._send("GET", f"/gates/{quoted(gate)}/book", None, {}).content)

    def _keep(self, receipt: Receipt | None) -> None:
        """Write a receipt down, if there is one and a file for it."""
        if receipt is None or self._receipts is None:
            return
        with self._receipts.open("a", encoding="utf-8") as file:
            file.write(json.dumps(receipt.to_dict()) + "\n")


def _read_if_file(scores: Any, reading: Mapping[str, str]) -> Any:
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


def parquet_of(predictions: Any) -> bytes:
    """A table of predictions as it is sent."""
    import numpy as np
    import pandas

    if isinstance(predictions, Mapping) and all(np.ndim(value) == 0 for value in predictions.values()):
        predictions = {"id": list(predictions), "prediction": list(predictions.values())}
    buffer = io.BytesIO()
    try:
        pandas.DataFrame(predictions).to_parquet(buffer, index=False)
    except (TypeError, ValueError) as error:
        raise errors.QueryRejected(
            "Predictions are a table with the columns id and prediction, or a map from every id to its "
            f"prediction. This value is not valid ({str(error).splitlines()[0].rstrip('.')})."
        ) from None
    return buffer.getvalue()


def scores_sent(scores: Any) -> dict[str, float | list[float]]:
    """Scores by task as they are sent. An invalid score is refused without naming its task."""
    import numpy as np

    if not isinstance(scores, Mapping):
        raise errors.InvalidArgument(
            "scores", "a mapping from task id to score, Results, or the path of a result file", type(scores)
        )
    sent: dict[str, float | list[float]] = {}
    for task, score in scores.items():
        try:
            numbers = np.asarray(score, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.array(math.nan)
        if numbers.ndim > 1 or not ((numbers >= 0) & (numbers <= 1)).all():
            raise errors.QueryRejected(
                "Every score must be a number from 0 to 1, and at least one here is not. Divide points by "
                "the most that a task can have. Nothing was sent."
            )
        sent[str(task)] = numbers.tolist()
    if len(sent) < len(scores):
        raise errors.QueryRejected("Two task ids are the same as text, such as 1 and '1'. Nothing was sent.")
    return sent
