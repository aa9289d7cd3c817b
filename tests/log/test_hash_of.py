"""The hash of a record tells one history from another."""

import pytest

from foldb.log.disk import Disk
from foldb.log.history import History
from foldb.log.reader import LogReader

from .fake_disk import FakeDisk
from .local_logs import FOLDER, append, log_of, open_log
from .samples import put_entry


def test_writer_and_reader_know_the_same_hash_of_every_record() -> None:
    disk = log_of(30, segment_bytes=4000)
    log, reader = open_log(disk), LogReader(FOLDER, disk)

    hashes = [log.hash_of(0, offset) for offset in range(31)]

    assert hashes == [reader.hash_of(0, offset) for offset in range(31)]
    assert 31 == len(set(hashes))
    assert len([name for name in disk.names(FOLDER) if name.endswith(".avro")]) > 2


def test_a_record_keeps_its_hash_and_another_in_its_place_has_another() -> None:
    one, other = log_of(5), log_of(5)
    append(open_log(one), put_entry(5))
    append(open_log(other), put_entry(6))

    assert LogReader(FOLDER, one).hash_of(0, 5) == LogReader(FOLDER, other).hash_of(0, 5)
    assert LogReader(FOLDER, one).hash_of(0, 6) != LogReader(FOLDER, other).hash_of(0, 6)


def test_where_there_is_no_record_there_is_no_hash() -> None:
    with pytest.raises(LookupError):
        LogReader(FOLDER, log_of(5)).hash_of(0, 6)


@pytest.mark.parametrize("offset", range(0, 30, 3))
def test_what_follows_is_read_without_the_segments_before_it(
    offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: Disk = log_of(30, FakeDisk(), segment_bytes=4000)
    reader = LogReader(FOLDER, disk)
    read: list[int] = []
    data = History.data

    def watched(history: History, header, size=None):  # type: ignore[no-untyped-def]
        read.append(header.chain.sequence)
        return data(history, header, size)

    monkeypatch.setattr(History, "data", watched)
    reader.hash_of(0, offset)
    [looked_in] = read
    read.clear()

    records = [record.offset for record in reader.read(0, offset + 1)]

    assert [*range(offset + 1, 31)] == records
    assert looked_in <= offset
    assert looked_in == min(read)
