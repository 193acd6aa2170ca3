"""What may be asked: a question is a frozen record over SQL expressions of one row, read against a whitelist.

A question is checked against a schema and compiled without reading data. Only public facts decide whether it
is refused. A compiled question has a value or a null for every row and never raises.

- Numbers are 64-bit floats, integers beyond 2^53 included. NaN counts as null.
- An operation without a result (1 / 0, ln(0), sqrt(-1), ∞ - ∞, a text that is no number) is null; a null
  argument makes the result null, also in ``least`` and ``greatest``; ``and`` and ``or`` follow SQL.
- In a filter a null does not pass. Elsewhere the question says what it counts as (:class:`Query`).
- Names of columns are case-sensitive.
"""

from holdfast.queries._expression import Expression
from holdfast.queries._line import FORMS, read
from holdfast.queries._nodes import quoted_name, quoted_value
from holdfast.queries._query import KINDS, CheckedQuery, Query, limits
from holdfast.queries._verbs import (
    cdf,
    correlation,
    covariance,
    difference,
    histogram,
    lift,
    mean,
    median,
    quantile,
    ratio,
    share,
    slope,
    std,
    unbounded,
    variance,
)

__all__ = [
    "FORMS",
    "KINDS",
    "CheckedQuery",
    "Expression",
    "Query",
    "cdf",
    "correlation",
    "covariance",
    "difference",
    "histogram",
    "lift",
    "limits",
    "mean",
    "median",
    "quantile",
    "quoted_name",
    "quoted_value",
    "ratio",
    "read",
    "share",
    "slope",
    "std",
    "unbounded",
    "variance",
]
