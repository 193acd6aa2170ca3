"""An oracle for expressions: random SQL text, and next to it a plain Python function of one row that says
what it means.

Nothing here uses the reader, the canonical form or the compiler: the text is what a person might type (with
needless parentheses, either spelling of an operator, any case), the meaning is computed row by row with
``math``. None stands for null, and a NaN becomes None as soon as it arises.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Meaning = Callable[[Row], Any]
Pair = tuple[str, Meaning]

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 1e-300, 5e-324, 1e16, -1e308, 1.7e308, 0.1, 40.0, 1e5]
WHOLES = [0, 1, -1, 2, 7, 40, 255, 2**31, 2**53 + 1, -(2**63), 2**63 - 1]
TEXTS = [
    "",
    "a",
    "A",
    "b'c",
    "é",
    "12",
    " 12 ",
    "-1.5e3",
    "1e999",
    "1_000",
    "nan",
    "inf",
    "0x1",
    ".5",
    "5.",
    "true",
    "F",
]
LITERALS = [
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "1e3",
    "1000.0",
    "40",
    "-2.5",
    "1e-5",
    "3",
    "123456789.123",
    "1e300",
    ".25",
]


def rows(source: random.Random, count: int) -> list[Row]:
    """Rows with nulls, NaN, infinities, zeros, huge and tiny values, extreme integers and awkward texts."""
    special = [None, None, math.nan, math.inf, -math.inf, *FLOATS]
    return [
        {
            "x": source.choice([*special, source.gauss(0, 10)]),
            "y": source.choice([*special, source.gauss(0, 10)]),
            "z": source.gauss(0, 3),
            "i": source.choice([None, *WHOLES]),
            "k": source.randrange(-128, 128),
            "b": source.choice([None, True, False]),
            "s": source.choice([None, *TEXTS]),
            "t": source.choice(TEXTS),
        }
        for _ in range(count)
    ]


def clean(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value + 0.0


MADE_NAN = [0]
"""How many times arithmetic on infinities had no value; the one way to a null that no schema announces."""


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Null in, null out; NaN out, null out."""

    def applied(*values: Any) -> Any:
        if any(value is None for value in values):
            return None
        result = function(*values)
        if isinstance(result, float) and math.isnan(result):
            MADE_NAN[0] += 1
        return clean(result) if isinstance(result, float) else result

    return applied


def divide(a: float, b: float) -> float | None:
    return None if b == 0 else a / b


def multiply(a: float, b: float) -> float:
    return a * b


def remainder(a: float, b: float) -> float | None:
    return None if b == 0 else math.nan if math.isinf(a) else math.fmod(a, b)


def power(a: float, b: float) -> float | None:
    if (a == 0 and b < 0) or (a < 0 and not (math.isinf(b) or b == math.floor(b))):
        return None
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf


def exponential(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def logarithm(a: float) -> float | None:
    return None if a <= 0 else math.log(a)


def root(a: float) -> float | None:
    return None if a < 0 else math.sqrt(a)


def whole_part(a: float) -> float:
    return float(math.floor(a)) if math.isfinite(a) else a


def nearest(a: float) -> float:
    """Half away from zero."""
    if not math.isfinite(a) or abs(a) >= 2.0**52:
        return a
    size = math.floor(abs(a))
    return math.copysign(size + (abs(a) - size >= 0.5), a)


def number_in(text: str) -> float | None:
    """What a text reads as; digits, one point, one exponent of at most three digits, blanks around."""
    import re

    if not re.fullmatch(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?[ \t]*", text, re.ASCII):
        return None
    return float(text)


def truth_in(text: str) -> bool | None:
    return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(text.lower())


def conjunction(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def disjunction(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


COMPARE = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Writer:
    """Draws expressions of a wanted kind; every choice comes from one seeded source."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)

    def spelled(self, text: str) -> str:
        """The same text as somebody else would type it."""
        word = self.source.choice([str.lower, str.upper, str.title])(text)
        return word

    def wrapped(self, pair: Pair) -> Pair:
        text, meaning = pair
        return f"({text})", meaning

    def number(self, deep: int) -> Pair:
        source = self.source
        if deep <= 0 or source.random() < 0.15:
            if source.random() < 0.35:
                literal = source.choice(LITERALS)
                value = float(literal)
                return literal if value >= 0 else f"({literal})", lambda row: value
            name = source.choice("xyzik")
            return name, lambda row: None if row[name] is None else clean(float(row[name]))
        return source.choice(
            [
                self._arithmetic,
                self._arithmetic,
                self._function,
                self._extreme,
                self._case,
                self._coalesce,
                self._cast,
            ]
        )(deep - 1)

    def _arithmetic(self, deep: int) -> Pair:
        op = self.source.choice(["+", "-", "*", "/", "%", "neg", "+", "*"])
        (a, f), (b, g) = self.number(deep), self.number(deep)
        if op == "neg":
            return f"(-{a})" if not a.startswith("-") else f"(-({a}))", lambda row: strict(lambda v: -v)(
                f(row)
            )
        apply = strict(
            {"+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": multiply, "/": divide, "%": remainder}[op]
        )
        return f"({a} {op} {b})", lambda row: apply(f(row), g(row))

    def _function(self, deep: int) -> Pair:
        names: dict[str, Callable[..., Any]] = {
            "abs": abs,
            "floor": whole_part,
            "round": nearest,
            "ln": logarithm,
            "exp": exponential,
            "sqrt": root,
            "power": power,
            "length": lambda text: float(len(text)),
        }
        name = self.source.choice(list(names))
        apply = strict(names[name])
        if name == "length":
            a, f = self.text(deep)
        else:
            a, f = self.number(deep)
        if name == "power":
            b, g = self.number(deep)
            return f"{self.spelled(name)}({a}, {b})", lambda row: apply(f(row), g(row))
        return f"{self.spelled(name)}({a})", lambda row: apply(f(row))

    def _extreme(self, deep: int) -> Pair:
        name, choose = self.source.choice([("least", min), ("greatest", max)])
        parts = [self.number(deep) for _ in range(self.source.choice([2, 2, 3]))]
        text = f"{self.spelled(name)}({', '.join(part for part, _ in parts)})"
        return text, lambda row: strict(choose)(*(f(row) for _, f in parts))

    def _case(self, deep: int) -> Pair:
        branches = [(self.condition(deep), self.number(deep)) for _ in range(self.source.choice([1, 1, 2]))]
        other = self.number(deep) if self.source.random() < 0.7 else None
        middle = " ".join(f"when {c} then {v}" for (c, _), (v, _) in branches)
        text = f"case {middle}{f' else {other[0]}' if other else ''} end"

        def meaning(row: Row) -> Any:
            for (_, condition), (_, value) in branches:
                if condition(row) is True:
                    return value(row)
            return other[1](row) if other else None

        return text, meaning

    def _coalesce(self, deep: int) -> Pair:
        (a, f), (b, g) = self.number(deep), self.number(deep)

        def meaning(row: Row) -> Any:
            first = f(row)
            return g(row) if first is None else first

        return f"coalesce({a}, {b})", meaning

    def _cast(self, deep: int) -> Pair:
        if self.source.random() < 0.5:
            a, f = self.text(deep)
            return f"cast({a} as double)", lambda row: strict(number_in)(f(row))
        a, f = self.condition(deep)
        return f"cast({a} as double)", lambda row: strict(float)(f(row))

    def text(self, deep: int) -> Pair:
        source = self.source
        if deep <= 0 or source.random() < 0.5:
            if source.random() < 0.3:
                value = source.choice(TEXTS)
                quoted = value.replace("'", "''")
                return f"'{quoted}'", lambda row: value
            name = source.choice("st")
            return name, lambda row: row[name]
        name = source.choice(["lower", "upper", "whole"])
        if name == "whole":
            return "cast(k as text)", lambda row: str(row["k"])
        a, f = self.text(deep - 1)
        return f"{name}({a})", lambda row: strict(getattr(str, name))(f(row))

    def condition(self, deep: int) -> Pair:
        source = self.source
        if deep <= 0 or source.random() < 0.1:
            return source.choice(
                [("b", lambda row: row["b"]), ("true", lambda row: True), ("b = false", self._not_b)]
            )
        return source.choice(
            [
                *(
                    self._comparison,
                    self._comparison,
                    self._connected,
                    self._connected,
                    self._not,
                    self._null_test,
                ),
                *(self._between, self._in, self._text_comparison, self._truth_cast, self._same_truth),
            ]
        )(deep - 1)

    @staticmethod
    def _not_b(row: Row) -> bool | None:
        return None if row["b"] is None else not row["b"]

    def _comparison(self, deep: int) -> Pair:
        op = self.source.choice(list(COMPARE))
        (a, f), (b, g) = self.number(deep), self.number(deep)
        return f"{a} {op} {b}", lambda row: strict(COMPARE[op])(f(row), g(row))

    def _same_truth(self, deep: int) -> Pair:
        op = self.source.choice(["=", "<>"])
        (a, f), (b, g) = self.condition(deep), self.condition(deep)
        return f"({a}) {op} ({b})", lambda row: strict(COMPARE[op])(f(row), g(row))

    def _text_comparison(self, deep: int) -> Pair:
        op = self.source.choice(list(COMPARE))
        (a, f), (b, g) = self.text(deep), self.text(deep)
        return f"{a} {op} {b}", lambda row: strict(COMPARE[op])(f(row), g(row))

    def _connected(self, deep: int) -> Pair:
        word, join = self.source.choice([("and", conjunction), ("or", disjunction)])
        parts = [self.wrapped(self.condition(deep)) for _ in range(self.source.choice([2, 2, 3]))]
        return f" {self.spelled(word)} ".join(text for text, _ in parts), lambda row: join(
            *(f(row) for _, f in parts)
        )

    def _not(self, deep: int) -> Pair:
        a, f = self.condition(deep)
        return f"{self.spelled('not')} ({a})", lambda row: strict(lambda v: not v)(f(row))

    def _null_test(self, deep: int) -> Pair:
        a, f = self.number(deep) if self.source.random() < 0.6 else self.wrapped(self.condition(deep))
        if self.source.random() < 0.5:
            return f"{a} is null", lambda row: f(row) is None
        return f"{a} IS NOT NULL", lambda row: f(row) is not None

    def _between(self, deep: int) -> Pair:
        (a, f), (b, g), (c, h) = self.number(deep), self.number(deep), self.number(deep)
        at_least, at_most = strict(COMPARE[">="]), strict(COMPARE["<="])

        def meaning(row: Row) -> bool | None:
            return conjunction(at_least(f(row), g(row)), at_most(f(row), h(row)))

        if self.source.random() < 0.3:
            return f"{a} not between {b} and {c}", lambda row: strict(lambda v: not v)(meaning(row))
        return f"{a} between {b} and {c}", meaning

    def _in(self, deep: int) -> Pair:
        listed = self.source.sample(LITERALS, self.source.choice([1, 2, 4]))
        values = [float(literal) for literal in listed]
        a, f = self.number(deep)
        negated = self.source.random() < 0.4
        text = f"{a} {'not ' if negated else ''}in ({', '.join(listed)})"
        return text, lambda row: strict(lambda v: (v in values) != negated)(f(row))

    def _truth_cast(self, deep: int) -> Pair:
        if self.source.random() < 0.5:
            a, f = self.text(deep)
            return f"cast({a} as boolean)", lambda row: strict(truth_in)(f(row))
        a, f = self.number(deep)
        return f"cast({a} as boolean)", lambda row: strict(lambda v: v != 0)(f(row))
