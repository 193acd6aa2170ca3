"""Where print is wrong or loose: the printed formula failing, computed exactly, and ours holding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import betabinom

from enumeration import close, data, hockey_stick, independent, information_excess
from holdfast.errors import InvalidArgument
from holdfast.stability import (
    BayesianDP,
    GoodCoins,
    MaxInformation,
    PerfectGeneralization,
    Replicability,
    TwoSampleStability,
    TypicalStability,
    azuma_intervals,
    expected_loss,
    gaussian_delta,
    hoeffding_lemma,
    perfect_plan,
    polya_tail,
    polya_variance,
)
from holdfast.tails import BoundedDifferences, SubExponential

LN2 = math.log(2.0)


def test_ts_2_2_leaves_out_the_factor_two():
    # A fair coin, n = 1, Δ = 1: the query is always exactly 1/2 from its mean.
    for alpha in (0.1, 0.3, 0.49):
        exact = 1.0
        printed = math.exp(-2.0 * alpha**2)
        assert exact > printed
        assert exact <= math.exp(-BoundedDifferences(delta=1.0, n=1).gamma(alpha))


def test_ts_2_2_stops_growing_for_subexponential_queries():
    # X − 1 for X exponential is (√2, 2)-subexponential: −t − ln(1−t) ≤ t² for |t| ≤ 1/2.
    sigma, b = math.sqrt(2.0), 2.0
    assert all(-t - math.log1p(-t) <= t * t * sigma**2 / 2 for t in np.linspace(-0.5, 0.5, 101))
    wanted = math.log(1e6)
    assert all(
        min(a**2 / (2 * sigma**2), sigma**2 / (2 * b**2)) < wanted for a in np.geomspace(1e-3, 1e9, 200)
    )
    ours = SubExponential(sigma=sigma, b=b)
    assert math.isfinite(ours.radius(1e-6))
    for alpha in np.geomspace(0.01, 100.0, 60):
        exact = math.exp(-(1 + alpha)) + (1 - math.exp(-(1 - alpha)) if alpha < 1 else 0.0)
        assert exact <= math.exp(-ours.gamma(alpha))


def test_ts_2_1_three_tau_needs_eta_at_most_ln_2():
    # A(X) is P or Q with equal chance; both are within (η, τ) of the oracle W.
    eta, tau = 1.0, 0.05
    q = np.array([0.0, 1.0])
    w = np.array([tau, 1.0 - tau])
    p = np.array([(1.0 + math.exp(eta)) * tau, 1.0 - (1.0 + math.exp(eta)) * tau])
    assert close(p, w, eta, tau)
    assert close(q, w, eta, tau)
    assert hockey_stick(p, q, 2 * eta) > 3 * tau
    ours = TypicalStability(eta, tau).two_sample()
    assert close(p, q, ours.eta, ours.tau)
    # Up to ln 2 the printed factor is right.
    assert TypicalStability(LN2, tau).two_sample().tau == pytest.approx(3 * tau)


def test_ts1_set_form_is_more_than_pair_form():
    # Three data values whose outputs form a chain: neighbours are close, the ends are not.
    law = np.full(3, 1 / 3)
    table = np.array([[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])
    eta = 0.0
    tau = 0.1
    near = close(table[:, None, :], table[None, :, :], eta, tau)
    pair_form = float(law @ ~near @ law)
    sets = [subset for subset in ((0, 1), (1, 2), (0, 1, 2)) if near[np.ix_(subset, subset)].all()]
    set_form = min(1.0 - float(law[list(subset)].sum()) ** 2 for subset in sets)
    assert pair_form == pytest.approx(2 / 9)
    assert set_form == pytest.approx(5 / 9)
    # Near independence is ours for the weaker, pair form.
    _, added = TwoSampleStability(eta, tau, pair_form).near_independence()
    assert float(law @ hockey_stick(table, (law @ table)[None, :], eta)) <= added


@pytest.mark.parametrize(("eta", "tau", "broken"), [(6.0, 0.1, False), (6.6, 0.1, True), (9.2, 1e-5, True)])
def test_ts_algorithm_3_fails_for_large_eta(eta, tau, broken):
    printed = eta / math.sqrt(2.0 * math.log(1.5 / tau))
    assert (gaussian_delta(eta, printed) > tau) == broken


def test_ts_algorithm_3_numbers():
    tau = 1e-5

    def printed(eta):
        return gaussian_delta(eta, eta / math.sqrt(2.0 * math.log(1.5 / tau)))

    assert printed(10.0) == pytest.approx(1.86e-5, rel=3e-3)
    assert tau / printed(1.0) == pytest.approx(300, rel=0.05)
    assert tau / printed(0.1) == pytest.approx(4650, rel=0.05)
    for eta in (0.1, 1.0, 10.0):
        ours = brentq(lambda ratio, eta=eta: gaussian_delta(eta, ratio) - tau, 1e-3, 50.0, xtol=1e-12)
        assert gaussian_delta(eta, ours * (1 - 1e-9)) <= tau


def test_ts_4_2_reads_eta_t_and_not_eta_times_t():
    # With the exponent ηt instead of η_t, the sum misses the √t part, and ν* is far too small.
    eta, nu, k, slack = 0.05, 1e-9, 10, 1e-12
    ours = TypicalStability(eta, 0.0, nu).compose(k, slack=slack, method="paper").nu
    literal = 5 * math.sqrt((k * slack + nu + nu * sum(math.exp(eta * t) for t in range(1, k))) / eta)
    assert ours > literal
    eta_j = [math.sqrt(2 * t * math.log(1 / slack)) * eta + t * eta * math.expm1(eta) for t in range(1, k)]
    proved = 5 * math.sqrt((k * slack + nu + nu * sum(map(math.exp, eta_j))) / eta)
    assert ours == pytest.approx(min(1.0, proved), rel=1e-12)


def test_ts_claim_a_2_is_false_for_the_absolute_loss():
    # Randomised response: |f| is η always, so E|f| = η, while the printed bound is of order η².
    eta, tau = 0.05, 1e-9
    hat = 2 * tau / -math.expm1(-eta)
    bound = 2 * eta * (math.exp(2 * eta) / (1 - hat) - 1) + tau * (2 * math.exp(eta) + 1)
    truth = 1 / (1 + math.exp(-eta))
    absolute = truth * eta + (1 - truth) * eta
    signed = truth * eta - (1 - truth) * eta
    assert absolute > bound + 1e-3
    assert signed <= bound
    assert signed <= expected_loss(eta) * (1 + 1e-12)


def test_ts_4_8_divides_by_two_eta_everywhere():
    # TS1 (13) leaves τ̂ undivided by 2η, Lemma A.4 divides by η: at small η the first claims far too little.
    eta, tau, nu, k, slack = 1e-3, 1e-12, 0.0, 10, 1e-30
    ours = TypicalStability(eta, tau, nu).compose(k, slack=slack, method="paper").tau
    hat = 2 * tau / -math.expm1(-eta)
    assert ours == pytest.approx(min(1.0, 5 * math.sqrt(k * (hat + slack) / (2 * eta))), rel=1e-12)
    undivided = 5 * math.sqrt(k * (hat + slack / (2 * eta)))
    assert undivided < ours / 20


def test_sis_lemma_3_5_with_two_rows():
    # A = 1[S = (0, 1)]: prints 0 except with probability p(1−p) ≤ 1/4, for every distribution of the rows.
    rows = data(2)
    table = np.eye(2)[((rows[:, 0] == 0) & (rows[:, 1] == 1)).astype(int)]
    for p in np.linspace(0.0, 1.0, 21):
        assert independent(2, p) @ table[:, 1] <= 0.25 + 1e-12
    law = independent(2, 0.5)
    differ = float(law @ ~close(table[:, None, :], table[None, :, :], 0.0, 0.0) @ law)
    assert differ == pytest.approx(3 / 8)
    printed_beta = 0.25
    assert differ > printed_beta
    assert differ <= PerfectGeneralization(0.25, 0.0, 0.0).sample().beta == pytest.approx(7 / 16)
    with pytest.raises(InvalidArgument, match="ln 2"):
        PerfectGeneralization(0.25, 1.0, 0.01).sample(method="paper")


def test_sis_claim_2_12_outside_its_hypothesis():
    # Every coin sequence has a canonical output with probability 0.8 and scatters the rest.
    eta, nu, others = 0.2, 0.0, 1000
    law = np.full(others + 1, eta / others)
    law[0] = 1 - eta
    exact = 1.0 - float((law**2).sum())
    printed = eta + 2 * nu
    assert exact > printed
    assert exact <= GoodCoins(eta, nu).replicability().rho == pytest.approx(0.36)
    with pytest.raises(InvalidArgument, match=r"SIS Claim 2\.12"):
        GoodCoins(eta, nu).replicability(method="paper")


def test_sis_lemma_3_14_counts_bits_as_nats():
    # Valid, but looser than need be: e^{2κ} where 2^{2κ} was proved, and 2^κ suffices.
    law = independent(3, 0.5)
    truth = 1 / (1 + math.exp(-0.8))
    flips = (data(3)[:, None, :] != data(3)[None, :, :]).sum(axis=2)
    table = truth ** (3 - flips) * (1 - truth) ** flips
    bits = 0.6
    beta = information_excess(law, table, bits)
    information = MaxInformation(bits, beta)
    printed = 2 * bits
    proved = information.one_way(method="paper").epsilon
    ours = information.one_way()
    assert ours.epsilon * 2 == pytest.approx(proved, rel=1e-12)
    assert proved == pytest.approx(printed * LN2, rel=1e-12)
    far = law @ (hockey_stick(table, (law @ table)[None, :], ours.epsilon) > ours.delta + 1e-12)
    assert far <= ours.beta


def test_sis_lemma_c_3_prints_rho_for_one_minus_rho():
    # The sample as output, four equally likely values, no shift at all: agreement is 1/4, and ρ = 3/4.
    law = np.full(4, 0.25)
    agreement = float((law**2).sum())
    rho = 1.0 - agreement
    printed = (1 - 0.0) ** 2 * rho
    assert agreement < printed
    assert agreement >= Replicability(rho).under_shift(0.0, 1) == pytest.approx(0.25)


def test_sis_algorithm_3_deviation_is_too_small_for_its_union_bound():
    for delta in (0.1, 0.01, 1e-4):
        plan = perfect_plan(1.0, delta)
        allowed = delta**2 / (2 * plan.seeds)
        for parts in np.geomspace(10, 1e12, 40):
            deviation = 2 * math.sqrt(math.log(8 * plan.seeds * parts / delta) / parts)
            assert 8 * parts * math.exp(-(deviation**2) * parts / 8) > 100 * allowed
        # Ours: no supremum over outputs is needed, and the union is over a few events of each seed.
        ours = (4 * plan.seeds + 3) * math.exp(-(plan.deviation**2) * plan.parts)
        assert ours == pytest.approx(delta**2)


def test_l5_the_urn_spreads_more_than_the_remark_says():
    red = blue = 50
    draws = 10**5
    balls = red + blue
    remark = math.sqrt(draws) + draws / balls
    spread = math.sqrt(polya_variance(red, blue, draws))
    assert spread == pytest.approx(math.sqrt(0.25 * draws * (balls + draws) / (balls + 1)))
    assert spread > 3 * remark
    law = betabinom(draws, red, blue)
    for z in (1.0, 2.0, 3.0):
        beyond = float(law.sf(draws / 2 + z * remark - 1))
        assert beyond <= polya_tail(z * remark, red, blue, draws)
    assert float(law.sf(draws / 2 + 3.0 * remark - 1)) > 10 * math.exp(-4.5)
    lengths = [(balls + draws) / (balls + step) for step in (1, draws)]
    assert lengths == pytest.approx([(balls + draws) / (balls + 1), 1.0])
    assert azuma_intervals(1.0, [1.0]) == pytest.approx(math.exp(-2.0))


def test_l5_hoeffding_lemma_needs_a_sign():
    # X = −1 always, E X ≤ μ = 0, λ = −1: E e^{λX} = e, the printed bound is e^{λμ} = 1.
    exact = math.exp(1.0)
    printed = math.exp(-1.0 * 0.0 + (-1.0) ** 2 * 0.0 / 8)
    assert exact > printed
    with pytest.raises(InvalidArgument, match="rate"):
        hoeffding_lemma(-1.0, -1.0, -1.0, 0.0, known="above")
    assert hoeffding_lemma(-1.0, -1.0, -1.0, -1.0) >= 1.0


def test_bdp_increments_can_exceed_epsilon():
    # Two dependent rows, two outputs. The Doob increments of ln(P[y|x]/P[y]) pass ε; ours do not.
    rows = data(2)
    law = np.array([0.002, 0.992, 0.0045, 0.0015])
    table = np.array([[0.106, 0.894], [0.357, 0.643], [0.016, 0.984], [0.095, 0.905]])
    output = law @ table

    def given(where):
        return law[where] @ table[where] / law[where].sum()

    everything = np.ones(4, bool)
    first = [rows[:, 0] == value for value in (0, 1)]
    second = [rows[:, 1] == value for value in (0, 1)]
    ratios = [np.log(given(first[0]) / given(first[1])), np.log(given(second[0]) / given(second[1]))]
    ratios += [np.log(given(a & second[0]) / given(a & second[1])) for a in first]
    ratios += [np.log(given(b & first[0]) / given(b & first[1])) for b in second]
    epsilon = max(float(np.abs(ratio).max()) for ratio in ratios)

    loss = np.log(table / output)
    start = law @ loss
    after = [law[a] @ loss[a] / law[a].sum() for a in first]
    printed = max(
        max(float(np.abs(step - start).max()) for step in after),
        max(float(np.abs(loss[a] - step).max()) for a, step in zip(first, after, strict=True)),
    )
    assert printed > 1.1 * epsilon
    step_one = [np.log(given(a) / given(everything)) for a in first]
    step_two = [np.log(table[a] / given(a)) for a in first]
    for increments in (np.array(step_one), *step_two):
        assert (increments.max(axis=0) - increments.min(axis=0)).max() <= epsilon * (1 + 1e-12)
    for beta in (0.5, 0.1, 0.01):
        bits = BayesianDP(epsilon).max_information(2, beta).bits
        assert information_excess(law, table, bits) <= beta


def test_ts_4_2_does_not_extend_to_one_step():
    """A(x) = x on a fair coin is (100, 0, ½)-stable around W = 0; no W is within τ < ½ of both outputs."""
    step, slack = TypicalStability(100.0, nu=0.5), 1e-9
    printed = 5 * math.sqrt((slack + step.nu) / step.eta)
    best_of_any_oracle = 0.5  # being close to A(0) asks W(1) ≤ τ, to A(1) asks W(0) ≤ τ, and W(0) + W(1) = 1
    assert printed < best_of_any_oracle
    assert step.compose(1, slack=slack, method="paper") == step
