"""OpenTelemetry spans: one for each delivery, if OpenTelemetry is installed and a tracer provider is configured.

    write ──request id──► link ──► span "deliver NAME" ──traceparent──► spans of the function

foldb makes no span for a write. The link leads to a trace whose id is a hash of the write's request id: a client that
gives its own span this trace id (`trace_id_of`) sees both as one trace. The link has the request id as an attribute.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ...version import __version__
from .sink import Batch, DeliveryResult, Failure, PartialFailure, Sink

if TYPE_CHECKING:  # an optional dependency
    from opentelemetry.trace import Link, Tracer

_MAX_LINKS: Final = 128


def trace_id_of(request_id: str) -> int:
    """Return the trace id that a link to a write has."""
    return int.from_bytes(blake2b(request_id.encode(), digest_size=16).digest())


def traced(sink: Sink) -> Sink:
    """Return the sink with a span around each delivery."""
    try:
        from opentelemetry import trace
    except ImportError:
        return sink
    return TracedSink(sink, trace.get_tracer_provider().get_tracer("foldb", __version__))


def traceparent() -> str | None:
    """Return the current span in W3C form, for other processes; None without a span."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


class TracedSink:
    """A sink that records spans."""

    def __init__(self, sink: Sink, tracer: "Tracer") -> None:
        self._sink = sink
        self._tracer = tracer
        self.start = sink.start
        self.close = sink.close

    @property
    def version(self) -> str:
        return self._sink.version

    @property
    def is_single(self) -> bool:
        return self._sink.is_single

    @property
    def problem(self) -> str | None:
        return self._sink.problem

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Deliver, in a span if a tracer provider is configured."""
        from opentelemetry import trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return await self._sink.deliver(batch)
        with self._tracer.start_as_current_span(
            f"deliver {batch.subscription}",
            kind=trace.SpanKind.CONSUMER,
            links=_links(batch),
            attributes={
                "foldb.subscription": batch.subscription,
                "foldb.lane": batch.lane,
                "foldb.attempt": batch.attempt,
                "foldb.changes": len(batch.changes),
            },
        ) as span:
            result = await self._sink.deliver(batch)
            if isinstance(result, Failure | PartialFailure):
                span.set_status(trace.StatusCode.ERROR, result.error)
        return result


def _links(batch: Batch) -> "list[Link]":
    from opentelemetry import trace

    links = []
    for request_id in dict.fromkeys(each.change.context.request_id for each in batch.changes):
        trace_id = trace_id_of(request_id)
        context = trace.SpanContext(trace_id, trace_id & 0xFFFFFFFFFFFFFFFF, is_remote=True)
        links.append(trace.Link(context, {"foldb.request_id": request_id}))
    return links[:_MAX_LINKS]
