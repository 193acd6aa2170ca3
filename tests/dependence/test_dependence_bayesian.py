"""Bayesian DP of chains: reference values, the linear program over all DP mechanisms, inverses."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array

from contracts.examples import examples
from holdfast.dependence import MarkovChain, coupling_bdp, spectral_dp
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, BayesianDP


def symmetric(correlation):
    stay = (1 + correlation) / 2
    return np.array([[stay, 1 - stay], [1 - stay, stay]])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((0.1, 0.5, 0.2, 0.1), 0.0004938271604938272), ((1.0, 0.9, 0.05, 0.05), 0.015555555555555555)],
)
def test_spectral_reference_values(arguments, expected):
    assert spectral_dp(*arguments) == pytest.approx(expected, rel=1e-9)
    assert spectral_dp(*arguments) <= expected


@pytest.mark.parametrize(
    ("epsilon", "kappa", "expected"), [(0.1, 0.4, 0.15808919429949841), (0.01, 0.9, 0.0105409243138835)]
)
def test_coupling_reference_values(epsilon, kappa, expected):
    assert coupling_bdp(epsilon, kappa) == pytest.approx(expected, rel=1e-9)
    assert coupling_bdp(epsilon, kappa) >= expected


@given(
    epsilon=st.floats(1e-6, 50),
    kappa=st.floats(1e-6, 1.0),
    n=st.integers(1, 60),
)
def test_the_coupling_bound_is_its_formula_to_many_digits(epsilon, kappa, n):
    with mpmath.workdps(50):
        e, root = mpmath.mpf(epsilon), mpmath.sqrt(mpmath.mpf(kappa))
        closed = 4 * mpmath.asinh(mpmath.sinh(e / 4) / root)
        levels = [mpmath.mpf(0)]
        for _ in range(n - 1):
            grown = mpmath.exp((e + levels[-1]) / 2)
            levels.append(2 * mpmath.log((root + grown) / (1 + root * grown)))
        finite = e + max(levels[i] + levels[n - 1 - i] for i in range(n))
        assert closed <= coupling_bdp(epsilon, kappa) <= closed * (1 + mpmath.mpf("1e-10"))
        assert (
            finite * (1 - mpmath.mpf("1e-30"))
            <= coupling_bdp(epsilon, kappa, n)
            <= finite * (1 + mpmath.mpf("1e-10"))
        )


@given(epsilon=st.floats(0, 700, allow_subnormal=False), kappa=st.floats(0.0, 1.0), n=st.integers(1, 10**6))
def test_the_finite_bound_lies_between_the_parameter_and_both_crude_bounds(epsilon, kappa, n):
    bound = coupling_bdp(epsilon, kappa, n)
    assert epsilon <= bound <= n * epsilon * (1 + 1e-12)
    assert bound <= coupling_bdp(epsilon, kappa, n + 1) * (1 + 1e-9)
    if kappa > 0:
        assert bound <= coupling_bdp(epsilon, kappa)
        assert coupling_bdp(epsilon, min(1.0, kappa * 1.5), n) <= bound * (1 + 1e-9)


def test_the_coupling_bound_at_its_ends():
    assert coupling_bdp(0.0, 0.3) == 0
    assert coupling_bdp(0.7, 1.0) == pytest.approx(0.7, rel=1e-12)
    assert coupling_bdp(0.7, 0.0, n=9) == pytest.approx(6.3, rel=1e-12)
    assert coupling_bdp(5000.0, 0.25) == pytest.approx(5000 + 2 * math.log(4), rel=1e-12)
    assert coupling_bdp(1e-3, 1e-12, n=10**6) <= 1e3 * (1 + 1e-12)


def oracle(transition, start, n, epsilon, *, rows=None, known=None):
    """The largest ln E[f|a,x_K]/E[f|b,x_K] over all ε-DP f, rows, known rows and values: linear programs."""
    states = len(transition)
    paths = np.array(list(itertools.product(range(states), repeat=n)))
    law = start[paths[:, 0]] * np.prod(transition[paths[:, :-1], paths[:, 1:]], axis=1)
    place = states ** np.arange(n - 1, -1, -1)
    above, below = [], []
    for row, change in itertools.product(range(n), range(1, states)):
        moved = (paths[:, row] + change) % states
        above.append(np.arange(len(paths)))
        below.append(np.arange(len(paths)) + (moved - paths[:, row]) * place[row])
    above, below = np.concatenate(above), np.concatenate(below)
    lines = np.arange(len(above))
    values = np.concatenate([np.ones(len(lines)), np.full(len(lines), -math.exp(epsilon))])
    neighbours = csr_array(
        (values, (np.concatenate([lines, lines]), np.concatenate([above, below]))),
        shape=(len(lines), len(paths)),
    )
    best = 0.0
    for row in range(n) if rows is None else rows:
        others = [r for r in range(n) if r != row]
        for size in range(n) if known is None else known:
            for fixed in itertools.combinations(others, size):
                for at in itertools.product(range(states), repeat=size):
                    seen = law * (paths[:, list(fixed)] == at).all(axis=1)
                    given_value = [np.where(paths[:, row] == value, seen, 0.0) for value in range(states)]
                    laws = [w / w.sum() for w in given_value if w.sum() > 0]
                    for a, b in itertools.permutations(laws, 2):
                        found = linprog(
                            -a, A_ub=neighbours, b_ub=np.zeros(len(lines)), A_eq=b[None], b_eq=[1.0]
                        )
                        best = max(best, math.log(-found.fun))
    return best


@pytest.mark.parametrize("correlation", [0.2, 0.5, 0.9])
def test_the_coupling_bound_is_tight_on_symmetric_chains(correlation):
    """Within 0.1 % of the supremum over all mechanisms at ε = 0.01."""
    kappa = MarkovChain(symmetric(correlation), 4).cross_ratio
    supremum = oracle(symmetric(correlation), np.array([0.5, 0.5]), 4, 0.01)
    assert supremum * (1 - 1e-9) <= coupling_bdp(0.01, kappa, 4) <= supremum * 1.001


def random_chains(rng, states, count):
    for _ in range(count):
        yield rng.dirichlet(np.ones(states), states), rng.dirichlet(np.ones(states))


@pytest.mark.parametrize("epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 1.5])
def test_no_mechanism_leaks_more_than_any_bound_says(rng, epsilon):
    cases = [*random_chains(rng, 2, 2), *random_chains(rng, 3, 1)]
    for transition, start in cases:
        n = 4 if len(transition) == 2 else 3
        chain = MarkovChain(transition, n, initial=start)
        supremum = oracle(chain.transition, chain.initial, n, epsilon)
        for method in ("sharp", "coupling", "pairs", "spectral"):
            assert chain.bayesian_dp(DP(epsilon), method).epsilon >= supremum * (1 - 1e-7), method


def test_a_twin_without_the_square_root_is_caught():
    """κ in place of √κ in the recursion would promise too little."""
    kappa = MarkovChain(symmetric(0.9), 4).cross_ratio
    supremum = oracle(symmetric(0.9), np.array([0.5, 0.5]), 4, 0.1, known=(0,))
    assert coupling_bdp(0.1, math.sqrt(kappa), 4) < supremum <= coupling_bdp(0.1, kappa, 4)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.3, 0.8])
def test_the_coupling_bound_is_tight_on_six_rows(correlation):
    kappa = MarkovChain(symmetric(correlation), 6).cross_ratio
    supremum = oracle(symmetric(correlation), np.array([0.5, 0.5]), 6, 0.01)
    assert supremum * (1 - 1e-9) <= coupling_bdp(0.01, kappa, 6) <= supremum * 1.001


@pytest.mark.slow
def test_no_mechanism_on_four_ternary_rows_leaks_more(rng):
    for transition, start in random_chains(rng, 3, 2):
        chain = MarkovChain(transition, 4, initial=start)
        supremum = oracle(chain.transition, chain.initial, 4, 0.5)
        assert chain.bayesian_dp(DP(0.5)).epsilon >= supremum * (1 - 1e-7)


@given(epsilon=st.floats(1e-4, 30), gap=st.floats(0.002, 1.0), least=st.floats(1e-4, 0.5))
def test_the_best_c_is_the_best_over_a_fine_grid(epsilon, gap, least):
    best = spectral_dp(epsilon, gap, least)
    grid = max(spectral_dp(epsilon, gap, least, c) for c in np.linspace(1e-4, 0.1666, 300))
    assert best >= grid * (1 - 1e-9)
    assert 0 < best < epsilon


def test_the_scan_also_serves_chains_that_hardly_mix():
    """Millions of values of d: the coarse scan and its refinement find what a scan of all of them finds."""
    epsilon, gap, least = 0.1, 1e-4, 0.3
    far = math.ceil(-math.log(least * math.tanh(epsilon / 12)) / gap)
    d = np.arange(far, 40 * far, dtype=float)
    c = 2 * np.arctanh(np.minimum(np.exp(-gap * d) / least, 1 - 1e-16)) / epsilon
    h = np.minimum((1 - 6 * c) * epsilon / (2 * d - 1), (1 / 3 - 2 * c) * epsilon / (d + far))
    assert spectral_dp(epsilon, gap, least) == pytest.approx(h[c < 1 / 6].max(), rel=1e-9)


CHAIN = MarkovChain([[0.7, 0.3], [0.4, 0.6]], 10_000)
TURNING = MarkovChain([[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.7, 0.1, 0.2]], 50)


@given(epsilon=st.floats(1e-5, 5), method=st.sampled_from(["sharp", "coupling", "spectral"]))
def test_what_is_required_suffices_and_not_much_more_would(epsilon, method):
    dp = CHAIN.required_dp(BayesianDP(epsilon), method)
    assert CHAIN.bayesian_dp(dp, method).epsilon <= epsilon * (1 + 1e-9)
    more = CHAIN.bayesian_dp(DP(dp.epsilon * (1 + 1e-6)), method).epsilon
    assert more >= epsilon * (1 - 1e-9)


@given(
    epsilon=st.floats(1e-5, 5), stay=st.floats(0.1, 0.95), other=st.floats(0.1, 0.95), n=st.integers(1, 10**5)
)
def test_sharp_is_never_beaten(epsilon, stay, other, n):
    chain = MarkovChain([[stay, 1 - stay], [1 - other, other]], n)
    sharp = chain.bayesian_dp(DP(epsilon)).epsilon
    needed = chain.required_dp(BayesianDP(epsilon)).epsilon
    assert epsilon <= sharp <= n * epsilon * (1 + 1e-12)
    assert epsilon >= needed >= epsilon / n * (1 - 1e-12)
    for method in ("coupling", "spectral"):
        assert sharp <= chain.bayesian_dp(DP(epsilon), method).epsilon
        assert needed >= chain.required_dp(BayesianDP(epsilon), method).epsilon


def test_the_required_dp_of_a_long_chain_is_the_closed_form():
    kappa = CHAIN.cross_ratio
    expected = 4 * math.asinh(math.sqrt(kappa) * math.sinh(0.1 / 4))
    assert CHAIN.required_dp(BayesianDP(0.1), "coupling").epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", ["sharp", "coupling", "spectral"])
def test_a_mechanism_that_reveals_nothing_reveals_nothing(method):
    assert CHAIN.bayesian_dp(DP(0.0), method).epsilon == 0
    assert CHAIN.required_dp(BayesianDP(0.0), method).epsilon == 0


def test_the_spectral_method_refuses_chains_outside_its_lemma():
    for chain, word in (
        (MarkovChain([[0.0, 1.0], [1.0, 0.0]], 5), "spectral gap"),
        (MarkovChain(window(3), 5), "spectral gap"),
        (MarkovChain([[1.0, 0.0], [0.5, 0.5]], 5, initial=[0, 1]), "irreducible"),
    ):
        with pytest.raises(InvalidArgument, match=word):
            chain.bayesian_dp(DP(0.1), "spectral")
        with pytest.raises(InvalidArgument, match=word):
            chain.required_dp(BayesianDP(0.1), "spectral")
        assert chain.bayesian_dp(DP(0.1)).epsilon <= 0.1 * chain.n * (1 + 1e-12)


def window(bits, fresh=0.0):
    """The last ``bits`` of a sequence of fair coins as a chain; all are new with probability ``fresh``."""
    states = 2**bits
    table = np.full((states, states), fresh / states)
    for state, coin in itertools.product(range(states), (0, 1)):
        table[state, (2 * state) % states + coin] += (1.0 - fresh) / 2.0
    return table


def remembers(chain, steps):
    """How much later and earlier rows, ``steps`` away, say about a row: exactly, from the chain's start."""
    return chain.max_influence([chain.n - 1], chain.n - 1 - steps), chain.max_influence([0], steps)


@given(
    seed=st.integers(0, 10**6), states=st.integers(2, 5), nats=st.floats(0.05, 3.0), stationary=st.booleans()
)
@examples(60)
def test_the_norm_bounds_what_any_chain_remembers(seed, states, nats, stationary):
    """The two steps of the proof: at distance D(x), e^x to the right and e^{2x} to the left."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(states), states)
    law = MarkovChain(transition, 1).stationary
    gap = MarkovChain(transition, 1).spectral_gap
    steps = math.ceil(-(math.log(math.tanh(nats / 2.0)) + math.log(law.min())) / gap)
    start = None if stationary else rng.dirichlet(np.ones(states))
    right, left = remembers(MarkovChain(transition, steps + 1, initial=start), steps)
    assert right <= nats * (1 + 1e-9)
    assert left <= 2.0 * nats * (1 + 1e-9)


def test_with_eigenvalues_the_spectral_bound_is_false():
    """A window of six coins: eigenvalues 0, so they put the gap at 1, and five steps seem enough for 0.95."""
    transition = window(6, fresh=0.1)
    moduli = np.sort(np.abs(np.linalg.eigvals(np.linalg.matrix_power(transition, 6))))
    assert moduli[-2] < 1e-6
    chain = MarkovChain(transition, 6)
    assert chain.spectral_gap == pytest.approx(0.1)
    assert not chain.reversible
    nats, steps = 0.95, 5
    assert math.ceil(math.log(64 / math.tanh(nats / 2.0))) == steps
    assert remembers(chain, steps)[0] > 1.2


def test_chains_that_are_not_reversible_have_a_spectral_bound():
    assert not TURNING.reversible
    bound = TURNING.bayesian_dp(DP(0.001), "spectral").epsilon
    least = float(TURNING.stationary.min())
    assert spectral_dp(bound, TURNING.spectral_gap, least) == pytest.approx(0.001, rel=1e-9)
    assert TURNING.required_dp(BayesianDP(bound), "spectral").epsilon == pytest.approx(0.001, rel=1e-9)
    supremum = oracle(TURNING.transition, np.full(3, 1 / 3), 3, 0.5, known=(0,))
    assert MarkovChain(TURNING.transition, 3).bayesian_dp(DP(0.5), "spectral").epsilon >= supremum


@given(
    seed=st.integers(0, 10**6),
    states=st.integers(2, 4),
    never=st.booleans(),
    sparse=st.booleans(),
    n=st.sampled_from([1, 2, 3, 10, 1000, 10**9]),
    epsilon=st.floats(1e-4, 5.0),
)
@examples(40)
def test_pairs_are_never_worse_than_coupling(seed, states, never, sparse, n, epsilon):
    """Nor do they warn where a state is never entered again: warnings are errors here."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(states), states)
    if never:
        transition[:, 0] = 0.0
    if sparse:
        transition = transition * (rng.random((states, states)) < 0.7)
        transition[:, -1] += 1e-3
    transition /= transition.sum(axis=1, keepdims=True)
    chain = MarkovChain(transition, n, initial=np.full(states, 1 / states))
    pairs, coupled = (chain.bayesian_dp(DP(epsilon), method).epsilon for method in ("pairs", "coupling"))
    assert epsilon <= pairs <= coupled
    assert chain.bayesian_dp(DP(epsilon)).epsilon <= pairs
    by_pairs, by_coupling = (
        chain.required_dp(BayesianDP(epsilon), method).epsilon for method in ("pairs", "coupling")
    )
    assert by_pairs >= by_coupling * (1 - 1e-9)


NEVER_AGAIN = np.array([[0.0, 0.95, 0.05], [0.0, 0.5, 0.5], [0.0, 0.4, 0.6]])


def test_a_state_that_is_never_entered_again_counts_where_it_is_possible():
    """In the first row, and as the value before an entered one; a twin that drops it altogether is caught."""
    start = np.array([0.5, 0.25, 0.25])
    chain = MarkovChain(NEVER_AGAIN, 3, initial=start)
    for epsilon in (0.5, 2.0):
        supremum = oracle(NEVER_AGAIN, start, 3, epsilon)
        pairs, coupled = (chain.bayesian_dp(DP(epsilon), method).epsilon for method in ("pairs", "coupling"))
        assert supremum * (1 - 1e-7) <= pairs < coupled * (1 - 1e-3)
        twin = MarkovChain(NEVER_AGAIN[1:, 1:], 3)
        assert twin.bayesian_dp(DP(epsilon), "pairs").epsilon < supremum
    alone = MarkovChain([[0.0, 1.0], [0.0, 1.0]], 5, initial=[0.5, 0.5])
    assert alone.bayesian_dp(DP(0.3), "pairs").epsilon == pytest.approx(0.3, rel=1e-9)


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("epsilon", lambda: coupling_bdp(-0.1, 0.5)),
        ("epsilon", lambda: coupling_bdp(math.nan, 0.5)),
        ("cross_ratio", lambda: coupling_bdp(0.1, 0.0)),
        ("cross_ratio", lambda: coupling_bdp(0.1, 1.1)),
        ("n", lambda: coupling_bdp(0.1, 0.5, n=0)),
        ("cross_ratio", lambda: coupling_bdp(0.1, -0.1, n=3)),
        ("epsilon", lambda: spectral_dp(0.0, 0.5, 0.2)),
        ("gap", lambda: spectral_dp(0.1, 0.0, 0.2)),
        ("gap", lambda: spectral_dp(0.1, 1.1, 0.2)),
        ("least", lambda: spectral_dp(0.1, 0.5, 0.0)),
        ("c", lambda: spectral_dp(0.1, 0.5, 0.2, c=1 / 6)),
        ("c", lambda: spectral_dp(0.1, 0.5, 0.2, c=0.0)),
        ("c", lambda: spectral_dp(0.1, 0.5, 0.2, c=math.nan)),
        ("dp", lambda: CHAIN.bayesian_dp(DP(0.1, 1e-6))),
        ("dp", lambda: CHAIN.bayesian_dp(0.1)),
        ("bdp", lambda: CHAIN.required_dp(DP(0.1))),
        ("method", lambda: CHAIN.bayesian_dp(DP(0.1), "quilted")),
        ("method", lambda: CHAIN.required_dp(BayesianDP(0.1), None)),
    ],
)
def test_bad_arguments_are_refused(argument, bad):
    with pytest.raises(InvalidArgument) as refused:
        bad()
    assert refused.value.argument == argument
