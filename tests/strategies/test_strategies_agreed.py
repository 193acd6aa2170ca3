"""Agreed numbers: transcripts are counted exactly, errors are kept, and who does not pay is caught."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast import Guard, plan
from holdfast.coding import (
    MICRO,
    Account,
    Agreement,
    Experience,
    Run,
    Schedule,
    checked_schedule,
    grid_schedule,
    price,
    runs,
)
from holdfast.dependence import MarkovChain
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected
from holdfast.readings import Moments, Question
from holdfast.strategies import choose_strategy
from holdfast.tails import BoundedDifferences, SubGaussian


@dataclass(frozen=True, kw_only=True)
class Share(Question):
    """A share, or a mean of values in a range, of which the sum over the rows is known."""

    key: str = ""
    text: str = "share"
    low: float = 0.0
    high: float = 1.0
    guess: float | None = None
    kind: str = "share"
    total: float = 0.0
    rows: int

    def moments(self, part: Any, *, squares: bool = False) -> Moments:
        share = self.total / self.rows
        return Moments(self.rows, share, math.nan, share)

    @property
    def record(self) -> Any:
        return self.text


def strategy_of(rows, k, beta, surprises, error=None):
    part = SimpleNamespace(rows=SimpleNamespace(count=rows))
    setup = SimpleNamespace(protected=part, training=None, pilot=None, model=None)
    name = "grid-code" if surprises is None else "agreed-code"
    return choose_strategy(name, setup, failure=beta, error=error, queries=k, surprises=surprises)


def account_at(strategy, steps, surprised, beta=0.05):
    """So many questions later, one after the other; without guesses every answer moves on."""
    moved = steps if strategy.schedule.agreement.surprises is None else surprised
    paid = sum(price(strategy.schedule.cells(stage)) for stage in range(moved))
    return Account(
        beta, steps, micro_nats=math.ceil(paid * MICRO), experience=Experience(steps - surprised, surprised)
    )


def unit(rows):
    return BoundedDifferences.of_mean(0, 1, rows)


@pytest.mark.parametrize(("k", "surprises"), [(1, 0), (4, 0), (5, 2), (6, 5), (3, 3), (1, None), (4, None)])
def test_the_failures_of_all_transcripts_sum_to_at_most_what_may_fail(k, surprises):
    """Every transcript before every question, one by one, each at the probability of its stage."""
    beta = 0.05
    schedule = Schedule.of(unit(2000), 0.24, Agreement(k, beta, surprises))

    def failing(stage: int, asked: int) -> float:
        if asked == k or stage == schedule.stages:
            return 0.0
        symbols = schedule.cells(stage) + 1
        later = symbols * failing(stage + 1, asked + 1)
        if surprises is not None:
            later += failing(stage, asked + 1)
        return math.exp(-schedule.nats(stage)) + later

    assert failing(0, 0) == pytest.approx(beta, rel=1e-5)
    assert failing(0, 0) <= beta


def test_a_schedule_that_forgets_the_failure_to_read_would_be_seen():
    """One symbol too few at every stage, and the sum is beyond β."""
    schedule = Schedule.of(unit(2000), 0.24, Agreement(4, 0.05))
    total = sum(
        math.exp(-schedule.nats(stage) + sum(math.log(schedule.cells(s) + 2) for s in range(stage)))
        for stage in range(4)
    )
    assert total > 0.05 * 1.2


@given(st.integers(200, 10**6), st.integers(1, 400), st.one_of(st.none(), st.integers(0, 30)))
def test_at_every_stage_half_a_cell_and_the_radius_are_within_the_error(rows, k, surprises):
    tail = unit(rows)
    found = (
        grid_schedule(tail, k, 0.05)
        if surprises is None
        else checked_schedule(tail, k, 0.05, min(k, surprises))
    )
    if found is None:
        return
    assert found.stages == found.agreement.stages
    for stage in {0, found.stages // 2, found.stages - 1}:
        radius = tail.radius_at(found.nats(stage))
        assert 0.5 / found.cells(stage) + radius <= found.error
        assert found.tolerance(tail, stage) + radius <= found.error
        assert 0.5 / found.cells(stage) <= found.tolerance(tail, stage) * (1 + 1e-9)
    assert [found.cells(s) for s in range(min(found.stages, 50))] == sorted(
        found.cells(s) for s in range(min(found.stages, 50))
    )


@given(st.integers(1, 300), st.integers(500, 10**5))
def test_more_questions_more_surprises_and_fewer_rows_are_never_better(k, rows):
    def grid(k, rows):
        found = grid_schedule(unit(rows), k, 0.05)
        return 1.0 if found is None else found.error

    def checked(k, rows, surprises):
        found = checked_schedule(unit(rows), k, 0.05, surprises)
        return 1.0 if found is None else found.error

    loose = 1 + 1e-6
    assert grid(k, rows) <= grid(k + 1, rows) * loose
    assert grid(k, rows) >= grid(k, 2 * rows) / loose
    assert checked(k, rows, 3) >= checked(k, 2 * rows, 3) / loose
    assert checked(k, rows, 3) <= checked(k, rows, 4) * 1.001
    assert checked(k, rows, 0) <= checked(k + 1, rows, 0) * 1.001


def test_long_runs_are_the_same_stages_one_by_one():
    """Without guesses consecutive stages are counted in one step; by hand, one after the other."""
    tail, agreement, error = unit(5000), Agreement(300, 0.05), 0.3
    nats = math.log(300 / 0.05)
    found = Schedule.of(tail, error, agreement)
    assert len(found.runs) < 100
    for stage in range(300):
        assert found.nats(stage) == pytest.approx(nats, rel=1e-9)
        assert 0.5 / found.cells(stage) + tail.radius_at(nats) <= error
        nats += math.log(found.cells(stage) + 1) + 1 / MICRO


def test_questions_that_are_read_at_the_same_time_are_paid_for():
    """Two processes read at once, the second as if the first had moved on, with that stage's cells; what the
    third may say is counted with the cells that were really used."""
    beta, k = 0.05, 3
    strategy = strategy_of(300, k, beta, 2)
    schedule = strategy.schedule

    def symbols(account):
        prepared = strategy.prepare(Share(rows=300, guess=0.5), account)
        return prepared.cells.count + 1, math.exp(-prepared.reading.nats)

    fresh = Account(beta)
    first, failing = symbols(fresh)
    reserved = math.ceil(math.log(first) * MICRO)
    second, at_once = symbols(Account(beta, steps=1, micro_nats=reserved))
    assert second > first  # the third would be read too boldly if only its stage counted
    failing += at_once
    for moved in itertools.product((False, True), repeat=2):
        said = (first if moved[0] else 1) * (second if moved[1] else 1)
        paid = math.ceil(math.log(said) * MICRO)
        after = Account(beta, 2, paid, experience=Experience(2 - sum(moved), sum(moved)))
        failing += said * symbols(after)[1]
    assert failing <= beta
    only_second = Account(beta, 2, math.ceil(math.log(second) * MICRO), experience=Experience(1, 1))
    prepared = strategy.prepare(Share(rows=300, guess=0.5), only_second)
    assert prepared.reading.nats > schedule.nats(1)
    assert prepared.cells.count >= schedule.cells(1)


ROWS_MEANWHILE = 10**6


class Meanwhile:
    """The most that intervals can fail, over all transcripts and over all that other processes may have
    reserved while a question is prepared and may give back before it is settled."""

    def __init__(self, strategy, beta):
        self.strategy, self.beta, self.computed = strategy, beta, {}

    def failing(self, confirmed, surprised, spent):
        """From so many outputs on, which cost so much, for one of the transcripts that have them."""
        state = confirmed, surprised, round(spent, 9)
        if state not in self.computed:
            schedule = self.strategy.schedule
            left = min(schedule.agreement.queries - confirmed - surprised, schedule.stages - surprised)
            chances = (self._read(confirmed, surprised, spent, held) for held in range(left))
            self.computed[state] = max(chances, default=0.0)
        return self.computed[state]

    def _read(self, confirmed, surprised, spent, held):
        """A question that is read while ``held`` others are reserved, which are then given back."""
        reserved = 0.0
        for stage in range(surprised, surprised + held):
            reserved += price(self.strategy.schedule.cells(stage))
        account = Account(
            self.beta,
            confirmed + surprised + held,
            micro_nats=math.ceil((spent + reserved) * MICRO),
            experience=Experience(confirmed, surprised),
        )
        prepared = self.strategy.prepare(Share(rows=ROWS_MEANWHILE, guess=0.5), account)
        symbols = prepared.cells.count + 1
        later = symbols * self.failing(confirmed, surprised + 1, spent + math.log(symbols))
        return math.exp(-prepared.reading.nats) + self.failing(confirmed + 1, surprised, spent) + later


def test_reservations_that_are_given_back_while_another_process_reads_break_nothing(monkeypatch):
    """Where nearly all guesses may be off, the last stages have few patterns, and a question that was counted
    to one of them belongs to an earlier one once the others are given back."""
    beta = 0.05
    strategy = strategy_of(ROWS_MEANWHILE, 10, beta, 9, error=0.4)
    assert strategy.schedule.cells(8) == 2
    assert Meanwhile(strategy, beta).failing(0, 0, 0.0) <= beta * (1 + 1e-6)

    def as_if_nothing_were_given_back(self, account, stage):
        return max(self.schedule.nats(stage), self.schedule.agreement.nats(stage, account.spent))

    monkeypatch.setattr(type(strategy), "_nats", as_if_nothing_were_given_back)
    assert Meanwhile(strategy, beta).failing(0, 0, 0.0) > 1.04 * beta


def test_one_process_by_itself_reads_as_planned():
    strategy = strategy_of(300, 6, 0.05, 5)
    for surprised in range(6):
        prepared = strategy.prepare(Share(rows=300, guess=0.5), account_at(strategy, surprised, surprised))
        assert prepared.reading.nats == pytest.approx(strategy.schedule.nats(surprised), abs=1e-5)


def test_an_error_that_does_not_last_has_no_schedule():
    assert Schedule.of(unit(1000), 0.05, Agreement(100, 0.05)) is None
    assert len(list(runs(unit(1000), 0.02, Agreement(100, 0.05)))) == 0
    assert grid_schedule(unit(10), 10**4, 0.05) is None
    assert checked_schedule(unit(10), 10**4, 0.05, 900) is None


def test_one_question_is_hoeffdings():
    found = grid_schedule(unit(1000), 1, 0.05)
    assert found.error == pytest.approx(math.sqrt(math.log(2 / 0.05) / 2000), abs=1e-6)


class Worst:
    """All tables of ``rows`` rows of two fair coins, and the analyst who fails the guard most often.

    A question is any set of the four kinds of rows; with guesses, the analyst brings any of three.
    """

    def __init__(self, rows, prepared, guesses):
        kinds = [
            (a, b, c, rows - a - b - c)
            for a in range(rows + 1)
            for b in range(rows + 1 - a)
            for c in range(rows + 1 - a - b)
        ]
        counts = np.array(kinds)
        # Kinds are interchangeable: one set of each size and one pair that crosses another will do.
        sets = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
        self.count = counts @ sets.T
        self.truth = sets.mean(axis=1)
        self.chance = np.array(
            [math.factorial(rows) / math.prod(map(math.factorial, kind)) for kind in kinds]
        ) / (4.0**rows)
        self.rows, self.prepared, self.guesses = rows, prepared, guesses
        self._known: dict[Any, Any] = {}

    def outputs(self, step, stage, guess, question):
        """For each count: which output it is, whether it misses the truth, whether it moves on."""
        key = (step, stage, guess, question)
        if key not in self._known:
            found = []
            for total in range(self.rows + 1):
                asked = Share(total=total, rows=self.rows, guess=guess)
                outcome = self.prepared(asked, step, stage).read(None)
                said = outcome.released
                misses = not said["low"] <= self.truth[question] <= said["high"]
                moves = guess is None or outcome.surprise
                found.append((said["value"], moves, misses))
            names = {output: place for place, output in enumerate(dict.fromkeys(found))}
            self._known[key] = np.array([names[output] for output in found]), list(names)
        return self._known[key]

    def fails(self, seen, step, stage, k, stages):
        """The largest probability that from here on some interval misses, within the tables ``seen``."""
        if step == k or stage == stages or not len(seen):
            return 0.0
        best = 0.0
        for question, guess in itertools.product(range(len(self.truth)), self.guesses):
            place, outputs = self.outputs(step, stage, guess, question)
            mine = place[self.count[seen, question]]
            total = 0.0
            for number, (_, moves, misses) in enumerate(outputs):
                here = seen[mine == number]
                if misses:
                    total += float(self.chance[here].sum())
                else:
                    total += self.fails(here, step + 1, stage + bool(moves), k, stages)
            best = max(best, total)
        return best


@pytest.mark.parametrize(
    ("rows", "k", "surprises"), [(12, 3, None), (20, 3, None), (16, 2, 1), (9, 3, 1), (12, 3, 0)]
)
def test_exact_coverage_of_the_worst_adaptive_analyst(rows, k, surprises):
    """By enumeration of all tables, all questions and all transcripts; and a twin whose every interval has
    the whole β is caught."""
    beta, cells = 0.4, rows // 2
    agreement = Agreement(k, beta, surprises)
    stages = []
    for stage in range(agreement.stages):
        ways = 1 if surprises is None else math.comb(k, stage + 1)
        nats = math.log(agreement.stages * ways / beta) + stage * price(cells) + 1e-5
        stages.append(Run(stage, 1, nats, cells))
    error = unit(rows).radius_at(stages[-1].nats) + 0.03
    strategy = replace(
        strategy_of(rows, k, beta, surprises), schedule=Schedule(agreement, error, tuple(stages))
    )
    guesses = (None,) if surprises is None else (0.2, 0.5, 0.8)

    def paying(question, step, stage):
        surprised = 0 if surprises is None else stage
        return strategy.prepare(question, account_at(strategy, step, surprised, beta))

    def not_paying(question, step, stage):
        prepared = paying(question, step, stage)
        reading = type(prepared.reading)(question, -math.log(beta), None, rows)
        return replace(prepared, reading=reading)

    def failing(prepared):
        worst = Worst(rows, prepared, guesses)
        return worst.fails(np.arange(len(worst.chance)), 0, 0, k, strategy.schedule.stages)

    assert failing(paying) <= beta
    # With room for a surprise and few rows the worst analyst is bad enough for the twin to be seen.
    if rows <= 16 and surprises != 0:
        assert failing(not_paying) > beta


@pytest.mark.parametrize("kind", ["share", "mean"])
@given(
    rows=st.integers(300, 50_000),
    place=st.floats(0, 1),
    guess=st.floats(0, 1),
    spent=st.integers(0, 4),
)
def test_no_answer_is_wider_than_the_error_whatever_the_rows_say(kind, rows, place, guess, spent):
    low, high = (0.0, 1.0) if kind == "share" else (-3.0, 5.0)
    total = rows * (low + place * (high - low))
    for surprises in (None, 4):
        strategy = strategy_of(rows, 20, 0.05, surprises)
        asked = Share(
            low=low,
            high=high,
            kind=kind,
            guess=low + guess * (high - low),
            total=round(total) if kind == "share" else total,
            rows=rows,
            resolution=0.0 if kind == "share" else 2.0**-24 * (high - low),
        )
        prepared = strategy.prepare(asked, account_at(strategy, spent, spent))
        said = prepared.read(None).released
        assert said["low"] <= asked.moments(None).mean <= said["high"]
        assert (said["high"] - said["low"]) / 2 <= strategy.schedule.error * (high - low)
        assert prepared.preview().half_width <= strategy.schedule.error * (high - low)


def test_cells_hold_what_they_are_said_to_hold(rng):
    strategy = strategy_of(3_000, 6, 0.05, None)
    cells = strategy.prepare(Share(rows=3_000, low=-2.0, high=7.0), account_at(strategy, 0, 0)).cells
    width = 9 / cells.count
    assert cells.count > 10
    for value in (*rng.uniform(-2, 7, 500), -2.0, 7.0, -2.0 + width, 7.0 - width):
        low, high = cells.edges(cells.index(value))
        assert low <= value <= high
        assert high - low == pytest.approx(width, rel=1e-9)


def coins(rng, rows, k):
    return {f"c{j}": rng.integers(0, 2, rows) for j in range(k)}


@pytest.mark.parametrize(("k", "surprises"), [(30, 3), (12, 0)])
def test_a_real_guard_keeps_the_plan(rng, k, surprises):
    """The planned rows, some guesses far off as late as can be: all answered, within the planned error."""
    entry = plan(queries=k, confidence=0.95, error=0.1, surprises=surprises).method("agreed-code")
    table = coins(rng, entry.rows, k)
    guard = Guard(table, strategy="agreed-code", queries=k, surprises=surprises, error=0.1)
    assert guard.rows == entry.parameters["protected_rows"]
    assert guard._strategy.schedule.error == 0.1
    allowed = guard._strategy.schedule.agreement.surprises
    assert allowed == entry.parameters["surprises"] >= surprises
    wrong = set(range(k - surprises, k))
    answers = [guard.share(f"c{j} = 1", guess=0.01 if j in wrong else None) for j in range(k)]
    assert all(answer.half_width <= 0.1 for answer in answers)
    assert all(answer.low < 0.5 < answer.high for answer in answers)
    assert [answer.confirmed for answer in answers[-surprises:]] == [False] * min(
        surprises, k
    ) or not surprises
    planned = plan(queries=k, confidence=0.95, rows=entry.rows, surprises=surprises).method("agreed-code")
    least = Guard(table, strategy="agreed-code", queries=k, surprises=surprises)._strategy.schedule.error
    assert least == planned.error


def test_a_grid_keeps_its_plan(rng):
    rows, k = 2000, 12
    entry = plan(queries=k, confidence=0.95, rows=rows).method("grid-code")
    guard = Guard(coins(rng, rows, k), strategy="grid-code", queries=k)
    assert guard.rows == rows
    assert guard.train is None
    for j in range(k):
        answer = guard.share(f"c{j} = 1")
        assert answer.half_width <= entry.error
        assert answer.low < 0.5 < answer.high
        assert math.isnan(answer.guess)
    assert guard.left == 0
    with pytest.raises(BudgetSpent, match="12 answers"):
        guard.share("c0 = c1")


def test_one_guess_too_many_ends_it_and_the_book_remembers(rng, tmp_path):
    table = coins(rng, 9000, 20)
    options = {"strategy": "agreed-code", "queries": 20, "surprises": 2, "ledger": tmp_path / "book"}
    guard = Guard(table, **options)
    allowed = guard._strategy.schedule.agreement.surprises
    assert f"{allowed} of {allowed} surprises" in guard.left.words
    for j in range(allowed):
        assert not guard.share(f"c{j} = 1", guess=0.9).confirmed
    again = Guard(table, **options)
    assert f"0 of {allowed} surprises" in again.left.words
    paid, nats = again.spent, again._session.account.spent
    confirmed = again.share("c10 = 1")
    assert again._session.account.spent == nats > 0  # A confirmed guess tells nothing.
    assert confirmed.confirmed
    assert confirmed.cost == 1
    assert again.spent == paid + 1 == allowed + 1
    last = again.share("c11 = 1", guess=0.9)
    assert last.low < 0.5 < last.high
    assert again.left == 0
    with pytest.raises(BudgetSpent, match=f"off than the {allowed}"):
        again.share("c12 = 1")
    assert not again.cost_preview("share(c12 = 1)").allowed
    assert again.share("c11 = 1").to_dict() == last.to_dict()
    with pytest.raises(Exception, match="surprises differ"):
        Guard(table, **{**options, "surprises": 3})


def test_a_question_that_fails_or_never_ends_moves_on_like_a_surprise(rng):
    table = coins(rng, 9000, 4)
    guard = Guard(table, strategy="agreed-code", queries=5, surprises=3)
    stage = guard._strategy._stage
    guard.share("c0 = 1")
    assert stage(guard._session.account) == 0

    class Broken:
        def predict(self, frame):
            if len(frame) == guard_rows:  # The training part has half as many.
                raise RuntimeError("no")
            return np.zeros(len(frame), dtype=int)

    guard_rows = guard.rows

    with pytest.raises(QueryRejected, match="could not be computed"):
        guard.score(Broken(), target="c1", guess=0.5)
    assert stage(guard._session.account) == 1
    # A reader that died after reserving: its question counts as the dearest outcome.
    guard._session._book.append(
        "reserve",
        {"text": "t", "micro_nats": 10**6, "at": 0, "reader": "nobody"},
        after=guard._session._last,
        subject="k",
    )
    guard._session.read()
    assert stage(guard._session.account) == 2
    assert guard.left == 2


def test_chains_use_the_tail_of_their_model(rng):
    rows = 40_000
    states = np.cumsum(rng.random(rows) > 0.75) % 2
    chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], rows)
    for strategy, more in (("grid-code", {}), ("agreed-code", {"surprises": 1})):
        guard = Guard({"s": states}, strategy=strategy, queries=6, dependence=chain, **more)
        plain = Guard({"s": states}, strategy=strategy, queries=6, **more)
        answer = guard.share("s = 1")
        assert answer.low < 0.5 < answer.high
        assert answer.half_width <= guard._strategy.schedule.error
        assert guard._strategy.schedule.error > 1.5 * plain._strategy.schedule.error
        planned = plan(queries=6, confidence=0.95, dependence=chain, surprises=1).method(strategy).error
        assert guard._strategy.schedule.error == pytest.approx(planned, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"strategy": "agreed-code", "surprises": 3}, "queries"),
        ({"strategy": "agreed-code", "queries": 9}, "surprises"),
        ({"strategy": "agreed-code", "queries": 9, "surprises": 10}, "surprises"),
        ({"strategy": "agreed-code", "queries": 9, "surprises": math.nan}, "surprises"),
        ({"strategy": "grid-code"}, "queries"),
        ({"strategy": "grid-code", "queries": 3, "surprises": 1}, "surprises"),
        ({"strategy": "grid-code", "queries": 10**6}, "queries"),
        ({"surprises": 1}, "surprises"),
    ],
)
def test_bad_arguments_are_named(options, name):
    with pytest.raises(InvalidArgument) as caught:
        Guard({"x": np.arange(50) % 2}, **options)
    assert caught.value.argument == name


def test_what_has_no_cells_is_refused_without_charge(rng):
    table = {"x": rng.random(3000), "g": rng.integers(0, 2, 3000)}
    guard = Guard(table, strategy="agreed-code", queries=5, surprises=1)
    with pytest.raises(QueryRejected, match="share"):
        guard.quantile("x", 0.5)
    with pytest.raises(QueryRejected, match="filter"):
        guard.mean("x", bounds=(0, 1), where="g = 1")
    with pytest.raises(QueryRejected, match="code"):
        guard.custom(lambda frame: 0.0, tail=SubGaussian(0.1))
    with pytest.raises(QueryRejected, match="bring one"):
        Guard(table, strategy="agreed-code", queries=5, surprises=1, training_share=0).share("g = 1")
    assert guard.left == 5
    tight = Guard(table, strategy="grid-code", queries=5, error=0.02)
    with pytest.raises(BudgetSpent, match="was promised"):
        tight.share("g = 1")
    assert tight.mean("0.1 * x", bounds=(0, 0.1)).half_width <= 0.02
    assert tight.left == 4


def sign_attack(rng, rows, k, answer):
    """k − 1 fair coins, then the share of rows on which their majority in the leaning direction agrees."""
    data = rng.integers(0, 2, (rows, k - 1))
    signs = np.array([1 if answer(int(column.sum())) >= 0.5 else -1 for column in data.T])
    votes = (2 * data - 1) @ signs
    return int(np.where(votes == 0, rng.integers(0, 2, rows), votes > 0).sum())


def test_the_sign_attack_stays_within_the_error_and_catches_plain_means(rng):
    rows, k, runs_made = 400, 41, 150
    strategy = strategy_of(rows, k, 0.05, None)
    plain_radius = math.sqrt(math.log(2 * k / 0.05) / (2 * rows))
    missed = plain = 0
    for _ in range(runs_made):
        said = []

        def guarded(total, said=said):
            question = Share(total=total, rows=rows)
            outcome = strategy.prepare(question, account_at(strategy, len(said), 0)).read(None)
            said.append(outcome.released)
            return outcome.released["value"]

        guarded(sign_attack(rng, rows, k, guarded))
        missed += not all(one["low"] <= 0.5 <= one["high"] for one in said)
        last = sign_attack(rng, rows, k, lambda total: total / rows)
        plain += abs(last / rows - 0.5) > plain_radius
    assert stats.binomtest(missed, runs_made, 0.05, alternative="greater").pvalue > 1e-6
    assert stats.binomtest(plain, runs_made, 0.05, alternative="greater").pvalue < 1e-9


@pytest.mark.parametrize("strategy", ["agreed-code", "grid-code"])
def test_several_questions_at_once_are_answered_as_one_by_one(strategy, rng):
    table = coins(rng, 3000, 12)
    terms = {"strategy": strategy, "queries": 12}
    if strategy == "agreed-code":
        terms["surprises"] = 3
    questions = [f"share(c{j} = 1, guess = {0.9 if j in (3, 4, 9) else 0.5})" for j in range(12)]
    at_once, one_by_one = Guard(table, **terms), Guard(table, **terms)
    together = at_once.ask_all(questions)
    alone = [one_by_one.ask(question) for question in questions]
    for first, second in zip(together, alone, strict=True):
        assert (first.value, first.low, first.high, first.cost) == (
            second.value,
            second.low,
            second.high,
            second.cost,
        )
    assert at_once.left == one_by_one.left == 0
