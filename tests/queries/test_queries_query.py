"""The question record: what it takes, how it reads and prints, when two questions are one."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import queries
from holdfast.engines import Column, Schema
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.queries import Expression, Query, mean, quantile, read, share

SCHEMA = Schema(
    {
        "age": Column("number", "int64"),
        "income": Column("number", "float64"),
        "name": Column("text", "string"),
        "smoker": Column("boolean", "boolean"),
        "born": Column("date", "date"),
        "photo": Column("other", "binary"),
    }
)


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("share(age > 40)", share("age > 40")),
        ("share(age > 40, where = name = 'F')", share("age > 40", where="name = 'F'")),
        (
            "SHARE( age>40 ,where=name='F,)', nulls=skip)",
            share("age > 40", where="name = 'F,)'", nulls="skip"),
        ),
        ("share(smoker, nulls = true)", share("smoker", nulls=True)),
        ("share(smoker, nulls = 'skip');", share("smoker", nulls="skip")),
        ("mean(income, 0, 1e5)", mean("income", bounds=(0, 1e5))),
        ("mean(income, bounds=[0, 100000])", mean("income", bounds=(0, 100000))),
        ("mean(income, bounds = (0, 1e5), guess=5e3)", mean("income", bounds=(0, 1e5), guess=5000)),
        (
            "mean(least(income, 10), -1, 1, where=age between 1 and 3 and smoker, nulls=0.5)",
            mean("least(income, 10)", bounds=(-1, 1), where="age between 1 and 3 and smoker", nulls=0.5),
        ),
        (
            "mean(case when age in (1,2) then 1 else 0 end, 0, 1)",
            mean("case when age in (2, 1) then 1 else 0 end", bounds=[0, 1]),
        ),
        ("quantile(income, 0.5)", quantile("income", 0.5)),
        (
            "quantile(income, q = 0.5, guess = -3, nulls = -1e3)",
            quantile("income", 0.5, guess=-3, nulls=-1000),
        ),
        ('share("a,b" > 1, where = "where" = 2)', share('"a,b" > 1', where='"where" = 2')),
        ("share(q = 1)", share("q = 1")),
    ],
)
def test_the_line_says_what_the_record_says(line: str, query: queries.Query) -> None:
    assert read(line) == query
    assert read(str(query)) == query
    assert read(query.text).key == query.key
    assert query.text == str(read(query.text))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "age > 40",
        "share",
        "share(",
        "share()",
        "share(, where = age > 3)",
        "mode(age)",
        "mean(age, 1)",
        "mean(age, 1, 2, 3)",
        "mean(age, 0, 1, bounds=[0, 1])",
        "mean(age, 0, 1, q=0.5)",
        "mean(age, a, b)",
        "mean(age, bounds=[0])",
        "mean(age, bounds=[])",
        "quantile(age)",
        "quantile(age, 0.5, 0.6)",
        "quantile(age, 0.5, q=0.6)",
        "quantile(age, 2)",
        "share(age > 1, 0.5)",
        "share(age > 1, bounds=[0, 1])",
        "share(age > 1, guess=0.1, guess=0.2)",
        "share(age > 1, nulls=maybe)",
        "share(age > 1, guess=high)",
        "share(age > 1, where=)",
    ],
)
def test_a_line_that_says_too_little_or_too_much_is_refused(line: str) -> None:
    with pytest.raises(HoldfastError):
        read(line)


def test_a_mean_without_bounds_says_what_to_write() -> None:
    for make in (lambda: mean("income"), lambda: read("mean(income)")):
        with pytest.raises(QueryRejected, match=r"bounds=\(lo, hi\)"):
            make()


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 0),
        (1, 0),
        (0,),
        (0, 1, 2),
        (0, math.inf),
        (-math.inf, 0),
        (math.nan, 1),
        (-1e308, 1e308),
        (0, 1e-300),
        5,
        "01",
    ],
)
def test_bounds_are_two_finite_numbers(bounds: object) -> None:
    with pytest.raises(InvalidArgument, match="bounds"):
        mean("income", bounds=bounds)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mean("x", bounds=(0, 1), guess=2),
        lambda: mean("x", bounds=(0, 1), guess=math.nan),
        lambda: mean("x", bounds=(0, 1), nulls=2),
        lambda: mean("x", bounds=(0, 1), nulls=True),
        lambda: mean("x", bounds=(0, 1), nulls="zero"),
        lambda: share("x > 1", guess=1.5),
        lambda: share("x > 1", nulls=0),
        lambda: share("x > 1", nulls="no"),
        lambda: quantile("x", 0),
        lambda: quantile("x", 1),
        lambda: quantile("x", math.nan),
        lambda: quantile("x", 0.5, guess=math.inf),
        lambda: quantile("x", 0.5, nulls=math.inf),
        lambda: quantile("x", 0.5, nulls=False),
    ],
)
def test_numbers_outside_their_domain_are_refused(make) -> None:
    with pytest.raises(InvalidArgument):
        make()


def test_the_guess_is_not_part_of_the_question() -> None:
    assert share("age > 40", guess=0.3).key == share("40 < age").key
    assert share("age > 40", guess=0.3) != share("age > 40")
    assert share("age > 40", guess=0.3).text == "share(age > 40)"


def test_what_nulls_count_as_is_part_of_the_question() -> None:
    keys = {mean("x", bounds=(0, 2), nulls=nulls).key for nulls in (0, 1, "skip")}
    assert len(keys) == 3
    assert len({share("x > 1", nulls=nulls).key for nulls in (True, False, "skip")}) == 3


def test_an_open_null_counts_as_the_lowest_value() -> None:
    assert mean("x", bounds=(-3, 2)).key == mean("x", bounds=(-3, 2), nulls=-3).key
    assert mean("x", bounds=(-3, 2)).missing == -3
    assert share("x > 1").key == share("x > 1", nulls=False).key
    assert quantile("x", 0.5).missing == -math.inf


def test_every_part_of_the_question_is_in_the_key() -> None:
    asked = [
        mean("x", bounds=(0, 1)),
        mean("x", bounds=(0, 2)),
        mean("x", bounds=(-1, 1)),
        mean("y", bounds=(0, 1)),
        mean("x", bounds=(0, 1), where="y > 1"),
        mean("x", bounds=(0, 1), where="y > 2"),
        quantile("x", 0.5),
        quantile("x", 0.25),
        share("x > 0.5"),
        share("x > 0.5", where="y > 1"),
    ]
    assert len({query.key for query in asked}) == len(asked)
    assert all(len(query.key) == 64 for query in asked)


def test_keys_stay_what_they_are() -> None:
    """Accounts on disk know questions by their keys; a change of the canonical form would forget them."""
    assert share("y < 2 and x > 1").key[:16] == "72e4ba5af32fe159"
    assert mean("2 * x", bounds=(0, 1e3), where="not (s = 'a')", nulls="skip").key[:16] == "1062c0657475e128"
    assert quantile("round(x, 1)", 0.5).key[:16] == "92e1f4d76feb7477"


def test_a_filter_that_always_passes_is_no_filter() -> None:
    assert share("x > 1", where="true") == share("x > 1", where="1 < 2 or y > 3") == share("x > 1")


def test_numpy_numbers_are_numbers() -> None:
    query = mean("x", bounds=np.array([0.0, 1.0]), guess=np.float32(0.5), nulls=np.float64(0.25))
    assert query == mean("x", bounds=(0, 1), guess=0.5, nulls=0.25)
    json.dumps(query.to_dict())


def test_a_question_is_frozen_and_travels() -> None:
    query = mean("x", bounds=(0, 1), where="y > 1", guess=0.5)
    with pytest.raises(AttributeError):
        query.kind = "share"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(query)) == query
    assert hash(query) == hash(read(str(query)))


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(
    finite,
    finite,
    st.sampled_from(["x", "x * 2", "case when b then 1 else 2 end"]),
    st.none() | st.just("y = 'a, b'"),
)
def test_any_mean_reads_back(lo: float, hi: float, expression: str, where: str | None) -> None:
    try:
        query = mean(expression, bounds=(lo, hi), where=where, guess=lo)
    except InvalidArgument:
        return
    assert read(str(query)) == query


@given(st.floats(min_value=5e-324, max_value=1, exclude_max=True), finite)
def test_any_quantile_reads_back(q: float, guess: float) -> None:
    query = quantile("x", q, guess=guess)
    assert read(str(query)) == query


@given(st.text(min_size=1, max_size=12).filter(lambda name: name.isprintable()), st.text(max_size=12))
def test_any_name_and_any_text_read_back(name: str, text: str) -> None:
    quoted, literal = name.replace('"', '""'), text.replace("'", "''")
    query = share(f"\"{quoted}\" = '{literal}'")
    assert query.expression.columns == {name}
    assert read(str(query)) == query


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("share(agee > 40)", "Did you mean 'age'"),
        ("share(AGE > 40)", "Did you mean 'age'"),
        ("share(incme > 40)", "Did you mean 'income'"),
        ("share(zzz = 1)", "age, income, name, smoker, born, photo"),
        ("share(name = F)", "single quotes"),
        ("mean(name, 0, 1)", "cast(name as double)"),
        ("mean(name + 1, 0, 1)", "text where a number is needed in 'name + 1'"),
        ("mean(smoker, 0, 1)", "share(smoker)"),
        ("mean(born, 0, 1)", ">= '2020-01-01'"),
        ("mean(photo, 0, 1)", "cannot compute with, such as a duration or a list"),
        ("share(age)", "age <> 0"),
        ("share(name)", "name = 'a'"),
        ("share(age and smoker)", "age <> 0"),
        ("share(not age)", "age <> 0"),
        ("share(age = '40')", "without quotes"),
        ("share(name > 3)", "in single quotes"),
        ("share(smoker = 1)", "number where a condition is needed"),
        ("share(smoker > false)", "cast(smoker as double)"),
        ("share(age in (1, 'a'))", "text where a number is needed"),
        ("share(photo = photo)", "before you open the table"),
        ("share(born > 3)", "where a date is needed"),
        ("share(born > 'soon')", "like '2020-01-31'"),
        ("share(born > '2020-01-01T00:00:00Z')", "time zone"),
        ("share(born = name)", "text where a date is needed"),
        ("mean(length(age), 0, 1)", "number where text is needed"),
        ("mean(case when age then 1 else 0 end, 0, 1)", "age <> 0"),
        ("mean(case when smoker then 1 else 'a' end, 0, 1)", "text where a number is needed"),
        ("mean(coalesce(income, name), 0, 1)", "text where a number is needed"),
        ("mean(coalesce(born, born), 0, 1)", ">= '2020-01-01'"),
        ("mean(cast(income as integer), 0, 1)", "floor(income)"),
        ("mean(cast(name as integer), 0, 1)", "floor(cast(name as double))"),
        ("share(cast(income as text) = '1')", "compare numbers with numbers"),
        ("mean(cast(born as double), 0, 1)", ">= '2020-01-01'"),
        ("share(age > 1, where = income)", "income <> 0"),
        ("share(age > 1, where = ghost > 1)", "no column 'ghost'"),
        ("quantile(name, 0.5)", "cast(name as double)"),
        ("mean(case when smoker then null end, 0, 1)", "for every row"),
    ],
)
def test_a_question_that_does_not_fit_the_schema_is_refused(line: str, says: str) -> None:
    with pytest.raises(QueryRejected) as caught:
        read(line).check(SCHEMA)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "mean(cast(age as integer), 0, 1)",
        "mean(cast(smoker as integer), 0, 1)",
        "mean(cast(floor(income) as bigint), 0, 1)",
        "share(cast(age as text) = '40')",
        "share(cast(smoker as text) = 'true')",
        "share(cast(age as boolean))",
        "share(born between '2020-01-01' and '2020-02-01' and born is not null)",
        "share(born in ('2020-01-01'))",
        "share(photo is null)",
        "mean(case when smoker then age else null end, 0, 1, nulls=skip)",
        "share(smoker = (age > 3))",
        "mean(length(name), 0, 99)",
    ],
)
def test_a_question_that_fits_passes(line: str) -> None:
    assert read(line).check(SCHEMA).query == read(line)


def test_whether_rows_are_counted_is_known_without_data() -> None:
    assert not read("mean(age, 0, 1)").check(SCHEMA).counts
    assert not read("mean(age, 0, 1, nulls=1)").check(SCHEMA).counts
    assert read("mean(age, 0, 1, nulls=skip)").check(SCHEMA).counts
    assert read("mean(age, 0, 1, where=age > 3)").check(SCHEMA).counts


def test_a_question_that_takes_too_many_operations_is_refused() -> None:
    text = "abs(least(income, " * 14 + "1" + "))" * 14
    with pytest.raises(QueryRejected, match="operations"):
        mean(text, bounds=(0, 1)).check(SCHEMA)


def test_importing_queries_brings_no_database() -> None:
    heavy = "('ibis', 'duckdb', 'sqlglot', 'pandas', 'pyarrow', 'polars')"
    script = (
        f"import sys, holdfast.queries, holdfast.engines; print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("wrong", [{"expression": "x > 1"}, {"expression": None}, {"where": "x > 1"}])
def test_a_record_made_by_hand_from_text_says_what_makes_one(wrong):
    with pytest.raises(InvalidArgument, match=r"queries\.mean"):
        Query(**{"kind": "share", "expression": Expression.read("x > 1"), **wrong})
