"""A command, run once per batch: `{"Kind": "command", "Command": ["./notify.sh", "--quietly"]}`.

The command is a file in the folder of triggers; streams/workers/runtime/commands.py runs it.
"""

import shlex
from pathlib import Path
from typing import Any, Final

from ...model.errors import ValidationError
from ...model.subscriptions.setting_types import Texts
from ..workers.code_folder import version_of_file
from ..workers.worker_pool import WorkerPool, WorkerSpec
from .kind import SinkKind, SinkSetting
from .process_sink import MEMORY_SIZE, ProcessSink, folder_of, lines
from .sink import Batch, DeliveryResult, SinkContext


class CommandSink(ProcessSink):
    """Runs a command."""

    def __init__(self, workers: WorkerPool, file: Path) -> None:
        super().__init__(workers)
        self._file = file
        self._stamp = (0, 0)
        self._version = ""

    @property
    def version(self) -> str:
        """A hash of the file."""
        return self._version

    async def start(self) -> None:
        self._refresh_version()
        await super().start()

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Run the command with the batch on its stdin."""
        self._refresh_version()
        return await self._call(batch, lines(batch), {})

    def _refresh_version(self) -> None:
        stat = self._file.stat()
        if self._stamp != (stat.st_mtime_ns, stat.st_size):
            self._stamp = (stat.st_mtime_ns, stat.st_size)
            self._version = version_of_file(self._file)


def make(settings: dict[str, Any], context: SinkContext) -> CommandSink:
    folder, argv = folder_of(context), settings["Command"]
    file = folder.command(argv)
    message = {"argv": [str(file), *argv[1:]]}
    spec = WorkerSpec("command", argv[0], message, KIND.value(settings, "MemorySize"), {}, imports=False)
    return CommandSink(WorkerPool(spec, folder, context), file)


def _verify(sink: dict[str, Any]) -> None:
    argv = sink["Command"]
    if not argv or not all(argv) or any("\0" in argument for argument in argv):
        raise ValidationError('Sink.Command must be a list of arguments, like ["./notify.sh", "--quietly"]')


def _parse_flag(text: str) -> dict[str, Any]:
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{error}: close the quotes") from None
    if not argv:
        raise ValueError("write a file and its arguments")
    return {"Command": argv}


KIND: Final = SinkKind(
    name="command",
    flag="--run",
    metavar="'./FILE ARG...'",
    help="Command of the server's --triggers folder, run without a shell.",
    example="'./notify.sh --quietly'",
    settings=(SinkSetting("Command", Texts()), MEMORY_SIZE),
    verify=_verify,
    make=make,
    parse_flag=_parse_flag,
    label=lambda sink: shlex.join(sink["Command"]),
    runs_code=True,
    acts_outside=True,
)
