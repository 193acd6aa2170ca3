"""The sign attack does what it says on the rows, learns one bit an answer, and the guard survives it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast import Guard
from holdfast.audit.attacks import sign_attack
from holdfast.errors import InvalidArgument

ROWS, COINS = 1_200, 61
NAMES = [f"c{i}" for i in range(COINS)]


@pytest.fixture
def coins(rng):
    return {name: rng.integers(0, 2, ROWS).astype(np.int8) for name in [*NAMES, "truth"]}


def guarded(table, **terms):
    return Guard(table, training_share=0, **terms)


def test_each_answer_is_the_bit_above_or_below_one_half(coins):
    attack = sign_attack(guarded(coins), columns=NAMES, target="truth")
    placed = 0
    for name, answer, sign in zip(NAMES, attack.answers, attack.signs, strict=True):
        cell = answer.certificate.numbers["cell"]
        begins = answer.guess - cell / 2
        assert begins == pytest.approx(0.5, abs=0.1 * cell)
        if abs(begins - (0.5 - 0.25 / ROWS)) < 1e-9:
            placed += 1
            above = (coins[name] == coins["truth"]).mean() >= 0.5
            assert (answer.value > 0.5) == above
            assert sign == (1 if above else -1)
    assert placed >= 0.9 * COINS


@pytest.mark.parametrize("columns", [NAMES, NAMES[:60], NAMES[:2], NAMES[:1]])
def test_the_rule_is_the_majority_without_ties(coins, columns):
    guard = guarded(coins)
    attack = sign_attack(guard, columns=columns, target="truth")
    turned = np.array([coins[name] * 2 - 1 for name in columns]) * np.array(attack.signs)[:, None]
    if len(columns) % 2 == 0:
        turned = np.vstack([turned, turned[:1]])
    votes = turned.sum(axis=0)
    assert not (votes == 0).any()
    agrees = ((votes > 0) == (coins["truth"] == 1)).mean()
    assert guard.rows == ROWS
    low, high = attack.final.low, attack.final.high
    assert low <= agrees <= high
    cell = attack.final.certificate.numbers["cell"]
    assert abs(attack.final.value - agrees) <= cell / 2 + 1e-9


def test_the_majority_overfits_and_the_guard_still_holds(coins):
    attack = sign_attack(guarded(coins), columns=NAMES, target="truth")
    turned = np.array([coins[name] * 2 - 1 for name in NAMES]) * np.array(attack.signs)[:, None]
    agrees = ((turned.sum(axis=0) > 0) == (coins["truth"] == 1)).mean()
    # On the rows that chose the signs the excess is about 0.32 √(61/1200) = 0.072, five standard deviations.
    assert agrees > 0.53
    assert all(answer.low <= 0.5 <= answer.high for answer in (*attack.answers, attack.final))


def test_booleans_and_strange_names_are_asked_about_too(rng):
    table = {f'coin "{i}" or': rng.integers(0, 2, 400).astype(bool) for i in range(4)}
    table["it is so"] = rng.integers(0, 2, 400).astype(bool)
    numbers = {name: values.astype(int) for name, values in table.items()}
    columns = list(table)[:-1]
    attacked = [sign_attack(guarded(t), columns=columns, target="it is so") for t in (table, numbers)]
    assert attacked[0].signs == attacked[1].signs
    assert (attacked[0].final.low, attacked[0].final.high) == (
        attacked[1].final.low,
        attacked[1].final.high,
    )


def test_without_edges_the_guesses_come_from_the_training_part(coins):
    guard = Guard(coins)
    seen = []
    attack = sign_attack(
        guard,
        columns=NAMES,
        target="truth",
        on_edge=False,
        progress=lambda done, total: seen.append((done, total)),
    )
    train = guard.train
    for name, answer in zip(NAMES, attack.answers, strict=True):
        assert answer.guess == pytest.approx((train[name] == train["truth"]).mean())
    assert seen == [(i, COINS + 1) for i in range(1, COINS + 2)]
    assert attack.final.low <= 0.5 <= attack.final.high


def test_a_promise_ends_the_attack_with_a_refusal_not_an_error(coins):
    guard = guarded(coins, error=0.1)
    attack = sign_attack(guard, columns=NAMES, target="truth")
    assert attack.final is None
    assert "promised" in attack.refused
    assert 0 < len(attack.answers) == len(attack.signs) < COINS
    assert guard.history == attack.answers
    assert all(answer.half_width <= 0.1 for answer in attack.answers)
    assert "refused" in repr(attack)


class CoinsForColumns:
    """A guard that answers the first questions by a coin, and only the last one from the rows."""

    def __init__(self, guard, rng, columns):
        self._guard, self._coins = guard, iter(rng.integers(0, 2, columns).tolist())
        self.schema, self.rows = guard.schema, guard.rows

    def ask(self, query):
        coin = next(self._coins, None)
        if coin is None:
            return self._guard.ask(replace(query, guess=0.5))
        return SimpleNamespace(value=float(coin))


def test_hundreds_of_columns_are_one_question(rng):
    names = [f"omen_{i}" for i in range(1, 701)]
    table = {name: rng.integers(0, 2, 300).astype(bool) for name in names} | {
        "truth": rng.integers(0, 2, 300).astype(bool)
    }
    guard = CoinsForColumns(guarded(table), rng, len(names))
    attack = sign_attack(guard, columns=names, target="truth", on_edge=False)
    signs = attack.signs
    assert len(signs) == 700
    assert set(signs) == {-1, 1}
    turned = (
        np.array([table[name] * 2 - 1 for name in [*names, names[0]]]) * np.array([*signs, signs[0]])[:, None]
    )
    agrees = ((turned.sum(axis=0) > 0) == table["truth"]).mean()
    assert attack.final.low <= agrees <= attack.final.high


def test_what_cannot_be_attacked_is_refused_before_anything_is_asked(coins):
    guard = guarded(coins | {"name": np.array(["x"] * ROWS)})
    for columns, target in (([], "truth"), (["c1", "name"], "truth"), (["c1"], "nothing"), (["c1"], "name")):
        with pytest.raises(InvalidArgument, match="columns"):
            sign_attack(guard, columns=columns, target=target)
    assert guard.spent == 0


def test_the_record_is_plain_data(coins):
    attack = sign_attack(guarded(coins), columns=NAMES[:3], target="truth")
    told = attack.to_dict()
    assert told["signs"] == list(attack.signs)
    assert told["answers"][0]["low"] == attack.answers[0].low
    assert told["final"]["value"] == attack.final.value
    assert repr(attack).startswith("SignAttack(3 columns, ")
