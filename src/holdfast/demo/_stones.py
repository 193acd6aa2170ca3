"""Diamonds drawn at random from a known population, with coins that know nothing about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from holdfast import checks

MOST_COINS = 600


@dataclass(frozen=True)
class Question:
    """Something an analyst wants to know: in words, as it is asked, and its true value among all stones."""

    words: str
    asked: str
    truth: Callable[[Any], float]


QUESTIONS = (
    Question("What does a stone cost?", "mean(price, 0, 20000)", lambda all_: all_.price.mean()),
    Question(
        "And the one in the middle?",
        "quantile(price, 0.5)",
        lambda all_: all_.price.quantile(0.5, interpolation="lower"),
    ),
    Question(
        "How many cost more than $10,000?",
        "share(price > 10000)",
        lambda all_: (all_.price > 10_000).mean(),
    ),
    Question(
        "How many heavy ones have an ideal cut?",
        "share(cut = 'Ideal', where = carat > 1)",
        lambda all_: (all_.cut[all_.carat > 1] == "Ideal").mean(),
    ),
    Question(
        "What does a carat cost?",
        "mean(price / carat, 0, 20000, where = carat > 0)",
        lambda all_: (all_.price / all_.carat).mean(),
    ),
    Question(
        "Colourless ones: 3 in 10, surely?",
        "share(color = 'D', guess = 0.3)",
        lambda all_: (all_.color == "D").mean(),
    ),
)


@dataclass(frozen=True)
class Stones:
    """``table`` is what the analyst has: ``rows`` stones drawn with replacement from the ``population``.

    ``expensive`` says whether a stone costs more than the median of the population. A coin is a fair coin
    flipped for each stone, independent of everything else: the majority of coins, each turned either way, is
    right about ``expensive`` exactly half of the time.
    """

    table: Any
    population: Any
    coins: tuple[str, ...]

    @classmethod
    def draw(cls, rows: int, columns: int, seed: int) -> Stones:
        """Draw the stones and flip the coins; the same for the same seed."""
        import pandas as pd

        rows = checks.whole(rows, "rows", at_least=100, of="demo")
        columns = checks.whole(columns, "columns", at_most=MOST_COINS, of="demo")
        rng = np.random.default_rng(checks.whole(seed, "seed", at_least=0, of="demo"))
        with resources.as_file(resources.files("holdfast") / "data" / "diamonds.parquet") as path:
            population = pd.read_parquet(path)
        drawn = population.iloc[rng.integers(0, len(population), rows)].reset_index(drop=True)
        expensive = (drawn.price > population.price.median()).astype(np.int8).rename("expensive")
        names = tuple(f"coin_{i}" for i in range(1, columns + 1))
        coins = pd.DataFrame(rng.integers(0, 2, (rows, columns), dtype=np.int8), columns=list(names))
        return cls(pd.concat([drawn, expensive, coins], axis=1), population, names)

    def plain(self) -> Any:
        """The stones without what the story added to them."""
        return self.table.drop(columns=["expensive", *self.coins])
