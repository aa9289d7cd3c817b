"""A command, run once a batch: `{"Kind": "command", "Command": ["./notify.sh", "--quietly"]}`.

It is a file in the folder of triggers. streams/workers/runtime/commands.py says how it is run.
"""

from pathlib import Path
from typing import Any

from ...model.errors import ValidationError
from ..workers.code_folder import version_of_file
from ..workers.worker_pool import Work, WorkerPool
from .process_sink import ProcessSink, folder_of, lines, memory_size
from .sink import Batch, DeliveryResult, SinkContext
from .sink_settings import Members


class CommandSink(ProcessSink):
    """Runs a command."""

    def __init__(self, crew: WorkerPool, file: Path) -> None:
        super().__init__(crew)
        self._file = file
        self._stamp = (0, 0)
        self._version = ""

    @property
    def version(self) -> str:
        """Of the file."""
        return self._version

    async def start(self) -> None:
        """Start a child."""
        self._look()
        await super().start()

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Run it with the batch on its stdin."""
        self._look()
        return await self._crew.deliver(batch, lines(batch), {})

    def _look(self) -> None:
        stat = self._file.stat()
        if self._stamp != (stat.st_mtime_ns, stat.st_size):
            self._stamp = (stat.st_mtime_ns, stat.st_size)
            self._version = version_of_file(self._file)


def check(settings: dict[str, Any]) -> None:
    """Refuse what is no command."""
    members = Members(settings, "command")
    argv = members.texts("Command")
    if not argv or not all(argv) or any("\0" in argument for argument in argv):
        raise ValidationError('Sink.Command must be a list of arguments, like ["./notify.sh", "--quietly"]')
    memory_size(members)
    members.end()


def make(settings: dict[str, Any], surroundings: SinkContext) -> CommandSink:
    """A sink that runs `Command`."""
    folder, argv = folder_of(surroundings), settings["Command"]
    file, memory_mb = folder.command(argv), memory_size(Members(settings, "command"))
    work = Work("command", argv[0], {"argv": [str(file), *argv[1:]]}, memory_mb, {}, imports=False)
    return CommandSink(WorkerPool(work, folder, surroundings), file)
