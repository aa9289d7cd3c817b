"""Spans of deliveries, collected by OpenTelemetry's SDK."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from foldb.streams.sinks import sink_kind
from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, Sink, Success
from foldb.streams.sinks.tracing import TracedSink, trace_id_of, traced, traceparent
from tests.unit.streams.deliveries import numbered
from tests.unit.streams.sinks.context import batch, sink_context
from tests.unit.streams.workers.working import Folder, function


class Saying:
    """A sink with a fixed result, which records the span of its call."""

    version = "1"
    is_single = False
    problem: str | None = None

    def __init__(self, result: DeliveryResult) -> None:
        self.result = result
        self.parents: list[str | None] = []

    async def start(self) -> None: ...

    async def deliver(self, _: Batch) -> DeliveryResult:
        self.parents.append(traceparent())
        return self.result

    async def close(self) -> None: ...


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def delivered(sink: Sink, spans: InMemorySpanExporter) -> ReadableSpan:
    asyncio.run(TracedSink(sink, trace.get_tracer_provider().get_tracer("foldb")).deliver(batch(numbered(2))))
    [span] = spans.get_finished_spans()
    return span


def test_a_delivery_is_a_span_linked_to_its_writes(spans: InMemorySpanExporter) -> None:
    span = delivered(Saying(Success()), spans)

    assert span.name == "deliver receipts"
    assert span.status.is_ok or span.status.status_code is trace.StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "foldb.subscription": "receipts",
        "foldb.lane": 0,
        "foldb.attempt": 1,
        "foldb.changes": 2,
    }
    assert [(link.context.trace_id, dict(link.attributes or {})) for link in span.links] == [
        (trace_id_of(f"request-{nth}"), {"foldb.request_id": f"request-{nth}"}) for nth in (1, 2)
    ]


def test_a_failed_delivery_has_a_failed_span(spans: InMemorySpanExporter) -> None:
    span = delivered(Saying(Failure("ValueError: no")), spans)

    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == "ValueError: no"


def test_spans_of_a_function_are_children_of_the_delivery(
    folder: Folder, spans: InMemorySpanExporter
) -> None:
    folder.write(
        "app.py",
        """
        import os
        from pathlib import Path
        from opentelemetry import trace

        def f(change):
            context = trace.get_current_span().get_span_context()
            Path(os.environ["OUT"]).write_text(f"{context.trace_id:032x} {context.span_id:016x}")
        """,
    )

    async def deliver() -> DeliveryResult:
        settings = function("f")
        around = sink_context(folder.scratch, folder=folder.path)
        sink = traced(sink_kind(settings).make(settings, around))
        await sink.start()
        try:
            return await sink.deliver(batch(numbered(1)))
        finally:
            await sink.close()

    assert asyncio.run(deliver()) == Success()
    [span] = spans.get_finished_spans()
    assert span.context is not None
    assert folder.out == f"{span.context.trace_id:032x} {span.context.span_id:016x}"


def test_without_a_tracer_provider_there_are_no_spans() -> None:
    sink = Saying(Success())

    assert asyncio.run(traced(sink).deliver(batch(numbered(1)))) == Success()
    assert sink.parents == [None]


def test_a_traced_sink_keeps_its_other_attributes(tmp_path: Path) -> None:
    sink = Saying(Success())
    sink.problem = "an old code"

    assert traced(sink).version == "1"
    assert traced(sink).problem == "an old code"
