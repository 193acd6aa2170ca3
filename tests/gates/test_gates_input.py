"""What a gate refuses: a sentence each, nothing charged, nothing written, and no score in it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast import Gate
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.ledger import Book, BookError
from holdfast.results import Results

INCUMBENT = {f"t{task}": int(task < 70) for task in range(100)}
SECRET = 0.123_456_789


def results_of(scores, name):
    return Results(scores, dict.fromkeys(scores, 1), None, None, "csv", "", name)


def changed(**scores):
    return {**INCUMBENT, **scores}


BAD_SCORES = [
    math.nan, math.inf, -math.inf, 1.000_001, -1e-9, 2, -1, 10**400, "no", None, object(), [], [0.5, 1.5],
    [1, math.nan], [None], {}, b"x", 1j, np.array([[2.0]]), np.nan,
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_SCORES, ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize("kind", ["binary", "fractions"])
def test_a_score_outside_its_range_is_refused_without_saying_which(bad, kind):
    book = Book()
    gate = Gate(None, incumbent=INCUMBENT, scores=kind, ledger=book)
    lines = len(list(book.events()))
    messages = set()
    for task in ("t31", "t62"):
        with pytest.raises(QueryRejected, match="from 0 to 1") as refusal:
            gate.submit(changed(**{task: bad}), name="bad")
        messages.add(str(refusal.value))
    assert len(messages) == 1
    assert gate.spent == 0
    assert len(list(book.events())) == lines
    assert gate.submit(INCUMBENT, name="bad").place == 1  # The name is still free.


def test_fractions_are_refused_where_every_score_is_zero_or_one():
    gate = Gate(None, incumbent=INCUMBENT)
    with pytest.raises(QueryRejected, match="scores='fractions'") as refusal:
        gate.submit(changed(t3=SECRET), name="half")
    assert str(SECRET) not in str(refusal.value)
    assert gate.spent == 0


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({}, "100 of 100 tasks are missing from the scores, for example 't0'"),
        ({name: 1 for name in INCUMBENT if name != "t7"}, "1 of 100 tasks are missing .* 't7'"),
        (changed(extra=1), "1 task that this gate does not know, for example 'extra'. Another task set"),
        (changed(extra=1, other=0), "2 tasks that this gate does not know"),
        (dict.fromkeys(map(str, range(100)), 1), "100 of 100 tasks are missing"),
    ],
)
def test_tasks_that_do_not_fit(scores, words):
    gate = Gate(None, incumbent=INCUMBENT)
    with pytest.raises(QueryRejected, match=words):
        gate.submit(scores, name="c")
    assert gate.spent == 0
    assert gate.history == ()


@pytest.mark.parametrize("scores", [None, 5, "abc", [1, 0], np.ones(100), iter([1])])
def test_scores_are_a_mapping_or_results(scores):
    gate = Gate(None, incumbent=INCUMBENT)
    with pytest.raises(InvalidArgument, match=r"'scores' argument of Gate\.submit must be a mapping"):
        gate.submit(scores)
    with pytest.raises(InvalidArgument, match="'incumbent' argument of Gate must be a mapping"):
        Gate(["a"], incumbent=scores)


def test_ids_that_are_the_same_as_text():
    with pytest.raises(QueryRejected, match="same as text, such as 1 and '1'"):
        Gate([str(i) for i in range(10)], incumbent={**{str(i): 1 for i in range(10)}, 1: 0})
    with pytest.raises(QueryRejected, match="2 task ids occur more than once, for example 'a'"):
        Gate(["a", "b", "a", "b", "c"], incumbent={"a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize("tasks", [5, "abc", b"abc", [], 1.5])
def test_tasks_are_a_sequence_of_ids(tasks):
    with pytest.raises(InvalidArgument, match="'tasks' argument of Gate"):
        Gate(tasks, incumbent=INCUMBENT)


@pytest.mark.parametrize("name", ["", "a\nb", "a\tb", "x" * 201, "a\u202eb", 5, 0, b"v2", True])
def test_names_are_one_printable_line(name):
    with pytest.raises(InvalidArgument, match="'name' argument of Gate must be a printable text"):
        Gate(None, incumbent=INCUMBENT, name=name)
    gate = Gate(None, incumbent=INCUMBENT)
    with pytest.raises(InvalidArgument, match="'name' argument"):
        gate.submit(INCUMBENT, name=name)
    with pytest.raises(InvalidArgument, match="'name' argument"):
        gate.submit(results_of(INCUMBENT, name))
    assert gate.spent == 0


@pytest.mark.parametrize(
    ("terms", "argument"),
    [
        ({"promise": "each"}, "promise"),
        ({"weight": "both"}, "weight"),
        ({"scores": "points"}, "scores"),
        ({"inputs": "secret"}, "inputs"),
        *[({"confidence": bad}, "confidence") for bad in (0, 1, -0.1, 1.5, math.nan, "0.95", None)],
        *[({"minimum": bad}, "minimum") for bad in (-0.1, 1, math.nan, "0")],
        *[({"expect": bad}, "expect") for bad in (0, -1, math.nan, 1e10, "20")],
        ({"clusters": [1, 2]}, "clusters"),
        ({"outputs": 5}, "outputs"),
        ({"outputs": ["a"]}, "outputs"),
    ],
)
def test_terms_outside_their_range(terms, argument, tmp_path):
    with pytest.raises(InvalidArgument, match=f"'{argument}' argument of Gate"):
        Gate(None, incumbent=INCUMBENT, ledger=tmp_path / "gate", **terms)
    assert not (tmp_path / "gate").exists()


def test_zero_or_one_is_not_for_fractions_or_clusters():
    with pytest.raises(InvalidArgument, match="'fractions' where a score is neither 0 nor 1"):
        Gate(None, incumbent=changed(t1=0.5), scores="binary")
    with pytest.raises(InvalidArgument, match="'fractions' with public inputs"):
        Gate(None, incumbent=INCUMBENT, scores="binary", inputs="public")
    with pytest.raises(InvalidArgument, match="'fractions' with clusters"):
        Gate(None, incumbent=INCUMBENT, scores="binary", clusters={name: name for name in INCUMBENT})


@pytest.mark.parametrize("argument", ["clusters", "outputs"])
def test_clusters_and_outputs_are_for_exactly_these_tasks(argument):
    most = {name: name for name in INCUMBENT if name != "t5"}
    with pytest.raises(QueryRejected, match=f"1 of 100 tasks are missing from the {argument}") as refusal:
        Gate(None, incumbent=INCUMBENT, **{argument: most})
    assert "score" not in str(refusal.value)
    with pytest.raises(QueryRejected, match=f"The {argument} have 1 task that this gate does not know"):
        Gate(None, incumbent=INCUMBENT, **{argument: dict.fromkeys([*INCUMBENT, "extra"], 1)})


@pytest.mark.parametrize("outputs", [5, "abc", {"t1": "a"}, {**dict.fromkeys(INCUMBENT, "a"), "extra": "b"}])
def test_outputs_of_a_candidate(outputs):
    gate = Gate(None, incumbent=INCUMBENT, outputs=dict.fromkeys(INCUMBENT, "a"))
    with pytest.raises(HoldfastError, match="outputs"):
        gate.submit(INCUMBENT, name="c", outputs=outputs)
    assert gate.spent == 0


@pytest.mark.parametrize(
    ("terms", "differing"),
    [
        ({"tasks": [f"t{task}" for task in range(99)]}, "tasks"),
        ({"incumbent": changed(t0=0)}, "incumbent"),
        ({"confidence": 0.9}, "confidence"),
        ({"promise": "fdr"}, "promise"),
        *[
            (terms, "definition")
            for terms in (
                {"step": 0.01},
                {"minimum": 0.01},
                {"inputs": "public"},
                {"expect": 20},
                {"scores": "fractions"},
                {"clusters": {name: name for name in INCUMBENT}},
                {"name": "v0"},
            )
        ],
    ],
)
def test_other_terms_are_another_gate(terms, differing, tmp_path):
    Gate(None, incumbent=INCUMBENT, ledger=tmp_path / "gate").close()
    given = {"tasks": None, "incumbent": INCUMBENT, **terms}
    if given["tasks"] is not None:
        given["incumbent"] = {task: INCUMBENT[task] for task in given["tasks"]}
    with pytest.raises(BookError, match=rf"opened with other terms \(.*{differing}.* differ\)") as refusal:
        Gate(ledger=tmp_path / "gate", **given)
    assert "t0" not in str(refusal.value)
    gate = Gate(None, incumbent=INCUMBENT, ledger=tmp_path / "gate")
    assert gate.spent == 0


def test_there_is_no_gate_there(tmp_path):
    with pytest.raises(QueryRejected, match=r"There is no gate at .*holdfast gate open"):
        Gate.at(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    empty = Book(tmp_path / "empty")
    with pytest.raises(BookError, match="is not that of a gate"):
        Gate.at(empty)


@pytest.mark.parametrize(
    "given", [[0, 1, 1], (0.0, 1.0, 1), np.array([0, 1, 1])], ids=lambda given: type(given).__name__
)
def test_repeats_are_averaged(given):
    gate = Gate(None, incumbent=results_of(changed(t99=given), "from results"))
    assert gate.incumbent.name == "from results"
    with pytest.raises(QueryRejected):
        gate.declare_seen(1)  # Averages are fractions.
    score = gate.report().versions[0]["score"]
    assert score == pytest.approx((70 + 2 / 3) / 100)
