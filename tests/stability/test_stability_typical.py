"""Typical stability: composition, near independence and generalisation, against exact enumeration."""

from __future__ import annotations

import itertools
import math
import time
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enumeration import close, hockey_stick, independent, small_mechanisms
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, TwoSampleStability, TypicalStability, composed_delta

ETAS = st.floats(1e-6, 1.5)
NUS = st.floats(-300.0, -1.0).map(lambda exponent: 10.0**exponent)
SLACKS = st.floats(-200.0, -0.1).map(lambda exponent: 10.0**exponent)
COUNTS = st.integers(2, 10**6)
GROWTH = st.floats(1.0, 4.0)
HAIR = 1.0 + 1e-9


def printed(eta, tau, nu, k, slack):
    """TS Theorems 4.2 and 4.8 in fifty digits, term by term."""
    with mpmath.workdps(50):
        eta, tau, nu, slack = (mpmath.mpf(value) for value in (eta, tau, nu, slack))
        root = mpmath.sqrt(2 * mpmath.log(1 / slack))
        e = mpmath.exp(eta)
        if tau == 0:
            width, drift, cost, divisor = eta, eta * (e - 1), slack, eta
        else:
            hat = 2 * tau / (1 - 1 / e)
            psi = tau * (2 * e + 1) + tau**2 * (
                1 + 2 * e**2 / (e - 1) ** 2 * (4 * e**2 + 4 * e - 3 - 2 / e + e**-2)
            )
            width, drift = 2 * eta, 2 * eta * (e**2 / (1 - hat) - 1) + psi
            cost, divisor = hat + slack, 2 * eta

        def at(j):
            return width * root * mpmath.sqrt(j) + j * drift

        inside = k * cost + nu + nu * mpmath.fsum(mpmath.exp(at(t)) for t in range(1, k))
        return float(3 * at(k)), min(1.0, float(5 * mpmath.sqrt(inside / divisor)))


@given(ETAS, st.sampled_from([0.0, 1e-12, 1e-3, 0.02]), NUS, st.integers(2, 40), SLACKS)
def test_printed_theorems_to_nine_digits(eta, share, nu, k, slack):
    step = TypicalStability(eta, share * eta, nu)
    eta_star, tau_star = printed(step.eta, step.tau, nu, k, slack)
    composed = step.compose(k, slack=slack, method="paper")
    assert composed.eta == pytest.approx(eta_star, rel=1e-12)
    assert composed.tau == composed.nu == pytest.approx(tau_star, rel=1e-9, abs=0)


def test_the_sharp_theorem_is_what_it_says():
    composed = TypicalStability(0.01, nu=1e-12).compose(100, slack=2e-9)
    assert composed.tau == 2e-9
    assert composed_delta(DP(0.01), 100, composed.eta) == pytest.approx(1e-9, rel=1e-6)
    assert composed.nu == pytest.approx(1e-12 + 99 * 1e-12 * math.exp(composed.eta) / 1e-9, rel=1e-12)
    possible = TypicalStability(0.01, nu=1e-12)
    assert composed_delta(DP(0.01), 100, 0.5) + math.exp(0.5) * 1e-5 <= 1.65e-5
    assert (
        possible.compose(100, slack=1.65e-5).nu < possible.compose(100, slack=1e-9, method="paper").nu / 500
    )


@given(ETAS, st.sampled_from([1e-15, 1e-9, 1e-4]), st.integers(2, 500), st.floats(-6, -1))
def test_sharp_with_approximate_steps_spends_half_of_the_slack(eta, tau, k, exponent):
    slack = 10.0**exponent
    outright = -math.expm1(k * math.log1p(-tau))
    if slack / 2 <= outright:
        with pytest.raises(InvalidArgument, match="slack") as refusal:
            TypicalStability(eta, tau, 1e-9).compose(k, slack=slack)
        assert refusal.value.argument == "slack"
        return
    composed = TypicalStability(eta, tau, 1e-9).compose(k, slack=slack)
    exact = composed_delta(DP(eta, tau), k, composed.eta)
    assert exact <= slack / 2 * HAIR
    if composed.eta > 0.0:
        assert exact > 0.49 * slack


def test_a_slack_that_is_refused_names_one_that_suffices():
    step = TypicalStability(0.1, 1e-3, 1e-9)
    with pytest.raises(InvalidArgument) as refusal:
        step.compose(10, slack=0.01)
    enough = float(refusal.value.expected.split("at least ")[1].split()[0])
    assert enough == pytest.approx(2 * (1 - 0.999**10), rel=1e-5)
    assert step.compose(10, slack=enough * 1.00001).eta <= 1.0 * HAIR
    with pytest.raises(InvalidArgument, match="too many"):
        step.compose(10**6, slack=0.5)


@pytest.mark.parametrize("method", ["sharp", "paper"])
def test_extremes_give_numbers(method):
    for k, eta in product([1, 2, 1000, 10**6], [1e-300, 1e-6, 0.01, 1.5, 800.0, 1e300]):
        for nu in (0.0, 5e-324, 1e-300, 1e-12, 0.5):
            for slack in (5e-324, 1e-200, 1e-9, 0.999):
                composed = TypicalStability(eta, 0.0, nu).compose(k, slack=slack, method=method)
                if method == "paper" and k > 1:
                    # Three times η_k, exactly: beyond the floats it is infinite, never the largest float.
                    spread = mpmath.sqrt(-2 * k * mpmath.log(mpmath.mpf(slack))) * eta
                    assert composed.eta >= 3 * (spread + k * eta * mpmath.expm1(mpmath.mpf(eta)))
                    assert math.isfinite(composed.eta) == (eta <= 1.5)
                    assert composed.vacuous or eta <= 1.5
                else:
                    assert k * eta * HAIR >= composed.eta >= 0.0
                assert 0.0 <= composed.tau <= 1.0
                assert 0.0 <= composed.nu <= 1.0


def test_more_steps_than_fit_in_memory_are_bounded_from_above():
    step = TypicalStability(1e-9, 0.0, 1e-30)
    exact = step.compose(4_000_001, slack=1e-40, method="paper").tau
    blocked = step.compose(4_000_002, slack=1e-40, method="paper").tau
    assert exact <= blocked <= exact * 1.00001
    assert math.isfinite(step.compose(10**11, slack=1e-40, method="paper").tau)


@pytest.mark.parametrize("method", ["sharp", "paper"])
@pytest.mark.parametrize("tau", [0.0, 1e-15])
def test_a_million_steps_take_under_a_fifth_of_a_second(method, tau):
    def once():
        start = time.perf_counter()
        TypicalStability(1e-4, tau, 1e-300).compose(10**6, slack=1e-8, method=method)
        return time.perf_counter() - start

    assert min(once() for _ in range(3)) < 0.2


@given(ETAS, NUS, COUNTS, SLACKS, GROWTH)
def test_sharp_composition_is_monotone_in_every_argument(eta, nu, k, slack, growth):
    base = TypicalStability(eta, 0.0, nu).compose(k, slack=slack)
    more = [
        TypicalStability(eta * growth, 0.0, nu).compose(k, slack=slack),
        TypicalStability(eta, 0.0, min(0.99, nu * growth)).compose(k, slack=slack),
        TypicalStability(eta, 0.0, nu).compose(math.ceil(k * growth), slack=slack),
    ]
    for larger in more:
        assert larger.eta >= base.eta / HAIR
        assert larger.nu >= base.nu / HAIR
    looser = TypicalStability(eta, 0.0, nu).compose(k, slack=min(0.99, slack * growth))
    assert looser.eta <= base.eta * HAIR
    assert looser.nu <= base.nu * HAIR
    assert looser.tau >= base.tau


@given(st.floats(1e-3, 1.5), st.floats(0.0, 1.0), NUS, st.integers(1, 2000), SLACKS, GROWTH)
def test_paper_composition_is_monotone_where_its_formula_is(eta, share, nu, k, slack, growth):
    tau = share * eta / 50.0
    base = TypicalStability(eta, tau, nu).compose(k, slack=slack, method="paper")
    more = [
        TypicalStability(eta, tau, min(0.99, nu * growth)).compose(k, slack=slack, method="paper"),
        TypicalStability(eta, tau, nu).compose(math.ceil(k * growth), slack=slack, method="paper"),
    ]
    if 0.0 < tau * growth <= eta / 50.0:
        more.append(TypicalStability(eta, tau * growth, nu).compose(k, slack=slack, method="paper"))
    for larger in more:
        assert larger.eta >= base.eta / HAIR
        assert larger.tau >= base.tau / HAIR


@given(st.floats(1e-4, 1.0), NUS, st.integers(2, 2000), SLACKS)
def test_sharp_beats_paper(eta, nu, k, slack):
    step = TypicalStability(eta, 0.0, nu)
    paper = step.compose(k, slack=slack, method="paper")
    assert step.compose(k, slack=min(slack, 0.9)).eta <= paper.eta * HAIR
    if paper.tau < 1.0:
        # At the same τ* the sharp theorem is better in the other two numbers.
        sharp = step.compose(k, slack=paper.tau)
        assert sharp.eta <= paper.eta * HAIR
        assert sharp.nu <= paper.nu * HAIR


@given(ETAS, st.sampled_from([0.0, 1e-9, 0.3]), NUS, SLACKS, st.sampled_from(["sharp", "paper"]))
def test_one_step_is_itself(eta, tau, nu, slack, method):
    """Even where slack is too small for two steps, or outside the domain of the printed theorems."""
    step = TypicalStability(eta, tau, nu)
    assert step.compose(1, slack=slack, method=method) == step
    assert step.compose_nonadaptive(1) == step


@given(ETAS, NUS, st.integers(2, 2000), SLACKS)
def test_the_first_step_costs_its_own_nu_and_each_later_one_costs_more(eta, nu, k, slack):
    composed = TypicalStability(eta, 0.0, nu).compose(k, slack=slack)
    with mpmath.workdps(40):
        s = mpmath.mpf(slack) / 2 * mpmath.exp(-mpmath.mpf(composed.eta))
        exact = min(mpmath.mpf(1), nu + (k - 1) * nu / s)
        assert exact <= composed.nu <= exact * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-320")
        # What stood here before, with k steps that all have a history.
        assert composed.nu <= k * nu / s * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-320")


def test_nonadaptive_composition():
    composed = TypicalStability(0.1, 1e-6, 1e-9).compose_nonadaptive(10)
    assert (composed.eta, composed.tau, composed.nu) == pytest.approx((1.0, 1e-5, 1e-8))
    assert TypicalStability(0.1, 0.3, 0.4).compose_nonadaptive(10).vacuous


def _adaptive_transcripts(values, k, eta):
    """k binary steps on uniform data; along each prefix one value is bad and prints a third symbol.

    Returns the transcript law of every value and of the oracle: ideal steps are fair coins, real ones lean
    by η towards the parity of the data.
    """
    lean = 1.0 / (1.0 + math.exp(-eta))
    prefixes = [()]
    laws = {(): np.ones(values + 1)}
    done: list[np.ndarray] = []
    bad = iter(range(values))
    for _ in range(k):
        longer = {}
        for prefix in prefixes:
            here = laws[prefix]
            odd = next(bad)
            for symbol in (0, 1):
                factor = np.where(np.arange(values) % 2 == symbol, lean, 1.0 - lean)
                factor[odd] = 0.0
                longer[(*prefix, symbol)] = here * np.append(factor, 0.5)
            broken = np.zeros(values + 1)
            broken[odd] = here[odd]
            done.append(broken)
        laws, prefixes = longer, list(longer)
    table = np.array([*done, *laws.values()]).T
    return table[:values], table[values]


@pytest.mark.parametrize("slack", [0.02, 0.2, 0.6])
def test_enumerated_adaptive_composition_obeys_the_sharp_theorem(slack):
    for k, eta in product([1, 2, 3, 4], [0.0, 0.1, 0.5]):
        values = 64
        table, oracle = _adaptive_transcripts(values, k, eta)
        # A fair coin and a coin of bias lean are (2 lean)-close: the step is (η', 0, 1/64)-stable.
        lean = 1.0 / (1.0 + math.exp(-eta))
        step = max(math.log(2.0 * lean), -math.log(2.0 * (1.0 - lean)))
        claim = TypicalStability(step, 0.0, 1.0 / values).compose(k, slack=slack)
        far = 1.0 - close(table, oracle[None, :], claim.eta, claim.tau).mean()
        assert far <= claim.nu


def test_the_enumeration_catches_a_sabotaged_composition():
    values, k, slack = 64, 3, 0.2
    table, oracle = _adaptive_transcripts(values, k, 0.0)
    claim = TypicalStability(0.0, 0.0, 1.0 / values).compose(k, slack=slack)
    far = 1.0 - close(table, oracle[None, :], claim.eta, claim.tau).mean()
    forgot_the_union_and_the_half = claim.nu / (2 * k)
    assert forgot_the_union_and_the_half < far <= claim.nu


def _game_with_late_surprises(k, share, values=64, symbols=20):
    """Data uniform on ``values``; every good step ignores them. The first output is one of ``symbols``, the
    later ones are 0.

    The first step is bad for the value 0. Step j ≥ 2 is bad, after each symbol, for one value of its own: the
    symbols are cut into blocks of more than ``share`` of them, and a block has one value. A bad step prints 1
    and the game ends.
    """
    block = math.floor(share * symbols) + 1
    table = np.zeros((values, 1 + symbols * k))  # broken at once; (symbol, no bad step); (symbol, bad step j)
    table[:, 1 : 1 + symbols] = 1.0 / symbols
    oracle = table[1].copy()
    table[0] = 0.0
    table[0, 0] = 1.0
    for j, number in itertools.product(range(1, k), range(symbols // block)):
        value = 1 + (j - 1) * (symbols // block) + number
        for symbol in range(number * block, (number + 1) * block):
            table[value, 1 + symbol] = 0.0
            table[value, 1 + symbols * j + symbol] = 1.0 / symbols
    return table, oracle


@pytest.mark.parametrize("k", [2, 3, 4])
def test_bad_data_of_the_first_step_and_of_later_ones_add_up(k):
    """The theorem at ε = 0, η = τ = 0: (0, s, ν + (k−1)ν/s). Neither part of ν can be left out."""
    for share in (0.3, 0.5, 0.75, 0.92):
        table, oracle = _game_with_late_surprises(k, share)
        nu = 1.0 / len(table)
        far = 1.0 - close(table, oracle[None, :], 0.0, share).mean()
        assert far <= nu + (k - 1) * nu / share
    assert far > (k - 1) * nu / share
    assert far > nu + (k - 2) * nu / share
    composed = TypicalStability(0.0, 0.0, nu).compose(k, slack=share)
    assert 1.0 - close(table, oracle[None, :], composed.eta, composed.tau).mean() <= composed.nu


def test_the_exact_composition_catches_a_smaller_eta():
    claim = TypicalStability(0.3).compose(20, slack=0.01)
    assert composed_delta(DP(0.3), 20, claim.eta) <= claim.tau
    assert composed_delta(DP(0.3), 20, claim.eta * 0.8) > claim.tau


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [0.5, 0.2])
def test_enumerated_near_independence(n, p, rng):
    law = independent(n, p)
    for table in small_mechanisms(rng, n):
        for eta in (0.0, 0.1, 0.7, 2.0):
            for tau in (0.0, 0.05):
                pairs = close(table[:, None, :], table[None, :, :], eta, tau)
                nu = float(law @ (1.0 - pairs) @ law)
                if nu >= 1.0:
                    continue
                _, added = TwoSampleStability(eta, tau, nu).near_independence()
                exact = float(law @ hockey_stick(table, (law @ table)[None, :], eta))
                assert exact <= added + 1e-12


def test_near_independence_is_tight_so_a_smaller_term_is_caught():
    # One value in ten prints B, the others G: the pair is bad exactly when they differ.
    law = np.array([0.9, 0.1])
    table = np.eye(2)
    nu = float(2 * law[0] * law[1])
    exact = float(law @ hockey_stick(table, (law @ table)[None, :], 0.0))
    _, added = TwoSampleStability(0.0, 0.0, nu).near_independence()
    assert exact == pytest.approx(added, rel=1e-12)
    assert exact > added * 0.99


def test_printed_near_independence_and_its_domain():
    form = TwoSampleStability(0.5, 0.01, 0.001)
    assert form.near_independence("paper") == (0.5, pytest.approx(0.015))
    assert form.near_independence()[1] < form.near_independence("paper")[1]
    with pytest.raises(InvalidArgument, match=r"eta.*TS Lemma 3.3"):
        TwoSampleStability(1.0, 0.0, 0.01).near_independence("paper")
    with pytest.raises(InvalidArgument, match=r"nu.*TS Lemma 3.3"):
        TwoSampleStability(0.5, 0.0, 0.1).near_independence("paper")


def _query_chooser(values, eta, bad):
    """Query y misses its radius exactly on data x = y; the chooser leans towards missing.

    The first ``bad`` values of the data always get the query that misses.
    """
    table = np.full((values, values), 1.0)
    np.fill_diagonal(table, math.exp(eta))
    table /= table.sum(axis=1, keepdims=True)
    table[:bad] = np.eye(values)[:bad]
    return table


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("bad", [0, 1, 4])
def test_enumerated_generalisation(eta, bad):
    values = 16
    table = _query_chooser(values, eta, bad)
    oracle = np.full(values, 1.0 / values)
    misses = float(np.trace(table)) / values
    nu = bad / values
    good = close(table[bad:], oracle[None, :], eta, 0.0)
    assert good.all()
    assert misses <= TypicalStability(eta, 0.0, nu).failure(1.0 / values)


def test_generalisation_is_tight_so_leaving_out_nu_is_caught():
    table = _query_chooser(16, 0.0, 4)
    misses = float(np.trace(table)) / 16
    claim = TypicalStability(0.0, 0.0, 0.25).failure(1.0 / 16)
    assert misses <= claim
    assert misses > claim - 0.25


def test_failure_numbers():
    form = TypicalStability(0.5, 1e-7, 1e-6)
    assert form.failure(1e-6) == pytest.approx(math.exp(0.5) * 1e-6 + 1e-6 + 1e-7, rel=1e-12)
    assert form.failure(1e-6, "paper") == pytest.approx((math.exp(0.5) + 5) * 1e-6 + 1e-7, rel=1e-12)
    assert form.failure(1.0) == 1.0
    assert TypicalStability(1000.0, 0.0, 0.0).failure(1e-300) == 1.0
    assert TypicalStability(1000.0, 0.0, 0.0).failure(0.0) == 0.0
    with pytest.raises(InvalidArgument, match=r"TS Theorem 3.4"):
        TypicalStability(1.0, 0.0, 1e-6).failure(1e-6, "paper")


@given(
    st.floats(0.0, 5.0), st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.floats(0.0, 1.0), st.floats(0.0, 0.3)
)
def test_failure_and_two_sample_are_monotone(eta, tau, nu, tail, more):
    base = TypicalStability(eta, tau, nu)
    larger = TypicalStability(eta + more, tau + more / 2, nu + more / 2)
    assert base.failure(tail) <= larger.failure(min(1.0, tail + more))
    assert base.two_sample().tau <= larger.two_sample().tau
    assert base.two_sample().nu <= larger.two_sample().nu
    assert base.two_sample().near_independence()[1] <= larger.two_sample().near_independence()[1]


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("eta", lambda: TypicalStability(-0.1)),
        ("eta", lambda: TypicalStability(math.nan)),
        ("eta", lambda: TypicalStability(math.inf)),
        ("tau", lambda: TypicalStability(0.1, tau=1.0)),
        ("tau", lambda: TypicalStability(0.1, tau=-1e-9)),
        ("nu", lambda: TypicalStability(0.1, nu=1.0)),
        ("nu", lambda: TwoSampleStability(0.1, nu="small")),
        ("k", lambda: TypicalStability(0.1).compose(0, slack=0.1)),
        ("k", lambda: TypicalStability(0.1).compose(2.5, slack=0.1)),
        ("k", lambda: TypicalStability(0.1).compose_nonadaptive(0)),
        ("slack", lambda: TypicalStability(0.1).compose(2, slack=0.0)),
        ("slack", lambda: TypicalStability(0.1).compose(2, slack=1.0)),
        ("slack", lambda: TypicalStability(0.1).compose(2, slack=math.nan)),
        ("method", lambda: TypicalStability(0.1).compose(2, slack=0.1, method="best")),
        ("eta", lambda: TypicalStability(0.0).compose(2, slack=0.1, method="paper")),
        ("eta", lambda: TypicalStability(1.6, 0.01).compose(2, slack=0.1, method="paper")),
        ("tau", lambda: TypicalStability(0.1, 0.0021).compose(2, slack=0.1, method="paper")),
        ("query_tail", lambda: TypicalStability(0.1).failure(1.1)),
    ],
)
def test_bad_arguments_are_named(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert refusal.value.argument == argument


def test_a_vacuous_result_may_come_out_but_not_go_in():
    composed = TypicalStability(1.5, 0.01, 1e-9).compose(2, slack=1e-6, method="paper")
    assert composed.vacuous
    assert composed.tau == 1.0
    assert repr(composed) == "TypicalStability(eta=420.785, tau=1, nu=1)"
    assert composed.to_dict()["nu"] == 1.0
