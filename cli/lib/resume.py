"""A file that lets a long command continue after an interruption.

The command saves how far it is, beside its input or output. The same command reads the file and goes on from there, and
removes it at the end. A command with other arguments does not take it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from .errors import CommandError, ExitCode


class StateFile:
    """The state of one command, in JSON.

    Attributes:
        found: The state that an earlier run of the command saved. None if there is none.
    """

    def __init__(self, path: Path, command: Mapping[str, Any]) -> None:
        """Read the state. `command` has the arguments that the state depends on.

        Raises:
            CommandError: The file is of another command.
        """
        self.path = path
        self._command = dict(command)
        self.found: dict[str, Any] | None = None
        try:
            content = orjson.loads(path.read_bytes())
            saved, state = content["command"], content["state"]
        except FileNotFoundError:
            return
        except (orjson.JSONDecodeError, KeyError, TypeError):
            saved, state = None, None
        if saved != self._command:
            raise CommandError(
                f"{path} is the state of another command that was interrupted: repeat that command, or delete the file",
                ExitCode.USAGE,
            )
        self.found = state

    def begin(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the state to begin with: the one that was found, or a new one, which is saved, and its folder made."""
        if self.found is None:
            self.found = make()
            self.path.parent.mkdir(exist_ok=True)
            self.save(self.found)
        return self.found

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the state. The file is whole at any time."""
        part = self.path.with_name(f"{self.path.name}.part")
        part.write_bytes(orjson.dumps({"command": self._command, "state": state}))
        part.replace(self.path)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@contextmanager
def resumable() -> Iterator[None]:
    """Name the next step if the user interrupts the command.

    Raises:
        CommandError: The command was interrupted.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise CommandError(
            "interrupted; run the same command again to continue", ExitCode.INTERRUPTED
        ) from error
