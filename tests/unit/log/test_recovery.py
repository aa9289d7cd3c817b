"""A log opens again after any damage by a crash, and refuses all other damage."""

import json
import random
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldb.log import codec
from foldb.log.codec import CURRENT
from foldb.log.local import segment
from foldb.log.local.durable_position import DurablePosition, read_mark
from foldb.log.local.filesystem import create_file
from foldb.log.local.reader import LogReader
from foldb.model.errors import CorruptionError, ForeignLogError, LogError, LogLockedError, NewerVersionError
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FIRST, FOLDER, Held, append, log_of, numbers, open_log
from tests.unit.log.samples import put_entry

pytestmark = pytest.mark.usefixtures("both_writers")

MARK = FOLDER / "mark"


def data_of(disk: FakeDisk, path: Path = FIRST) -> bytes:
    return bytes(disk.names_cached[path].cached)


def block_ends(data: bytes) -> list[int]:
    """Where the blocks of a whole segment end."""
    header = segment.read_header(data)
    ends, chain = [header.size], header.chain.copy()
    while ends[-1] < len(data):
        ends.append(segment.read_block(data, ends[-1], header.marker, chain).end)
    return ends


def flips(data: bytes, first: int, last: int, step: int) -> Iterator[tuple[int, bytes]]:
    """`data` with one bit flipped, every `step` bits."""
    for bit in range(first * 8, last * 8, step):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(damaged)


def test_a_log_goes_on_where_it_ended() -> None:
    disk = log_of(3)

    log = open_log(disk)
    append(log, put_entry(3))

    assert [0, 1, 2, 3] == numbers(log)
    assert [1000, 1001, 1002, 1003, 1003] == [record.time for record in log.read(0)]
    assert log.cut is None


@pytest.mark.guarantee("G13")
@pytest.mark.parametrize("kept", range(0, 130, 7))
def test_a_torn_last_write_is_cut_aside_and_reported(kept: int) -> None:
    """However little of the last block got to the disk, everything before it is there and nothing else is."""
    disk = log_of(3)
    data, end = data_of(disk), block_ends(data_of(disk))[-2]
    torn = data[end : end + kept]
    disk.replace(FIRST, data[:end] + torn)
    disk.remove(MARK)

    log = open_log(disk)

    assert [0, 1] == numbers(log)
    if torn:
        assert log.cut is not None
        assert (FIRST.name, end, len(torn)) == (log.cut.segment, log.cut.position, log.cut.size)
        assert {FIRST.name: data[:end], f"{FIRST.name}.torn-{end}": torn} == disk.contents(FOLDER)
    assert [0, 1, 3] == (append(log, put_entry(3)), numbers(log))[1]


def test_a_second_torn_write_gets_a_side_file_of_its_own() -> None:
    disk = log_of(1)
    whole = data_of(disk)
    for torn in (b"first", b"second"):
        disk.replace(FIRST, whole + torn)
        open_log(disk).close()

    kept = {name: data for name, data in disk.contents(FOLDER).items() if "torn" in name}
    assert {
        f"{FIRST.name}.torn-{len(whole)}": b"first",
        f"{FIRST.name}.torn-{len(whole)}+": b"second",
    } == kept


def test_zeros_after_the_last_record_are_no_torn_write() -> None:
    """The writer fills ahead with zeros, and a crash may leave a file longer than its written bytes."""
    disk = log_of(2)
    data = data_of(disk)
    disk.replace(FIRST, data + bytes(4096))

    log = open_log(disk)

    assert [0, 1] == numbers(log)
    assert log.cut is None
    assert {FIRST.name: data} == disk.contents(FOLDER)


def test_a_recovered_end_is_synced_before_it_is_served() -> None:
    """Cut, then lose power: the torn bytes must not be there again, behind records that were acknowledged since."""
    disk = log_of(2)
    disk.replace(FIRST, data_of(disk) + b"torn")
    open_log(disk)
    disk.power_cut(random.Random(1))

    assert not data_of(disk).endswith(b"torn")
    assert f"{FIRST.name}.torn-{len(data_of(disk))}" in disk.names(FOLDER)
    assert [0, 1] == numbers(open_log(disk))


@pytest.mark.guarantee("G10", "SEC20")
@pytest.mark.parametrize("with_mark", [True, False])
def test_a_flipped_bit_is_refused_by_position_without_a_change(with_mark: bool) -> None:
    """Only the last record of all is an exception, and only where the mark is lost: it looks as if it were torn."""
    disk = log_of(4)
    data = data_of(disk)
    ends = block_ends(data)
    mark = data_of(disk, MARK)

    for at, damaged in flips(data, ends[0], ends[-1], step=3):
        disk.replace(FIRST, damaged)
        if with_mark:
            disk.replace(MARK, mark)
        else:
            disk.names_cached.pop(MARK, None)
        if at >= ends[-2] and not with_mark:
            log = open_log(disk)
            assert [0, 1, 2] == numbers(log)
            log.close()
            continue
        with pytest.raises(CorruptionError, match=rf"{FIRST.name} at byte \d+") as caught:
            open_log(disk)
        found = int(caught.value.position.split("byte ")[1].split()[0])
        assert found == max(end for end in ends if end <= at)
        assert damaged == data_of(disk)


def test_a_flipped_bit_of_a_segments_head_is_refused() -> None:
    disk = log_of(1)
    data = data_of(disk)

    for _, damaged in flips(data, 0, block_ends(data)[0], step=97):
        disk.replace(FIRST, damaged)
        with pytest.raises(CorruptionError, match=rf"{FIRST.name} at byte 0"):
            open_log(disk)


def test_a_flipped_bit_of_the_mark_does_no_harm() -> None:
    disk = log_of(2)
    for _, damaged in flips(data_of(disk, MARK), 0, 32, step=1):
        disk.replace(MARK, damaged)
        log = open_log(disk)
        assert [0, 1] == numbers(log)
        log.close()


@pytest.mark.guarantee("G10")
def test_a_log_that_ends_before_its_mark_is_refused() -> None:
    disk = log_of(3)
    data, mark = data_of(disk), data_of(disk, MARK)

    for size in range(0, len(data), 13):
        disk.replace(FIRST, data[:size])
        disk.replace(MARK, mark)
        with pytest.raises(CorruptionError, match=FIRST.name):
            open_log(disk)
        assert data[:size] == data_of(disk)


@pytest.mark.guarantee("G10")
def test_two_blocks_that_changed_places_are_refused() -> None:
    disk = log_of(4)
    data = data_of(disk)
    ends = block_ends(data)
    one, two = data[ends[2] : ends[3]], data[ends[3] : ends[4]]
    disk.replace(FIRST, data[: ends[2]] + two + one + data[ends[4] :])
    disk.remove(MARK)

    with pytest.raises(CorruptionError, match=f"byte {ends[2]} "):
        open_log(disk)


@pytest.mark.guarantee("G13")
def test_a_torn_group_is_cut_as_a_whole_from_where_it_tore() -> None:
    """
    The blocks of a group are written together, so a crash may keep a later one and lose an earlier. No block after
    the loss was acknowledged: each says itself that what precedes it was not yet synced.
    """
    disk = log_of(1)
    held = Held()
    log = open_log(disk, background=held)
    for n in range(1, 5):
        log.append(0, put_entry(n), lambda result: None)
    held.close()
    mark = read_mark(disk, FOLDER)
    assert mark is not None
    data = data_of(disk)[: mark.acknowledged]
    ends = block_ends(data)
    damaged = bytearray(data)
    damaged[ends[3] + 30] ^= 1
    disk.crash()
    disk.remove(MARK)
    disk.replace(FIRST, bytes(damaged))

    log = open_log(disk)

    assert [0, 1] == numbers(log)
    assert log.cut is not None
    assert len(data) - ends[3] == log.cut.size


def test_damage_in_an_older_segment_is_met_when_it_is_read() -> None:
    disk = log_of(3, segment_bytes=1)
    second = FOLDER / segment.name(2)
    data = data_of(disk, second)
    disk.replace(second, data[:-40] + b"\0" + data[-39:])

    log = open_log(disk)
    read = log.read(0)

    assert [0, 1] == [next(read).offset for _ in range(2)]
    with pytest.raises(CorruptionError, match=second.name):
        next(read)


def test_damage_is_named_by_its_place_and_met_by_the_read_of_its_partition() -> None:
    """A read does not hash the records of other partitions, and returns no wrong record of its own."""
    disk = FakeDisk()
    log = open_log(disk, partitions=3, segment_bytes=9200)
    for n in range(12):
        append(log, put_entry(n), partition=n % 3)
    log.close()
    data = data_of(disk)
    ends = block_ends(data)
    assert 6 < len(ends) < 12, "the first segment has records of each partition, and a successor"

    def read_whole(partition: int) -> str:
        try:
            assert [*range(partition, 12, 3)] == numbers(log, partition)
        except CorruptionError as error:
            return str(error)
        return ""

    for at, damaged in flips(data, ends[3], len(data), 5):
        disk.replace(FIRST, damaged)
        log = open_log(disk, partitions=3)
        block = bisect_right(ends, at) - 1
        place = f"{FIRST.name} at byte {ends[block]} "
        errors = [read_whole(partition) for partition in range(3)]
        log.close()
        assert place in errors[block % 3]
        assert all(place in error for error in errors if error)


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_missing_segment_is_noticed(lost: int) -> None:
    disk = log_of(3, segment_bytes=1)
    disk.remove(FOLDER / segment.name(lost))

    with pytest.raises(CorruptionError, match=r"missing|does not continue"):
        list(open_log(disk).read(0))


def test_a_log_without_its_first_segment_is_refused() -> None:
    disk = log_of(3, segment_bytes=1)
    disk.remove(FIRST)

    with pytest.raises(CorruptionError, match="first segment is missing"):
        open_log(disk)


def test_a_segment_of_another_log_is_refused() -> None:
    disk, other = log_of(3, segment_bytes=1), FakeDisk()
    open_log(other).close()
    chain = segment.read_header(data_of(disk, FOLDER / segment.name(3))).chain
    disk.replace(
        FOLDER / segment.name(3),
        segment.header(b"m" * 16, segment.read_header(data_of(disk)).fingerprint, chain),
    )

    with pytest.raises(ForeignLogError, match=f"{segment.name(3)} belongs to the log 6d6d"):
        open_log(disk)


def test_a_log_of_a_later_format_is_refused_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(segment, "FORMAT", b"2")
        disk = log_of(1)

    with pytest.raises(NewerVersionError, match="format 2, and this version of foldb reads 1"):
        open_log(disk)


def test_a_log_of_a_later_schema_is_refused_not_guessed() -> None:
    disk = log_of(1)
    head = segment.read_header(data_of(disk))
    known = head.fingerprint.hex().encode()
    newer = data_of(disk)[: head.size - 16].replace(known, b"a" * 16)
    disk.replace(FIRST, newer + segment._digest(newer))

    with pytest.raises(NewerVersionError, match="aaaaaaaaaaaaaaaa"):
        open_log(disk)


def test_a_second_writer_is_refused_with_the_next_step() -> None:
    disk = FakeDisk()
    open_log(disk)

    with pytest.raises(LogLockedError, match=r"another process \(pid \d+\). Stop it first"):
        open_log(disk)


def test_a_folder_in_which_others_keep_things_is_left_alone() -> None:
    disk = FakeDisk()
    disk.make_folder(FOLDER)
    disk.open(FOLDER / "thesis.tex", create=True)

    with pytest.raises(LogError, match=r"not a foldb log: it holds thesis\.tex"):
        open_log(disk)
    assert ["thesis.tex"] == disk.names(FOLDER)


def test_segments_that_are_gone_are_not_replaced_by_a_new_log() -> None:
    """An empty log in place of a lost one would be the worst answer."""
    disk = log_of(2)
    disk.remove(FIRST)

    with pytest.raises(CorruptionError, match="segments are missing"):
        open_log(disk)


@pytest.mark.parametrize("empty_segment", [False, True])
def test_a_new_schema_begins_a_new_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_segment: bool
) -> None:
    """A segment's header has one schema for all of its blocks. An empty segment gives way to one of the new schema."""
    older = json.loads(json.dumps(codec.schema(CURRENT)))
    older["fields"][4]["type"]["items"].pop()  # without RestoreProgress, puts have the same bytes
    known = codec.fingerprint_of(older)
    (tmp_path / "older.avsc").write_text(json.dumps(older))
    monkeypatch.setitem(codec.schema_files(), known, tmp_path / "older.avsc")
    with monkeypatch.context() as then:
        then.setattr("foldb.log.local.writer.CURRENT", known)
        then.setattr("foldb.log.local.recovery.CURRENT", known)
        disk = log_of(1)
    if empty_segment:
        head = segment.read_header(data_of(disk))
        chain = segment.scan(data_of(disk), head.size, head.marker, head.chain).chain
        create_file(disk, FOLDER / segment.name(2), segment.header(head.log_id, known, chain))

    log = open_log(disk)
    append(log, put_entry(1), put_entry(2))

    assert [0, 1, 2] == numbers(log) == numbers(LogReader(FOLDER, disk))
    fingerprints = [segment.read_header(data).fingerprint for data in disk.contents(FOLDER).values()]
    assert [known, CURRENT] == fingerprints


def test_the_mark_names_the_segment_and_its_synced_end() -> None:
    disk = log_of(2)

    assert DurablePosition(0, len(data_of(disk)), len(data_of(disk))) == read_mark(disk, FOLDER)
