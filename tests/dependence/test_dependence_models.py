"""Independent rows, clusters, m-dependence, Gaussian rows."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from dependence_oracles import worst_ratio
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfc

from holdfast.dependence import (
    Clusters,
    DependencyGraph,
    GaussianRows,
    Independent,
    MarkovChain,
    MDependent,
    beta_mixing_tail,
    coupling_bdp,
    reusable_holdout_rows,
)
from holdfast.errors import InvalidArgument
from holdfast.tails import BoundedDifferences, Normal

VALID = 1 + 1e-12
MODELS = [
    Independent(20),
    Clusters([1, 2, 3, 4]),
    MDependent(20, 2),
    DependencyGraph([(0, 1), (1, 2)], n=20),
    MarkovChain([[0.9, 0.1], [0.2, 0.8]], 20),
    GaussianRows(np.eye(20)),
]


def means_of_equal_rows(sizes):
    """Clusters of identical fair coins: every mean with its probability, by enumeration."""
    sizes = np.array(sizes)
    coins = np.array(list(itertools.product((0, 1), repeat=len(sizes))))
    return coins @ sizes / sizes.sum(), np.full(len(coins), 0.5 ** len(sizes))


def test_independent_rows_have_mcdiarmids_radius():
    assert Independent(400).mean_tail(-1, 3) == BoundedDifferences(delta=0.01, n=400)
    assert Independent(4).difference_tail([1, 2, 3, 4]).radius(0.1) == pytest.approx(
        math.sqrt(30 * math.log(20) / 2), rel=1e-12
    )
    assert Independent(4).difference_tail(0.25).radius(0.1) == pytest.approx(
        Independent(4).mean_tail(0, 1).radius(0.1), rel=1e-12
    )


@pytest.mark.parametrize("sizes", [[1] * 12, [2] * 10, [1, 1, 1, 5, 8], [12], [7, 1, 1, 1, 1, 1, 1, 1]])
def test_clusters_hold_where_rows_of_a_cluster_are_equal(sizes):
    values, weights = means_of_equal_rows(sizes)
    assert worst_ratio(Clusters(sizes).mean_tail(0, 1), values, weights) <= VALID
    assert worst_ratio(Clusters(sizes).difference_tail(1 / sum(sizes)), values, weights) <= VALID


def test_a_twin_that_takes_clustered_rows_for_independent_is_caught():
    values, weights = means_of_equal_rows([4] * 10)
    assert worst_ratio(Independent(40).mean_tail(0, 1), values, weights) > 10


def test_clusters_have_the_formula_of_the_table():
    assert Clusters([1, 2, 3]).mean_tail(0, 2).radius(0.05) == pytest.approx(
        math.sqrt(math.log(40) / 2 * 4 * 14 / 36), rel=1e-12
    )
    c = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    total = 0.1**2 + 0.5**2 + 1.5**2
    assert Clusters([1, 2, 3]).difference_tail(c).radius(0.05) == pytest.approx(
        math.sqrt(math.log(40) / 2 * total), rel=1e-12
    )
    assert Clusters([1] * 50).mean_tail(0, 1).radius(0.05) == pytest.approx(
        Independent(50).mean_tail(0, 1).radius(0.05), rel=1e-12
    )


def test_m_dependent_rows_hold_for_sliding_windows():
    """Rows 1[two neighbouring coins are equal to one], 1-dependent, over all 2^15 coins."""
    coins = np.array(list(itertools.product((0, 1), repeat=15)))
    values = (coins[:, 1:] * coins[:, :-1]).mean(axis=1)
    weights = np.full(len(coins), 0.5**15)
    assert worst_ratio(MDependent(14, 1).mean_tail(0, 1), values, weights) <= VALID


def test_m_dependent_rows_hold_for_blocks_of_equal_rows_and_a_smaller_m_is_caught():
    values, weights = means_of_equal_rows([4] * 10)
    assert worst_ratio(MDependent(40, 3).mean_tail(0, 1), values, weights) <= VALID
    assert worst_ratio(MDependent(40, 1).mean_tail(0, 1), values, weights) > 1


def test_the_chromatic_number_of_m_dependent_rows_is_capped_at_n():
    assert MDependent(5, 100).mean_tail(0, 1).radius(0.1) == pytest.approx(
        math.sqrt(math.log(20) / 2), rel=1e-12
    )
    assert MDependent(100, 0).mean_tail(0, 1).radius(0.1) == pytest.approx(
        Independent(100).mean_tail(0, 1).radius(0.1), rel=1e-12
    )


def test_gaussian_rows_are_normal_with_exactly_their_variance(rng):
    factor = rng.normal(size=(6, 6))
    covariance = factor @ factor.T
    model = GaussianRows(covariance)
    sigma = math.sqrt(covariance.sum()) / 6
    assert model.mean_tail().sigma == pytest.approx(sigma, rel=1e-9)
    assert model.mean_tail().sigma >= sigma
    weights = rng.normal(size=6)
    assert model.linear_tail(weights).sigma == pytest.approx(
        math.sqrt(weights @ covariance @ weights), rel=1e-9
    )
    for t in np.linspace(0.01, 6, 50) * sigma:
        exact = float(erfc(t / sigma / math.sqrt(2)))
        assert exact * (1 - 1e-12) <= math.exp(-model.mean_tail().gamma(t)) <= exact * (1 + 1e-8)
    twin = Normal(0.999 * sigma)
    assert all(
        float(erfc(t / math.sqrt(2))) > math.exp(-twin.gamma(t * sigma)) for t in np.linspace(1, 12, 50)
    )
    assert model.mean_tail().radius(0.05) == pytest.approx(1.959964 * sigma, rel=1e-6)


def test_gaussian_rows_refuse_bounds_and_say_why():
    with pytest.raises(InvalidArgument, match="unbounded"):
        GaussianRows(np.eye(3)).mean_tail(0, 1)
    with pytest.raises(InvalidArgument, match="unbounded"):
        GaussianRows(np.eye(3)).mean_tail_report(hi=1)
    report = GaussianRows(np.eye(4)).mean_tail_report(nu=0.05)
    assert report.rows[0].radius == pytest.approx(1.959963984540054 / 2, rel=1e-9)


def test_gaussian_rows_whose_sum_is_constant_have_a_tiny_radius():
    assert GaussianRows([[1.0, -1.0], [-1.0, 1.0]]).mean_tail().radius(0.01) < 1e-6


@pytest.mark.parametrize(
    "covariance",
    [
        [[1.0, 2.0], [2.0, 1.0]],
        [[1.0, 0.5], [0.0, 1.0]],
        [[0.0]],
        [[math.nan]],
        [1.0],
        [],
        [[1.0, 2.0]],
        "x",
        None,
    ],
)
def test_a_matrix_that_is_not_a_covariance_is_refused(covariance):
    with pytest.raises(InvalidArgument, match="covariance"):
        GaussianRows(covariance)


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("n", lambda: Independent(0)),
        ("n", lambda: Independent(math.nan)),
        ("sizes", lambda: Clusters([])),
        ("sizes[1]", lambda: Clusters([2, 0])),
        ("sizes[0]", lambda: Clusters([True, 2])),
        ("sizes[1]", lambda: Clusters([2, np.True_])),
        ("sizes[0]", lambda: Clusters(np.array([True, True]))),
        ("sizes", lambda: Clusters(5)),
        ("sizes", lambda: Clusters("22")),
        ("m", lambda: MDependent(10, -1)),
        ("n", lambda: MDependent(0, 1)),
        ("hi", lambda: Independent(5).mean_tail(1, 1)),
        ("hi", lambda: Independent(5).mean_tail(0, math.nan)),
        ("hi", lambda: Independent(5).mean_tail(-1.7e308, 1.7e308)),
        ("lo", lambda: Clusters([2]).mean_tail("a", 1)),
        ("differences", lambda: Clusters([2]).difference_tail([1])),
        ("differences", lambda: Independent(2).difference_tail(0.0)),
        ("differences[0]", lambda: Independent(2).difference_tail([math.inf, 1])),
        ("weights", lambda: GaussianRows(np.eye(2)).linear_tail([0, 0])),
        ("weights", lambda: GaussianRows(np.eye(2)).linear_tail([1])),
    ],
)
def test_bad_arguments_are_refused(argument, bad):
    with pytest.raises(InvalidArgument) as refused:
        bad()
    assert refused.value.argument == argument


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("n", lambda huge: Independent(huge)),
        ("m", lambda huge: MDependent(10, huge)),
        ("sizes[1]", lambda huge: Clusters([1, huge])),
        ("n", lambda huge: MarkovChain([[0.9, 0.1], [0.2, 0.8]], huge)),
        ("n", lambda huge: beta_mixing_tail([0.1], huge, 0, 1)),
        ("n", lambda huge: coupling_bdp(0.1, 0.5, n=huge)),
        ("queries", lambda huge: reusable_holdout_rows(queries=huge, budget=10, error=0.1, beta=0.05)),
    ],
)
def test_numbers_that_no_float_can_hold_are_refused_by_name(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make(10**400)
    assert refusal.value.argument == argument


def test_numbers_that_no_machine_word_can_hold_are_answered_or_refused_by_name():
    assert coupling_bdp(0.1, 0.5, n=10**300) == coupling_bdp(0.1, 0.5, n=10**6)
    ask = {"budget": 10, "error": 0.1, "beta": 0.05}
    assert reusable_holdout_rows(queries=10**308, **ask) > reusable_holdout_rows(queries=10**300, **ask)
    with pytest.raises(InvalidArgument, match="'n' argument of MarkovChain") as refusal:
        MarkovChain([[0.9, 0.1], [0.2, 0.8]], 10**20)
    assert refusal.value.argument == "n"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_model_says_its_name_its_rows_and_what_it_assumes(model):
    assert model.n in (10, 20)
    assert model.assumptions
    assert all(sentence.endswith(".") for sentence in model.assumptions)
    stored = json.loads(json.dumps(model.to_dict()))
    assert stored["name"] == model.name
    assert stored["assumptions"] == list(model.assumptions)
    assert str(model.n) in repr(model)
    assert "<table>" in model._repr_html_()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_training_part_of_the_callers_own_adds_one_assumption_and_changes_no_bound(model):
    protected = model.protected_only()
    assert type(protected) is type(model)
    assert protected.n == model.n
    assert protected.assumptions[:-1] == model.assumptions
    assert "supplied by the caller" in protected.assumptions[-1]
    assert protected != model
    bounds = () if isinstance(model, GaussianRows) else (0, 1)
    assert protected.mean_tail(*bounds).radius(0.05) == model.mean_tail(*bounds).radius(0.05)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=30), nats=st.floats(0, 5000))
def test_clusters_are_never_better_than_independent_rows_nor_worse_than_the_largest_cluster(sizes, nats):
    model = Clusters(sizes)
    radius = model.mean_tail(0, 1).radius_at(nats)
    independent = Independent(model.n).mean_tail(0, 1).radius_at(nats)
    assert independent * (1 - 1e-12) <= radius <= independent * math.sqrt(max(sizes)) * (1 + 1e-12)


@given(n=st.integers(2, 10**6), m=st.integers(0, 50), nats=st.floats(0, 5000))
def test_more_rows_help_and_longer_dependence_hurts(n, m, nats):
    radius = MDependent(n, m).mean_tail(0, 1).radius_at(nats)
    assert MDependent(n, m + 1).mean_tail(0, 1).radius_at(nats) >= radius
    assert MDependent(2 * n, m).mean_tail(0, 1).radius_at(nats) <= radius
