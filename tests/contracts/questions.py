"""Random questions, to be put to the same rows in two places; the columns are those of ``engine.people``."""

from __future__ import annotations

import random

NUMBERS = ["0", "1", "2.5", "-3", "0.1", "1e-5", "40", "1e300", "123456789.123"]
TEXTS = ["F", "M", "it''s", "", "É", "12", "-1.5e3", "true"]
PATTERNS = ["%", "_", "i_''s", "%1%", "%e_", "", "F", "_%_"]
DAYS = ["2020-01-01", "2021-06-30", "1999-12-31 23:59:59", "2024-02-29"]


class Questions:
    """Draws lines such as ``mean(x * y, -3, 8, where = k > 1, nulls = 0)``; ``without`` names functions that
    are left out."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self._source = random.Random(seed)
        self._without = without

    def line(self) -> str:
        kind = self._source.choice(["mean", "mean", "share", "share", "quantile"])
        where = f", where = {self.condition(2)}" if self._source.random() < 0.6 else ""
        if kind == "share":
            nulls = self._source.choice(["true", "false", "skip"])
            return f"share({self.condition(3)}{where}, nulls = {nulls})"
        value = self.number(3)
        if kind == "quantile":
            nulls = self._source.choice(["skip", "-2.5"])
            return f"quantile({value}, {self._source.choice([0.1, 0.5, 0.75])}{where}, nulls = {nulls})"
        low, high = self._source.choice([(0, 1), (-3, 7), (-1e150, 1e150), (1e-3, 2e-3), (-100, 1000)])
        nulls = self._source.choice([repr(low), repr(high), "skip"])
        return f"mean({value}, {low}, {high}{where}, nulls = {nulls})"

    def number(self, deep: int) -> str:
        source = self._source
        if deep == 0 or source.random() < 0.25:
            return source.choice(["x", "x", "y", "y", "k", "k", source.choice(NUMBERS)])
        a, b = self.number(deep - 1), self.number(deep - 1)
        forms = {
            **{op: f"({a} {op} {b})" for op in "+-*/"},
            "%": f"(k % {source.choice(['2', '3', '-4', 'k'])})",
            **{name: f"{name}({a})" for name in ("abs", "floor", "round", "sqrt", "ln", "exp")},
            "round to digits": f"round({a}, {source.choice([-2, 1, 2])})",
            "power": f"power({a}, {source.choice([b, '2', '-1', '0.5'])})",
            "least": f"least({a}, {b})",
            "greatest": f"greatest({a}, {b}, 1)",
            "coalesce": f"coalesce({a}, {b})",
            "case": f"case when {self.condition(deep - 1)} then {a} else {b} end",
            "length": f"length({self.text(deep - 1)})",
            "part of a date": f"{source.choice(['year', 'month', 'day', 'isodow'])}(d)",
            "cast": f"cast({self.text(deep - 1)} as double)",
            "truth": f"cast({self.condition(deep - 1)} as double)",
        }
        return source.choice([form for name, form in forms.items() if name not in self._without])

    def text(self, deep: int) -> str:
        source = self._source
        if deep == 0 or source.random() < 0.5:
            return source.choice(["s", "s", "s", f"'{source.choice(TEXTS)}'"])
        return source.choice(
            [f"lower({self.text(deep - 1)})", f"upper({self.text(deep - 1)})", "cast(k as text)"]
        )

    def condition(self, deep: int) -> str:
        source = self._source
        if deep == 0 or source.random() < 0.15:
            return source.choice(["b", "k > 0", "y < 1.5", "x is not null", "s = 'F'"])
        op = source.choice(["=", "<>", "<", "<=", ">", ">="])
        a, b = self.number(deep - 1), self.number(deep - 1)
        p, q = self.condition(deep - 1), self.condition(deep - 1)
        return source.choice(
            [
                f"{a} {op} {b}",
                f"x {op} {source.choice(NUMBERS)}",
                f"k {op} {source.choice(['0', '2', '-1', '2.5'])}",
                f"{self.text(deep - 1)} {op} {self.text(deep - 1)}",
                f"d {op} '{source.choice(DAYS)}'",
                f"d in ('{DAYS[0]}', '{DAYS[3]}')",
                "k in (1, 2, -3)",
                "y not in (0.1, 2.5)",
                "s in ('F', 'it''s')",
                f"{self.text(deep - 1)} like '{source.choice(PATTERNS)}'",
                f"{self.text(deep - 1)} not like '{source.choice(PATTERNS)}'",
                f"{a} between -1 and 2.5",
                f"({p}) and ({q})",
                f"({p}) or ({q})",
                f"not ({p})",
                f"{a} is null",
                "s is not null",
                f"cast({self.text(deep - 1)} as boolean)",
                "cast(k as boolean)",
            ]
        )
