"""Every request, observed once: its id, its line in the log, its numbers in the metrics, its trace.

It observes the template of the route (never the path), the status, and the duration in coarse steps. The
content of a question shows only in its kind, and protected rows show only in the time it took
(docs/guides/operation.md says what that can reveal).

**Logs** have one line for each event, as JSON or as text. A line has a time in whole seconds: a finer time
would show how long each request took. Messages from other libraries are reduced to the library's name,
because their words may quote a value. Tracebacks are left out for the same reason: they may show protected
rows.

**Traces** are spans of a request and of its steps, through OpenTelemetry where it is installed. Spans are
named ``request``, ``plan``, ``reserve``, ``read`` and ``settle``. Their attributes are the method, the
route's template and the status: no question, no answer, no name. Their times are rounded to steps of ``GRID``
seconds, because a finer time of ``read`` could depend on the rows.

**Metrics** are in Prometheus' text format. Counts are of requests, lines and bytes. Durations are counted in
five coarse steps. Their sum adds up the steps, not the durations: an exact sum would show how long a single
request took. Memory is rounded up to 64 MiB. There is no label for a question or a person.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any, NamedTuple, TextIO
from weakref import WeakSet
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    make_wsgi_app,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast
from holdfast import spans
from holdfast.errors import DependenceWarning, HoldfastError, MissingExtra
from holdfast.guard import Guard
from holdfast.ledger import BookError, LineCounter

REQUESTS = "holdfast.requests"
"""The logger of finished requests."""

CLIENTS = "uvicorn.clients"
"""The logger of what clients send that is not HTTP. Anybody could fill a disk with it."""

_OURS = ("holdfast",)
_TEMPLATES = ("uvicorn",)  # Their message templates are safe to show, their arguments are not.
_FIELDS = ("request_id", "method", "route", "status", "duration")
_WARNING = re.compile(r"(\w*Warning): (.*)")
_TOKEN = re.compile(r"hf_[A-Za-z0-9_-]{8,}")
_PASSWORD = re.compile(r"(://[^/\s:@]*):[^/\s@]*@")


@contextmanager
def logging_to(level: str = "warning", form: str = "text", stream: TextIO | None = None) -> Iterator[None]:
    """Send everything this process logs to one place in one form, for a while.

    Args:
        level: "debug", "info", "warning" or "error"; finished requests are logged at "info", and requests
            that are not HTTP at "debug".
        form: "json" or "text".
        stream: where to (default: stderr).
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    loggers = [logging.getLogger(name) for name in (*_OURS, *_TEMPLATES)]
    clients = logging.getLogger(CLIENTS)
    previous_levels = [(logger, logger.level) for logger in (root, clients, *loggers)]
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for logger in loggers:
        logger.setLevel(level.upper())
    clients.setLevel(logging.DEBUG if level == "debug" else logging.ERROR)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
        for logger, previous in previous_levels:
            logger.setLevel(previous)


def safe_record(record: logging.LogRecord) -> dict[str, Any]:
    """The parts of a record that may be written: its time, level, source, safe words, and the fields of a
    request."""
    fields: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": _safe_words(record),
    }
    if record.exc_info and record.exc_info[0] is not None:
        fields["error"] = record.exc_info[0].__name__
    if record.name == REQUESTS:
        fields |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
    return fields


def _safe_words(record: logging.LogRecord) -> str:
    source = record.name.split(".")[0]
    if source in _OURS:
        text = record.getMessage()
    elif record.name == "py.warnings":
        text = _safe_warning_words(record.getMessage())
    elif source in _TEMPLATES and isinstance(record.msg, str) and "\n" not in record.msg:
        text = record.msg
    else:
        text = f"message of the library {source}"
    return redacted(text.replace("\r", " ").replace("\n", " "))


def _safe_warning_words(text: str) -> str:
    """The words of our own warnings, which are about training rows. Of any other warning only its kind."""
    kind = _WARNING.search(text)
    if kind is None:
        return "a warning"
    return f"{kind[1]}: {kind[2]}" if kind[1] == DependenceWarning.__name__ else f"a {kind[1]}"


def redacted(text: str) -> str:
    """The text without tokens, and without passwords in addresses.

    >>> redacted("postgresql://me:secret@db/x")
    'postgresql://me:…@db/x'
    """
    return _PASSWORD.sub(r"\1:…@", _TOKEN.sub("hf_…", text))


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        return json.dumps(safe_record(record))


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        fields = safe_record(record)
        request_fields = " ".join(f"{name}={fields[name]}" for name in ("error", *_FIELDS) if name in fields)
        parts = (fields["time"], fields["level"].upper(), fields["event"], request_fields)
        return " ".join(part for part in parts if part)


GRID = 0.05
"""Seconds that times of spans are rounded to."""

_NANO = 1_000_000_000
_NO_EXPORTER = ("", "none")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_OTLP = {"http/protobuf": "otlp_proto_http", "http/json": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class RequestSpan:
    """The span of one request while it lasts; without tracing it does nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def end_request(self, route: str, status: int) -> None:
        """Add the route and the status when the request ends."""
        if self._span is not None:
            self._span.update_name(f"request {route}")
            self._span.set_attribute("http.route", route)
            self._span.set_attribute("http.response.status_code", status)


class Tracing:
    """Makes spans with a tracer of OpenTelemetry, or none without one."""

    def __init__(self, provider: Any = None) -> None:
        self._provider = provider
        self._tracer = None if provider is None else provider.get_tracer("holdfast")
        if self._tracer is not None:
            spans.use(self._step)

    @contextmanager
    def request(self, headers: Mapping[str, str], method: str) -> Iterator[RequestSpan]:
        """The span of a request, in the caller's trace where the headers name one (W3C traceparent)."""
        if self._tracer is None:
            yield RequestSpan()
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        with self._span("request", context=extract(headers), kind=SpanKind.SERVER) as span:
            span.set_attribute("http.request.method", method)
            yield RequestSpan(span)

    def carried(self) -> dict[str, str]:
        """The headers with which another process continues the current trace (W3C traceparent)."""
        carried: dict[str, str] = {}
        if self._tracer is not None:
            from opentelemetry.propagate import inject

            inject(carried)
        return carried

    @contextmanager
    def continued(self, carried: Mapping[str, str]) -> Iterator[None]:
        """Continue the trace of another process."""
        if self._tracer is None:
            yield
            return
        from opentelemetry.context import attach, detach
        from opentelemetry.propagate import extract

        token = attach(extract(carried))
        try:
            yield
        finally:
            detach(token)

    def close(self) -> None:
        """Send the spans that were not sent yet, and trace no further steps."""
        if self._tracer is not None:
            spans.use(None)
            shutdown = getattr(self._provider, "shutdown", None)
            if shutdown is not None:
                shutdown()

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        with self._span(name):
            yield

    @contextmanager
    def _span(self, name: str, **options: Any) -> Iterator[Any]:
        from opentelemetry.trace import use_span

        assert self._tracer is not None
        span = self._tracer.start_span(name, start_time=_rounded(math.floor), **options)
        try:
            # An exception may quote a value, so only the fact of an exception is recorded.
            with use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                yield span
        finally:
            span.end(end_time=_rounded(math.ceil))


def tracing_from_environment() -> Tracing:
    """Tracing as the standard ``OTEL_*`` variables say; no tracing if they are not set.

    ``OTEL_TRACES_EXPORTER`` names the exporter ("otlp", "console", or any that is installed);
    ``OTEL_EXPORTER_OTLP_ENDPOINT`` alone means "otlp". ``OTEL_SDK_DISABLED=true`` turns everything off.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Tracing()
    endpoint = any(os.environ.get(name) for name in _ENDPOINTS)
    exporters = os.environ.get("OTEL_TRACES_EXPORTER", "otlp" if endpoint else "")
    names = [name.strip() for name in exporters.split(",") if name.strip() not in _NO_EXPORTER]
    if not names:
        return Tracing()
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtra("traces", what="Traces (OTEL_TRACES_EXPORTER is set)") from None
    service = os.environ.get("OTEL_SERVICE_NAME", "holdfast")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    return Tracing(provider)


def _exporter(name: str) -> Any:
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    entry = _OTLP.get(protocol, "otlp_proto_http") if name == "otlp" else name
    for point in entry_points(group="opentelemetry_traces_exporter", name=entry):
        return point.load()()
    package = entry.replace("_", "-")
    raise HoldfastError(
        f"OTEL_TRACES_EXPORTER asks for the exporter {name!r}, which is not installed. Install the package "
        f"opentelemetry-exporter-{package}, or set OTEL_TRACES_EXPORTER=none."
    )


def _rounded(direction: Any) -> int:
    """The time now on the grid, in nanoseconds."""
    step = int(GRID * _NANO)
    return int(direction(time.time_ns() / step)) * step


STEPS = (0.05, 0.25, 1.0, 5.0, 30.0)
"""The steps of durations, in seconds: anything finer is not recorded."""

_ID = re.compile(r"(?!hf_)[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_ASK_AGAIN = "no-cache"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_log = logging.getLogger(REQUESTS)


@dataclass
class Request:
    """The observation of one request when it ends. ``new_answers`` counts the answers recorded for it.
    ``answers`` and ``refusals`` count those in its reply, if the route states them."""

    id: str
    method: str
    route: str = "unmatched"
    status: int = 500
    seconds: float = 0.0
    received: int = 0
    sent: int = 0
    new_answers: int = 0
    answers: int | None = None
    refusals: int = 0

    @property
    def step(self) -> float | None:
        """The duration as it is recorded: the step it is below; None if it is above the last step."""
        return next((step for step in STEPS if self.seconds <= step), None)


_current: ContextVar[Request | None] = ContextVar("holdfast_request", default=None)
_watched: WeakSet[Guard] = WeakSet()


def watch_answers(guard: Guard) -> None:
    """Count the new answers of a guard for the request that asks for them. Calling it again has no
    effect."""
    if guard not in _watched:
        _watched.add(guard)
        guard.on_answer(lambda answer: count_new(1))


def count_outcomes(answers: int, refusals: int = 0) -> None:
    """Record how many answers and refusals the reply to the current request has, if it is not one answer."""
    request = _current.get()
    if request is not None:
        request.answers, request.refusals = answers, refusals


def refusals_here() -> int:
    """How many questions of the current request were refused, if its reply is not one answer."""
    request = _current.get()
    return 0 if request is None else request.refusals


def count_new(answers: int) -> None:
    """Count new answers that were recorded for the current request."""
    request = _current.get()
    if request is not None:
        request.new_answers += answers


def begin_request(method: str) -> Request:
    """Begin a new request in the current task. It counts its own answers."""
    request = Request(_request_id(""), method)
    _current.set(request)
    return request


class Observation:
    """Gives every request an id, and reports its end to the log, the metrics and the traces.

    ``X-Request-Id`` is taken from the request if it has 8 to 64 letters, digits, dots, dashes or underscores.
    Otherwise a new id is made. It is on every reply, errors included, and so is that no browser or proxy may
    keep the reply or guess its type.
    """

    def __init__(self, app: ASGIApp, *, observe: Callable[[Request], None], tracing: Tracing) -> None:
        self._app, self._observe, self._tracing = app, observe, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        request = Request(_request_id(headers.get("x-request-id", "")), method)
        started = time.monotonic()

        async def counted_receive() -> Message:
            message = await receive()
            request.received += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                reply = MutableHeaders(scope=message)
                reply["X-Request-Id"] = request.id
                reply["X-Content-Type-Options"] = "nosniff"
                # Only the files of the page may be kept, and are asked for again each time.
                if reply.get("cache-control") != _ASK_AGAIN or scope["path"].startswith("/v1"):
                    reply["Cache-Control"] = "no-store"
            request.sent += len(message.get("body", b""))
            await send(message)

        token = _current.set(request)
        try:
            with self._tracing.request(headers, request.method) as span:
                try:
                    await self._app(scope, counted_receive, counted_send)
                finally:
                    request.route = getattr(scope.get("route"), "path", "unmatched")
                    span.end_request(request.route, request.status)
        finally:
            _current.reset(token)
            request.seconds = time.monotonic() - started
            self._observe(request)
            _log.info(
                "request",
                extra={
                    "request_id": request.id,
                    "method": request.method,
                    "route": request.route,
                    "status": request.status,
                    "duration": f">{STEPS[-1]:g}s" if request.step is None else f"<={request.step:g}s",
                },
            )


def _request_id(sent_id: str) -> str:
    return sent_id if _ID.fullmatch(sent_id) else secrets.token_hex(8)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which the processes of a service count."""

MEMORY_STEP = 64 * 2**20
_EPOCH = re.compile(r"(.+)\.epoch-(\d+)")
_OTHER_BOOKS = re.compile(r"board-.*|.*\.gate|service\.admin")
_QUESTIONS = re.compile(r"/v1/datasets/\{name\}/(questions|batches|tables|curves|discoveries)")
_REFUSED = (403, 409, 422, 429)


_OUTCOMES = ("answered", "cached", "refused", "failed")
# Routes times methods times statuses that occur.
_MOST_KINDS = 4_096


class _Counted(NamedTuple):
    """What a request of one kind adds to. ``kind`` and ``questions`` are for those that ask something."""

    requests: Any
    durations: Any
    kind: str
    questions: dict[str, Any] | None


class Metrics:
    """The metrics of one service.

    Args:
        books: returns the folder of account books, or the PostgreSQL URL they are in, when it is needed.
        counted: the folder in which the processes of the service count, if there are several. Each process
            then reports the sums of all.
    """

    def __init__(self, books: Callable[[], str | Path], *, counted: str | None = None) -> None:
        # They would show exactly when a route was first used.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = own_registry = CollectorRegistry()
        if counted is not None:
            # The counts of all processes are read from their files. Their own registries only count.
            own_registry = CollectorRegistry()
            MultiProcessCollector(self.registry, counted)  # type: ignore[no-untyped-call]
        self._requests = Counter(
            "holdfast_requests", "Finished requests.", ["route", "method", "status"], registry=own_registry
        )
        self._durations = Histogram(
            "holdfast_request_duration_seconds",
            "Durations of requests in coarse steps; the sum adds up the steps.",
            ["route"],
            buckets=STEPS,
            registry=own_registry,
        )
        self._bytes = Counter(
            "holdfast_bytes", "Bytes of bodies, received and sent.", ["direction"], registry=own_registry
        )
        self._questions = Counter(
            "holdfast_questions",
            "Questions by what came of them: answered (new), cached, refused or failed.",
            ["kind", "outcome"],
            registry=own_registry,
        )
        self._received, self._sent = self._bytes.labels("received"), self._bytes.labels("sent")
        self._counted = lru_cache(_MOST_KINDS)(self._look_up)
        version = Gauge(
            "holdfast_info",
            "The version that runs.",
            ["version"],
            registry=own_registry,
            multiprocess_mode="max",
        )
        version.labels(holdfast.__version__).set(1)
        started = Gauge(
            "holdfast_start_time_seconds",
            "When the service started.",
            registry=own_registry,
            multiprocess_mode="min",
        )
        started.set(int(time.time()))
        self.broken = Gauge(
            "holdfast_broken_datasets",
            "Datasets that could not be opened when readiness was last checked.",
            registry=own_registry,
            multiprocess_mode="max",
        )
        self.registry.register(_Memory(counted))
        self.registry.register(_Books(books))

    def observe(self, request: Request) -> None:
        """Count a finished request."""
        counted = self._counted(request.route, request.method, request.status)
        counted.requests.inc()
        step = request.step
        # A duration above the last step counts as one further step, so no exact duration enters the sum.
        counted.durations.observe(STEPS[-1] + 1 if step is None else step)
        self._received.inc(request.received)
        self._sent.inc(request.sent)
        if counted.questions is not None:
            for outcome, number in _outcomes(counted.kind, request).items():
                if number:
                    counted.questions[outcome].inc(number)

    def _look_up(self, route: str, method: str, status: int) -> _Counted:
        """The numbers that a request of this kind adds to. Looking them up takes longer than adding."""
        match = _QUESTIONS.fullmatch(route) if method == "POST" else None
        kind = match[1] if match else ""
        questions = (
            {outcome: self._questions.labels(kind, outcome) for outcome in _OUTCOMES} if kind else None
        )
        requests = self._requests.labels(route, method, str(status))
        return _Counted(requests, self._durations.labels(route), kind, questions)

    def text(self) -> bytes:
        """All metrics as text."""
        return bytes(generate_latest(self.registry))


def _outcomes(kind: str, request: Request) -> dict[str, int]:
    if request.status in _REFUSED:
        return {"refused": 1}
    if request.status >= 500:
        return {"failed": 1}
    if request.status != 200:
        return {}
    if kind in ("curves", "discoveries"):  # A guard does not say which of these are new.
        return {"answered": 1}
    answers = 1 if request.answers is None else request.answers
    cached = max(0, answers - request.new_answers)
    return {"answered": request.new_answers, "cached": cached, "refused": request.refusals}


class _Memory:
    """The memory of the processes of the service, rounded up because the exact size may depend on the rows
    they read. ``counted`` is the folder in which they count; its files name the processes."""

    def __init__(self, counted: str | None = None) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Any]:
        sizes = [resident_bytes(process) for process in self._processes()]
        size = -(-sum(sizes) // MEMORY_STEP) * MEMORY_STEP
        yield GaugeMetricFamily(
            "holdfast_memory_bytes", "Memory of the service, in 64 MiB steps.", value=size
        )

    def _processes(self) -> Sequence[int | None]:
        if self._counted is None:
            return [None]
        numbers = (path.stem.rpartition("_")[2] for path in Path(self._counted).glob("counter_*.db"))
        return sorted(int(number) for number in numbers if number.isdecimal())


def resident_bytes(process: int | None = None) -> int:
    """The memory of a process in bytes; without ``process``, of this one. If the system does not state it,
    the most it ever had. 0 for a process that has ended."""
    try:
        path = Path(f"/proc/{process or 'self'}/statm")
        pages = int(path.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        if process is not None:
            return 0
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    import resource

    return pages * resource.getpagesize()


class _Books:
    """What the books say, read when the metrics are asked for: the same in every process that shares them."""

    def __init__(self, books: Callable[[], str | Path]) -> None:
        self._books = books
        self._counter: LineCounter | None = None
        self._lock = Lock()

    def describe(self) -> list[Any]:
        """Nothing: the books are read only when the metrics are asked for."""
        return []

    def collect(self) -> Iterator[Any]:
        reachable = GaugeMetricFamily("holdfast_books_reachable", "1 if the account books can be read.")
        try:
            with self._lock:  # Two scrapes at a time would count lines twice.
                self._counter = self._counter or LineCounter(self._books())
                books = self._counter.read()
        except BookError:
            reachable.add_metric([], 0)
            yield reachable
            return
        reachable.add_metric([], 1)
        yield reachable
        lines = CounterMetricFamily("holdfast_book_lines", "Lines of a book.", labels=["book"])
        answers = CounterMetricFamily("holdfast_book_answers", "Answers that a book holds.", labels=["book"])
        failed = CounterMetricFamily("holdfast_book_failures", "Questions that failed.", labels=["book"])
        open_ = GaugeMetricFamily("holdfast_open_reservations", "Reservations not settled.", labels=["book"])
        epochs: dict[str, int] = {}
        for book in books:
            lines.add_metric([book.name], book.sequence)
            answers.add_metric([book.name], book.answered)
            failed.add_metric([book.name], book.kinds.get("fail", 0))
            open_.add_metric([book.name], book.open)
            if not _OTHER_BOOKS.fullmatch(book.name):
                epoch = _EPOCH.fullmatch(book.name)
                dataset, number = (book.name, 1) if epoch is None else (epoch[1], int(epoch[2]))
                epochs[dataset] = max(epochs.get(dataset, 0), number)
        yield from (lines, answers, failed, open_)
        newest = GaugeMetricFamily("holdfast_epochs", "The newest epoch of a dataset.", labels=["dataset"])
        for dataset, number in sorted(epochs.items()):
            newest.add_metric([dataset], number)
        yield newest


class _Quiet(WSGIRequestHandler):
    """Logs nothing, and waits for a client at most ten seconds."""

    timeout = 10

    def log_message(self, format: str, *arguments: Any) -> None:
        """Scrapes are not logged."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], _Quiet, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        host, self.server_port = listening.getsockname()[:2]
        self.server_name = str(host)
        self.setup_environ()


@contextmanager
def serve_metrics(metrics: Metrics, sockets: list[socket.socket]) -> Iterator[None]:
    """Serve the metrics at sockets of their own for a while, each in a thread, so a scrape does not wait for
    questions."""
    servers = [_Server(listening) for listening in sockets]
    for server in servers:
        server.set_app(make_wsgi_app(metrics.registry))
        Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    try:
        yield
    finally:
        for server in servers:
            server.shutdown()
