"""The plan: stated numbers, both directions, honest recommendations, promises recomputed from parameters."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import planning_oracle as oracle
import pytest

from holdfast.dependence import (
    Blocks,
    Clusters,
    DependencyGraph,
    GaussianRows,
    Independent,
    MarkovChain,
    MDependent,
    Mixing,
)
from holdfast.errors import InvalidArgument
from holdfast.planning import Plan, PlanEntry, plan
from holdfast.stability import split_error, transfer_error

NAMES = {
    "split",
    "code",
    "agreed-code",
    "grid-code",
    "typical-laplace",
    "typical-gaussian",
    "transfer-gaussian",
    "reusable-holdout",
    "naive",
}
CODES = {"code", "agreed-code", "grid-code"}
CHAIN = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=20_000)


def broken(entry: PlanEntry, confidence: float) -> list[str]:
    """The conditions of an entry's promise that fail when it is computed again."""
    p, n, error = entry.parameters, entry.rows, entry.error
    sigma = 0.5 / math.sqrt(n)
    if entry.name == "split":
        hoeffding = math.sqrt(math.log(2 * p["k"] / (1 - confidence)) / (2 * p["rows_per_query"]))
        fits = hoeffding <= error * (1 + 1e-9) and p["rows_per_query"] * p["k"] <= n
        return [] if fits else ["hoeffding"]
    if entry.name == "typical-gaussian":
        return oracle.gaussian_broken(p, sigma, error, confidence)
    if entry.name == "typical-laplace":
        return oracle.laplace_broken(p, sigma, error, confidence)
    if entry.name in ("information", "transfer-gaussian") and p["method"] == "information":
        return oracle.information_broken(p, n, error, confidence)
    if entry.name == "jung":
        return oracle.jung_broken(p, n, error, confidence)
    if entry.name == "code":
        assert p["protected_rows"] + p["training_rows"] == n
        return oracle.code_broken(p, error, confidence)
    if entry.name in ("agreed-code", "grid-code"):
        protected = p.get("protected_rows", n)
        assert entry.name == "grid-code" or protected + p["training_rows"] == n
        return oracle.agreed_broken(p, protected, error, confidence)
    assert entry.name == "reusable-holdout"
    return oracle.holdout_broken(p, n, error, confidence)


def promises(found: Plan) -> list[PlanEntry]:
    entries = [entry for entry in found.table if entry.name != "naive" and entry.error < 1 and entry.queries]
    return entries + list(found.method("transfer-gaussian").variants.values())


@pytest.mark.parametrize(
    ("rows", "k", "split", "transfer", "jung"),
    [
        (10**4, 10, 0.055, 0.075, 0.124),
        (10**5, 100, 0.064, 0.044, 0.073),
        (10**6, 10**4, 0.254, 0.049, 0.078),
    ],
)
def test_the_stated_errors(rows, k, split, transfer, jung):
    found = plan(queries=k, confidence=0.95, rows=rows)
    assert found.method("split").error == pytest.approx(split, abs=5e-4)
    assert found.method("transfer-gaussian").error == pytest.approx(transfer, abs=5e-4)
    assert found.method("transfer-gaussian").variants["jung"].error == pytest.approx(jung, abs=5e-4)
    assert found.method("transfer-gaussian").paper.error == pytest.approx(jung, abs=5e-4)


@pytest.mark.parametrize(
    ("rows", "k", "most"), [(10**5, 2000, 0.1), (10**6, 148_480, 0.1), (10**6, 25_216, 0.0625)]
)
def test_transfer_meets_the_stated_errors_in_time(rows, k, most):
    start = time.process_time()
    found = plan(queries=k, confidence=0.95, rows=rows)
    assert time.process_time() - start < 2.0
    assert found.method("transfer-gaussian").error <= most
    fit = plan(queries=k, confidence=0.95, rows=rows, error=most)
    assert fit.method("transfer-gaussian").queries >= k


def test_at_high_confidence_privacy_beats_information():
    """Information pays 1/β and privacy ln(1/β): the planner takes the better at every confidence."""
    found = plan(queries=100, confidence=1 - 1e-9, rows=10**7).method("transfer-gaussian")
    assert found.variants["jung"].error < found.variants["information"].error / 10
    assert found.error == found.variants["jung"].error
    needed = plan(queries=100, confidence=1 - 1e-9, error=0.05).method("transfer-gaussian")
    assert needed.rows == needed.variants["jung"].rows < needed.variants["information"].rows / 10
    assert transfer_error(needed.rows, 100, 1 - (1 - 1e-9), method="jung").error <= 0.05


def test_rows_for_a_thousand_questions_with_ten_surprises():
    found = plan(queries=1000, confidence=0.95, error=0.1, surprises=10)
    assert found.best.name == "agreed-code"
    assert found.best.rows < 0.8 * found.method("code").rows
    assert found.method("reusable-holdout").paper.rows == 14_631_558
    assert found.method("reusable-holdout").rows <= 2_610_000
    assert found.method("typical-laplace").paper.rows > 1000 * found.method("typical-laplace").rows


@pytest.mark.parametrize("surprises", [0, 7])
@pytest.mark.parametrize(("rows", "k"), [(2_000_000, 20), (100_000, 100), (5000, 3), (300, 1)])
def test_every_promise_from_rows_holds_when_recomputed(rows, k, surprises):
    found = plan(queries=k, confidence=0.95, rows=rows, surprises=min(surprises, k))
    for entry in promises(found):
        assert broken(entry, 0.95) == [], entry.name


@pytest.mark.parametrize("k", [1, 40, 1000])
def test_every_promise_from_an_error_holds_when_recomputed(k):
    found = plan(queries=k, confidence=0.9, error=0.07, surprises=1)
    assert len(promises(found)) == 10
    for entry in promises(found):
        assert broken(entry, 0.9) == [], entry.name


def test_every_promise_from_both_holds_when_recomputed():
    found = plan(queries=10, confidence=0.99, error=0.08, rows=60_000, surprises=2)
    for entry in promises(found):
        assert entry.queries > 0
        assert broken(entry, 0.99) == [], entry.name


def test_a_plan_with_half_the_radius_is_refused():
    found = plan(queries=1000, confidence=0.95, rows=10**6)
    for name, check in (
        ("typical-gaussian", oracle.gaussian_broken),
        ("typical-laplace", oracle.laplace_broken),
    ):
        entry = found.method(name)
        p = dict(entry.parameters)
        assert check(p, 0.5e-3, entry.error, 0.95) == []
        p["radius"] /= 2
        assert "trade-off" in check(p, 0.5e-3, entry.error, 0.95)


@pytest.mark.parametrize("name", ["agreed-code", "grid-code"])
def test_a_plan_with_a_smaller_error_or_a_stage_too_few_is_refused(name):
    entry = plan(queries=60, confidence=0.95, rows=30_000, surprises=4).method(name)
    p = entry.parameters
    protected = p.get("protected_rows", 30_000)
    assert oracle.agreed_broken(p, protected, entry.error, 0.95) == []
    assert oracle.agreed_broken(p, protected, entry.error * 0.999, 0.95) != []
    assert "stages" in oracle.agreed_broken({**p, "cells": p["cells"][1:]}, protected, entry.error, 0.95)
    if name == "agreed-code":
        narrow = {**p, "half_cell": p["half_cell"] / 2}
        assert oracle.agreed_broken(narrow, protected, entry.error, 0.95) == ["guesses"]


@pytest.mark.parametrize("name", sorted(NAMES - {"reusable-holdout"}))
def test_directions_agree(name):
    rows = plan(queries=50, confidence=0.95, error=0.1, surprises=2).method(name).rows
    assert plan(queries=50, confidence=0.95, rows=rows, surprises=2).method(name).error <= 0.1
    assert plan(queries=50, confidence=0.95, rows=rows, surprises=2, error=0.1).method(name).queries >= 50
    fewer = rows - 50 if name == "split" else math.floor(rows * 0.998) - 1
    assert plan(queries=50, confidence=0.95, rows=fewer, surprises=2).method(name).error > 0.1


def test_directions_agree_for_the_reusable_holdout():
    rows = plan(queries=50, confidence=0.95, error=0.4, surprises=2).method("reusable-holdout").rows
    assert plan(queries=50, confidence=0.95, rows=rows, surprises=2).method(
        "reusable-holdout"
    ).error == pytest.approx(0.4, rel=1e-4)
    there = plan(queries=50, confidence=0.95, rows=rows, surprises=2, error=0.4).method("reusable-holdout")
    assert there.queries == pytest.approx(50, abs=1)


def test_how_many_fit_is_the_largest_number():
    found = plan(queries=1, confidence=0.95, rows=100_000, error=0.1)
    split = found.method("split").queries
    assert split_error(100_000, split, 0.05) <= 0.1 < split_error(100_000, split + 1, 0.05)
    moved = found.method("transfer-gaussian").queries
    assert transfer_error(100_000, moved, 0.05).error <= 0.1 < transfer_error(100_000, moved + 1, 0.05).error
    jung = found.method("transfer-gaussian").variants["jung"].queries
    assert jung == pytest.approx(322, abs=2)
    assert transfer_error(100_000, jung, 0.05, method="jung").error <= 0.1


def test_the_best_is_valid_and_needs_nothing_that_was_not_stated():
    for surprises in (None, 0, 5):
        for given in ({"rows": 50_000}, {"error": 0.1}, {"rows": 50_000, "error": 0.1}):
            found = plan(queries=100, confidence=0.95, surprises=surprises, **given)
            assert {entry.name for entry in found.table} == NAMES
            assert found.best is found.table[0]
            assert found.best.valid
            assert not found.best.unstated
            assert found.best.name != "naive"
            assert (found.best.name in ("code", "agreed-code")) == (surprises is not None)
    assert not found.method("naive").valid


def test_the_code_guard_is_not_recommended_on_a_forecast():
    silent = plan(queries=100, confidence=0.95, rows=50_000)
    code = silent.method("code")
    assert code.valid
    assert code.error < silent.best.error
    assert "surprises" in code.unstated
    agreed = silent.method("agreed-code")
    assert agreed.valid
    assert "surprises" in agreed.unstated
    stated = plan(queries=100, confidence=0.95, rows=50_000, surprises=0)
    assert stated.method("code").recommendable
    assert stated.best.error <= stated.method("agreed-code").error < silent.method("agreed-code").error * 1.01


@pytest.mark.parametrize(
    ("model", "valid"),
    [
        (CHAIN, CODES | {"typical-laplace", "typical-gaussian", "reusable-holdout"}),
        (Clusters([4] * 5000), CODES | {"typical-laplace", "typical-gaussian", "reusable-holdout"}),
        (MDependent(20_000, 3), CODES | {"typical-laplace", "typical-gaussian", "reusable-holdout"}),
        (GaussianRows(np.eye(50)), {"typical-laplace", "typical-gaussian"}),
        (DependencyGraph([(0, 1), (1, 2)], n=3000), CODES | {"typical-laplace", "typical-gaussian"}),
        (Independent(20_000), NAMES - {"naive"}),
    ],
)
def test_only_what_holds_for_the_model_is_valid(model, valid):
    found = plan(queries=20, confidence=0.95, dependence=model, surprises=1)
    assert found.rows == model.n
    assert {entry.name for entry in found.table if entry.valid} == valid
    assert found.best.name in valid
    for entry in found.table:
        assert bool(entry.reason) == (not entry.valid)
        assert set(model.assumptions) <= set(entry.assumptions)
    json.dumps(found.to_dict(), allow_nan=False)


def test_dependent_rows_use_the_tail_of_their_model():
    found = plan(queries=50, confidence=0.95, dependence=CHAIN)
    p = found.method("typical-gaussian").parameters
    tail = CHAIN.mean_tail(0, 1)
    assert tail.gamma(p["radius"]) >= -p["log_nu"] * (1 - 1e-9)
    independent = plan(queries=50, confidence=0.95, rows=CHAIN.n)
    assert found.method("typical-gaussian").error > independent.method("typical-gaussian").error
    clusters = plan(queries=50, confidence=0.95, dependence=Clusters([4] * 5000))
    assert clusters.method("typical-gaussian").error == pytest.approx(
        2 * independent.method("typical-gaussian").error, rel=1e-6
    )


def test_rows_for_dependent_rows():
    alone = plan(queries=20, confidence=0.95, error=0.2, surprises=1)
    window = plan(queries=20, confidence=0.95, error=0.2, surprises=1, dependence=MDependent(100, 3))
    families = plan(queries=20, confidence=0.95, error=0.2, surprises=1, dependence=Clusters([4] * 10))
    for found in (window, families):
        assert found.method("typical-gaussian").rows == pytest.approx(
            4 * alone.method("typical-gaussian").rows, rel=1e-3
        )
        for name in CODES:
            assert found.method(name).rows == pytest.approx(4 * alone.method(name).rows, rel=0.01)
    reused = window.method("reusable-holdout")
    assert (
        4 * alone.method("reusable-holdout").rows < reused.rows < 12 * alone.method("reusable-holdout").rows
    )
    assert reused.paper is None
    chain = plan(queries=20, confidence=0.95, error=0.2, dependence=CHAIN)
    needed = chain.method("typical-gaussian").rows
    longer = MarkovChain(CHAIN.transition, n=needed)
    assert plan(queries=20, confidence=0.95, dependence=longer).method("typical-gaussian").error <= 0.2


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"queries": 10}, "rows"),
        ({"queries": 0, "rows": 10}, "queries"),
        ({"queries": 10, "rows": 0}, "rows"),
        ({"queries": 10, "rows": math.nan}, "rows"),
        ({"queries": 10, "rows": 100, "error": 1.5}, "error"),
        ({"queries": 10, "error": math.nan}, "error"),
        ({"queries": 10, "rows": 100, "surprises": -1}, "surprises"),
        ({"queries": 10, "rows": 100, "surprises": 11}, "surprises"),
        ({"queries": 10, "rows": 100, "confidence": 1.0}, "confidence"),
        ({"queries": 10, "rows": 100, "dependence": "chain"}, "dependence"),
        ({"queries": 10, "rows": 100, "dependence": CHAIN}, "rows"),
        ({"queries": 10, "error": 0.1, "dependence": DependencyGraph([(0, 1)], n=30)}, "rows"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(InvalidArgument) as caught:
        plan(**{"confidence": 0.95, **arguments})
    assert caught.value.argument == name


@pytest.mark.parametrize("made", [Mixing(0.5), Blocks(100, 20, Mixing(0.5))])
def test_a_model_that_was_made_before_its_table_is_planned_for_the_rows(made):
    early, late = (
        plan(queries=10, confidence=0.95, rows=1000, dependence=m) for m in (made, made.with_rows(1000))
    )
    assert early == late
    with pytest.raises(InvalidArgument, match="rows") as refused:
        plan(queries=10, confidence=0.95, error=0.1, dependence=made)
    assert refused.value.argument == "rows"


def test_clusters_of_a_column_need_their_table():
    with pytest.raises(InvalidArgument, match="reads the column 'person'"):
        plan(queries=10, confidence=0.95, rows=1000, dependence=Clusters(column="person"))


def test_gaps_that_cost_more_than_may_fail_leave_no_promise():
    forgetful, remembering = (
        plan(queries=10, confidence=0.95, rows=10**5, dependence=Blocks(100, 20, mixing, n=10**5))
        for mixing in (Mixing(0.1), 0.5)
    )
    assert forgetful.method("code").error < 0.5
    # A gap of 20 rows leaves half of the past here: the two parts of the rows are not nearly independent.
    assert remembering.method("code").error == 1.0


def test_arguments_are_by_name_only():
    with pytest.raises(TypeError):
        plan(1000, 0.95)


def test_an_unknown_method_is_refused():
    with pytest.raises(InvalidArgument, match="'code'"):
        plan(queries=3, confidence=0.95, rows=100).method("magic")


@pytest.mark.parametrize("given", [{"rows": 1}, {"rows": 2}, {"rows": 10}, {"rows": 10, "error": 0.01}])
def test_hopeless_plans_say_so(given):
    found = plan(queries=10, confidence=0.95, surprises=10, **given)
    for entry in found.table:
        assert entry.error <= 1
        if "error" in given:
            assert entry.queries == 0
    assert str(found)


def test_a_plan_can_be_read_and_sent():
    found = plan(queries=1000, confidence=0.95, error=0.1, surprises=10)
    sent = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert sent["best"] == "agreed-code"
    assert sent["solved_for"] == "rows"
    assert [entry["name"] for entry in sent["table"]] == [entry.name for entry in found.table]
    assert sent["table"][0]["parameters"]["half_cell"] > 0
    assert found.headline() in str(found)
    assert "transfer-gaussian" in found._repr_html_()
    assert "17," in repr(found.method("code"))


def test_one_question_needs_no_protection():
    found = plan(queries=1, confidence=0.95, rows=1000)
    fixed = Independent(1000).mean_tail(0, 1).radius(0.05)
    assert found.method("naive").error == pytest.approx(fixed, rel=1e-9)
    for name in ("split", "typical-gaussian", "typical-laplace"):
        # Values are scaled to integers, which moves a mean by 2**-24 at most.
        assert 0 <= found.method(name).error - fixed <= 1.01 * 2**-24


@pytest.mark.parametrize("surprises", [None, 5])
def test_a_promise_of_each_answer_is_narrower_and_the_others_stay_as_they_are(surprises):
    both = [
        plan(queries=100, confidence=0.95, rows=100_000, surprises=surprises, promise=promise)
        for promise in ("all", "each")
    ]
    together, each = (found.method("code").error for found in both)
    assert 0.8 * together < each < together
    assert both[0].method("split").error == both[1].method("split").error


def test_a_promise_is_one_of_two():
    with pytest.raises(InvalidArgument, match="promise"):
        plan(queries=10, confidence=0.95, rows=1_000, promise="some")
