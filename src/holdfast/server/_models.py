"""What requests must look like: strict, with nothing extra."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.server._rate import RATE, SECONDS


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_RATE = Field(default=RATE, ge=1, le=10**9)
_SECONDS = Field(default=SECONDS, gt=0, le=86_400)


# A person ("team/name") or a team. The limit makes pydantic refuse text that has no UTF-8 form, too: a book
# would keep it for good, and no reply could have it.
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
    """The questions of the last word, which ends the account."""

    questions: list[_QUESTION] = Field(min_length=1, max_length=100)


class TokenBody(_Strict):
    """Whom a new token is for."""

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
    """What is new about a token; what is left out stays."""

    role: str | None = Field(default=None, pattern="^(owner|analyst|auditor|participant|submitter)$")
    dataset: str | None = Field(default=None, max_length=71)
    days: float | None = Field(default=None, gt=0, le=3660, description="How long it lasts, from now.")


class TermsBody(_Strict):
    """What is new about a dataset; what is left out stays."""

    shares: dict[_Sharer, float | None] | None = Field(
        default=None, max_length=10_000, description="Person or team to their share; null takes it away."
    )
    rate: int | None = Field(default=None, ge=1, le=10**9)
    report: str | None = Field(default=None, pattern="^(owner|analyst)$")


class ExportBody(_Strict):
    """Who goes on with the account: nobody else, or the service with the public key ``to``."""

    to: str | None = Field(default=None, max_length=200)


class PolicyBody(_Strict):
    """The promise, the model of the rows, and how the account is shared; see ``Policy``."""

    confidence: float = Field(default=0.95, gt=0, lt=1)
    error: float | None = Field(default=None, gt=0)
    strategy: str = Field(default="code", max_length=40)
    queries: int | None = Field(default=None, ge=1, le=10**9)
    surprises: int | None = Field(default=None, ge=0, le=10**9)
    expect: float | None = Field(default=None, ge=1)
    promise: str = Field(default="all", pattern="^(all|each)$")
    report: str = Field(default="owner", pattern="^(owner|analyst)$")
    training_share: float | None = Field(default=None, ge=0, lt=1)
    split_seed: int = Field(default=0, ge=0, le=2**63 - 1)
    split_by: str | None = Field(default=None, min_length=1, max_length=200)
    rate: int = _RATE
    seconds: float = _SECONDS
    shares: dict[_Sharer, float] = Field(default_factory=dict, max_length=10_000)
    rows: dict[str, Any] = Field(default_factory=lambda: {"kind": "independent"})


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
    """The submissions of one's own that are to be in the final; none: the best one."""

    submissions: list[Annotated[str, Field(max_length=64)]] = Field(max_length=100)


_TaskId = Annotated[str, Field(max_length=1_000)]
# The limit makes pydantic refuse text that has no UTF-8 form, too.
_Output = Annotated[str, Field(max_length=10**7)]
# Scores are checked by the gate: its messages do not say which task has a score that is none.
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
    """Rows that arrived later, and what is new about them; everything else is as in the epoch before."""

    source: str = Field(min_length=1, max_length=4_000)
    confidence: float | None = Field(default=None, gt=0, lt=1)
    together: float | None = Field(default=None, gt=0, lt=1)
    rows: dict[str, Any] | None = None
    shares: dict[_Sharer, float] | None = Field(default=None, max_length=10_000)
