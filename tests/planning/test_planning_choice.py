"""When noise is the right choice and when not: what plans say about kinds of questions, and guards do."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import Guard, plan
from holdfast.dependence import Clusters, GaussianRows
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.tails import SubGaussian

ROWS = 2_000
STRATEGIES = (
    *("code", "agreed-code", "grid-code", "split"),
    *("typical-laplace", "typical-gaussian", "transfer-gaussian"),
)
ASK = {
    "means": lambda guard: guard.share("x > 0.5", guess=0.5),
    "filtered": lambda guard: guard.share("x > 0.5", where="y > 0.1", guess=0.5),
    "quantiles": lambda guard: guard.quantile("x", 0.5, guess=0.5),
    "custom": lambda guard: guard.custom(lambda rows: rows["x"].mean(), tail=SubGaussian(0.01), guess=0.5),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_says_which_questions_a_guard_answers(strategy, rng):
    table = {"x": rng.random(ROWS), "y": rng.random(ROWS)}
    answers = plan(queries=10, confidence=0.95, rows=ROWS).method(strategy).answers
    options = {} if strategy == "code" else {"queries": 10}
    if strategy == "agreed-code":
        options["surprises"] = 3
    for kind, ask in ASK.items():
        guard = Guard(table, strategy=strategy, **options)
        if kind in answers:
            assert ask(guard).low < 0.6
        else:
            with pytest.raises(QueryRejected):
                ask(guard)
            assert guard.spent == 0


@pytest.mark.parametrize("dependence", [None, Clusters([4] * 500)], ids=["independent", "clusters"])
@pytest.mark.parametrize("k", [3, 10, 100])
def test_noise_calibrated_to_concentration_is_wider_than_cells_and_says_so(k, dependence):
    made = plan(queries=k, confidence=0.95, rows=ROWS, dependence=dependence)
    cells = made.method("grid-code")
    for name in ("typical-gaussian", "typical-laplace"):
        noisy = made.method(name)
        assert noisy.error > 1.7 * cells.error
        assert "grid-code is narrower" in noisy.note
        assert made.table.index(noisy) > made.table.index(cells)
    assert made.best.name not in ("typical-gaussian", "typical-laplace")
    assert "grid-code is narrower" in str(made)
    assert not cells.note


def test_noise_is_recommended_for_what_cells_do_not_answer():
    dependent = plan(queries=100, confidence=0.95, dependence=Clusters([4] * 5_000))
    assert dependent.best.name == "grid-code"
    assert dependent.best_for("means") is dependent.best
    assert dependent.best_for("filtered").name == "typical-gaussian"
    assert dependent.best_for("custom").name == "typical-gaussian"
    assert "typical-gaussian for filtered questions" in str(dependent)
    assert "code answers every kind" in dependent._repr_html_()
    unbounded = plan(queries=10, confidence=0.95, dependence=GaussianRows(np.eye(50)))
    assert unbounded.best.name == "typical-laplace"
    assert unbounded.best.answers == ("custom",)
    assert unbounded.best_for("means") is None
    assert unbounded.other_questions() == ""
    stated = plan(queries=100, confidence=0.95, dependence=Clusters([4] * 5_000), surprises=3)
    assert stated.best_for("custom").name == "code"


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidArgument, match="'filtered'"):
        plan(queries=3, confidence=0.95, rows=100).best_for("magic")


def test_promises_that_are_alike_put_the_method_without_noise_first():
    single = plan(queries=1, confidence=0.95, dependence=Clusters([4] * 5_000))
    assert single.best.name == "grid-code"
    assert single.method("typical-gaussian").error == pytest.approx(single.best.error, rel=1e-4)
