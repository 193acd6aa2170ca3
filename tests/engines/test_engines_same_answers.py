"""The same question releases the same answer wherever the rows live, by one statement."""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

import pyarrow as pa
import pytest

from contracts.engine import answer_of, arrow, people
from contracts.questions import Questions
from holdfast import Guard
from holdfast.engines import Dialect, _capabilities, _in_place, open_rows, unsealed
from holdfast.engines._database import DuckDB
from holdfast.engines._in_place import BorrowedPostgres
from holdfast.engines._other_dialects import Postgres
from holdfast.errors import HoldfastError, QueryRejected

ROWS = 2_000


def protected(seed):
    return arrow(people(seed, ROWS))


def known(seed):
    return arrow(people(1000 + seed, ROWS))


def released(guard, line):
    """Everything that leaves: the cell as a value, the interval, the price; or why nothing does."""
    try:
        answer = guard.ask(line)
    except HoldfastError as refused:
        return str(refused)
    return answer.value, answer.low, answer.high, answer.cost


def compare(guard, other, writer, count):
    """Ask both the same questions in the same order; returns how many were answered."""
    answered = 0
    for _ in range(count):
        line = writer.line()
        found = released(other, line)
        assert found == released(guard, line), line
        answered += not isinstance(found, str)
    assert guard.spent == other.spent
    return answered


@pytest.mark.parametrize("count", [25, pytest.param(110, marks=pytest.mark.slow)])
def test_postgres_releases_the_answers_of_duckdb(to_postgres, seed, count):
    train = known(seed)
    here, there = (Guard(rows, train=train) for rows in (protected(seed), to_postgres(protected(seed))))
    assert compare(here, there, Questions(seed, frozenset({"% of fractions"})), count) >= 0.9 * count


def test_spark_releases_the_answers_of_duckdb(to_spark, seed):
    train = known(seed)
    here, there = (Guard(rows, train=train) for rows in (protected(seed), to_spark(protected(seed))))
    assert compare(here, there, Questions(seed, frozenset({"exp", "ln", "power"})), 10) >= 8


BY_CELLS = [
    "ratio(y, abs(k), 0, 5, 0, 4)",
    "mean(y, -5, 5, 0, 4, weights = abs(k), where = b)",
    "difference(y, b, s = 'M' and not b, -5, 5)",
    "lift(abs(y), k > 0, k < 0, 0, 9)",
    "variance(x, -5, 5, nulls = skip)",
    "std(y, -9, 9, where = k > -2)",
    "covariance(x, y, -5, 5, -5, 5, nulls = skip)",
    "correlation(y, y * k, -9, 9, -9, 9)",
    "slope(y + k, y, -9, 9, -9, 9)",
    "cdf(y, where = k > -2)",
]
SCORED = {"auc": ("y", "b"), "balanced_accuracy": ("k > 0", "b"), "f1": ("k > 0", "b"), "r2": ("k", "y")}


@pytest.mark.parametrize("place", ["postgres", "spark"])
def test_statistics_by_cells_have_the_answers_of_duckdb(request, place, seed):
    put = request.getfixturevalue(f"to_{place}")
    train = known(seed)
    here, there = (Guard(rows, train=train) for rows in (protected(seed), put(protected(seed))))
    for line in BY_CELLS:
        found = released(there, line)
        assert not isinstance(found, str), found
        assert found == released(here, line), line
    for ask in (_of_groups, _of_bins, *(partial(_score, metric) for metric in SCORED)):
        assert ask(here) == ask(there)
    assert here.spent == there.spent


def _of_groups(guard):
    rows = guard.table("mean(y, -5, 5, by = s)").rows
    return [(row.group, row.note, row.answer and (row.answer.value, row.answer.low)) for row in rows]


def _of_bins(guard):
    return [(row.group, row.answer.low, row.answer.high) for row in guard.histogram("y", [-1, 0, 1]).rows]


def _score(metric, guard):
    predictions, target = SCORED[metric]
    bounds = (-9, 9) if metric == "r2" else None
    answer = guard.score(predictions, target=target, metric=metric, bounds=bounds)
    return answer.value, answer.low, answer.high, answer.cost


def test_the_order_in_which_groups_come_back_does_not_matter(monkeypatch, seed):
    """Databases return groups in any order, and sums of floats depend on it to the last digit."""
    forwards = [released(Guard(protected(seed), train=known(seed)), line) for line in BY_CELLS]
    execute = DuckDB._execute

    def reversed_groups(database, statement, *numbers):
        rows = execute(database, statement, *numbers)
        return rows[::-1] if "GROUP BY" in statement else rows

    monkeypatch.setattr(DuckDB, "_execute", reversed_groups)
    backwards = [released(Guard(protected(seed), train=known(seed)), line) for line in BY_CELLS]
    assert forwards == backwards


@pytest.mark.slow
def test_all_three_release_the_same_answers(to_postgres, to_spark, seed):
    train, rows = known(seed), protected(seed)
    without = frozenset({"exp", "ln", "power", "% of fractions"})
    for there in (to_postgres(rows), to_spark(rows)):
        here = Guard(rows, train=train)
        assert compare(here, Guard(there, train=train), Questions(500 + seed, without), 150) >= 120


def test_an_engine_that_rounds_halves_differently_is_noticed(to_postgres, monkeypatch):
    """The sabotaged twin: halves to even, as PostgreSQL itself has it."""
    table = pa.table({"y": [0.5, 1.5, 2.5, 3.5]})
    line = "mean(round(y), 0, 5)"
    assert answer_of(open_rows(to_postgres(table)), line) == answer_of(open_rows(table), line)
    monkeypatch.setattr(Postgres, "round", Dialect.round)
    assert answer_of(open_rows(to_postgres(table)), line) != answer_of(open_rows(table), line)
    monkeypatch.setattr(_in_place, "_LACKING", WeakKeyDictionary())
    with pytest.raises(QueryRejected, match="'round\\(y\\)' is not computed on PostgreSQL"):
        Guard(to_postgres(table), training_share=0).mean("round(y)", bounds=(0, 5))


@pytest.mark.parametrize("operation", ["add", "multiply", "divide", "exp", "number_in", "like"])
def test_a_dialect_without_one_guard_is_found_out(postgres_connection, monkeypatch, operation):
    assert _capabilities.probe(BorrowedPostgres(postgres_connection)) == frozenset()
    monkeypatch.setattr(Postgres, operation, getattr(Dialect, operation))
    words = {"exp": "exp", "number_in": "as number", "like": "like"}
    if operation in words:
        assert _capabilities.probe(BorrowedPostgres(postgres_connection)) == {words[operation]}
    else:
        with pytest.raises(QueryRejected, match="PostgreSQL does not compute"):
            _capabilities.probe(BorrowedPostgres(postgres_connection))


def test_a_question_to_spark_is_one_job(spark, to_spark, seed):
    guard = Guard(to_spark(protected(seed)), train=known(seed))
    context = spark._session.sparkContext
    rows = guard._setup.protected.rows
    for number, line in enumerate(
        [
            "share(x > 1, where = k > 0, nulls = skip)",
            "mean(x * y, -3, 8, where = s <> 'F', nulls = 0)",
            "mean(y, 0, 1)",
            "quantile(y, 0.5)",
        ]
    ):
        question = guard._questions.read(line).checked
        context.setJobGroup(f"question {number}", line)
        with unsealed():
            if question.kind == "quantile":
                rows.order_statistics(question, lambda count: [1, count])
            else:
                rows.sums(question, squares=True)
        assert len(context.statusTracker().getJobIdsForGroup(f"question {number}")) == 1, line
    context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.slow
def test_a_late_statement_is_stopped_in_spark(to_spark, seed):
    guard = Guard(to_spark(protected(seed)), train=known(seed), seconds=1.5)
    database = guard._setup.protected.rows._database
    with pytest.raises(QueryRejected, match=r"longer than the 1\.5 seconds"):
        database.run("SELECT count(*) FROM range(1000000) a, range(10000000) b WHERE a.id * b.id % 7 = 3")
    database.limit(None)
    assert database.run("SELECT 1") == [(1,)]


def test_a_key_makes_the_same_parts_in_spark(to_spark, seed):
    rows = protected(seed)
    rows = rows.set_column(rows.schema.get_field_index("k"), "k", pa.array(range(ROWS), pa.int32()))
    here, there = (Guard(table, split_by="k") for table in (rows, to_spark(rows)))
    assert (here.rows, here.schema) == (there.rows, there.schema)
    line = "share(y > 0)"
    assert released(here, line) == released(there, line)


def test_a_late_statement_is_stopped(postgres_connection, to_postgres):
    table = to_postgres(pa.table({"y": [0.5, 1.5]}), name="late")
    guard = Guard(table, training_share=0, seconds=0.3)
    database = guard._setup.protected.rows._database
    with pytest.raises(QueryRejected, match=r"longer than the 0\.3 seconds"):
        database.run("SELECT pg_sleep(20)")
    assert database.run("SELECT 1") == [(1,)]
