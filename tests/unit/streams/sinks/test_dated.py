"""Each change stands in one file, whatever happens between the writing of two."""

import errno
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from foldb.streams.formats.lines import PlainLines
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks.dated_folders import DatedFolders
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.streams.deliveries import ORDERS, TIME, delivery, numbered, order

ROOT = Path("/lake")
DAY = 86_400_000


def folders(disk: FakeDisk, writer: str = "receipts") -> DatedFolders:
    return DatedFolders(disk, ROOT, PlainLines(), writer, by_table=True)


def files(disk: FakeDisk) -> dict[Path, bytes]:
    """Those that readers of such folders see."""
    return {path: bytes(node.cached) for path, node in disk.names_cached.items() if path.name[0] != "."}


def found(disk: FakeDisk) -> Counter[str]:
    """How often each change stands in a file."""
    return Counter(id_ for data in files(disk).values() for id_ in PlainLines().ids(data))


def ids(changes: list[Delivery]) -> Counter[str]:
    return Counter(map(PlainLines().id, changes))


def test_a_file_is_named_after_what_is_in_it() -> None:
    disk = FakeDisk()
    changes = numbered(2)

    folders(disk).write(changes)

    first, last = (each.change.sequence_number for each in changes)
    [(path, data)] = files(disk).items()
    assert Path(f"/lake/table=Orders/date=2023-11-14/0-{first}-{last}") == path.with_name(
        path.name[: -len("-12345678.jsonl")]
    )
    assert PlainLines().encode(changes) == data


def test_tables_days_and_partitions_have_files_of_their_own() -> None:
    disk = FakeDisk()
    other = replace(ORDERS, id=8, name="Others")
    changes = [
        delivery(None, order(), 1),
        delivery(None, order(), 2, time=TIME + DAY),
        delivery(None, order(), 3, partition=2),
        delivery(None, order(), 4, table=other),
    ]

    folders(disk).write(changes)

    assert [
        ("table=Orders", "date=2023-11-14", "0"),
        ("table=Orders", "date=2023-11-14", "2"),
        ("table=Orders", "date=2023-11-15", "0"),
        ("table=Others", "date=2023-11-14", "0"),
    ] == sorted((path.parts[2], path.parts[3], path.name.partition("-")[0]) for path in files(disk))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_that_is_written_again_leaves_what_is_there(*, restarted: bool) -> None:
    disk = FakeDisk()
    lake = folders(disk)
    lake.write(numbered(5))
    before = files(disk)

    (folders(disk) if restarted else lake).write(numbered(5))

    assert before == files(disk)


def test_of_a_batch_that_was_cut_elsewhere_only_what_is_new_is_written() -> None:
    disk = FakeDisk()
    changes = numbered(10)
    folders(disk).write(changes[:6])

    folders(disk).write(changes[3:])

    assert [6, 4] == [len(data.splitlines()) for data in files(disk).values()]
    assert ids(changes) == found(disk)


def test_items_of_a_snapshot_share_a_number_and_are_told_apart_by_their_keys() -> None:
    disk = FakeDisk()
    items = [delivery(None, order(order=nth), 9, is_read=True) for nth in range(6)]
    lake = folders(disk)
    for part in (items[:2], items[1:4], items[2:]):
        lake.write(part)

    assert ids(items) == found(disk)


def test_a_full_disk_leaves_no_half_a_file() -> None:
    disk = FakeDisk()
    lake = folders(disk)
    lake.write(numbered(2))
    disk.space = disk.used() + 10
    with pytest.raises(OSError, match="space"):
        lake.write(numbered(2, start=3))
    assert ids(numbered(2)) == found(disk)

    disk.space = None
    lake.write(numbered(3, start=2))

    assert ids(numbered(4)) == found(disk)


def test_a_file_that_somebody_took_away_holds_up_one_delivery() -> None:
    disk = FakeDisk()
    folders(disk).write(numbered(2))
    [path] = files(disk)
    lake = folders(disk)
    lake.write(numbered(1, start=9))
    disk.remove(path)
    with pytest.raises(FileNotFoundError):
        lake.write(numbered(3))

    lake.write(numbered(3))

    assert ids(numbered(3)) + ids(numbered(1, start=9)) == found(disk)


class Lanes:
    """A subscription that delivers to folders, loses its power or its process, and goes on from its checkpoint."""

    def __init__(self, dice: random.Random, changes: list[Delivery]) -> None:
        self.dice = dice
        self.disk = FakeDisk()
        self.changes = changes
        self.done = 0  # the checkpoint: so many are handled for ever

    def run(self) -> None:
        while self.done < len(self.changes):
            self.disk.hook = self._trouble
            try:
                self._deliver()
            except PowerCut:
                self.disk.power_cut(self.dice)
            except OSError:
                pass  # the process is started anew

    def _trouble(self, call: str, path: Path) -> None:
        roll = self.dice.random()
        if roll < 0.03:
            raise PowerCut
        if roll < 0.06:
            raise OSError(errno.EIO, "input/output error", str(path))

    def _deliver(self) -> None:
        """From the checkpoint on, in lanes by key; what is handled beyond a gap is delivered again after a crash."""
        lake, lanes = folders(self.disk), self.dice.choice([1, 2, 3])
        at = self.done
        while at < len(self.changes):
            part = self.changes[at : at + self.dice.randrange(1, 12)]
            batches = [[each for each in part if each.change.pk[-1] % lanes == lane] for lane in range(lanes)]
            for batch in self.dice.sample(batches, lanes):
                try:
                    lake.write(batch)
                except OSError:  # not the end of the process: it is tried again, in two
                    half = len(batch) // 2
                    lake.write(batch[:half])
                    lake.write(batch[half:])
            at += len(part)
            if self.dice.random() < 0.3:
                self.done = at
        self.done = at


@pytest.mark.guarantee("G43")
@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_each_change_stands_in_one_file(seed: int) -> None:
    dice = random.Random(seed)
    changes = [
        delivery(None, order(f"customer-{dice.randrange(9)}", nth), nth, time=TIME + nth * DAY // 50)
        for nth in range(60)
    ]
    lanes = Lanes(dice, changes)

    lanes.run()

    assert ids(changes) == found(lanes.disk)
