"""Questions asked together: the arithmetic of a batch, and its theorem by enumeration with twins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import MICRO, Account, Weights, Weights
from holdfast.coding import Experience, Failure, Surprise

BETA = 0.3
POINTS = 20_000
USED_TO_SURPRISES = Experience(0, 3)  # so that outputs are about equally likely, and say most
OUTPUTS = (None, *(Surprise(cell) for cell in (1, -1, 2, -2, 3, -3)), Failure())


@given(st.integers(1, 10**6), st.integers(1, 300))
def test_a_batch_shares_the_weights_of_its_places_evenly(step, questions):
    together = questions * math.exp(-Weights().nats(step, questions))
    one_by_one = math.fsum(math.exp(-Weights().nats(step + place)) for place in range(questions))
    assert together == pytest.approx(one_by_one, rel=1e-12)


def test_a_batch_of_one_is_a_question():
    account = Account(0.05, steps=7, micro_nats=3_000_000)
    assert account.for_batch(1).nats() == account.nats()


@given(st.integers(1, 60), st.integers(0, 40), st.integers(0, 40), st.data())
def test_no_output_of_a_batch_is_dearer_than_in_one_of_the_extreme_states(
    questions, confirmed, surprised, data
):
    account = Account(0.05, experience=Experience(confirmed, surprised)).for_batch(questions)
    now = account.experience
    for surprise in data.draw(st.lists(st.booleans(), max_size=questions - 1)):
        now = now.after(surprise=surprise)
    for output in OUTPUTS:
        dearest = max(extreme.price(output) for extreme in account.extremes())
        assert replace(account, experience=now).price(output) <= dearest + 1e-12


@dataclass
class Adversary:
    """X is uniform on so many points. Who asks and what is answered are the worst the theorem allows.

    An interval for a fixed query fails on a set of points of at most δ; here on exactly that many, taken from
    the points that are still possible and where no interval has failed yet. Outputs are as likely as their
    prices say. ``failed`` is then exactly the probability that some interval fails.
    """

    account: Account
    failed: int = 0

    def ask(self, points: list[int], nats: float) -> list[int]:
        """Let one interval fail on as many of these points as it may; returns the points that are left."""
        count = min(math.floor(POINTS * math.exp(-nats)), len(points))
        self.failed += count
        return points[count:]

    def outputs(
        self, points: list[int], account: Account, weight: float
    ) -> list[tuple[list[int], Account, float]]:
        """The possible outputs of one question: the points that have it, the account then, and the output's
        probability times ``weight``."""
        split, start = [], 0
        for output in OUTPUTS:
            price = account.price(output)
            probability = weight * math.exp(-price)
            end = min(start + round(probability * POINTS), len(points))
            later = account.after(
                account.charge(price), surprise=output is not None, exact=account.exact + price
            )
            split.append((points[start:end], later, probability))
            start = end
        return split


def worst_session(*, pays=True, fixed=True):
    """A question, a batch of two, and a question after them, against the worst case; returns the probability
    that some interval fails.

    Twins: with ``pays=False`` nobody after the batch pays for its outputs; with ``fixed=False`` the second
    question of the batch is chosen after the first one's output.
    """
    world = Adversary(Account(BETA, experience=USED_TO_SURPRISES))
    points = world.ask(list(range(POINTS)), world.account.nats())
    for before, account, weight in world.outputs(points, world.account, 1.0):
        batch = account.for_batch(2)
        left = world.ask(before, batch.nats())
        if fixed:
            left = world.ask(left, batch.nats())
        for middle, first, share in world.outputs(left, account, weight):
            rest = middle if fixed else world.ask(middle, batch.nats())
            for last, second, _ in world.outputs(rest, first, share):
                after = second if pays else replace(second, micro_nats=account.micro_nats)
                world.ask(last, after.nats())
    return world.failed / POINTS


def test_all_intervals_hold_in_the_worst_case():
    assert 0.5 * BETA < worst_session() <= BETA


def test_a_batch_that_pays_nobody_afterwards_is_caught():
    assert worst_session(pays=False) > BETA


def test_a_member_that_was_chosen_from_an_earlier_output_of_its_batch_is_caught():
    assert worst_session(fixed=False) > BETA


def test_whoever_comes_after_pays_for_every_output_of_the_batch():
    account = Account(0.05)
    batch = account.for_batch(3)
    later = account
    for _ in range(3):
        price = replace(batch, experience=later.experience).price(Surprise(2))
        later = later.after(later.charge(price), surprise=True, exact=later.exact + price)
    assert batch.nats() == pytest.approx(-math.log(0.05) + Weights().nats(1, 3))
    assert later.nats() == pytest.approx(-math.log(0.05) + Weights().nats(4) + later.spent)
    assert later.micro_nats == math.ceil(later.exact * MICRO)
