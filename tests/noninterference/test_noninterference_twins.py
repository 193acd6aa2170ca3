"""Sabotaged twins: each leak is restored by hand, and the same comparison notices it.

This shows that a comparison which finds no difference would have found these leaks.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from compared_sessions import account_session, table_session
from gossip import FAILING, PAST_PYTHON, TALKATIVE
from observe import differences, observe
from pairs import KINDS, ROWS, SHAPES, TEXT, make_pair, training_mask
from test_noninterference_boards import board_session
from test_noninterference_foreign import custom
from test_noninterference_opening import BROKEN, opened
from test_noninterference_strategies import same_cell

from holdfast import Guard
from holdfast.asking import AccountState, _asking, _clean_room
from holdfast.engines import _native, unsealed
from holdfast.errors import QueryRejected
from holdfast.guard import CodeHoldout, _setup
from holdfast.holdout import _parts

OF = {repr(kind): kind for kind in [*KINDS, *SHAPES]}


def _some(names, quick):
    """A few twins run always, the others with the slow tests."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def caught(*sessions) -> list[str]:
    """Where two sessions differ."""
    return differences(*(observe(session) for session in sessions))


def _tables_of(name):
    """The same session on the two tables of a kind. Half of the rows is set aside: polars drops what a
    smaller part does not need of its buffers."""
    kind, half = OF[name], 0.5
    tables = make_pair(kind.values, training=training_mask(share=half))
    asked = kind.values.questions[:1]
    return [table_session(partial(kind.build, table), asked, training_share=half) for table in tables]


# What the training part was once: the caller's table, with some rows left out.
MASKS = {
    "pandas": (("pandas", "DataFrame"), lambda table, places, public: table.iloc[places]),
    "polars": (("polars", "DataFrame"), lambda table, places, public: table[places]),
    "pyarrow": (("pyarrow", "Table"), lambda table, places, public: table.take(places)),
}


_CUT = (
    *("pandas category", "pandas CategoricalIndex", "pandas MultiIndex", "pandas attrs"),
    *("polars Categorical", "polars String", "polars List"),
    *("pyarrow dictionary", "pyarrow list of dictionary", "pyarrow metadata", "pyarrow pandas metadata"),
)


@pytest.mark.parametrize("name", _some(_CUT, ("pandas category", "polars String", "pyarrow dictionary")))
def test_a_training_part_cut_out_of_the_callers_table_is_caught(name, monkeypatch):
    place, cut = MASKS[name.partition(" ")[0]]
    source = _native._SOURCES[place]
    old = replace(source, native=replace(source.native, copy=cut))
    monkeypatch.setitem(_native._SOURCES, place, old)
    assert caught(*_tables_of(name))


@pytest.mark.parametrize("name", _some(("dict of lists", "dict of texts"), ("dict of lists",)))
def test_texts_as_wide_as_the_longest_of_all_are_caught(name, monkeypatch):
    def cut(data, places, public):
        return {column: np.asarray(values)[places] for column, values in data.items()}

    old = replace(_native._DICT, native=replace(_native._DICT.native, copy=cut))
    monkeypatch.setattr(_native, "_DICT", old)
    assert caught(*_tables_of(name))


def _told(place, tells):
    return [partial(place, columns=columns, tells=tells) for columns in make_pair(TEXT)]


@pytest.mark.parametrize("how", _some(TALKATIVE, ("prints when collected", "fails in a thread")))
def test_a_room_without_silence_is_caught(how, monkeypatch):
    monkeypatch.setattr(_clean_room, "_silence", SimpleNamespace(kept=contextlib.nullcontext))
    assert caught(*_told(custom, {how: TALKATIVE[how]}))


@pytest.mark.parametrize(
    ("part", "how"),
    [
        ("warnings", "warns"),
        ("warnings", "lets numpy warn"),
        ("logging", "logs"),
        ("redirect_stdout", "prints"),
        ("redirect_stderr", "prints to stderr"),
    ],
)
def test_a_room_that_is_silent_but_for_one_thing_is_caught(part, how, monkeypatch):
    """Every part of the silence is needed."""
    if part == "warnings":
        heard = SimpleNamespace(catch_warnings=contextlib.nullcontext, simplefilter=lambda action: None)
        monkeypatch.setattr(_clean_room, "warnings", heard)
        monkeypatch.setattr(
            _clean_room, "np", SimpleNamespace(errstate=lambda **settings: contextlib.nullcontext())
        )
    elif part == "logging":
        import logging

        heard = SimpleNamespace(disable=lambda level: None, root=logging.root)
        monkeypatch.setattr(_clean_room, "logging", heard)
    else:
        monkeypatch.setattr(_clean_room, part, lambda nowhere: contextlib.nullcontext())
        monkeypatch.setattr(_clean_room, "_point_elsewhere", lambda *arguments: None)
    assert caught(*_told(custom, {how: TALKATIVE[how]}))


@pytest.mark.parametrize("how", _some(PAST_PYTHON, ("starts a process",)))
def test_open_descriptors_are_caught(how, monkeypatch):
    monkeypatch.setattr(_clean_room, "_point_elsewhere", lambda *arguments: None)
    assert caught(*_told(custom, {how: PAST_PYTHON[how]}))


def _open_room(work, leaves, *, silent=False):
    with unsealed():
        return work()


# These two say the same whatever the values are.
_QUOTING = [how for how in FAILING if how not in ("returns NaN", "returns an array")]


@pytest.mark.parametrize("how", _some(_QUOTING, ("raises", "raises out of reach")))
def test_an_error_that_leaves_the_room_is_caught(how, monkeypatch):
    monkeypatch.setattr(_asking, "read_protected", _open_room)
    assert caught(*_told(custom, {how: FAILING[how]}))


@pytest.mark.parametrize("keep", ["__context__", "__notes__", "carried"])
def test_an_error_that_is_kept_behind_the_refusal_is_caught(keep, monkeypatch):
    """The words are discreet, and what stands behind them is not."""
    behind = []

    def telling_room(work, leaves, *, silent=False):
        try:
            with unsealed():
                return work()
        except Exception as error:
            behind[:] = [error]
            return _clean_room.Failed()

    def refused(*arguments, **options):
        error = not_computed(*arguments, **options)
        setattr(error, keep, behind[0] if keep == "__context__" else [str(behind[0])])
        return error

    not_computed = AccountState.not_computed
    monkeypatch.setattr(_asking, "read_protected", telling_room)
    monkeypatch.setattr(AccountState, "not_computed", refused)
    assert caught(*_told(custom, {"raises": FAILING["raises"]}))


def test_a_refusal_at_opening_that_quotes_is_caught(monkeypatch):
    def quoting(name, error):
        return QueryRejected(f"The column {name!r} cannot be read ({sys.exc_info()[1]}).")

    monkeypatch.setattr(_native, "unreadable_column", quoting)
    make, *values = BROKEN["a text among numbers"]
    assert caught(*(partial(opened, make=make, value=value) for value in values))


def test_a_refusal_at_opening_with_the_error_behind_it_is_caught(monkeypatch):
    def with_the_error(data, **options):
        try:
            return open_rows(data, **options)
        except QueryRejected as refusal:
            try:
                pa.array(data["s"])
            except pa.ArrowException as error:
                refusal.__context__ = error
            raise refusal

    open_rows = _setup.open_rows
    monkeypatch.setattr(_setup, "open_rows", with_the_error)
    make, *values = BROKEN["a text among numbers"]
    assert caught(*(partial(opened, make=make, value=value) for value in values))


def test_a_digest_of_the_rows_without_a_key_is_caught(monkeypatch):
    monkeypatch.setattr(_setup.Content, "under", lambda content, key: content.digest.hex())
    assert caught(*_tables_of("pandas float64"))
    nobody = np.zeros(ROWS, dtype=bool)
    tables = make_pair(TEXT, training=nobody, moved=False)
    boards = [partial(board_session, columns=t, plain="a", submitted=("all plain",)) for t in tables]
    assert caught(*boards)


def test_an_exact_count_beside_the_answer_is_caught(monkeypatch):
    """A number on the certificate that no price was paid for."""
    read = _asking.read_protected

    def generous(work, leaves, *, silent=False):
        outcome = read(work, leaves, silent=silent)
        outcome.released["numbers"]["seen"] = COUNTED.pop(0)
        return outcome

    sessions = [account_session(frame.copy, ("share(x > 3, guess = 0.5)",)) for frame in same_cell()]
    COUNTED = [int((frame["x"] > 3).sum()) for frame in same_cell()]
    assert not caught(*sessions)
    monkeypatch.setattr(_asking, "read_protected", generous)
    assert caught(*sessions)


def test_a_preview_that_looks_is_caught(monkeypatch):
    preview = Guard.cost_preview

    def looking(guard, query):
        with unsealed():
            seen = guard._setup.protected.rows.frame()["x"]
        return replace(preview(guard, query), guess=float((seen > 3).mean()))

    sessions = [account_session(frame.copy, ("share(x > 3, guess = 0.5)",)) for frame in same_cell()]
    monkeypatch.setattr(Guard, "cost_preview", looking)
    assert any("preview" in place for place in caught(*sessions))


def test_a_warning_that_is_remembered_is_caught(monkeypatch):
    """A warning that nobody sees is still in the register of the module that it came from."""

    @contextlib.contextmanager
    def remembering():
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("default")
            yield

    monkeypatch.setattr(_clean_room, "_silence", SimpleNamespace(kept=remembering))
    assert any("registries" in place for place in caught(*_told(custom, {"warns": TALKATIVE["warns"]})))


def test_a_file_that_is_left_behind_is_caught(monkeypatch):
    def leaving(content, key):
        Path("trace").write_bytes(content.digest)
        return under(content, key)

    under = _setup.Content.under
    monkeypatch.setattr(_setup.Content, "under", leaving)
    assert any("trace" in place for place in caught(*_tables_of("pandas float64")))


def test_live_rows_that_a_function_changes_are_caught(monkeypatch):
    """A slip of a function changes what is asked next: the same session with and without it."""
    mask = training_mask()
    table = pd.DataFrame(make_pair(TEXT)[0])[["x", "y"]].to_numpy()

    def slip(rows):
        with contextlib.suppress(ValueError):
            rows[rows[:, 1] == 0, 0] = 9
        return np.ones(len(rows))

    def session(look, function):
        holdout = CodeHoldout(table[mask], table[~mask].copy())
        look.must("first", holdout.ask, function)
        look.must("then", holdout.ask, lambda rows: rows[:, 0] > 3)

    def compared():
        changed = caught(partial(session, function=slip), partial(session, function=_ones))
        return [place for place in changed if place.startswith("then")]

    assert not compared()
    monkeypatch.setattr(_parts.RowsOf, "shown", lambda part: part._own)
    monkeypatch.setattr(_parts, "_copy", lambda data, argument, of: data)
    assert compared()


def _ones(rows):
    return np.ones(len(rows))


_ones.__name__ = "slip"
