"""DPRandEnc: its exact ε by going through all datasets and all coins, and the bit it gives."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from barriers_oracles import units
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.barriers import (
    PrivateKey,
    PublicKey,
    _goldwasser_micali,
    dp_rand_enc,
    dp_rand_enc_rows,
    generate_key,
)
from holdfast.barriers._goldwasser_micali import exact_privacy, padding_for
from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape
from holdfast.stability import DP

LEVEL = 1e-6
FIFTEEN, TWENTY_ONE, SEVENTY_SEVEN = PrivateKey(3, 5, 2), PrivateKey(3, 7, 5), PrivateKey(7, 11, 6)


def output_law(rows, key, epsilon: float, monkeypatch) -> dict[int, Fraction]:
    """P(output = c), exactly: the algorithm runs once for every choice and every pair of units."""
    modulus = key.public.modulus
    rng = np.random.default_rng(0)
    law: Counter = Counter()
    sizes: list[int] = []

    def run(choice: int, drawn: list[int]) -> int:
        queue = iter(drawn)
        monkeypatch.setattr(
            _goldwasser_micali, "index_below", lambda size, coins: sizes.append(size) or choice
        )
        monkeypatch.setattr(_goldwasser_micali, "unit", lambda *_: next(queue))
        return dp_rand_enc(rows, key.public, epsilon=epsilon, coins=rng).value

    run(0, [1, 1])
    members = units(modulus)
    weight = Fraction(1, sizes[0] * len(members))
    for choice in range(sizes[0]):
        # A row is rerandomised with one unit; padding is encrypted with one and rerandomised with another.
        if choice < sizes[0] - 2 * padding_for(epsilon):
            for u in members:
                law[run(choice, [u])] += weight
        else:
            for first, second in itertools.product(members, repeat=2):
                law[run(choice, [first, second])] += weight / len(members)
    assert sum(law.values()) == 1
    return dict(law)


def worst_ratio(key, row_values, count: int, epsilon: float, monkeypatch) -> Fraction | float:
    """The largest P[A(S) = c]/P[A(S') = c] over all neighbours S, S' with rows among ``row_values``."""
    # The order of rows cannot matter to a uniform choice: multisets stand for all datasets.
    laws = {
        rows: output_law(rows, key, epsilon, monkeypatch)
        for rows in itertools.combinations_with_replacement(row_values, count)
    }
    worst: Fraction | float = Fraction(0)
    for rows, law in laws.items():
        for place, other in itertools.product(range(count), row_values):
            neighbour = laws[tuple(sorted((*rows[:place], *rows[place + 1 :], other)))]
            for c, probability in law.items():
                if c not in neighbour:
                    return math.inf
                worst = max(worst, probability / neighbour[c])
    return worst


CASES = [
    # All rows there can be, zero and multiples of the primes included.
    (FIFTEEN, range(15), 1, 1.0),
    (FIFTEEN, range(15), 1, 0.5),
    (FIFTEEN, (0, 1, 2, 3, 4, 7, 8), 2, 0.5),
    (FIFTEEN, (1, 2, 3, 4), 3, 0.3),
    (TWENTY_ONE, range(21), 1, 1.0),
    (TWENTY_ONE, (1, 5, 7), 3, 0.5),
]


@pytest.mark.parametrize(
    ("key", "row_values", "count", "epsilon"), CASES, ids=lambda value: str(value)[-12:].strip("()")
)
def test_the_stated_epsilon_is_the_enumerated_one(key, row_values, count, epsilon, monkeypatch):
    padding = padding_for(epsilon)
    found = worst_ratio(key, row_values, count, epsilon, monkeypatch)
    assert found == Fraction(padding + 1, padding)
    stated = exact_privacy(padding).epsilon
    assert math.log(found) <= stated <= epsilon
    assert stated == pytest.approx(math.log(found), rel=1e-12)
    # One more pad than there is would be an ε understated: the enumeration is above it.
    assert math.log(found) > exact_privacy(padding + 1).epsilon


def test_the_stated_epsilon_is_the_enumerated_one_for_seventy_seven(monkeypatch):
    found = worst_ratio(SEVENTY_SEVEN, (0, 1, 2, 6, 7, 25), 1, 1.0, monkeypatch)
    assert found == 2


def test_with_the_printed_verification_nothing_is_private(monkeypatch):
    # gcd(c, N) = 1 lets through the two classes of Jacobi symbol −1: an output there names its row.
    printed = lambda self, c: 0 < c < self.modulus and math.gcd(c, self.modulus) == 1  # noqa: E731
    monkeypatch.setattr(PublicKey, "verify", printed)
    assert worst_ratio(FIFTEEN, (1, 2, 7), 1, 1.0, monkeypatch) == math.inf
    monkeypatch.undo()
    assert worst_ratio(FIFTEEN, (1, 2, 7), 1, 1.0, monkeypatch) == 2


@given(st.floats(1e-6, 50.0))
def test_the_padding_is_the_least(epsilon):
    padding = padding_for(epsilon)
    assert math.log1p(1 / padding) <= epsilon
    assert padding == 1 or exact_privacy(padding - 1).epsilon > epsilon
    assert padding <= math.ceil(1 / epsilon)  # Lemma 4.4's k = 1/ε, made whole


@given(st.floats(1e-3, 5.0), st.floats(1e-4, 0.99))
def test_the_rows_are_the_fewest_and_fewer_than_printed(epsilon, beta):
    rows, padding = dp_rand_enc_rows(epsilon=epsilon, beta=beta), padding_for(epsilon)
    failure = Fraction(padding, rows + 2 * padding)
    assert failure <= Fraction(beta)
    assert rows == 1 or Fraction(padding, rows - 1 + 2 * padding) > Fraction(beta)
    if epsilon < 0.5 and beta < 0.5:
        assert rows <= math.ceil(1 / (epsilon * beta))


def test_more_privacy_and_more_certainty_take_more_rows():
    by_epsilon = [dp_rand_enc_rows(epsilon=e, beta=0.01) for e in (2.0, 1.0, 0.5, 0.1, 0.01)]
    by_beta = [dp_rand_enc_rows(epsilon=0.5, beta=b) for b in (0.4, 0.1, 0.01, 0.001)]
    assert by_epsilon == sorted(by_epsilon)
    assert by_beta == sorted(by_beta)


@pytest.mark.parametrize("bit", [0, 1])
def test_the_wrong_bit_comes_exactly_as_often_as_stated(bit, seed):
    key, rng, runs = generate_key(32, Tape("key")), np.random.default_rng(seed), 3000
    rows = [key.public.encrypt(bit, rng) for _ in range(16)] + [0, "no ciphertext", None]
    answers = [dp_rand_enc(rows, key.public, epsilon=0.5, coins=rng) for _ in range(runs)]
    wrong = sum(key.decrypt(answer.value) != bit for answer in answers)
    # 16 rows verify, 2 pads of each bit are added; the failure stated is for rows that keep the promise.
    assert stats.binomtest(wrong, runs, 2 / 20).pvalue > LEVEL
    assert stats.binomtest(round(runs * 2 / 20), runs, 1.35 * 2 / 20).pvalue < LEVEL
    assert answers[0].failure == pytest.approx(2 / 23)
    assert answers[0].guarantee == DP(exact_privacy(2).epsilon)


def test_the_record_does_not_reveal_how_many_rows_were_valid():
    rng = np.random.default_rng(0)
    first, second = (
        dp_rand_enc(rows, FIFTEEN.public, epsilon=1.0, coins=rng).to_dict() for rows in ([1, 1], [3, 7])
    )
    first.pop("value"), second.pop("value")
    assert first == second


def test_it_works_with_real_keys_and_no_valid_row_at_all(seed):
    rng = np.random.default_rng(seed)
    key = generate_key(512, rng)
    rows = [key.public.encrypt(1, rng) for _ in range(dp_rand_enc_rows(epsilon=1.0, beta=1e-3))]
    answers = [key.decrypt(dp_rand_enc(rows, key, epsilon=1.0, coins=rng).value) for _ in range(20)]
    assert stats.binomtest(answers.count(0), 20, 1e-3, alternative="greater").pvalue > LEVEL
    assert key.public.verify(dp_rand_enc([], key, epsilon=1.0, coins=rng).value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"rows": "123"}, "rows"),
        ({"rows": 3}, "rows"),
        ({"key": 77}, "key"),
        ({"coins": 1}, "coins"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"rows": [1], "key": FIFTEEN, "epsilon": 1.0, "coins": Tape("t"), **change}
    with pytest.raises(InvalidArgument) as caught:
        dp_rand_enc(arguments.pop("rows"), arguments.pop("key"), **arguments)
    assert caught.value.argument == named


@pytest.mark.parametrize("beta", [0.0, 1.0, math.nan])
def test_a_bad_beta_is_named(beta):
    with pytest.raises(InvalidArgument) as caught:
        dp_rand_enc_rows(epsilon=1.0, beta=beta)
    assert caught.value.argument == "beta"
