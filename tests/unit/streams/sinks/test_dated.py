"""Dated folders hold each change in one file, also after crashes and disk errors."""

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
    """Return the files that readers of the folders see."""
    return {path: bytes(node.cached) for path, node in disk.names_cached.items() if path.name[0] != "."}


def found(disk: FakeDisk) -> Counter[str]:
    """Return the number of files that hold each change."""
    return Counter(id_ for data in files(disk).values() for id_ in PlainLines().ids(data))


def ids(changes: list[Delivery]) -> Counter[str]:
    return Counter(map(PlainLines().id, changes))


def test_the_name_of_a_file_follows_from_its_content() -> None:
    disk = FakeDisk()
    changes = numbered(2)

    folders(disk).write(changes)

    first, last = (each.change.sequence_number for each in changes)
    [(path, data)] = files(disk).items()
    assert Path(f"/lake/table=Orders/date=2023-11-14/0-{first}-{last}") == path.with_name(
        path.name[: -len("-12345678.jsonl")]
    )
    assert PlainLines().encode(changes) == data


def test_tables_days_and_partitions_have_separate_files() -> None:
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
def test_a_repeated_batch_changes_no_file(*, restarted: bool) -> None:
    disk = FakeDisk()
    lake = folders(disk)
    lake.write(numbered(5))
    before = files(disk)

    (folders(disk) if restarted else lake).write(numbered(5))

    assert before == files(disk)


def test_only_new_changes_of_an_overlapping_batch_are_written() -> None:
    disk = FakeDisk()
    changes = numbered(10)
    folders(disk).write(changes[:6])

    folders(disk).write(changes[3:])

    assert [6, 4] == [len(data.splitlines()) for data in files(disk).values()]
    assert ids(changes) == found(disk)


def test_items_of_a_snapshot_are_distinguished_by_key() -> None:
    disk = FakeDisk()
    items = [delivery(None, order(order=nth), 9, is_read=True) for nth in range(6)]
    lake = folders(disk)
    for part in (items[:2], items[1:4], items[2:]):
        lake.write(part)

    assert ids(items) == found(disk)


def test_a_full_disk_leaves_no_partial_file() -> None:
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


def test_a_removed_file_fails_one_delivery() -> None:
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
    """A subscription that delivers to folders, crashes, and continues from its checkpoint."""

    def __init__(self, dice: random.Random, changes: list[Delivery]) -> None:
        self.dice = dice
        self.disk = FakeDisk()
        self.changes = changes
        self.done = 0  # the checkpoint: the number of changes that are not delivered again

    def run(self) -> None:
        while self.done < len(self.changes):
            self.disk.hook = self._trouble
            try:
                self._deliver()
            except PowerCut:
                self.disk.power_cut(self.dice)
            except OSError:
                pass  # the process restarts

    def _trouble(self, call: str, path: Path) -> None:
        roll = self.dice.random()
        if roll < 0.03:
            raise PowerCut
        if roll < 0.06:
            raise OSError(errno.EIO, "input/output error", str(path))

    def _deliver(self) -> None:
        """Deliver from the checkpoint on, in lanes by key. After a crash changes beyond a gap are delivered again."""
        lake, lanes = folders(self.disk), self.dice.choice([1, 2, 3])
        at = self.done
        while at < len(self.changes):
            part = self.changes[at : at + self.dice.randrange(1, 12)]
            batches = [[each for each in part if each.change.pk[-1] % lanes == lane] for lane in range(lanes)]
            for batch in self.dice.sample(batches, lanes):
                try:
                    lake.write(batch)
                except OSError:  # the process survives: it retries in two parts
                    half = len(batch) // 2
                    lake.write(batch[:half])
                    lake.write(batch[half:])
            at += len(part)
            if self.dice.random() < 0.3:
                self.done = at
        self.done = at


@pytest.mark.guarantee("G43")
@pytest.mark.parametrize("seed", range(40))
def test_after_any_crash_each_change_is_in_one_file(seed: int) -> None:
    dice = random.Random(seed)
    changes = [
        delivery(None, order(f"customer-{dice.randrange(9)}", nth), nth, time=TIME + nth * DAY // 50)
        for nth in range(60)
    ]
    lanes = Lanes(dice, changes)

    lanes.run()

    assert ids(changes) == found(lanes.disk)
