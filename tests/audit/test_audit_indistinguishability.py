"""Lower bounds on ε: never above the truth but for the stated error, and close to it with enough trials."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from holdfast.audit import indistinguishability
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.stability import gaussian_delta


def response(truth, epsilon):
    """Randomised response: exactly ε."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return lambda rng: truth if rng.random() < keep else not truth


def law(weights, labels):
    weights = np.array(weights) / sum(weights)
    return lambda rng, count: [labels[i] for i in rng.choice(len(weights), count, p=weights)]


def test_randomised_response_is_bounded_by_its_epsilon_and_nearly_reached(seed):
    found = indistinguishability(
        response(True, 1.0), response(False, 1.0), 8000, epsilon=1.0, confidence=0.999, seed=seed
    )
    assert 0.8 < found.low <= 1.0
    assert not found.refuted
    assert found.high == math.inf
    assert {found.details["in a"], found.details["in b"]} != {0}


def test_the_bound_is_valid_as_often_as_it_says(seed):
    """At confidence 0.9 the true ε of a telling pair of laws is exceeded in at most a tenth of the audits."""
    laws = law([8, 1, 1], "abc"), law([1, 1, 8], "abc")
    over = sum(
        indistinguishability(*laws, 20, batch=10, confidence=0.9, seed=1000 * seed + run).low > math.log(8)
        for run in range(300)
    )
    # Binomial(300, 0.1) exceeds 50 with probability 2e-4.
    assert over <= 50


def test_a_twin_that_counts_on_the_trials_that_chose_exceeds_it(seed):
    """Equal laws with many outputs: the event chosen on one half says nothing on the other, and seems to tell
    them apart on the half that chose it."""
    same = law([1] * 200, range(200))
    honest = twin = 0
    for run in range(20):
        found = indistinguishability(same, same, 4, batch=100, confidence=0.9, seed=100 * seed + run)
        honest += found.low > 0
        drawn = [Counter(same(np.random.default_rng([seed, run, side]), 200)) for side in (0, 1)]
        chosen = [label for label in range(200) if drawn[0][label] > drawn[1][label]]
        first, second = (clopper_pearson(sum(d[label] for label in chosen), 200, math.log(10)) for d in drawn)
        twin += first.low > second.high
    assert honest <= 8  # Binomial(20, 0.1) exceeds 8 with probability 6e-5
    assert twin >= 18


def test_delta_is_subtracted(seed):
    """Gaussian noise at its exact (ε, δ): not above ε; at δ = 0 the bound is larger."""
    delta = gaussian_delta(1.0, 1.0)
    laws = [lambda rng, n, v=v: v + rng.normal(size=n) for v in (0, 1)]
    at_delta = indistinguishability(
        *laws, 20, batch=1000, delta=delta, epsilon=1.0, confidence=0.999, seed=seed
    )
    pure = indistinguishability(*laws, 20, batch=1000, confidence=0.999, seed=seed)
    assert not at_delta.refuted
    assert pure.low > 1.5 > at_delta.low > 0.5
    assert "δ" in at_delta.quantity


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (lambda rng: None if rng.random() < 0.9 else 1.0, lambda rng: None if rng.random() < 0.1 else 1.0),
        (lambda rng: rng.normal(size=3), lambda rng: rng.normal([0, 0, 3])),
        (lambda rng: rng.normal(size=20), lambda rng: rng.normal(size=20) + 0.7),
        (lambda rng: rng.normal(), lambda rng: 4 * rng.normal()),
        (lambda rng: [rng.random()] * 2, lambda rng: rng.random(2)),
        (lambda rng: rng.choice(["x", "y"], p=[0.9, 0.1]), lambda rng: rng.choice(["x", "y"])),
        (lambda rng: {"cell": int(rng.integers(3))}, lambda rng: {"cell": int(rng.integers(9))}),
        (lambda rng: rng.random() if rng.random() < 0.5 else None, lambda rng: 1 + rng.random()),
        (lambda rng: int(rng.poisson(3)), lambda rng: int(rng.poisson(6))),
    ],
    ids=["none", "shift", "many", "spread", "equal", "text", "record", "mixed", "counts"],
)
def test_all_kinds_of_outputs_are_told_apart(a, b, seed):
    found = indistinguishability(a, b, 1200, confidence=0.999, seed=seed)
    assert found.low > 0.2
    assert found.details["event"] in found.statement
    swapped = indistinguishability(b, a, 1200, confidence=0.999, seed=seed)
    assert swapped.low > 0.2


def test_equal_laws_are_not_told_apart(seed):
    for law_ in (lambda rng: rng.normal(), lambda rng: int(rng.integers(5)), lambda rng: rng.random(4)):
        assert indistinguishability(law_, law_, 600, confidence=0.9999, seed=seed).low == 0


def test_one_constant_output_is_no_event():
    found = indistinguishability(lambda rng: 1.0, lambda rng: 1.0, 10)
    assert (found.low, found.estimate) == (0.0, 0.0)
    sure = indistinguishability(lambda rng: 0.0, lambda rng: 1.0, 1000)
    assert sure.low > 4
    assert sure.estimate == math.inf


def test_the_chosen_event_is_the_likelihood_ratio_event(seed):
    laws = [lambda rng, count, mean=mean: rng.normal(mean, 1, count) for mean in (0, 2)]
    for place in range(5):
        found = indistinguishability(*laws[:: (-1) ** place], 4, batch=2000, seed=5 * seed + place)
        assert found.details["counted"] == 4000
        inside = {side: found.details[f"in {side}"] / 4000 for side in ("a", "b")}
        assert max(inside.values()) > 5 * min(inside.values())
        assert found.details["likelier under"] == max(inside, key=inside.get)


@pytest.mark.parametrize(
    "wrong",
    [{"trials": 3}, {"delta": 1.0}, {"delta": math.nan}, {"epsilon": -1}, {"confidence": 1.0}, {"batch": 0}],
)
def test_arguments_are_checked(wrong):
    given = {"trials": 10, **wrong}
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        indistinguishability(lambda rng: 0.0, lambda rng: 0.0, **given)


def test_a_batch_of_another_size_is_refused():
    with pytest.raises(InvalidArgument, match="batch"):
        indistinguishability(lambda rng, n: [0.0], lambda rng, n: [0.0], 10, batch=5)
