"""Nothing leaves a reading of protected rows but the priced output, and foreign code cannot change them."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard, ReusableHoldout, audit, tails
from holdfast.asking import Failed, _asking, _clean_room, read_protected
from holdfast.engines import sums_of_all, unsealed
from holdfast.errors import HoldfastError, QueryRejected
from holdfast.guard import CodeHoldout

SECRET = "unknown categories ['HIV']"
ROWS = 400


class Oops(BaseException):
    """Not an Exception: a careless ``except Exception`` lets it pass."""


def warn() -> None:
    warnings.warn(SECRET, UserWarning, stacklevel=2)


def divide() -> None:
    np.float64(1.0) / np.float64(0.0)
    np.exp(np.array([1e9]))


def write() -> None:
    print(SECRET)
    print(SECRET, file=sys.stderr)
    sys.__stdout__.write(SECRET)  # type: ignore[union-attr]
    os.write(1, SECRET.encode())
    os.write(2, SECRET.encode())
    ctypes.CDLL(None).puts(SECRET.encode())
    subprocess.run([sys.executable, "-c", f"print({SECRET!r})"], check=True)


def log() -> None:
    logging.getLogger("a library").error(SECRET)
    logging.getLogger("a library").log(logging.CRITICAL + 10, SECRET)


def fail() -> None:
    raise ValueError(SECRET)


def leave() -> None:
    raise SystemExit(SECRET)


def interrupt() -> None:
    raise KeyboardInterrupt(SECRET)


def oops() -> None:
    raise Oops(SECRET)


SPEAKS = [warn, divide, write, log]
FAILS = [fail, leave, interrupt, oops]


def everything_said(error: BaseException | None) -> str:
    words: list[str] = []
    while error is not None:
        words += [str(error), repr(error), *getattr(error, "__notes__", [])]
        error = error.__cause__ or error.__context__
    return "\n".join(words)


class Model:
    """A fitted model that does something when it sees protected rows, which it tells by their number."""

    def __init__(self, act: Callable[[], None], protected: int) -> None:
        self.act = act
        self.protected = protected
        self.classes_ = np.array([0, 1])

    def predict(self, frame: pd.DataFrame) -> Any:
        if len(frame) == self.protected:
            self.act()
        return np.zeros(len(frame), dtype=int)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=ROWS), "y": rng.integers(0, 2, ROWS)})


def score(act: Callable[[], None]) -> object:
    guard = Guard(table(), training_share=0.4)
    return guard.score(Model(act, guard.rows), target="y", name="model")


def custom(act: Callable[[], None]) -> object:
    guard = Guard(table(), training_share=0.4)

    def mean(frame: pd.DataFrame) -> float:
        if len(frame) == guard.rows:
            act()
        return float(frame["x"].mean())

    return guard.custom(mean, tail=tails.SubGaussian(0.1))


def holdout_of(kind: Any, act: Callable[[], None], **terms: Any) -> object:
    rng = np.random.default_rng(0)
    train, protected = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS + 1, 2))

    def positive(rows: Any) -> Any:
        if len(rows) == ROWS + 1:
            act()
        return rows[:, 0] > 0

    return kind(train, protected, **terms).ask(positive)


def code_holdout(act: Callable[[], None]) -> object:
    return holdout_of(CodeHoldout, act)


def reusable_holdout(act: Callable[[], None]) -> object:
    return holdout_of(ReusableHoldout, act, threshold=0.2, noise=0.1, budget=3)


DOORS = [score, custom, code_holdout, reusable_holdout]


@pytest.mark.parametrize("act", SPEAKS)
@pytest.mark.parametrize("door", DOORS)
def test_output_of_foreign_code_is_dropped(
    door: Callable[..., object],
    act: Callable[[], None],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        spoken = door(act)
        silent = door(lambda: None)
    assert heard == []
    # Spark's client logs when its objects are collected, whoever runs then.
    records = [record for record in caplog.records if not record.name.startswith("py4j")]
    assert (records, capfd.readouterr()) == ([], ("", ""))
    if door is not reusable_holdout:  # whose threshold is noisy
        assert repr(spoken) == repr(silent)


@pytest.mark.parametrize("act", FAILS)
@pytest.mark.parametrize("door", DOORS)
def test_any_failure_says_the_same(door: Callable[..., object], act: Callable[[], None]) -> None:
    texts = []
    for failing in (act, fail):
        with pytest.raises(QueryRejected) as refused:
            door(failing)
        assert "HIV" not in everything_said(refused.value)
        texts.append(str(refused.value))
    assert texts[0] == texts[1]


def test_an_error_filter_of_the_caller_makes_no_failure() -> None:
    """Under ``-W error`` a warning is an exception: whether it is raised would depend on protected rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spoken = score(warn)
    assert repr(spoken) == repr(score(lambda: None))


def test_only_the_named_type_leaves() -> None:
    assert read_protected(lambda: "rows", str) == "rows"
    assert read_protected(lambda: "rows", int) == Failed()  # type: ignore[arg-type]
    assert read_protected(lambda: 1 // 0, int) == Failed()


def test_silence_ends_with_the_reading(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for act in (*SPEAKS, *FAILS):
        read_protected(act, type(None), silent=True)
    print("still here")
    logging.getLogger("a library").error("still logged")
    with pytest.warns(UserWarning, match="still warned"):
        warnings.warn("still warned", stacklevel=1)
    assert capfd.readouterr().out == "still here\n"
    assert caplog.messages == ["still logged"]


@pytest.mark.parametrize("act", [write, log, warn])
def test_a_room_without_silence_is_caught(
    act: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The twin: the same reading, heard."""

    def loud(work: Callable[[], Any], leaves: type, *, silent: bool = False) -> Any:
        return read_protected(work, leaves, silent=False)

    monkeypatch.setattr(_asking, "read_protected", loud)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        score(act)
    said = capfd.readouterr()
    assert SECRET in said.out + said.err + caplog.text + "".join(str(warning.message) for warning in heard)


def test_a_room_that_catches_exceptions_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(work: Callable[[], Any], leaves: type, *, silent: bool = False) -> Any:
        try:
            with unsealed():
                return work()
        except Exception:
            return Failed()

    monkeypatch.setattr(_asking, "read_protected", careless)
    with pytest.raises(Oops, match="HIV"):
        score(oops)


@pytest.mark.parametrize("kind", [CodeHoldout, ReusableHoldout])
@pytest.mark.parametrize("shape", ["array", "frame", "list"])
def test_functions_cannot_change_the_holdout(kind: Any, shape: str) -> None:
    """A slip in a function changed the rows, and the next answer was about other rows."""
    rng = np.random.default_rng(1)
    train, protected = rng.integers(0, 2, size=(2, 5_000))
    as_shape: dict[str, Callable[[Any], Any]] = {
        "array": lambda values: values,
        "frame": lambda values: pd.DataFrame({"x": values}),
        "list": lambda values: values.tolist(),
    }
    terms = {} if kind is CodeHoldout else {"threshold": 0.2, "noise": 0.001, "budget": 3}
    holdout = kind(as_shape[shape](train), as_shape[shape](protected), **terms)

    def slip(rows: Any) -> Any:
        if shape == "frame":
            rows.loc[:, "x"] = 1
        else:
            rows[:] = np.ones(len(rows)) if shape == "array" else [1] * len(rows)
        return np.ones(len(rows))

    try:
        holdout.ask(slip)
    except ValueError as error:
        assert "read-only" in str(error)  # noqa: PT017
    answer = holdout.ask(lambda rows: np.asarray(rows, dtype=float).reshape(-1))
    assert answer.low < 0.5 < answer.high
    assert answer.high < 0.9


def test_changes_to_the_callers_array_do_not_reach_the_holdout() -> None:
    train, protected = np.zeros(2_000), np.zeros(2_000)
    holdout = CodeHoldout(train, protected)
    protected[:] = 1
    assert holdout.ask(lambda rows: rows).value < 0.1


def test_models_and_statistics_get_rows_of_their_own() -> None:
    guard = Guard(table(), training_share=0.4)

    class Slips(Model):
        def predict(self, frame: pd.DataFrame) -> Any:
            frame.loc[:, "x"] = 99.0
            frame.to_numpy(copy=False)
            return np.zeros(len(frame), dtype=int)

    def slips(frame: pd.DataFrame) -> float:
        frame.loc[:, "x"] = 99.0
        return 0.0

    guard.score(Slips(lambda: None, guard.rows), target="y")
    guard.custom(slips, tail=tails.SubGaussian(0.1), guess=0.0)
    assert guard.share("x < 50").value > 0.9


def test_a_pipeline_under_audit_cannot_change_the_data() -> None:
    data = np.arange(50.0)

    def slips(rows: Any) -> bool:
        conclusion = bool(rows.mean() > 10)
        rows[:] = 0
        return conclusion

    finding = audit.stability(slips, data, trials=20, workers=1)
    assert data.sum() == 1225
    assert finding.estimate == 0


def test_a_failure_is_charged_and_the_account_continues() -> None:
    guard = Guard(table(), training_share=0.4)
    with pytest.raises(HoldfastError, match="could not be computed"):
        guard.score(Model(interrupt, guard.rows), target="y")
    assert guard.spent > 0
    assert guard.share("x > 0").value > 0


def test_a_reading_inside_a_reading_is_silent_too_and_none_waits_for_another(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A function that has another guard asked in a thread, and waits for it."""
    first, second = Guard(table(), training_share=0.4), Guard(table(), training_share=0.4)

    def inner(frame: pd.DataFrame) -> float:
        print(SECRET)
        return 0.0

    def outer(frame: pd.DataFrame) -> float:
        if len(frame) == first.rows:
            thread = threading.Thread(
                target=lambda: second.custom(inner, tail=tails.SubGaussian(0.1), guess=0.0)
            )
            thread.start()
            thread.join(timeout=60)
            assert not thread.is_alive()
            print(SECRET)
        return 0.0

    assert first.custom(outer, tail=tails.SubGaussian(0.1), guess=0.0).value == 0
    print("heard again")
    assert capfd.readouterr() == ("heard again\n", "")


@pytest.mark.parametrize(
    "read",
    [
        lambda rows, question: rows.frame(),
        lambda rows, question: rows.native(),
        lambda rows, question: rows.content(),
        lambda rows, question: rows.first(3),
        lambda rows, question: rows.stored(),
        lambda rows, question: rows.block(0, 3).frame(),
        lambda rows, question: rows.nullable_columns(),
        lambda rows, question: rows.sums(question),
        lambda rows, question: sums_of_all(rows, [question], [False]),
        lambda rows, question: rows.order_statistics(question, lambda count: [1]),
    ],
)
def test_protected_rows_are_sealed_outside_the_room(read: Callable[[Any, Any], object]) -> None:
    guard = Guard(table())
    rows = guard._setup.protected.rows
    question = guard._questions.read("mean(x, 0, 1)").checked
    with pytest.raises((RuntimeError, QueryRejected)):
        read(rows, question)
    assert not isinstance(read_protected(lambda: read(rows, question), object), Failed)
    assert guard.train is not None
    assert guard.share("x > 0").value > 0


def test_a_holdout_is_sealed_outside_the_room() -> None:
    rng = np.random.default_rng(0)
    for data in (rng.normal(size=(ROWS, 2)), table()):
        holdout = CodeHoldout(data, data)._parts.holdout
        with pytest.raises(RuntimeError, match="sealed"):
            holdout.shown()
        assert not isinstance(read_protected(holdout.shown, object), Failed)


@pytest.mark.parametrize("strategy", ["code", "grid-code", "typical-gaussian", "transfer-gaussian", "split"])
def test_every_strategy_reads_in_the_room(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with a room that does not lift the seal, no question is answered."""
    counted = {} if strategy == "code" else {"queries": 3}

    def ask() -> object:
        return Guard(table(), strategy=strategy, **counted).share("x > 0")

    assert ask() is not None
    monkeypatch.setattr(_clean_room, "unsealed", nullcontext)
    with pytest.raises(QueryRejected, match="could not be computed"):
        ask()
