"""A Python function, in a child of each lane: `{"Kind": "python", "Function": "receipts:send_receipt"}`.

What it is given is in streams/workers/runtime/functions.py. `MemorySize` says how many megabytes a child may take.
"""

from typing import Any

from ..workers.code_folder import function_named
from ..workers.worker_pool import Work, WorkerPool
from .process_sink import ProcessSink, folder_of, lines, memory_size
from .sink import Batch, DeliveryResult, SinkContext
from .sink_settings import Members
from .tracing import traceparent


class PythonSink(ProcessSink):
    """Calls a function."""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Call it."""
        about = {"window": window_of(batch), "trace": traceparent()}
        return await self._crew.deliver(batch, lines(batch), about)


def window_of(batch: Batch) -> dict[str, Any] | None:
    """The batch's window as a child is told it."""
    window = batch.window
    if window is None:
        return None
    return {"start": window.start_ms, "end": window.end_ms, "state": window.state, "final": window.is_final}


def check(settings: dict[str, Any]) -> None:
    """Refuse what no function could be called by."""
    members = Members(settings, "python")
    function_named(members.text("Function"))
    memory_size(members)
    members.end()


def make(settings: dict[str, Any], surroundings: SinkContext) -> PythonSink:
    """A sink that calls `Function`."""
    memory_mb = memory_size(Members(settings, "python"))
    work = Work("python", settings["Function"], {}, memory_mb, {})
    return PythonSink(WorkerPool(work, folder_of(surroundings), surroundings))
