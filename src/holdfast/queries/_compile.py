"""From a checked tree to an ibis expression that has a value or a null for every row, and never raises.

Numbers are 64-bit floats from the start. An operation that is undefined for some arguments gets a null
instead of those arguments, so nothing depends on the order in which a database evaluates a case. NaN counts
as null. It stays NaN in arithmetic, and becomes null where NaN and null would differ: in a comparison, a test
for null, or the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from holdfast import engines
from holdfast.engines import PLAIN, exact
from holdfast.queries._kinds import is_whole, kind_of, limits, moment_of, order_in
from holdfast.queries._nodes import (
    COMPARISONS,
    LARGEST_EXACT,
    PARTS,
    Call,
    ColumnNode,
    Literal,
    Node,
    Parameter,
    is_exact,
)

__all__ = ["Compiler"]

TRUE_TEXTS = ("1", "t", "true")
FALSE_TEXTS = ("0", "f", "false")


def _is_exact(node: Node) -> bool:
    return isinstance(node, Literal) and is_exact(node.value)


def _balanced(join: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Join many conditions as a balanced tree: a database limits how deep an expression may nest."""
    while len(parts) > 1:
        parts = [reduce(join, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _is_short(value: Any) -> bool:
    """Whether an expression is a column, a constant, or one of them as a float."""
    from ibis.expr import operations as ops

    node = value.op()
    while isinstance(node, ops.Cast):
        node = node.arg
    return isinstance(node, (ops.Field, ops.Literal))


class Compiler:
    """Compiles the expressions of one question against one ibis table.

    ``table`` is the table to select them from. It is the given one, or one that is derived from it where
    parts of an expression are computed in stages.
    """

    def __init__(self, table: Any, schema: engines.Schema) -> None:
        import ibis

        self._ibis = ibis
        self.table = table
        self._columns, self._dialect = schema.columns, schema.dialect
        self._null = ibis.null("float64")

    def _kept(self, value: Any) -> Any:
        """An argument that an operation may write several times: computed once, in a stage of its own."""
        if not self._dialect.repeats or _is_short(value):
            return value
        name = f"stage {len(self.table.columns)}"
        while name in self.table.columns:
            name += "_"
        self.table = self._dialect.stage(self.table.mutate(**{name: value}))
        return self.table[name]

    def _argument(self, node: Node) -> Any:
        return self._kept(self._compile(node))

    def _value_argument(self, node: Node) -> Any:
        return self._kept(self.value(node))

    def value(self, node: Node) -> Any:
        """The expression with every NaN turned into null."""
        compiled = self._compile(node)
        if self._dialect.keeps_nan and kind_of(node, self._columns) == "number" and self._may_be_nan(node):
            return compiled.nullif(exact(math.nan))
        return compiled

    def _operand(self, node: Node) -> Any:
        """A value that is compared or tested. Ibis writes no parentheses here, so a negation is put into a
        function."""
        value = self.value(node)
        negated = isinstance(node, Call) and node.op in ("not", "not in", "not like")
        return self._ibis.coalesce(value) if negated else value

    def _may_be_nan(self, node: Node) -> bool:
        """Whether the compiled node can be NaN (it is null for every argument that an operation is not
        defined for)."""
        if isinstance(node, ColumnNode):
            return self._columns[node.name].nan
        if isinstance(node, Literal) or node.op in ("least", "greatest", "length", "ln", "sqrt", "power"):
            return False
        if node.op in PARTS:
            return False
        if node.op in ("as number", "as whole") and kind_of(node.args[0], self._columns) != "number":
            return False
        if node.op in ("+", "-", "*", "/", "%") and self._makes_nan(node):
            return True
        return any(self._may_be_nan(arg) for arg in node.args if kind_of(arg, self._columns) == "number")

    def _makes_nan(self, node: Call) -> bool:
        """Whether infinities can meet in a way that has no value: ∞ - ∞, 0 · ∞, ∞ / ∞, ∞ % y."""
        (low, high), (other_low, other_high) = (limits(arg, self._columns) for arg in node.args)
        first, second = math.isinf(low) or math.isinf(high), math.isinf(other_low) or math.isinf(other_high)
        if node.op == "%":
            return first
        if node.op == "*":
            return (first and other_low <= 0 <= other_high) or (second and low <= 0 <= high)
        return first and second

    def _compile(self, node: Node) -> Any:
        if isinstance(node, ColumnNode):
            return self._column(node.name)
        if isinstance(node, Literal):
            return self._literal(node)
        op, args = node.op, node.args
        if op in COMPARISONS:
            order = None if op in ("=", "<>") else order_in(node, self._columns)
            return self._comparison(op, args) if order is None else self._in_order(op, args, order)
        if op in ("in", "not in"):
            return self._membership(op, args)
        if op in ("like", "not like"):
            return self._like(op, *args)
        if op in PARTS:
            return self._dialect.part(op, self._kept(self._moment(args[0])))
        if op in ("and", "or"):
            join = (lambda a, b: a & b) if op == "and" else (lambda a, b: a | b)
            return _balanced(join, [self._compile(arg) for arg in args])
        if op in _ARITHMETIC:
            return self._arithmetic(node)
        return _METHODS[op](self, *args)

    def _arithmetic(self, node: Call) -> Any:
        plain = self._dialect if self._may_leave_the_range(node) else PLAIN
        return _ARITHMETIC[node.op](plain, *(self._argument(arg) for arg in node.args))

    def _may_leave_the_range(self, node: Call) -> bool:
        """Whether a float may become infinite or zero, for a database that raises in that case."""
        if not self._dialect.repeats or node.op in ("negate", "abs"):
            return False
        if node.op in ("+", "-", "*") and all(is_whole(arg, self._columns) for arg in node.args):
            return not all(map(math.isfinite, limits(node, self._columns)))
        return True

    def _column(self, name: str) -> Any:
        column = self.table[name]
        described = self._columns[name]
        if described.kind == "number" and described.storage != "float64":
            return column.cast("float64")
        return column

    def _literal(self, literal: Literal) -> Any:
        if isinstance(literal, Parameter):
            return engines.number(engines.parameter_name(literal.place))
        if isinstance(literal.value, float):
            return exact(literal.value)
        return self._ibis.literal(literal.value)

    def _comparison(self, op: str, args: tuple[Node, ...]) -> Any:
        compare = COMPARISONS[op]
        if any(kind_of(arg, self._columns) == "date" for arg in args):
            return compare(*(self._moment(arg) for arg in args))
        left, right = args
        if self._stays_whole(left, (right,)):
            return compare(self._whole(left), self._whole(right))
        if op not in ("=", "<>") and kind_of(left, self._columns) == "text":
            return self._dialect.compare_texts(compare, self._compile(left), self._compile(right))
        return compare(self._operand(left), self._operand(right))

    def _in_order(self, op: str, args: tuple[Node, ...], order: tuple[str, ...]) -> Any:
        """The comparison of a column of ordered categories with one of them: whether its value is one of the
        categories on that side."""
        left, right = args
        column, literal = (left, right) if isinstance(left, ColumnNode) else (right, left)
        assert isinstance(column, ColumnNode)
        assert isinstance(literal, Literal)
        place, compare = order.index(str(literal.value)), COMPARISONS[op]
        chosen = [
            category
            for rank, category in enumerate(order)
            if (compare(rank, place) if column is left else compare(place, rank))
        ]
        value = self.table[column.name]
        return value.isin(chosen) if chosen else value != value

    def _membership(self, op: str, args: tuple[Node, ...]) -> Any:
        subject, listed = args[0], args[1:]
        if kind_of(subject, self._columns) == "date":
            member = self._moment(subject).isin([self._moment(arg) for arg in listed])
        elif self._stays_whole(subject, listed):
            member = self._whole(subject).isin([self._whole(arg) for arg in listed])
        else:
            member = self.value(subject).isin([self._compile(arg) for arg in listed])
        return member if op == "in" else ~member

    def _like(self, op: str, value: Node, pattern: Node) -> Any:
        assert isinstance(pattern, Literal)
        fits = self._dialect.like(self._compile(value), str(pattern.value))
        return fits if op == "like" else ~fits

    def _stays_whole(self, subject: Node, others: tuple[Node, ...]) -> bool:
        """Whether integers may be compared as integers, which lets a database skip blocks of rows.

        Against a whole number below 2^53 in absolute value the comparison says the same as with floats,
        whatever the column holds; so it does between columns of at most 32 bits.
        """
        if not (isinstance(subject, ColumnNode) and self._columns[subject.name].whole):
            return False
        narrow = self._is_narrow(subject)
        return all(_is_exact(other) or (narrow and self._is_narrow(other)) for other in others)

    def _is_narrow(self, node: Node) -> bool:
        column = self._columns[node.name] if isinstance(node, ColumnNode) else None
        return column is not None and column.whole and column.limits[1] < LARGEST_EXACT

    def _whole(self, node: Node) -> Any:
        if isinstance(node, Parameter):
            return engines.number(engines.parameter_name(node.place), whole=True)
        if isinstance(node, Literal) and isinstance(node.value, float):
            return self._ibis.literal(int(node.value))
        return self.table[node.name] if isinstance(node, ColumnNode) else self._compile(node)

    def _moment(self, node: Node) -> Any:
        if isinstance(node, Literal):
            return self._dialect.constant_moment(moment_of(str(node.value)))
        assert isinstance(node, ColumnNode)
        return self._dialect.moment(self.table[node.name], self._columns[node.name].storage)

    def _not(self, arg: Node) -> Any:
        return ~self._compile(arg)

    def _is_null(self, arg: Node) -> Any:
        return self._operand(arg).isnull()

    def _is_not_null(self, arg: Node) -> Any:
        return self._operand(arg).notnull()

    def _case(self, *args: Node) -> Any:
        pairs = [(self._compile(args[i]), self._branch(args[i + 1])) for i in range(0, len(args) - 1, 2)]
        other = self._branch(args[-1]) if len(args) % 2 else None
        return self._ibis.cases(*pairs, else_=other)

    def _branch(self, node: Node) -> Any:
        return None if node == Literal("null", None) else self._compile(node)

    def _coalesce(self, *args: Node) -> Any:
        return self._ibis.coalesce(*(self.value(arg) for arg in args))

    def _least(self, *args: Node) -> Any:
        return self._extreme(self._ibis.least, args)

    def _greatest(self, *args: Node) -> Any:
        return self._extreme(self._ibis.greatest, args)

    def _extreme(self, choose: Callable[..., Any], args: tuple[Node, ...]) -> Any:
        """The least or greatest argument; null if any argument is null. Some databases skip nulls here, and
        would ignore what the question says about them."""
        values = [self._value_argument(arg) for arg in args]
        missing = [
            value.isnull() for value, arg in zip(values, args, strict=True) if not isinstance(arg, Literal)
        ]
        chosen = choose(*values)
        return _balanced(lambda a, b: a | b, missing).ifelse(self._null, chosen) if missing else chosen

    def _floor(self, arg: Node) -> Any:
        return self._dialect.floor(self._argument(arg))

    def _round(self, arg: Node) -> Any:
        return self._dialect.round(self._argument(arg))

    def _defined(self, condition: Any, value: Any) -> Any:
        return condition.ifelse(value, self._null)

    def _ln(self, arg: Node) -> Any:
        value = self._value_argument(arg)
        return self._dialect.ln(self._defined(value > 0, value))

    def _sqrt(self, arg: Node) -> Any:
        value = self._value_argument(arg)
        return self._defined(value >= 0, value).sqrt()

    def _divisor(self, arg: Node) -> Any:
        value = self._compile(arg)
        constant = isinstance(arg, Literal) and arg.value != 0
        return value if constant else self._kept(value.nullif(exact(0.0)))

    def _divide(self, left: Node, right: Node) -> Any:
        return self._dialect.divide(self._argument(left), self._divisor(right))

    def _remainder(self, left: Node, right: Node) -> Any:
        return self._dialect.remainder(self._argument(left), self._divisor(right))

    def _power(self, base: Node, exponent: Node) -> Any:
        # NaN is taken out first: to the power 0 it would be 1.
        low, high = self._value_argument(base), self._value_argument(exponent)
        if (
            isinstance(exponent, Literal)
            and isinstance(exponent.value, float)
            and exponent.value.is_integer()
        ):
            defined_low = low if exponent.value >= 0 else self._kept(low.nullif(exact(0.0)))
            return self._dialect.power(defined_low, high)
        whole = self._dialect.floor(high) == high
        defined = (low > 0) | ((low == 0) & (high >= 0)) | ((low < 0) & whole)
        return self._dialect.power(self._kept(self._defined(defined, low)), high)

    def _length(self, arg: Node) -> Any:
        return self._compile(arg).length().cast("float64")

    def _lower(self, arg: Node) -> Any:
        return self._dialect.lower(self._argument(arg))

    def _upper(self, arg: Node) -> Any:
        return self._dialect.upper(self._argument(arg))

    def _as_number(self, arg: Node) -> Any:
        value = self._compile(arg)
        kind = kind_of(arg, self._columns)
        if kind == "text":
            return self._dialect.number_in(self._kept(value))
        return self._dialect.as_number(self._kept(value)) if kind == "boolean" else value

    def _as_text(self, arg: Node) -> Any:
        kind = kind_of(arg, self._columns)
        if kind == "text":
            return self._compile(arg)
        if kind == "boolean":
            value = self._argument(arg)
            return self._ibis.cases((value, "true"), (~value, "false"))
        assert isinstance(arg, ColumnNode)
        return self.table[arg.name].cast("string")

    def _as_boolean(self, arg: Node) -> Any:
        kind = kind_of(arg, self._columns)
        if kind == "boolean":
            return self._compile(arg)
        if kind == "number":
            return self.value(arg) != 0
        value = self._kept(self._dialect.lower(self._argument(arg)))
        return self._ibis.cases((value.isin(TRUE_TEXTS), True), (value.isin(FALSE_TEXTS), False))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": lambda dialect, a, b: dialect.add(a, b),
    "-": lambda dialect, a, b: dialect.subtract(a, b),
    "*": lambda dialect, a, b: dialect.multiply(a, b),
    "negate": lambda dialect, a: -a,
    "abs": lambda dialect, a: a.abs(),
    "exp": lambda dialect, a: dialect.exp(a),
}
_METHODS: dict[str, Callable[..., Any]] = {
    "not": Compiler._not,
    "is null": Compiler._is_null,
    "is not null": Compiler._is_not_null,
    "case": Compiler._case,
    "coalesce": Compiler._coalesce,
    "least": Compiler._least,
    "greatest": Compiler._greatest,
    "floor": Compiler._floor,
    "round": Compiler._round,
    "ln": Compiler._ln,
    "sqrt": Compiler._sqrt,
    "/": Compiler._divide,
    "%": Compiler._remainder,
    "power": Compiler._power,
    "length": Compiler._length,
    "lower": Compiler._lower,
    "upper": Compiler._upper,
    "as number": Compiler._as_number,
    "as whole": Compiler._as_number,
    "as text": Compiler._as_text,
    "as boolean": Compiler._as_boolean,
}
