"""Traces: spans of a request and of its steps, through OpenTelemetry where it is installed.

Spans are named ``request``, ``plan``, ``reserve``, ``read`` and ``settle``. Their attributes are the method,
the route's template and the status: no question, no answer, no name. Their times are rounded to steps of
``GRID`` seconds, because a finer time of ``read`` could depend on the rows.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from holdfast import spans
from holdfast.errors import HoldfastError, MissingExtra

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
        """Add what is known when the request ends."""
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

    def close(self) -> None:
        """Send what was not sent yet, and trace no further steps."""
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
            # An exception may quote a value: that there was one is all that is recorded.
            with use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                yield span
        finally:
            span.end(end_time=_rounded(math.ceil))


def tracing_from_environment() -> Tracing:
    """Tracing as the standard ``OTEL_*`` variables say; none where they say nothing.

    ``OTEL_TRACES_EXPORTER`` names the exporter ("otlp", "console", or any that is installed);
    ``OTEL_EXPORTER_OTLP_ENDPOINT`` alone means "otlp". ``OTEL_SDK_DISABLED=true`` turns everything off.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Tracing()
    endpoint = any(os.environ.get(name) for name in _ENDPOINTS)
    named = os.environ.get("OTEL_TRACES_EXPORTER", "otlp" if endpoint else "")
    names = [name.strip() for name in named.split(",") if name.strip() not in _NO_EXPORTER]
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
