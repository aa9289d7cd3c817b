"""Which triggers the files of a folder declare: each is imported in a child, and the child tells.

A file that cannot be imported is told of apart from the others, which are read all the same; so is one that ends the
process, or never comes to its end.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .code_folder import Folder, Texts
from .os_user import lend
from .worker_env import environment
from .worker_process import EndedError, WorkerProcess

_IMPORT_S: Final = 60.0
_MEMORY_MB: Final = 2048


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nobody knows what a file declares."""

    error: str
    traceback: str | None


@dataclass(slots=True)
class Found:
    """What a folder declares.

    Attributes:
        declared: By file, the settings of its triggers; each has a Name besides.
        problems: By file, of those that cannot be read.
    """

    declared: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)


class Declarations:
    """Reads the declarations of a folder."""

    def __init__(self, folder: Folder, scratch: Path) -> None:
        self._folder = folder
        self._scratch = scratch

    def changed(self) -> bool:
        """Whether a file is not what it was when they were read."""
        return self._folder.changed()

    async def read(self, endpoint: str, only: str | None = None) -> Found:
        """Import the files that may declare triggers, or `only` that module's, and say what they do.

        Raises:
            OSError: The folder cannot be read.
        """
        texts = self._folder.look()
        found = Found()
        child: WorkerProcess | None = None
        for module, (path, text, trouble) in texts.items():
            if only not in (None, module):
                continue
            file = str(Path(path).relative_to(self._folder.path))
            if trouble is not None:
                found.problems[file] = Problem(f"it cannot be read: {trouble}", None)
                continue
            if "foldb" not in text or "trigger" not in text:
                continue  # a handler for Lambda, say: it need not be imported before it is called
            child = child or await self._start(endpoint)
            try:
                answer = await child.ask(_question(module, texts), b"", _IMPORT_S)
            except EndedError as error:
                found.problems[file] = Problem(f"importing it: {error}", error.tail or None)
                child = None
                continue
            if "error" in answer:
                found.problems[file] = Problem(answer["error"], answer["traceback"])
            else:
                found.declared[file] = answer["declared"]
        if child is not None:
            await child.kill()
        return found

    async def _start(self, endpoint: str) -> WorkerProcess:
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        user = self._folder.user
        if user is not None:
            lend(self._scratch, user, self._scratch.parent)
        surroundings = environment(
            endpoint, scratch=self._scratch, app_id="foldb", given=self._folder.environment()
        )
        return await WorkerProcess.start(
            str(self._folder.path), surroundings, self._scratch, _MEMORY_MB, user
        )


def _question(module: str, texts: Texts) -> dict[str, Any]:
    return {"do": "declare", "module": module, "texts": texts}
