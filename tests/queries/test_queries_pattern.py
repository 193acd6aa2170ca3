"""Questions that differ in constants share a statement, and it is the one they would have had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import queries
from holdfast.engines import open_rows

RNG = np.random.default_rng(0)
ROWS = open_rows(
    {"a": RNG.integers(-9, 9, 300), "x": RNG.normal(size=300), "s": ["u", "v", "w"] * 100, "b": [True] * 300}
).stored()

NUMBERS = st.one_of(
    st.integers(-10, 10).map(float),
    st.floats(-5, 5, allow_nan=False),
    st.sampled_from([0.1, 1e300, 5e-324, 2.0**53, 2.0**53 - 1, 4503599627370001.0, 1.5e-289, 45035996273.5]),
)
FORMS = st.sampled_from(
    [
        "share(a > {0} and x < {1})",
        "share(not (a >= {0}) or {1} <> x)",
        "share(case when a = {0} then x > {1} else a <= {1} end)",
        "share(a in ({0}, {1}) or x > {1})",
        "share(a + {0} > {1})",
        "share(x > {0}, where = s = '{1!r}' and a < {1})",
        "mean(x * {0} + a, -20, 20, where = a > {1})",
        "mean(cast(a > {0} as double) / {1}, -1, 1, nulls = 0)",
        "share(s = '4503599627370001' and a > {0} and x > {1})",
        "share(s = '1.5e-289' and a > {0} and x > {1})",
        "share(s > 'u' and b)",
    ]
)


def plainly(checked):
    return ROWS._database.compile(checked.values(ROWS._table(checked.reads)))


def with_parameters(checked):
    return ROWS._database.statement(ROWS.values_tree(checked))


def numbers_of(checked):
    return {f"n{place}_": number for place, number in enumerate(checked.pattern.numbers)}


@given(form=FORMS, first=NUMBERS, second=NUMBERS)
def test_every_row_has_the_value_that_compiling_the_question_itself_gives(form, first, second):
    checked = queries.read(form.format(first, second)).check(ROWS.schema)
    statement, numbers = with_parameters(checked), numbers_of(checked)
    plain = repr(ROWS._database.run(plainly(checked)))
    assert repr(ROWS._database.ask(statement, numbers)) == plain
    assert repr(ROWS._database.run(statement.with_numbers(numbers))) == plain


def test_the_comparison_notices_another_number():
    checked = queries.read("share(a > 3 and x < 0.25)").check(ROWS.schema)
    plain = ROWS._database.run(plainly(checked))
    for wrong in ({"n0_": 4}, {"n1_": 0.5}):
        assert ROWS._database.ask(with_parameters(checked), numbers_of(checked) | wrong) != plain


def test_a_text_that_looks_like_a_parameter_is_a_text():
    checked = queries.read("share(s = '$n0_' or s = 'holdfast_number(''n0_'')' or a > 3)").check(ROWS.schema)
    assert with_parameters(checked).names == ("n0_",)
    plain = ROWS._database.run(plainly(checked))
    assert ROWS._database.ask(with_parameters(checked), numbers_of(checked)) == plain


def test_questions_that_differ_in_constants_are_compiled_once(monkeypatch):
    rows = ROWS.stored()
    compiled = []
    original = type(rows._database).tree
    monkeypatch.setattr(
        type(rows._database),
        "tree",
        lambda self, expression: (compiled.append(1), original(self, expression))[1],
    )
    values = RNG.normal(size=20).tolist()
    x = rows.frame(["x"])["x"].to_numpy()
    for value in values:
        sums = rows.sums(queries.read(f"share(x > {value!r})").check(rows.schema))
        assert sums.total == (x > value).sum()
    assert len(compiled) <= 2  # The expressions, and the sums around them.


@pytest.mark.parametrize("number", [3.0, 3.5, -0.25, 1e22])
def test_whole_numbers_and_fractions_have_patterns_of_their_own(number):
    checked = queries.read(f"share(a > {number})").check(ROWS.schema)
    whole = queries.read("share(a > 7)").check(ROWS.schema)
    assert (checked.pattern == whole.pattern) == (number == 3.0)


def test_whole_numbers_are_compared_as_whole_numbers():
    """A database skips blocks of whole numbers where it is given one."""
    numbers = queries.read("share(a > 3 and x < 0.25 and a < -4)").check(ROWS.schema).pattern.numbers
    assert sorted((number, type(number)) for number in numbers) == [(-4, int), (0.25, float), (3, int)]
