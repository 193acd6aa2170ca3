"""Databases: one SQL statement at a time, within a time limit.

A statement is a tree of SQL. It is compiled once and run with other numbers each time, because a person who
looks for a threshold asks with one number after the other. The statement has a named place for each such
number. DuckDB gets the numbers beside the statement, which it parses once. Other databases get them as
constants of the tree. Each constant is written so that the database reads exactly this number.

The time limit does not count the time of the clock. A clock also runs while the process is stopped, while
other statements use its cores, and while the machine is busy with something else. A question that is refused
is still paid for, so a busy machine must not cause that. So time is counted in short steps, and of each step
only the part counts that the process could really use.

Trees of SQL and expressions are of type Any: sqlglot and ibis are imported on first use, and type checks of
this repository leave them out.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from holdfast.engines._dialect import Dialect, builtin
from holdfast.engines._schema import PLAIN, Schema
from holdfast.errors import QueryRejected

__all__ = [
    "VALUES",
    "Database",
    "Deadline",
    "DuckDB",
    "Statement",
    "as_query",
    "in_place_of",
    "number",
    "parameter_name",
    "renamed",
    "written",
]


_MARKER = "holdfast_number"

VALUES = "@values"
"""The table that stands for the question's own values in the statement around them."""

# A statement that was interrupted is interrupted again after this many seconds, until it ends.
_AGAIN = 0.05
# A step is this share of the limit, within these limits in seconds.
_SHARE_OF_LIMIT = 0.1
_SHORTEST, _LONGEST = 0.01, 0.25
# If a step took longer than this many steps, the process was paused: only this many are counted.
_MOST_STEPS = 2.0
# A statement that waits for a disk, or for a core, uses little of a step. It still counts for this much, so
# that every statement ends: after four times its limit at most, pauses aside.
_LEAST = 0.25
# The limits whose statements run in this process now.
_running: set[int] = set()
_Result = TypeVar("_Result")
_MOST_PREPARED = 1_000
# Statements compiled by our own databases. All use the same SQL, so a new one need not compile them again.
_TREES: dict[Hashable, Any] = {}
# Only these optimizers are on: they reduce the work for each row. The others compare ways to read.
_OPTIMIZERS_FOR_FEW = ("expression_rewriter", "common_subexpressions", "unused_columns", "column_lifetime")
# The database of ``DuckDB.shared``, by process: a forked process lacks the threads of its parent's database.
_SHARED: dict[int, Any] = {}


def number(name: str, *, whole: bool = False) -> Any:
    """The place of a number that a statement gets when it runs: a whole number as it is, others as double."""
    import ibis

    if whole:
        return builtin(_MARKER, "string", gives="int64")(ibis.literal(name))
    return builtin(_MARKER, "string", gives="string")(ibis.literal(name)).cast("float64")


def parameter_name(place: int, mark: str = "") -> str:
    """The name of the ``place``-th number that a question compares columns with. ``mark`` distinguishes
    several questions of one statement."""
    return f"n{place}_{mark}"


class Statement:
    """A tree of SQL in one dialect, with a place for each number that :func:`number` made.

    ``text`` is the tree with the numbers as parameters, and ``names`` are theirs.
    """

    def __init__(self, tree: Any, dialect: Any) -> None:
        from sqlglot import exp

        self._dialect = dialect
        self._tree = tree.transform(_placeholder)
        self.names = tuple(dict.fromkeys(place.name for place in self._tree.find_all(exp.Placeholder)))

    @cached_property
    def text(self) -> str:
        return written(self._tree, self._dialect)

    def with_numbers(self, numbers: Mapping[str, float]) -> str:
        """The statement as text, with constants in the places."""
        from sqlglot import exp

        def constant(node: Any) -> Any:
            if not isinstance(node, exp.Placeholder):
                return node
            value = numbers[node.name]
            # A float goes through text: a bare 0.1 is a decimal to most databases.
            return exp.Literal.string(repr(value)) if isinstance(value, float) else exp.convert(value)

        return written(self._tree.transform(constant), self._dialect)


def written(tree: Any, dialect: Any) -> str:
    """A tree as text. Refused if the dialect cannot express a part of it."""
    from sqlglot import ErrorLevel

    return str(tree.sql(dialect=dialect, copy=False, unsupported_level=ErrorLevel.RAISE))


def _is_marker(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Anonymous) and str(node.this).lower() == _MARKER


def _placeholder(node: Any) -> Any:
    from sqlglot import exp

    return exp.Placeholder(this=node.expressions[0].this) if _is_marker(node) else node


def renamed(tree: Any, name: Callable[[str], str]) -> Any:
    """A copy of a tree whose numbers have other names."""
    from sqlglot import exp

    def changed(node: Any) -> Any:
        if not _is_marker(node):
            return node
        return exp.Anonymous(this=node.this, expressions=[exp.Literal.string(name(node.expressions[0].this))])

    return tree.copy().transform(changed)


def in_place_of(tree: Any, table: str, source: Any) -> Any:
    """A copy of a tree that reads the tree ``source`` instead of the table of that name."""
    from sqlglot import exp

    def changed(node: Any) -> Any:
        if not (isinstance(node, exp.Table) and node.name == table):
            return node
        return exp.Subquery(this=source.copy(), alias=node.args.get("alias"))

    return tree.copy().transform(changed)


def as_query(table: Any, query: str) -> None:
    """Replace a table of a tree by a query. The query is written unchanged."""
    from sqlglot import exp

    table.set("this", exp.Var(this=f"({query})"))


class Deadline:
    """Calls ``interrupt`` when a statement has used ``seconds``, and again until it ends.

    Time counts from the start of the statement; waiting for its turn does not count. Each short step counts
    for the share of a core that the process could give to each statement that ran, at least a quarter and at
    most all of it. A pause of the whole process (SIGSTOP, a suspended machine) does not count. If the
    statement runs in another process (``elsewhere``), steps count in full, and only pauses are left out.

    Guarantee: ``interrupt`` is called only while a late statement runs, so no other statement is stopped. One
    thread watches as long as statements come, because starting a thread takes longer than a small statement.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], None], *, elsewhere: bool = False) -> None:
        self.seconds = seconds
        self._interrupt = interrupt
        self._elsewhere = elsewhere
        self._step = min(max(seconds * _SHARE_OF_LIMIT, _SHORTEST), _LONGEST)
        self._lock = Lock()
        self._runs = False
        self._used = 0.0
        self._looked = (0.0, 0.0)  # the clock and the CPU time at the last look
        self._watched = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run one statement within the limit. Statements must not overlap."""
        with self._lock:
            self._runs, self._used, self._looked = True, 0.0, (time.monotonic(), time.process_time())
            if not self._watched:
                self._watched = True
                watch = Thread(target=_watch, args=[weakref.ref(self)], daemon=True)
                _watches.add(watch)
                watch.start()
        _running.add(id(self))
        try:
            yield
        finally:
            _running.discard(id(self))
            with self._lock:
                self._runs = False

    def look(self) -> float | None:
        """Interrupt the statement if it is late; returns when to look again, None if nothing runs."""
        with self._lock:
            if not self._runs:
                self._watched = False
                return None
            self._count()
            left = self.seconds - self._used
            if left > 0:
                return min(left, self._step)
            self._interrupt()
            # A statement that had not fully begun does not notice the first interrupt.
            return _AGAIN

    def _count(self) -> None:
        """Add what the statement has used since the last look."""
        now = time.monotonic(), time.process_time()
        passed, computed = now[0] - self._looked[0], now[1] - self._looked[1]
        self._looked = now
        if passed <= 0:
            return
        share = 1.0 if self._elsewhere else computed / (passed * max(1, len(_running)))
        counted = min(passed, _MOST_STEPS * self._step)
        self._used += counted * min(1.0, max(_LEAST, share))


def _watch(deadline: weakref.ref[Deadline]) -> None:
    """Watch as long as statements run. While it sleeps it holds only a weak reference, so the database can be
    closed."""
    while (watched := deadline()) is not None:
        wait = watched.look()
        if wait is None:
            return
        del watched
        if _ending.wait(wait):
            return


_watches: weakref.WeakSet[Thread] = weakref.WeakSet()
_ending = Event()


@atexit.register
def _end_watches() -> None:
    """End the watches before the interpreter ends: DuckDB complains about a thread that still runs."""
    _ending.set()
    for watch in list(_watches):
        watch.join()


class Database(ABC):
    """Runs statements. Statements from several threads wait for each other, because each uses every core.

    A subclass needs :meth:`_execute`, :meth:`define` and :meth:`arrow`. If its statements can be stopped, it
    also needs :meth:`_interrupt`, and the error that a stopped statement raises.
    """

    elsewhere = False  # whether statements run in another process than this one

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._lock = threading.RLock()
        self._trees: dict[Hashable, Any] = {}
        self._deadline: Deadline | None = None

    @abstractmethod
    def tree(self, expression: Any) -> Any:
        """An ibis expression as a tree of SQL."""

    @property
    @abstractmethod
    def _writes(self) -> Any:
        """The dialect of sqlglot in which trees are written."""

    @abstractmethod
    def define(self, name: str, query: str) -> None:
        """Give a name to the result of a query, so that statements can read it."""

    @abstractmethod
    def source(self, name: str) -> str:
        """The table or query with this name, as SQL that can follow FROM."""

    @abstractmethod
    def ask(self, statement: Statement, numbers: Mapping[str, float]) -> list[tuple[Any, ...]]:
        """Run a statement with these numbers in its places. Refused if it takes longer than the limit."""

    @abstractmethod
    def arrow(self, query: str, schema: Schema) -> Any:
        """The result of a query as an arrow table with the columns of this schema."""

    @abstractmethod
    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Run one statement."""

    @property
    @abstractmethod
    def _stopped(self) -> tuple[type[BaseException], ...]:
        """The errors that a stopped statement raises."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Stop the statement that runs."""

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows. Refused if it takes longer than the limit."""
        return self._in_time(lambda: list(self._execute(statement)))

    def _in_time(self, work: Callable[[], _Result]) -> _Result:
        try:
            with self._lock, self._deadline.held() if self._deadline else nullcontext():
                return work()
        except self._stopped:
            raise QueryRejected(
                "The question takes longer than the "
                f"{self._deadline.seconds if self._deadline else 0:g} seconds that one may take; ask for "
                "less at a time."
            ) from None

    def limit(self, seconds: float | None) -> None:
        """Set how long a statement may take from now on; None for no limit."""
        self._deadline = (
            None if seconds is None else Deadline(seconds, self._interrupt, elsewhere=self.elsewhere)
        )

    def compile(self, expression: Any) -> str:
        """An ibis expression as SQL."""
        return written(self.tree(expression), self._writes)

    def cast_text(self, cast: Any, text: str) -> str:
        """The SQL of the tree ``cast``, with ``text`` as the text that is cast."""
        from sqlglot import exp

        return written(
            cast.transform(lambda node: exp.Literal.string(text) if isinstance(node, exp.Literal) else node),
            self._writes,
        )

    def statement(self, tree: Any) -> Statement:
        """A tree with places for numbers as a statement."""
        return Statement(tree, self._writes)

    def around(self, values: Any, key: Hashable, make: Callable[[], Any]) -> Statement:
        """A statement around the tree of a question's own expressions.

        ``make`` makes the expression around them, on the table ``VALUES``. It is compiled once for each
        ``key``, and a session needs few.
        """
        outside = self._trees.get(key)
        if outside is None:
            if len(self._trees) >= _MOST_PREPARED:
                self._trees.clear()
            outside = self._trees[key] = self.tree(make())
        return self.statement(in_place_of(outside, VALUES, values))


def _connection_to_shared() -> Any:
    """A new connection to the shared database of this process. If that no longer works, a new one is made."""
    import duckdb

    if (database := _SHARED.get(os.getpid())) is not None:
        try:
            connection = database.cursor()
            connection.execute("SELECT 1").fetchall()
            return connection
        except duckdb.Error:
            pass
    settings = {"enable_external_access": False, "python_enable_replacements": False}
    database = _SHARED[os.getpid()] = duckdb.connect(config=settings)
    return database.cursor()


class DuckDB(Database):
    """A DuckDB database of our own in memory, or one connection to a shared database.

    It does not import ibis until an expression is compiled: opening a guard compiles none.
    """

    def __init__(self, connection: Any | None = None) -> None:
        import duckdb

        super().__init__(PLAIN)
        self._trees = _TREES
        self._parsed: dict[str, Any] = {}
        # Without replacement scans, no name in a statement can mean a variable of the program.
        self._connection = connection or duckdb.connect(config={"python_enable_replacements": False})
        self._connection.execute("SET TimeZone = 'UTC'")

    @classmethod
    def shared(cls) -> DuckDB:
        """A new connection to one DuckDB for the whole process, which can reach no file and no network.

        A new database takes thirty times as long. Lent tables and defined queries belong to one connection,
        and no other can read them. Use it for rows that are read once and then stored elsewhere: an internal
        error of DuckDB ends every connection to the same database.
        """
        return cls(_connection_to_shared())

    def tree(self, expression: Any) -> Any:
        import ibis.backends.sql.compilers as compilers

        return compilers.duckdb.compiler.to_sqlglot(expression)

    @property
    def _writes(self) -> Any:
        return "duckdb"

    def source(self, name: str) -> str:
        return self.dialect.quoted(name)

    def ask(self, statement: Statement, numbers: Mapping[str, float]) -> list[tuple[Any, ...]]:
        own_numbers = {name: numbers[name] for name in statement.names}
        return self._in_time(lambda: list(self._execute(statement.text, own_numbers)))

    def _execute(
        self, statement: str, numbers: Mapping[str, float] | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement without ibis, whose conversion to pandas takes longer than a small question. A
        statement with numbers is parsed once, because parsing takes a third of a small question."""
        if numbers is None:
            return self._connection.execute(statement).fetchall()  # type: ignore[no-any-return]
        parsed = self._parsed.get(statement)
        if parsed is None:
            if len(self._parsed) >= _MOST_PREPARED:
                self._parsed.clear()
            (parsed,) = self._connection.extract_statements(statement)
            self._parsed[statement] = parsed
        return self._connection.execute(parsed, numbers).fetchall()  # type: ignore[no-any-return]

    @property
    def _stopped(self) -> tuple[type[BaseException], ...]:
        import duckdb

        return (duckdb.InterruptException,)

    def _interrupt(self) -> None:
        self._connection.interrupt()

    def define(self, name: str, query: str) -> None:
        self.run(f"CREATE OR REPLACE TEMP VIEW {self.dialect.quoted(name)} AS {query}")

    def expect_few_rows(self) -> None:
        """Use one thread and few optimizers: for few rows, more of them take longer than reading the rows."""
        optimizers = (name for (name,) in self.run("SELECT name FROM duckdb_optimizers()"))
        spared = ",".join(name for name in optimizers if name not in _OPTIMIZERS_FOR_FEW)
        self.run("SET threads = 1")
        self.run(f"SET disabled_optimizers = '{spared}'")

    def forbid_external_access(self) -> None:
        """Stop statements from reaching files or the network from now on."""
        self.run("SET enable_external_access = false")

    def lend(self, name: str, table: Any) -> None:
        """Let statements read an arrow table under a name, without a copy."""
        with self._lock:
            self._connection.register(name, table)

    def take_back(self, name: str) -> None:
        with self._lock:
            self._connection.unregister(name)

    def arrow(self, query: str, schema: Schema | None = None) -> Any:
        return self._in_time(lambda: self._connection.sql(query).to_arrow_table())
