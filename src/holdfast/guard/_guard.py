"""The guard: a person points it at a table and asks; every answer stays valid however the questions were
chosen."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from holdfast import checks, queries
from holdfast.answers import (
    Answer,
    Certificate,
    Curve,
    Diagnosis,
    GroupAnswer,
    History,
    Left,
    Preview,
    Table,
    account_html,
    plot_answers,
)
from holdfast.coding import MICRO, PRECISE_NATS, Account
from holdfast.dependence import Dependence
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard._asking import Member, answer_apart, answer_together, read_interrupted
from holdfast.guard._code import CodeStrategy
from holdfast.guard._content import bound_later
from holdfast.guard._curve import CurveQuestion, curve_question
from holdfast.guard._diagnose import Doubts, diagnosed
from holdfast.guard._discover import CLAIM, ClaimQuestion, Discovery, split_claim, whole_rate
from holdfast.guard._earlier import not_compared
from holdfast.guard._epoch import (
    After,
    Arrival,
    Epoch,
    EpochAccount,
    closed_in_time,
    confidence_after,
    earlier_rows,
    model_after,
    open_account,
    set_up_in,
)
from holdfast.guard._former import FAILURE, blocks_in
from holdfast.guard._hints import Hints, not_in_training
from holdfast.guard._metrics import (
    METRICS,
    Scale,
    compare_query,
    require_probabilities,
    score_query,
    scored_expression,
)
from holdfast.guard._question import CellQuestion, Question, StatisticQuestion, TableQuestion, custom_question
from holdfast.guard._release import INTERRUPTED, Answered, Records, not_computed, too_wide
from holdfast.guard._report import FIXED, REPORTED, Report, citable, fix_report, read_report
from holdfast.guard._scores import (
    ScoreQuestion,
    compare_question,
    require_labels,
    scale_of,
    score_question,
)
from holdfast.guard._session import NOBODY, Asked, Asker, Interrupted, Released
from holdfast.guard._setup import require_described
from holdfast.guard._strategy import (
    STRATEGIES,
    TRAINING_SHARES,
    Prepared,
    checked_weights,
    choose_strategy,
    default_share,
)
from holdfast.guard._table import (
    NOT_SEEN,
    OTHERS,
    by_groups,
    members,
    resolved,
    too_few,
    with_ranges,
)
from holdfast.guard._verbs import Verbs
from holdfast.ledger import Balance, Book, Closed
from holdfast.queries import Query
from holdfast.records import amount
from holdfast.tails import Tail

if TYPE_CHECKING:
    from holdfast.typing import (
        BoundsLike,
        ExpressionLike,
        Label,
        MetricName,
        NullValue,
        Predictions,
        PromiseKind,
        StrategyName,
        TableLike,
    )

# So many questions are kept as they were written: who polls, or looks at a preview first, has them read once.
_READ = 1_000

_OTHER_REQUEST = "This request was made before, with another question. Give each its own key."

_Q = TypeVar("_Q", bound=Question)


class Guard(Verbs):
    """Ask one table one question after another; each answer carries an interval that stays valid.

    Guarantee: with probability ``confidence`` over the protected rows, every interval that is ever released
    contains its true value, whatever the questions were and however they depended on earlier answers and on
    the training part (theory 2.2, ``docs/theory/code-guard.md``).
    Assumes: the rows follow ``dependence`` (independent draws from one distribution when it is not given),
    and the questions depend on the protected rows only through released answers. Not checkable; every
    certificate says so.

    ``data`` and ``train`` are data frames (pandas, polars, pyarrow), dicts of arrays, paths to CSV or
    Parquet, or ibis tables. Without ``train`` a third of the rows (``training_share``; a quarter where at
    most ten questions are expected) is set aside as a free training part, which gives the guesses and may be
    looked at as ``guard.train``. With ``error`` every
    interval has at most that half-width, and questions that would break the promise are refused with
    :class:`~holdfast.errors.BudgetSpent`; without it nothing is refused and intervals widen. ``ledger`` is a
    path: the account is kept there, and the next guard on the same data goes on with it. A question that the
    database works on for more than ``seconds`` is stopped, and charged as one that failed. Rows in a database
    and in large files stay where they are; there ``split_by`` names a column that decides who is set aside.
    Rows with the same value of it are taken for a cluster.
    ``public_categories`` names the columns (True: all) whose declared categories are public, such as those of
    an ordered categorical or a polars Enum: ``guard.train`` then keeps them, and questions may compare them
    in their order. Elsewhere ``guard.train`` has the categories that its own rows use.

    ``expect`` is about how many questions there will be: a hint that makes so many answers narrower, and that
    the promise never rests on. ``promise`` is "all" (with probability ``confidence`` every interval holds) or
    "each" (each interval, however its question was chosen, holds with that probability: narrower, and no
    statement about several answers at once).

    Every ``strategy`` but "code" ("agreed-code", "grid-code", "typical-gaussian", "typical-laplace",
    "transfer-gaussian", "split") fixes the number of ``queries`` in advance and counts answers instead of
    nats; ``holdfast.plan`` compares them. "agreed-code" also fixes how many guesses may be off
    (``surprises``) and sets a third of the rows aside; the others need no guesses and set none aside. With
    noise ("typical-…", "transfer-gaussian") a question that fails on the protected rows closes the account;
    "split" reads the rows in a random order that ``split_seed`` decides.

    >>> import numpy as np
    >>> coins = np.random.default_rng(0).integers(0, 2, size=(10_000, 3))
    >>> guard = Guard({"a": coins[:, 0], "b": coins[:, 1], "c": coins[:, 2]})
    >>> answer = guard.share("a = b")
    >>> bool(answer.low < 0.5 < answer.high)
    True
    """

    def __init__(
        self,
        data: TableLike,
        *,
        train: TableLike | None = None,
        confidence: float = 0.95,
        error: float | None = None,
        dependence: Dependence | None = None,
        strategy: StrategyName = "code",
        ledger: str | Path | Book | None = None,
        queries: int | None = None,
        surprises: int | None = None,
        expect: float | None = None,
        promise: PromiseKind = "all",
        training_share: float | None = None,
        split_seed: int = 0,
        split_by: str | None = None,
        seconds: float | None = None,
        public_categories: bool | Collection[str] = False,
    ) -> None:
        self.confidence = checks.real(confidence, "confidence", "(0, 1)", of="Guard")
        self.error = None if error is None else checks.real(error, "error", "(0, inf)", of="Guard")
        checks.choice(strategy, "strategy", STRATEGIES, of="Guard")
        weights = checked_weights(strategy, expect, promise)
        failure = 1 - self.confidence
        share = default_share(strategy, ledger, weights) if training_share is None else training_share
        self._setup = set_up_in(
            ledger,
            data,
            train,
            dependence,
            failure=failure,
            training_share=share,
            split_seed=split_seed,
            split_by=split_by,
            seconds=seconds,
            shuffled=strategy == "split",
            in_units=strategy == "code",
            blocks=blocks_in(ledger),
            public_categories=public_categories,
        )
        if not failure - self._setup.bias > 0:
            raise InvalidArgument(
                "confidence", "small enough to pay for the training split", confidence, of="Guard"
            )
        failure -= self._setup.bias
        self._strategy = choose_strategy(
            strategy, self._setup, failure=failure, error=self.error, queries=queries, surprises=surprises
        )
        agreed = {
            "strategy": strategy,
            "queries": queries,
            "surprises": surprises,
            "confidence": self.confidence,
            "error": self.error,
            **self._setup.facts,
        }
        if expect is not None:
            agreed["expect"] = weights.expect
        if promise != "all":
            agreed["promise"] = promise
        if self._strategy.failure_closes:
            agreed[FAILURE] = "closes"
        self._book, self._session, link = open_account(ledger, Account(failure, weights=weights), agreed)
        self.epoch = Epoch.of(link, self.confidence)
        after = ledger if isinstance(ledger, After) else None
        self._trains = after is not None and after.trains
        own = EpochAccount(
            self.epoch.number,
            self._session,
            in_memory=self._book.in_memory,
            priced=strategy == "code",
            alone=self._strategy.failure_closes,
        )
        self._accounts = (*(after.arrival.accounts if after is not None else ()), own)
        self._options = {name: agreed[name] for name in ("strategy", "queries", "surprises", "error")}
        self._options |= {"expect": expect, "promise": promise}
        self._options |= {"training_share": training_share, "split_seed": split_seed}
        self._options |= {"split_by": split_by, "seconds": seconds, "public_categories": public_categories}
        assumptions = (*self._setup.assumptions, *bound_later(self._book), *not_compared(self._book))
        self._records = Records(self.confidence, self._strategy, assumptions, promise)
        self._answered = Answered(self._session, self._records, self._too_wide)
        self._hints = Hints(self._setup.training, self._setup.pilot, self._setup.nullable)
        self._doubts = Doubts(self._setup, assumed=strategy == "code" and dependence is None)
        self._read = lru_cache(_READ)(self._checked)
        self._callbacks: dict[object, Callable[[Answer], object]] = {}
        with suppress(HoldfastError):  # Whoever asks next is told what is wrong.
            self._read_interrupted()

    @overload
    def score(
        self,
        predictions: Predictions,
        *,
        target: str,
        metric: MetricName = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def score(
        self,
        predictions: Predictions,
        *,
        target: str,
        metric: list[MetricName] | tuple[MetricName, ...],
        guess: None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> dict[str, Answer]: ...
    def score(
        self,
        predictions: Predictions,
        *,
        target: str,
        metric: MetricName | list[MetricName] | tuple[MetricName, ...] = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The score of predictions against the column ``target``; with a list of metrics, one answer for
        each by its name, asked together.

        ``predictions`` is an expression over the columns, an array with one prediction for each row of the
        data or each protected row, or a fitted model. A model is applied in this process, as a copy, to the
        columns it was fitted on (all but the target, where it does not say).

        ``metric`` is one of "accuracy", "error", "balanced_accuracy", "precision", "recall", "f1" (of
        labels), "auc", "log_loss", "brier" (of probabilities; "auc" of any scores), "mae", "mse", "rmse",
        "r2" (of numbers). ``positive`` is the label that counts as positive, where it is not the second of
        two. Numbers are clipped to ``bounds``, those of the target; without them to a range that the training
        part shows. A log loss is clipped at ``bounds=(0, cap)``, 10 unless you say otherwise.

        "brier" is the mean of (probability − outcome)²: an array gives the probability that a target of 0
        and 1 is 1; a model gives the probability of the second of its two ``classes_`` by ``predict_proba``,
        and the outcome is 1 where the target is that class. A row without a prediction or a target counts as
        wrong.

        The guess is never a model's score on rows it was fitted on: a model of scikit-learn is fitted again
        in ``cv`` folds of the training part (three, unless you say otherwise), or bring ``guess``. For a
        model that cannot be fitted again no guess is supposed, but for "r2", whose interval needs one. The
        answer's notes say which it was.

        The same array, or a model with the same content, is the same question and costs nothing again.
        ``name`` is a label for readers, and never decides what is the same: another model under the same name
        is another question. A model whose content has no stable digest is a new question each time, and the
        answer's notes say so. One that changes when you let it predict (it counts, or keeps what it saw) is
        another model afterwards; scoring it here does not change it.

        Guarantee: as for :meth:`share`; the predictions must not have been made with the protected rows'
        targets, and for an array the order of the rows must say nothing about them. What is wrong with
        predictions is told before anything is charged, where public facts or the training rows show it.
        """
        options = {"cv": cv, "bounds": bounds, "positive": positive, "name": name}
        if not isinstance(metric, (list, tuple)):
            question = self._score(predictions, target, metric, guess=guess, **options)
            return self._answer(self._finer(question, precise=precise, nats=nats))
        metrics = [checks.choice(one, "metric", tuple(METRICS), of="Guard.score") for one in metric]
        if guess is not None:
            raise InvalidArgument(
                "guess", "left out: each metric has a guess of its own", guess, of="Guard.score"
            )
        asked = [self._score(predictions, target, one, guess=None, **options) for one in metrics]
        finer = [Member(self._finer(question, precise=precise, nats=nats)) for question in asked]
        return dict(zip(metrics, self._all(self._answers(finer)), strict=True))

    def score_all(
        self,
        predictions: Sequence[Any],
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
        """The scores of several predictions by one metric, asked together: none pays for what the others
        reveal. The arguments are those of :meth:`score`; ``names`` are labels for readers."""
        labels = list(names) if names is not None else [None] * len(predictions)
        if len(labels) != len(predictions):
            raise InvalidArgument("names", "one for each of the predictions", names, of="Guard.score_all")
        options = {"cv": cv, "bounds": bounds, "positive": positive}
        asked = [
            self._score(one, target, metric, guess=None, name=name, **options)
            for one, name in zip(predictions, labels, strict=True)
        ]
        finer = [Member(self._finer(question, precise=precise, nats=nats)) for question in asked]
        return self._all(self._answers(finer))

    def compare(
        self,
        a: Predictions,
        b: Predictions,
        *,
        target: str,
        metric: MetricName = "accuracy",
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The score of the predictions ``a`` less that of ``b``, row by row: both are right or wrong about
        the same rows, so this is much narrower than two scores. The arguments are those of :meth:`score`.

        Guarantee: as for :meth:`score`.
        """
        question = self.to_compare(
            a, b, target=target, metric=metric, cv=cv, bounds=bounds, positive=positive
        )
        return self._answer(self._finer(question, precise=precise, nats=nats))

    def to_compare(
        self,
        a: Predictions,
        b: Predictions,
        *,
        target: str,
        metric: MetricName = "accuracy",
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
    ) -> Question:
        """The question of :meth:`compare`, not asked yet: for :meth:`ask_all` and :meth:`report`."""
        options = {"cv": cv, "bounds": bounds, "positive": positive, "name": None}
        if isinstance(a, str) and isinstance(b, str):
            question: Question = self._question(self._comparison(a, b, target, metric, bounds, positive))
            return question
        if isinstance(a, str) or isinstance(b, str):
            raise QueryRejected(
                "compare takes two expressions, or two arrays or models, and not one of each."
            )
        first, second = (self._score(one, target, metric, guess=None, **options) for one in (a, b))
        assert isinstance(first, ScoreQuestion)
        assert isinstance(second, ScoreQuestion)
        return self._possible(compare_question(first, second))

    def _comparison(self, a: str, b: str, target: str, metric: str, bounds: Any, positive: Any) -> Query:
        """The question of two expressions, checked as the scores of both are."""
        protected, training = self._setup.protected, self._setup.training
        try:
            scale = None
            if metric in ("mae", "mse", "log_loss") or (metric == "brier" and target in self.schema):
                scale = scale_of(metric, target, protected, training, bounds=bounds, positive=positive)
            asked = compare_query(a, b, target=target, metric=metric, scale=scale, schema=self.schema)
            for side in (a, b):
                free_rows = None if training is None else training.rows
                require_probabilities(side, metric, free_rows, self._setup.nullable)
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None
        return asked

    def to_score(
        self,
        predictions: Predictions,
        *,
        target: str,
        metric: MetricName = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
    ) -> Question:
        """The question of :meth:`score`, not asked yet: for :meth:`ask_all` and :meth:`report`."""
        return self._score(
            predictions, target, metric, guess=guess, cv=cv, bounds=bounds, positive=positive, name=name
        )

    def _score(self, predictions: Any, target: str, metric: str, *, guess: Any, **options: Any) -> Question:
        protected, training = self._setup.protected, self._setup.training
        try:
            if not isinstance(predictions, str):
                question = score_question(
                    predictions,
                    target=target,
                    metric=metric,
                    guess=guess,
                    protected=protected,
                    training=training,
                    **options,
                )
                if self._session.released(question.key) is None:
                    require_labels(question, training)
                return self._possible(question)
            checks.choice(metric, "metric", tuple(METRICS), of="Guard.score")
            told = {name: options[name] for name in ("bounds", "positive")}
            # The target may be any expression.
            plain = metric in ("accuracy", "error") or (metric == "brier" and target not in self.schema)
            scale = Scale() if plain else scale_of(metric, target, protected, training, **told)
            free_rows = None if training is None else training.rows
            require_probabilities(predictions, metric, free_rows, self._setup.nullable)
            asked = score_query(
                predictions, target=target, metric=metric, guess=guess, scale=scale, schema=self.schema
            )
            if asked is not None:
                return self._checked(asked)
            return self._possible(
                scored_expression(
                    predictions,
                    target=target,
                    metric=metric,
                    scale=scale,
                    schema=self.schema,
                    nullable=self._setup.nullable,
                )
            )
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None

    def discover(self, claim: str, *, rate: float = 0.05, asker: Asker | None = None) -> Discovery:
        """Test a claim, a question with < or > and a number: ``"mean(income, 0, 1e5) > 3e4"``.

        Guarantee: of all claims that this account finds, at most the share ``rate`` is false, in expectation
        and at every time, however they were chosen. One bit leaves and is paid for; intervals and discoveries
        share one account, and each promise is stated by itself. The same claim again costs nothing.
        """
        rate = whole_rate(rate)
        text, sign, number = split_claim(claim)
        if not isinstance(self._strategy, CodeStrategy):
            raise QueryRejected(f"Discoveries need strategy='code', not {self._options['strategy']!r}.")
        question = ClaimQuestion.of(self._question(text), sign, number, rate)
        if self._session.released(question.key) is None:
            self._setup.protected.rows.require_unchanged()
            try:
                member = Member(question, asker or NOBODY)
                failed = answer_together(self._session, self._strategy, [member], self._setup.protected)
            except QueryRejected as rejected:
                raise self._with_account(rejected) from None
            if question.key in failed:
                price = self._strategy.cost(failed[question.key])
                raise not_computed(
                    question.text,
                    price,
                    closes=False,
                    unit=self.unit,
                    spent=self.spent,
                    left=float(self.left),
                )
        return self._discovery(question.key)

    @property
    def discoveries(self) -> tuple[Discovery, ...]:
        """Every claim of the account that was tested, in order."""
        claims = [
            one.key for _, one in self._session.history() if one.answer is not None and CLAIM in one.answer
        ]
        return tuple(self._discovery(key) for key in claims)

    def _discovery(self, key: str) -> Discovery:
        released = self._session.released(key)
        assert released is not None
        said = released.answer or {}
        return Discovery(
            claim=released.text,
            found=said["found"],
            e_value=math.exp(min(said["level"], 700.0)) if said["found"] else 0.0,
            level=math.exp(-said["level"]),
            rate=said["rate"],
            cost=self._strategy.cost(released.micro_nats / MICRO),
            theorem=said["theorem"],
            unit=self.unit,
        )

    def cdf(
        self,
        x: ExpressionLike,
        *,
        where: ExpressionLike | None = None,
        nulls: NullValue = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Curve:
        """The whole distribution of an expression at once: which share of it is at most t, at 64 quantiles of
        the training part, in one band around the training part's own.

        Guarantee: all points hold together, with all other answers of the account.
        """
        query = queries.cdf(x, where=where, nulls=nulls, schema=self.schema)
        return self.curve(query, precise=precise, nats=nats)

    def curve(
        self,
        query: Query | str,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Curve:
        """The same for a question given as a record or as text, ``"cdf(income)"``."""
        record = self._record(query)
        if record.kind != "cdf":
            raise InvalidArgument("query", "a question such as cdf(income)", str(record), of="Guard.curve")
        question = self._finer(self._curve(record), precise=precise, nats=nats)
        return Curve.of(self._answer(question, asker or NOBODY), question.points, question.trained)

    def histogram(
        self,
        x: ExpressionLike,
        bins: int | Sequence[float] = 10,
        *,
        where: ExpressionLike | None = None,
        nulls: NullValue = None,
    ) -> Table:
        """The share of rows in each bin, read off :meth:`cdf`, which is asked for if it was not. ``bins`` is
        their number, over what the training part shows, or their edges."""
        return self.table(queries.histogram(x, bins, where=where, nulls=nulls, schema=self.schema))

    def _curve(self, query: Query) -> CurveQuestion:
        training = None if self._setup.training is None else self._setup.training.rows
        try:
            model = self._setup.model
            if model is not None and not self._setup.protected.units and model.operator_norm is None:
                raise QueryRejected(
                    "A distribution needs independent rows, or independent units of them: ask for shares or "
                    "quantiles of these."
                )
            question = self._possible(TableQuestion.of(query.check(self.schema, self._setup.nullable)))
            return curve_question(
                question, training, self.schema, self._setup.nullable, independent=model is None
            )
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None

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
        """A statistic of your own: ``function`` of a pandas frame, with a declared ``tail`` on the protected
        rows.

        Guarantee: as for :meth:`mean`, if the tail is right (assumed, and said on the certificate). Runs in
        this process. The same ``name`` is the same question; without one every call is a new question.
        """
        question = custom_question(function, tail=tail, guess=guess, name=name)
        return self._answer(self._finer(question, precise=precise, nats=nats))

    def ask(
        self,
        query: Query | str,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Answer:
        """Answer a question given as a record (``holdfast.queries``) or as text, ``"share(age > 40)"``.

        The same question, in the same or in other words, returns the same answer and costs nothing. With
        ``precise`` or ``nats`` the answer is told on finer cells, for more of the account: ``nats`` is about
        what it costs on average if the guess is as good as expected, and ``precise`` means three. ``asker``
        says on whose behalf it is asked, where several people share the account.
        """
        return self._answer(self._question(query, precise=precise, nats=nats), asker or NOBODY)

    def table(
        self,
        query: Query | str,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Table:
        """Answer a question ``by`` one column or two, ``"share(late, by = carrier)"``: one question for each
        of their values in the training part, asked together. A ``"histogram(income, 10)"`` is a table too,
        read off one question, :meth:`cdf`.

        A group too small for an interval that tells something is not asked about, and says so. Whether it is
        depends on the training part and on the account alone.
        """
        record = self._record(query)
        if record.kind == "histogram":
            distribution = replace(record, kind="cdf", bins=None)
            return self.curve(distribution, precise=precise, nats=nats, asker=asker).histogram(record.bins)
        if not record.by:
            raise InvalidArgument(
                "query", "a question by a column, as in share(late, by = carrier)", str(record)
            )
        training = None if self._setup.training is None else self._setup.training.rows
        record = with_ranges(record, self.schema, training, self._setup.nullable)
        listed = members(record, training)
        questions = [self._question(one, precise=precise, nats=nats) for _, one in listed]
        questions = self._in_one_scan(by_groups(record, [one for _, one in listed]), questions)
        groups = [group for group, _ in listed]
        self._strategy.look(questions)
        notes = [self._useless(question) for question in questions]
        asked = [question for question, note in zip(questions, notes, strict=True) if not note]
        answers = self._answers([Member(question, asker or NOBODY) for question in asked])
        told = {question.key: answer for question, answer in zip(asked, answers, strict=False)}
        for answer in told.values():
            if isinstance(answer, Exception):
                raise answer
        rows = [
            GroupAnswer(group, cast("Answer | None", told.get(question.key)), note)
            for group, question, note in zip(groups, questions, notes, strict=True)
        ]
        others = GroupAnswer((OTHERS,), None, NOT_SEEN)
        return Table(record, tuple(str(part) for part in record.by), (*rows, others))

    def _in_one_scan(self, together: Query | None, questions: Sequence[TableQuestion]) -> list[TableQuestion]:
        """The questions of a table, such that one scan reads all of them."""
        if together is None:
            return list(questions)
        table = together.check(self.schema, self._setup.nullable)
        return [
            replace(question, checked=replace(question.checked, member=(table, place)))
            for place, question in enumerate(questions)
        ]

    def _useless(self, question: TableQuestion) -> str:
        """Why a group is too small to be asked about; empty where it is not."""
        if self._known(question) is not None:
            return ""
        try:
            prepared = self._strategy.prepare(question, self._session.account)
        except (QueryRejected, BudgetSpent) as refusal:
            return f"Not asked. {refusal}"
        preview = prepared.preview()
        return too_few(preview) if preview.why else ""

    def ask_all(
        self, questions: Iterable[Query | str | Question], *, precise: bool = False, nats: float | None = None
    ) -> list[Answer]:
        """Answer several questions together: none of them pays for what the others reveal, and whoever asks
        later pays for all. They are checked, and refused if one has to be, before anything is charged.

        Guarantee: that of the guard, because all of them were fixed before the first was answered
        (``docs/theory/code-guard.md``, "Asked together"). Strategies that count answers give them one by one.
        """
        asked = [Member(self._question(query, precise=precise, nats=nats)) for query in questions]
        return self._all(self._answers(asked))

    @staticmethod
    def _all(outcomes: Iterable[Answer | HoldfastError]) -> list[Answer]:
        """The answers, unless one of them is a refusal."""
        answers = []
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            answers.append(outcome)
        return answers

    def report(self, questions: Iterable[Query | str | Question], *, asker: Asker | None = None) -> Report:
        """The last word: close the account, for everyone, and read a short list of questions exactly.

        Nobody asks after a report, so its values are not told on cells and cost nothing. All the error
        probability that is left is shared out among them. With ``training_share=0`` and nothing asked before
        it is a preregistration on all rows. A report is given once; the same questions return it again.

        Guarantee: that of the guard, for the report and all earlier answers together
        (``docs/theory/code-guard.md``, "The last word"). A question that cannot be asked is refused before
        the account is closed.
        """
        asked = [self._question(query) for query in questions]
        if not asked:
            raise InvalidArgument("questions", "at least one question", [], of="Guard.report")
        if not isinstance(self._strategy, CodeStrategy):
            strategy = self._options["strategy"]
            raise InvalidArgument("strategy", "'code': no other has a last word", strategy, of="Guard")
        asked = list({question.key: question for question in asked}.values())
        with self._session.turn():
            try:
                self._setup.protected.rows.require_unchanged()
                self._session.read()
                fixed = fix_report(self._session, self._strategy, asked, asker or NOBODY)
            except QueryRejected as rejected:
                raise self._with_account(rejected) from None
            new = self._session.told(REPORTED) is None
            if new:
                read_report(self._session, self._strategy, asked, self._setup.protected, fixed)
        report = self.reported
        assert report is not None
        if new:
            self._tell([(answer, NOBODY) for answer in report.answers if answer is not None])
        return report

    @property
    def reported(self) -> Report | None:
        """The report that was this account's last word; None where there is none (yet)."""
        self._session.read()
        fixed, told = self._session.told(FIXED), self._session.told(REPORTED)
        if fixed is None or told is None:
            return None
        line, answers, receipt = told
        texts = tuple(fixed[1]["questions"])
        return Report(
            answers=tuple(
                None if answer is None else self._records.answer(Released("", text, 0, answer, receipt))
                for text, answer in zip(texts, answers["answers"], strict=True)
            ),
            questions=texts,
            text=citable(
                questions=len(texts),
                rows=self.rows,
                training=self._setup.facts["training_rows"],
                fixed=fixed[1],
                confidence=self.confidence,
                promise=self._options["promise"],
                book=self._book.identity,
                line=line,
            ),
            certificate=self._records.certificate({"nats of each interval": fixed[1]["nats"]}),
            receipt=receipt,
        )

    def answer_each(
        self,
        questions: Sequence[tuple[Query | str, Asker]],
        *,
        nats: Sequence[float | None] | None = None,
        stop: bool = False,
    ) -> list[Answer | HoldfastError]:
        """The same for questions of several people, who may be refused one by one: each has its answer, or
        the refusal, in its place. ``nats`` says for each what it is wished to cost, as in :meth:`ask`. With
        ``stop`` nothing is asked after the first refusal."""
        refused: dict[str, Exception] = {}
        wishes = [None] * len(questions) if nats is None else nats
        asked = [
            Member(self._question(query, nats=wished), asker)
            for (query, asker), wished in zip(questions, wishes, strict=True)
        ]
        return self._answers(asked, refused=refused, stop=stop)

    def answer_apart(self, questions: Sequence[tuple[Query | str, Asker]]) -> list[Answer | HoldfastError]:
        """Answer questions of several people who wait for the same turn, each as if it was asked by itself:
        its answer, or why it has none. They are no batch. What one is charged counts for the next one."""
        members: list[Member] = []
        outcomes: list[Answer | HoldfastError | None] = []
        for query, asker in questions:
            try:
                members.append(Member(self._question(query), asker))
                outcomes.append(None)
            except HoldfastError as refusal:
                outcomes.append(refusal)
        answered = iter(self._answers(members, refused={}, apart=True))
        return [next(answered) if outcome is None else outcome for outcome in outcomes]

    def cost_preview(
        self,
        query: Query | str,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Preview:
        """What a question would cost and show. Never reads protected rows; charges and changes nothing.

        Guarantee: the preview and :meth:`ask` use the same rule and the same account. ``allowed`` is False if
        and only if asking now, for the same ``asker``, is refused before the protected rows are read.
        """
        question = self._question(query, precise=precise, nats=nats)
        asked: Asked[Prepared] = Asked(
            question.key,
            question.text,
            prepare=lambda account: self._strategy.prepare(question, account),
            worst=lambda prepared: prepared.worst_price,
            reader="",
            asker=asker or NOBODY,
        )
        try:
            answer = self._answered.known(question)
            if answer is not None:
                return Preview(
                    question.record, answer.guess, answer.low, answer.high, known=True, unit=self.unit
                )
            preview = self._session.preview(asked).preview()
            notes = (*question.notes, *not_in_training(question))
            return replace(preview, why=" ".join((preview.why, *notes)).strip())
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None
        except (BudgetSpent, Closed) as refusal:
            guess = math.nan if question.guess is None else question.guess
            return Preview(
                question.record,
                guess,
                question.low,
                question.high,
                allowed=False,
                unit=self.unit,
                why=str(refusal),
            )

    def diagnose(self, question: Query | str | Question | None = None, *, by: str | None = None) -> Diagnosis:
        """What the training part says about the rows being independent: free, and nothing is charged.

        Looks at every column (at most 50), or at the values of one ``question`` such as
        ``"share(age > 40)"``: do neighbouring rows agree, do values change along the table, do rows with the
        same id resemble each other? ``by`` names the column that tells groups apart; without it, columns that
        look like an id are tried. Print the result, or draw it with ``.plot()``.

        Guarantee: see :class:`Diagnosis`; it speaks about training rows only, and reads no others. A guard
        that takes rows for independent warns once by itself, with
        :class:`~holdfast.errors.DependenceWarning`, where the values of a question clearly are not.
        """
        asked = None if question is None else self._question(question)
        try:
            return diagnosed(self._setup, asked, by)
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None

    @property
    def schema(self) -> Any:
        """The columns that may be asked about."""
        return self._setup.protected.rows.schema

    @property
    def rows(self) -> int:
        """The number of protected rows."""
        return self._setup.protected.rows.count

    @cached_property
    def train(self) -> Any:
        """The training part, as the kind of table that was given: free to look at. None without one."""
        return None if self._setup.training is None else self._setup.training.rows.native()

    def training_rows(self) -> Any:
        """The training part as a pandas table, whatever kind was given; None without one."""
        return None if self._setup.training is None else self._setup.training.rows.frame()

    @property
    def unit(self) -> str:
        """What the account counts, in prices, in what was spent and in what is left: "nats" or "answers"."""
        return self._strategy.unit

    @property
    def spent(self) -> float:
        """What everyone who shares the account spent so far, in :attr:`unit`."""
        self._session.read()
        return self._strategy.spent(self._session.account)

    @property
    def left(self) -> Left:
        """What is left of the promise: a number of nats or answers, and the same in words."""
        self._session.read()
        left = self._strategy.left(self._session.account)
        if not self._session.balance.closed:
            return left
        words = "The account is closed: nothing more is answered from it."
        return Left(0.0, words=words, confirmed=0, surprises=0, unit=left.unit, total=left.total)

    @property
    def balance(self) -> Balance:
        """The sums of the account book, a copy: who spent what, as the book counts it."""
        self._session.read()
        return self._session.balance.copy()

    @property
    def closed(self) -> bool:
        """Whether the account was ended for good."""
        self._session.read()
        return self._session.balance.closed

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer of the account, in order; a notebook shows a table."""
        answered = (released for _, released in self._session.history() if _is_answer(released))
        return History(self._answered.recall(released) for released in answered)

    def history_page(self, after: int = 0, limit: int = 100) -> dict[int, Answer]:
        """At most ``limit`` answers by their line in the account book, those beyond line ``after``: a long
        history a page at a time."""
        first = checks.whole(after, "after", at_least=0, of="Guard.history_page")
        most = min(checks.whole(limit, "limit", of="Guard.history_page"), sys.maxsize)
        answered = (item for item in self._session.history(first) if _is_answer(item[1]))
        return {line: self._answered.recall(released) for line, released in islice(answered, most)}

    def on_answer(self, callback: Callable[[Answer], object]) -> Callable[[], None]:
        """Call ``callback(answer)`` with every new answer that is asked for through this guard, those of a
        report too, once the account book has it. Returns a function that ends this.

        Answers that were given before are not told again. All callbacks are called, for all answers that were
        recorded together; then the first error of a callback is raised. Nothing is lost by it: asking again
        returns the answer for free. ``guard.history`` has all answers, also those that no callback got.
        """
        if not callable(callback):
            raise InvalidArgument("callback", "a function of one answer", callback, of="Guard.on_answer")

        key = object()  # The same callback may be given twice.

        def stop() -> None:
            self._callbacks.pop(key, None)

        self._callbacks[key] = callback
        return stop

    def _tell(self, answers: Sequence[tuple[Answer, Asker]]) -> None:
        """Give new answers to all callbacks, and raise the first error once all of them were called."""
        errors: list[Exception] = []
        for answer, asker in answers:
            for callback in tuple(self._callbacks.values()):
                try:
                    if asker.context is None:
                        callback(answer)
                    else:
                        asker.context.run(callback, answer)
                except Exception as error:
                    errors.append(error)
        if not errors:
            return
        first, *others = errors
        for other in others:
            first.add_note(f"Another callback call failed too. {type(other).__name__}: {other}")
        first.add_note("The answer is in the account book. Ask again to get it for free.")
        raise first

    @property
    def certificate(self) -> Certificate:
        """What all answers together rest on."""
        account = self._session.account
        numbers = {
            "protected rows": self.rows,
            "training rows": self._setup.facts["training_rows"],
            "questions": account.steps,
            f"{self.unit} spent": self._strategy.spent(account),
            "charged for the split": self._setup.bias - sum(self._setup.besides.values()),
            **self._setup.besides,
        }
        if self.epoch.number > 1:
            numbers |= {"epoch": self.epoch.number, "all epochs hold together with": self.epoch.together}
        interrupted = self._session.balance.interrupted
        if not interrupted:
            return self._records.certificate(numbers)
        records = replace(self._records, assumptions=(*self._records.assumptions, INTERRUPTED))
        return records.certificate({**numbers, "read again after an interruption": interrupted})

    def plot(self) -> Any:
        """Draw a line for each answer, with its question, interval and guess, and under them what was spent
        and what is left; returns the figure, which shows itself in a notebook. Reads no rows. Needs the extra
        ``plots``."""
        return plot_answers(self.history, str(self.left))

    def next_epoch(
        self,
        data: TableLike,
        *,
        train: TableLike | None = None,
        confidence: float | None = None,
        together: float | None = None,
        dependence: Dependence | None = None,
        ledger: str | Path | Book | None = None,
        close: bool = False,
        **options: Any,
    ) -> Guard:
        """A guard on the rows that arrived since, with an account of its own; called again, it goes on.

        Without ``train`` the guesses come from this epoch's training part and, once its account is closed for
        good, from its protected rows too; all new rows are protected. With ``together`` the confidence is
        such that all epochs that ever follow hold together with that probability. The ``ledger`` is beside
        this one, and ``options`` of :class:`Guard` are as they are here, unless they are given. ``close``
        ends this account for good first, unless something is known to be wrong with the table.

        Guarantee: the new epoch's intervals all hold with its confidence, whatever is known about earlier
        rows, and those of all epochs with ``guard.epoch.together`` (``docs/theory/epochs.md``).
        Assumes: the new rows are independent of the earlier ones, up to what their model charges for, and
        were not chosen by their values. A table that has rows of any earlier epoch again is refused, in any
        order; rows of few values cannot be told apart. Where that is decided by protected rows that can still
        be asked about, a refusal is charged to their account, and new rows are free.
        """
        confidence = confidence_after(self.epoch, confidence, together)
        model_after(self._setup, dependence, closed=close or closed_in_time(self._book))
        arrival = Arrival(data, self._setup, self._book, self._accounts, self._trains)
        if close:
            arrival.require_not_known()
            self.close_account()
        closed = closed_in_time(self._book)
        options = {**self._options, **options}
        trains = train is None and options["strategy"] in TRAINING_SHARES and options["split_by"] is None
        return Guard(
            data,
            train=earlier_rows(self._setup, closed=closed) if trains else train,
            confidence=confidence,
            dependence=dependence,
            ledger=cast(Any, After(self._session, self._book, self.epoch, ledger, arrival, trains, closed)),
            **options,
        )

    def close(self) -> None:
        """Close the account book's file; the account can be gone on with later."""
        self._session.close()

    def close_account(self) -> None:
        """End the account for good: whatever was answered stays, nothing new is answered, by any guard."""
        self._session.close_account()

    def __repr__(self) -> str:
        account = self._session.account
        spent = amount(self._strategy.spent(account), self.unit)
        return (
            f"Guard({self.rows:,} protected rows, {self._setup.facts['training_rows']:,} for training; "
            f"{amount(account.steps, 'questions')}, {spent} spent; {self.left.words.rstrip('.')})"
        )

    def _repr_html_(self) -> str:
        return account_html(
            self.history,
            self.left,
            spent=amount(self.spent, self.unit),
            rows=self.rows,
            training=self.certificate.numbers.get("training rows", 0),
        )

    def _question(
        self, query: Query | str | Question, *, precise: bool = False, nats: float | None = None
    ) -> Any:
        """Read and check a question; whatever is wrong with it is found here, without data and without
        charge."""
        if isinstance(query, Question):
            return self._finer(query, precise=precise, nats=nats)
        try:
            question = self._read(query) if isinstance(query, str) else self._checked(query)
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None
        return self._finer(question, precise=precise, nats=nats)

    def _finer(self, question: _Q, *, precise: bool, nats: float | None) -> _Q:
        """The question with what it is wished to cost."""
        if nats is None and not precise:
            return question
        wished = PRECISE_NATS if nats is None else checks.real(nats, "nats", "(0, inf)", of="Guard.ask")
        if self._options["strategy"] != "code":
            raise InvalidArgument(
                "nats",
                "left out: only strategy 'code' has cells of its own for a question",
                wished,
                of="Guard.ask",
            )
        if wished > self.left:
            raise BudgetSpent(
                f"{question.text} cannot be given {wished:g} nats: {float(self.left):.3g} are left. Nothing "
                "was charged. Ask for fewer, or without nats=.",
                asked=wished,
                spent=self.spent,
                left=float(self.left),
            )
        return replace(question, nats=wished)

    def _checked(self, query: Query | str) -> TableQuestion:
        training = None if self._setup.training is None else self._setup.training.rows
        record = self._record(query)
        if record.kind == "cdf":
            return self._curve(record)
        record = resolved(record, self.schema, training, self._setup.nullable)
        question = self._possible(TableQuestion.of(record.check(self.schema, self._setup.nullable)))
        return self._hints.heeded(question, self._session.released)

    def _possible(self, question: _Q) -> _Q:
        """The question, unless the strategy has no answer for it."""
        by_cells = isinstance(question, CellQuestion) and question.statistic is not None
        if by_cells and not isinstance(self._strategy, CodeStrategy):
            raise QueryRejected(
                f"A {question.kind} needs strategy='code'; {self._options['strategy']!r} answers means, "
                "shares "
                "and quantiles."
            )
        model = self._setup.model
        if model is not None and model.columns is not None and not isinstance(question, StatisticQuestion):
            require_described(question, model.columns, model.name)
        return question

    @staticmethod
    def _record(query: Query | str) -> Query:
        """The question as a record."""
        if not isinstance(query, (str, Query)):
            raise InvalidArgument("query", "a query from holdfast.queries or a text", query, of="Guard.ask")
        return queries.read(query) if isinstance(query, str) else query

    @property
    def _columns(self) -> Any:
        return self.schema

    def _with_account(self, rejected: QueryRejected) -> QueryRejected:
        rejected.asked, rejected.spent, rejected.left = 0.0, self.spent, float(self.left)
        rejected.unit = self.unit
        return rejected

    def _too_wide(self, text: str) -> BudgetSpent:
        return too_wide(text, self.error, unit=self.unit, spent=self.spent, left=float(self.left))

    def _answer(self, question: Question, asker: Asker = NOBODY) -> Answer:
        (answer,) = self._answers([Member(question, asker)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answers(
        self,
        members: Sequence[Member],
        *,
        refused: dict[str, Exception] | None = None,
        stop: bool = False,
        apart: bool = False,
    ) -> list[Answer | HoldfastError]:
        """The answer to each question, or why it has none; up to the first without one, with ``stop``. They
        are asked together, unless they merely wait for the same turn: ``apart``."""
        new: dict[str, Member] = {}
        outcomes: dict[str, Answer | HoldfastError] = {}
        requested: dict[str, str] = {}
        for member in members:
            question, request = member.question, member.asker.request
            asked_before = (
                {self._session.requested(request), requested.setdefault(request, question.key)}
                if request
                else set()
            )
            if not asked_before <= {None, question.key}:
                outcomes[question.key] = self._with_account(QueryRejected(_OTHER_REQUEST))
            elif question.key not in outcomes and (known := self._known(question)) is not None:
                outcomes[question.key] = known
            elif question.key not in outcomes:
                new.setdefault(question.key, member)
            if stop and isinstance(outcomes.get(question.key), Exception):
                break
        if new:
            outcomes |= self._new_answers(list(new.values()), refused, stop=stop, apart=apart)
        return _in_order(members, outcomes, stop=stop)

    def _known(self, question: Question) -> Answer | HoldfastError | None:
        """What was answered before, or the same refusal."""
        try:
            return self._answered.known(question)
        except BudgetSpent as too_wide:
            return too_wide

    def _new_answers(
        self, members: Sequence[Member], refused: dict[str, Exception] | None, *, stop: bool, apart: bool
    ) -> dict[str, Answer | HoldfastError]:
        """Ask what is new: together where the strategy can, else one by one; or ``apart``."""
        self._doubts.look(member.question for member in members)
        outcomes: dict[str, Answer | HoldfastError] = {}
        groups = [members] if self._strategy.together or apart else [[member] for member in members]
        ask: Callable[..., dict[str, float]] = answer_apart if apart else partial(answer_together, stop=stop)
        for group in groups:
            recorded: set[str] = set()
            try:
                self._setup.protected.rows.require_unchanged()
                failed = ask(
                    self._session,
                    self._strategy,
                    group,
                    self._setup.protected,
                    refused=refused,
                    recorded=recorded,
                    first=self._read_interrupted,
                )
            except QueryRejected as rejected:
                raise self._with_account(rejected) from None
            for member in group:
                outcome = self._outcome(member.question, failed, refused or {})
                if outcome is not None:
                    outcomes[member.question.key] = outcome
            told = [(outcomes.get(one.question.key), one) for one in group if one.question.key in recorded]
            self._tell([(answer, one.asker) for answer, one in told if isinstance(answer, Answer)])
            ends = stop or refused is None
            if ends and any(isinstance(outcomes.get(one.question.key), Exception) for one in group):
                break
        return outcomes

    def _read_interrupted(self) -> None:
        """Read questions again whose process was interrupted; each once, and under its own reservation."""
        if not self._session.interrupted():
            return
        self._setup.protected.rows.require_unchanged()
        read_interrupted(self._session, self._strategy, self._question_again, self._setup.protected)

    def _question_again(self, interrupted: Interrupted) -> Question | None:
        """The question of a reservation, read off its text; None where the text does not say all of it."""
        rate = interrupted.wishes.get("rate")
        try:
            if rate is None:
                question: Question = self._checked(interrupted.text)
            else:
                text, sign, number = split_claim(interrupted.text)
                question = ClaimQuestion.of(self._checked(text), sign, number, rate)
        except HoldfastError:
            return None
        return question if question.key == interrupted.key else None

    def _outcome(
        self, question: Question, failed: dict[str, float], refused: dict[str, Exception]
    ) -> Answer | HoldfastError | None:
        """What came of a question that was new; None where it was not asked after all."""
        refusal = refused.get(question.key)
        if isinstance(refusal, QueryRejected):
            return self._with_account(refusal)
        if isinstance(refusal, HoldfastError):
            return refusal
        released = self._session.released(question.key)
        if released is not None:
            try:
                return self._answered.settled(released, question)
            except BudgetSpent as too_wide:
                return too_wide
        if question.key not in failed:
            return None
        closes = self._strategy.failure_closes
        return not_computed(
            question.text,
            self._strategy.cost(failed[question.key]),
            closes=closes,
            unit=self.unit,
            spent=self.spent,
            left=0.0 if closes else float(self.left),
        )


def _is_answer(released: Released) -> bool:
    """Whether a line of the book is an answer with an interval: not a failure, and not a claim."""
    return released.answer is not None and CLAIM not in released.answer


def _in_order(
    members: Sequence[Member], outcomes: dict[str, Answer | HoldfastError], *, stop: bool
) -> list[Answer | HoldfastError]:
    ordered: list[Answer | HoldfastError] = []
    for member in members:
        outcome = outcomes.get(member.question.key)
        if outcome is None:
            break  # Nothing was asked from here on.
        ordered.append(outcome)
        if stop and isinstance(outcome, Exception):
            break
    return ordered
