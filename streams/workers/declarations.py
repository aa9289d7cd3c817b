"""Reads the triggers that the files of a folder declare: a worker imports each file and returns its declarations.

A file that cannot be imported, ends the process, or never finishes, is reported by itself. The other files are read all
the same.
"""

from dataclasses import field
from pathlib import Path
from typing import Any, Final

from ...model.lazy_dataclass import dataclass
from .code_folder import CodeFolder
from .os_user import lend
from .worker_env import environment
from .worker_process import EndedError, WorkerProcess

_IMPORT_S: Final = 60.0
_MEMORY_MB: Final = 2048


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why the declarations of a file are unknown."""

    error: str
    traceback: str | None


@dataclass(slots=True)
class FolderDeclarations:
    """The declarations of a folder.

    Attributes:
        declared: By file, the settings of its triggers, each with its Name.
        problems: By file, of the files that cannot be read.
    """

    declared: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)


class Declarations:
    """Reads the declarations of a folder."""

    def __init__(self, folder: CodeFolder, scratch: Path) -> None:
        self._folder = folder
        self._scratch = scratch

    def changed(self) -> bool:
        """Return whether a file has changed since the last `read`."""
        return self._folder.changed()

    async def read(self, endpoint: str, only: str | None = None) -> FolderDeclarations:
        """Import the files that may declare triggers, or only the module `only`, and return their declarations.

        Raises:
            OSError: The folder cannot be read.
        """
        sources = self._folder.read()
        found = FolderDeclarations()
        worker: WorkerProcess | None = None
        for module, (path, text, error) in sources.items():
            if only not in (None, module):
                continue
            file = str(Path(path).relative_to(self._folder.path))
            if error is not None:
                found.problems[file] = Problem(f"it cannot be read: {error}", None)
                continue
            if "foldb" not in text or "trigger" not in text:
                continue  # a Lambda handler, for example, is imported at its first call
            worker = worker or await self._start(endpoint)
            request = {"do": "declare", "module": module, "texts": sources}
            try:
                answer = await worker.request(request, b"", _IMPORT_S)
            except EndedError as ended:
                found.problems[file] = Problem(f"importing it: {ended}", ended.tail or None)
                worker = None
                continue
            if "error" in answer:
                found.problems[file] = Problem(answer["error"], answer["traceback"])
            else:
                found.declared[file] = answer["declared"]
        if worker is not None:
            await worker.kill()
        return found

    async def _start(self, endpoint: str) -> WorkerProcess:
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        user = self._folder.user
        if user is not None:
            lend(self._scratch, user, self._scratch.parent)
        variables = environment(
            endpoint, scratch=self._scratch, app_id="foldb", given=self._folder.environment()
        )
        return await WorkerProcess.start(str(self._folder.path), variables, self._scratch, _MEMORY_MB, user)
