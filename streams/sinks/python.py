"""A Python function, in a child of each lane: `{"Kind": "python", "Function": "receipts:send_receipt"}`.

What it is given is in streams/children/inside/functions.py. `MemorySize` says how many megabytes a child may take.
"""

from typing import Any

from ..children.crew import Crew, Work
from ..children.folder import function_named
from ..tracing import traceparent
from .crewed import CrewSink, folder_of, lines, memory_size
from .settings import Members
from .sink import Batch, Surroundings, Verdict


class PythonSink(CrewSink):
    """Calls a function."""

    async def deliver(self, batch: Batch) -> Verdict:
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


def make(settings: dict[str, Any], surroundings: Surroundings) -> PythonSink:
    """A sink that calls `Function`."""
    memory_mb = memory_size(Members(settings, "python"))
    work = Work("python", settings["Function"], {}, memory_mb, {})
    return PythonSink(Crew(work, folder_of(surroundings), surroundings))
