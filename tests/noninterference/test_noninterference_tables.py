"""Tables of every kind: the training part and the answers show nothing of the protected rows besides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
from compared_sessions import table_session
from hypothesis import given
from hypothesis import strategies as st
from observe import assert_same, observe
from pairs import KINDS, RECORDS, SHAPES, TABLES, TEXT, Wide, make_pair

from contracts.examples import examples


@pytest.fixture(scope="module", autouse=True)
def _warm_kinds():
    """Some types fill caches when a column first has them."""
    for library in TABLES:
        observe(table_session(partial(Wide(library).build, 0)))


@pytest.mark.parametrize("library", TABLES)
def test_a_training_part_shows_nothing_of_the_protected_rows(library):
    wide = Wide(library)
    assert_same(*(observe(table_session(partial(wide.build, which), wide.questions)) for which in (0, 1)))


_QUICK = ("pandas CategoricalIndex", "pandas MultiIndex", "pyarrow pandas metadata")


@pytest.mark.parametrize(
    "shape", [pytest.param(s, marks=() if s.name in _QUICK else pytest.mark.slow) for s in SHAPES], ids=repr
)
def test_what_stands_beside_the_columns_shows_nothing_either(shape):
    tables = make_pair(shape.values)
    assert_same(*(observe(table_session(partial(shape.build, t), ("mean(x, 0, 9)",))) for t in tables))


DECLARED = sorted({"a", *map(str, TEXT.first), *map(str, TEXT.second)})


@pytest.mark.parametrize(
    "column",
    [
        lambda s: pd.Categorical(s, DECLARED, ordered=True),
        lambda s: pd.Series(s).astype(pd.CategoricalDtype(DECLARED)),
    ],
    ids=["ordered", "unordered"],
)
def test_categories_that_are_declared_public_reveal_nothing_else(column):
    """Both tables declare the same categories, and different ones occur among the protected rows."""

    def build(columns):
        return pd.DataFrame({**columns, "s": column(columns["s"])})

    options = {"public_categories": True}
    tables = make_pair(TEXT)
    assert_same(*(observe(table_session(partial(build, t), ("share(s = 'a')",), **options)) for t in tables))


def test_keys_that_only_protected_rows_have_are_not_revealed():
    """Arrow makes one type of all dicts of a column, with every key that occurs."""
    values = replace(RECORDS, second=[{"name": "c", "HIV": 1}])
    tables = [pd.DataFrame(columns) for columns in make_pair(values)]
    assert_same(*(observe(table_session(table.copy, ("share(s is null)",))) for table in tables))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *SHAPES], ids=repr)
@examples(10)
@given(data=st.data())
def test_nothing_is_seen_whatever_the_protected_rows_are(kind, data):
    pools = data.draw(kind.values.pools())
    tables = make_pair(kind.values, *pools, seed=data.draw(st.integers(0, 99)))
    assert_same(*(observe(table_session(partial(kind.build, t), kind.values.questions)) for t in tables))
