"""Shared fixtures: every random test takes its seed from here, and any seed from 0 to 99 must pass."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import settings

# The contracts are no test files themselves; here, so that no test file imports one first.
pytest.register_assert_rewrite("contracts.engine")

# Books and databases wait for the disk at every write; in memory that is no wait. Programs that tests start
# take their folder from here as well.
_MEMORY = "/dev/shm"
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2**31:
    os.environ["TMPDIR"] = _MEMORY
    tempfile.tempdir = None  # Looked up again.

settings.register_profile("holdfast", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("quick", settings.get_profile("holdfast"), max_examples=15)
settings.load_profile("holdfast")


def pytest_configure(config: pytest.Config) -> None:
    """The quick part of the suite tries fewer examples of everything, and the whole suite all of them."""
    if "not slow" in config.option.markexpr:
        settings.load_profile("quick")


# What ``make test`` leaves to ``make test-more``: tests that start other programs, run whole scripts or
# pages, or simulate at length.
_PROGRAMS = frozenset({"spark", "to_spark", "postgres", "postgres_connection", "to_postgres", "browser"})
_FOLDERS = frozenset(
    {"audit", "barriers", "benchmarks", "cli", "deploy", "engines", "examples", "lab"}
    | {"noninterference", "planning", "reductions", "server", "statistics", "validity"}
)
_FILES = frozenset(f"test_house_{name}" for name in ("documents", "notebooks", "site", "types", "workers"))
_FILES |= {"test_answers_notebook_look"}


def _is_more(path: Path) -> bool:
    """Whether all tests of a file are for ``make test-more``."""
    return path.relative_to(Path(__file__).parent).parts[0] in _FOLDERS or path.stem in _FILES


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what ``make test`` leaves out: every worker would do so."""
    leave_out = "not more" in config.option.markexpr and collection_path.suffix == ".py"
    return True if leave_out and _is_more(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of ``make test-more``."""
    for item in items:
        programs = _PROGRAMS & set(getattr(item, "fixturenames", ()))
        # A book can be kept in PostgreSQL too, and that is a program.
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if _is_more(item.path) or programs or parameters.get("place") == "postgres":
            item.add_marker(pytest.mark.more)


@pytest.fixture
def seed() -> int:
    """The seed of this run, 0 unless ``HOLDFAST_SEED`` says otherwise."""
    value = int(os.environ.get("HOLDFAST_SEED", "0"))
    if not 0 <= value <= 99:
        raise ValueError(f"HOLDFAST_SEED must be in 0..99, got {value}")
    return value


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator seeded by :func:`seed`."""
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server of our own.

    Not in pytest's folder: as root the server runs as another user, and the next run of pytest takes that
    user's permission for the folder away.
    """
    pgserver = pytest.importorskip("pgserver")
    with pytest.MonkeyPatch.context() as environment, tempfile.TemporaryDirectory() as folder:
        environment.setenv("XDG_RUNTIME_DIR", folder)
        server = pgserver.get_server(Path(folder) / "server")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_connection(postgres):
    """An ibis connection to this server."""
    import ibis

    connection = ibis.connect(postgres)
    yield connection
    connection.disconnect()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a fresh book is kept."""
    if request.param == "sqlite":
        return str(tmp_path / "table.csv.holdfast")
    url = request.getfixturevalue("postgres")
    return f"{url}{'&' if urlsplit(url).query else '?'}holdfast_book={secrets.token_hex(8)}"
