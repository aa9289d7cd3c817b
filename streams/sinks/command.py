"""A command, run once a batch: `{"Kind": "command", "Command": ["./notify.sh", "--quietly"]}`.

It is a file in the folder of triggers. streams/children/inside/commands.py says how it is run.
"""

from pathlib import Path
from typing import Any

from ...model.errors import ValidationError
from ..children.crew import Crew, Work
from ..children.folder import Folder, Texts, version_of_file
from ..children.running import folder_of, members, memory_size
from ..formats.plain import plain
from .sink import Batch, Surroundings, Verdict


class CommandSink:
    """Runs a command.

    Attributes:
        version: Of the file.
    """

    def __init__(self, argv: list[str], folder: Folder, surroundings: Surroundings, memory_mb: int) -> None:
        self._argv = argv
        self._folder = folder
        self._file = folder.command(argv)
        self._stamp = (0, 0)
        self.version = ""
        head = {"argv": [str(self._file), *argv[1:]]}
        nothing = Texts({})
        self._crew = Crew(
            Work("command", argv[0], head, memory_mb, {}), folder, surroundings, look=lambda: nothing
        )

    async def start(self) -> None:
        """Start a child."""
        self._look()
        await self._crew.start()

    async def deliver(self, batch: Batch) -> Verdict:
        """Run it with the batch on its stdin."""
        self._look()
        body = b"\n".join([plain(delivery, replay=batch.replay) for delivery in batch.changes])
        return await self._crew.deliver(batch, body, {})

    async def close(self) -> None:
        """End the children."""
        await self._crew.close()

    def _look(self) -> None:
        stat = Path(self._file).stat()
        if self._stamp != (stat.st_mtime_ns, stat.st_size):
            self._stamp = (stat.st_mtime_ns, stat.st_size)
            self.version = version_of_file(self._file)


def check(settings: dict[str, Any]) -> None:
    """Refuse what is no command."""
    members(settings, "Command", "MemorySize")
    argv = settings.get("Command")
    if not isinstance(argv, list) or not argv or not all(_is_argument(argument) for argument in argv):
        raise ValidationError('Sink.Command must be a list of arguments, like ["./notify.sh", "--quietly"]')
    memory_size(settings)


def make(settings: dict[str, Any], surroundings: Surroundings) -> CommandSink:
    """A sink that runs `Command`."""
    return CommandSink(settings["Command"], folder_of(surroundings), surroundings, memory_size(settings))


def _is_argument(argument: object) -> bool:
    return isinstance(argument, str) and argument != "" and "\0" not in argument
