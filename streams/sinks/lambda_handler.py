"""An unchanged handler of AWS Lambda: `{"Kind": "lambda", "Handler": "app.lambda_handler"}`.

The handler receives the event that Lambda makes of a table's stream, and a context object. It has Lambda's environment
variables, and the folder of triggers as its working directory. With ReportBatchItemFailures its answer is read as
Lambda reads it:

    null, {}, no batchItemFailures          the whole batch succeeds
    sequence numbers of some records        the records before the first of them succeed
    anything else                           the whole batch fails
"""

from typing import Any, Final

from ...model.subscriptions.setting_types import Text
from ...model.subscriptions.settings import BYTES_MAX
from ...model.tables import REGION
from ..formats.lambda_event import event, windowed
from ..workers.code_folder import handler_named
from ..workers.worker_pool import WorkerPool, WorkerSpec
from .kind import SinkKind, SinkSetting
from .process_sink import MEMORY_SIZE, ProcessSink, folder_of, parse_function
from .sink import Batch, DeliveryResult, Failure, PartialFailure, SinkContext, Success
from .tracing import traceparent

_FAILURES: Final = "batchItemFailures"
_IDENTIFIER: Final = "itemIdentifier"


class LambdaSink(ProcessSink):
    """Calls a handler.

    Args:
        workers: The processes in which the handler runs.
        timeout_s: Timeout of a call, which the context object reports.
        is_partial: Whether an answer may name single records that failed.
    """

    def __init__(self, workers: WorkerPool, timeout_s: float, *, is_partial: bool) -> None:
        super().__init__(workers)
        self._timeout_s = timeout_s
        self._is_partial = is_partial
        self._stream_arn = ""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        message, body = self.request(batch)
        answer = await self._workers.call(batch.lane, body, message)
        if "error" in answer:
            return Failure(answer["error"], answer["traceback"])
        return delivery_result(answer["answer"], batch, is_partial=self._is_partial)

    def request(self, batch: Batch) -> tuple[dict[str, Any], bytes]:
        """Return the message and the body by which a worker calls the handler with a batch."""
        return {"timeout_s": self._timeout_s, "trace": traceparent()}, self._event(batch)

    def _event(self, batch: Batch) -> bytes:
        if batch.window is None:
            return event(batch.changes)
        if batch.changes:
            self._stream_arn = batch.changes[0].table.stream_arn
        window = batch.window
        return windowed(
            batch.changes,
            start_ms=window.start_ms,
            end_ms=window.end_ms,
            state=window.state,
            is_final=window.is_final,
            shard_id=f"shardId-{window.start_ms:020d}-{batch.lane:08x}",
            stream_arn=self._stream_arn,
        )


def delivery_result(answer: Any, batch: Batch, *, is_partial: bool) -> DeliveryResult:
    """Return the meaning of a handler's answer."""
    members = answer if isinstance(answer, dict) else {}
    state = None
    if batch.window is not None:
        state = members.get("state") or {}
        if not isinstance(state, dict):
            return Failure("the handler's answer has a state that is no object")
    if not is_partial or answer is None:
        return Success(state)
    if not isinstance(answer, dict):
        return Failure(f"the handler's answer is no object with {_FAILURES}: {answer!r:.100}")
    failures = answer.get(_FAILURES) or []
    if not isinstance(failures, list):
        return Failure(f"{_FAILURES} of the handler's answer is no list")
    indexes: dict[str, int] = {}
    for index, each in enumerate(batch.changes):
        indexes.setdefault(str(each.sequence_number), index)
    failed = []
    for failure in failures:
        identifier = failure.get(_IDENTIFIER) if isinstance(failure, dict) else None
        if not isinstance(identifier, str) or identifier not in indexes:
            return Failure(
                f"{_FAILURES} of the handler's answer names no record of the batch: {failure!r:.100}"
            )
        failed.append(indexes[identifier])
    if not failed:
        return Success(state)
    first = batch.changes[min(failed)]
    # Sequence numbers repeat across partitions and among the items of a snapshot: the identifier is then ambiguous.
    if sum(each.sequence_number == first.sequence_number for each in batch.changes) > 1:
        return Failure(
            "the handler reports a sequence number as failed that several records of the batch have"
        )
    return PartialFailure(
        first.partition,
        first.change.sequence_number,
        "the handler reports this record as failed",
        state=state,
    )


def make(settings: dict[str, Any], context: SinkContext) -> LambdaSink:
    folder = folder_of(context)
    handler, name = settings["Handler"], context.subscription
    memory_mb = KIND.value(settings, "MemorySize")
    spec = WorkerSpec(
        "lambda",
        handler,
        {"function": handler_named(handler)},
        memory_mb,
        {
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": name,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "LAMBDA_TASK_ROOT": str(folder.path),
            "_HANDLER": handler,
            "FOLDB_FUNCTION_ARN": f"arn:aws:lambda:{REGION}:000000000000:function:{name}",
        },
        in_folder=True,
    )
    return LambdaSink(
        WorkerPool(spec, folder, context), context.timeout_s, is_partial=context.reports_failures
    )


def _parse_flag(text: str) -> dict[str, Any]:
    module, name = parse_function(text)
    return {"Handler": f"{module}.{name}"}


KIND: Final = SinkKind(
    name="lambda",
    flag="--lambda",
    metavar="FILE.py:NAME",
    help="Handler, as AWS Lambda calls it, of a file in the server's --triggers folder.",
    example="app.py:lambda_handler",
    settings=(SinkSetting("Handler", Text(BYTES_MAX)), MEMORY_SIZE),
    verify=lambda sink: handler_named(sink["Handler"]),
    make=make,
    parse_flag=_parse_flag,
    label=lambda sink: str(sink["Handler"]),
    function=lambda sink: handler_named(sink["Handler"]),
    runs_code=True,
    acts_outside=True,
)
