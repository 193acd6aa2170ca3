"""Rows that depend on each other: the split, its charge, the tail, and the words on the certificate."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import Guard
from holdfast.dependence import Clusters, DependencyGraph, GaussianRows, Independent, MarkovChain, MDependent
from holdfast.engines import unsealed
from holdfast.errors import DependenceWarning, InvalidArgument
from holdfast.tails import SubGaussian

ROWS = 20_000


def chain(stay: float, rows: int = ROWS) -> MarkovChain:
    return MarkovChain([[stay, 1 - stay], [1 - stay, stay]], rows)


def walk(rng: np.random.Generator, stay: float, rows: int = ROWS) -> np.ndarray:
    """A symmetric two-state chain started at stationarity."""
    moves = rng.random(rows) > stay
    moves[0] = rng.random() < 0.5
    return np.cumsum(moves) % 2


def test_a_chain_is_split_in_two_stretches_with_a_gap_that_is_charged(rng):
    states = walk(rng, 0.9)
    guard = Guard({"state": states, "place": np.arange(ROWS)}, dependence=chain(0.9))
    answer = guard.share("state = 1")
    assert answer.low < 0.5 < answer.high
    with unsealed():
        training, protected = guard.train["place"], guard._setup.protected.rows.frame()["place"]
    assert training.max() < protected.min() - 10
    assert 0 < guard.certificate.numbers["charged for the split"] <= 0.05 / 20
    assert 0 < guard.certificate.numbers["charged for blocks"] <= 0.05 / 20
    assert any("chain" in sentence.lower() for sentence in answer.certificate.assumed)
    assert answer.certificate.interval == "Chernoff bound for stationary chains"


def test_dependence_makes_intervals_wider(rng):
    states = walk(rng, 0.9)
    dependent = Guard({"state": states}, dependence=chain(0.9)).share("state = 1")
    with pytest.warns(DependenceWarning, match="Neighbouring rows of share"):
        independent = Guard({"state": states}).share("state = 1")
    assert dependent.half_width > 2.5 * independent.half_width


def test_independent_rows_said_in_so_many_words_change_nothing(rng):
    states = rng.integers(0, 2, ROWS)
    said = Guard({"state": states}, dependence=Independent(ROWS)).share("state = 1")
    unsaid = Guard({"state": states}).share("state = 1")
    assert (said.low, said.high) == (unsaid.low, unsaid.high)


def test_families_stay_together(rng):
    family = np.repeat(np.arange(ROWS // 4), 4)
    value = np.repeat(rng.integers(0, 2, ROWS // 4), 4)
    guard = Guard({"family": family, "value": value}, dependence=Clusters([4] * (ROWS // 4)))
    inside = set(guard.train["family"])
    with unsealed():
        assert inside.isdisjoint(guard._setup.protected.rows.frame()["family"])
    answer = guard.share("value = 1", where="family >= 0")
    assert answer.low < 0.5 < answer.high


@pytest.mark.parametrize(
    "model",
    [MDependent(ROWS, 3), DependencyGraph([(i, i + 1) for i in range(0, ROWS, 2)], n=ROWS)],
    ids=["m-dependent", "graph"],
)
def test_quantiles_means_and_filters_with_every_model_that_has_a_split(rng, model):
    value = rng.normal(size=ROWS)
    guard = Guard({"value": value, "even": np.arange(ROWS) % 2 == 0}, dependence=model)
    median = guard.quantile("value", 0.5)
    assert median.low < 0 < median.high
    mean = guard.mean("value", bounds=(-3, 3), where="even")
    assert mean.low < 0 < mean.high
    assert guard.quantile("value", 0.5, where="even").low < 0


def test_a_model_without_a_rule_needs_a_training_part_or_guesses(rng):
    model = GaussianRows(np.eye(200))
    value = {"value": rng.normal(size=200)}
    with pytest.raises(InvalidArgument, match="train"):
        Guard(value, dependence=model)
    guard = Guard(value, dependence=model, train={"value": rng.normal(size=200)})
    answer = guard.custom(lambda frame: frame["value"].mean(), tail=SubGaussian(200**-0.5))
    assert answer.low < 0 < answer.high
    assert any("supplied by the caller" in sentence for sentence in answer.certificate.assumed)


def test_a_model_of_another_number_of_rows_is_refused():
    with pytest.raises(InvalidArgument, match="20,000 rows"):
        Guard({"x": np.zeros(ROWS)}, dependence=Independent(ROWS - 1))
