"""The workers of one subscription: one per lane, started on demand, all with the same state of the code.

    request ──► has a file changed? ──► a new worker loads it ──► it answers from now on, and the others follow
                                             └─ cannot ──► the old code stays in use, and `problem` has the reason

The pool keeps the source texts. A worker that replaces a dead one therefore loads the same code, even if the files in
the folder cannot be loaded by then.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, Protocol

from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from .code_folder import CodeFolder, Sources
from .frames import WorkerMessage
from .os_user import lend
from .worker_env import environment
from .worker_process import EndedError, WorkerProcess

_LOAD_S: Final = 60.0
_NO_SOURCES: Final[Sources] = {}

logger = logging.getLogger(__name__)


class LoadError(FoldbError):
    """The code cannot be loaded; `traceback` has the place."""

    def __init__(self, reason: str, traceback: str | None) -> None:
        super().__init__(reason)
        self.traceback = traceback


class PoolContext(Protocol):
    """The environment of a pool; a sink's context has these attributes."""

    @property
    def subscription(self) -> str:
        """Name of the subscription."""
        ...

    @property
    def instance(self) -> str:
        """Name that is unique among the sinks that run at the same time."""
        ...

    @property
    def timeout_s(self) -> float:
        """Timeout of a call."""
        ...

    @property
    def endpoint(self) -> Callable[[], str]:
        """Returns the URL of the server."""
        ...

    @property
    def scratch(self) -> Path:
        """Folder for temporary files."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The code that a pool's workers load, and their limits.

    Attributes:
        kind: python, lambda or command.
        name: Name of the code in error messages.
        message: Members that the worker needs to load it.
        memory_mb: Memory limit of each worker in megabytes.
        environment: Variables added to every worker's environment.
        in_folder: Whether the worker runs in the folder of triggers rather than in its own.
        imports: Whether the code consists of the folder's modules; a command does not.
    """

    kind: str
    name: str
    message: WorkerMessage
    memory_mb: int
    environment: dict[str, str]
    in_folder: bool = False
    imports: bool = True


@dataclass(frozen=True, slots=True)
class _Code:
    sources: Sources
    version: str
    is_single: bool


class WorkerPool:
    """The workers of one subscription.

    Attributes:
        problem: The reason why the newest code is not in use; None if it is.
    """

    def __init__(self, spec: WorkerSpec, folder: CodeFolder, context: PoolContext) -> None:
        self.problem: str | None = None
        self._spec = spec
        self._folder = folder
        self._context = context
        self._seen: Sources | None = None
        self._code: _Code | None = None
        self._workers: dict[int, tuple[WorkerProcess, _Code]] = {}
        self._reloading = asyncio.Lock()
        self._scratch: Path | None = None

    @property
    def version(self) -> str:
        """Version of the code in use."""
        return "" if self._code is None else self._code.version

    @property
    def is_single(self) -> bool:
        """Whether the function takes one change at a time; known after `start`."""
        return self._code is not None and self._code.is_single

    async def start(self) -> None:
        """Start a first worker and load the code.

        Raises:
            LoadError: The code cannot be loaded.
            OSError: The worker cannot be started.
        """
        await self._refresh(0)

    async def call(self, lane: int, body: bytes, message: WorkerMessage) -> WorkerMessage:
        """Call the worker of a lane. Return its answer; an answer with `error` means that the call failed."""
        try:
            worker = await self._worker(lane)
            answer = await worker.request({"do": "call", **message}, body, self._context.timeout_s)
        except LoadError as error:
            return {"error": str(error), "traceback": error.traceback}
        except EndedError as error:
            return {"error": f"{self._spec.name}: {error}", "traceback": error.tail or None}
        if answer.get("tail"):
            answer["traceback"] = worker.tail() or None
        if answer.get("spent"):
            await worker.kill()
        return answer

    async def close(self) -> None:
        workers = [worker for worker, _ in self._workers.values()]
        self._workers.clear()
        await asyncio.gather(*(worker.kill() for worker in workers))
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)

    async def _worker(self, lane: int) -> WorkerProcess:
        """Return the lane's worker, with the newest code that can be loaded."""
        if self._sources() is not self._seen:
            async with self._reloading:
                await self._refresh(lane)
        code = self._code
        assert code is not None
        worker, loaded = self._workers.get(lane, (None, None))
        if worker is None or not worker.is_alive or loaded is not code:
            worker, _ = await self._load(lane, code.sources)
            await self._replace(lane, worker, code)
        return worker

    def _sources(self) -> Sources:
        """Return the sources in the folder; the last ones while it cannot be read, because an editor saves files."""
        try:
            return self._folder.read() if self._spec.imports else _NO_SOURCES
        except OSError as error:
            if self._seen is None:
                raise LoadError(f"{self._spec.name} cannot be loaded: {error}", None) from error
            return self._seen

    async def _refresh(self, lane: int) -> None:
        """Load the folder's sources if any has changed: a function may import every module, at any time."""
        sources = self._sources()
        if sources is self._seen:
            return
        try:
            worker, code = await self._load(lane, sources)
        except LoadError as error:
            if self._code is None:
                raise
            self._seen, self.problem = sources, str(error)
            logger.error(
                "%s; the old code stays in use until a file changes\n%s", error, error.traceback or ""
            )
            return
        self._seen, self._code, self.problem = sources, code, None
        await self._replace(lane, worker, code)

    async def _replace(self, lane: int, worker: WorkerProcess, code: _Code) -> None:
        old, _ = self._workers.get(lane, (None, None))
        self._workers[lane] = (worker, code)
        if old is not None:
            await old.kill()

    async def _load(self, lane: int, sources: Sources) -> tuple[WorkerProcess, _Code]:
        worker = await self._start(lane)
        try:
            answer = await worker.request(self.load_message(sources), b"", _LOAD_S)
        except EndedError as error:
            raise LoadError(f"{self._spec.name} cannot be loaded: {error}", error.tail or None) from None
        if "error" in answer:
            await worker.kill()
            raise LoadError(f"{self._spec.name} cannot be loaded: {answer['error']}", answer["traceback"])
        return worker, _Code(sources, answer["version"], answer["single"])

    def load_message(self, sources: Sources) -> dict[str, Any]:
        """Return the message by which a worker loads the code from these sources."""
        return {
            "do": "load",
            "kind": self._spec.kind,
            "name": self._spec.name,
            "subscription": self._context.subscription,
            "texts": sources,
            **self._spec.message,
        }

    async def _start(self, lane: int) -> WorkerProcess:
        scratch = self._own_folder() / str(lane)
        scratch.mkdir(mode=0o700, exist_ok=True)
        user = self._folder.user
        if user is not None:
            lend(scratch, user, self._context.scratch)
        return await WorkerProcess.start(
            self._context.subscription,
            self.environment(scratch, lane),
            self.working_folder(scratch),
            self._spec.memory_mb,
            user,
        )

    def environment(self, scratch: Path, lane: int) -> dict[str, str]:
        """Return the whole environment of a worker that has this folder for temporary files."""
        return environment(
            self._context.endpoint(),
            scratch=scratch,
            app_id=f"foldb.{self._context.instance}.{lane}",
            given={**self._folder.environment(), **self._spec.environment},
        )

    def working_folder(self, scratch: Path) -> Path:
        """Return the working directory of that worker."""
        return self._folder.path if self._spec.in_folder else scratch

    def _own_folder(self) -> Path:
        """Return a folder that no other pool uses, not even one of the same subscription; `close` removes it."""
        if self._scratch is None:
            parent = self._context.scratch
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._scratch = Path(mkdtemp(prefix=f"of-{self._context.subscription}-", dir=parent))
        return self._scratch
