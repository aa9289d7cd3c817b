"""A Python function, in a child of each lane: `{"Kind": "python", "Function": "receipts:send_receipt"}`.

What it is given is in streams/children/inside/functions.py. `MemorySize` says how many megabytes a child may take.
"""

from typing import Any

from ..children.crew import Crew, Work
from ..children.folder import function_named
from ..children.running import folder_of, members, memory_size
from ..formats.plain import plain
from ..tracing import traceparent
from .sink import Batch, Surroundings, Verdict


class PythonSink:
    """Calls a function."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    @property
    def version(self) -> str:
        """Of the modules that the function rests on."""
        return self._crew.version

    @property
    def problem(self) -> str | None:
        """Why the newest code is not used."""
        return self._crew.problem

    async def start(self) -> None:
        """Load the function."""
        await self._crew.start()

    async def deliver(self, batch: Batch) -> Verdict:
        """Call it."""
        body = b"\n".join([plain(delivery, replay=batch.replay) for delivery in batch.changes])
        return await self._crew.deliver(batch, body, {"window": window_of(batch), "trace": traceparent()})

    async def close(self) -> None:
        """End the children."""
        await self._crew.close()


def window_of(batch: Batch) -> dict[str, Any] | None:
    """The batch's window as a child is told it."""
    window = batch.window
    if window is None:
        return None
    return {"start": window.start_ms, "end": window.end_ms, "state": window.state, "final": window.is_final}


def check(settings: dict[str, Any]) -> None:
    """Refuse what no function could be called by."""
    members(settings, "Function", "MemorySize")
    function_named(settings.get("Function"))
    memory_size(settings)


def make(settings: dict[str, Any], surroundings: Surroundings) -> PythonSink:
    """A sink that calls `Function`."""
    folder = folder_of(surroundings)
    work = Work("python", settings["Function"], {}, memory_size(settings), {})
    return PythonSink(Crew(work, folder, surroundings))
