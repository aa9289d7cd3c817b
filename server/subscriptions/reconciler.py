"""Has the subscriptions be what the files of the folder of triggers declare.

    a file is saved ──► what it declares ──► is it so in the catalog? ──► Create, Update, Resume, Pause
                                                                          or another one that goes on where it is

A declaration that is gone pauses its subscription, which keeps its place in the feed: declared again it goes on. A file
that cannot be read leaves the subscriptions that it declared before as they are, and is told of. A table that is not
there yet is waited for, and nothing of it is missed. A trigger with other tables is another subscription, which goes on
where the first is (moving.py); of a table that was deleted all is handled before the one that has its name now comes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from ...log.commands import Context
from ...model.errors import RequestError
from ...model.subscriptions import Subscription, check_asked
from ...model.tables import TableDefinition
from ...streams.workers.code_folder import Folder
from ...streams.workers.declarations import Declarations, Found
from .async_partition import NO_TABLE, Done, ends
from .context import SubscriptionContext
from .retarget import Retarget, is_through
from .runner import RunningSubscription, endpoint

_LOOK_S: Final = 1.0
_TABLE_S: Final = 0.05
_SOURCE: Final = Context("declared", source="trigger")
_GONE: Final = "its declaration is gone from "

logger = logging.getLogger("foldb.triggers")
logger.setLevel(logging.INFO)  # whoever saves a file wants to see what became of it

_Settings: TypeAlias = dict[str, Any]
_Declared: TypeAlias = tuple[str, frozenset[str]]
"""What makes a declaration another one: the trigger's name, and its tables."""


class Subscriptions(Protocol):
    """Who does what the files want; see `Triggers`."""

    def create(self, name: str, settings: Mapping[str, Any], context: Context, done: Done) -> None: ...

    def update(self, name: str, some: Mapping[str, Any], context: Context, done: Done) -> None: ...

    def resume(self, name: str, context: Context, done: Done) -> None: ...

    def pause(self, name: str, context: Context, done: Done, *, reason: str) -> None: ...

    def move(
        self, name: str, settings: Mapping[str, Any], move: Retarget | None, context: Context, done: Done
    ) -> None: ...

    @property
    def running(self) -> Mapping[str, RunningSubscription]: ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A declared trigger: all its settings, and since when it has been declared."""

    name: str
    settings: _Settings
    since_ms: int
    has_start: bool

    @property
    def declared(self) -> _Declared:
        """What was first seen at `since_ms`."""
        return _declared(self.name, self.settings)


class TriggerReconciler:
    """Looks at the folder, once a second and whenever it is asked to.

    Attributes:
        has_to_wait: Whether a trigger has to be through with a table that is gone before it is as it is declared.
    """

    def __init__(
        self, node: SubscriptionContext, subscriptions: Subscriptions, folder: Folder, scratch: Path
    ) -> None:
        """`scratch` is for what need not stay."""
        self.has_to_wait = False
        self._node = node
        self._subscriptions = subscriptions
        self._declarations = Declarations(folder, scratch / "declarations")
        self._found: Found | None = None
        self._declared: dict[str, list[_Settings]] = {}  # by file; of one that cannot be read, as it was
        self._since: dict[_Declared, int] = {}  # when it was first seen
        self._before: dict[_Declared, dict[int, int]] = {}  # numbers before all of its tables that come
        self._is_behind = True  # the files are to be read, and are read again where they cannot be
        self._read_ms = node.clock()
        self._read_numbers: dict[int, int] | None = None  # as `_read_ms`, by partition
        self._told: set[str] = set()
        self._begun: set[str] = set()
        self._waited_for: set[str] = set()
        self._held_up: set[str] = set()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = self._node.loop.create_task(self._look_often())

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def unknown(self) -> list[str]:
        """Files that could never be read, and why; of others what they declared before stands."""
        problems = {} if self._found is None else self._found.problems
        return [
            f"{file}: {problem.error}" for file, problem in problems.items() if not self._declared.get(file)
        ]

    def file_of(self, name: str) -> str | None:
        """The file that declares a trigger of that name now."""
        for file, declared in self._declared.items():
            if any(settings["Name"] == name for settings in declared):
                return file
        return None

    async def look(self) -> None:
        """Have the subscriptions be what the files say now."""
        if not self._node.partitions.hosted[0].leading:
            return  # whoever leads the catalog does it
        async with self._lock:
            try:
                await self._read()
            except (OSError, RequestError) as error:
                self._tell(f"the folder of triggers cannot be read: {error}")
            self._waited_for.clear()
            self._held_up.clear()
            all_wanted = [*self._all_wanted()]
            self._since = {each.declared: each.since_ms for each in all_wanted}
            self._before = {each: self._before[each] for each in self._since if each in self._before}
            for wanted in all_wanted:
                await self._settle(wanted)
            self.has_to_wait = bool(self._held_up)
            for name in self._gone():
                await self._pause(name, self._node.state.subscriptions[name])

    async def _look_often(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:  # what nobody thought of, and may be gone when a file is saved
                self._tell(f"the folder of triggers cannot be followed: {error!r}", error)
            await self._pause_between()

    async def _pause_between(self) -> None:
        """Wait a second, or until a table is there that a trigger waits for: then its changes come from the feed."""
        for _ in range(round(_LOOK_S / _TABLE_S)):
            await asyncio.sleep(_TABLE_S)
            if any(self._node.state.table_named(table) for table in self._waited_for):
                return

    async def _read(self) -> None:
        if not self._is_behind:
            if not self._declarations.changed():
                return
            self._is_behind = True
            self._read_ms = self._node.clock()  # what is written while the files are read comes after
            self._read_numbers = None
        if self._read_numbers is None:
            self._read_numbers = await self._ends()
        found = await self._declarations.read(endpoint(self._node.settings))
        for file, problem in found.problems.items():
            logger.error("%s is left as it was: %s\n%s", file, problem.error, problem.traceback or "")
        kept = {file: self._declared.get(file, []) for file in found.problems}
        self._found, self._declared = found, {**found.declared, **kept}
        self._is_behind = False

    def _all_wanted(self) -> Iterator[_Wanted]:
        """What is declared, each name once."""
        seen: dict[str, str] = {}
        for file, declared in sorted(self._declared.items()):
            for settings in declared:
                name, given = settings["Name"], {**settings, "DeclaredIn": file}
                del given["Name"]
                if name in seen:
                    self._tell(
                        f"{file} declares a trigger {name}, and so does {seen[name]}: name one otherwise"
                    )
                    continue
                seen[name] = file
                try:
                    complete = check_asked(name, given)
                except RequestError as error:
                    self._tell(f"{file}: trigger {name}: {error}")
                    continue
                since = self._since.get(_declared(name, complete), self._read_ms)
                yield _Wanted(name, complete, since, "Start" in given)

    async def _settle(self, wanted: _Wanted) -> None:
        """Make what is in the catalog what is declared."""
        name, there = wanted.name, self._node.state.subscriptions.get(wanted.name)
        if there is not None and not _is_declared(there):
            self._tell(f"trigger {name} is declared, but there is another subscription of that name")
            return
        tables = [self._node.state.table_named(table) for table in wanted.settings["TableNames"]]
        if not all(tables):
            named = zip(wanted.settings["TableNames"], tables, strict=True)
            lacking = [each for each, table in named if table is None]
            self._waited_for.update(lacking)
            self._tell(f"trigger {name} waits for {', '.join(lacking)}, which is not there yet")
            if there is not None:
                await self._note_ends(wanted)
            return
        definitions = [table.definition for table in tables if table is not None]
        if there is None:
            settings = {
                **wanted.settings,
                "Start": _start(wanted, max(each.created_ms for each in definitions)),
            }
            await self._do(
                name, "declared", lambda done: self._subscriptions.create(name, settings, _SOURCE, done)
            )
            return
        if {each.id for each in definitions} == {*there.table_ids}:
            self._before.pop(wanted.declared, None)
        elif await self._may_move(there, definitions):
            await self._move(wanted, there, definitions)
            there = self._node.state.subscriptions.get(name, there)
        some = _differences(wanted.settings, there.settings)
        if some:
            await self._do(
                name, "changed", lambda done: self._subscriptions.update(name, some, _SOURCE, done)
            )
        # One that another server stopped, which had no folder of triggers, is tried once.
        is_stopped = there.status == "STOPPED" and name not in self._begun
        self._begun.add(name)
        if is_stopped or (there.reason or "").startswith(_GONE):
            await self._do(name, "resumed", lambda done: self._subscriptions.resume(name, _SOURCE, done))

    async def _may_move(self, there: Subscription, tables: Sequence[TableDefinition]) -> bool:
        """Whether it has handled all of those tables that are gone and were made anew."""
        had = dict(there.tables)
        gone = [had[each.name] for each in tables if _is_anew(there, each)]
        if not gone or await is_through(self._node, self._subscriptions.running, there, gone):
            return True
        self._held_up.add(there.name)
        self._tell(
            f"trigger {there.name} has to handle all of a table that was deleted before it begins with the new one: "
            f"`foldb trigger show {there.name}` tells how far it is"
        )
        return False

    async def _move(self, wanted: _Wanted, there: Subscription, tables: Sequence[TableDefinition]) -> None:
        """Have it read other tables. It goes on where it is, if it goes on with one of those that it has."""
        name, settings, move = wanted.name, wanted.settings, None
        anew_ms = min((each.created_ms for each in tables if _is_anew(there, each)), default=None)
        if stays := [each.id for each in tables if each.id in there.table_ids]:
            move = Retarget(
                stays, self._before.setdefault(wanted.declared, self._read_numbers or {}), anew_ms
            )
        else:
            settings = {**settings, "Start": _start_of_others(wanted, anew_ms)}
        await self._do(
            name, "changed", lambda done: self._subscriptions.move(name, settings, move, _SOURCE, done)
        )

    async def _note_ends(self, wanted: _Wanted) -> None:
        """Note where the partitions are while a table is not there: all of its changes come after."""
        with suppress(RequestError):  # what was noted before is good, too
            now = await self._ends()
            if not all(map(self._node.state.table_named, wanted.settings["TableNames"])):
                self._before[wanted.declared] = now

    async def _ends(self) -> dict[int, int]:
        return await ends(self._node.partitions_of_feed(), NO_TABLE)

    def _gone(self) -> list[str]:
        """Subscriptions that a file declared and does no longer."""
        if self._found is None:
            return []
        problems = self._found.problems
        names = {settings["Name"] for declared in self._declared.values() for settings in declared}
        return [
            name
            for name, subscription in self._node.state.subscriptions.items()
            if _is_declared(subscription)
            and subscription.settings["DeclaredIn"] not in problems
            and subscription.status == "ACTIVE"
            and name not in names
        ]

    async def _pause(self, name: str, subscription: Subscription) -> None:
        reason = f"{_GONE}{subscription.settings['DeclaredIn']}"
        await self._do(
            name, "paused", lambda done: self._subscriptions.pause(name, _SOURCE, done, reason=reason)
        )

    async def _do(self, name: str, what: str, ask: Callable[[Done], None]) -> None:
        answer: asyncio.Future[dict[str, Any] | RequestError] = self._node.loop.create_future()
        ask(lambda told: None if answer.done() else answer.set_result(told))
        told = await answer
        if isinstance(told, RequestError):
            self._tell(f"trigger {name}: {told}")
        else:
            logger.info("trigger %s is %s", name, what)

    def _tell(self, text: str, error: Exception | None = None) -> None:
        """Say it once."""
        if text not in self._told:
            self._told.add(text)
            logger.warning("%s", text, exc_info=error)


def _declared(name: str, settings: _Settings) -> _Declared:
    return name, frozenset(settings["TableNames"])


def _start(wanted: _Wanted, created_ms: int) -> _Settings:
    """Where a declared trigger begins, if it does not say: with what is written since it was declared."""
    start: _Settings = wanted.settings["Start"]
    if wanted.has_start or created_ms < wanted.since_ms:
        return start
    return {"At": "TIME", "Time": wanted.since_ms}


def _start_of_others(wanted: _Wanted, anew_ms: int | None) -> _Settings:
    """Where one begins anew that keeps none of its tables: it misses nothing of one that was deleted and made anew."""
    start: _Settings = wanted.settings["Start"]
    if wanted.has_start and start["At"] not in ("NOW", "HORIZON"):
        return start
    return {"At": "TIME", "Time": wanted.since_ms if anew_ms is None else min(wanted.since_ms, anew_ms)}


def _is_anew(there: Subscription, table: TableDefinition) -> bool:
    """Whether the subscription is of a table that had this one's name."""
    return dict(there.tables).get(table.name, table.id) != table.id


def _differences(wanted: _Settings, there: _Settings) -> _Settings:
    """The settings to change. Where a subscription began is not changed by saying otherwise."""
    return {
        member: value
        for member, value in wanted.items()
        if member not in ("Start", "TableNames") and value != there.get(member)
    }


def _is_declared(subscription: Subscription) -> bool:
    return subscription.settings["DeclaredIn"] is not None
