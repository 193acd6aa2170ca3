"""What may be asked: a question is a frozen record over SQL expressions of one row, read against a whitelist.

A question is checked against a schema and compiled without touching data; whatever is refused is refused on
public facts alone, and what is compiled has a value or a null for every row and never raises.
"""

from holdfast.queries._checked import CheckedQuery
from holdfast.queries._expression import Expression
from holdfast.queries._line import read
from holdfast.queries._query import Query, mean, quantile, share

__all__ = ["CheckedQuery", "Expression", "Query", "mean", "quantile", "read", "share"]
