"""The changes of a table in memory."""

from foldb.log.commands import new_context
from foldb.materializer.fold.feed.capture import CapturePeriod
from foldb.materializer.fold.outcomes import Change
from foldb.model.key_schema import KeySchema
from foldb.streams.feed.change_store import ChangeStore
from foldb.streams.feed.change_writer import MAX_TABLE_BYTES
from foldb.streams.feed.table_changes import TableChanges


def test_memory_has_the_changes_between_two_polls_of_a_reader() -> None:
    """A busy table has 20,000 changes of 1 KB a second, and its readers poll four times a second."""
    schema, image = KeySchema.from_json([["pk", "S", "HASH"]]), bytes(250)
    stream = CapturePeriod(1, 7, "Orders", schema, "NEW_AND_OLD_IMAGES", 1 << 40, 0)
    table = TableChanges(1, ChangeStore(None, b"", 0).segments(1, 0))
    kept = []
    for number in range(1, 40_001):
        table.append(Change(1, b"a", b"", image, image, number, number, new_context("r")), stream)
        table.stored = number
        table.evict_stored(MAX_TABLE_BYTES)
        kept.append(len(table.recent))

    assert min(kept[5_000:]) >= 5_000
    assert max(kept) < 20_000
