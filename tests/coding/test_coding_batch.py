"""Questions asked together: the arithmetic of a batch, and its theorem by enumeration with twins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from holdfast.coding import MICRO, Account, Weights

BETA = 0.3
POINTS = 20_000
HALF_CELL = 0.3  # so that outputs are about equally likely, and say most
OUTPUTS = (0, 1, -1, 2, -2, 3, -3, None)  # cells, and a failure


def price_of(account, output):
    prior = account.learned.cells
    return prior.elsewhere_price() if output is None else prior.price(output, HALF_CELL)


def after(account, output):
    price = price_of(account, output)
    learned = replace(account.learned, cells=account.learned.cells.after(output, HALF_CELL))
    exact = account.exact + price
    return account.after(account.charge(price), surprise=output != 0, exact=exact, learned=learned)


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
            probability = weight * math.exp(-price_of(account, output))
            end = min(start + round(probability * POINTS), len(points))
            split.append((points[start:end], after(account, output), probability))
            start = end
        return split


def worst_session(*, pays=True, fixed=True):
    """A question, a batch of two, and a question after them, against the worst case; returns the probability
    that some interval fails.

    Twins: with ``pays=False`` nobody after the batch pays for its outputs; with ``fixed=False`` the second
    question of the batch is chosen after the first one's output.
    """
    world = Adversary(Account(BETA))
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


def test_a_batch_that_later_questions_do_not_pay_for_is_caught():
    assert worst_session(pays=False) > BETA


def test_a_member_that_was_chosen_from_an_earlier_output_of_its_batch_is_caught():
    assert worst_session(fixed=False) > BETA


def test_later_questions_pay_for_every_output_of_the_batch():
    account = Account(0.05)
    batch, later = account.for_batch(3), account
    for _ in range(3):
        later = after(later, 2)
    assert batch.nats() == pytest.approx(-math.log(0.05) + Weights().nats(1, 3))
    assert later.nats() == pytest.approx(-math.log(0.05) + Weights().nats(4) + later.spent)
    assert later.micro_nats == math.ceil(later.exact * MICRO)


def worst_report(*, closes=True):
    """A question, then a report of two, against the worst case. Twin: with ``closes=False`` the account stays
    open after the report, and its exact values choose one more question for which nobody paid."""
    world = Adversary(Account(BETA))
    points = world.ask(list(range(POINTS)), world.account.nats())
    for before, account, _ in world.outputs(points, world.account, 1.0):
        left = world.ask(before, account.last_nats(2))
        left = world.ask(left, account.last_nats(2))
        if not closes:  # The report told which point it is.
            for point in left:
                world.ask([point], 0.0 if account.nats() < math.log(POINTS) else account.nats())
    return world.failed / POINTS


def test_a_report_keeps_the_promise_in_the_worst_case():
    assert 0.9 * BETA < worst_report() <= BETA


def test_a_report_that_leaves_the_account_open_is_caught():
    assert worst_report(closes=False) > BETA
