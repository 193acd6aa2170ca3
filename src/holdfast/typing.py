"""Types of what people give and choose: tables, arrays, expressions, models, and words from a fixed list; and
of what a service replies.

They are for type checkers and editors, and name what the functions accept; the functions themselves check
every argument at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict, Union, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "AmplifyMethod",
    "ArrayLike",
    "BoardMetric",
    "BoardReply",
    "BoardTerms",
    "BoundForm",
    "BoundsLike",
    "BrokenReply",
    "ChoiceMethod",
    "ConversionContext",
    "DatasetReply",
    "EpochReply",
    "EpochStandingReply",
    "ExpressionLike",
    "FinalistReply",
    "Frame",
    "GatePromise",
    "GateReply",
    "GateStatus",
    "GateTerms",
    "GeneralizationKind",
    "GrantReply",
    "HasEdges",
    "IbisExpression",
    "ImportedReply",
    "Label",
    "ListedReceivedReply",
    "ListedSubmissionReply",
    "LittlestoneMethod",
    "MarginalsMethod",
    "MethodName",
    "MetricName",
    "NewTokenReply",
    "NoiseKind",
    "NotionName",
    "NullValue",
    "Numbers",
    "PersonReply",
    "PersonRole",
    "PowerParameters",
    "Predictions",
    "Predictor",
    "PrivacyRoute",
    "PromiseKind",
    "ReceiptReply",
    "ReceivedReply",
    "ReportRight",
    "ScoreAllOptions",
    "ScoreOptions",
    "ScorerOptions",
    "Seed",
    "SizeParameters",
    "StandingReply",
    "StateReply",
    "StateSinceReply",
    "StatisticName",
    "StrategyName",
    "SubmissionReply",
    "TableLike",
    "TaskScore",
    "TermsReply",
    "UnblindBoardReply",
    "UnscoredReply",
    "VersionReply",
    "VersionScore",
]


class Frame(Protocol):
    """A table with named columns: a frame of pandas or polars, a table of pyarrow or ibis."""

    @property
    def columns(self) -> Any: ...


class HasEdges(Protocol):
    """A graph as networkx and pgmpy have them: an object with ``nodes`` and ``edges``."""

    @property
    def nodes(self) -> Any: ...

    @property
    def edges(self) -> Any: ...


class IbisExpression(Protocol):
    """An ibis expression over the columns of one row."""

    def op(self) -> Any: ...


class Predictor(Protocol):
    """A fitted model: anything with a method ``predict``."""

    # Any: every library has a type of its own for the rows that its models take.
    def predict(self, X: Any, /) -> Any:  # noqa: N803
        """One prediction for each row of ``X``."""
        ...


class _HasArray(Protocol):
    """A column of pandas or polars: anything that numpy makes an array of."""

    def __array__(self, *args: Any, **options: Any) -> NDArray[Any]: ...


# A table, a dict with one array for each column, or the path or address of one.
TableLike: TypeAlias = Union[Frame, Mapping[str, Any], str, Path]  # noqa: UP007
# An expression over the columns of one row: SQL text or ibis. A number is the same for every row.
ExpressionLike: TypeAlias = Union[str, int, float, IbisExpression]  # noqa: UP007
# A range for one expression, one for each of several, or "train": what the training part shows.
BoundsLike: TypeAlias = Union[  # noqa: UP007
    Sequence[float], Sequence[Sequence[float]], Mapping[str, Sequence[float]], Literal["train"], None
]
# What a row without a value counts as; "skip" leaves it out.
NullValue: TypeAlias = Union[float, bool, Literal["skip"], None]  # noqa: UP007
# A class or value of a target column.
Label: TypeAlias = Union[str, int, float, bool, None]  # noqa: UP007
# One prediction for each row, an expression over the columns, or a fitted model.
Predictions: TypeAlias = Union[Predictor, _HasArray, Sequence[Any], ExpressionLike]  # noqa: UP007
# An array, a column or a sequence of numbers: several numbers rather than one.
Numbers: TypeAlias = Union[_HasArray, Sequence[Any]]  # noqa: UP007
# A seed for simulations.
Seed: TypeAlias = Union[int, Sequence[int], np.random.Generator, None]  # noqa: UP007

StrategyName: TypeAlias = Literal[
    "code", "agreed-code", "grid-code", "typical-laplace", "typical-gaussian", "transfer-gaussian", "split"
]
PromiseKind: TypeAlias = Literal["all", "each"]
MetricName: TypeAlias = Literal[
    "accuracy",
    "error",
    "balanced_accuracy",
    "precision",
    "recall",
    "f1",
    "auc",
    "log_loss",
    "brier",
    "mae",
    "mse",
    "rmse",
    "r2",
]

# A score of a task, or one for each of its repeats.
TaskScore: TypeAlias = Union[float, np.number[Any], np.bool_, Sequence[float], NDArray[Any]]  # noqa: UP007
# What a gate promises: no wrong promotion at all, or a small share of wrong ones.
GatePromise: TypeAlias = Literal["family", "fdr"]
BoardMetric: TypeAlias = Literal["accuracy", "brier"]
# The methods that a plan compares.
MethodName: TypeAlias = Literal[
    "code",
    "agreed-code",
    "grid-code",
    "typical-laplace",
    "typical-gaussian",
    "transfer-gaussian",
    "split",
    "reusable-holdout",
    "naive",
]
# The sharp form of a bound, or the form that the paper prints.
BoundForm: TypeAlias = Literal["sharp", "paper"]
NoiseKind: TypeAlias = Literal["laplace", "gaussian"]
GeneralizationKind: TypeAlias = Literal["two-way", "one-way", "sample"]
NotionName: TypeAlias = Literal[
    "dp",
    "bayesian-dp",
    "typical",
    "two-sample",
    "max-information",
    "perfect-generalization",
    "one-way",
    "sample",
    "replicable",
    "good-coins",
]
# A replicable statistic or learner whose number of rows is known.
StatisticName: TypeAlias = Literal[
    "agnostic",
    "choose",
    "difference",
    "estimate_opt",
    "gaussian_mean",
    "heavy_hitters",
    "histogram",
    "identity_test",
    "interior_point",
    "learn_littlestone",
    "learn_represented",
    "learn_threshold",
    "least_eigenvalue",
    "list_heavy_hitter",
    "mean",
    "median",
    "quantile",
    "slope",
]
# A proof that takes differential privacy to dependent rows, or "sharp": the best one.
PrivacyRoute: TypeAlias = Literal[
    "sharp",
    "group",
    "quilt",
    "blanket",
    "quilt-paper",
    "blanket-paper",
    "coupling",
    "pairs",
    "spectral",
    "dobrushin",
]
ChoiceMethod: TypeAlias = Literal["best", "exponential", "delayed", "threshold", "pair", "amplified"]
LittlestoneMethod: TypeAlias = Literal["best", "choose", "consistent", "trees"]
MarginalsMethod: TypeAlias = Literal["rounding", "droplets", "joint"]
AmplifyMethod: TypeAlias = Literal["cheapest", "seeds", "vote"]
PersonRole: TypeAlias = Literal["owner", "analyst", "auditor", "participant", "submitter"]
# Who may give the report that ends an account.
ReportRight: TypeAlias = Literal["owner", "analyst"]


class ScoreAllOptions(TypedDict, total=False):
    """Options of :meth:`holdfast.Guard.score_all` beside predictions, target, metric and names."""

    cv: int | None
    bounds: BoundsLike
    positive: Label
    precise: bool
    nats: float | None


class ScorerOptions(ScoreAllOptions, total=False):
    """Options of :meth:`holdfast.Guard.score` where the guess is given already."""

    name: str | None


class ScoreOptions(ScorerOptions, total=False):
    """Options of :meth:`holdfast.Guard.score` beside predictions, target and metric."""

    guess: float | None


class ConversionContext(TypedDict, total=False):
    """Numbers that steps from one notion to another need; :func:`holdfast.stability.explain` describes them.

    None stands for a number that is not given.
    """

    n: int | None
    outcomes: int | None
    analyses: int | None
    slack: float | None
    beta: float | None
    epsilon: float | None
    delta: float | None
    d: float | None
    nu: float | None
    failure: float | None
    algorithm_failure: float | None
    c: float | None
    C: float | None
    method: BoundForm | None


class PowerParameters(TypedDict, total=False):
    """Parameters of replicable statistics that decide their number of rows, apart from the accuracy. Each
    statistic takes some of them."""

    rho: float
    beta: float | None
    bounds: Sequence[float] | Sequence[Sequence[float]] | None
    q: float
    resolution: float | None
    domain: ArrayLike | None
    threshold: float
    eta: float | None
    list_size: int | None
    list_rows: int | None
    bad: float | None
    categories: Iterable[Any] | int
    dimension: int | None
    known_covariance: bool
    distance: float
    models: int
    realizable: bool
    one_sided: bool
    least_variance: float
    classes: ArrayLike | None
    hypotheses: int | None
    size: int
    miss: float
    class_error: float
    learner_rows: int
    most_labelings: int
    learner_rho: float
    learner_beta: float
    method: str


class SizeParameters(PowerParameters, total=False):
    """Parameters of replicable statistics that decide their number of rows."""

    accuracy: float | None


class BoardTerms(TypedDict, total=False):
    """Terms of a board of a service; :class:`holdfast.guard.Board` describes them."""

    id: str
    metric: BoardMetric
    compare: Literal["paired", "scores"] | None
    confidence: float
    step: float | None
    start: float | None
    sealed: float
    most_finalists: int
    split_seed: int
    rate: int
    seconds: float
    blind: bool


class GateTerms(TypedDict, total=False):
    """Terms of a gate of a service; :class:`holdfast.Gate` describes them."""

    promise: GatePromise
    confidence: float
    expect: float | None
    minimum: float
    step: float | None
    weight: Literal["tasks", "clusters"]
    inputs: Literal["hidden", "public"]
    rate: int


class ReceiptReply(TypedDict):
    """A signed line of an account book."""

    book: str
    sequence: int
    digest: str
    key: str
    signature: str


class EpochReply(TypedDict):
    """An epoch and its confidence, alone and together with the epochs before it."""

    number: int
    confidence: float
    together: float


class EpochStandingReply(TypedDict):
    """One epoch of a table, and what is left of its account."""

    address: str
    since: int | None
    epoch: int
    rows: int
    confidence: float
    together: float
    spent: float
    unit: str
    left: float | None
    words: str
    closed: bool


class DatasetReply(TypedDict):
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
    left: float | None
    unit: str
    words: str
    confirmed: int | None
    surprises: int | None
    total: float | None
    share_half_width: float | None
    share_half_width_after: NotRequired[float | None]
    share: float | None
    share_left: float | None
    share_unit: str
    closed: bool
    reported: bool
    may_report: bool
    epoch: EpochReply
    epochs: list[EpochStandingReply]


@final
class BrokenReply(TypedDict):
    """A dataset or a board that cannot be opened, and why."""

    name: str
    broken: str


class TermsReply(TypedDict):
    """What an owner can change about a dataset."""

    shares: dict[str, float]
    rate: int
    report: str


class StateReply(TypedDict):
    """Whether a dataset is served, archived or deleted."""

    name: str
    state: str


class StateSinceReply(StateReply):
    """A dataset that is not served, and since when in seconds."""

    since: int


class ImportedReply(TypedDict):
    """A dataset that was imported, and whether its account continues here."""

    name: str
    open: bool
    key: str
    lines: int


class GrantReply(TypedDict):
    """A role, and what it reaches."""

    role: str
    dataset: str


class PersonReply(GrantReply):
    """Who holds a token, and until when in seconds."""

    identity: str
    name: str
    team: str
    expires: int
    revoked: int
    also: list[GrantReply]


class NewTokenReply(PersonReply):
    """A new token, shown only this once."""

    token: str


class StandingReply(TypedDict):
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


class SubmissionReply(StandingReply):
    """The reply to a submission."""

    better: bool
    receipt: ReceiptReply | None


class ListedSubmissionReply(SubmissionReply):
    """A submission, and whether its submitter chose it for the final."""

    finalist: bool


@final
class ReceivedReply(TypedDict):
    """A submission that waits for the end of the blind phase."""

    key: str
    by: str
    blind: bool


@final
class ListedReceivedReply(TypedDict):
    """A waiting submission, and whether its submitter chose it for the final."""

    key: str
    by: str
    blind: bool
    finalist: bool


class FinalistReply(TypedDict):
    """A submission with its score on the sealed rows."""

    key: str
    by: str
    value: float
    low: float
    high: float
    confidence: float


class BoardReply(TypedDict):
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
    standing: list[StandingReply]
    final: list[FinalistReply] | None


class UnscoredReply(TypedDict):
    """A submission that could not be scored."""

    key: str
    by: str


class UnblindBoardReply(BoardReply):
    """A board whose blind phase has ended."""

    unscored: list[UnscoredReply]


class VersionReply(TypedDict):
    """A version that was promoted, and by more than how much it is better."""

    name: str
    margin: float
    total: float | None
    place: int


class GateStatus(TypedDict):
    """The terms of a gate, and where it stands."""

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


class GateReply(GateStatus):
    """A gate: its terms, where it stands, and the line of promotions."""

    name: str
    versions: list[VersionReply]
    reading: dict[str, str]
    rate: int


class VersionScore(TypedDict):
    """The exact score of a version, given when the gate is closed."""

    name: str
    score: float
    score_low: float
    score_high: float
    gain: float | None
    gain_low: float | None
    gain_high: float | None
