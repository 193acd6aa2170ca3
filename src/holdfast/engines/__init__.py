"""Where rows live: tables opened through ibis, DuckDB underneath by default.

A table's schema and row count are public. Everything else about protected rows is read by one aggregate a
question, exactly: sums of whole numbers and order statistics, the same on every run.

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from holdfast.engines._database import number as number
from holdfast.engines._database import parameter_name as parameter_name
from holdfast.engines._dialect import REMAINDER as REMAINDER
from holdfast.engines._dialect import Dialect as Dialect
from holdfast.engines._dialect import exact as exact
from holdfast.engines._dialect import load_sql as load_sql
from holdfast.engines._open import is_database as is_database
from holdfast.engines._open import open_rows
from holdfast.engines._open import shown as shown
from holdfast.engines._rows import Rows, require_unsealed, unsealed
from holdfast.engines._schema import PLAIN as PLAIN
from holdfast.engines._schema import Column, Schema
from holdfast.engines._sums import SCALE_BITS, EngineQuery, Sums, sums_of_all

__all__ = [
    "SCALE_BITS",
    "Column",
    "EngineQuery",
    "Rows",
    "Schema",
    "Sums",
    "open_rows",
    "require_unsealed",
    "sums_of_all",
    "unsealed",
]
