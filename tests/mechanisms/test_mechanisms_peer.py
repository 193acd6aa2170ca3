"""Our draws against OpenDP's: the same law, and the trap that OpenDP's domain leaves open is closed here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mechanisms_oracles import LEVEL, cells, p_value
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.mechanisms import gaussian, laplace

pytestmark = pytest.mark.slow
DRAWS = 40_000


def peer(kind):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if kind == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=1.0)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0)


@pytest.mark.parametrize(("kind", "ours"), [("laplace", laplace), ("gaussian", gaussian)])
def test_both_samplers_draw_the_same_law(kind, ours):
    # Neither is seeded; each comparison fails by chance once in a million runs.
    theirs = np.array(peer(kind)([0.0] * DRAWS))
    mine = ours(np.zeros(DRAWS), 1.0)
    edges, claimed = cells(2**40, 1.0, kind)
    assert p_value(theirs * 2.0**40, edges, claimed) > LEVEL
    assert p_value(mine * 2.0**40, edges, claimed) > LEVEL
    counts = [np.bincount(np.searchsorted(edges, x * 2.0**40), minlength=40) for x in (theirs, mine)]
    assert stats.chi2_contingency(counts).pvalue > LEVEL
    wide = np.bincount(np.searchsorted(edges, 1.1 * mine * 2.0**40), minlength=40)
    assert stats.chi2_contingency([counts[0], wide]).pvalue < LEVEL


@pytest.mark.parametrize(("kind", "ours"), [("laplace", laplace), ("gaussian", gaussian)])
def test_nan_becomes_a_number_there_and_is_refused_here(kind, ours):
    assert math.isfinite(peer(kind)([math.nan])[0])
    with pytest.raises(InvalidArgument, match="value"):
        ours([math.nan], 1.0)
