"""What functions, Lambda handlers and commands have in common: each is what its crew of children makes of it."""

from typing import Any

from ...model.errors import ValidationError
from ..formats.plain import plain
from ..workers.code_folder import Folder, handler_named
from ..workers.worker_pool import WorkerPool
from .sink import Batch, SinkContext
from .sink_settings import Members


class ProcessSink:
    """A sink whose code runs in a crew."""

    def __init__(self, crew: WorkerPool) -> None:
        self._crew = crew

    @property
    def version(self) -> str:
        """Of the modules that the code rests on."""
        return self._crew.version

    @property
    def is_single(self) -> bool:
        """Whether each change is a call of its own; known once it has started."""
        return self._crew.is_single

    @property
    def problem(self) -> str | None:
        """Why the newest code is not used."""
        return self._crew.problem

    async def start(self) -> None:
        """Load the code."""
        await self._crew.start()

    async def close(self) -> None:
        """End the children."""
        await self._crew.close()


def lines(batch: Batch) -> bytes:
    """The changes of a batch as a child reads them, one a line."""
    return b"\n".join([plain(delivery, replay=batch.replay) for delivery in batch.changes])


def memory_size(members: Members) -> int:
    """`MemorySize`: how many megabytes a child may take."""
    return members.integer("MemorySize", least=128, most=65_536, default=2048)


def function_of(settings: dict[str, Any]) -> str | None:
    """The `module:function` that a sink calls, if it calls one."""
    match settings["Kind"]:
        case "python":
            return str(settings["Function"])
        case "lambda":
            return handler_named(settings["Handler"])
        case _:
            return None


def folder_of(surroundings: SinkContext) -> Folder:
    """The folder of triggers.

    Raises:
        ValidationError: There is none: this server runs nobody's code.
    """
    if surroundings.folder is None:
        raise ValidationError(
            "This server runs no functions and no commands: start it with `foldb serve --triggers FOLDER`"
        )
    return Folder(surroundings.folder, surroundings.trigger_user)
