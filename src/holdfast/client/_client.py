"""Asking a service: the same methods as a guard, over HTTP."""

from __future__ import annotations

import io
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast import checks, errors
from holdfast.answers import plot_answers
from holdfast.client._connection import TEMPORARY, error_from, quoted
from holdfast.client._submitting import Submitting
from holdfast.engines import Column, Schema
from holdfast.guard import (
    Answer,
    Certificate,
    Curve,
    Discovery,
    Epoch,
    Left,
    Preview,
    Report,
    ScoreRequest,
    ScoreVerbs,
    Table,
)
from holdfast.ledger import Receipt, Verification, read_receipts, verify, verify_epochs
from holdfast.queries import Query
from holdfast.scoring import Scale, compare_query, score_query

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from holdfast.tails import Tail
    from holdfast.typing import DatasetReply, EpochStandingReply

__all__ = ["Client"]

_NO_MODELS = (
    "A service scores predictions that are an expression over its columns, as text. Predictions of your "
    "own, or of a model, go to a board: client.submit(board, table)."
)
# How many questions are sent in one request.
_TOGETHER = 100


class Client(Submitting, ScoreVerbs[str]):
    """Ask a dataset of a service; the methods are those of :class:`holdfast.Guard`.

    Guarantee: that of the service's guard. Every interval released from the dataset's account holds, for all
    who ask, with the account's confidence. A question is sent with a key of its own. So a second try after a
    lost connection returns the recorded answer and is charged once.

    ``url`` is the address of the service, and ``token`` is the token it issued to you. A request is sent at
    most ``tries`` times when connections are lost. Each request may take ``timeout`` seconds. ``dataset`` may
    be left out if the token reaches only one dataset. For a table that grows, its name means the newest epoch
    when a question arrives, and "people@1" means the first epoch. Receipts are kept in the file ``receipts``,
    one a line, and :meth:`verify` compares the account book with them.
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
        super().__init__(url, token, receipts=receipts, tries=tries, timeout=timeout)
        self._connection_options: dict[str, Any] = {
            "url": url,
            "token": token,
            "receipts": receipts,
            "tries": tries,
            "timeout": timeout,
        }
        self._named_dataset = dataset

    @cached_property
    def dataset(self) -> str:
        """The name of the dataset that is asked."""
        if self._named_dataset is not None:
            return self._named_dataset
        names = [dataset["name"] for dataset in self._call("GET", "/datasets")]
        if len(names) != 1:
            raise errors.InvalidArgument(
                "dataset",
                f"one of {', '.join(names) or 'none: this token reaches no dataset'}",
                None,
                of="Client",
            )
        return str(names[0])

    def _scores(self, requests: Sequence[ScoreRequest], *, precise: bool, nats: float | None) -> list[Answer]:
        questions = [_score_question(request) for request in requests]
        if len(questions) == 1:
            return [self.ask(questions[0], precise=precise, nats=nats)]
        return self.ask_all(questions, precise=precise, nats=nats)

    def _compared(self, a: ScoreRequest, b: ScoreRequest, *, precise: bool, nats: float | None) -> Answer:
        first, second = _expression_of(a), _expression_of(b)
        query = compare_query(
            first,
            second,
            target=a.target,
            metric=a.metric,
            scale=_scale(a),
        )
        return self.ask(query, precise=precise, nats=nats)

    def discover(self, claim: str, *, rate: float = 0.05) -> Discovery:
        """Test a ``claim``, as in :meth:`holdfast.Guard.discover`. In expectation, at most the share ``rate``
        of all discovered claims is false."""
        body = {"claim": claim, "rate": rate}
        return Discovery.from_dict(self._call("POST", self._path("discoveries"), body))

    @property
    def discoveries(self) -> tuple[Discovery, ...]:
        """Every claim of the account that was tested, in order."""
        return tuple(map(Discovery.from_dict, self._call("GET", self._path("discoveries"))))

    def curve(self, query: Query | str, *, precise: bool = False, nats: float | None = None) -> Curve:
        """The distribution of :meth:`cdf`, for a question given as a record or as text."""
        body = _question(query, precise=precise, nats=nats)
        curve = Curve.from_dict(self._call("POST", self._path("curves"), body))
        self._keep(curve.answer.receipt)
        return curve

    def custom(
        self,
        function: Callable[[Any], float],
        *,
        tail: Tail,
        guess: float | None = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """Always refused, because a service runs no code of its users. The error says what to ask instead.
        ``function``, ``tail``, ``guess`` and ``name`` are those of :meth:`holdfast.Guard.custom`."""
        raise errors.QueryRejected(
            "A service does not run functions of its users. Ask mean, share or quantile of an expression, or "
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
        table = Table.from_dict(self._call("POST", self._path("tables"), body))
        for answer in table.answers:
            self._keep(answer.receipt)
        return table

    def ask_all(
        self, questions: Iterable[Query | str], *, precise: bool = False, nats: float | None = None
    ) -> list[Answer]:
        """Answer several questions together, as in :meth:`holdfast.Guard.ask_all`. Each hundred questions
        are one batch. A whole batch is checked before its first question is asked."""
        waiting = [
            {**_question(question, precise=precise, nats=nats), "key": secrets.token_hex(16)}
            for question in questions
        ]
        answers: list[Answer] = []
        attempts = 0
        while waiting:
            body = {"questions": waiting[:_TOGETHER], "stop": True}
            outcomes = self._call("POST", self._path("batches"), body)["outcomes"]
            received = [self._received(outcome["answer"]) for outcome in outcomes if "answer" in outcome]
            answers += received
            waiting = waiting[len(received) :]
            if len(received) == len(outcomes):
                continue
            refusal = outcomes[-1]["problem"]
            attempts = 1 if received else attempts + 1
            if refusal["status"] not in TEMPORARY or attempts >= self._tries:
                raise error_from(refusal, refusal["status"])
            time.sleep(float(refusal.get("wait", 0.1 * 2**attempts)))
        return answers

    def cost_preview(
        self, query: Query | str, *, precise: bool = False, nats: float | None = None
    ) -> Preview:
        """What a question would cost and show. It never opens the protected rows and charges nothing."""
        body = _question(query, precise=precise, nats=nats)
        return Preview.from_dict(self._call("POST", self._path("preview"), body))

    def report(self, questions: Iterable[Query | str]) -> Report:
        """Give the report, as in :meth:`holdfast.Guard.report`: end the account for everyone, and read a
        short list of questions exactly. The dataset's policy says who may do this."""
        texts = [str(question) for question in questions]
        if not texts:
            raise errors.InvalidArgument("questions", "at least one question", [], of="Client.report")
        report = Report.from_dict(self._call("POST", self._path("report"), {"questions": texts}))
        self._keep(report.receipt)
        return report

    @property
    def reported(self) -> Report | None:
        """The report that ended this account; None if none was given yet."""
        if not self.describe()["reported"]:
            return None
        return Report.from_dict(self._call("GET", self._path("report")))

    def describe(self) -> DatasetReply:
        """What the service says about the dataset: its columns, its promise, what is spent and left."""
        described: DatasetReply = self._call("GET", self._path())
        return described

    @property
    def _columns(self) -> Any:
        return None

    @property
    def schema(self) -> Schema:
        """The columns you may ask about, and the kind of each."""
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
        return Left.from_dict(self.describe(), after=self._half_width_after)

    def _half_width_after(self, questions: int) -> float:
        """The half-width that the service expects for a share after that many more questions."""
        described = self._call("GET", f"{self._path()}?after={questions}")
        half_width = described.get("share_half_width_after")  # A service of an earlier version has none.
        return math.nan if half_width is None else float(half_width)

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer of the account, in order."""
        answers: list[Answer] = []
        after = 0
        while page := self._call("GET", f"{self._path('history')}?limit=1000&after={after}")["answers"]:
            answers += map(Answer.from_dict, page)
            after = page[-1]["line"]
        return tuple(answers)

    def plot(self) -> Figure:
        """Draw the answers of the account; returns the figure. Needs the extra ``plots``."""
        return plot_answers(self.history)

    @property
    def certificate(self) -> Certificate:
        """What all answers together rest on."""
        return Certificate.from_dict(self._call("GET", self._path("certificate")))

    @property
    def epoch(self) -> Epoch:
        """Which epoch of a growing table this client asks."""
        return Epoch.from_dict(self.describe()["epoch"])

    @property
    def epochs(self) -> list[EpochStandingReply]:
        """Every epoch of the dataset: since when it is open, and what is left of its account."""
        epochs: list[EpochStandingReply] = self._call("GET", self._path("epochs"))
        return epochs

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

        ``data`` names the rows as at registration: a file among the service's sources, or a table of a
        database. ``confidence`` and ``together`` are those of :meth:`holdfast.Guard.next_epoch`. ``rows`` and
        ``shares`` are those of :class:`holdfast.server.Policy`. Without them, those of the epoch before stay.
        """
        fields = {
            "source": data,
            "confidence": confidence,
            "together": together,
            "rows": rows,
            "shares": shares,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        key = {"Idempotency-Key": secrets.token_hex(16)}
        opened = self._call("POST", self._path("epochs"), body, headers=key)
        return Client(dataset=opened["address"], **self._connection_options)

    def close_account(self) -> None:
        """End the account for good: what was answered stays, nothing new is answered; needs an owner's
        token."""
        self._call("POST", self._path("close"))

    @cached_property
    def train(self) -> pandas.DataFrame | None:
        """The training rows as a pandas table: look at them as much as you like. None if there are none."""
        import pandas

        content = self._send("GET", self._path("train"), None, {}).content
        return pandas.read_parquet(io.BytesIO(content)) if content else None

    def export(self, path: str | Path) -> None:
        """Write the account book to the file ``path``, which anyone can verify; needs an auditor's token."""
        Path(path).write_bytes(self._send("GET", self._path("ledger"), None, {}).content)

    def verify(self, export: str | Path, public_key: str | None = None) -> Verification:
        """Check an ``export`` of the book, and compare it with the receipts that this client kept.

        Without ``public_key``, the client asks the service for its key. If you got the key in another way,
        give it here: then you need not trust the service.
        """
        key = public_key or self._call("GET", "/key")["key"]
        return verify(export, key, receipts=self._kept_receipts())

    def verify_epochs(
        self, exports: Sequence[str | Path], public_key: str | None = None
    ) -> tuple[Verification, ...]:
        """Check ``exports`` of the books of all epochs, in order, as :meth:`verify` does. Each must also
        continue where the export before it says. ``public_key`` is that of :meth:`verify`."""
        key = public_key or self._call("GET", "/key")["key"]
        return verify_epochs(exports, key, receipts=self._kept_receipts())

    def _path(self, part: str = "") -> str:
        return f"/datasets/{quoted(self.dataset)}" + (f"/{part}" if part else "")

    def _received(self, values: dict[str, Any]) -> Answer:
        answer = Answer.from_dict(values)
        self._keep(answer.receipt)
        return answer

    def _kept_receipts(self) -> list[Receipt]:
        if self._receipts is None or not self._receipts.exists():
            return []
        return list(read_receipts(self._receipts))

    def __repr__(self) -> str:
        # The token is never shown, and showing a client sends no request.
        return f"Client({self._url!r}, dataset={vars(self).get('dataset', self._named_dataset)!r})"


def _expression_of(request: ScoreRequest) -> str:
    if not isinstance(request.predictions, str):
        raise errors.QueryRejected(_NO_MODELS)
    return request.predictions


def _score_question(request: ScoreRequest) -> Query:
    """The question of a score, or a refusal of what a service does not score."""
    expression, scale = _expression_of(request), _scale(request)
    query = score_query(
        expression, target=request.target, metric=request.metric, guess=request.guess, scale=scale
    )
    if query is None:
        raise errors.QueryRejected(
            f"A service does not score expressions by {request.metric}. Ask for accuracy, error, brier, "
            "precision, recall, f1, log_loss, mae or mse, or for mean, ratio and correlation of an "
            "expression."
        )
    return query


def _scale(request: ScoreRequest) -> Scale:
    """What labels and numbers are scored, as the caller says: a client sees no training rows of a service."""
    bounds, positive, of = request.bounds, request.positive, "Client.score"
    if bounds is None and request.metric in ("mae", "mse"):
        raise errors.InvalidArgument("bounds", "a pair (lo, hi) for the target", bounds, of=of)
    if bounds is None:
        return Scale(positive)
    if isinstance(bounds, (str, Mapping)) or len(checks.reals(bounds, "bounds", "(-inf, inf)", of=of)) != 2:
        raise errors.InvalidArgument("bounds", "a pair (lo, hi) of numbers", bounds, of=of)
    # As they were given, because they are part of the question's text.
    low, high = cast("Sequence[float]", bounds)
    return Scale(positive, span=(low, high))


def _question(query: Query | str, *, precise: bool, nats: float | None) -> dict[str, Any]:
    """A question as it is sent, with the precision or cost that the caller wants."""
    if nats is not None:
        return {"query": str(query), "nats": checks.real(nats, "nats", "(0, inf)", of="Client.ask")}
    return {"query": str(query), "precise": True} if precise else {"query": str(query)}
