"""Continues the trace of a delivery in user code, if OpenTelemetry is installed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


def continuing(trace: str | None) -> AbstractContextManager[None]:
    """Make the span that a `traceparent` names the current one."""
    return nullcontext() if trace is None else _continuing(trace)


@contextmanager
def _continuing(trace: str) -> Iterator[None]:
    try:
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        yield
        return
    token = context.attach(TraceContextTextMapPropagator().extract({"traceparent": trace}))
    try:
        yield
    finally:
        context.detach(token)
