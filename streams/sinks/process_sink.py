"""The common part of functions, Lambda handlers and commands: user code that runs in a pool of worker processes."""

from typing import Any, Final

from ...model.errors import ValidationError
from ...model.subscriptions.setting_types import Int
from ..formats.plain import plain
from ..workers.code_folder import CodeFolder
from ..workers.worker_pool import WorkerPool
from .kind import SinkSetting
from .sink import Batch, DeliveryResult, Failure, PartialFailure, SinkContext, Success

MEMORY_SIZE: Final = SinkSetting("MemorySize", Int(128, 65_536), 2048)
"""Memory limit of a worker process, in megabytes."""


class ProcessSink:
    """A sink whose code runs in worker processes."""

    def __init__(self, workers: WorkerPool) -> None:
        self._workers = workers

    @property
    def version(self) -> str:
        """A hash of the modules that the loaded code imports."""
        return self._workers.version

    @property
    def is_single(self) -> bool:
        """Whether each change is a call of its own; False until the code is loaded."""
        return self._workers.is_single

    @property
    def problem(self) -> str | None:
        """The error for which the newest code is not loaded."""
        return self._workers.problem

    async def start(self) -> None:
        await self._workers.start()

    async def close(self) -> None:
        await self._workers.close()

    @property
    def workers(self) -> WorkerPool:
        """The processes in which the code runs."""
        return self._workers

    async def _call(self, batch: Batch, body: bytes, message: dict[str, Any]) -> DeliveryResult:
        """Call the worker of the batch's lane, and return the meaning of its answer."""
        answer = await self._workers.call(batch.lane, body, message)
        if "error" not in answer:
            return Success(answer.get("state"))
        index, error, traceback = answer.get("failed"), answer["error"], answer["traceback"]
        if index is None:
            return Failure(error, traceback)
        failed = batch.changes[index]
        return PartialFailure(
            failed.partition, failed.change.sequence_number, error, traceback, state=answer.get("state")
        )


def lines(batch: Batch) -> bytes:
    """Return the changes of a batch as JSON Lines, the input of a worker process."""
    return b"\n".join([plain(delivery, replay=batch.replay) for delivery in batch.changes])


def folder_of(context: SinkContext) -> CodeFolder:
    """Return the folder of triggers.

    Raises:
        ValidationError: The server has no folder of triggers.
    """
    if context.folder is None:
        raise ValidationError(
            "This server runs no functions and no commands: start it with `foldb serve --triggers FOLDER`"
        )
    return CodeFolder(context.folder, context.trigger_user)


def parse_function(text: str) -> tuple[str, str]:
    """Return the module and the name of `file.py:name`.

    >>> parse_function("billing/receipts.py:send")
    ('billing.receipts', 'send')

    Raises:
        ValueError: The text names no file of Python, or no function.
    """
    file, colon, name = text.rpartition(":")
    parts = file.removeprefix("./").removesuffix(".py").split("/")
    if (
        not colon
        or not file.endswith(".py")
        or not name.isidentifier()
        or not all(map(str.isidentifier, parts))
    ):
        raise ValueError(
            "write a file in the server's --triggers folder and a name in it, like receipts.py:send"
        )
    return ".".join(parts), name
