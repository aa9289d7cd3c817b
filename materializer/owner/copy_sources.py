"""The sources of the items of tables that are being restored or imported.

the past of another table, at a cut     progress: RestoreProgress, with the cursor
files (job_files.py)                    progress: JobProgress, with the cursor and the counts
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import orjson

from ...log.commands import Command, LoadedItem, Position, RestoreProgress, new_context
from ...model.cuts import parse_positions
from ...model.errors import JobFailedError, RequestError, ResourceNotFoundError
from ...model.jobs import Job
from ...model.key_schema import KeySchema
from ...model.limits import Limits
from ...model.slots import data_partitions
from ...model.tables import Restore, TableDefinition
from ...model.values import Item, item_size, load
from ..fold.state import PartitionState
from ..history.requests import Cuts, DescribeTables, PartitionWithHistory, PastAnswer, at_instant
from ..partition import Page, ResultPosition, ScanRequest
from .job_files import InputPage, JobFiles, JobInput, job_progress

PAGE_ITEMS = 5_000
"""Items of a page, at most; one of 1 MB has fewer if they are larger. The progress is durable after each page."""

_RESTORER: Final = new_context(request_id="", source="restore")


class SourcePage(NamedTuple):
    """A page of a source: items, and the cursor after them."""

    items: Iterable[LoadedItem]
    following: bytes


class CopySource(Protocol):
    """The source of the items of one table. A cursor is a place in it, after which a copy continues."""

    @property
    def cursor(self) -> bytes:
        """The cursor in the state."""
        ...

    def is_end(self, cursor: bytes) -> bool: ...

    def read(self, cursor: bytes, done: Callable[[SourcePage | RequestError], None]) -> None:
        """Read the page after a cursor."""
        ...

    def progress(self, cursor: bytes, *, done: bool) -> Command:
        """Return the command that all items up to a cursor are loaded."""
        ...

    def close(self) -> None: ...


class PastSource:
    """The past of a table. A cursor is a JSON array of a partition and the JSON text of a key there.

    The key is None at the beginning of the partition. At the end, the partition is the one after the last.
    """

    def __init__(
        self,
        state: PartitionState,
        partitions: Sequence[PartitionWithHistory],
        definition: TableDefinition,
    ) -> None:
        assert definition.restore is not None, "the table is being restored"
        self._state = state
        self._partitions = partitions
        self._definition = definition
        self._restore = definition.restore
        self._cuts = _cuts(self._restore)

    @property
    def cursor(self) -> bytes:
        return self._state.restores.get(self._definition.id) or _cursor(self._own.start)

    def is_end(self, cursor: bytes) -> bool:
        return orjson.loads(cursor)[0] not in self._own

    def read(self, cursor: bytes, done: Callable[[SourcePage | RequestError], None]) -> None:
        partition_id, key = orjson.loads(cursor)
        start = None if key is None else key_of(self._definition.key, load(key.encode()))
        request = ScanRequest(self._restore.source_id, None, start=start, limit=PAGE_ITEMS, keyed=True)

        def on_answer(answer: PastAnswer | RequestError, _: ResultPosition) -> None:
            if key is None:
                self._build(partition_id + 1)
            if isinstance(answer, ResourceNotFoundError):  # the partition had no such table at the cut
                done(SourcePage((), _cursor(partition_id + 1)))
            elif isinstance(answer, RequestError):
                done(answer)
            else:
                assert isinstance(answer, Page), "the answer to a scan is a page"
                last = answer.last
                following = _cursor(partition_id + 1) if last is None else _cursor(partition_id, last)
                done(SourcePage(_loaded(answer, self._definition.key, self._state.limits), following))

        self._partitions[partition_id].as_of(
            self._cuts.of(partition_id), at_instant(request, self._cuts.instant(partition_id)), on_answer
        )

    def _build(self, partition_id: int) -> None:
        """Begin to fold the history of the next partition, while this one is copied."""
        if partition_id in self._own:
            cut = self._cuts.of(partition_id)
            self._partitions[partition_id].as_of(cut, DescribeTables(()), lambda *_: None)

    def progress(self, cursor: bytes, *, done: bool) -> Command:
        return RestoreProgress(self._definition.id, cursor, done, _RESTORER)

    def close(self) -> None:
        """Do nothing: a read of the past completes by itself."""

    @property
    def _own(self) -> range:
        return data_partitions(self._state.partitions)


def _cursor(partition_id: int, key: bytes | None = None) -> bytes:
    return orjson.dumps([partition_id, None if key is None else key.decode()])


class ImportSource:
    """The files of an import. A cursor is the JSON object of a place in the files, and of the counts up to there.

    The place is that of `JobInput`, and None at the beginning. An object with `end` is the end of the files. One with
    `failure` is the end of an import that cannot go on.
    """

    def __init__(self, state: PartitionState, files: JobFiles, definition: TableDefinition) -> None:
        self._state = state
        self._files = files
        self._definition = definition
        self._input: JobInput | None = None
        self._next: bytes | None = None  # the cursor of the open input
        self._is_closed = False

    @property
    def cursor(self) -> bytes:
        cursor = self._job.cursor
        return _import_cursor(None, {}) if cursor is None else cursor.encode()

    def is_end(self, cursor: bytes) -> bool:
        place = orjson.loads(cursor)
        return "end" in place or "failure" in place

    def read(self, cursor: bytes, done: Callable[[SourcePage | RequestError], None]) -> None:
        opened, self._input = self._input, None
        if opened is not None and self._next != cursor:
            self._files.submit(opened.close, lambda _: None)
            opened = None
        place, job = orjson.loads(cursor), self._job

        def work() -> tuple[JobInput, InputPage]:
            source = opened or self._files.open_input(job, self._definition, place["place"])
            return source, source.read(PAGE_ITEMS)

        def on_read(answer: tuple[JobInput, InputPage] | Exception) -> None:
            if isinstance(answer, JobFailedError):
                failure = [answer.code, answer.message]
                following = _import_cursor(place["place"], place["counts"], failure=failure)
                done(SourcePage((), following))
            elif isinstance(answer, Exception):
                raise answer
            else:
                self._input, page = answer
                counts = added(place["counts"], page.counts)
                end = {"end": True} if page.is_last else {}
                self._next = _import_cursor(page.place, counts, **end)
                if self._is_closed or page.is_last:
                    self.close()
                items = [LoadedItem(put.pk, put.sk, put.item, put.size) for put in page.puts]
                done(SourcePage(items, self._next))

        self._files.submit(work, on_read)

    def progress(self, cursor: bytes, *, done: bool) -> Command:
        place = orjson.loads(cursor)
        status = "FAILED" if "failure" in place else "COMPLETED"
        return job_progress(
            self._job,
            cursor.decode(),
            place["counts"],
            status=status if done else None,
            failure=place.get("failure"),
        )

    def close(self) -> None:
        self._is_closed = True
        if self._input is not None:
            self._files.submit(self._input.close, lambda _: None)
            self._input = None

    @property
    def _job(self) -> Job:
        restore = self._definition.restore
        assert restore is not None, "the table is being imported"
        return self._state.jobs[restore.source_arn]


def added(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    """Return the sums of figures by name."""
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}


def _import_cursor(place: Any, counts: dict[str, int], **end: Any) -> bytes:
    return orjson.dumps({"place": place, "counts": counts, **end}, option=orjson.OPT_SORT_KEYS)


def _cuts(restore: Restore) -> Cuts:
    """Return the cut of each partition at which a restore reads."""
    named = parse_positions(restore.positions) if restore.positions else ()
    positions = [Position(each.partition or 0, each.offset, each.index) for each in named]
    return Cuts({each.partition: each for each in positions}, restore.cut_ms)


def _loaded(page: Page, key: KeySchema, limits: Limits) -> Iterator[LoadedItem]:
    """Return the items of a page with their keys and sizes, which a node of the release before does not send."""
    if page.keys is not None:
        yield from map(LoadedItem, page.keys.pks, page.keys.sks, page.items, page.keys.sizes)
        return
    for data in page.items:
        item = load(data)
        yield LoadedItem(*key_of(key, item), data, item_size(item, limits))


def key_of(key: KeySchema, item: Item) -> tuple[bytes, bytes]:
    """Return the key of an item, which has its key attributes."""
    pk, sk = key.pk(item), key.sk(item)
    assert pk is not None, "an item has its partition key"
    assert sk is not None, "an item has its sort key"
    return pk, sk
