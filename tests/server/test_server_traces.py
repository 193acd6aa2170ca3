"""Traces hold names of steps and rounded times, and nothing of what was asked or answered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from server_operated import operated, run
from starlette.testclient import TestClient

from holdfast import spans
from holdfast.server import Tracing, create_app

pytest.importorskip("opentelemetry.sdk")
QUESTION = "share(income > 41234.5678)"


@pytest.fixture
def exported():
    """Tracing into memory: the tracing, and a function that returns the spans so far."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    yield tracing, exporter.get_finished_spans
    tracing.close()


def test_a_request_is_a_span_without_question_answer_or_token(service, exported):
    tracing, finished = exported
    token, _ = service.tokens.issue("ann", role="analyst", dataset="people")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"Authorization": f"Bearer {token}", "traceparent": parent}
    with TestClient(create_app(service, tracing=tracing)) as client:
        path = "/v1/datasets/people/questions"
        answer = client.post(path, json={"query": QUESTION}, headers=headers).json()
        client.post(path, json={"query": "share(nothing)"}, headers=headers)
    *steps, first, second = finished()
    assert [step.name for step in steps] == ["plan", "reserve", "read", "settle"]
    assert {step.context.trace_id for step in steps} == {first.context.trace_id}
    assert first.name == second.name == "request /v1/datasets/{name}/questions"
    assert first.attributes["http.response.status_code"] == 200
    assert second.attributes["http.response.status_code"] == 422
    assert f"{first.context.trace_id:032x}" in parent
    text = "".join(span.to_json() for span in finished())
    for word in (token, "income", "41234", str(answer["value"]), "nothing", "ann"):
        assert word not in text


def test_steps_are_spans_inside_the_request_and_their_times_are_coarse(exported):
    tracing, finished = exported

    def read():
        with spans.step("read"):
            raise ValueError("row 17 holds 41234.5678")

    with tracing.request({}, "POST"), spans.step("reserve"), pytest.raises(ValueError, match="row 17"):
        read()
    read_span, reserve_span, request_span = finished()
    assert [span.name for span in finished()] == ["read", "reserve", "request"]
    assert read_span.parent.span_id == reserve_span.context.span_id
    assert reserve_span.parent.span_id == request_span.context.span_id
    step = 50 * 10**6  # 0.05 seconds, in nanoseconds
    assert all(time % step == 0 for span in finished() for time in (span.start_time, span.end_time))
    assert "41234" not in "".join(span.to_json() for span in finished())


def test_steps_go_to_the_tracer_until_it_is_taken_away():
    entered = []

    @contextmanager
    def tracer(name):
        entered.append(name)
        yield

    spans.use(tracer)
    try:
        with spans.step("read"):
            pass
    finally:
        spans.use(None)
    with spans.step("settle"):
        pass
    assert entered == ["read"]


def test_a_service_exports_as_the_environment_says(set_up, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(set_up, home)
    with operated(home, OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="our-service") as running:
        running.call("GET", "/live")
        running.process.terminate()
        printed, _ = running.process.communicate(timeout=60)
    span = json.loads(printed[printed.index("{") :])
    assert span["name"] == "request /v1/live"
    assert span["resource"]["attributes"]["service.name"] == "our-service"


def test_an_exporter_that_is_not_installed_is_named(tmp_path):
    environment = {"OTEL_TRACES_EXPORTER": "no_such", "COLUMNS": "1000"}
    done = run("serve", str(tmp_path / "home"), "--port", "0", **environment)
    assert done.returncode == 2
    assert "opentelemetry-exporter-no-such" in done.stderr
    assert "OTEL_TRACES_EXPORTER=none" in done.stderr


class Collector(BaseHTTPRequestHandler):
    """Takes in traces as an OpenTelemetry collector does: protobuf over HTTP."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, self.headers["Content-Type"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format, *arguments):
        """Nothing is logged."""


@contextmanager
def collecting() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.received = []
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_service_sends_its_spans_to_a_collector(set_up, tmp_path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    home = tmp_path / "home"
    shutil.copytree(set_up, home)
    with collecting() as collector:
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        # The address alone is enough: an exporter is part of the extra "traces".
        with operated(home, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_SERVICE_NAME="ours") as running:
            token = running.tokens["owner"]
            assert running.ask(token, QUESTION).status_code == 200
            running.process.terminate()  # What was not sent yet is sent at the end.
            running.process.communicate(timeout=60)
        received = list(collector.received)
    assert {(path, kind) for path, kind, _ in received} == {("/v1/traces", "application/x-protobuf")}
    requests = [ExportTraceServiceRequest.FromString(body) for _, _, body in received]
    resources = [resource for request in requests for resource in request.resource_spans]
    names = {span.name for resource in resources for part in resource.scope_spans for span in part.spans}
    assert {"request /v1/datasets/{name}/questions", "plan", "reserve", "read", "settle"} <= names
    services = {
        attribute.value.string_value
        for resource in resources
        for attribute in resource.resource.attributes
        if attribute.key == "service.name"
    }
    assert services == {"ours"}
    for word in (token, "income", "41234"):
        assert all(word.encode() not in body for _, _, body in received)


_TELEMETRY_OF_THE_FRAMEWORK = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient
from holdfast.server import Service, create_app

exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
service = Service(sys.argv[1])
with TestClient(create_app(service)) as client:
    client.get("/v1/health")
    client.post("/v1/datasets/people/questions", json={"query": "share(secret > 1)"})
service.close()
print([span.name for span in exporter.get_finished_spans()])
"""


def test_the_framework_exports_nothing_by_itself(tmp_path):
    """A tracer for the whole process, and the framework's own switch, would export exact times and errors."""
    finished = subprocess.run(
        [sys.executable, "-c", _TELEMETRY_OF_THE_FRAMEWORK, str(tmp_path / "home")],
        env={**os.environ, "FASTAPI_OTEL_AUTO_CONFIGURE": "true", "OTEL_TRACES_EXPORTER": "none"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert finished.stdout.strip() == "[]"
