"""What published scores leaked: the formula, the published reproductions, an attack that it survives."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument
from holdfast.planning import leak, plan


def test_the_example():
    found = leak(500, 4, 20_000)
    assert found.values == 10_001
    assert found.nats == pytest.approx(500 * math.log(10_001))
    nats = math.log(2 * 500 / 0.05) + 499 * math.log(10_001)
    assert found.score == pytest.approx(0.5e-4 + math.sqrt(nats / 40_000))
    assert found.best == pytest.approx(0.5e-4 + math.sqrt((nats - math.log(2)) / 40_000))
    assert found.if_fixed == pytest.approx(0.5e-4 + math.sqrt(math.log(20_000) / 40_000))
    assert found.at(1) == pytest.approx(found.if_fixed)
    assert found.at(500) == pytest.approx(found.score)
    assert not found.vacuous
    planned = plan(queries=500, confidence=0.95, rows=20_000)
    assert found.with_noise == planned.method("transfer-gaussian").error
    assert found.with_guard == planned.method("code").error


@pytest.mark.parametrize(("rows", "most"), [(10**4, 40), (10**5, 413)])
def test_the_published_reach_of_rounding(rows, most):
    """The largest k for which the best rounding keeps ±0.1 at confidence 0.95."""
    assert leak(most, 2, rows).rounded.half_width <= 0.1
    assert leak(most + 1, 2, rows).rounded.half_width > 0.1


@given(st.integers(1, 3000), st.integers(1, 10**7), st.floats(1e-6, 0.5))
def test_the_best_rounding_is_the_best_of_all_and_solves_the_inequality(k, rows, beta):
    confidence = 1 - beta
    beta = 1 - confidence
    found = leak(k, 2, rows, confidence=confidence).rounded
    every = np.arange(1, 4001)
    widths = 0.5 / every + np.sqrt((math.log(2 * k / beta) + (k - 1) * np.log(every)) / (2 * rows))
    assert found.half_width <= min(1.0, widths.min()) * (1 + 1e-3)
    if found.half_width < 1:
        left = math.log(2 * k) + (k - 1) * math.log(found.cells)
        left -= 2 * rows * (found.half_width - 0.5 / found.cells) ** 2
        assert left <= math.log(beta) + 1e-9 * (1 + abs(left))


@settings(max_examples=30)
@given(st.integers(1, 10**5), st.integers(0, 12), st.integers(1, 10**8))
def test_laws(k, digits, rows):
    found = leak(k, digits, rows)
    assert found.if_fixed <= found.score <= 1
    assert found.best <= found.score <= leak(k + 1, digits, rows).score
    assert found.rounded.half_width <= min(found.by_digits.values()) * (1 + 1e-3)
    assert leak(k, digits, 4 * rows).score <= found.score
    assert found.at(1) <= found.at((k + 1) // 2) <= found.at(k)
    assert found.vacuous == (found.score >= 0.5)


def test_scores_survive_the_attack_and_the_usual_claim_does_not(rng):
    """Random labels, random predictions; the last submission follows those that scored well."""
    rows, k, digits, runs = 4000, 200, 3, 30
    found = leak(k, digits, rows)
    assert found.score < 0.5
    usual, holds = 0, 0
    for _ in range(runs):
        right = rng.integers(0, 2, (rows, k - 1)).astype(np.float64)
        scores = np.round(right.mean(axis=0), digits)
        votes = (2 * right - 1) @ np.where(scores >= 0.5, 1.0, -1.0)
        last = round(float(np.mean((votes > 0) + 0.5 * (votes == 0))), digits)
        worst = max(float(np.max(np.abs(scores - 0.5))), abs(last - 0.5))
        usual += worst > found.if_fixed
        holds += worst <= found.score
    assert holds == runs
    assert usual == runs


def test_exact_coverage_of_the_worst_adaptive_analyst():
    """Two scores on n rows of two fair coins: every first question, and for each printed value the second
    question that then fails most often, by enumeration of all tables."""
    n, beta = 8, 0.4
    tables = [
        (a, b, c, n - a - b - c) for a in range(n + 1) for b in range(n + 1 - a) for c in range(n + 1 - a - b)
    ]
    counts = np.array(tables)
    chance = np.array([math.factorial(n) / math.prod(map(math.factorial, t)) / 4.0**n for t in tables])
    questions = np.array([[bit >> i & 1 for i in range(4)] for bit in range(16)], dtype=np.float64)
    means, truth = counts @ questions.T / n, questions.mean(axis=1)
    for cells in (2, 3, 5, 8):
        printed = np.minimum(np.floor(means * cells), cells - 1)
        nats = math.log(2 * 2 / beta) + math.log(cells)
        width = 0.5 / cells + math.sqrt(nats / (2 * n))
        for claimed, covered in ((width, True), (0.3 * width, False)):
            fails = np.abs((printed + 0.5) / cells - truth) > claimed
            worst = 0.0
            for first in range(16):
                failing = 0.0
                for value in range(cells):
                    seen = printed[:, first] == value
                    either = fails[seen, first][:, None] | fails[seen]
                    failing += float((chance[seen] @ either).max(initial=0.0))
                worst = max(worst, failing)
            assert (worst <= beta) == covered


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 4, 100), "queries"),
        ((10, -1, 100), "digits"),
        ((10, 16, 100), "digits"),
        ((10, 2.5, 100), "digits"),
        ((10, 4, 0), "rows"),
        ((math.nan, 4, 100), "queries"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(InvalidArgument) as caught:
        leak(*arguments)
    assert caught.value.argument == name


def test_bad_confidence_and_place():
    with pytest.raises(InvalidArgument, match="confidence"):
        leak(10, 4, 100, confidence=0.0)
    with pytest.raises(InvalidArgument, match="place"):
        leak(10, 4, 100).at(11)


def test_it_can_be_sent():
    sent = json.loads(json.dumps(leak(5, 1, 100).to_dict()))
    assert sent["rounded"]["cells"] >= 1
    assert set(sent["by_digits"]) == {"1"}
