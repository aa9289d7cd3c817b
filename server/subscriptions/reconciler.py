"""Makes the subscriptions match the declarations in the folder of triggers.

    a file is saved ──► its declarations ──► compared with the catalog ──► Create, Update, Resume, Pause,
                                                                          or retarget to other tables

A trigger whose declaration is removed is paused and keeps its checkpoints; declared again it continues. A file that
cannot be loaded is logged, and its triggers stay as they are. A trigger whose table does not exist yet waits for it and
misses none of its changes. A trigger with other tables becomes another subscription, which continues where the first is
(retarget.py). If a table was deleted and created again, all changes of the old one are handled first.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from ...log.commands import Context, new_context
from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass
from ...model.subscriptions import Subscription
from ...model.subscriptions.settings import check_request
from ...model.tables import TableDefinition
from ...streams.workers.code_folder import CodeFolder
from ...streams.workers.declarations import Declarations, FolderDeclarations
from .async_partition import NO_TABLE, end_sequence_numbers
from .context import SubscriptionContext
from .retarget import Retarget, is_through
from .running_subscription import RunningSubscription, endpoint

_POLL_S: Final = 1.0
_TABLE_POLL_S: Final = 0.05
_CONTEXT: Final = new_context("declared", source="trigger")
_REMOVED: Final = "its declaration is gone from "  # the beginning of a stored reason: never change it

logger = logging.getLogger("foldb.triggers")
logger.setLevel(logging.INFO)  # a developer who saves a file wants to see its effect

_Settings: TypeAlias = dict[str, Any]
_Declaration: TypeAlias = tuple[str, frozenset[str]]
"""The identity of a declaration: the trigger's name and its tables."""


class SubscriptionOperations(Protocol):
    """The operations that the reconciler uses; see `SubscriptionService`."""

    async def create(self, name: str, settings: Mapping[str, Any], context: Context) -> dict[str, Any]: ...

    async def update(self, name: str, changes: Mapping[str, Any], context: Context) -> dict[str, Any]: ...

    async def resume(self, name: str, context: Context) -> dict[str, Any]: ...

    async def pause(self, name: str, context: Context, *, reason: str) -> dict[str, Any]: ...

    async def retarget(
        self, name: str, settings: Mapping[str, Any], retarget: Retarget | None, context: Context
    ) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A declared trigger: all its settings, and the time at which the declaration was first seen."""

    name: str
    settings: _Settings
    since_ms: int
    has_start: bool

    @property
    def declaration(self) -> _Declaration:
        """The declaration that was first seen at `since_ms`."""
        return _declaration(self.name, self.settings)


class TriggerReconciler:
    """Polls the folder of triggers once a second, and applies its declarations.

    Attributes:
        has_to_wait: Whether a trigger must finish a deleted table before its declaration can be applied.
    """

    def __init__(
        self,
        node: SubscriptionContext,
        subscriptions: SubscriptionOperations,
        running: Mapping[str, RunningSubscription],
        folder: CodeFolder,
        scratch: Path,
    ) -> None:
        """`scratch` is a folder of temporary files."""
        self.has_to_wait = False
        self._node = node
        self._subscriptions = subscriptions
        self._running = running
        self._declarations = Declarations(folder, scratch / "declarations")
        self._found: FolderDeclarations | None = None
        self._declared: dict[str, list[_Settings]] = {}  # by file; the last good state of a broken one
        self._since: dict[_Declaration, int] = {}  # when a declaration was first seen
        self._before: dict[_Declaration, dict[int, int]] = {}  # sequence numbers before all added tables
        self._is_outdated = True  # the files have to be read; stays set while reading fails
        self._read_ms = node.clock()
        self._read_ends: dict[int, int] | None = None  # the ends of the partitions at `_read_ms`
        self._reported: set[str] = set()
        self._seen: set[str] = set()
        self._missing_tables: set[str] = set()
        self._held_up: set[str] = set()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._node.loop.create_task(self._poll())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def unknown(self) -> list[str]:
        """Files that could never be loaded, with the errors. For others the last good declarations apply."""
        problems = {} if self._found is None else self._found.problems
        return [
            f"{file}: {problem.error}" for file, problem in problems.items() if not self._declared.get(file)
        ]

    def file_of(self, name: str) -> str | None:
        """Return the file that declares a trigger of that name now."""
        for file, declared in self._declared.items():
            if any(settings["Name"] == name for settings in declared):
                return file
        return None

    async def reconcile(self) -> None:
        """Make the subscriptions match the files as they are now. Only the leader of the catalog does."""
        if not self._node.partitions.hosted[0].leading:
            return
        async with self._lock:
            try:
                await self._read()
            except (OSError, RequestError) as error:
                self._report(f"cannot read the folder of triggers: {error}; the triggers stay as they are")
            self._missing_tables.clear()
            self._held_up.clear()
            all_wanted = [*self._all_wanted()]
            self._since = {each.declaration: each.since_ms for each in all_wanted}
            self._before = {each: self._before[each] for each in self._since if each in self._before}
            for wanted in all_wanted:
                await self._apply(wanted)
            self.has_to_wait = bool(self._held_up)
            for name in self._undeclared():
                await self._pause(name, self._node.state.subscriptions[name])

    async def _poll(self) -> None:
        while True:
            try:
                await self.reconcile()
            except Exception as error:  # unexpected, and saving a file may cure it
                self._report(f"cannot apply the folder of triggers: {error!r}; retrying", error)
            await self._wait()

    async def _wait(self) -> None:
        """Wait a second, or until a table exists that a trigger waits for: then the feed has all its changes."""
        for _ in range(round(_POLL_S / _TABLE_POLL_S)):
            await asyncio.sleep(_TABLE_POLL_S)
            if any(self._node.state.table_named(table) for table in self._missing_tables):
                return

    async def _read(self) -> None:
        if not self._is_outdated:
            if not self._declarations.changed():
                return
            self._is_outdated = True
            self._read_ms = self._node.clock()  # before the files are read, so no later change is missed
            self._read_ends = None
        if self._read_ends is None:
            self._read_ends = await self._ends()
        found = await self._declarations.read(endpoint(self._node.settings))
        for file, problem in found.problems.items():
            logger.error(
                "cannot load %s: %s; its triggers stay as they are\n%s",
                file,
                problem.error,
                problem.traceback or "",
            )
        kept = {file: self._declared.get(file, []) for file in found.problems}
        self._found, self._declared = found, {**found.declared, **kept}
        self._is_outdated = False

    def _all_wanted(self) -> Iterator[_Wanted]:
        """Yield the declared triggers, each name once."""
        seen: dict[str, str] = {}
        for file, declared in sorted(self._declared.items()):
            for settings in declared:
                name, given = settings["Name"], {**settings, "DeclaredIn": file}
                del given["Name"]
                if name in seen:
                    self._report(f"{file} declares a trigger {name}, and so does {seen[name]}: rename one")
                    continue
                seen[name] = file
                try:
                    complete = check_request(name, given)
                except RequestError as error:
                    self._report(f"{file}: trigger {name}: {error}")
                    continue
                since = self._since.get(_declaration(name, complete), self._read_ms)
                yield _Wanted(name, complete, since, "Start" in given)

    async def _apply(self, wanted: _Wanted) -> None:
        """Make a subscription match its declaration."""
        name, current = wanted.name, self._node.state.subscriptions.get(wanted.name)
        if current is not None and not _is_declared(current):
            self._report(f"trigger {name} is declared, but there is another subscription of that name")
            return
        tables = [self._node.state.table_named(table) for table in wanted.settings["TableNames"]]
        if not all(tables):
            named = zip(wanted.settings["TableNames"], tables, strict=True)
            missing = [each for each, table in named if table is None]
            self._missing_tables.update(missing)
            self._report(f"trigger {name} waits for {', '.join(missing)}, which does not exist yet")
            if current is not None:
                await self._note_ends(wanted)
            return
        definitions = [table.definition for table in tables if table is not None]
        if current is None:
            start = _start(wanted, max(each.created_ms for each in definitions))
            settings = {**wanted.settings, "Start": start}
            await self._do(name, "declared", self._subscriptions.create(name, settings, _CONTEXT))
            return
        if {each.id for each in definitions} == {*current.table_ids}:
            self._before.pop(wanted.declaration, None)
        elif await self._may_retarget(current, definitions):
            await self._retarget(wanted, current, definitions)
            current = self._node.state.subscriptions.get(name, current)
        changes = _differences(wanted.settings, current.settings)
        if changes:
            await self._do(name, "changed", self._subscriptions.update(name, changes, _CONTEXT))
        # Resume a trigger once that was stopped by another server, one without a folder of triggers.
        is_stopped = current.status == "STOPPED" and name not in self._seen
        self._seen.add(name)
        if is_stopped or (current.reason or "").startswith(_REMOVED):
            await self._do(name, "resumed", self._subscriptions.resume(name, _CONTEXT))

    async def _may_retarget(self, current: Subscription, tables: Sequence[TableDefinition]) -> bool:
        """Return whether a subscription has handled all changes of tables that were deleted and created again."""
        had = dict(current.tables)
        deleted = [had[each.name] for each in tables if _is_recreated(current, each)]
        if not deleted or await is_through(self._node, self._running, current, deleted):
            return True
        self._held_up.add(current.name)
        self._report(
            f"trigger {current.name} handles the changes of a deleted table before it begins with the new one: "
            f"`foldb trigger show {current.name}` shows its lag"
        )
        return False

    async def _retarget(
        self, wanted: _Wanted, current: Subscription, tables: Sequence[TableDefinition]
    ) -> None:
        """Make a subscription read other tables. It continues where it is if it keeps at least one table."""
        name, settings, retarget = wanted.name, wanted.settings, None
        recreated_ms = min((each.created_ms for each in tables if _is_recreated(current, each)), default=None)
        if kept_tables := [each.id for each in tables if each.id in current.table_ids]:
            before = self._before.setdefault(wanted.declaration, self._read_ends or {})
            retarget = Retarget(kept_tables, before, recreated_ms)
        else:
            settings = {**settings, "Start": _start_without_kept_tables(wanted, recreated_ms)}
        await self._do(name, "changed", self._subscriptions.retarget(name, settings, retarget, _CONTEXT))

    async def _note_ends(self, wanted: _Wanted) -> None:
        """Note the ends of the partitions while a table does not exist: all its changes come after them."""
        with suppress(RequestError):  # earlier ends are valid, too
            ends = await self._ends()
            if not all(map(self._node.state.table_named, wanted.settings["TableNames"])):
                self._before[wanted.declaration] = ends

    async def _ends(self) -> dict[int, int]:
        return await end_sequence_numbers(self._node.partitions_of_feed(), NO_TABLE)

    def _undeclared(self) -> list[str]:
        """Return the active subscriptions whose file does not declare them any longer."""
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
        reason = f"{_REMOVED}{subscription.settings['DeclaredIn']}"
        await self._do(name, "paused", self._subscriptions.pause(name, _CONTEXT, reason=reason))

    async def _do(self, name: str, result: str, operation: Coroutine[Any, Any, dict[str, Any]]) -> None:
        """Run an operation on a trigger, and log its result or its error."""
        try:
            await operation
        except RequestError as error:
            self._report(f"trigger {name}: {error}")
        else:
            logger.info("trigger %s is %s", name, result)

    def _report(self, text: str, error: Exception | None = None) -> None:
        """Log a warning, each text once."""
        if text not in self._reported:
            self._reported.add(text)
            logger.warning("%s", text, exc_info=error)


def _declaration(name: str, settings: _Settings) -> _Declaration:
    return name, frozenset(settings["TableNames"])


def _start(wanted: _Wanted, created_ms: int) -> _Settings:
    """Return the Start of a declared trigger; by default the time of its declaration."""
    start: _Settings = wanted.settings["Start"]
    if wanted.has_start or created_ms < wanted.since_ms:
        return start
    return {"At": "TIME", "Time": wanted.since_ms}


def _start_without_kept_tables(wanted: _Wanted, recreated_ms: int | None) -> _Settings:
    """Return the Start of a trigger that keeps none of its tables. It misses no change of a recreated table."""
    start: _Settings = wanted.settings["Start"]
    if wanted.has_start and start["At"] not in ("NOW", "HORIZON"):
        return start
    since_ms = wanted.since_ms if recreated_ms is None else min(wanted.since_ms, recreated_ms)
    return {"At": "TIME", "Time": since_ms}


def _is_recreated(current: Subscription, table: TableDefinition) -> bool:
    """Return whether the subscription has an older table of the same name."""
    return dict(current.tables).get(table.name, table.id) != table.id


def _differences(wanted: _Settings, current: _Settings) -> _Settings:
    """Return the settings to change. Start is left out: it has no effect on an existing subscription."""
    return {
        member: value
        for member, value in wanted.items()
        if member not in ("Start", "TableNames") and value != current.get(member)
    }


def _is_declared(subscription: Subscription) -> bool:
    return subscription.settings["DeclaredIn"] is not None
