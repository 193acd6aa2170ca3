"""Clusters that are draws from a population: any could have been as large as the largest one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from holdfast import Guard
from holdfast.dependence import Clusters
from holdfast.errors import InvalidArgument

LARGEST, CLUSTERS = 40, 60


def missed(share, error, model):
    """Exactly, how often the mean of the rows is farther than the tail says from that of the population.

    A cluster has one row of value 0, or with probability ``share`` the largest number of rows, of value 1.
    """
    truth = share * LARGEST / (1 - share + share * LARGEST)
    chance = 0.0
    for large in range(CLUSTERS + 1):
        sizes = [1] * (CLUSTERS - large) + [LARGEST] * large
        radius = model(sizes).mean_tail(0, 1).radius(error)
        far = abs(large * LARGEST / sum(sizes) - truth) > radius
        chance += float(binom.pmf(large, CLUSTERS, share)) * far
    return chance


@pytest.mark.parametrize("share", [0.01, 0.03, 0.1, 0.5])
@pytest.mark.parametrize("error", [0.5, 0.05])
def test_the_tail_holds_for_clusters_that_are_draws(share, error):
    assert missed(share, error, lambda sizes: Clusters(sizes, largest=LARGEST)) <= error


def test_a_twin_that_takes_the_sizes_as_given_is_caught():
    """Where no large cluster was drawn, nothing tells of them but what was declared."""
    assert missed(0.03, 0.05, Clusters) > 3 * 0.05


def test_who_is_set_aside_does_not_depend_on_the_sizes_of_draws():
    small, mixed = [1] * 30, [1, 7] * 15

    def train(sizes, **options):
        parts = Clusters(sizes, **options).split(0.3, np.random.default_rng(3))
        labels = np.repeat(np.arange(30), sizes)
        return sorted(set(labels[parts.train].tolist())), parts

    chosen, parts = train(mixed, largest=9)
    assert chosen == train(small, largest=9)[0]
    assert len(chosen) == 9
    assert parts.protected_model.most == 9
    # Clusters of given sizes are chosen to make up a share of the rows: there large ones stay out.
    assert train(mixed)[0] != train(small)[0]


def test_large_clusters_are_set_aside_as_often_as_small_ones(rng):
    """One large cluster among small ones would never fit into a share of the rows."""
    sizes, runs = [1] * 9 + [50], 400
    labels = np.repeat(np.arange(10), sizes)
    draws = Clusters(sizes, largest=50)
    times = sum(9 in labels[draws.split(0.3, rng).train] for _ in range(runs))
    assert binom.cdf(times, runs, 0.3) > 1e-4
    assert binom.sf(times - 1, runs, 0.3) > 1e-4
    given = Clusters(sizes)
    assert not any(9 in labels[given.split(0.3, rng).train] for _ in range(runs))


def test_what_is_assumed_of_draws_is_stated():
    stated = " ".join(Clusters([1, 2], largest=4).assumptions)
    assert "draws from one population, in which none has over 4 rows" in stated
    assert "No question was chosen by how many rows the clusters have" in stated
    assert "taken as given" in " ".join(Clusters([1, 2]).assumptions)
    with pytest.raises(InvalidArgument, match="largest"):
        Clusters([1, 5], largest=4)


def test_a_guard_answers_for_the_population_of_clusters(rng):
    """In a third of such samples no large cluster is drawn; half of the population's rows are in one."""
    share, clusters, runs, wrong = 1 / 400, 450, 12, 0
    truth = share * 400 / (1 - share + share * 400)
    for run in range(runs):
        sizes = np.where(rng.random(clusters) < share, 400, 1) if run else np.ones(clusters, dtype=int)
        rows = {"id": np.repeat(np.arange(clusters), sizes), "x": np.repeat(sizes > 1, sizes).astype(float)}
        if 2 * sizes.max() > sizes.sum():
            continue
        guard = Guard(rows, dependence=Clusters(column="id", largest=400), split_seed=run)
        answer = guard.mean("x", bounds=(0, 1))
        wrong += not answer.low <= truth <= answer.high
    assert wrong == 0
