"""Rows that depend on each other: the split, its charge, the tail, and the words on the certificate."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import Guard
from holdfast.dependence import (
    Clusters,
    DependencyGraph,
    GaussianRows,
    Independent,
    MarkovChain,
    MDependent,
    Mixing,
)
from holdfast.engines import unsealed
from holdfast.errors import DependenceWarning, InvalidArgument
from holdfast.strategies import ClaimQuestion
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
    parts = chain(0.9).split(1 / 3, rng, 0.05)
    blocks = parts.protected_model.layouts(0.05)
    numbers = guard.certificate.numbers
    assert numbers["charged for the split"] == pytest.approx(parts.bias)
    assert numbers["charged for blocks"] == pytest.approx(sum(layout.price for layout in blocks))
    assert 0 < parts.bias <= 0.05 / 20
    assert 0 < numbers["charged for blocks"] <= 0.05 / 20
    assert any("chain" in sentence.lower() for sentence in answer.certificate.assumed)
    assert any(f"in {len(blocks)} ways of cutting" in said for said in answer.certificate.assumed)
    assert answer.certificate.interval == "Chernoff bound for stationary chains"


def test_dependence_makes_intervals_wider(rng):
    states = walk(rng, 0.9)
    dependent = Guard({"state": states}, dependence=chain(0.9)).share("state = 1")
    with pytest.warns(DependenceWarning, match="Neighbouring rows of share"):
        independent = Guard({"state": states}).share("state = 1")
    assert dependent.half_width > 2.5 * independent.half_width


def test_declaring_independent_rows_changes_nothing(rng):
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


@pytest.mark.parametrize("share", [0, None], ids=["no training part", "training part"])
@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_an_array_of_predictions_follows_the_rows_that_lie_in_blocks(rng, share, metric):
    rows = 6_000
    labels = rng.integers(0, 2, rows)
    guard = Guard({"label": labels}, dependence=Mixing(0.3), training_share=share)
    assert guard._setup.protected.units
    with unsealed():
        kept = guard._setup.protected.rows.frame()["label"].to_numpy()
    for own in [kept, labels] if share is None else [labels]:
        answer = guard.score(own, target="label", metric=metric, guess=0.9)
        # Every prediction is right: any that were moved against the rows would be wrong half of the time.
        assert answer.high == 1.0
        assert answer.low > 0.6


def test_predictions_out_of_fold_follow_the_training_rows_that_lie_in_blocks(rng):
    trees = pytest.importorskip("sklearn.tree")
    frame = {"x": rng.random(6_000), "label": rng.integers(0, 2, 6_000)}
    guard = Guard(frame, dependence=Mixing(0.3))
    training = guard.training_rows()
    fitted = trees.DecisionTreeClassifier().fit(training[["x"]], training["label"])
    answer = guard.score(fitted, target="label")
    assert answer.guess < 0.6  # It is right about every training row that it was fitted on.


def test_a_quantile_of_tied_values_has_ends_among_them_and_is_not_expensive(rng):
    rows = {"id": np.repeat(np.arange(2_000), 4), "value": np.repeat(rng.integers(0, 2, 2_000), 4)}
    guard = Guard(rows, dependence=Clusters(column="id"))
    for level, low in ((0.5, 0.0), (0.8, 1.0)):
        prepared = guard._strategy.prepare(
            guard._questions.read(f"quantile(value, {level})"), guard._session.account
        )
        with unsealed():
            measured = prepared.reading.measured(guard._setup.protected)
        assert (measured.interval.low, measured.interval.high) == (low, 1.0)
        assert guard.quantile("value", level).cost < 8


def test_a_quantile_of_dependent_rows_needs_no_training_part(rng):
    guard = Guard({"value": rng.random(ROWS)}, dependence=Mixing(0.3), training_share=0)
    answer = guard.quantile("value", 0.5, guess=0.5)
    assert 0 < answer.low < 0.5 < answer.high < 1


def test_a_claim_by_blocks_of_rows_has_no_half_of_the_error_to_itself(rng):
    """That blocks are not independent is one event for both sides."""
    short, long = Guard({"x": rng.random(400)}, dependence=Mixing(0.6)), Guard({"x": rng.random(400)})
    for guard, half in ((short, 0.0), (long, np.log(2))):
        claim = ClaimQuestion.of(guard._questions.read("mean(x, 0, 1)"), ">", 0.1, 0.05)
        prepared = guard._strategy.prepare(claim, guard._session.account)
        assert prepared.level - prepared.reading.nats == pytest.approx(half)
        assert prepared.reading.halves == bool(half)
