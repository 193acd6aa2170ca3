"""One door to the sizes of the core statistics: agreed numbers, agreement with the statistics, refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, heavy_hitters, list_heavy_hitter, mean, quantile, sample_size

TAPE = Tape("sizes")
CORE = {
    "mean": {},
    "quantile": {"q": 0.5, "bounds": (0, 1), "resolution": 0.01},
    "median": {"bounds": (0, 1), "resolution": 0.01},
}


def test_the_sizes_in_the_documents():
    promise = {"accuracy": 0.05, "rho": 0.1, "beta": 0.01}
    assert sample_size("mean", **promise) == 5_847
    assert sample_size("median", bounds=(0, 100), resolution=0.1, **promise) == 355_914
    assert sample_size("median", **promise) == 13_272_933
    assert sample_size("heavy_hitters", threshold=0.1, rho=0.1, beta=0.01) == 255_414
    assert sample_size("list_heavy_hitter", eta=0.1, rho=0.1, beta=0.01, list_size=1) == 105_323
    assert sample_size("list_heavy_hitter", eta=0.1, rho=0.1, beta=0.01) == 420_744
    assert sample_size("list_heavy_hitter", eta=0.1, rho=0.1, beta=0.01, list_size=10**6) == 2_583_782


@pytest.mark.parametrize("name", CORE)
@given(accuracy=st.floats(0.005, 0.2), rho=st.floats(0.01, 0.4), beta=st.floats(1e-6, 0.3))
def test_a_harder_promise_never_needs_fewer_rows(name, accuracy, rho, beta):
    def rows(**changed):
        return sample_size(name, **{"accuracy": accuracy, "rho": rho, "beta": beta, **changed, **CORE[name]})

    assert rows(accuracy=2 * accuracy) <= rows()
    assert rows(rho=2 * rho) <= rows()
    assert rows(beta=2 * beta) <= rows()


CALLS = {
    "mean": lambda n: mean([0.5] * n, accuracy=0.2, rho=0.4, beta=0.1, tape=TAPE),
    "quantile": lambda n: quantile([1.0] * n, 0.5, accuracy=0.3, rho=0.4, beta=0.1, domain=[1, 2], tape=TAPE),
    "heavy_hitters": lambda n: heavy_hitters(["a"] * n, threshold=0.5, rho=0.4, beta=0.1, tape=TAPE),
    "list_heavy_hitter": lambda n: list_heavy_hitter([["a"]] * n, eta=0.8, rho=0.4, beta=0.1, tape=TAPE),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_statistic_takes_exactly_the_size_it_asks_for(name):
    with pytest.raises(NotEnoughRows) as refused:
        CALLS[name](1)
    needed = refused.value.needed
    assert CALLS[name](needed).rows == needed
    with pytest.raises(NotEnoughRows) as again:
        CALLS[name](needed - 1)
    assert (again.value.needed, again.value.got) == (needed, needed - 1)


@pytest.mark.parametrize("name", ["", "maen", None, 3])
def test_an_unknown_statistic_is_refused(name):
    with pytest.raises(InvalidArgument, match="'name' argument of sample_size"):
        sample_size(name, accuracy=0.1)


def test_a_wrong_or_missing_parameter_is_refused():
    with pytest.raises(InvalidArgument, match="accurracy"):
        sample_size("mean", accurracy=0.1, rho=0.1, beta=0.1)
    with pytest.raises(InvalidArgument, match="rows"):
        sample_size("median", accuracy=0.1, rho=0.1, beta=0.1, rows=3)
    with pytest.raises(InvalidArgument, match="'parameters'"):
        sample_size("quantile", accuracy=0.1, rho=0.1, beta=0.1)
    with pytest.raises(InvalidArgument, match="'rho'"):
        sample_size("mean", accuracy=0.1, rho=math.nan, beta=0.1)
