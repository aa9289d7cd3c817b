"""The feed according to the log: folded from nothing, without a server."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from foldb.log.commands import Record
from foldb.log.local import LocalLog
from foldb.materializer.fold.outcomes import Change
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import fold_record
from foldb.streams.changes import changes
from tests.verification.audits.judge import Seen, Shards
from tests.verification.audits.ledger import version_of


def refolded(folder: Path, only: int | None = None) -> Shards:
    """Return the changes of each partition of the log in a folder, of one table or of all."""
    log = LocalLog.open_reader(folder)
    return {
        f"-{partition:04x}": [
            seen_in_log(change)
            for change in all_changes(log.read(partition))
            if only is None or change.table == only
        ]
        for partition in range(log.partitions)
    }


def all_changes(records: Iterable[Record]) -> Iterator[Change]:
    """Yield every change of one partition's log, by a refold."""
    state = PartitionState()
    for record in records:
        yield from changes(fold_record(state, record))


def seen_in_log(change: Change) -> Seen:
    """Return a change of the fold as a reader of the feed sees it."""
    old, new = (_item(image) for image in (change.old, change.new))
    item = new or old
    assert item is not None
    return Seen(
        change.sequence_number,
        item["pk"]["S"],
        version_of(old),
        version_of(new),
        change.context.source == "ttl",
    )


def _item(image: bytes | None) -> dict[str, Any] | None:
    return None if image is None else orjson.loads(image)


def by_partition(shards: Shards) -> Shards:
    """Return the changes of each partition with changes; a shard id has the form `shardId-<ms>-<partition><nth>`."""
    joined: Shards = {}
    for shard, seen in shards.items():
        joined.setdefault(shard.rpartition("-")[2][:4], []).extend(seen)
    return {partition: seen for partition, seen in joined.items() if seen}
