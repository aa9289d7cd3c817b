"""A copied history is the same history."""

import itertools
import queue
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from foldb.log.copy import copy, first_entries, original
from foldb.log.local import LocalLog
from foldb.log.log import Deliver
from foldb.model.errors import ForeignLogError
from tests.unit.log.samples import put_entry

TICKS = itertools.count(5000, 7)


def opened(folder: Path, deliver: Deliver = lambda callback: callback(), **options: object) -> LocalLog:
    return LocalLog(
        folder,
        clock=lambda: next(TICKS),
        deliver=deliver,
        random_bytes=lambda size: str(folder).encode()[-size:].rjust(size),
        on_fatal=lambda error: None,
        **options,  # type: ignore[arg-type]
    )


def append(log: LocalLog, partition: int, *numbers: int) -> None:
    reported: queue.SimpleQueue[object] = queue.SimpleQueue()
    for number in numbers:
        log.append(partition, replace(put_entry(number), entry_number=number), reported.put)
        reported.get(timeout=10)


def copied(source: LocalLog, folder: Path, reported: list[int] | None = None) -> int:
    deliveries: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    target = opened(folder, deliveries.put, first=first_entries(source))
    noted: list[int] = [] if reported is None else reported
    try:
        return copy(source, target, deliveries, noted.append)
    finally:
        target.close()


def history(log: LocalLog) -> list[tuple[object, ...]]:
    return [
        (record.partition, record.offset, original(record))
        for partition in range(log.partitions)
        for record in log.read(partition)
    ]


@pytest.fixture
def source(tmp_path: Path) -> LocalLog:
    log = opened(tmp_path / "source", partitions=3)
    append(log, 1, *range(300))
    append(log, 2, 0, 1)
    return log


def test_offsets_times_and_entries_are_those_of_the_source(source: LocalLog, tmp_path: Path) -> None:
    assert 302 == copied(source, tmp_path / "target")

    target = opened(tmp_path / "target")
    assert history(source) == history(target)
    assert source.log_id == target.log_id


def test_a_copy_of_a_copy_keeps_the_first_times(source: LocalLog, tmp_path: Path) -> None:
    copied(source, tmp_path / "one")
    one = opened(tmp_path / "one")
    copied(one, tmp_path / "two")

    assert history(source) == history(opened(tmp_path / "two"))


def test_a_later_copy_adds_the_new_records(source: LocalLog, tmp_path: Path) -> None:
    copied(source, tmp_path / "target")
    append(source, 1, 300, 301)
    reported: list[int] = []

    assert 2 == copied(source, tmp_path / "target", reported)
    assert sum(reported) == sum(map(source.end, range(3)))
    assert 0 == copied(source, tmp_path / "target")


def test_a_target_that_was_written_is_refused(source: LocalLog, tmp_path: Path) -> None:
    copied(source, tmp_path / "target")
    target = opened(tmp_path / "target")
    append(target, 1, 300)
    target.close()

    with pytest.raises(
        ForeignLogError, match=r"is longer than that of the source: .* Serve only one of them"
    ):
        copied(source, tmp_path / "target")
    append(source, 1, 300)
    append(source, 2, 2)
    with pytest.raises(ForeignLogError, match="record 1:301 of the target is not that of the source"):
        copied(source, tmp_path / "target")


def test_a_target_of_another_log_is_refused(source: LocalLog, tmp_path: Path) -> None:
    opened(tmp_path / "target", partitions=3).close()

    with pytest.raises(ForeignLogError, match="name an empty target"):
        copied(source, tmp_path / "target")


def test_a_target_with_another_writer_is_noticed(source: LocalLog, tmp_path: Path) -> None:
    deliveries: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    target = opened(tmp_path / "target", deliveries.put, first=first_entries(source))
    target.append(1, put_entry(7), lambda result: None)
    deliveries.get(timeout=10)()

    with pytest.raises(ForeignLogError, match="is not that of the source"):
        copy(source, target, deliveries)
