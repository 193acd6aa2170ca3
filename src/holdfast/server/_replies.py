"""The replies of the service, described for ``/openapi.json``. The routes build their replies themselves, so
these descriptions take no time in a request. A test compares every description with real replies.

Clients must accept fields that they do not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field, TypeAdapter

# JSON has no infinity: an end of an interval that is infinite is null.
_Number = float | None
_REFERENCE = "#/components/schemas/{model}"


class Problem(BaseModel):
    """What was wrong, what was expected, and what to do (RFC 9457)."""

    type: str = Field(description="urn:holdfast:KIND; programs tell problems apart by it.")
    title: str
    status: int
    detail: str
    argument: str | None = Field(default=None, description="Which part of the request it is about.")
    wait: float | None = Field(default=None, description="Seconds until it is worth trying again.")
    asked: float | None = None
    spent: float | None = None
    left: float | None = None
    unit: str | None = None
    error: str | None = Field(default=None, description="The class of the error in Python.")
    needed: int | None = Field(default=None, description="How many rows the guarantee needs.")
    got: int | None = Field(default=None, description="How many rows there are.")
    what: str | None = Field(default=None, description="The guarantee that needs more rows.")
    extra: str | None = Field(default=None, description="The optional part that is not installed.")


class Receipt(BaseModel):
    """A signed line of an account book."""

    book: str
    sequence: int
    digest: str
    key: str
    signature: str


class Certificate(BaseModel):
    """What an answer, or an account, rests on."""

    statement: str
    theorem: str
    numbers: dict[str, Any]
    checked: list[str]
    assumed: list[str]
    interval: str


class Envelope(BaseModel):
    """A certificate in a signed DSSE envelope."""

    payload_type: str = Field(alias="payloadType")
    payload: str
    signatures: list[dict[str, str]]


class Answer(BaseModel):
    """An answer with its interval and what it cost."""

    value: _Number
    low: _Number
    high: _Number
    confidence: float
    cost: float
    query: str
    guess: _Number
    confirmed: bool
    unit: str
    certificate: Certificate
    notes: list[str]
    receipt: Receipt | None


class AnswerLine(Answer):
    """An answer and its line in the account book."""

    line: int


class History(BaseModel):
    """A page of answers; ``after`` leads to the next one."""

    answers: list[AnswerLine]
    after: int


class Preview(BaseModel):
    """What a question would cost and show."""

    query: str
    guess: _Number
    low: _Number
    high: _Number
    cell: _Number
    if_confirmed: _Number
    if_surprised: _Number
    at_most: _Number
    allowed: bool
    known: bool
    failure_closes: bool
    unit: str
    why: str


class GroupAnswer(BaseModel):
    """The answer of one group, or why it has none."""

    group: list[str]
    answer: Answer | None
    note: str


class Table(BaseModel):
    """A question by the values of columns."""

    query: str
    by: list[str]
    rows: list[GroupAnswer]


class Curve(BaseModel):
    """A distribution, in one band at all its points."""

    answer: Answer
    points: list[_Number]
    value: list[_Number]
    low: list[_Number]
    high: list[_Number]


class Discovery(BaseModel):
    """A claim that was tested."""

    claim: str
    found: bool
    e_value: _Number
    level: float
    rate: float
    cost: float
    unit: str
    theorem: str


class Outcome(BaseModel):
    """An answer, or why there is none: one of the two."""

    answer: Answer | None = None
    problem: Problem | None = None


class Outcomes(BaseModel):
    """The outcome of each question of a batch, in order."""

    outcomes: list[Outcome]


class Report(BaseModel):
    """The report of an account. An answer is null if it could not be computed."""

    text: str
    questions: list[str]
    answers: list[Answer | None]
    certificate: Certificate
    receipt: Receipt | None


class Epoch(BaseModel):
    """An epoch and its confidence, alone and together with the epochs before it."""

    number: int
    confidence: float
    together: float


class EpochStanding(BaseModel):
    """One epoch of a table, and what is left of its account."""

    address: str
    since: int | None
    epoch: int
    rows: int
    confidence: float
    together: float
    spent: float
    unit: str
    left: _Number
    words: str
    closed: bool


class Dataset(BaseModel):
    """A dataset: its columns, its promise, what is spent and what is left."""

    name: str
    rows: int
    columns: dict[str, str]
    confidence: float
    error: float | None
    strategy: str
    promise: str
    expect: float | None
    spent: float
    left: _Number
    unit: str
    words: str
    confirmed: int | None
    surprises: int | None
    total: _Number
    share_half_width: _Number
    share_half_width_after: _Number = None
    share: float | None
    share_left: float | None
    share_unit: str
    closed: bool
    reported: bool
    may_report: bool
    epoch: Epoch
    epochs: list[EpochStanding]


class Broken(BaseModel):
    """A dataset or a board that cannot be opened, and why."""

    name: str
    broken: str


class Column(BaseModel):
    """A column, and what the training rows show of it."""

    name: str
    kind: str
    training: dict[str, Any] | None
    index: bool


class Columns(BaseModel):
    """The columns of a dataset."""

    columns: list[Column]
    training_rows: int | None


class DamagedLine(BaseModel):
    """One problem of an account book; line 0 means the book as a whole."""

    line: int
    kind: str
    words: str


class Verification(BaseModel):
    """An account book as the service verifies it."""

    lines: int
    spent: float
    signed: bool
    receipts: int
    problems: list[DamagedLine]
    epoch: int
    unit: str
    whole: bool
    key: str


class Terms(BaseModel):
    """What an owner can change about a dataset."""

    shares: dict[str, float]
    rate: int
    report: str


class State(BaseModel):
    """Whether a dataset is served, archived or deleted."""

    name: str
    state: str


class StateSince(State):
    """A dataset that is not served, and since when in seconds."""

    since: int


class Imported(BaseModel):
    """A dataset that was imported, and whether its account continues here."""

    name: str
    open: bool
    key: str
    lines: int


class Grant(BaseModel):
    """A role, and what it reaches."""

    role: str
    dataset: str


class Person(Grant):
    """Who holds a token, and until when in seconds."""

    identity: str
    name: str
    team: str
    expires: int
    revoked: int
    also: list[Grant]


class NewToken(Person):
    """A new token, shown only this once."""

    token: str


class Act(BaseModel, extra="allow"):
    """What an owner did, and further fields about it."""

    line: int
    act: str
    by: str
    identity: str
    time: int


class Acts(BaseModel):
    """A page of acts; ``after`` leads to the next one."""

    acts: list[Act]
    after: int


class Standing(BaseModel):
    """A submission as it appears in the standing of a board."""

    key: str
    by: str
    value: float
    low: float
    high: float
    steps: int
    confidence: float
    cost: float
    margin: float | None
    compared_with: str | None


class Submission(Standing):
    """The reply to a submission."""

    better: bool
    receipt: Receipt | None


class ListedSubmission(Submission):
    """A submission, and whether its submitter chose it for the final."""

    finalist: bool


class Received(BaseModel):
    """A submission that waits for the end of the blind phase."""

    key: str
    by: str
    blind: bool


class ListedReceived(Received):
    """A waiting submission, and whether its submitter chose it for the final."""

    finalist: bool


class Finalist(BaseModel):
    """A submission with its score on the sealed rows."""

    key: str
    by: str
    value: float
    low: float
    high: float
    confidence: float


class Board(BaseModel):
    """A board, its standing, and the final once it was held."""

    name: str
    metric: str
    compare: str
    upward: bool
    rows: int
    step: float
    confidence: float
    sealed_rows: int
    most_finalists: int
    blind: bool
    words: str
    standing: list[Standing]
    final: list[Finalist] | None


class Unscored(BaseModel):
    """A submission that could not be scored."""

    key: str
    by: str


class UnblindBoard(Board):
    """A board whose blind phase has ended."""

    unscored: list[Unscored]


class Finalists(BaseModel):
    """Which submissions a person chose for the final, and how many may be chosen."""

    finalists: list[str]
    most_finalists: int


class Version(BaseModel):
    """A version that was promoted, and by more than how much it is better."""

    name: str
    margin: float
    total: float | None
    place: int


class Gate(BaseModel):
    """A gate: its terms, where it stands, and the line of promotions."""

    name: str
    tasks: int
    promise: str
    confidence: float
    step: float
    minimum: float
    submissions: int
    promotions: int
    incumbent: str
    certified_gain: float | None
    spent: float
    needed_gain: float | None
    closed: bool
    text: str
    versions: list[Version]
    reading: dict[str, Any]
    rate: int


class Verdict(BaseModel):
    """Whether a candidate was promoted, and by more than how much it is better."""

    promoted: bool
    margin: _Number
    low: _Number
    cost: float
    name: str
    incumbent: str
    place: int
    level: float
    repeated: bool
    refused: bool
    text: str
    assumed: list[str]
    receipt: Receipt | None


class VerdictLine(Verdict):
    """A verdict and its line in the book."""

    line: int


class Verdicts(BaseModel):
    """A page of verdicts; ``after`` leads to the next one."""

    verdicts: list[VerdictLine]
    after: int


class VersionScore(BaseModel):
    """The exact score of a version, given when the gate is closed."""

    name: str
    score: float
    score_low: _Number
    score_high: _Number
    gain: float | None
    gain_low: _Number
    gain_high: _Number


class GateReport(BaseModel):
    """The report of a gate."""

    text: str
    versions: list[VersionScore]
    assumed: list[str]
    receipt: Receipt | None


class Health(BaseModel):
    """The service runs; this is its version."""

    status: str
    version: str


class Live(BaseModel):
    """The process runs."""

    status: str


class Ready(BaseModel):
    """Whether the service can answer, and what each check says."""

    status: str
    checks: dict[str, str]


class PublicKey(BaseModel):
    """The key that receipts and exports are signed with."""

    key: str


class SignInWays(BaseModel):
    """Whether people can sign in by a provider."""

    provider: bool


_DATASET, _BOARD, _GATE = "/v1/datasets/{name}", "/v1/boards/{name}", "/v1/gates/{name}"

REPLIES: dict[tuple[str, str], Any] = {
    ("GET", "/v1/health"): Health,
    ("GET", "/v1/live"): Live,
    ("GET", "/v1/ready"): Ready,
    ("GET", "/v1/key"): PublicKey,
    ("GET", "/v1/sign-in"): SignInWays,
    ("GET", "/v1/me"): Person,
    ("GET", "/v1/tokens"): list[Person],
    ("POST", "/v1/tokens"): NewToken,
    ("PATCH", "/v1/tokens/{identity}"): Person,
    ("GET", "/v1/states"): list[StateSince],
    ("POST", "/v1/imports"): Imported,
    ("GET", "/v1/administration"): Acts,
    ("GET", "/v1/datasets"): list[Dataset | Broken],
    ("POST", "/v1/datasets"): Dataset,
    ("GET", _DATASET): Dataset,
    ("DELETE", _DATASET): State,
    ("POST", f"{_DATASET}/preview"): Preview,
    ("POST", f"{_DATASET}/questions"): Answer,
    ("POST", f"{_DATASET}/batches"): Outcomes,
    ("POST", f"{_DATASET}/tables"): Table,
    ("POST", f"{_DATASET}/curves"): Curve,
    ("POST", f"{_DATASET}/discoveries"): Discovery,
    ("GET", f"{_DATASET}/discoveries"): list[Discovery],
    ("GET", f"{_DATASET}/history"): History,
    ("GET", f"{_DATASET}/columns"): Columns,
    ("GET", f"{_DATASET}/certificate"): Certificate | Envelope,
    ("GET", f"{_DATASET}/verify"): Verification,
    ("GET", f"{_DATASET}/terms"): Terms,
    ("PATCH", f"{_DATASET}/terms"): Terms,
    ("POST", f"{_DATASET}/close"): Dataset,
    ("POST", f"{_DATASET}/archive"): State,
    ("POST", f"{_DATASET}/unarchive"): State,
    ("POST", f"{_DATASET}/epochs"): EpochStanding,
    ("GET", f"{_DATASET}/epochs"): list[EpochStanding],
    ("POST", f"{_DATASET}/report"): Report,
    ("GET", f"{_DATASET}/report"): Report,
    ("GET", "/v1/boards"): list[Board | Broken],
    ("POST", "/v1/boards"): Board,
    ("GET", _BOARD): Board,
    ("GET", f"{_BOARD}/ids"): list[int | str | float | bool],
    ("POST", f"{_BOARD}/submissions"): Submission | Received,
    ("GET", f"{_BOARD}/submissions"): list[ListedSubmission | ListedReceived],
    ("GET", f"{_BOARD}/finalists"): Finalists,
    ("PUT", f"{_BOARD}/finalists"): Finalists,
    ("POST", f"{_BOARD}/unblind"): UnblindBoard,
    ("POST", f"{_BOARD}/final"): Board,
    ("GET", "/v1/gates"): list[Gate],
    ("POST", "/v1/gates"): Gate,
    ("GET", _GATE): Gate,
    ("GET", f"{_GATE}/tasks"): list[str],
    ("POST", f"{_GATE}/submissions"): Verdict,
    ("GET", f"{_GATE}/verdicts"): Verdicts,
    ("POST", f"{_GATE}/report"): GateReport,
}
"""What each route replies as JSON."""

FILES: dict[tuple[str, str], str] = {
    ("GET", f"{_DATASET}/train"): "application/vnd.apache.parquet",
    ("GET", f"{_DATASET}/ledger"): "application/jsonl",
    ("POST", f"{_DATASET}/export"): "application/x-tar",
    ("GET", "/v1/administration/ledger"): "application/jsonl",
    ("GET", f"{_GATE}/book"): "application/jsonl",
    ("GET", "/v1/metrics"): "text/plain",
}
"""The routes whose replies are files, with their kinds."""


def describe_replies(app: FastAPI) -> None:
    """Describe in ``/openapi.json`` the reply of every route, and that every refusal is a problem."""
    openapi_of_routes = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _with_replies(openapi_of_routes)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _with_replies(openapi_of_routes: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    description = openapi_of_routes()
    kinds = {**REPLIES, ("", ""): Problem}
    adapters = [(key, "serialization", TypeAdapter(kind)) for key, kind in kinds.items()]
    schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REFERENCE)  # type: ignore[arg-type]
    replies = {key: schema for (key, _), schema in schemas.items()}
    description.setdefault("components", {}).setdefault("schemas", {}).update(definitions.get("$defs", {}))
    problem = {
        "description": "What was wrong, what was expected, and what to do.",
        "content": {"application/problem+json": {"schema": replies["", ""]}},
    }
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            key, responses = (method.upper(), path), operation["responses"]
            success = next((code for code in responses if code.startswith("2")), None)
            if success is not None and key in replies:
                responses[success]["content"] = {"application/json": {"schema": replies[key]}}
            elif success is not None and key in FILES:
                binary = {"schema": {"type": "string", "format": "binary"}}
                responses[success]["content"] = {FILES[key]: binary}
            responses.pop("422", None)
            responses["default"] = problem
    return description
