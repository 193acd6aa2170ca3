"""One day of an analyst, shown three times: with plain averages, with one untouched holdout, with a guard."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import checks
from holdfast.audit.attacks import SignAttack, sign_attack
from holdfast.guard import Answer, Certificate, Guard
from holdfast.intervals import Interval, clopper_pearson
from holdfast.lab._figures import Progress
from holdfast.records import Record

if TYPE_CHECKING:
    import pandas as pd

TRUTH = 0.5


@dataclass(frozen=True, repr=False)
class AnsweredQuestion(Record):
    """A question about the stones: in words, the guard's answer, and the truth among all of them."""

    words: str
    answer: Answer
    truth: float

    @property
    def holds(self) -> bool:
        """Whether the interval contains the truth."""
        return self.answer.low <= self.truth <= self.answer.high

    def to_dict(self) -> dict[str, Any]:
        """The answer in short, with the truth."""
        answer = self.answer
        return {
            "words": self.words,
            "question": str(answer.query),
            "value": answer.value,
            "low": answer.low,
            "high": answer.high,
            "confirmed": answer.confirmed,
            "cost": answer.cost,
            "truth": self.truth,
            "holds": self.holds,
        }


@dataclass(frozen=True, repr=False)
class Claim(Record):
    """How often the vote of the coins is said to be right, by whom, and with which 95 % interval.

    ``missed`` counts the single coins whose interval missed the truth (None where nothing was said about
    them), ``nats`` what the search cost.
    """

    who: str
    value: float
    low: float
    high: float
    missed: int | None = None
    nats: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the interval contains the truth, one half."""
        return self.low <= TRUTH <= self.high

    def to_dict(self) -> dict[str, Any]:
        """The claim with whether it holds."""
        return {**super().to_dict(), "truth": TRUTH, "holds": self.holds}


@dataclass(frozen=True, repr=False)
class Story(Record):
    """Everything the demo shows.

    Args:
        rows: How many stones the analyst has.
        population: How many stones there are.
        columns: How many coins are searched.
        seed: The seed of the draw.
        told: The honest questions, with their answers and the truth.
        naive: What plain averages say about the vote of the coins.
        holdout: What a holdout says about it that is used once.
        guard: What a guard says about it.
        attacked: What a guard says about it that is attacked on purpose.
        left: What the first guard has left, in words.
        certificate: The certificate of the first guard.
        plain_shares: The share of each coin by plain averages.
        guarded_shares: The share of each coin by the first guard.
    """

    rows: int
    population: int
    columns: int
    seed: int
    told: tuple[AnsweredQuestion, ...]
    naive: Claim
    holdout: Claim
    guard: Claim
    attacked: Claim
    left: str
    certificate: Certificate
    plain_shares: tuple[PlainShare, ...] = field(repr=False)
    guarded_shares: tuple[Answer, ...] = field(repr=False)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The four reports, the naive one first."""
        return self.naive, self.holdout, self.guard, self.attacked

    @property
    def held(self) -> bool:
        """Whether every interval of both guards contains its truth, as it should in 95 of 100 cases."""
        guarded = (self.guard, self.attacked)
        return all(question.holds for question in self.told) and all(
            claim.holds and not claim.missed for claim in guarded
        )

    @property
    def moral(self) -> tuple[str, str, str]:
        """What became of the plain averages, of the guard and of the one holdout."""
        averages = (
            "Plain averages are right this time: with so few coins there is little to overfit."
            if self.naive.holds
            else f"Plain averages mistook {self.naive.missed} coins for signals. By their intervals, the "
            f"vote could be luck only with odds of {self.luck}. It was luck."
        )
        end = "its intervals held" if self.held else "one interval missed, as may happen in 5 of 100 cases"
        return (
            averages,
            f"Holdfast charged {self.guard.nats:.2g} nats for the search and {self.attacked.nats:.3g} for "
            f"the attack, and {end}.",
            self.once,
        )

    @property
    def once(self) -> str:
        """What one untouched holdout is good for."""
        missed = "" if self.holdout.holds else " It missed this time, as may happen in 5 of 100 cases."
        return (
            f"If the protected rows answer only this question, the interval is {self.holdout.low:.1%} to "
            f"{self.holdout.high:.1%}. It is narrower, but then the rows are used up.{missed} A report "
            "(holdfast report) gives the same, at the end of an account."
        )

    @property
    def luck(self) -> str:
        """How rare the naive finding would be if its question had been fixed in advance."""
        from scipy.special import log_ndtr

        deviations = (self.naive.value - TRUTH) * 2 * math.sqrt(self.rows)
        tens = -(log_ndtr(-abs(deviations)) + math.log(2)) / math.log(10)
        return f"1 in 10^{math.floor(tens)}" if tens >= 3 else f"1 in {10**tens:,.0f}"


def tell(stones: Stones, *, seed: int = 0, progress: Progress | None = None) -> Story:
    """Ask the honest questions. Then search the coins four times: by plain averages, with one holdout, with a
    guard, and with a second guard that is attacked on purpose.

    Guarantee: with probability 0.95 all intervals of the first guard hold, and so do all of the second.

    Args:
        stones: The stones and the coins.
        seed: Which rows the guards set aside for training.
        progress: Called with the number of questions asked and the number of questions in all.
    """
    columns, rows = list(stones.coins), len(stones.table)
    total = len(QUESTIONS) + 2 * (len(columns) + 1)

    def progress_from(done: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda asked, _: progress(done + asked, total)

    guard = Guard(stones.table, split_seed=seed)
    answers = []
    for question in QUESTIONS:
        answers.append(
            AnsweredQuestion(
                question.words, guard.ask(question.asked), float(question.truth(stones.population))
            )
        )
        if progress is not None:
            progress(len(answers), total)
    before = guard.spent
    guarded = sign_attack(
        guard, columns=columns, target="expensive", on_edge=False, progress=progress_from(len(answers))
    )
    attacked_guard = Guard(stones.table, split_seed=seed)
    attacked = sign_attack(
        attacked_guard,
        columns=columns,
        target="expensive",
        progress=progress_from(len(answers) + len(columns) + 1),
    )
    plain_shares, plain_vote = naive_sign_attack(stones)
    single = single_holdout(stones, _explored(stones, seed))
    return Story(
        rows=rows,
        population=len(stones.population),
        columns=len(columns),
        seed=seed,
        told=tuple(answers),
        naive=Claim(
            who="Plain averages",
            value=plain_vote.value,
            low=plain_vote.interval.low,
            high=plain_vote.interval.high,
            missed=sum(not share.interval.contains(TRUTH) for share in plain_shares),
        ),
        holdout=Claim("One holdout, used once", single.value, single.interval.low, single.interval.high),
        guard=_claim("Holdfast", guarded, guard.spent - before),
        attacked=_claim("Holdfast, attacked", attacked, attacked_guard.spent),
        left=guard.left.words,
        certificate=guard.certificate,
        plain_shares=tuple(plain_shares),
        guarded_shares=guarded.answers,
    )


def _explored(stones: Stones, seed: int) -> Any:
    """The places of the rows that the guards set aside as their training part."""
    places = Guard({"place": range(len(stones.table))}, split_seed=seed).train["place"]
    return [int(place) for place in places]


def _claim(who: str, attack: SignAttack, nats: float) -> Claim:
    final = attack.final
    if final is None:
        raise AssertionError("a guard without a promise never refuses")
    missed = sum(not answer.low <= TRUTH <= answer.high for answer in attack.answers)
    return Claim(who, final.value, final.low, final.high, missed, nats)


_NATS = math.log(1 / 0.05)


@dataclass(frozen=True)
class PlainShare:
    """A share of rows with its exact 95 % interval for one question fixed in advance."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, count: int, rows: int) -> PlainShare:
        return cls(count / rows, clopper_pearson(count, rows, _NATS))


def naive_sign_attack(stones: Stones) -> tuple[list[PlainShare], PlainShare]:
    """The questions of :func:`holdfast.audit.attacks.sign_attack`, answered by averages over every row."""
    target, coins = _columns(stones)
    rows = len(target)
    agreeing = (coins == target[:, None]).sum(axis=0)
    return [PlainShare.of(int(count), rows) for count in agreeing], _vote(
        target, coins, _signs(target, coins)
    )


def single_holdout(stones: Stones, explored: Any) -> PlainShare:
    """One untouched holdout, without a guard: the rows at the places ``explored`` turn the coins. The other
    rows, which nobody has looked at, say once how often the vote of the coins is right."""
    target, coins = _columns(stones)
    is_explored = np.zeros(len(target), dtype=bool)
    is_explored[explored] = True
    return _vote(target[~is_explored], coins[~is_explored], _signs(target[is_explored], coins[is_explored]))


def _columns(stones: Stones) -> tuple[Any, Any]:
    return stones.table["expensive"].to_numpy(), stones.table[list(stones.coins)].to_numpy()


def _signs(target: Any, coins: Any) -> Any:
    """+1 for a coin that agrees with the target on at least half of these rows, else −1."""
    return np.where((coins == target[:, None]).sum(axis=0) * 2 >= len(target), 1, -1)


def _vote(target: Any, coins: Any, signs: Any) -> PlainShare:
    """How often the vote of the turned coins is right on these rows."""
    votes = (2 * coins.astype(np.int64) - 1) @ signs
    if len(signs) % 2 == 0:
        votes += (2 * coins[:, 0].astype(np.int64) - 1) * signs[0]
    return PlainShare.of(int(((votes > 0) == (target == 1)).sum()), len(target))


MOST_COINS = 600


@dataclass(frozen=True)
class DemoQuestion:
    """Something an analyst wants to know: in words, as it is asked, and its true value among all stones."""

    words: str
    asked: str
    truth: Callable[[Any], float]


QUESTIONS = (
    DemoQuestion("What does a stone cost?", "mean(price, 0, 20000)", lambda stones: stones.price.mean()),
    DemoQuestion(
        "What does the middle stone cost?",
        "quantile(price, 0.5)",
        lambda stones: stones.price.quantile(0.5, interpolation="lower"),
    ),
    DemoQuestion(
        "How many cost more than $10,000?",
        "share(price > 10000)",
        lambda stones: (stones.price > 10_000).mean(),
    ),
    DemoQuestion(
        "How many above 1 carat have an ideal cut?",
        "share(cut = 'Ideal', where = carat > 1)",
        lambda stones: (stones.cut[stones.carat > 1] == "Ideal").mean(),
    ),
    DemoQuestion(
        "What does a carat cost?",
        "mean(price / carat, 0, 20000, where = carat > 0)",
        lambda stones: (stones.price / stones.carat).mean(),
    ),
    DemoQuestion(
        "Are 3 in 10 colourless, as we guess?",
        "share(color = 'D', guess = 0.3)",
        lambda stones: (stones.color == "D").mean(),
    ),
)


@dataclass(frozen=True)
class Stones:
    """Diamonds, and a coin flipped for each of them many times.

    ``table`` is what the analyst has: stones drawn with replacement from the ``population``. ``coins`` are
    the names of its columns of coin flips. ``expensive`` says whether a stone costs more than the median of
    the population. A coin is a fair coin flipped for each stone, independent of everything else: the majority
    of coins, each turned either way, is right about ``expensive`` exactly half of the time.
    """

    table: pd.DataFrame
    population: pd.DataFrame
    coins: tuple[str, ...]

    @classmethod
    def draw(cls, rows: int, columns: int, seed: int) -> Stones:
        """Draw the stones and flip the coins; the same for the same seed.

        Args:
            rows: How many stones to draw.
            columns: How many coins to flip for each stone.
            seed: Another seed draws other stones.
        """
        import pandas as pd

        rows = checks.whole(rows, "rows", at_least=100, of="demo")
        columns = checks.whole(columns, "columns", at_most=MOST_COINS, of="demo")
        rng = np.random.default_rng(checks.whole(seed, "seed", at_least=0, of="demo"))
        with resources.as_file(resources.files("holdfast") / "data" / "diamonds.parquet") as path:
            population = pd.read_parquet(path)
        drawn = population.iloc[rng.integers(0, len(population), rows)].reset_index(drop=True)
        expensive = (drawn.price > population.price.median()).astype(np.int8).rename("expensive")
        names = tuple(f"coin_{number}" for number in range(1, columns + 1))
        coins = pd.DataFrame(rng.integers(0, 2, (rows, columns), dtype=np.int8), columns=list(names))
        return cls(pd.concat([drawn, expensive, coins], axis=1), population, names)

    def plain(self) -> pd.DataFrame:
        """The stones without what the story added to them."""
        return self.table.drop(columns=["expensive", *self.coins])
