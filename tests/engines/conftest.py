"""Databases to put rows into: PostgreSQL through ``postgres``, and Spark in this process."""

from __future__ import annotations

import itertools
import shutil
import warnings
from pathlib import Path

import ibis
import pyarrow as pa
import pytest

# What ibis and pyspark say to the libraries they are built on, and what pyspark leaves open until it is
# collected.
QUIET = (
    "ignore:fetch_arrow_table:DeprecationWarning",
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
    "ignore:unclosed <socket:ResourceWarning",
)
NAMES = (f"rows_{number}" for number in itertools.count())


def pytest_collection_modifyitems(items):
    """Only the tests beside this file are spared these warnings."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for warning in QUIET:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def to_postgres(postgres_connection):
    """Puts an arrow table into PostgreSQL, row by row, and returns the ibis table."""
    kinds = {
        **{pa.float64(): "double precision", pa.float32(): "real", pa.int64(): "bigint"},
        **{pa.int32(): "integer", pa.int16(): "smallint", pa.bool_(): "boolean", pa.string(): "text"},
        **{pa.date32(): "date", pa.timestamp("us"): "timestamp"},
    }

    def put(table, name=None, **overridden):
        name = name or next(NAMES)
        columns = ", ".join(
            f'"{field.name}" {overridden.get(field.name, kinds.get(field.type))}' for field in table.schema
        )
        connection = postgres_connection.con
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        with connection.cursor() as cursor, cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
        return postgres_connection.table(name)

    return put


@pytest.fixture(scope="session")
def spark():
    """A Spark session of one process, as an ibis connection; skipped without pyspark or Java."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        settings = {
            **{"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
            **{"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1"},
            **{"spark.sql.session.timeZone": "UTC", "spark.driver.host": "127.0.0.1"},
            # Compiled quickly rather than well: no test runs long enough to gain from more.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield ibis.pyspark.connect(session)
        session.stop()


@pytest.fixture(scope="session")
def to_spark(spark):
    """Puts an arrow table into Spark, in two parts that keep its order, and returns the ibis table."""
    from pyspark.sql import types

    kinds = {
        **{pa.float64(): types.DoubleType(), pa.float32(): types.FloatType(), pa.int64(): types.LongType()},
        **{pa.int32(): types.IntegerType(), pa.int16(): types.ShortType(), pa.bool_(): types.BooleanType()},
        **{pa.string(): types.StringType(), pa.date32(): types.DateType()},
        pa.timestamp("us"): types.TimestampNTZType(),
    }

    def put(table, name=None):
        name = name or next(NAMES)
        schema = types.StructType([types.StructField(f.name, kinds[f.type]) for f in table.schema])
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        frame = spark._session.sparkContext.parallelize(rows, 2).toDF(schema)
        frame.cache().createOrReplaceTempView(name)
        return spark.table(name)

    return put
