"""A table refolded from the log beside the live one, compared with it, and put in its place; or one index of it.

It goes in short portions on the node's loop, with other requests in between. When it has caught up, comparing and
installing happen in one turn of the loop, so no write falls between them. A table that is spread over partitions is
rebuilt partition after partition. Nothing of it outlives the process: after a crash the start refolds everything.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from ...log.commands import Record
from ...log.log import Log
from ...materializer.fold.state import PartitionState, Table
from ...materializer.partition import Place
from ...materializer.rebuild import Rebuild
from ...model.errors import FoldbError, InternalServerError, RequestError, ResourceNotFoundError
from ..reply import Reply
from ..routing import joined
from .hosted import Hosted

# Commands folded before others have their turn: about ten milliseconds. More than an entry holds, and so
# more than can be written in a turn of the loop: a rebuild always catches up.
_PORTION = 600
# An asker is answered when it is done, or after so long.
_ANSWER_AFTER_S = 0.5

logger = logging.getLogger(__name__)


class RebuildJob:
    """One rebuild, from its first portion to its answer."""

    def __init__(
        self,
        parts: Sequence[Hosted],
        log: Log,
        loop: asyncio.AbstractEventLoop,
        name: str,
        number: int,
        index: str | None = None,
    ) -> None:
        """Take a job on, in these partitions; `index` names the one index to rebuild, None means the whole table."""
        self.name = name
        self.number = number
        self._index = index
        self.finished = False
        self._parts = parts
        self._nth = 0  # the partition that is under way
        self._log = log
        self._loop = loop
        self._work = Rebuild(self._live.voided)
        self._records: Iterator[Record] = iter(())
        self._items = 0
        self._same = True
        self._result: dict[str, Any] | RequestError = {}
        self._waiting: list[Callable[[], None]] = []

    def go_on(self) -> None:
        """Fold a portion; in the turn in which it has caught up with the live state, go to the next, or be done."""
        try:
            if self._fold():
                self._loop.call_soon(self.go_on)
                return
            self._install()
            if self._nth + 1 < len(self._parts):
                self._nth += 1
                # The rebuilt state was as large as the live one.
                self._work, self._records = Rebuild(self._live.voided), iter(())
                self._loop.call_soon(self.go_on)
            else:
                self._finish({"Position": self._text(), "Items": self._items, "Same": self._same})
        except RequestError as error:
            self._finish(error)  # the table was deleted meanwhile
        except FoldbError:
            # The live table stays as it is. What is wrong with the log is `foldb verify`'s to say.
            logger.exception("the rebuild of %s stopped", self.name)
            self._finish(InternalServerError(f"The table {self.name} could not be rebuilt from the log"))

    def tell(self, reply: Reply) -> None:
        """Answer when it is done, or with how far it is."""
        told = False

        def answer() -> None:
            nonlocal told
            if not told:
                told = True
                self._answer(reply)

        if self.finished:
            answer()
        else:
            self._waiting.append(answer)
            self._loop.call_later(_ANSWER_AFTER_S, answer)

    @property
    def _live(self) -> PartitionState:
        return self._parts[self._nth].state

    @property
    def _position(self) -> Place:
        return joined(part.worker.position for part in self._parts)

    def _text(self) -> str:
        assert self._live.genesis is not None, "every log begins with Genesis"
        return self._position.text(self._live.genesis.partitions)

    def _fold(self) -> bool:
        """Fold a portion, and say whether there is more."""
        live = self._live.next_offset
        more = self._work.fold(self._records, _PORTION, until=live)
        if not more and self._work.state.next_offset < live:
            self._records = self._log.read(self._parts[self._nth].number, self._work.state.next_offset)
            more = self._work.fold(self._records, _PORTION, until=live)
        return more

    def _install(self) -> None:
        table = self._live.table_named(self.name)
        if table is None:
            raise ResourceNotFoundError(f"The table {self.name} was deleted while it was rebuilt")
        if self._index is not None:
            self._install_index(table, self._index)
            return
        self._same &= self._work.agrees_with(table)
        self._work.install(self._live, table.definition.id)
        self._items += self._live.tables[table.definition.id].items.count

    def _install_index(self, table: Table, name: str) -> None:
        if name not in table.indexes:
            raise ResourceNotFoundError(f"The index {name} was deleted while it was rebuilt")
        same = self._work.index_agrees_with(table, name)
        # Entries share bytes with the items of their table. Those of the rebuilt index share with items that are about
        # to be dropped, so an index that is right already is kept: another would cost its size in memory.
        if not same:
            self._work.install_index(self._live, table.definition.id, name)
        self._same &= same
        self._items += table.indexes[name].store.count

    def _finish(self, result: dict[str, Any] | RequestError) -> None:
        self._result = result
        self.finished = True
        self._work, self._records = Rebuild(), iter(())
        for answer in self._waiting:
            answer()
        self._waiting.clear()

    def _answer(self, reply: Reply) -> None:
        if isinstance(self._result, RequestError):
            reply.error(self._result, self._position)
            return
        ends = [part.state.next_offset for part in self._parts]
        progress = {
            "Id": self.number,
            "Status": "DONE" if self.finished else "RUNNING",
            "Folded": sum(ends[: self._nth]) + self._work.state.next_offset,
            "End": sum(ends),
        }
        reply.ok(orjson.dumps(progress | self._result), self._position)
