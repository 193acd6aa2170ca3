"""A gate through its public door: verdicts, margins, levels, clusters, outputs and the report."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from holdfast import Gate
from holdfast.coding import Account, PromotionAlphabet, Weights
from holdfast.errors import BudgetSpent, NotEnoughRows
from holdfast.guard import GateReport, Verdict, Version
from holdfast.intervals import clopper_pearson, gain_steps, mean_interval
from holdfast.ledger import Book, Closed

TASKS = 300
INCUMBENT = {task: int(task < 210) for task in range(TASKS)}
SERIES = 2.10975


def solving(first, last):
    """A candidate that solves the tasks from first to last."""
    return {task: int(first <= task < last) for task in range(TASKS)}


def level(place, *, beta=0.05, spent=0.0, promotions=0):
    """ln(1/δ) written out: β w_j (1 + R_j) e^{−spent}."""
    weight = 1 / (SERIES * (place + 1) * math.log(place + 1) ** 2)
    return -math.log(beta * weight * (1 + promotions)) + spent


def test_the_first_verdict_is_what_the_theory_says():
    gate = Gate(None, incumbent=INCUMBENT, name="v1")
    verdict = gate.submit(solving(0, 240), name="v2")
    assert verdict.level == pytest.approx(level(1))
    differences = [1] * 30 + [0] * 270
    steps = gain_steps(differences, nats=verdict.level, step=0.02, binary=True)
    assert verdict.margin == verdict.low == steps * 0.02 == 0.04
    # With no history a promotion has the prior ¼; then i steps have (63/64)/((i + 1)(i + 2)).
    assert verdict.cost == pytest.approx(math.log(4 * (64 / 63) * (steps + 1) * (steps + 2)), abs=2e-6)
    assert (verdict.promoted, verdict.name, verdict.incumbent, verdict.place) == (True, "v2", "v1", 1)
    assert not verdict.repeated
    assert not verdict.refused
    assert bool(verdict)
    assert gate.incumbent == Version("v2", 0.04, 0.04, 1)
    assert gate.spent == verdict.cost


def test_not_shown_costs_almost_nothing():
    gate = Gate(None, incumbent=INCUMBENT)
    costs = []
    for number in range(50):
        verdict = gate.submit(solving(0, 210 + number % 4), name=f"c{number}")
        assert not verdict
        assert (verdict.margin, verdict.low) == (0.0, -1.0)
        assert verdict.level == pytest.approx(level(number + 1, spent=sum(costs)), abs=1e-5)
        costs.append(verdict.cost)
    assert sum(costs) < math.log(2)
    assert costs[-1] < 1e-3 < costs[0]
    assert [verdict.place for verdict in gate.history] == list(range(1, 51))


def test_margins_add_along_promotions():
    gate = Gate(None, incumbent=solving(0, 100), name="v0")
    for number, solved in enumerate((150, 200, 260), start=1):
        assert gate.submit(solving(0, solved), name=f"v{number}").promoted
    versions = gate.promotions
    assert [version.name for version in versions] == ["v0", "v1", "v2", "v3"]
    assert versions[-1].total == pytest.approx(math.fsum(version.margin for version in versions))
    assert all(version.margin > 0.05 for version in versions[1:])
    assert gate.status()["certified_gain"] == versions[-1].total
    assert versions[-1].total < 160 / 300


def test_margins_do_not_add_under_fdr():
    """One wrong promotion on the line spoils the sum, so nothing is claimed about it."""
    gate = Gate(None, incumbent=solving(0, 100), promise="fdr", name="v0")
    for number, solved in enumerate((150, 200), start=1):
        assert gate.submit(solving(0, solved), name=f"v{number}").promoted
    status = gate.status()
    assert status["certified_gain"] is None
    assert "better than 'v0'" not in status["text"]
    assert f"the margins since 'v0' sum to {gate.incumbent.total:.6g}" in status["text"]


def test_a_candidate_is_compared_with_the_incumbent_of_its_time():
    gate = Gate(None, incumbent=solving(0, 100))
    assert gate.submit(solving(0, 200), name="much better").promoted
    verdict = gate.submit(solving(0, 180), name="better than the first only")
    assert not verdict.promoted
    assert verdict.incumbent == "much better"


@pytest.mark.parametrize("promise", ["family", "fdr"])
def test_levels_count_promotions_under_fdr_only(promise):
    gate = Gate(None, incumbent=solving(0, 60), promise=promise, confidence=0.9)
    spent = 0.0
    for place, solved in enumerate((120, 180, 181, 260), start=1):
        verdict = gate.submit(solving(0, solved), name=f"c{solved}")
        promotions = (place > 1) + (place > 2) if promise == "fdr" else 0
        assert verdict.level == pytest.approx(level(place, beta=0.1, spent=spent, promotions=promotions))
        spent += verdict.cost
    assert len(gate.promotions) == 4
    words = "In expectation, at most 0.1 of this gate's promotions are wrong, at every time."
    assert (words in gate.history[0].text) == (promise == "fdr")
    assert ("With probability 0.9 no promotion" in gate.history[0].text) == (promise == "family")


def test_a_hint_spreads_the_error_evenly():
    gate = Gate(None, incumbent=INCUMBENT, expect=20)
    verdict = gate.submit(INCUMBENT, name="same")
    assert verdict.level == pytest.approx(Account(0.05, weights=Weights(expect=20)).nats(), abs=1e-12)
    assert verdict.level > level(1) + 1


def test_the_same_name_again_is_free_and_its_scores_are_not_looked_at(tmp_path):
    book = Book(tmp_path / "gate")
    gate = Gate(None, incumbent=INCUMBENT, ledger=book)
    first, second = gate.submit(solving(0, 212), name="a"), gate.submit(solving(0, 250), name="b")
    assert not first.promoted
    assert second.promoted
    spent, lines = gate.spent, len(list(book.events()))
    for name, verdict in (("a", first), ("b", second)):
        for scores in (solving(0, 300), solving(0, 0), INCUMBENT):
            again = gate.submit(scores, name=name)
            assert again.repeated
            assert again.cost == 0
            assert (again.promoted, again.margin, again.level) == (
                verdict.promoted,
                verdict.margin,
                verdict.level,
            )
    assert gate.spent == spent
    assert len(list(book.events())) == lines


def test_without_a_name_a_candidate_is_known_by_its_scores():
    gate = Gate(None, incumbent=INCUMBENT)
    assert not gate.submit(solving(0, 212)).repeated
    assert gate.submit(solving(0, 212)).repeated
    assert not gate.submit(solving(0, 213)).repeated
    assert not gate.submit(solving(0, 212), name="named").repeated


def test_a_minimum_effect():
    """H₀ is "gain at most the minimum", and the sign test plays no part."""
    scores = solving(0, 250)
    without = Gate(None, incumbent=INCUMBENT).submit(scores, name="c")
    with_minimum = Gate(None, incumbent=INCUMBENT, minimum=0.05).submit(scores, name="c")
    too_much = Gate(None, incumbent=INCUMBENT, minimum=0.1).submit(scores, name="c")
    assert without.promoted
    assert with_minimum.promoted
    assert with_minimum.margin >= 0.05
    assert not too_much.promoted
    assert "by more than 0.1" in too_much.text
    # Ten wins and no loss show a gain above 0, but not one above .02.
    few = solving(0, 220)
    assert Gate(None, incumbent=INCUMBENT).submit(few, name="c").promoted
    assert not Gate(None, incumbent=INCUMBENT, minimum=0.02).submit(few, name="c").promoted


def test_fractions_are_not_decided_by_signs():
    """+.1 on nine of ten tasks and −.9 on the tenth is no gain, however many tasks there are."""
    incumbent = {task: 0.9 if task % 10 == 0 else 0.5 for task in range(2_000)}
    candidate = {task: 0.0 if task % 10 == 0 else 0.6 for task in range(2_000)}
    gate = Gate(None, incumbent=incumbent)
    assert not gate.submit(candidate, name="c").promoted
    assert gate.submit({task: score + 0.1 for task, score in incumbent.items()}, name="all").promoted


@pytest.mark.parametrize("weight", ["tasks", "clusters"])
def test_clusters(weight):
    """Twenty tasks about one document and 180 about a document each."""
    clusters = {task: 0 if task < 20 else task for task in range(200)}
    incumbent = {task: int(task >= 100) for task in range(200)}
    candidate = {task: int(task >= 50 or task < 20) for task in range(200)}
    gate = Gate(None, incumbent=incumbent, clusters=clusters, weight=weight, confidence=0.9)
    verdict = gate.submit(candidate, name="c")
    differences = np.array([candidate[task] - incumbent[task] for task in range(200)], dtype=float)
    # Task ids are texts and so are sorted as texts; units are the same in any order.
    sums = np.array([differences[:20].sum(), *differences[20:]])
    sizes = np.array([20.0, *np.ones(180)])
    if weight == "tasks":
        steps = gain_steps(sums, sizes=sizes, nats=verdict.level, step=gate.step)
    else:
        steps = gain_steps(sums / sizes, nats=verdict.level, step=gate.step)
    assert verdict.promoted == (steps is not None)
    assert verdict.promoted == (weight == "clusters")  # One document of twenty tasks hides the others.
    words = " ".join(verdict.assumed)
    assert f"that of the average {weight[:-1]}" in words
    assert "independent of each other" in words
    row = gate.report().versions[0]
    # Half of all tasks; of the 181 clusters, the hundred of one task that the incumbent solves.
    assert row["score"] == pytest.approx(0.5 if weight == "tasks" else 100 / 181)


def test_outputs_that_hardly_differ_are_refused_free_of_charge(tmp_path):
    book = Book(tmp_path / "gate")
    outputs = {task: f"answer {task}" for task in range(TASKS)}
    gate = Gate(None, incumbent=INCUMBENT, outputs=outputs, ledger=book)
    lines = len(list(book.events()))
    near = {**outputs, 1: "other", 2: "other", 3: "other"}
    for scores in (solving(0, 300), solving(0, 0), INCUMBENT):
        verdict = gate.submit(scores, name="near", outputs=near)
        assert verdict.refused
        assert not verdict.promoted
        assert "differ from those of 'first incumbent' on 3 of 300 tasks" in verdict.text
        assert verdict.cost == 0
    assert len(list(book.events())) == lines
    assert gate.history == ()
    # The name is free again, and enough outputs that differ are compared.
    six = {task: "other" if task >= 294 else answer for task, answer in outputs.items()}
    verdict = gate.submit({**INCUMBENT, **dict.fromkeys(range(294, 300), 1)}, name="near", outputs=six)
    assert not verdict.refused
    assert verdict.promoted  # Six wins of six: 4.2 nats of 3.7.
    assert gate.submit(INCUMBENT, name="no outputs").refused is False
    head = verdict.to_markdown().splitlines()[0]
    assert head == "### Promoted"


def test_outputs_are_compared_with_those_of_the_incumbent_of_now():
    outputs = dict.fromkeys(range(TASKS), "old")
    gate = Gate(None, incumbent=solving(0, 100), outputs=outputs)
    new = dict.fromkeys(range(TASKS), "new")
    assert gate.submit(solving(0, 200), name="v2", outputs=new).promoted
    assert gate.submit(solving(0, 300), name="v3", outputs=new).refused
    assert not gate.submit(solving(0, 300), name="v4", outputs=outputs).refused


def test_what_is_assumed_is_on_every_verdict():
    gate = Gate(None, incumbent=INCUMBENT, inputs="public")
    seen, sealed = gate.submit(INCUMBENT, name="a"), gate.submit(INCUMBENT, name="b", sealed=True)
    for verdict in (seen, sealed, *gate.history):
        words = " ".join(verdict.assumed)
        assert "independent draws" in words
        assert "nothing about the scores on these tasks except the gate's verdicts" in words
        assert "about these tasks, given their inputs" in words
        assert (
            "0 and 1" not in words
        )  # Tasks that are given are not alike: the product, and not the sign test.
    assert "passed through the submitter's hands" in " ".join(seen.assumed)
    assert "passed through the submitter's hands" not in " ".join(sealed.assumed)
    binary = Gate(None, incumbent=INCUMBENT).submit(INCUMBENT, name="a")
    assert "No score other than 0 and 1 is possible." in binary.assumed
    hidden = Gate(None, incumbent=dict.fromkeys(range(TASKS), 0.5)).submit(INCUMBENT, name="a")
    words = " ".join(hidden.assumed)
    assert "do not know the tasks' inputs" in words
    assert "0 and 1" not in words


@pytest.mark.parametrize("kind", ["binary", "fractions"])
@pytest.mark.parametrize("promise", ["family", "fdr"])
def test_the_report_closes_the_gate_and_shows_exact_scores(kind, promise, tmp_path):
    gate = Gate(
        None, incumbent=solving(0, 100), scores=kind, promise=promise, ledger=tmp_path / "gate", name="v0"
    )
    gate.submit(solving(0, 101), name="nothing")
    gate.submit(solving(0, 200), name="v1")
    gate.submit(solving(0, 290), name="v2")
    spent = gate.spent
    report = gate.report()
    assert gate.closed
    assert isinstance(report, GateReport)
    assert [row["name"] for row in report.versions] == ["v0", "v1", "v2"]
    assert [row["score"] for row in report.versions] == pytest.approx([1 / 3, 2 / 3, 29 / 30])
    assert [row["gain"] for row in report.versions[1:]] == pytest.approx([1 / 3, 19 / 30])
    assert report.versions[0]["gain"] is None
    # V = 3 versions have 2V − 1 = 5 intervals.
    left = 1 - 3.4e-6 - sum(1 / (SERIES * (j + 1) * math.log(j + 1) ** 2) for j in (1, 2, 3))
    nats = math.log(20) + spent + math.log(5) - (math.log(left) if promise == "family" else 0)
    shown = [version.total if promise == "family" else -1.0 for version in gate.promotions]
    for row, solved, total in zip(report.versions, (100, 200, 290), shown, strict=True):
        scores = np.arange(TASKS) < solved
        expected = mean_interval(scores.astype(float), nats)
        if kind == "binary":
            expected = clopper_pearson(solved, TASKS, nats)
        assert (row["score_low"], row["score_high"]) == pytest.approx((expected.low, expected.high), abs=1e-7)
        assert row["score_low"] < row["score"] < row["score_high"]
        if solved > 100:
            gain = mean_interval([1.0] * (solved - 100) + [0.0] * (400 - solved), nats, lo=-1.0, hi=1.0)
            low = max(gain.low, total)
            assert (row["gain_low"], row["gain_high"]) == pytest.approx((low, gain.high), abs=1e-7)
    assert ("together with all promotions" in report.text) == (promise == "family")
    again, elsewhere = gate.report(), Gate.at(tmp_path / "gate").report()
    assert again.to_dict() == report.to_dict() == elsewhere.to_dict()
    assert gate.spent == spent
    with pytest.raises(Closed):
        gate.submit(solving(0, 300), name="too late")
    assert gate.submit(solving(0, 300), name="v1").repeated  # What was said before may be read.
    assert gate.status()["closed"]
    assert "The gate is closed." in gate.status()["text"]


def test_a_report_shows_at_least_what_its_promotions_have_shown():
    """After many submissions the interval of the report alone contains 0, beside a promotion."""
    gate = Gate(None, incumbent=solving(0, 100), name="v0")
    assert gate.submit(solving(0, 130), name="v1").promoted
    for place in range(200):
        gate.submit(solving(place + 1, 100), name=f"worse {place}")
    _, promoted = gate.report().versions
    assert 0 < gate.promotions[-1].total == promoted["gain_low"] < promoted["gain"] < promoted["gain_high"]


def test_verdicts_and_reports_as_values_and_pages():
    gate = Gate(None, incumbent=INCUMBENT, name="v1")
    verdict = gate.submit(solving(0, 240), name="v2")
    plain = json.loads(json.dumps(verdict.to_dict()))
    assert plain["promoted"] is True
    assert plain["margin"] == 0.04
    assert plain["assumed"] == list(verdict.assumed)
    assert plain["receipt"] is None
    assert Verdict(**{**plain, "assumed": tuple(plain["assumed"])}) == verdict
    assert repr(verdict) == verdict.text
    better = "'v2' is better than 'v1' by more than 0.04"
    assert verdict.text == (f"Promoted: {better}. With probability 0.95 no promotion of this gate is wrong.")
    page = verdict.to_markdown()
    assert "### Promoted" in page
    assert "| candidate | `v2` |" in page
    assert "| better by at least | 0.04 |" in page
    assert all(sentence in page for sentence in verdict.assumed)
    assert verdict.text in verdict._repr_html_().replace("&#x27;", "'")
    lost = gate.submit(solving(0, 100), name="v3")
    assert "### Not shown to be better" in lost.to_markdown()
    assert "| better by at least | not shown |" in lost.to_markdown()
    report = gate.report()
    assert json.loads(json.dumps(report.to_dict()))["versions"][1]["gain"] == pytest.approx(0.1)
    assert "| `v2` | 0.8 |" in report.to_markdown() or "| `v2` | 0.80" in report.to_markdown()
    assert "<table>" in report._repr_html_()
    assert str(report).splitlines()[0].startswith("version")
    frame = report.to_frame()
    assert list(frame["name"]) == ["v1", "v2"]


def test_status_says_what_a_person_wants_to_know():
    gate = Gate(None, incumbent=INCUMBENT, name="v1")
    assert gate.status()["text"] == (
        "0 submissions, 0 promotions. The incumbent is 'v1'. A candidate that fixes four tasks for each "
        "one that it breaks is promoted if its observed gain is at least 0.03."
    )
    gate.submit(solving(0, 240), name="v2")
    status = gate.status()
    assert (status["submissions"], status["promotions"], status["incumbent"]) == (1, 1, "v2")
    assert "better than 'v1' by more than 0.04" in status["text"]
    assert status["needed_gain"] > 0.03
    small = Gate(None, incumbent=dict.fromkeys(range(8), 0))
    assert small.status()["needed_gain"] is None
    assert "breaks almost nothing" in small.status()["text"]


@pytest.mark.parametrize("promise", ["family", "fdr"])
@pytest.mark.parametrize("kind", ["binary", "fractions"])
def test_random_sessions_follow_the_pure_rules(kind, promise, rng):
    """Level, price, verdict and margin of each submission: Account, PromotionAlphabet and gain_steps."""
    for _ in range(6):
        tasks, beta = int(rng.integers(20, 80)), float(rng.choice([0.05, 0.2, 0.5]))
        expect = None if rng.random() < 0.5 else float(rng.integers(1, 20))
        minimum = float(rng.choice([0.0, 0.0, 0.02]))
        incumbent = (rng.random(tasks) < 0.3).astype(float)
        ids = [f"{task:03}" for task in range(tasks)]
        try:
            gate = Gate(
                ids, incumbent=dict(zip(ids, incumbent, strict=True)), promise=promise, confidence=1 - beta,
                scores=kind, expect=expect, minimum=minimum,
            )  # fmt: skip
        except NotEnoughRows:
            continue
        account, promotions = Account(1 - (1 - beta), weights=Weights(expect=expect)), 0
        for number in range(25):
            better = rng.random() < 0.3
            candidate = np.where(rng.random(tasks) < (0.5 if better else 0.1), 1.0, incumbent)
            if kind == "fractions":
                candidate = np.round(candidate * 0.9 + 0.1 * rng.random(tasks), 2)
            nats = account.nats() - (math.log(1 + promotions) if promise == "fdr" else 0)
            prices = PromotionAlphabet(math.ceil((1 - minimum) / gate.step) + 1, account.experience)
            steps = gain_steps(
                candidate - incumbent, nats=nats, step=gate.step, least=minimum, binary=kind == "binary"
            )
            scores = dict(zip(ids, candidate, strict=True))
            if (
                gain_steps(np.ones(tasks), nats=nats, step=0.5, least=minimum, binary=kind == "binary")
                is None
            ):
                with pytest.raises(BudgetSpent):
                    gate.submit(scores, name=f"c{number}")
                break
            verdict = gate.submit(scores, name=f"c{number}")
            assert verdict.level == nats
            assert verdict.promoted == (steps is not None)
            charge = account.charge(prices.price(steps))
            assert verdict.cost == charge / 1e6
            account = account.after(
                charge, surprise=steps is not None, exact=account.exact + prices.price(steps)
            )
            if steps is not None:
                assert verdict.margin == min(1.0, minimum + steps * gate.step)
                incumbent, promotions = candidate, promotions + 1
        assert gate.spent == account.spent
