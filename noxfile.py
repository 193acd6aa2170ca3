"""The core on every Python that is on this machine: ``nox`` runs those that it finds and skips the others."""

from __future__ import annotations

import nox

nox.options.error_on_missing_interpreters = False

# Rooms whose tests need neither a service nor a database server nor Spark.
CORE = ("tails", "intervals", "mechanisms", "coding", "statistics", "queries", "engines/test_engines_open.py")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "mpmath", "polars")


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def core(session: nox.Session) -> None:
    """The demo and the tests of the core, with the newest packages that pyproject.toml allows."""
    session.install("--editable", ".[plots]", *TOOLS)
    session.run("python", "-m", "holdfast", "demo", "--no-open", "--out", session.create_tmp())
    session.run("pytest", "-n", "2", "-m", "not slow", *(f"tests/{room}" for room in CORE), *session.posargs)
