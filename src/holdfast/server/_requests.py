"""What people send: bodies of requests, and uploads of predictions and scores.

Bodies are strict: unknown fields are refused. Uploads are read within limits before anything is computed from
them. A few kilobytes can claim millions of rows, so the stated size of a file is checked first. Large or
compressed files are read in a process of their own with a memory limit. Nothing in an upload is ever run.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from holdfast import typing
from holdfast.errors import QueryRejected
from holdfast.isolated import Exhausted, parts_of, run_isolated
from holdfast.registry import RATE, SECONDS, Policy


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_RATE = Field(default=RATE, ge=1, le=10**9)
_SECONDS = Field(default=SECONDS, gt=0, le=86_400)


# A person ("team/name") or a team. The limit makes pydantic also refuse text that has no UTF-8 form: a book
# would keep it for good, and no reply could contain it.
_Sharer = Annotated[str, Field(min_length=1, max_length=201)]
_QUESTION = Annotated[str, Field(min_length=1, max_length=10_000)]


class AskBody(_Strict):
    """One question in the form of ``holdfast ask``: ``share(age > 40, guess = 0.5)``."""

    query: _QUESTION
    nats: float | None = Field(default=None, gt=0, description="Pay about so much for a finer answer.")
    precise: bool = Field(default=False, description="The same as three nats.")


class BatchQuestion(AskBody):
    """One question of several, with a key of its own."""

    key: str = Field(default="", max_length=200)


class BatchBody(_Strict):
    """Several questions that do not depend on each other's answers."""

    questions: list[BatchQuestion] = Field(min_length=1, max_length=100)
    stop: bool = False


class ClaimBody(_Strict):
    """A claim to test: a question, < or >, and a number."""

    claim: _QUESTION
    rate: float = Field(
        default=0.05, gt=0, lt=1, description="Of all that is found, this share may be false."
    )


class ReportBody(_Strict):
    """The questions of the report, which ends the account."""

    questions: list[_QUESTION] = Field(min_length=1, max_length=100)


class TokenBody(_Strict):
    """The holder of a new token."""

    name: str = Field(min_length=1, max_length=100)
    role: str = Field(pattern="^(owner|analyst|auditor|participant|submitter)$")
    team: str = Field(default="", max_length=100)
    dataset: str = Field(
        default="*",
        max_length=71,
        description="What it reaches: dataset:NAME (or NAME), board:NAME, gate:NAME, or * for everything.",
    )
    days: float = Field(default=90, gt=0, le=3660)


class TokenChangeBody(_Strict):
    """Changes of a token. Fields that are left out stay."""

    role: str | None = Field(default=None, pattern="^(owner|analyst|auditor|participant|submitter)$")
    dataset: str | None = Field(default=None, max_length=71)
    days: float | None = Field(default=None, gt=0, le=3660, description="How long it lasts, from now.")


class TermsBody(_Strict):
    """Changes of the terms of a dataset. Fields that are left out stay."""

    shares: dict[_Sharer, float | None] | None = Field(
        default=None, max_length=10_000, description="Person or team to their share; null takes it away."
    )
    rate: int | None = Field(default=None, ge=1, le=10**9)
    report: str | None = Field(default=None, pattern="^(owner|analyst)$")


class ExportBody(_Strict):
    """Who continues the account: this service, or the service with the public key ``to``."""

    to: str | None = Field(default=None, max_length=200)


def _policy_fields() -> dict[str, Any]:
    """The fields of :class:`Policy` for pydantic: each with its type, its default and its limits."""
    hints = get_type_hints(Policy, localns=vars(typing))
    fields: dict[str, Any] = {}
    for option in dataclasses.fields(Policy):
        limits: dict[str, Any] = {}
        if "domain" in option.metadata:
            domain = option.metadata["domain"]
            low, high = map(float, domain[1:-1].split(","))
            limits["gt" if domain[0] == "(" else "ge"] = low
            limits["lt" if domain[-1] == ")" else "le"] = high if math.isfinite(high) else None
        elif "at_least" in option.metadata:
            limits = {"ge": option.metadata["at_least"], "le": _MOST.get(option.name, 10**9)}
        elif option.name in _MORE_LIMITS:
            limits = dict(_MORE_LIMITS[option.name])
        if option.default is dataclasses.MISSING:
            limits["default_factory"] = option.default_factory
        else:
            limits["default"] = option.default
        fields[option.name] = (_TYPES.get(option.name, hints[option.name]), Field(**limits))
    return fields


_TYPES = {"shares": dict[_Sharer, float]}
_MOST = {"split_seed": 2**63 - 1}
_MORE_LIMITS: dict[str, dict[str, Any]] = {
    "report": {"pattern": "^(owner|analyst)$"},
    "split_by": {"min_length": 1, "max_length": 200},
    "shares": {"max_length": 10_000},
}

if TYPE_CHECKING:

    class PolicyBody(_Strict):
        """The promise, the model of the rows, and how the account is shared; see ``Policy``."""

else:
    PolicyBody = create_model(
        "PolicyBody",
        __base__=_Strict,
        __doc__="The promise, the model of the rows, and how the account is shared; see ``Policy``.",
        **_policy_fields(),
    )


class BoardBody(_Strict):
    """A table of labels to score predictions against."""

    name: str = Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")
    source: str = Field(min_length=1, max_length=4_000)
    target: str = Field(min_length=1, max_length=200)
    id: str = Field(default="id", min_length=1, max_length=200)
    metric: str = Field(default="accuracy", pattern="^(accuracy|brier)$")
    compare: str | None = Field(
        default=None,
        pattern="^(paired|scores)$",
        description="How a submission is compared with the best: row by row (paired), or by scores. "
        "Without it: as the account book was opened, and a new one is paired.",
    )
    confidence: float = Field(default=0.95, gt=0, lt=1)
    step: float | None = Field(default=None, gt=0, le=1)
    start: float | None = Field(default=None, ge=0, le=1)
    sealed: float = Field(default=0.5, ge=0, lt=1)
    most_finalists: int = Field(
        default=2, ge=1, le=100, description="How many submissions a person may choose for the final."
    )
    split_seed: int = Field(default=0, ge=0, le=2**63 - 1)
    rate: int = _RATE
    seconds: float = _SECONDS
    blind: bool = False

    def terms(self) -> dict[str, Any]:
        """What is agreed with everyone who submits."""
        return self.model_dump(exclude={"name", "source", "blind"})


class FinalistsBody(_Strict):
    """Which of your own submissions are in the final. An empty list means the best one."""

    submissions: list[Annotated[str, Field(max_length=64)]] = Field(max_length=100)


_TaskId = Annotated[str, Field(max_length=1_000)]
# The limit makes pydantic refuse text that has no UTF-8 form, too.
_Output = Annotated[str, Field(max_length=10**7)]
# The gate checks scores: its messages do not name the task with an invalid score.
_Scores = Annotated[
    dict[_TaskId, Any],
    Field(
        min_length=1,
        max_length=10**6,
        description="Task id to a score from 0 to 1, or to a list of them (repeats, which are averaged).",
        json_schema_extra={
            "additionalProperties": {
                "anyOf": [
                    {"type": "number", "minimum": 0, "maximum": 1},
                    {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}},
                ]
            }
        },
    ),
]
_Outputs = Annotated[
    dict[_TaskId, _Output] | None,
    Field(max_length=10**6, description="Task id to what was answered, or a digest of it."),
]


class CandidateBody(_Strict):
    """A candidate for a gate: its name, and its scores on all tasks."""

    name: str = Field(min_length=1, max_length=200, description="What it is: a commit or a version.")
    scores: _Scores
    outputs: _Outputs = None


class ResultsBody(_Strict):
    """The scores of an incumbent."""

    scores: _Scores
    outputs: _Outputs = None
    clusters: dict[_TaskId, _TaskId] | None = Field(default=None, max_length=10**6)


class ReadingBody(_Strict):
    """How result files are read; see ``holdfast.results.read_results``."""

    format: str | None = Field(default=None, max_length=200)
    metric: str | None = Field(default=None, max_length=200)
    task: str | None = Field(default=None, max_length=200)
    score: str | None = Field(default=None, max_length=200)
    cluster: str | None = Field(default=None, max_length=200)
    output: str | None = Field(default=None, max_length=200)
    filter: str | None = Field(default=None, max_length=200)


class GateBody(_Strict):
    """An incumbent that candidates have to beat; the terms are those of ``holdfast.Gate``."""

    name: str = Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")
    source: str | None = Field(default=None, min_length=1, max_length=4_000)
    results: ResultsBody | None = Field(default=None, description="The scores, instead of a source.")
    incumbent: str | None = Field(default=None, min_length=1, max_length=200)
    reading: ReadingBody = Field(default_factory=ReadingBody)
    promise: str = Field(default="family", pattern="^(family|fdr)$")
    confidence: float = Field(default=0.95, gt=0, lt=1)
    expect: float | None = Field(default=None, ge=1, le=1e9)
    minimum: float = Field(default=0.0, ge=0, lt=1)
    step: float | None = Field(default=None, ge=1e-9, le=1)
    weight: str = Field(default="tasks", pattern="^(tasks|clusters)$")
    scores: str = Field(default="auto", pattern="^(auto|binary|fractions)$")
    inputs: str = Field(default="hidden", pattern="^(hidden|public)$")
    rate: int = _RATE

    def terms(self) -> dict[str, Any]:
        """What is agreed with everyone who submits."""
        return self.model_dump(exclude={"name", "source", "results", "reading"})


class DatasetBody(_Strict):
    """A table to protect."""

    name: str = Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$")
    source: str = Field(min_length=1, max_length=4_000)
    policy: PolicyBody = Field(default_factory=PolicyBody)


class EpochBody(_Strict):
    """Rows that arrived later, and what changes with them. All else is as in the epoch before."""

    source: str = Field(min_length=1, max_length=4_000)
    confidence: float | None = Field(default=None, gt=0, lt=1)
    together: float | None = Field(default=None, gt=0, lt=1)
    rows: dict[str, Any] | None = None
    shares: dict[_Sharer, float] | None = Field(default=None, max_length=10_000)


# Smaller CSV and JSON is read here. It needs little memory and less time than starting a process.
_SMALL = 64 * 2**10
_MOST_COLUMNS = 100
_LONGEST_TEXT = 10_000
_ROWS_A_PIECE = 20_000
# More rows than the board has ids are refused anyway; some room lets the board say which ids are wrong.
_ROOM_FOR_ROWS = 1_000

_Body = TypeVar("_Body", bound=BaseModel)

# The bodies that may be large, by the name that is passed to the separate process.
_READ_APART: dict[str, type[BaseModel]] = {model.__name__: model for model in (GateBody, CandidateBody)}

# The mappings in requests that can be long.
_LONG = ("scores", "outputs", "clusters")

PARQUET = "application/vnd.apache.parquet"


def read_predictions(kind: str, content: bytes, *, ids: int, text: bool) -> Any:
    """A table of predictions from what was sent.

    CSV has no types: ids are texts, predictions are texts where the labels are (``text``), and only an empty
    prediction is missing.

    Args:
        kind: The content type.
        content: What was sent.
        ids: How many predictions the board wants; many more rows are refused before they are read.
        text: Whether the labels are texts.
    """
    import pandas

    if kind not in ("text/csv", PARQUET, "application/json"):
        raise QueryRejected(
            f"Send predictions as text/csv, {PARQUET} or application/json; the Content-Type was "
            f"{kind or 'missing'!r}.",
            asked=0.0,
        )
    most_rows = ids + _ROOM_FOR_ROWS
    if kind != PARQUET and len(content) <= _SMALL:
        return next(iter(table_pieces(kind, content, most_rows, text, at_once=True)))
    function = "holdfast.server._requests:table_pieces"
    try:
        pieces = list(run_isolated(function, kind, content, most_rows, text))
    except Exhausted as limit:
        raise QueryRejected(f"The submission could not be read as {kind}. {limit}", asked=0.0) from None
    return pieces[0] if len(pieces) == 1 else pandas.concat(pieces)


def table_pieces(
    kind: str, content: bytes, most_rows: int, text: bool, *, at_once: bool = False
) -> Iterator[Any]:
    """The rows of a table of predictions, some at a time. With ``at_once``, all in one piece."""
    readable, table = True, None
    try:
        table = _table(kind, content, most_rows, text)
    except (QueryRejected, MemoryError):
        raise
    except Exception:  # The text of a reader may quote much of what was sent.
        readable = False
    if not readable or table is None:
        raise QueryRejected(f"The submission could not be read as {kind}.", asked=0.0)
    _require_rows(len(table), most_rows)
    step = len(table) + 1 if at_once else _ROWS_A_PIECE
    for start in range(0, max(1, len(table)), step):
        yield table.iloc[start : start + step]


def _table(kind: str, content: bytes, most_rows: int, text: bool) -> Any:
    import pandas

    if kind == "text/csv":
        _require_columns(content.partition(b"\n")[0].count(b",") + 1)
        types = {"id": str, "prediction": str} if text else {"id": str}
        missing = {"prediction": [""]}
        return pandas.read_csv(
            io.BytesIO(content),
            dtype=types,
            na_values=missing,
            keep_default_na=False,
            nrows=most_rows + 1,
        )
    if kind == PARQUET:
        return _parquet(content, most_rows)
    values = json.loads(content, parse_constant=lambda _: math.nan)
    if isinstance(values, dict):
        _require_columns(len(values))
    return pandas.DataFrame(values)


def _parquet(content: bytes, most_rows: int) -> Any:
    """A Parquet file whose footer and pages are within the limits. Both are checked, because the footer can
    be false."""
    import pyarrow
    from pyarrow import parquet

    file = parquet.ParquetFile(io.BytesIO(content))
    _require_columns(file.metadata.num_columns)
    _require_rows(file.metadata.num_rows, most_rows)
    _require_plain(file.schema_arrow)
    batches, rows = [], 0
    for batch in file.iter_batches(batch_size=_ROWS_A_PIECE, use_threads=False):
        rows += batch.num_rows
        _require_rows(rows, most_rows)
        batches.append(batch)
    table = pyarrow.Table.from_batches(batches, schema=file.schema_arrow)
    for place, column in enumerate(table.columns):
        # Texts that repeat may be stored once. They are written out here and not in the service.
        if pyarrow.types.is_dictionary(column.type):
            for chunk in column.chunks:
                _require_short(chunk.dictionary)
            plain = pyarrow.chunked_array(
                [chunk.dictionary_decode() for chunk in column.chunks], type=column.type.value_type
            )
            table = table.set_column(place, table.field(place).name, plain)
        else:
            _require_short(column)
    return table.to_pandas()


def _require_plain(schema: Any) -> None:
    """Refuse columns of lists, records or bytes. They are no predictions, and a few kilobytes can claim
    hundreds of megabytes of them."""
    from pyarrow import types

    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        text = types.is_string(kind) or types.is_large_string(kind)
        if not (number or text or types.is_boolean(kind) or types.is_temporal(kind) or types.is_null(kind)):
            raise QueryRejected(
                "The submission has a column of lists, records or bytes; send id and prediction.", asked=0.0
            )


def _require_short(texts: Any) -> None:
    """Refuse texts that are too long for a prediction. Other values pass."""
    import pyarrow
    from pyarrow import compute

    kind = texts.type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        return
    longest = compute.max(compute.binary_length(texts)).as_py() or 0
    if longest > _LONGEST_TEXT:
        raise QueryRejected(
            f"The submission has a text of {longest:,} bytes and at most {_LONGEST_TEXT:,} are read.",
            asked=0.0,
        )


def _require_columns(columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise QueryRejected(
            f"The submission has {columns:,} columns and at most {_MOST_COLUMNS} are read; send id and "
            "prediction.",
            asked=0.0,
        )


def _require_rows(rows: int, most: int) -> None:
    if rows > most:
        raise QueryRejected(
            f"The submission has more than {most - _ROOM_FOR_ROWS:,} rows, and the board has no more ids. "
            "Send one prediction for each id.",
            asked=0.0,
        )


def read_body(model: type[_Body], content: bytes) -> _Body:
    """A request's JSON as ``model``. A large body is parsed in a process of its own, because a parser stops
    all threads of this process until it is done.

    Raises :class:`~fastapi.exceptions.RequestValidationError` for a body that does not fit the model.
    """
    small = len(content) <= _SMALL
    function = "holdfast.server._requests:body_pieces"
    arguments = (model.__name__, content)
    try:
        pieces = body_pieces(*arguments) if small else run_isolated(function, *arguments)
        body = next(pieces)
        if not isinstance(body, model):
            raise RequestValidationError([body])
        for field, entries in pieces:
            _owner_of_mappings(body).__dict__[field].update(entries)
    except Exhausted as limit:
        raise QueryRejected(f"The request could not be read. {limit}", asked=0.0) from None
    return body


def body_pieces(name: str, content: bytes) -> Iterator[Any]:
    """What is wrong with a request, as pydantic states it. For a valid request: the request without its long
    mappings, and then these mappings, some entries at a time."""
    model = _READ_APART[name]
    try:
        body = model.model_validate(json.loads(content))
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
        yield {"loc": ("body", *first_error["loc"]), "msg": first_error["msg"], "type": first_error["type"]}
        return
    except (ValueError, RecursionError):
        yield {"loc": ("body",), "msg": "This is not valid JSON.", "type": "json_invalid"}
        return
    long_mappings = {
        field: values for field in _LONG if (values := _owner_of_mappings(body).__dict__.get(field))
    }
    for field, values in long_mappings.items():
        if isinstance(values, dict):
            _owner_of_mappings(body).__dict__[field] = {}
    yield body
    for field, values in long_mappings.items():
        if isinstance(values, dict):
            yield from ((field, entries) for entries in parts_of(values))


def _owner_of_mappings(body: BaseModel) -> BaseModel:
    """The model that holds the long mappings: the results in a request, or the request itself."""
    results = body.__dict__.get("results")
    return results if isinstance(results, BaseModel) else body


def openapi_body(model: type[BaseModel]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads its body by :func:`read_body`."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inlined(node: Any) -> Any:
        if isinstance(node, list):
            return [inlined(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return inlined(definitions[node["$ref"].rpartition("/")[2]])
        return {key: inlined(value) for key, value in node.items()}

    content = {"application/json": {"schema": inlined(schema)}}
    return {"requestBody": {"required": True, "content": content}}
