"""Small worlds in which the best adaptive submitter to a gate can be computed exactly.

Each task carries a hidden configuration, drawn from a known law. A candidate is a function of it: one score
for each configuration. So its true gain is known, and a sample is how many tasks have which configuration.
The submitter sees verdicts only. What they say is which samples are still possible, so the best strategy is
found by trying every candidate after every sequence of verdicts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.coding import Account, PromotionAlphabet, Weights
from holdfast.intervals import gain_steps

Scores = tuple[float, ...]


@dataclass
class Rules:
    """The gate's rules, from its pure parts. A twin changes one of them."""

    error: float
    promise: str = "family"
    step: float = 0.1
    minimum: float = 0.0
    binary: bool = True
    expect: float | None = None
    test: Callable[..., int | None] = gain_steps
    pays: bool = True
    shares_out: bool = True
    cache: dict[Any, int | None] = field(default_factory=dict, repr=False)

    def account(self) -> Account:
        return Account(self.error, weights=Weights(expect=self.expect))

    def nats(self, account: Account, promotions: int) -> float:
        """ln(1/δ) of the next comparison."""
        nats = account.nats() if self.shares_out else -math.log(self.error) + account.spent
        return nats - math.log(1 + promotions) if self.promise == "fdr" else nats

    def after(self, account: Account, steps: int | None) -> Account:
        prices = PromotionAlphabet(math.ceil((1 - self.minimum) / self.step) + 1, account.experience)
        charge = account.charge(prices.price(steps) if self.pays else 0.0)
        return account.after(charge, surprise=steps is not None)

    def margin(self, steps: int) -> float:
        return min(1.0, self.minimum + steps * self.step)

    def shown(self, differences: tuple[tuple[float, int], ...], nats: float) -> int | None:
        """The verdict on so many tasks with each difference."""
        key = (differences, nats)
        if key not in self.cache:
            values = np.repeat([value for value, _ in differences], [count for _, count in differences])
            self.cache[key] = self.test(
                values, nats=nats, step=self.step, least=self.minimum, binary=self.binary
            )
        return self.cache[key]


class World:
    """So many tasks with configurations of these probabilities, and what may be submitted."""

    def __init__(self, probabilities: Sequence[float], tasks: int, candidates: Sequence[Scores]) -> None:
        self.probabilities = np.array(probabilities)
        self.candidates = list(candidates)
        cells = len(probabilities)
        self.samples = np.array(
            [
                np.diff([-1, *bars, tasks + cells - 1]) - 1
                for bars in itertools.combinations(range(tasks + cells - 1), cells - 1)
            ]
        )
        ways = [
            math.factorial(tasks) // math.prod(math.factorial(int(count)) for count in sample)
            for sample in self.samples
        ]
        self.chances = np.array(ways) * np.prod(self.probabilities**self.samples, axis=1)

    def gain(self, candidate: Scores, incumbent: Scores) -> float:
        return float(self.probabilities @ (np.array(candidate) - np.array(incumbent)))

    def verdicts(self, rules: Rules, candidate: Scores, incumbent: Scores, nats: float) -> np.ndarray:
        """For every sample, the steps that are shown; -1 for "not shown"."""
        differences = np.round(np.array(candidate) - np.array(incumbent), 12)
        values = np.unique(differences)
        counts = np.stack([self.samples[:, differences == value].sum(axis=1) for value in values], axis=1)
        steps = [rules.shown(tuple(zip(values.tolist(), row.tolist(), strict=True)), nats) for row in counts]
        return np.array([-1 if number is None else number for number in steps])

    def worst(self, rules: Rules, incumbent: Scores, submissions: int) -> float:
        """The largest probability of a wrong promotion, or under fdr the largest expected share of wrong
        ones, over all adaptive submitters who may stop at any time."""
        return self._best(rules, self.chances, rules.account(), incumbent, 0, 0, submissions, {})

    def _best(
        self,
        rules: Rules,
        chances: np.ndarray,
        account: Account,
        incumbent: Scores,
        wrong: int,
        promotions: int,
        left: int,
        cache: dict[Any, np.ndarray],
    ) -> float:
        share = wrong / max(1, promotions) if rules.promise == "fdr" else float(wrong > 0)
        best = now = float(chances.sum()) * share
        if left == 0 or now == chances.sum() or not chances.any():
            return now
        nats = rules.nats(account, promotions)
        idle = False
        for candidate in self.candidates:
            key = (candidate, incumbent, nats)
            if key not in cache:
                cache[key] = self.verdicts(rules, candidate, incumbent, nats)
            verdicts = cache[key]
            if (verdicts[chances > 0] < 0).all():
                if idle:
                    continue  # Another candidate that is never promoted says as little.
                idle = True
            value = 0.0
            for verdict in np.unique(verdicts[chances > 0]):
                steps = None if verdict < 0 else int(verdict)
                missed = steps is not None and rules.margin(steps) >= self.gain(candidate, incumbent) - 1e-12
                value += self._best(
                    rules,
                    np.where(verdicts == verdict, chances, 0.0),
                    rules.after(account, steps),
                    incumbent if steps is None else candidate,
                    wrong + missed,
                    promotions + (steps is not None),
                    left - 1,
                    cache,
                )
            best = max(best, value)
        return best


def functions(bits: int) -> list[Scores]:
    """Every function of so many hidden bits to 0 and 1."""
    return [tuple(map(float, scores)) for scores in itertools.product((0, 1), repeat=2**bits)]


def parities(bits: int) -> list[Scores]:
    """The parities of the bits and their opposites: each is right on half of the tasks, so none is better
    than another."""
    signs = [[bin(mask & cell).count("1") % 2 for cell in range(2**bits)] for mask in range(1, 2**bits)]
    return [tuple(float(bit ^ turned) for bit in sign) for sign in signs for turned in (0, 1)]
