"""The guard: a person gives it a table and asks. Every answer stays valid, however the questions were
chosen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from holdfast import checks
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
from holdfast.asking import NOBODY, AccountState, Answering, Asker, Member, Released
from holdfast.coding import MICRO
from holdfast.dependence import Dependence
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard._diagnose import DependenceCheck, diagnose
from holdfast.guard._epoch import (
    Arrival,
    NextEpoch,
    closed_before_next,
    earlier_rows,
    next_confidence,
    require_model,
)
from holdfast.guard._opening import EpochOptions, Opened, Terms, open_guard
from holdfast.guard._questions import Questions, record_of
from holdfast.guard._report import Report, give_report, recorded_report
from holdfast.guard._scores import ScoreRequest, ScoreVerbs
from holdfast.ledger import Balance, Book
from holdfast.queries import Query
from holdfast.readings import NOT_SEEN, OTHERS, Question, TableQuestion, custom_question, too_few
from holdfast.records import amount
from holdfast.strategies import TRAINING_SHARES, CodeStrategy, Discovery, whole_rate
from holdfast.tails import Tail

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from holdfast.engines import Schema
    from holdfast.typing import (
        BoundsLike,
        Label,
        MetricName,
        Predictions,
        PromiseKind,
        StrategyName,
        TableLike,
    )


class Guard(ScoreVerbs["Predictions"]):
    """Ask one table one question after another; each answer carries an interval that stays valid.

    Guarantee: with probability ``confidence`` over the protected rows, every interval that is ever released
    contains its true value. That holds whatever the questions were, and however they depended on earlier
    answers and on the training part (``docs/theory/code-guard.md``, "The theorem").
    Assumes: the rows follow ``dependence`` (independent draws from one distribution when it is not given),
    and the questions depend on the protected rows only through released answers. Not checkable; every
    certificate says so.

    ``data`` and ``train`` are data frames (pandas, polars, pyarrow), dicts of arrays, paths to CSV or
    Parquet, or ibis tables. Without ``train`` a third of the rows (``training_share``; a quarter if at most
    ten questions are expected) is set aside as a free training part. It gives the guesses, and you may look
    at it as ``guard.train``. With ``error`` every interval has at most that half-width, and a question that
    would break the promise is refused with :class:`~holdfast.errors.BudgetSpent`. Without it nothing is
    refused, and intervals widen. ``ledger`` is a path: the account is kept there, and the next guard on the
    same data continues it. A question that takes the database more than ``seconds`` is stopped, and charged
    as a question that failed. Rows in a database and in large files stay where they are; there ``split_by``
    names a column that decides which rows become training rows. Rows with the same value in it are treated as
    a cluster. ``public_categories`` names the columns (True: all) whose declared categories are public, such
    as those of an ordered categorical or a polars Enum: ``guard.train`` then keeps them, and questions may
    compare them in their order. Elsewhere ``guard.train`` has the categories that its own rows use.

    ``expect`` is about how many questions there will be. It is a hint that makes that many answers narrower;
    the promise never depends on it. ``promise`` is "all" or "each". With "all", every interval holds with
    probability ``confidence``. With "each", a single interval holds with that probability, however its
    question was chosen: intervals are narrower, and nothing is promised about several answers at once.

    Every ``strategy`` except "code" ("agreed-code", "grid-code", "typical-gaussian", "typical-laplace",
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
        terms = Terms(
            confidence=confidence,
            error=error,
            strategy=strategy,
            queries=queries,
            surprises=surprises,
            expect=expect,
            promise=promise,
            training_share=training_share,
            split_seed=split_seed,
            split_by=split_by,
            seconds=seconds,
        )
        opened = open_guard(data, train, dependence, ledger, terms, public_categories)
        self._use_account(opened, assumed=dependence is None)

    def _use_account(self, opened: Opened, *, assumed: bool) -> None:
        """Use this account from now on. ``assumed`` says that nobody described how its rows depend."""
        self._opened, self._terms = opened, opened.terms
        self._setup, self._strategy = opened.setup, opened.strategy
        self._book, self._session, self._records = opened.book, opened.session, opened.records
        self.confidence, self.error, self.epoch = opened.terms.confidence, opened.terms.error, opened.epoch
        self._state = AccountState(self._session, self._strategy, self.error)
        self._questions = Questions(
            self._setup, self._strategy, opened.terms.strategy, self._session, self._state
        )
        check = DependenceCheck(self._setup, assumed=assumed and opened.terms.strategy == "code")
        self._answering = Answering(
            self._session,
            self._strategy,
            self._setup.protected,
            self._records,
            self._state,
            question_again=self._questions.of_reservation,
            look=check.look,
        )
        with suppress(HoldfastError):  # The next question raises the same error.
            self._answering.read_interrupted()

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
        return self._questions.score(
            ScoreRequest(predictions, target, metric, guess, cv, bounds, positive, name)
        )

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
        first, second = (
            ScoreRequest(predictions, target, metric, None, cv, bounds, positive) for predictions in (a, b)
        )
        return self._questions.comparison(first, second)

    def _scores(self, requests: Sequence[ScoreRequest], *, precise: bool, nats: float | None) -> list[Answer]:
        questions = [self._questions.score(request) for request in requests]
        return self.ask_all(questions, precise=precise, nats=nats)

    def _compared(self, a: ScoreRequest, b: ScoreRequest, *, precise: bool, nats: float | None) -> Answer:
        return self.ask(self._questions.comparison(a, b), precise=precise, nats=nats)

    def discover(self, claim: str, *, rate: float = 0.05, asker: Asker | None = None) -> Discovery:
        """Test a claim, a question with < or > and a number: ``"mean(income, 0, 1e5) > 3e4"``.

        Guarantee: of all claims that this account finds, at most the share ``rate`` is false, in expectation
        and at every time, however they were chosen. Each test reveals one bit, which is paid for. Intervals
        and discoveries share one account, but their promises are separate. The same claim again costs
        nothing.
        """
        question = self._questions.claim(claim, whole_rate(rate))
        return self._discovery(self._answering.claim(question, asker or NOBODY))

    @property
    def discoveries(self) -> tuple[Discovery, ...]:
        """Every claim of the account that was tested, in order."""
        return tuple(map(self._discovery, self._answering.claims()))

    def _discovery(self, released: Released) -> Discovery:
        cost = self._strategy.cost(released.micro_nats / MICRO)
        return Discovery.of(released.text, released.answer or {}, cost, self.unit)

    def curve(
        self,
        query: Query | str,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Curve:
        """The distribution of :meth:`cdf`, for a question given as a record or as text, ``"cdf(income)"``."""
        record = record_of(query)
        if record.kind != "cdf":
            raise InvalidArgument("query", "a question such as cdf(income)", str(record), of="Guard.curve")
        question = self._questions.finer(self._questions.curve(record), precise=precise, nats=nats)
        answer = self._answering.answer(question, asker or NOBODY)
        return Curve.of(answer, question.points, question.trained)

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
        return self.ask(question, precise=precise, nats=nats)

    def ask(
        self,
        query: Query | str | Question,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Answer:
        """Answer a question given as a record (``holdfast.queries``) or as text, ``"share(age > 40)"``.

        The same question, in the same or in other words, returns the same answer and costs nothing. With
        ``precise`` or ``nats`` the answer is given on finer cells, and costs more: ``nats`` is about what it
        costs on average if the guess is as good as expected, and ``precise`` means three. ``asker`` says on
        whose behalf the question is asked, if several people share the account.
        """
        question = self._questions.read(query, precise=precise, nats=nats)
        return self._answering.answer(question, asker or NOBODY)

    def table(
        self,
        query: Query | str,
        *,
        precise: bool = False,
        nats: float | None = None,
        asker: Asker | None = None,
    ) -> Table:
        """Answer a question ``by`` one column or two, ``"share(late, by = carrier)"``: one question for each
        of their values in the training part, asked together. A ``"histogram(income, 10)"`` is a table too.
        It is read off one question, :meth:`cdf`.

        A group that is too small for a useful interval is not asked about, and its row says so. Only the
        training part and the account decide which groups are too small.
        """
        record = record_of(query)
        if record.kind == "histogram":
            distribution = replace(record, kind="cdf", bins=None)
            return self.curve(distribution, precise=precise, nats=nats, asker=asker).histogram(
                record.bins or 10
            )
        if not record.by:
            raise InvalidArgument(
                "query", "a question by a column, as in share(late, by = carrier)", str(record)
            )
        groups = self._questions.of_groups(record, precise=precise, nats=nats)
        self._strategy.look([question for _, question in groups])
        notes = {question.key: self._too_small(question) for _, question in groups}
        asked = [question for _, question in groups if not notes[question.key]]
        members = [Member(question, asker or NOBODY) for question in asked]
        answers: dict[str, Answer] = {}
        for question, outcome in zip(asked, self._answering.answers(members), strict=False):
            if isinstance(outcome, Exception):
                raise outcome
            answers[question.key] = outcome
        rows = [
            GroupAnswer(group, answers.get(question.key), notes[question.key]) for group, question in groups
        ]
        others = GroupAnswer((OTHERS,), None, NOT_SEEN)
        return Table(record, tuple(str(part) for part in record.by), (*rows, others))

    def _too_small(self, question: TableQuestion) -> str:
        """Why a group is too small to be asked about; empty if it is large enough."""
        if self._answering.recorded(question) is not None:
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
        """Answer several questions together: none of them pays for what the others reveal, and later
        questions pay for all of them. All are checked, and refused if necessary, before anything is charged.

        Guarantee: that of the guard, because all of them were fixed before the first was answered
        (``docs/theory/code-guard.md``, "Asked together"). Strategies that count answers give them one by one.
        """
        checked = [self._questions.read(query, precise=precise, nats=nats) for query in questions]
        return self._answering.all_answers(checked)

    def report(self, questions: Iterable[Query | str | Question], *, asker: Asker | None = None) -> Report:
        """Close the account, for everyone, and read a short list of questions exactly.

        Nobody asks after a report, so its values are not rounded to cells, and they cost nothing. They share
        all the error probability that is left. With ``training_share=0`` and nothing asked before, a report
        is a preregistration on all rows. A report is given once; the same questions return it again.

        Guarantee: that of the guard, for the report and all earlier answers together
        (``docs/theory/code-guard.md``, "The report"). A question that cannot be asked is refused before the
        account is closed.
        """
        checked = [self._questions.read(query) for query in questions]
        if not checked:
            raise InvalidArgument("questions", "at least one question", [], of="Guard.report")
        if not isinstance(self._strategy, CodeStrategy):
            raise InvalidArgument(
                "strategy", "'code': no other strategy gives reports", self._terms.strategy, of="Guard"
            )
        try:
            new = give_report(self._opened, self._strategy, checked, asker or NOBODY)
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None
        report = self.reported
        assert report is not None
        if new:
            self._answering.call_callbacks(
                [(answer, NOBODY) for answer in report.answers if answer is not None]
            )
        return report

    @property
    def reported(self) -> Report | None:
        """The report that closed this account; None if there is none."""
        return recorded_report(self._opened)

    def answer_each(
        self,
        questions: Sequence[tuple[Query | str, Asker]],
        *,
        nats: Sequence[float | None] | None = None,
        stop: bool = False,
    ) -> list[Answer | HoldfastError]:
        """Answer questions of several people, of which some may be refused. The result has an answer or a
        refusal for each question, in order. ``nats`` says for each question what it should cost, as in
        :meth:`ask`. With ``stop`` nothing is asked after the first refusal."""
        refused: dict[str, Exception] = {}
        prices = [None] * len(questions) if nats is None else nats
        members = [
            Member(self._questions.read(query, nats=price), asker)
            for (query, asker), price in zip(questions, prices, strict=True)
        ]
        return self._answering.answers(members, refused=refused, stop=stop)

    def answer_apart(self, questions: Sequence[tuple[Query | str, Asker]]) -> list[Answer | HoldfastError]:
        """Answer questions of several people who wait for the same turn. Each gets its answer, or its
        refusal, as if it was asked alone. They are no batch: each question pays for those before it."""
        members: list[Member] = []
        outcomes: list[Answer | HoldfastError | None] = []
        for query, asker in questions:
            try:
                members.append(Member(self._questions.read(query), asker))
                outcomes.append(None)
            except HoldfastError as refusal:
                outcomes.append(refusal)
        answered = iter(self._answering.answers(members, refused={}, apart=True))
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
        question = self._questions.read(query, precise=precise, nats=nats)
        return self._answering.preview(question, asker or NOBODY)

    def diagnose(self, question: Query | str | Question | None = None, *, by: str | None = None) -> Diagnosis:
        """What the training part says about whether rows are independent. It is free.

        Looks at every column (at most 50), or at the values of one ``question`` such as ``"share(paid)"``:
        do neighbouring rows agree, do values change along the table, do rows with the same id resemble each
        other? ``by`` names the column that distinguishes groups; without it, columns that look like an id are
        tried. Print the result, or draw it with ``.plot()``.

        Guarantee: see :class:`Diagnosis`; it speaks about training rows only, and reads no others. A guard
        that assumes independent rows warns once, with :class:`~holdfast.errors.DependenceWarning`, if the
        values of a question clearly are not independent.
        """
        checked = None if question is None else self._questions.read(question)
        try:
            return diagnose(self._setup, checked, by)
        except QueryRejected as rejected:
            raise self._state.explained(rejected) from None

    @property
    def schema(self) -> Schema:
        """The columns that may be asked about."""
        return self._setup.protected.rows.schema

    @property
    def rows(self) -> int:
        """The number of protected rows."""
        return self._setup.protected.rows.count

    # Any: a table of the library whose table was given.
    @cached_property
    def train(self) -> Any:
        """The training part, as the kind of table that was given: free to look at. None if there is none."""
        return None if self._setup.training is None else self._setup.training.rows.native()

    def training_rows(self) -> pandas.DataFrame | None:
        """The training part as a pandas table, whatever kind was given; None if there is none."""
        return None if self._setup.training is None else self._setup.training.rows.frame()

    @property
    def unit(self) -> str:
        """What prices, :attr:`spent` and :attr:`left` are counted in: "nats" or "answers"."""
        return self._strategy.unit

    @property
    def spent(self) -> float:
        """What everyone who shares the account has spent so far, in :attr:`unit`."""
        return self._state.spent

    @property
    def left(self) -> Left:
        """What is left of the promise: a number of nats or answers, and the same in words."""
        return self._state.left

    @property
    def balance(self) -> Balance:
        """A copy of the sums of the account book: who spent what, as the book counts it."""
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
        return History(answer for _, answer in self._answering.history())

    def history_page(self, after: int = 0, limit: int = 100) -> dict[int, Answer]:
        """At most ``limit`` answers with their lines in the account book, after line ``after``: a long
        history a page at a time."""
        after = checks.whole(after, "after", at_least=0, of="Guard.history_page")
        limit = min(checks.whole(limit, "limit", of="Guard.history_page"), sys.maxsize)
        return dict(islice(self._answering.history(after), limit))

    def on_answer(self, callback: Callable[[Answer], object]) -> Callable[[], None]:
        """Call ``callback(answer)`` with every new answer to a question of this guard.

        The answers of a report count too. The account book has the answer before the call. Returns a function
        that stops the calls. Answers that were given before are not passed on again. If answers were recorded
        together, all callbacks are called for all of them; then the first error of a callback is raised.
        Nothing is lost by it: asking again returns the answer for free. ``guard.history`` has all answers,
        also those that no callback got.
        """
        return self._answering.on_answer(callback)

    @property
    def certificate(self) -> Certificate:
        """The certificate of all answers together."""
        return self._opened.certificate

    def plot(self) -> Figure:
        """Draw a line for each answer, with its question, interval and guess. Below are what was spent and
        what is left. Returns the figure, which shows itself in a notebook. Reads no rows. Needs the extra
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
        public_categories: bool | Collection[str] | None = None,
        **options: Unpack[EpochOptions],
    ) -> Guard:
        """A guard on the rows that arrived since, with an account of its own; a second call continues it.

        Without ``train`` all new rows are protected. The guesses come from this epoch's training part and,
        once its account is closed for good, from its protected rows too. With ``together`` the confidence
        is such that all epochs that ever follow hold together with that probability. The ``ledger`` is beside
        this account's ledger. ``public_categories`` and the other ``options`` of :class:`Guard` are as they
        are here, unless they are given. ``close`` first ends this account for good, unless something is known
        to be wrong with the table.

        Guarantee: the new epoch's intervals all hold with its confidence, whatever is known about earlier
        rows, and those of all epochs with ``guard.epoch.together`` (``docs/theory/epochs.md``).
        Assumes: the new rows are independent of the earlier ones, up to what their model charges for, and
        were not chosen by their values. A table that contains rows of any earlier epoch, in any order, is
        refused; rows of few values cannot be told apart. If a refusal depends on protected rows that can
        still be asked about, it is charged to their account. Accepting new rows is free.
        """
        confidence = next_confidence(self.epoch, confidence, together)
        require_model(self._setup, dependence, closed=close or closed_before_next(self._book))
        arrival = Arrival(data, self._setup, self._book, self._opened.accounts, self._opened.trains)
        if close:
            arrival.require_no_public_rows()
            self.close_account()
        closed = closed_before_next(self._book)
        if public_categories is None:
            public_categories = self._opened.public_categories
        terms = replace(self._terms, confidence=confidence, **options)
        trains = train is None and terms.strategy in TRAINING_SHARES and terms.split_by is None
        following = NextEpoch(self._session, self._book, self.epoch, ledger, arrival, trains, closed)
        training_data = earlier_rows(self._setup, closed=closed) if trains else train
        guard = Guard.__new__(Guard)
        opened = open_guard(data, training_data, dependence, following, terms, public_categories)
        guard._use_account(opened, assumed=dependence is None)
        return guard

    def close(self) -> None:
        """Close the account book's file; a later guard can continue the account."""
        self._session.close()

    def close_account(self) -> None:
        """End the account for good. Its answers stay valid, and no guard answers new questions from it."""
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

    @property
    def _columns(self) -> Any:
        return self.schema
