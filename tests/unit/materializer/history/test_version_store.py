"""The newest versions that a store of versions keeps in memory, so that most writes look for nothing on disk."""

from typing import Any

import pytest

from foldb.materializer.fold.storage import Stored
from foldb.materializer.history.engine import VersionCursor
from foldb.materializer.history.memory_engine import MemoryEngine
from foldb.materializer.history.timeline import Figures
from foldb.materializer.history.version_keys import pack_position
from foldb.materializer.history.version_store import VersionStore, VersionWriter

GENERATION = 32 << 20  # the bytes of newest versions at which the next generation begins


class Cursor:
    """Counts the searches for a key."""

    def __init__(self, cursor: VersionCursor, seeks: list[bytes]) -> None:
        self._cursor = cursor
        self._seeks = seeks

    def __getattr__(self, name: str) -> object:
        return getattr(self._cursor, name)

    def seek(self, key: bytes) -> bytes | None:
        self._seeks.append(key)
        return self._cursor.seek(key)


class Searched(MemoryEngine):
    """A storage that counts the searches of its writer."""

    def __init__(self) -> None:
        super().__init__()
        self.seeks: list[bytes] = []

    def chains(self) -> Any:
        return Cursor(super().chains(), self.seeks)


class Written:
    """A store that is written item by item, a record for each."""

    def __init__(self) -> None:
        self.engine = Searched()
        self.writer = VersionWriter(self.engine)
        self.store = self.opened(Figures(0, 0))
        self.records = 0

    def opened(self, figures: Figures) -> VersionStore:
        return VersionStore(self.engine, self.writer, 1, figures)

    def write(self, key: bytes, item: Stored | None) -> None:
        self.records += 1
        self.writer.begin_write(self.records, pack_position(self.records, 0))
        if item is None:
            self.store.remove(key, b"")
        else:
            self.store.put(key, b"", item)
        self.writer.end_record(self.records)
        self.writer.flush()

    def next_generation(self) -> None:
        """Write an item of the size of a generation."""
        self.write(b"large", (b"%d" % self.records, GENERATION + 1))


@pytest.fixture
def written() -> Written:
    return Written()


def test_new_keys_of_a_store_that_began_empty_are_not_looked_for(written: Written) -> None:
    for number in range(20):
        written.write(b"%d" % number, (b"item", 4))

    assert [] == written.engine.seeks


@pytest.mark.parametrize("generations", range(5))
def test_an_item_is_found_in_each_generation_after_it(written: Written, generations: int) -> None:
    written.write(b"kept", (b"item", 4))
    written.write(b"removed", (b"item", 4))
    written.write(b"removed", None)
    for _ in range(generations):
        written.next_generation()

    assert (b"item", 4) == written.store.get(b"kept", b"")
    assert written.store.get(b"removed", b"") is None
    assert (generations < 2) == (written.engine.seeks == []), "two generations are in memory"


def test_a_store_that_had_items_is_looked_through(written: Written) -> None:
    written.write(b"kept", (b"item", 4))
    written.writer.reset()
    written.store = written.opened(Figures(1, 4))

    assert (b"item", 4) == written.store.get(b"kept", b"")


def test_the_next_epoch_knows_which_items_are_in_memory(written: Written) -> None:
    written.write(b"kept", (b"item", 4))
    older = written.store
    written.engine = Searched()  # its base is not copied
    writer, written.writer = written.writer, VersionWriter(written.engine)
    written.writer.inherit(writer)
    written.store = written.opened(Figures(1, 4))
    written.store.inherit(older)

    assert (b"item", 4) == written.store.get(b"kept", b"")
    assert written.store.get(b"new", b"") is None
    assert [] == written.engine.seeks
