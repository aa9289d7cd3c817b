"""A handler written for AWS Lambda, as it is: `{"Kind": "lambda", "Handler": "app.lambda_handler"}`.

It gets the event that Lambda makes of a table's stream, a context object, the environment variables that Lambda sets,
and the folder of triggers as its working directory. With ReportBatchItemFailures its answer is read as Lambda reads it:

    nothing, {}, no failures            all of it is done
    the number of some of its records   what stands before the first of them is done
    anything else                       none of it is done
"""

from typing import Any, Final

from ...model.tables import REGION
from ..formats.lambda_event import event, windowed
from ..workers.code_folder import handler_named
from ..workers.worker_pool import Work, WorkerPool
from .process_sink import ProcessSink, folder_of, memory_size
from .sink import Batch, DeliveryResult, Failure, PartialFailure, SinkContext, Success
from .sink_settings import Members
from .tracing import traceparent

_FAILURES: Final = "batchItemFailures"
_IDENTIFIER: Final = "itemIdentifier"


class LambdaSink(ProcessSink):
    """Calls a handler.

    Args:
        crew: The children that it runs in.
        timeout_s: How long a call may take; the context tells.
        is_partial: Whether failures of single records are read off an answer.
    """

    def __init__(self, crew: WorkerPool, timeout_s: float, *, is_partial: bool) -> None:
        super().__init__(crew)
        self._timeout_s = timeout_s
        self._is_partial = is_partial
        self._stream_arn = ""

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Call it."""
        about = {"timeout_s": self._timeout_s, "trace": traceparent()}
        answer = await self._crew.ask(batch, self._event(batch), about)
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return Failure(answer["error"], answer["traceback"])
        return verdict_of(answer["answer"], batch, is_partial=self._is_partial)

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


def verdict_of(answer: Any, batch: Batch, *, is_partial: bool) -> DeliveryResult:
    """What a handler's answer means."""
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
    places: dict[str, int] = {}
    for at, each in enumerate(batch.changes):
        places.setdefault(str(each.sequence_number), at)
    failed = []
    for failure in failures:
        number = failure.get(_IDENTIFIER) if isinstance(failure, dict) else None
        if not isinstance(number, str) or number not in places:
            return Failure(
                f"{_FAILURES} of the handler's answer names no record of the batch: {failure!r:.100}"
            )
        failed.append(places[number])
    if not failed:
        return Success(state)
    first = batch.changes[min(failed)]
    # Each partition has numbers of its own, and a snapshot one for all its items: nobody knows which record is meant.
    if sum(each.sequence_number == first.sequence_number for each in batch.changes) > 1:
        return Failure("the handler reports a record as failed whose number others of the batch have too")
    return PartialFailure(
        first.partition,
        first.change.sequence_number,
        "the handler reports this record as failed",
        state=state,
    )


def check(settings: dict[str, Any]) -> None:
    """Refuse what no handler could be called by."""
    members = Members(settings, "lambda")
    handler_named(members.text("Handler"))
    memory_size(members)
    members.end()


def make(settings: dict[str, Any], surroundings: SinkContext) -> LambdaSink:
    """A sink that calls `Handler`."""
    folder = folder_of(surroundings)
    handler, name = settings["Handler"], surroundings.subscription
    memory_mb = memory_size(Members(settings, "lambda"))
    work = Work(
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
        WorkerPool(work, folder, surroundings),
        surroundings.timeout_s,
        is_partial=surroundings.reports_failures,
    )
