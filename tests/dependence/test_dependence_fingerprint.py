"""A model's fingerprint: the same for equal content however it was given, another for any other content."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from holdfast.dependence import (
    BayesianNetwork,
    Clusters,
    Dependence,
    DependencyGraph,
    GaussianRows,
    Independent,
    MarkovChain,
    MarkovNetwork,
    MDependent,
)

STICKY = [[0.9, 0.1], [0.3, 0.7]]
ALIKE = [[3.0, 1.0], [1.0, 2.0]]
COIN = [0.5, 0.5]


def _bayesian(**changed):
    tables = {"a": ([], COIN), "b": (["a"], STICKY), "c": (["a", "b"], [STICKY, STICKY[::-1]])}
    return BayesianNetwork({**tables, **changed})


def _markov(*factors):
    return MarkovNetwork(factors or [((0, 1), ALIKE), ((1, 2), [[1.0, 4.0], [2.0, 1.0]])], nodes=[0, 1, 2])


SAME = {
    "a list and an array": (MarkovChain(STICKY, 20), MarkovChain(np.array(STICKY), 20)),
    "stored by columns": (MarkovChain(STICKY, 20), MarkovChain(np.asfortranarray(STICKY), np.int64(20))),
    "normalised once more": (
        MarkovChain(np.full((3, 3), 1 / 3), 20),
        MarkovChain(MarkovChain(np.full((3, 3), 1 / 3), 20).transition * (1 + 1e-15), 20),
    ),
    "sizes in an array": (Clusters([2, 3, 1]), Clusters(np.array([2, 3, 1], dtype=np.int32))),
    "edges in another order": (
        DependencyGraph([(0, 1), (2, 1)], n=4),
        DependencyGraph([(1, 2), (1, 0), (0, 1), (3, 3)], n=4),
    ),
    "neighbours": (
        DependencyGraph([(0, 1), (2, 1)], n=4),
        DependencyGraph({0: [1], 1: [2], 2: [], 3: []}),
    ),
    "a sparse matrix": (
        DependencyGraph([(0, 1), (2, 1)], n=4),
        DependencyGraph(sparse.coo_array(([1, 1], ([0, 1], [1, 2])), shape=(4, 4))),
    ),
    "a covariance": (GaussianRows([[1, 0.5], [0.5, 1]]), GaussianRows(np.array([[1, 0.5], [0.5, 1.0]]))),
    "parents in another order": (
        _bayesian(),
        _bayesian(c=(["b", "a"], np.swapaxes([STICKY, STICKY[::-1]], 0, 1))),
    ),
    "other names of nodes": (
        BayesianNetwork({"a": ([], COIN), "b": (["a"], STICKY)}),
        BayesianNetwork({7: ([], COIN), "x": ([7], STICKY)}),
    ),
    "factors in another order": (_markov(), _markov(((1, 2), [[1.0, 4.0], [2.0, 1.0]]), ((0, 1), ALIKE))),
    "factors of another scale": (
        _markov(),
        _markov(((0, 1), np.array(ALIKE) * 7), ((1, 2), [[0.1, 0.4], [0.2, 0.1]])),
    ),
    "a factor in two pieces": (
        _markov(),
        _markov(((1, 0), np.sqrt(ALIKE).T), ((0, 1), np.sqrt(ALIKE)), ((2, 1), [[1.0, 2.0], [4.0, 1.0]])),
    ),
}

DIFFERENT = {
    "rows": (Independent(20), Independent(21)),
    "m": (MDependent(20, 1), MDependent(20, 2)),
    "kinds": (Independent(20), MDependent(20, 20), Clusters([1] * 20), DependencyGraph([], n=20)),
    "one probability": (MarkovChain(STICKY, 20), MarkovChain([[0.9, 0.1], [0.3000001, 0.6999999]], 20)),
    "a state that is never reached": (
        MarkovChain([[1.0, 0.0], [0.5, 0.5]], 20, COIN),
        MarkovChain([[1.0, 1e-300], [0.5, 0.5]], 20, COIN),
    ),
    "the start": (MarkovChain(STICKY, 20), MarkovChain(STICKY, 20, COIN), MarkovChain(STICKY, 20, [1, 0])),
    "later sizes": (Clusters([1] * 8 + [2, 4]), Clusters([1] * 8 + [4, 2]), Clusters([1] * 8 + [3, 3])),
    "one edge": (DependencyGraph([(0, 1)], n=4), DependencyGraph([(0, 2)], n=4), DependencyGraph([], n=4)),
    "a covariance": (GaussianRows(np.eye(3)), GaussianRows(np.eye(3) + 0.1)),
    "a table": (_bayesian(), _bayesian(b=(["a"], STICKY[::-1])), _bayesian(b=([], COIN))),
    "a factor": (_markov(), _markov(((0, 1), ALIKE), ((1, 2), [[1.0, 4.0], [2.0, 1.1]]))),
    "rows in another order": (
        BayesianNetwork({"a": ([], COIN), "b": (["a"], STICKY)}),
        BayesianNetwork({"a": ([], COIN), "b": (["a"], STICKY)}, nodes=["b", "a"]),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_equal_content_has_one_fingerprint_however_it_was_given(case):
    first, second = SAME[case]
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize("case", DIFFERENT)
def test_other_content_has_another_fingerprint(case):
    prints = {model.fingerprint for model in DIFFERENT[case]}
    assert len(prints) == len(DIFFERENT[case])


@pytest.mark.parametrize("case", ["one probability", "later sizes", "one edge", "a table", "a factor"])
def test_the_words_in_books_of_earlier_versions_do_not_tell_models_apart(case):
    """The twin: this is what a book stored, and why it went on under another model."""
    assert len({repr(model) for model in DIFFERENT[case][:2]}) == 1


def test_a_pgmpy_model_is_the_same_as_its_tables():
    models = pytest.importorskip("pgmpy.models")
    factors = pytest.importorskip("pgmpy.factors.discrete")
    net = models.DiscreteBayesianNetwork([("a", "b")])
    net.add_cpds(
        factors.TabularCPD("a", 2, [[0.5], [0.5]]),
        factors.TabularCPD("b", 2, np.transpose(STICKY).tolist(), ["a"], [2]),
    )
    plain = BayesianNetwork({"a": ([], COIN), "b": (["a"], STICKY)})
    assert BayesianNetwork(net).fingerprint == plain.fingerprint


def test_the_fingerprint_is_the_same_in_another_process():
    code = (
        "from holdfast.dependence import MarkovNetwork\n"
        f"print(MarkovNetwork([(('x', 'y'), {ALIKE!r}), (('y', 'z'), {STICKY!r})]).fingerprint)"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1
    # Books hold this text: a program that gives another one refuses every book that has a chain.
    pinned = "c5bca963f755d4cf0b01274861d6fbe6e7886385884640b738bf1f93bc78c569"
    assert MarkovChain(STICKY, 20).fingerprint == pinned


@dataclass(frozen=True, repr=False)
class Plain(Dependence):
    """A model of our own: its fields, whatever they are, are what its fingerprint is of."""

    n: int
    first: Any
    second: Any = None

    name = "plain"
    _stated = ()

    def _rows(self, lo, hi):
        return ()


def print_of(*content):
    return Plain(20, *content).fingerprint


def test_contents_of_another_shape_are_never_run_together():
    assert print_of([1, 2], [3]) != print_of([1], [2, 3])
    assert print_of(["ab", "c"], ["d"]) != print_of(["ab"], ["c", "d"])
    assert print_of("ab", "c") != print_of("a", "bc")
    assert print_of(1) != print_of("1")
    assert print_of(1.5) != print_of(None)
    assert print_of([1, 2], [3]) == print_of((1, 2), np.array([3]))


def test_numbers_count_to_twelve_digits_and_without_a_sign_of_zero(rng):
    values = rng.random(1_000) * 10.0 ** rng.integers(-300, 300, 1_000)
    # A fingerprint that kept fewer digits would take some of these for the same.
    assert all(print_of(value) != print_of(value * (1 + 2e-12)) for value in values)
    # One that kept them all would take these for different: a program's last digits are not a model's.
    kept = sum(print_of(value) == print_of(value * (1 + 1e-15)) for value in values)
    assert kept >= 980
    assert print_of([-0.0, 0.5]) == print_of([0.0, 0.5])
    assert print_of(np.nextafter(0.1, [0, 1])) == print_of(np.array([0.1, 0.1]))


def test_the_description_says_few_parameters_whole_and_many_in_summary():
    small, large = MarkovChain(STICKY, 3_000), MarkovChain(np.full((50, 50), 0.02), 3_000)
    assert "[[0.9, 0.1], [0.3, 0.7]]" in small.description
    assert "contraction 0.6" in small.description
    assert small.fingerprint[:16] in small.description
    assert "50×50 numbers" in large.description
    for cases in DIFFERENT.values():
        assert len({model.description for model in cases}) == len(cases)
        assert max(len(model.description) for model in cases) < 400
    assert len(Clusters([2] * 10_000).description) < 200
