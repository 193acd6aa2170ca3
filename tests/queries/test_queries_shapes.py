"""What a check found out about one question is used for all of its shape: a check of each finds the same."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import queries
from holdfast.engines import Column, Schema
from holdfast.errors import QueryRejected

COLUMNS = {
    "a": Column("number", "int64"),
    "x": Column("number", "float64"),
    "z": Column("number", "float64", nullable=True),
    "s": Column("text", "string"),
    "b": Column("boolean", "boolean"),
    "t": Column("date", "timestamp[us]", zoned=True),
}
NUMBERS = st.sampled_from([-2.5, -1.0, 0.0, 0.5, 1.0, 3.0, 1e300, 2.0**60])
FORMS = st.sampled_from(
    [
        "share(a > {0} and x < {1})",
        "share(x > {0}, where = 1 / a > 2 and a > {1})",
        "mean(1 / x, 0, 1, where = x > {0})",
        "mean(ln(a), 0, 1, where = a >= {0})",
        "mean(sqrt(x + {1}), 0, 1, where = x > {0})",
        "mean(a % 3, 0, 2, where = a > {0})",
        "mean(power(x, {1}), 0, 1, where = x > {0})",
        "mean(case when x > {0} then 1 / x else 0 end, 0, 1)",
        "mean(a > {0}, 0, 1)",
        "mean(z, -9, 9, where = a < {0})",
        "mean(z, -9, 9, where = z > {0})",
        "share(z > {0}, nulls = skip)",
        "share(s = 'u' or x > {0})",
        "share(t > '2020-01-01' and x > {0})",
        "share(y > {0})",
        "share(s > {0})",
        "ratio(a > {0}, x > {1}, 0, 1, 0, 1)",
        "difference(x, b, a > {0}, -1, 1)",
        "quantile(x, 0.5, where = a <> {0})",
    ]
)


def outcome(text, schema):
    """What a check says of a question: everything but the places where things are kept, or why it refuses."""
    try:
        checked = queries.read(text).check(schema, {"s"})
    except QueryRejected as refused:
        return str(refused)
    names = [field.name for field in fields(checked) if field.name not in ("statements", "schema")]
    return {name: getattr(checked, name) for name in names} | {"numbers": checked.pattern.numbers}


@given(form=FORMS, pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=4))
def test_a_question_is_checked_as_if_no_other_had_been(form, pairs):
    known = Schema(COLUMNS)
    for pair in pairs:
        text = form.format(*pair)
        assert outcome(text, known) == outcome(text, Schema(COLUMNS))


def test_numbers_decide_where_an_operation_may_have_no_result():
    schema = Schema(COLUMNS)
    queries.read("mean(1 / x, 0, 1, where = x > 1)").check(schema)
    with pytest.raises(QueryRejected, match="may have no value"):
        queries.read("mean(1 / x, 0, 1, where = x > -1)").check(schema)


def test_questions_of_one_shape_share_what_was_found_out():
    schema = Schema(COLUMNS)
    for limit in range(50):
        queries.read(f"share(a > {limit} and x < {limit})").check(schema)
    assert len(schema.facts) == 1
    for limit in range(5):
        queries.read(f"share(a > {limit} and x < {limit}.5)").check(schema)
    assert len(schema.facts) == 2  # Whole numbers are another shape.


def test_a_table_remembers_a_limited_number_of_shapes():
    schema = Schema(COLUMNS)
    for limit in range(1_100):
        queries.read(f"share(a + {limit} > 0)").check(schema)
    assert 0 < len(schema.facts) <= 1_000
