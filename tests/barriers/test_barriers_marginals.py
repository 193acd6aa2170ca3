"""Plain, private and replicable marginals keep their promises with the fewest rows; twins do not."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.barriers import (
    droplet,
    one_way_marginals,
    one_way_marginals_bound,
    one_way_marginals_rows,
    sign_one_way_marginals,
    sign_one_way_marginals_rows,
)
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.mechanisms import widest_ratio
from holdfast.replicable import Tape, compare_ways, correlated_normal, round_to_grid
from holdfast.stability import DP, Replicability, gaussian_delta

NATS = math.log(1e4)
ROWS = {False: one_way_marginals_rows, True: sign_one_way_marginals_rows}
# Of the error of a droplet, in widths².
VARIANCE = 1.0 / 12.0 - 1.0 / (2.0 * math.pi**2)


def means_of(rng, rows, p, size):
    """Column means through their totals: the only thing the algorithms look at."""
    return 2.0 * rng.binomial(rows, (1.0 + np.asarray(p)) / 2.0, size=(size, len(p))) / rows - 1.0


def width_of(rows, d, accuracy, beta, method, *, signs=False):
    """The widest grid or droplets, or the largest sd of joint noise, that keep the accuracy: closed forms."""
    needed = accuracy / 2.0 if signs else accuracy
    spread = accuracy / (2.0 * math.exp(-0.5) + math.sqrt(8.0 * math.log(1.0 / beta) / d)) if signs else 0.0
    log = math.log(2.0 * d / beta)
    if method == "joint":
        return math.sqrt(max(needed**2 / (2.0 * log), spread**2) - 1.0 / rows)
    share = VARIANCE if method == "droplets" else 1.0 / 12.0
    by_spread = math.sqrt(max(spread**2 - 1.0 / rows, 0.0) / share)
    return max(2.0 * (needed - math.sqrt(2.0 * log / rows)), by_spread)


def rounded_means(means, width, method, tape):
    """Column means as two laboratories round them, from the parts that anybody can call."""
    if method == "joint":
        return correlated_normal(means, width, tape.branch("joint"))
    if method == "rounding":
        return round_to_grid(means, width, tape.branch("marginals"))
    return droplet(means, width, tape.branch("droplets"))


def private_sd(rows, d, stability):
    """The noise that hides one row among so many, and a millionth of it for rounding it to its grid."""
    return 2.0 * math.sqrt(d) / rows / widest_ratio(stability.epsilon, stability.delta) * (1.0 + 1e-6)


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize(("method", "d"), [("rounding", 12), ("rounding", 1), ("droplets", 4), ("joint", 7)])
def test_the_simulations_below_are_the_algorithm(method, d, signs, seed):
    algorithm = sign_one_way_marginals if signs else one_way_marginals
    promise = {"accuracy": 0.2, "beta": 0.05, "stability": Replicability(0.2), "method": method}
    rows = ROWS[signs](d, **promise)
    table = np.where(np.random.default_rng([seed, d]).random((rows, d)) < np.linspace(0.0, 1.0, d), 1, -1)
    for k in range(3):
        tape = Tape(f"{seed}-{k}")
        found = algorithm(table, tape=tape, **promise)
        assert found.width == pytest.approx(width_of(rows, d, 0.2, 0.05, method, signs=signs), rel=1e-9)
        expected = rounded_means(table.mean(axis=0), found.width, method, tape)
        expected = np.where(expected < 0.0, -1.0, 1.0) if signs else np.clip(expected, -1.0, 1.0)
        assert found.value.tolist() == expected.tolist()


def lower(count, n):
    return clopper_pearson(count, n, NATS).low


def distributions(d):
    return {
        "fair coins": np.zeros(d),
        "spread": np.linspace(-1.0, 1.0, d),
        "on the edges": np.full(d, 1.0 / 3.0),
    }


@pytest.mark.parametrize("name", ["fair coins", "spread", "on the edges"])
@pytest.mark.parametrize(
    ("method", "d", "pairs"), [("rounding", 12, 2000), ("droplets", 4, 1500), ("joint", 7, 400)]
)
def test_replicable_marginals_at_the_fewest_rows(name, method, d, pairs, seed):
    p, rho, beta, alpha = distributions(d)[name], 0.2, 0.05, 0.2
    rows = one_way_marginals_rows(d, accuracy=alpha, beta=beta, stability=Replicability(rho), method=method)
    width = width_of(rows, d, alpha, beta, method)
    rng = np.random.default_rng([seed, d])
    both = [means_of(rng, rows, p, pairs) for _ in range(2)]
    differ = missed = 0
    for k in range(pairs):
        tape = Tape(f"{seed}-{name}-{k}")
        one, two = (rounded_means(means[k], width, method, tape) for means in both)
        differ += not np.array_equal(one, two)
        missed += bool((np.abs(np.clip(one, -1, 1) - p) > alpha).any())
    assert lower(differ, pairs) <= rho
    assert lower(missed, pairs) <= beta


def test_laboratories_with_private_coins_do_not_agree(seed):
    """The twin: the same rows need, the same rule, but every laboratory throws its own coins."""
    d, rho, beta, alpha, pairs = 12, 0.2, 0.05, 0.2, 300
    rows = one_way_marginals_rows(d, accuracy=alpha, beta=beta, stability=Replicability(rho))
    width = width_of(rows, d, alpha, beta, "rounding")
    rng = np.random.default_rng(seed)
    one, two = (means_of(rng, rows, np.zeros(d), pairs) for _ in range(2))
    differ = sum(
        not np.array_equal(
            rounded_means(one[k], width, "rounding", Tape(f"a{k}")),
            rounded_means(two[k], width, "rounding", Tape(f"b{k}")),
        )
        for k in range(pairs)
    )
    assert lower(differ, pairs) > rho


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_columns_may_depend_on_each_other(shift, seed):
    """All columns the same: the mismatch is paid column by column, so the promise holds."""
    d, rho, pairs = 12, 0.2, 1500
    rows = one_way_marginals_rows(d, accuracy=0.2, beta=0.05, stability=Replicability(rho))
    width = width_of(rows, d, 0.2, 0.05, "rounding")
    rng = np.random.default_rng([seed, 7])
    one, two = (np.repeat(means_of(rng, rows, [shift], pairs), d, axis=1) for _ in range(2))
    differ = sum(
        not np.array_equal(*(rounded_means(m[k], width, "rounding", Tape(f"{k}")) for m in (one, two)))
        for k in range(pairs)
    )
    assert lower(differ, pairs) <= rho


def sign_losses(rng, trials, rows, p, noise):
    found = means_of(rng, rows, p, trials) + noise(rng, (trials, len(p)))
    return (np.abs(p) - np.where(found < 0.0, -1.0, 1.0) * p).mean(axis=1)


@pytest.mark.parametrize(
    "stability", [None, DP(1.0, 1e-6), Replicability(0.3)], ids=["plain", "DP", "replicable"]
)
@pytest.mark.parametrize("d", [30, 600])
def test_signs_at_the_fewest_rows_where_signs_are_hardest(stability, d, seed):
    alpha, beta, trials = 0.25, 0.05, 2000
    rows = sign_one_way_marginals_rows(d, accuracy=alpha, beta=beta, stability=stability)
    sd = 1.0 / math.sqrt(rows)

    def noise(rng, size):
        return 0.0

    if isinstance(stability, DP):
        private = private_sd(rows, d, stability)
        sd = math.hypot(sd, private)

        def noise(rng, size):
            return private * rng.standard_normal(size)

    elif stability is not None:
        width = width_of(rows, d, alpha, beta, "rounding", signs=True)
        sd = math.hypot(sd, width / math.sqrt(12.0))

        def noise(rng, size):
            return width * (rng.random(size) - 0.5)

    rng = np.random.default_rng([seed, d])
    for factor in (0.5, 0.75, 1.0, 1.5):
        losses = sign_losses(rng, trials, rows, np.full(d, min(1.0, factor * sd)), noise)
        assert lower(int((losses > alpha).sum()), trials) <= beta


def test_signs_with_too_few_rows_are_caught(seed):
    """The twin reads a 25th of the rows."""
    d, alpha, beta = 2000, 0.1, 0.05
    rows = sign_one_way_marginals_rows(d, accuracy=alpha, beta=beta) // 25
    rng = np.random.default_rng(seed)
    losses = sign_losses(rng, 1000, rows, np.full(d, 0.75 / math.sqrt(rows)), lambda rng, size: 0.0)
    assert lower(int((losses > alpha).sum()), 1000) > beta


@pytest.mark.parametrize("d", [5, 500])
def test_plain_and_private_marginals_are_accurate_at_the_fewest_rows(d, seed):
    alpha, beta, trials = 0.2, 0.05, 2000
    rng = np.random.default_rng([seed, d])
    for stability in (None, DP(1.0, 1e-6)):
        rows = one_way_marginals_rows(d, accuracy=alpha, beta=beta, stability=stability)
        sd = 0.0 if stability is None else private_sd(rows, d, stability)
        for p in distributions(d).values():
            found = means_of(rng, rows, p, trials) + sd * rng.standard_normal((trials, d))
            missed = int((np.abs(found - p).max(axis=1) > alpha).sum())
            assert lower(missed, trials) <= beta


def test_the_private_noise_hides_a_row_exactly_and_half_of_it_does_not():
    d, stability = 50, DP(1.0, 1e-6)
    rows = one_way_marginals_rows(d, accuracy=0.3, beta=0.05, stability=stability)
    table = np.ones((rows, d), dtype=np.int8)
    found = one_way_marginals(table, accuracy=0.3, beta=0.05, stability=stability, simulation=True, seed=1)
    shift = 2.0 * math.sqrt(d) / rows
    assert gaussian_delta(stability.epsilon, shift / found.width) <= stability.delta
    assert gaussian_delta(stability.epsilon, 2.0 * shift / found.width) > stability.delta
    assert found.width == pytest.approx(shift / widest_ratio(1.0, 1e-6), rel=1e-6)
    assert found.width <= private_sd(rows, d, stability)


def test_rows_are_the_closed_forms():
    d, alpha, beta, rho = 300, 0.15, 0.02, 0.07
    spread = math.sqrt(2.0 * math.log(2 * d / beta))
    promise = {"accuracy": alpha, "beta": beta}
    replicable = {"stability": Replicability(rho), **promise}
    assert one_way_marginals_rows(d, **promise) == math.ceil((spread / alpha) ** 2)
    assert one_way_marginals_rows(d, **replicable) == pytest.approx(
        ((d / (rho * math.sqrt(math.pi)) + spread) / alpha) ** 2, rel=1e-8
    )
    assert one_way_marginals_rows(d, method="droplets", **replicable) == pytest.approx(
        ((math.pi * math.sqrt(2 * d) * (2 - rho) / (2 * rho) + spread) / alpha) ** 2, rel=1e-6
    )
    noise = d * (2 - rho) ** 2 / (math.pi * rho**2)
    assert one_way_marginals_rows(d, method="joint", **replicable) == pytest.approx(
        (spread / alpha) ** 2 * (1 + noise), rel=1e-6
    )
    wide = alpha / (2.0 * math.exp(-0.5) + math.sqrt(8.0 * math.log(1 / beta) / 5000))
    assert sign_one_way_marginals_rows(5000, **promise) == math.ceil(1 / wide**2)
    assert sign_one_way_marginals_rows(5000, **replicable) == pytest.approx(
        (1 + 5000**2 / (3 * math.pi * rho**2)) / wide**2, rel=1e-6
    )
    assert sign_one_way_marginals_rows(5000, method="droplets", **replicable) == pytest.approx(
        (1 + (math.pi**2 / 6 - 1) * 5000 * ((2 - rho) / rho) ** 2) / wide**2, rel=1e-6
    )
    assert sign_one_way_marginals_rows(5000, method="joint", **replicable) == pytest.approx(
        (1 + 5000 * noise / d) / wide**2, rel=1e-6
    )


def test_the_loss_of_a_sign_is_subgaussian_however_large_its_mean():
    """2p times a coin of share q ≤ e^{−s}, s = p²/2τ²: its proxy is at most 4τ², and 3.9τ² is not enough."""
    s = np.linspace(1e-3, 40.0, 40_001)
    q = np.minimum(np.exp(-s), 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        coin = np.where(q < 0.5, (1.0 - 2.0 * q) / (2.0 * np.log(1.0 / q - 1.0)), 0.25)
    proxies = 8.0 * s * coin
    assert proxies.max() <= 4.0
    assert proxies.max() > 3.9
    assert (2.0 * np.sqrt(2.0 * s) * np.exp(-s)).max() == pytest.approx(2.0 * math.exp(-0.5), rel=1e-4)


@pytest.mark.parametrize("algorithm", [one_way_marginals, sign_one_way_marginals])
@pytest.mark.parametrize("stability", [None, DP(2.0, 1e-4), Replicability(0.5)])
def test_the_fewest_rows_are_enough_and_one_fewer_is_refused(algorithm, stability):
    promise = {"accuracy": 0.4, "beta": 0.1, "stability": stability}
    rows = ROWS[algorithm is sign_one_way_marginals](3, **promise)
    table = np.where(np.random.default_rng(0).random((rows, 3)) < [0.9, 0.1, 0.8], 1, -1)
    found = algorithm(table, tape=Tape("study-7"), **promise)
    assert found.guarantee == stability
    assert np.sign(found.value).tolist() == [1.0, -1.0, 1.0]
    assert np.asarray(found).tolist() == found.to_dict()["value"]
    with pytest.raises(NotEnoughRows) as caught:
        algorithm(table[1:], tape=Tape("study-7"), **promise)
    assert (caught.value.needed, caught.value.got) == (rows, rows - 1)


def test_a_laboratory_with_more_rows_rounds_to_the_same_grid():
    promise = {"accuracy": 0.4, "beta": 0.1, "stability": Replicability(0.5), "tape": Tape("study-7")}
    table = np.where(np.arange(6000)[:, None] % 10 < [9, 1, 5], 1, -1)
    few, many = (one_way_marginals(table[:rows], **promise) for rows in (2000, 6000))
    assert few.width == many.width
    assert few.value.tolist() == many.value.tolist()


def test_a_grid_needs_fewer_rows_than_droplets_until_columns_are_many():
    """Where droplets can be run at all, the grid is better; where they are better, they cannot be run."""
    promise = {"accuracy": 0.1, "beta": 0.05, "stability": Replicability(0.1)}
    grid, drops = (
        [one_way_marginals_rows(d, method=method, **promise) for d in (4, 16, 80, 4000)]
        for method in ("rounding", "droplets")
    )
    assert grid[0] < drops[0]
    assert grid[1] < drops[1]
    assert grid[2] > drops[2]
    assert grid[3] > 40 * drops[3]


def test_the_table_of_ways_to_marginals():
    """The table of docs/theory/barriers-samples.md; ``compare_ways`` has the rows of this package."""
    promise = {"accuracy": 0.1, "beta": 0.05, "stability": Replicability(0.1)}
    methods = {"rounding": "rounding", "joint draw": "joint", "droplets": "droplets"}
    table = {}
    for d in (1, 20, 30, 50, 54, 55, 56, 100, 200, 1000):
        ways = {
            way.name: way for way in compare_ways("one_way_marginals", dimension=d, accuracy=0.1, rho=0.1)
        }
        table[d] = {name: way.rows for name, way in ways.items()}
        for name, method in methods.items():
            assert table[d][name] == one_way_marginals_rows(d, method=method, **promise)
            assert ways[name].built_in == (method == "rounding" or d <= 20)
        assert table[d]["rounding"] > one_way_marginals_bound(d, **promise)
    assert table[20] == {"rounding": 1_357_093, "joint draw": 3_073_849, "droplets": 3_702_299}
    assert table[30] == {"rounding": 2_993_680, "joint draw": 4_889_737, "droplets": 5_519_918}
    assert table[56] == {"joint draw": 9_929_686, "droplets": 10_225_866, "rounding": 10_231_943}
    assert table[100] == {"droplets": 18_160_104, "joint draw": 19_063_022, "rounding": 32_292_220}
    assert table[200] == {"droplets": 36_137_198, "joint draw": 41_310_502, "rounding": 128_282_533}
    assert [d for d in table if min(table[d], key=table[d].get) != "rounding"] == [55, 56, 100, 200, 1000]


@pytest.mark.parametrize("d", [60, 100, 400])
@pytest.mark.parametrize("method", ["droplets", "joint"])
def test_blocks_of_columns_that_can_be_run_need_more_rows_than_rounding(d, method):
    """Blocks of 20 share ρ and β: three times the rows and more, as the leading terms say."""
    promise = {"accuracy": 0.1, "beta": 0.05}
    whole = one_way_marginals_rows(d, stability=Replicability(0.1), **promise)
    share = 20 / d
    block = one_way_marginals_rows(
        20, accuracy=0.1, beta=0.05 * share, stability=Replicability(0.1 * share), method=method
    )
    factor = 62 / 20 if method == "droplets" else 8 * math.log(2 * d / 0.05) / 20
    assert block > 2.8 * whole
    assert block == pytest.approx(factor * whole, rel=0.12)


@pytest.mark.parametrize("d", [1, 3])
def test_the_error_of_a_droplet_has_its_density_whatever_the_value(d, seed):
    width, count = 0.3, 3000
    values = np.linspace(-0.4, 0.9, d)
    errors = (
        np.array([droplet(values, width, Tape(f"{seed}-{d}-{k}")) - values for k in range(count)]) / width
    )
    assert (np.abs(errors) <= 0.5 + 1e-12).all()
    for column in errors.T:
        e = np.sort(column)
        exact = e + 0.5 + np.sin(2.0 * np.pi * e) / (2.0 * np.pi)
        distance = np.max(np.abs(exact - (np.arange(count) + 0.5) / count))
        assert distance < 2.6 / math.sqrt(count)
        uniform = np.max(np.abs(e + 0.5 - (np.arange(count) + 0.5) / count))
        assert uniform > 2.6 / math.sqrt(count)
    assert (errors**2).mean() == pytest.approx(VARIANCE, rel=0.12)


def test_droplets_differ_as_seldom_as_promised(seed):
    d, width, pairs = 5, 1.0, 3000
    rng = np.random.default_rng(seed)
    apart = rng.standard_normal(d)
    apart *= 0.05 / np.linalg.norm(apart)
    differ = sum(
        not np.array_equal(droplet(np.zeros(d), width, tape), droplet(apart, width, tape))
        for tape in (Tape(f"{seed}-{k}") for k in range(pairs))
    )
    most = math.pi * 0.05 / width
    assert lower(differ, pairs) <= 2.0 * most / (1.0 + most)
    assert clopper_pearson(differ, pairs, NATS).high >= most


def test_the_overlap_of_a_droplet_and_its_shift():
    """1 − BC(u) ≤ π²u²/2 for BC(u) = (1−u)cos πu + sin(πu)/π, the affinity of density and shift."""
    u = np.linspace(0.0, 1.0, 10_001)
    affinity = (1.0 - u) * np.cos(np.pi * u) + np.sin(np.pi * u) / np.pi
    assert (1.0 - affinity <= np.pi**2 * u**2 / 2.0 + 1e-15).all()
    e = np.linspace(-0.5, 0.5, 200_001)
    for shift in (0.05, 0.3):
        there = np.where(np.abs(e + shift) <= 0.5, np.cos(np.pi * (e + shift)), 0.0)
        direct = np.mean(2.0 * np.cos(np.pi * e) * there)
        assert direct == pytest.approx(np.interp(shift, u, affinity), abs=1e-4)


def test_the_error_of_a_droplet_is_subgaussian_with_its_own_variance():
    """E e^{λe} = (sinh y/y)·π²/(π² + y²), y = λ/2, at most e^{λ²VARIANCE/2}; a smaller proxy fails."""
    y = np.linspace(0.01, 30.0, 3000)
    log_moment = np.log(np.sinh(y) / y) + np.log(np.pi**2 / (np.pi**2 + y**2))
    assert (log_moment <= (2.0 * y) ** 2 * VARIANCE / 2.0).all()
    assert (log_moment > (2.0 * y) ** 2 * 0.97 * VARIANCE / 2.0).any()
    e = (np.arange(200_000) + 0.5) / 200_000 - 0.5
    direct = np.log(np.mean((1.0 + np.cos(2.0 * np.pi * e)) * np.exp(6.0 * e)))
    assert direct == pytest.approx(np.interp(3.0, y, log_moment), abs=1e-6)


@given(st.integers(1, 2000), st.floats(0.05, 0.9), st.floats(1e-6, 0.3), st.floats(0.02, 1.0), st.booleans())
def test_rows_fall_as_promises_weaken(d, accuracy, beta, rho, signs):
    rows = ROWS[signs]
    for stability, weaker in ((None, None), (DP(rho, 1e-6), DP(2 * rho, 1e-5)), (Replicability(rho),) * 2):
        found = rows(d, accuracy=accuracy, beta=beta, stability=stability)
        assert rows(d, accuracy=1.1 * accuracy, beta=beta, stability=stability) <= found
        assert rows(d, accuracy=accuracy, beta=2 * beta, stability=stability) <= found
        assert rows(d, accuracy=accuracy, beta=beta, stability=weaker) <= found


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("samples", {"samples": [[0.0, 1.0]]}),
        ("samples", {"samples": [1, -1]}),
        ("samples", {"samples": np.full((5, 2), float("nan"))}),
        ("accuracy", {"accuracy": 0.0}),
        ("beta", {"beta": 1.0}),
        ("stability", {"stability": 0.1}),
        ("delta", {"stability": DP(1.0)}),
        ("rho", {"stability": Replicability(0.0)}),
        ("method", {"method": "cubes"}),
        ("tape", {"stability": Replicability(1.0), "tape": "study-7"}),
    ],
)
@pytest.mark.parametrize("algorithm", [one_way_marginals, sign_one_way_marginals])
def test_bad_arguments(algorithm, argument, changed):
    arguments = {"samples": np.ones((10**4, 2)), "accuracy": 0.5, "beta": 0.1, "tape": Tape("study-7")}
    with pytest.raises(InvalidArgument) as caught:
        algorithm(**{**arguments, **changed})
    assert caught.value.argument == argument


def test_more_columns_than_droplets_can_take_are_refused():
    arguments = {"accuracy": 2.0, "beta": 0.5, "stability": Replicability(1.0), "method": "droplets"}
    with pytest.raises(InvalidArgument, match="20 columns"):
        one_way_marginals(np.ones((100, 21)), tape=Tape("study-7"), **arguments)


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("method", ["rounding", "droplets"])
def test_every_promise_in_the_domain_has_a_number_of_rows(signs, method):
    """Up to 2¹⁴⁰ rows, by the closed forms of the docstrings; the search used to stop at 2⁶⁰."""
    for d, accuracy, beta, rho in product([1, 10**3, 10**9], [1e-6, 0.1, 2.0], [1e-300, 0.05], [1e-6, 0.1]):
        rows = ROWS[signs](d, accuracy=accuracy, beta=beta, stability=Replicability(rho), method=method)
        spread = math.sqrt(2.0 * (math.log(2.0 * d) - math.log(beta)))
        apart = d / (rho * math.sqrt(math.pi))
        if method == "droplets":
            apart = math.pi * math.sqrt(2.0 * d) * (2.0 - rho) / (2.0 * rho)
        ways = [((apart + spread) / (accuracy / (2.0 if signs else 1.0))) ** 2]
        if signs:
            tau = accuracy / (2.0 * math.exp(-0.5) + math.sqrt(-8.0 * math.log(beta) / d))
            share = d**2 / (3.0 * math.pi * rho**2)
            if method == "droplets":
                share = (math.pi**2 / 6.0 - 1.0) * d * ((2.0 - rho) / rho) ** 2
            ways.append((1.0 + share) / tau**2)
        assert isinstance(rows, int)
        assert min(ways) * (1 - 1e-9) <= rows <= min(ways) * (1 + 1e-9) + 1


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("stability", [None, DP(1e-6, 1e-300), DP(1e3, 1e-300)])
def test_plain_and_private_promises_have_a_number_of_rows_as_well(signs, stability):
    for d in (1, 10**9):
        for accuracy in (1e-6, 2.0):
            assert ROWS[signs](d, accuracy=accuracy, beta=1e-300, stability=stability) >= 1
