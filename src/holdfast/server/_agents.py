"""Questions for AI agents, as tools of the Model Context Protocol.

The same tools ask a service with a token of their own, or a table on this machine whose account is a file. In
both cases an agent uses one account. The descriptions of the tools explain how to spend little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from mcp.server import MCPServer

from holdfast import checks, queries
from holdfast.client import Client
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Answer, Certificate, Curve, Discovery, Guard, Preview, Report, Table
from holdfast.registry import MOST_ROWS, NO_TRAINING, column_data, row_page

_MOST_TOGETHER = 100
_MOST_HISTORY = 200

_INSTRUCTIONS = """\
You can ask a protected table questions whose answers stay valid however many you ask. {account}
To spend little:
- Look at the training rows first (`columns`, `training_rows`). That is free and spoils no answer.
- Call `preview` before you ask. It is free.
- Bring your best guess with every question. An answer that agrees with the guess costs almost nothing; a
surprise costs more, the farther off the guess was.
- Ask together what you know you will ask (`ask_together`).
- Never vary a question to average noise away: the same question always gives the same recorded answer.
Prices are in the `unit` of the account: nats, or answers where their number is fixed and every new question
uses one up. A refusal comes back as data, with `refused` and `why`; a mistake in a question costs nothing.
Report the whole interval, not the value alone."""
_SHARED = "All answers come from one account that other people share, and it does not refill."
_LOCAL = (
    "All answers come from one account, which is kept in a file and does not refill: a new session "
    "continues where the last one stopped."
)

_QUESTIONS = f"""\
A question is one of {", ".join(queries.FORMS)} over the table's columns in SQL, for example
share(age > 40, where = sex = 'F', guess = 0.4), mean(income, 0, 1e5), difference(spend, arm = 'b', arm =
'a', 0, 500) for an A/B test, correlation(x, y, 0, 1, 0, 1) with the bounds of both, or quantile(income,
0.9). Each takes `where = condition` and `guess = number`; bounds = train takes the bounds from the training
part."""
_BY = (
    "`share(late, by = carrier)` asks the same of each value of a column; also mean, quantile and difference."
    " `histogram(income, 10)` gives the share of rows in each bin."
)
_FINER = "`nats` pays about so much for a finer answer, and `precise` about three nats."
_ANSWER = (
    "Returns the value, the interval (low, high), the cost, the guess, whether it was confirmed, and notes."
)


class Askable(Protocol):
    """What the tools ask: a guard on this machine, or a client of a service."""

    def cost_preview(
        self, query: str, *, precise: bool = False, nats: float | None = None
    ) -> Preview: ...  # pragma: no cover

    def ask(
        self, query: str, *, precise: bool = False, nats: float | None = None
    ) -> Answer: ...  # pragma: no cover

    def ask_all(
        self, questions: Iterable[str], *, precise: bool = False, nats: float | None = None
    ) -> list[Answer]: ...  # pragma: no cover

    def table(
        self, query: str, *, precise: bool = False, nats: float | None = None
    ) -> Table: ...  # pragma: no cover

    def curve(
        self, query: str, *, precise: bool = False, nats: float | None = None
    ) -> Curve: ...  # pragma: no cover

    def discover(self, claim: str) -> Discovery: ...  # pragma: no cover

    def report(self, questions: Iterable[str]) -> Report: ...  # pragma: no cover

    @property
    def reported(self) -> Report | None: ...  # pragma: no cover

    @property
    def history(self) -> tuple[Answer, ...]: ...  # pragma: no cover

    @property
    def certificate(self) -> Certificate: ...  # pragma: no cover

    @property
    def schema(self) -> Any: ...  # pragma: no cover

    @property
    def rows(self) -> int: ...  # pragma: no cover


def make_tools(client: Client, *, may_report: bool = False) -> MCPServer:
    """An MCP server whose tools ask one dataset of a service through ``client``.

    Guarantee: every tool uses the service's account with the client's token, and can do only what the token
    allows.

    Args:
        client: The client of the service.
        may_report: Also offer the tool that gives the report and ends the account.

    >>> with Client("http://127.0.0.1:8344", "hf_token") as client:
    ...     make_tools(client).name
    'holdfast'
    """
    server = MCPServer("holdfast", instructions=_INSTRUCTIONS.format(account=_SHARED))
    _add_asking(server, lambda: client, lambda: client.train)

    @server.tool(description="The columns, what was spent, and what is left of the shared account. Free.")
    def left() -> dict[str, Any]:
        return _result_or_refusal(client.describe)

    @server.tool(
        description="The boards, where predictions are scored: their standing with certified intervals."
    )
    def boards() -> dict[str, Any]:
        return _result_or_refusal(lambda: {"boards": client.boards()})

    @server.tool(
        description="Submit predictions to a board: a map from every row id of the board to a prediction. "
        "The reply says whether they beat the best by a step, and by how many; only steps cost much."
    )
    def submit(board: str, predictions: dict[str, Any]) -> dict[str, Any]:
        table = {"id": list(predictions), "prediction": list(predictions.values())}
        return _result_or_refusal(lambda: client.submit(board, table))

    @server.tool(
        description="Where the gates stand, or the one that is named: the incumbent, the line of promotions "
        "with their margins, and the gain that the next candidate needs. Free."
    )
    def gate_status(gate: str | None = None) -> dict[str, Any]:
        return _result_or_refusal(lambda: {"gates": client.gates()} if gate is None else client.gate(gate))

    @server.tool(
        description="Ask a gate whether a candidate may replace the incumbent: its name (a commit or a "
        "version) and a score from 0 to 1 for every task. The verdict says whether it is promoted, and by "
        "how much it is better at least. The same name again has its first verdict, free. If you saw them, "
        "submit every candidate that was scored and not the best of them, or the promise does not hold."
    )
    def gate_submit(
        gate: str,
        name: str,
        scores: dict[str, float | list[float]],
        outputs: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        return _result_or_refusal(lambda: client.gate_submit(gate, scores, name, outputs).to_dict())

    if may_report:
        _add_report(server, lambda: client, "ENDS THE SHARED ACCOUNT FOR GOOD, for everyone")
    return server


def make_local_tools(guard: Callable[[], Guard]) -> MCPServer:
    """An MCP server whose tools ask a table on this machine.

    Guarantee: that of the guard. Every answer is charged to its account. Reports of errors contain nothing
    about protected rows. If the guard cannot be opened, the agent gets a refusal.

    Args:
        guard: Returns the guard, and opens it if needed. It is called for every call of a tool, in any
            thread.

    >>> guard = Guard({"x": list(range(100))})
    >>> make_local_tools(lambda: guard).name
    'holdfast'
    """
    frames: dict[int, Any] = {}

    def training_frame() -> Any:
        opened = guard()
        if id(opened) not in frames:
            frames[id(opened)] = opened.training_rows()
        return frames[id(opened)]

    server = MCPServer("holdfast", instructions=_INSTRUCTIONS.format(account=_LOCAL))
    _add_asking(server, guard, training_frame)

    @server.tool(
        description="The state of the account: how many rows are protected, what is promised, what was "
        "spent, what is left (in words, and as numbers), and whether the account is closed. Free."
    )
    def status() -> dict[str, Any]:
        return _result_or_refusal(lambda: _status(guard()))

    _add_report(server, guard, "CLOSES THE ACCOUNT FOR GOOD, for every session")
    return server


def _status(guard: Guard) -> dict[str, Any]:
    certificate, closed = guard.certificate, guard.closed
    return {
        "rows": guard.rows,
        "training_rows": certificate.numbers["training rows"],
        "confidence": guard.confidence,
        "error": guard.error,
        "promise": certificate.statement,
        "questions": certificate.numbers["questions"],
        "spent": guard.spent,
        **guard.left.to_dict(),
        "closed": closed,
        "reported": closed and guard.reported is not None,
    }


def _add_asking(server: MCPServer, askable: Callable[[], Askable], training_frame: Callable[[], Any]) -> None:
    """The tools that a service and a table on this machine have in common."""

    @server.tool(
        description="The columns that questions may use: name, kind, and what the training part shows of "
        "each (ends and median of numbers, the most common texts, the share that is missing). Free."
    )
    def columns() -> dict[str, Any]:
        def read() -> dict[str, Any]:
            account, frame = askable(), training_frame()
            return {
                "columns": column_data(account.schema, frame),
                "rows": account.rows,
                "training_rows": 0 if frame is None else len(frame),
                **({"note": NO_TRAINING} if frame is None else {}),
            }

        return _result_or_refusal(read)

    @server.tool(
        description=f"Rows of the training part, at most {MOST_ROWS} at a time, from `offset` on; "
        "`next_offset` is where the next page begins. Free: look at as many as you like. They are a random "
        "part of the table, set aside for this; protected rows are never shown."
    )
    def training_rows(limit: int = 20, offset: int = 0) -> dict[str, Any]:
        return _result_or_refusal(lambda: row_page(training_frame(), limit, offset))

    @server.tool(
        description="What a question would cost and show. Free; reads no protected row. Returns the guess, "
        "the interval if it is confirmed (low, high), the prices (if_confirmed, if_surprised, at_most), and "
        f"whether asking is allowed, with the reason. {_QUESTIONS} {_FINER}"
    )
    def preview(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _result_or_refusal(
            lambda: askable().cost_preview(question, nats=nats, precise=precise).to_dict()
        )

    @server.tool(
        description="Answer a question with an interval that holds together with all other answers. Charged "
        f"once, more if the guess was wrong; the same question again is free. {_ANSWER} {_QUESTIONS} {_FINER}"
    )
    def ask(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _result_or_refusal(lambda: askable().ask(question, nats=nats, precise=precise).to_brief_dict())

    @server.tool(
        description=f"Answer up to {_MOST_TOGETHER} questions together. Cheaper than one by one: none of "
        "them pays for what the others reveal. They are checked first, and if one is refused then, nothing "
        "is charged. Returns `answers` in the order of the questions, each as `ask` returns it. "
        f"{_FINER}"
    )
    def ask_together(
        questions: list[str], nats: float | None = None, precise: bool = False
    ) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            if not 1 <= len(questions) <= _MOST_TOGETHER:
                wanted = f"1 to {_MOST_TOGETHER} questions"
                raise InvalidArgument("questions", wanted, len(questions), of="ask_together")
            answers = askable().ask_all(questions, nats=nats, precise=precise)
            return {"answers": [answer.to_brief_dict() for answer in answers]}

        return _result_or_refusal(read)

    @server.tool(
        description="Answer one question for each value of a column, all together: cheaper than one by one. "
        f"{_BY} {_FINER}"
    )
    def table(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _result_or_refusal(lambda: askable().table(question, nats=nats, precise=precise).to_dict())

    @server.tool(
        description="Ask a whole distribution, such as cdf(income): the share of rows up to each of 64 "
        f"points, in one band that costs about as much as one share. {_FINER}"
    )
    def curve(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _result_or_refusal(lambda: askable().curve(question, nats=nats, precise=precise).to_dict())

    @server.tool(
        description="Test a claim, a question with < or > and a number, such as mean(income, 0, 1e5) > 3e4. "
        "The reply says whether it is discovered. At most 5 % of all discoveries are false, in expectation."
    )
    def discover(claim: str) -> dict[str, Any]:
        return _result_or_refusal(lambda: askable().discover(claim).to_dict())

    @server.tool(
        description=f"The answers that the account has given, in order, at most {_MOST_HISTORY} at a time, "
        "from `offset` on. Free: what was answered before never costs again. Returns `answers`, their "
        "`total` and `next_offset`."
    )
    def history(limit: int = 50, offset: int = 0) -> dict[str, Any]:
        return _result_or_refusal(lambda: _history(askable(), limit, offset))

    @server.tool(description="What all answers together rest on: the theorem, and what is assumed. Free.")
    def certificate() -> dict[str, Any]:
        return _result_or_refusal(lambda: askable().certificate.to_dict())


def _history(askable: Askable, limit: Any, offset: Any) -> dict[str, Any]:
    limit = checks.whole(limit, "limit", at_most=_MOST_HISTORY, of="history")
    offset = checks.whole(offset, "offset", at_least=0, of="history")
    answers = askable.history
    end = offset + limit
    return {
        "answers": [answer.to_brief_dict() for answer in answers[offset:end]],
        "offset": offset,
        "total": len(answers),
        "next_offset": end if end < len(answers) else None,
    }


def _add_report(server: MCPServer, askable: Callable[[], Askable], effect: str) -> None:
    """The tool that gives the report; ``effect`` says what that does to the account."""

    @server.tool(
        description=f"The report: {effect}, then reads a short list of questions exactly. Nothing more is "
        "answered after it. Call it once, at the very end, and only if a person told you to; it needs "
        "confirm=true. A question that cannot be asked is refused before the account is closed. Returns "
        "exact values with intervals that hold together with all earlier answers, and a text to cite. "
        "Without questions it returns the report that was given before, for free."
    )
    def report(questions: list[str] | None = None, confirm: bool = False) -> dict[str, Any]:
        return _result_or_refusal(lambda: _report(askable(), questions or [], effect, confirm=confirm))


def _report(askable: Askable, questions: list[str], effect: str, *, confirm: bool) -> dict[str, Any]:
    report = None if questions else askable.reported
    if report is None:
        if questions and not confirm:
            why = f"A report {effect}. Nothing was done. Call it with confirm=true if a person told you to."
            return {"refused": "NotConfirmed", "why": why}
        report = askable.report(questions)
    answers = [None if answer is None else answer.to_brief_dict() for answer in report.answers]
    return {**report.to_dict(), "answers": answers}


def _result_or_refusal(call: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """What a call returns, or a refusal as data: an agent reads it and continues.

    An unexpected error is reported without its text, which could quote a protected row.
    """
    try:
        return dict(call())
    except (BudgetSpent, QueryRejected) as refusal:
        account = {
            "asked": refusal.asked,
            "spent": refusal.spent,
            "left": refusal.left,
            "unit": refusal.unit,
        }
        return {"refused": type(refusal).__name__, "why": str(refusal), **account}
    except HoldfastError as error:
        return {"refused": type(error).__name__, "why": str(error)}
    except OSError as error:
        file = "a file" if error.filename is None else error.filename
        return {"refused": "OSError", "why": f"Cannot use {file}: {error.strerror or 'the system refused'}."}
    except Exception:
        why = (
            "This failed because of a mistake in the program. Its message is not shown, because it could "
            "quote protected rows. What was charged, if anything, is in the account."
        )
        return {"refused": "InternalError", "why": why}
