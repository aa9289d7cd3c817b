"""A folder of triggers, sinks made from it, and their results."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks import sink_kind
from foldb.streams.sinks.sink import DeliveryResult, Sink
from tests.unit.streams.deliveries import numbered
from tests.unit.streams.sinks.context import batch, sink_context

_Result = TypeVar("_Result")


class Folder:
    """A folder of triggers. The environment variable OUT names the file that `out` reads."""

    def __init__(self, path: Path) -> None:
        self.path = path / "triggers"
        self.path.mkdir()
        self.scratch = path / "scratch"
        self._out = path / "out"
        self.write(".env", f"OUT={self._out}")
        self._ticks = 1_000_000_000

    def write(self, name: str, text: str) -> None:
        """Save a file, with a later modification time than any before."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text))
        if not name.endswith(".py"):
            path.chmod(0o755)
        self._ticks = getattr(self, "_ticks", 0) + 1_000_000_000
        os.utime(path, ns=(self._ticks, self._ticks))

    @property
    def out(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    def using(
        self, settings: dict[str, Any], use: Callable[[Sink], Awaitable[_Result]], **about: Any
    ) -> _Result:
        """Return the result of using a sink of this folder."""

        async def run() -> _Result:
            module = sink_kind(settings)
            module.check(settings)
            sink = module.make(settings, sink_context(self.scratch, folder=self.path, **about))
            try:
                await sink.start()
                return await use(sink)
            finally:
                await sink.close()

        return asyncio.run(run())

    def deliver(
        self,
        settings: dict[str, Any],
        changes: Sequence[Delivery] | None = None,
        *,
        about: dict[str, Any] | None = None,
        **around: Any,
    ) -> DeliveryResult:
        """Return the result of one batch."""
        given = numbered(3) if changes is None else changes
        return self.using(settings, lambda sink: sink.deliver(batch(given, **(about or {}))), **around)


def function(name: str) -> dict[str, Any]:
    """Return the settings of a sink for a function in app.py."""
    return {"Kind": "python", "Function": f"app:{name}"}


def command(*argv: str) -> dict[str, Any]:
    return {"Kind": "command", "Command": list(argv)}
