"""The children of one subscription: one a lane, started when it is needed, all with one state of the code.

    ask ──► has a file changed? ──► a new child loads it ──► it answers from now on, and the others follow
                                          └─ cannot ──► the old code goes on, and `problem` says why

The texts of the code are kept here, so a child that has died is followed by one with the same code, even when what is
in the folder by then cannot be loaded.
"""

import asyncio
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from ...model.errors import FoldbError
from ..sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, SinkContext, Success
from .code_folder import Folder, Texts
from .frames import Head
from .os_user import lend
from .worker_env import environment
from .worker_process import EndedError, WorkerProcess

_LOAD_S: Final = 60.0
_NOTHING: Final[Texts] = {}

logger = logging.getLogger(__name__)


class LoadError(FoldbError):
    """The code cannot be loaded; `traceback` says where."""

    def __init__(self, reason: str, traceback: str | None) -> None:
        super().__init__(reason)
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class Work:
    """What children are started for.

    Attributes:
        kind: python, lambda or command.
        name: What is called, as people are told.
        head: What a child needs to load it.
        memory_mb: How much memory each may take.
        environment: What it finds in its environment besides what all find.
        in_folder: Whether it runs in the folder of triggers, and not in one of its own.
        imports: Whether it is made of the folder's modules; a command is not.
    """

    kind: str
    name: str
    head: Head
    memory_mb: int
    environment: dict[str, str]
    in_folder: bool = False
    imports: bool = True


@dataclass(frozen=True, slots=True)
class _Code:
    texts: Texts
    version: str
    is_single: bool


class WorkerPool:
    """Asks the child of a lane.

    Attributes:
        problem: Why the newest code is not used; None where it is.
    """

    def __init__(self, work: Work, folder: Folder, surroundings: SinkContext) -> None:
        self.problem: str | None = None
        self._work = work
        self._folder = folder
        self._surroundings = surroundings
        self._seen: Texts | None = None
        self._code: _Code | None = None
        self._children: dict[int, tuple[WorkerProcess, _Code]] = {}
        self._reloading = asyncio.Lock()
        self._scratch: Path | None = None

    @property
    def version(self) -> str:
        """Of the code that is called."""
        return "" if self._code is None else self._code.version

    @property
    def is_single(self) -> bool:
        """Whether what is called gets one change at a time; known once it has started."""
        return self._code is not None and self._code.is_single

    async def start(self) -> None:
        """Have a first child load the code.

        Raises:
            LoadError, OSError: It cannot be.
        """
        await self._refresh(0)

    async def deliver(self, batch: Batch, body: bytes, head: Head) -> DeliveryResult:
        """Ask the child of the batch's lane, and say what its answer means."""
        answer = await self.ask(batch, body, head)
        if isinstance(answer, Failure):
            return answer
        if "error" not in answer:
            return Success(answer.get("state"))
        at = answer.get("failed")
        if at is None:
            return Failure(answer["error"], answer["traceback"])
        failed = batch.changes[at]
        error, traceback = answer["error"], answer["traceback"]
        return PartialFailure(
            failed.partition, failed.change.sequence_number, error, traceback, state=answer.get("state")
        )

    async def ask(self, batch: Batch, body: bytes, head: Head) -> Head | Failure:
        """Ask the child of the batch's lane."""
        try:
            child = await self._child(batch.lane)
            answer = await child.ask({"do": "call", **head}, body, self._surroundings.timeout_s)
        except LoadError as error:
            return Failure(str(error), error.traceback)
        except EndedError as error:
            return Failure(f"{self._work.name}: {error}", error.tail or None)
        if answer.get("tail"):
            answer["traceback"] = child.tail() or None
        if answer.get("spent"):
            await child.kill()
        return answer

    async def close(self) -> None:
        """End all children."""
        children = [child for child, _ in self._children.values()]
        self._children.clear()
        await asyncio.gather(*(child.kill() for child in children))
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)

    async def _child(self, lane: int) -> WorkerProcess:
        """The lane's child, with the newest code that can be loaded."""
        if self._texts() is not self._seen:
            async with self._reloading:
                await self._refresh(lane)
        code = self._code
        assert code is not None
        child, loaded = self._children.get(lane, (None, None))
        if child is None or not child.is_alive or loaded is not code:
            child, _ = await self._load(lane, code.texts)
            await self._replace(lane, child, code)
        return child

    def _texts(self) -> Texts:
        """What is in the folder; what was, while it cannot be read: files come and go while they are saved."""
        try:
            return self._folder.look() if self._work.imports else _NOTHING
        except OSError as error:
            if self._seen is None:
                raise LoadError(f"{self._work.name} cannot be loaded: {error}", None) from error
            return self._seen

    async def _refresh(self, lane: int) -> None:
        """Load what is in the folder if it is not what is used: a function may import any of it, and at any time."""
        texts = self._texts()
        if texts is self._seen:
            return
        try:
            child, code = await self._load(lane, texts)
        except LoadError as error:
            if self._code is None:
                raise
            self._seen, self.problem = texts, str(error)
            logger.error("%s keeps its old code: %s\n%s", self._work.name, error, error.traceback or "")
            return
        self._seen, self._code, self.problem = texts, code, None
        await self._replace(lane, child, code)

    async def _replace(self, lane: int, child: WorkerProcess, code: _Code) -> None:
        old, _ = self._children.get(lane, (None, None))
        self._children[lane] = (child, code)
        if old is not None:
            await old.kill()

    async def _load(self, lane: int, texts: Texts) -> tuple[WorkerProcess, _Code]:
        child = await self._start(lane)
        try:
            answer = await child.ask(self._question(texts), b"", _LOAD_S)
        except EndedError as error:
            raise LoadError(f"{self._work.name} cannot be loaded: {error}", error.tail or None) from None
        if "error" in answer:
            await child.kill()
            raise LoadError(f"{self._work.name} cannot be loaded: {answer['error']}", answer["traceback"])
        return child, _Code(texts, answer["version"], answer["single"])

    def _question(self, texts: Texts) -> dict[str, Any]:
        return {
            "do": "load",
            "kind": self._work.kind,
            "name": self._work.name,
            "subscription": self._surroundings.subscription,
            "texts": texts,
            **self._work.head,
        }

    async def _start(self, lane: int) -> WorkerProcess:
        subscription = self._surroundings.subscription
        scratch = self._own_folder() / str(lane)
        scratch.mkdir(mode=0o700, exist_ok=True)
        user = self._folder.user
        if user is not None:
            lend(scratch, user, self._surroundings.scratch)
        return await WorkerProcess.start(
            subscription,
            environment(
                self._surroundings.endpoint(),
                scratch=scratch,
                app_id=f"foldb.{self._surroundings.instance}.{lane}",
                given={**self._folder.environment(), **self._work.environment},
            ),
            self._folder.path if self._work.in_folder else scratch,
            self._work.memory_mb,
            user,
        )

    def _own_folder(self) -> Path:
        """A folder that no other crew has, not even one of the same subscription; it goes with this one."""
        if self._scratch is None:
            above = self._surroundings.scratch
            above.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._scratch = Path(mkdtemp(prefix=f"of-{self._surroundings.subscription}-", dir=above))
        return self._scratch
