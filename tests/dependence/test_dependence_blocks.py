"""Blocks of a series: how far they are from independent, exactly, and the layouts that are made of that."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from holdfast.dependence import Blocks, Clusters, Independent, Layout, MarkovChain, MDependent, Mixing
from holdfast.errors import InvalidArgument, NotEnoughRows

SYMMETRIC = np.array([[0.9, 0.1], [0.1, 0.9]])
SKEWED = np.array([[0.95, 0.05], [0.4, 0.6]])
TURNING = np.array([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
"""Three states in a circle: not reversible."""
CHAINS = {"symmetric": SYMMETRIC, "skewed": SKEWED, "turning": TURNING}


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmax(np.real(values))])
    return law / law.sum()


def apart(matrix, blocks, length, gap):
    """The exact total variation between so many blocks and independent ones, by every path."""
    pi, jump = stationary(matrix), np.linalg.matrix_power(matrix, gap + 1)
    states = range(len(matrix))
    inside = list(itertools.product(states, repeat=length))
    within = {path: math.prod(matrix[a, b] for a, b in itertools.pairwise(path)) for path in inside}
    total = 0.0
    for chosen in itertools.product(inside, repeat=blocks):
        own = math.prod(within[path] for path in chosen)
        independent = own * math.prod(pi[path[0]] for path in chosen)
        joint = own * pi[chosen[0][0]]
        for before, after in itertools.pairwise(chosen):
            joint *= jump[before[-1], after[0]]
        total += abs(joint - independent)
    return total / 2


def forgotten(matrix, steps):
    """E TV(P^steps(X, ·), π) for a stationary X."""
    pi = stationary(matrix)
    return float(pi @ np.abs(np.linalg.matrix_power(matrix, steps) - pi).sum(axis=1) / 2)


def blocks_in(rows, length, gap):
    return (rows + gap) // (length + gap)


def telescoped(model, blocks, gap):
    """What is remembered after each gap, a time for every block but the first."""
    return min(1.0, (blocks - 1) * math.exp(model.log_remembered([gap + 1])[0]))


def price_of(model, blocks, gap):
    """The price of so many blocks of a model's rows, and the share by which its last digit may be off.

    At most half of an error may be spent on blocks. A price above that is in the refusal, to three digits.
    """
    declared = Blocks(1, gap, math.exp(model.log_remembered([gap + 1])[0]))
    cut = declared.with_rows(blocks + (blocks - 1) * gap)
    try:
        (layout,) = cut.layouts(1 - 1e-9)
    except InvalidArgument as refusal:
        price = float(re.search(r"are within (\S+) of independent", str(refusal))[1])
        assert 0.499 < price <= 1.0
        return price, 5e-3
    assert layout.blocks == blocks
    return layout.price, 1e-9


CUTS = [
    (blocks, length, gap)
    for blocks in (2, 3, 4)
    for length in (1, 2)
    for gap in range(4)
    if blocks * length <= 6
]


@pytest.mark.parametrize("name", CHAINS)
def test_blocks_are_never_farther_from_independent_than_their_price(name):
    chain = MarkovChain(CHAINS[name], 1_000)
    for blocks, length, gap in CUTS:
        price, off = price_of(chain, blocks, gap)
        exact = apart(CHAINS[name], blocks, length, gap)
        assert exact <= price * (1 + (off if price > 0.499 else 0.0))
        if blocks == 2:
            # The bound is attained.
            assert price == pytest.approx(exact, rel=off)


@pytest.mark.parametrize("name", CHAINS)
def test_the_price_is_the_telescoping_sum(name):
    refused = []
    for blocks, gap in itertools.product((2, 5, 40), (0, 1, 7)):
        price, off = price_of(MarkovChain(CHAINS[name], 1_000), blocks, gap)
        exact = min(1.0, (blocks - 1) * forgotten(CHAINS[name], gap + 1))
        assert price == pytest.approx(exact, rel=off)
        refused.append(price > 0.499)
        assert refused[-1] or exact <= price + 1e-15
    assert set(refused) == {False, True}


def caught(price):
    """Whether some cut of some chain is farther from independent than a wrong price says."""
    return any(
        apart(matrix, blocks, length, gap) > price(matrix, blocks, gap) * (1 + 1e-9)
        for matrix in CHAINS.values()
        for blocks, length, gap in CUTS
    )


def test_twins_of_the_price_are_caught():
    assert not caught(lambda matrix, blocks, gap: (blocks - 1) * forgotten(matrix, gap + 1))
    assert caught(lambda matrix, blocks, gap: (blocks - 1) * forgotten(matrix, gap + 2))
    assert caught(lambda matrix, blocks, gap: (blocks - 2) * forgotten(matrix, gap + 1))


def test_a_declared_rate_covers_the_chain_that_has_it():
    """The symmetric chain forgets half of .8 at each step; a rate below that is caught at two blocks."""
    exact = [apart(SYMMETRIC, 2, 2, gap) for gap in range(4)]
    right = [price_of(Mixing(0.8, constant=0.5), 2, gap)[0] for gap in range(4)]
    assert right == pytest.approx(exact, rel=1e-9)
    wrong = [price_of(Mixing(0.7, constant=0.5), 2, gap)[0] for gap in range(4)]
    assert all(low < true for low, true in zip(wrong, exact, strict=True))


def test_rows_that_depend_on_few_others_cost_nothing():
    """Sums of two coins in a row: independent from two places on, and not before."""
    coins = np.array(list(itertools.product((0, 1), repeat=5)))
    rows = coins[:, 1:] + coins[:, :-1]

    def distance(places):
        chosen = rows[:, places]
        values = itertools.product(range(3), repeat=len(places))
        joint = {value: float((chosen == value).all(axis=1).mean()) for value in values}
        law = [np.bincount(rows[:, place], minlength=3) / len(rows) for place in places]
        product = {value: math.prod(p[v] for p, v in zip(law, value, strict=True)) for value in joint}
        return sum(abs(joint[value] - product[value]) for value in joint) / 2

    pairs = MDependent(100, 1)
    assert price_of(pairs, 2, 1)[0] == 0.0 == distance([0, 2])
    assert telescoped(pairs, 2, 0) == 1.0 > distance([0, 1]) > 0
    assert {layout.price for layout in pairs.layouts()} == {0.0}
    assert {layout.gap for layout in pairs.layouts()} == {1}


MODELS = [
    Mixing(0.5, n=10_000),
    Mixing(0.99, n=100_000),
    Mixing(0.9, constant=4.0, n=20_000),
    MarkovChain(SKEWED, 10_000),
    MarkovChain(TURNING, 5_000),
    MDependent(2_000, 7),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_all_layouts_together_cost_a_twentieth_of_the_error_and_have_the_least_gaps(model):
    for beta in (0.05, 0.2):
        layouts = model.layouts(beta)
        assert 1 <= len(layouts) <= 6
        assert math.fsum(layout.price for layout in layouts) <= beta / 20
        for layout in layouts:
            assert layout.blocks == blocks_in(model.n, layout.length, layout.gap) >= 12
            assert layout.rows == layout.blocks * layout.length <= model.n
            assert (layout.blocks - 1) * (layout.length + layout.gap) + layout.length <= model.n
            assert layout.price >= telescoped(model, layout.blocks, layout.gap)
            assert layout.price == pytest.approx(telescoped(model, layout.blocks, layout.gap), rel=1e-12)
            if layout.gap:
                shorter = layout.gap - 1
                blocks = blocks_in(model.n, layout.length, shorter)
                assert telescoped(model, blocks, shorter) > beta / 20 / 6
        lengths = [layout.length for layout in layouts]
        assert lengths == [lengths[0] * 2**place for place in range(len(lengths))]


def test_a_layout_that_leaves_too_few_blocks_is_not_made():
    assert Mixing(0.5, n=100).layouts() == ()
    assert Mixing(1 - 1e-9, n=10_000).layouts() == ()
    assert MDependent(50, 49).layouts() == ()
    assert all(layout.blocks >= 12 for layout in Mixing(0.5, n=400).layouts())


def test_models_that_say_nothing_about_rows_in_order_have_no_layouts():
    assert Independent(100).layouts() == ()
    assert Clusters([2] * 50).layouts() == ()


def test_a_chain_with_a_start_of_its_own_has_no_layouts():
    """Its blocks have means of their own, and the first of them is far from the others."""
    chain = MarkovChain(SYMMETRIC, 10_000, initial=[1.0, 0.0])
    assert chain.layouts() == ()
    assert chain.operator_norm is None
    assert MarkovChain(SYMMETRIC, 10_000).operator_norm == pytest.approx(0.8)


def test_layouts_check_their_argument():
    for beta in (0.0, 1.0, math.nan, "half"):
        with pytest.raises(InvalidArgument, match="beta"):
            Mixing(0.5, n=1_000).layouts(beta)
    with pytest.raises(InvalidArgument, match="rows"):
        Mixing(0.5).layouts()


def test_nothing_is_priced_above_one():
    always = Mixing(0.999)
    assert telescoped(always, 50, 0) == 1.0
    assert price_of(always, 50, 0)[0] == 1.0


def test_declared_blocks_are_one_layout_and_are_charged():
    blocks = Blocks(90, 10, 1e-6).with_rows(10_000)
    (layout,) = blocks.layouts(0.05)
    assert layout == Layout(90, 10, 100, layout.price)
    assert 99e-6 <= layout.price <= 99e-6 * (1 + 1e-9)
    by_rate = Blocks(90, 40, Mixing(0.5)).with_rows(10_000)
    assert by_rate.remembered == pytest.approx(0.5**41)
    assert by_rate.layouts(0.05)[0].price == pytest.approx(76 * 0.5**41)
    assert blocks.split(0.3, np.random.default_rng(0)).bias == 1e-6


def test_declared_blocks_of_a_chain_cost_what_its_gap_is_worth():
    gap = 3
    worth = forgotten(SYMMETRIC, gap + 1)
    enough, half = (Blocks(2, gap, declared).with_rows(12).layouts(0.9)[0] for declared in (worth, worth / 2))
    assert enough.blocks == half.blocks == 3
    assert half.price < apart(SYMMETRIC, 3, 2, gap) <= enough.price


def test_blocks_that_make_no_sense_are_refused():
    for arguments, word in (
        ((0, 1, 0.1), "length"),
        ((5, -1, 0.1), "gap"),
        ((5, 1, 1.0), "mixing"),
        ((5, 1, math.nan), "mixing"),
        ((5, 1, None), "mixing"),
    ):
        with pytest.raises(InvalidArgument, match=word):
            Blocks(*arguments)
    with pytest.raises(NotEnoughRows, match="Two blocks") as caught:
        Blocks(10, 100, 1e-9).with_rows(100)
    assert caught.value.needed == 120
    assert Blocks(10, 100, 1e-9).with_rows(120).layouts()[0].blocks == 2
    with pytest.raises(InvalidArgument, match=r"gap.*longer gap, longer blocks or a lower confidence"):
        Blocks(10, 1, 0.01).with_rows(1_000).layouts(0.05)
    with pytest.raises(NotEnoughRows, match="Two blocks"):
        Blocks(10, 30, 1e-9).with_rows(60).split(0.5, np.random.default_rng(0))
    with pytest.raises(NotEnoughRows, match="Two blocks"):
        Blocks(10, 30, 1e-9).with_rows(60).fresh()


def test_a_twin_that_charges_for_one_layout_only_is_caught():
    """The sum of the prices is what the guard charges: six times as much for each would break it."""
    model, beta = Mixing(0.5, n=10_000), 0.05
    # Each of six layouts may cost a sixth of its allowance: as much as one layout alone at ``beta``.
    first = model.layouts(6 * beta)[0]
    assert beta / 20 / 2 < first.price <= beta / 20
    greedy = [
        telescoped(model, blocks_in(10_000, first.length * 2**place, first.gap), first.gap)
        for place in range(6)
    ]
    assert math.fsum(greedy) > beta / 20 >= math.fsum(layout.price for layout in model.layouts(beta))


def test_the_least_gap_of_a_step_is_found():
    """What is remembered drops to nothing after exactly k steps: the gap is k − 1, whatever k is."""
    for k in (1, 2, 3, 7, 16, 33):
        layouts = MDependent(2_000, k - 1).layouts(0.02)
        assert {layout.gap for layout in layouts} == {k - 1}
