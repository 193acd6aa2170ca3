"""The same questions for AI agents, as tools of the Model Context Protocol.

The tools call a service with a token of their own, so an agent passes through the same account as everyone
else; what they say of themselves tells an agent how to spend little.
"""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer

from holdfast import queries
from holdfast.client import Client
from holdfast.errors import BudgetSpent, HoldfastError, QueryRejected

_INSTRUCTIONS = """\
You can ask a protected table questions whose answers stay valid however many you ask. All answers come from
one account that other people share, and it does not refill. To spend little: call `preview` first (it is
free); bring your best guess with every question, because an answer that agrees with the guess costs almost
nothing and a surprise costs more, the farther off the guess was; never vary a question to average noise away,
the same question always gives the same recorded answer. Prices are in the `unit` of the account: nats, or
answers where their number is fixed and every new question uses one up. Report the whole interval, not the
value alone."""

_QUESTIONS = f"""\
A question is one of {", ".join(queries.FORMS)} over the table's columns in SQL, for example
share(age > 40, where = sex = 'F', guess = 0.4), mean(income, 0, 1e5), difference(spend, arm = 'b', arm =
'a', 0, 500) for an A/B test, correlation(x, y, 0, 1, 0, 1) with the bounds of both, or quantile(income,
0.9). Each takes `where = condition` and `guess = number`; bounds = train takes the bounds from the training
part."""
_BY = (
    "`share(late, by = carrier)` asks the same of each value of a column; also mean, quantile and difference."
    " `histogram(income, 10)` tells the share of rows in each bin."
)


_FINER = "`nats` pays about so much for a finer answer, and `precise` about three nats."


def make_tools(client: Client, *, may_report: bool = False) -> MCPServer:
    """An MCP server whose tools ask one dataset of a service through ``client``; with ``may_report`` also the
    one that gives the last word and ends the account.

    Guarantee: every tool passes through the service's account with the client's token, and can do nothing the
    token cannot.
    """
    server = MCPServer("holdfast", instructions=_INSTRUCTIONS)

    @server.tool(
        description="What a question would cost and show. Free; reads no protected row. "
        f"{_QUESTIONS} {_FINER}"
    )
    def preview(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _told(lambda: client.cost_preview(question, nats=nats, precise=precise).to_dict())

    @server.tool(
        description="Answer a question with an interval that holds together with all other answers. Charged "
        f"once, more if the guess was wrong; the same question again is free. {_QUESTIONS} {_FINER}"
    )
    def ask(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _told(lambda: client.ask(question, nats=nats, precise=precise).to_dict())

    @server.tool(
        description="Answer one question for each value of a column, all together: cheaper than one by one. "
        f"{_BY} {_FINER}"
    )
    def table(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _told(lambda: client.table(question, nats=nats, precise=precise).to_dict())

    @server.tool(
        description="Tell a whole distribution, such as cdf(income): the share of rows up to each of 64 "
        f"points, in one band that costs about as much as one share. {_FINER}"
    )
    def curve(question: str, nats: float | None = None, precise: bool = False) -> dict[str, Any]:
        return _told(lambda: client.curve(question, nats=nats, precise=precise).to_dict())

    @server.tool(
        description="Test a claim, a question with < or > and a number, such as mean(income, 0, 1e5) > "
        "3e4. You "
        "are told whether it was found; of all that is found at most 5 % are false, in expectation."
    )
    def discover(claim: str) -> dict[str, Any]:
        return _told(lambda: client.discover(claim).to_dict())

    @server.tool(description="The columns, what was spent, and what is left of the shared account.")
    def left() -> dict[str, Any]:
        return _told(client.describe)

    @server.tool(description="What all answers together rest on: the theorem, and what is assumed.")
    def certificate() -> dict[str, Any]:
        return _told(lambda: client.certificate.to_dict())

    @server.tool(
        description="The boards, where predictions are scored: their standing with certified intervals."
    )
    def boards() -> dict[str, Any]:
        return _told(lambda: {"boards": client.boards()})

    @server.tool(
        description="Submit predictions to a board: a map from every row id of the board to a prediction. "
        "You are told whether they beat the best by a step, and by how many; only steps cost much."
    )
    def submit(board: str, predictions: dict[str, Any]) -> dict[str, Any]:
        table = {"id": list(predictions), "prediction": list(predictions.values())}
        return _told(lambda: client.submit(board, table))

    if may_report:

        @server.tool(
            description="The last word: ENDS THE SHARED ACCOUNT FOR GOOD, for everyone, then reads a short "
            "list of questions exactly. Call it once, at the very end, and only if a person told you to."
        )
        def report(questions: list[str]) -> dict[str, Any]:
            return _told(lambda: client.report(questions).to_dict())

    return server


def _told(call: Any) -> dict[str, Any]:
    """What a call returns, or a refusal as data: an agent reads it and goes on."""
    try:
        found: dict[str, Any] = call()
        return found
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
