"""Rows for the benchmark of scale: five columns made from the row's number alone, streamed to their place."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb

TRAINING = 20_000
PART = 10**7
_DRAW = "hash(i + {salt} * 1000000007::BIGINT) % 1000003 / 1000003::DOUBLE"
_ROWS = f"""SELECT
    (18 + hash(i) % 72)::SMALLINT AS age,
    (hash(i + 1000000007) % 20)::SMALLINT AS region,
    40000 + 24000 * ({" + ".join(_DRAW.format(salt=salt) for salt in (2, 3, 4))} - 1.5) AS income,
    {_DRAW.format(salt=5)} AS score,
    hash(i + 6000000042) % 2 = 0 AS treated
FROM range({{first}}, {{last}}) AS numbers(i)"""


def select(first: int, last: int) -> str:
    """SQL for the rows with these numbers: every number's row is a fresh draw of the same law."""
    return _ROWS.format(first=first, last=last)


def write(folder: Path, rows: int) -> str:
    """Parquet files of at most ten million rows each; the pattern that names them all."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(config={"memory_limit": "1GB"})
    for part, first in enumerate(range(0, rows, PART)):
        last = min(rows, first + PART)
        target = folder / f"part-{part:03}.parquet"
        connection.execute(f"COPY ({select(first, last)}) TO '{target}' (FORMAT parquet)")
    return str(folder / "*.parquet")


def training(rows: int) -> Any:
    """Other rows of the same law, for the analyst to look at: those after the first ``rows``."""
    return duckdb.sql(select(rows, rows + TRAINING)).to_arrow_table()


def fill_postgres(connection: Any, name: str, rows: int) -> None:
    """A table of these rows, vacuumed and analysed, as a server keeps one."""
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(
        f"CREATE TABLE {name} (age smallint NOT NULL, region smallint NOT NULL, "
        "income double precision, score double precision, treated boolean)"
    )
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
        for first in range(0, rows, 10**5):
            text = io.StringIO()
            chunk = duckdb.sql(select(first, min(rows, first + 10**5))).df()
            chunk.to_csv(text, header=False, index=False)
            copy.write(text.getvalue())
    connection.execute(f"VACUUM ANALYZE {name}")
