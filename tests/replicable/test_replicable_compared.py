"""The ways that are not built in: the lemmas behind their rows, and where they would win."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from replicable_pairs import not_above
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape, compare_ways, gaussian_mean, histogram

ASK = {"rho": 0.1, "accuracy": 0.1}
# One row is far too few: what it gives says what the full number of rows would be drawn with.
FROM_ONE_ROW = {**ASK, "beta": 0.05, "tape": Tape("one row"), "best_effort": True}


def rows_of(statistic, **ask):
    return {way.name: way.rows for way in compare_ways(statistic, **ask)}


def best_of_three(law, length, prefix, bits):
    """The largest mass that one of the three points of a prefix has on its poorer side."""
    width = 2 ** (bits - length)
    start = prefix * width
    points = {start, start + width - 1, start + width // 2 - 1 if width > 1 else start}
    return max(min(law[: point + 1].sum(), law[point:].sum()) for point in points)


def laws_and_prefixes(bits, parts):
    """Every law with so many equal parts, every length, its share q, and every prefix with at least q/2."""
    size = 2**bits
    for rows in combinations_with_replacement(range(size), parts):
        law = np.bincount(rows, minlength=size) / parts
        masses = [law.reshape(2**length, -1).sum(axis=1) for length in range(bits + 1)]
        reach = [float((mass**2).sum()) for mass in masses] + [0.0]  # P(two rows share a prefix this long)
        for length in range(bits + 1):
            share = min(reach[length], 1.0 - reach[length + 1])
            for prefix in np.flatnonzero(masses[length] >= share / 2.0):
                yield law, length, int(prefix), share


def test_one_of_three_points_has_a_quarter_of_the_share_on_both_sides():
    """The last step of common prefixes, for every law of six equal parts on eight points."""
    looked = 0
    for law, length, prefix, share in laws_and_prefixes(3, 6):
        if share > 0.0:
            looked += 1
            assert best_of_three(law, length, prefix, 3) >= share / 4.0 - 1e-12
    assert looked > 1000


def test_two_of_the_three_points_would_not_do():
    """The twin leaves the first point out."""
    worst = min(
        min(law[: point + 1].sum(), law[point:].sum()) / share
        for law, length, prefix, share in laws_and_prefixes(2, 5)
        if share > 0.0 and length < 2
        for point in [prefix * 2 ** (2 - length) + 2 ** (1 - length) - 1]
    )
    assert worst < 0.25


@pytest.mark.parametrize("k", [3, 10, 40])
def test_one_joint_draw_of_shares_keeps_its_promise(k, rng):
    """Equal shares, the hardest law: mismatch by the exact distance of two normal laws, then the error."""
    rows = rows_of("histogram", dimension=k, **ASK)["joint draw"]
    # Shares of two samples lie √(2(1 − 1/k)/n) apart on average, at most; ρ = 0.1.
    noise = np.sqrt(2.0 * (1.0 - 1.0 / k) / rows) / np.sqrt(2.0 * np.pi) * 1.9 / 0.1
    if k <= 20:
        details = histogram([0], k, method="joint", **FROM_ONE_ROW).details
        assert (details["needed"], details["width"]) == (rows, pytest.approx(noise, rel=1e-9))
    samples = rng.multinomial(rows, np.full(k, 1.0 / k), (2, 4000)) / rows
    apart = np.linalg.norm(samples[0] - samples[1], axis=1)
    distance = 2.0 * stats.norm.cdf(apart / (2.0 * noise)) - 1.0
    assert (2.0 * distance / (1.0 + distance)).mean() <= 0.1
    drawn = rng.normal(size=(4000, k)) * noise
    off = samples[0] + drawn - drawn.mean(axis=1, keepdims=True) - 1.0 / k
    assert not_above((0.5 * np.abs(off).sum(axis=1) > 0.1).sum(), 4000, 0.05)


@pytest.mark.parametrize("d", [1, 5, 20])
def test_one_joint_draw_of_a_mean_keeps_its_promise(d, rng):
    details = gaussian_mean(np.zeros((1, d)), covariance=np.eye(d), method="joint", **FROM_ONE_ROW).details
    rows, noise = details["needed"], details["width"]
    assert rows == rows_of("gaussian_mean", dimension=d, **ASK)["joint draw, covariance known"]
    apart = stats.chi.ppf((np.arange(10_000) + 0.5) / 10_000, d) * np.sqrt(2.0 / rows)
    distance = 2.0 * stats.norm.cdf(apart / (2.0 * noise)) - 1.0
    assert (2.0 * distance / (1.0 + distance)).mean() <= 0.1
    off = np.linalg.norm(rng.normal(size=(2, 4000, d)).T @ [1.0 / np.sqrt(rows), noise], axis=0)
    assert not_above((off > 0.1).sum(), 4000, 0.05)


def test_where_the_other_way_would_win():
    """The tables of docs/theory/replicable-estimation.md."""
    table = {bits: rows_of("interior_point", bits=bits, rho=0.1) for bits in (20, 62, 80, 100, 256)}
    assert table[62] == {"coarsest point": 210_679, "common prefixes": 483_834}
    assert table[100] == {"coarsest point": 545_296, "common prefixes": 541_471}
    assert [bits for bits in table if min(table[bits], key=table[bits].get) == "common prefixes"] == [
        100,
        256,
    ]
    shares = {k: rows_of("histogram", dimension=k, **ASK) for k in (20, 31, 32, 50)}
    assert shares[20] == {"lattice": 1_166_449, "joint draw": 2_040_259}
    assert [k for k in shares if shares[k]["joint draw"] < shares[k]["lattice"]] == [32, 50]
    assert rows_of("gaussian_mean", dimension=20, **ASK) == {
        "joint draw, covariance known": 7_043_721,
        "grid, covariance known": 11_409_083,
        "rounding in turn": 15_145_114,
    }
    cheapest = {
        d: gaussian_mean(np.zeros((1, d)), covariance=np.eye(d), **FROM_ONE_ROW).details["method"]
        for d in (2, 12, 13, 20, 21)
    }
    assert cheapest == {2: "grid", 12: "grid", 13: "joint", 20: "joint", 21: "grid"}
    ways = {way.name: way for way in compare_ways("gaussian_mean", dimension=20, **ASK)}
    assert ways["joint draw, covariance known"].built_in
    assert 300 < ways["joint draw, covariance known"].work < 320
    assert compare_ways("histogram", dimension=50, **ASK)[0].work > 5e8
    assert not compare_ways("histogram", dimension=50, **ASK)[0].built_in


def test_mistakes_are_named():
    with pytest.raises(InvalidArgument, match="statistic"):
        compare_ways("magic", rho=0.1)
    with pytest.raises(InvalidArgument, match="bits"):
        compare_ways("interior_point", rho=0.1)
    with pytest.raises(InvalidArgument, match="accuracy"):
        compare_ways("histogram", rho=0.1, dimension=3)
