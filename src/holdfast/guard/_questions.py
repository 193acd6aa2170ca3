"""From what a user gives to a checked question.

Every mistake in a question is noticed here: without the protected rows, and without a charge.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from holdfast import checks, queries
from holdfast.asking import AccountState, Interrupted, Session
from holdfast.coding import PRECISE_NATS
from holdfast.engines import Rows, Schema
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard._scores import ScoreRequest
from holdfast.guard._setup import require_described
from holdfast.queries import Query
from holdfast.readings import (
    CellQuestion,
    CurveQuestion,
    Hints,
    Question,
    StatisticQuestion,
    TableQuestion,
    curve_question,
    question_of_all_groups,
    questions_of_groups,
    resolved,
    with_ranges,
)
from holdfast.scoring import (
    METRICS,
    Scale,
    ScoreQuestion,
    compare_query,
    compare_question,
    require_labels,
    require_probabilities,
    scale_of,
    score_query,
    score_question,
    scored_expression,
)
from holdfast.strategies import ClaimQuestion, CodeStrategy, Setup, Strategy, split_claim

# So many parsed questions are cached: a client that polls, or previews first, has each parsed once.
_MOST_READ = 1_000

_Q = TypeVar("_Q", bound=Question)


class Questions:
    """Reads and checks the questions about one table. Only ``strategy_name`` "code" answers all kinds."""

    def __init__(
        self, setup: Setup, strategy: Strategy, strategy_name: str, session: Session, state: AccountState
    ) -> None:
        self._setup = setup
        self._strategy = strategy
        self._strategy_name = strategy_name
        self._session = session
        self._state = state
        self._hints = Hints(setup.training, setup.pilot, setup.nullable)
        self._read = lru_cache(_MOST_READ)(self.checked)

    @property
    def schema(self) -> Schema:
        """The columns that may be asked about."""
        return self._setup.protected.rows.schema

    @property
    def _training_rows(self) -> Rows | None:
        return None if self._setup.training is None else self._setup.training.rows

    def read(
        self, query: Query | str | Question, *, precise: bool = False, nats: float | None = None
    ) -> Question:
        """A checked question, with the cost that the caller asks for."""
        if isinstance(query, Question):
            return self.finer(query, precise=precise, nats=nats)
        try:
            question = self._read(query) if isinstance(query, str) else self.checked(query)
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None
        return self.finer(question, precise=precise, nats=nats)

    def finer(self, question: _Q, *, precise: bool, nats: float | None) -> _Q:
        """The question with the cost that the caller asks for."""
        if nats is None and not precise:
            return question
        price = PRECISE_NATS if nats is None else checks.real(nats, "nats", "(0, inf)", of="Guard.ask")
        if self._strategy_name != "code":
            raise InvalidArgument(
                "nats",
                "left out: only strategy 'code' can make one answer finer than others",
                price,
                of="Guard.ask",
            )
        left = self._state.left
        if price > left:
            raise BudgetSpent(
                f"{question.text} cannot be given {price:g} nats: {float(left):.3g} are left. Nothing was "
                "charged. Ask for fewer, or without nats=.",
                asked=price,
                spent=self._state.spent,
                left=float(left),
            )
        return replace(question, nats=price)

    def checked(self, query: Query | str) -> TableQuestion:
        """A question of text or a record, with what the training rows say about it."""
        record = record_of(query)
        if record.kind == "cdf":
            return self.curve(record)
        schema, nullable = self.schema, self._setup.nullable
        if not record.is_settled:
            record = resolved(record, schema, self._training_rows, nullable)
        question = TableQuestion.of(record.check(schema, nullable))
        if question.checked.is_notable:
            question = self._hints.with_hints(question, self._session.released)
        return self._allowed(question)

    def curve(self, query: Query) -> CurveQuestion:
        """The question of a whole distribution."""
        model, nullable = self._setup.model, self._setup.nullable
        try:
            if model is not None and not self._setup.protected.units and model.operator_norm is None:
                raise QueryRejected(
                    "A distribution needs independent rows, or independent units. For these rows ask for "
                    "shares or quantiles."
                )
            question = self._allowed(TableQuestion.of(query.check(self.schema, nullable)))
            return curve_question(
                question, self._training_rows, self.schema, nullable, independent=model is None
            )
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None

    def of_groups(
        self, record: Query, *, precise: bool, nats: float | None
    ) -> list[tuple[tuple[str, ...], TableQuestion]]:
        """Each group of a question ``by`` a column or two, and the question about it; one scan reads all."""
        record = with_ranges(record, self.schema, self._training_rows, self._setup.nullable)
        groups = questions_of_groups(record, self._training_rows)
        questions = []
        for _, query in groups:
            try:
                questions.append(self.finer(self.checked(query), precise=precise, nats=nats))
            except QueryRejected as rejected:
                raise self._state.explained(rejected) from None
        together = question_of_all_groups(record, [query for _, query in groups])
        if together is not None:
            table = together.check(self.schema, self._setup.nullable)
            questions = [
                replace(question, checked=replace(question.checked, member=(table, place)))
                for place, question in enumerate(questions)
            ]
        return [(group, question) for (group, _), question in zip(groups, questions, strict=True)]

    def claim(self, claim: str, rate: float) -> ClaimQuestion:
        """The question of a claim such as "mean(x, 0, 1) > 0.5"."""
        text, sign, number = split_claim(claim)
        if not isinstance(self._strategy, CodeStrategy):
            raise QueryRejected(f"Discoveries need strategy='code', not {self._strategy_name!r}.")
        try:
            about = self._read(text)
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None
        return ClaimQuestion.of(about, sign, number, rate)

    def of_reservation(self, interrupted: Interrupted) -> Question | None:
        """The question of an interrupted reservation, read from its text. None if the text does not say
        everything about the question."""
        rate = interrupted.wishes.get("rate")
        try:
            if rate is None:
                question: Question = self.checked(interrupted.text)
            else:
                text, sign, number = split_claim(interrupted.text)
                question = ClaimQuestion.of(self.checked(text), sign, number, rate)
        except HoldfastError:
            return None
        return question if question.key == interrupted.key else None

    def score(self, request: ScoreRequest) -> Question:
        """The question of a score: of an expression, an array or a model."""
        try:
            if isinstance(request.predictions, str):
                return self._score_of_expression(request, request.predictions)
            training = self._setup.training
            question = score_question(
                request.predictions,
                target=request.target,
                metric=request.metric,
                guess=request.guess,
                protected=self._setup.protected,
                training=training,
                cv=request.cv,
                bounds=request.bounds,
                positive=request.positive,
                name=request.name,
            )
            if self._session.released(question.key) is None:
                require_labels(question, training)
            return self._allowed(question)
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None

    def _score_of_expression(self, request: ScoreRequest, predictions: str) -> Question:
        target, metric = request.target, request.metric
        checks.choice(metric, "metric", tuple(METRICS), of="Guard.score")
        # For these metrics the target may be any expression.
        any_target = metric in ("accuracy", "error") or (metric == "brier" and target not in self.schema)
        scale = Scale() if any_target else self._scale(request)
        require_probabilities(predictions, metric, self._training_rows, self._setup.nullable)
        query = score_query(
            predictions, target=target, metric=metric, guess=request.guess, scale=scale, schema=self.schema
        )
        if query is not None:
            return self.checked(query)
        scored = scored_expression(
            predictions,
            target=target,
            metric=metric,
            scale=scale,
            schema=self.schema,
            nullable=self._setup.nullable,
        )
        return self._allowed(scored)

    def comparison(self, a: ScoreRequest, b: ScoreRequest) -> Question:
        """The question of one score less another, row by row."""
        if isinstance(a.predictions, str) and isinstance(b.predictions, str):
            return self.read(self._comparison_of_expressions(a, a.predictions, b.predictions))
        if isinstance(a.predictions, str) or isinstance(b.predictions, str):
            raise QueryRejected(
                "compare takes two expressions, or two arrays or models, and not one of each."
            )
        first, second = self.score(a), self.score(b)
        assert isinstance(first, ScoreQuestion)
        assert isinstance(second, ScoreQuestion)
        return self._allowed(compare_question(first, second))

    def _comparison_of_expressions(self, request: ScoreRequest, a: str, b: str) -> Query:
        """The question of two expressions, checked as the scores of both are."""
        target, metric = request.target, request.metric
        try:
            scaled = metric in ("mae", "mse", "log_loss") or (metric == "brier" and target in self.schema)
            scale = self._scale(request) if scaled else None
            query = compare_query(a, b, target=target, metric=metric, scale=scale, schema=self.schema)
            for side in (a, b):
                require_probabilities(side, metric, self._training_rows, self._setup.nullable)
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None
        return query

    def _scale(self, request: ScoreRequest) -> Scale:
        return scale_of(
            request.metric,
            request.target,
            self._setup.protected,
            self._setup.training,
            bounds=request.bounds,
            positive=request.positive,
        )

    def _allowed(self, question: _Q) -> _Q:
        """The question, unless the strategy has no answer for it."""
        by_cells = isinstance(question, CellQuestion) and question.statistic is not None
        if by_cells and not isinstance(self._strategy, CodeStrategy):
            raise QueryRejected(
                f"A {question.kind} needs strategy='code'; {self._strategy_name!r} answers means, shares and "
                "quantiles."
            )
        model = self._setup.model
        if model is not None and model.columns is not None and not isinstance(question, StatisticQuestion):
            require_described(question, model.columns, model.name)
        return question


def record_of(query: Query | str) -> Query:
    """A question as a record."""
    if not isinstance(query, (str, Query)):
        raise InvalidArgument("query", "a query from holdfast.queries or a text", query, of="Guard.ask")
    return queries.read(query) if isinstance(query, str) else query
