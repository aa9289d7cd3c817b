"""A Python function: `{"Kind": "python", "Function": "receipts:send_receipt"}`.

Each lane has a worker process. streams/workers/runtime/functions.py defines the arguments of the function.
"""

from collections.abc import Mapping
from typing import Any, Final

from ...model.subscriptions.setting_types import Text
from ...model.subscriptions.settings import BYTES_MAX
from ..workers.code_folder import function_named
from ..workers.worker_pool import WorkerPool, WorkerSpec
from .kind import SinkKind, SinkSetting
from .process_sink import MEMORY_SIZE, ProcessSink, folder_of, lines, parse_function
from .sink import Batch, DeliveryResult, SinkContext
from .tracing import traceparent


class PythonSink(ProcessSink):
    """Calls a function."""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        message, body = self.request(batch)
        return await self._call(batch, body, message)

    def request(self, batch: Batch) -> tuple[dict[str, Any], bytes]:
        """Return the message and the body by which a worker calls the function with a batch."""
        return {"window": window_of(batch), "trace": traceparent()}, lines(batch)


def window_of(batch: Batch) -> dict[str, Any] | None:
    """Return the batch's tumbling window as a worker process receives it."""
    window = batch.window
    if window is None:
        return None
    return {"start": window.start_ms, "end": window.end_ms, "state": window.state, "final": window.is_final}


def make(settings: dict[str, Any], context: SinkContext) -> PythonSink:
    spec = WorkerSpec("python", settings["Function"], {}, KIND.value(settings, "MemorySize"), {})
    return PythonSink(WorkerPool(spec, folder_of(context), context))


def _parse_flag(text: str) -> dict[str, Any]:
    module, name = parse_function(text)
    return {"Function": f"{module}:{name}"}


def _function(sink: Mapping[str, Any]) -> str:
    return str(sink["Function"])


KIND: Final = SinkKind(
    name="python",
    flag="--python",
    metavar="FILE.py:NAME",
    help="Function of a file in the server's --triggers folder.",
    example="receipts.py:send",
    settings=(SinkSetting("Function", Text(BYTES_MAX)), MEMORY_SIZE),
    verify=lambda sink: function_named(sink["Function"]),
    make=make,
    parse_flag=_parse_flag,
    label=_function,
    function=_function,
    runs_code=True,
    may_be_single=True,
)
