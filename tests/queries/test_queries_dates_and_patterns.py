"""Parts of dates, dates written as SQL has them, and patterns of texts: reading, one way to write, nulls."""

from __future__ import annotations

import pytest

from holdfast import queries
from holdfast.engines import Column, Schema
from holdfast.errors import QueryRejected
from holdfast.queries import Expression

SCHEMA = Schema(
    {
        "t": Column("date", "timestamp(6)", nullable=False),
        "late": Column("date", "timestamp(6)", nullable=True),
        "z": Column("date", "timestamp(6)", nullable=False, zoned=True),
        "s": Column("text", "string", nullable=False),
        "x": Column("number", "float64", nullable=False),
    }
)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("YEAR(t) = 2024", "year(t) = 2024"),
        ("extract(year from t) = 2024", "year(t) = 2024"),
        ("EXTRACT(ISODOW FROM t) < 6", "isodow(t) < 6"),
        ("dayofmonth(t) = 1", "day(t) = 1"),
        ("t >= date '2024-01-31'", "t >= '2024-01-31'"),
        ("t >= timestamp '2024-01-31 10:00:00'", "t >= '2024-01-31 10:00:00'"),
        ("t >= cast('2024-01-31' as date)", "t >= '2024-01-31'"),
        ("s not like 'a%'", "s not like 'a%'"),
        ("not s like 'a%'", "s not like 'a%'"),
        ("not (s not like 'a%')", "s like 'a%'"),
        ("s like '%%a%%%'", "s like '%a%'"),
        ("s like 'abc'", "s = 'abc'"),
        ("s not like 'abc'", "s <> 'abc'"),
        ("s like 'it''s%' and x > 1", "s like 'it''s%' and x > 1"),
        ("(s like 'a%') = false", "s not like 'a%'"),
    ],
)
def test_one_way_to_write(written: str, canonical: str) -> None:
    assert Expression.read(written).text == canonical
    assert Expression.read(canonical) == Expression.read(written)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("weekday(t) = 1", "isodow"),
        ("dow(t) = 1", "isodow"),
        ("dayofweek(t) = 1", "isodow"),
        ("extract(dow from t) = 1", "isodow"),
        ("extract(epoch from t) > 1", "year, month, day, hour, isodow"),
        ("date_trunc('month', t) = '2024-01-01'", "t >= '2024-01-01' and t < '2024-01-02'"),
        ("cast(t as date) = '2024-01-01'", "t >= '2024-01-01' and t < '2024-01-02'"),
        ("t >= date '2024-01-31 10:00'", "is not a date"),
        ("t > current_date", "asked again"),
        ("s ilike 'a%'", "lower"),
        ("s like 'a!%' escape '!'", "everything else for itself"),
        ("s like lower('A%')", "one pattern in single quotes"),
        ("s like any ('a', 'b')", "one pattern in single quotes"),
        ("starts_with(s, 'a')", "x like 'a%'"),
        ("contains(s, 'a')", "x like '%a%'"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(QueryRejected) as refused:
        queries.share(text)
    assert instead in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("year(x) = 1", "'x' is a number where a date is needed"),
        ("hour(s) = 1", "'s' is text where a date is needed"),
        ("year('2024-01-01') = 2024", "is text where a date is needed"),
        ("t + 1 > 2", "year\\(t\\)"),
        ("x like '1%'", "'x' is a number where text is needed"),
        ("t like '2024%'", "'t' is a timestamp where text is needed"),
        ("t > 3", "'3' is a number where a date is needed in 't > 3'; write a date, like '2020-01-31'"),
        ("z + 1 > 2", r"Column 'z' is a timezone-aware timestamp \(read in UTC\) where a number is needed"),
        ("t < z", "'z' has a time zone and 't' has none"),
    ],
)
def test_kinds_are_checked(text: str, complaint: str) -> None:
    with pytest.raises(QueryRejected, match=complaint):
        queries.share(text, nulls=False).check(SCHEMA)


@pytest.mark.parametrize(
    ("column", "kind"), [("t", "a timestamp"), ("z", "a timezone-aware timestamp"), ("d", "a date")]
)
def test_a_mean_of_times_says_which_type_the_column_has(column: str, kind: str) -> None:
    schema = Schema({**SCHEMA, "d": Column("date", "date", nullable=False)})
    with pytest.raises(QueryRejected, match=rf"^Column '{column}' is {kind} .*year\({column}\)"):
        queries.mean(column, bounds=(0, 1)).check(schema)


def test_a_part_has_no_value_only_where_the_date_has_none() -> None:
    assert not queries.share("year(t) = 2024 and s like 'a%'").check(SCHEMA).nulls_unspecified
    for text in ("year(late) = 2024", "not hour(late) < 5"):
        with pytest.raises(QueryRejected, match="'late' may hold nulls"):
            queries.share(text).check(SCHEMA)
    queries.share("month(late) = 1", where="year(late) = 2024").check(SCHEMA)
    queries.mean("1 / month(t)", bounds=(0, 1)).check(SCHEMA)
    with pytest.raises(QueryRejected, match="may have no value"):
        queries.mean("1 / hour(t)", bounds=(0, 1)).check(SCHEMA)


def test_a_part_is_a_whole_number() -> None:
    queries.share("cast(year(t) as bigint) = 2024").check(SCHEMA)


def test_ibis_expressions_have_parts_and_patterns() -> None:
    from ibis import _

    assert Expression.read(_.t.year() == 2024, schema=SCHEMA).text == "year(t) = 2024"
    assert Expression.read(_.s.like("a%"), schema=SCHEMA).text == "s like 'a%'"


def test_a_date_in_quotes_keeps_the_zone_that_it_says() -> None:
    query = queries.share("z >= timestamptz '2024-01-31T10:00:00+02:00'")
    assert query.text == "share(z >= '2024-01-31T10:00:00+02:00')"
    query.check(SCHEMA)
