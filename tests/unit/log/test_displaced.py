"""A segment, a lock or a folder that others remove, replace or rename while a log writes to it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from foldb.log.local import LocalLog, segment
from foldb.log.local.filesystem import SystemFilesystem, create_file
from foldb.log.local.reader import LogReader
from foldb.log.log import Appended
from foldb.model.errors import AppendUnknownError, CorruptionError, LogError, LogLockedError
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.log.local_logs import FIRST, FOLDER, append, log_of, numbers, open_log
from tests.unit.log.samples import put_entry

pytestmark = pytest.mark.usefixtures("both_writers")

LOCK = FOLDER / "lock"
SIDE_FILE = FOLDER / f"{FIRST.name}.unlinked"


def remove(disk: FakeDisk, path: Path) -> None:
    del disk.names_cached[path]
    disk.sync_folder(FOLDER)


def replace(disk: FakeDisk, path: Path, data: bytes) -> None:
    remove(disk, path)
    disk.open(path, create=True)
    disk.replace(path, data)
    disk.sync_folder(FOLDER)


def data_of(disk: FakeDisk, path: Path) -> bytes:
    return bytes(disk.names_cached[path].cached)


def displaced(disk: FakeDisk, displace: Callable[[], None]) -> list[Appended | LogError]:
    """The answers to two appends before the log loses a file, and to two after it; the process has ended."""
    fatal: list[BaseException] = []
    log = open_log(disk, on_fatal=fatal.append)
    results = append(log, put_entry(0), put_entry(1))
    displace()
    results += append(log, put_entry(2), put_entry(3))
    log.close()
    assert [AppendUnknownError] == [type(error) for error in fatal]
    return results


def kinds(results: list[Appended | LogError]) -> list[type]:
    return [type(result) for result in results]


TWO_AND_TWO = [Appended, Appended, AppendUnknownError, AppendUnknownError]


def test_a_removed_segment_is_saved_and_taken_back() -> None:
    disk = FakeDisk()

    results = displaced(disk, lambda: remove(disk, FIRST))

    assert TWO_AND_TWO == kinds(results)
    assert str(SIDE_FILE) in str(results[2])
    assert FIRST not in disk.names_cached
    log = open_log(disk)
    assert [0, 1] == numbers(log)[:2]
    assert SIDE_FILE not in disk.names_cached


@pytest.mark.parametrize("size", [0, 100, 8000])
def test_a_segment_replaced_by_its_beginning_is_taken_back(size: int) -> None:
    disk = FakeDisk()

    def restore_old_copy() -> None:
        replace(disk, FIRST, data_of(disk, FIRST)[:size])

    assert TWO_AND_TWO == kinds(displaced(disk, restore_old_copy))
    assert [0, 1] == numbers(open_log(disk))[:2]


def test_a_segment_replaced_by_a_copy_with_a_hole_is_taken_back() -> None:
    """The copy was made while a group was written: it has the end of the group, and zeros for its beginning."""
    disk = FakeDisk()

    def restore_torn_copy() -> None:
        data = data_of(disk, FIRST).rstrip(b"\0")
        replace(disk, FIRST, data[:-90] + bytes(60) + data[-30:] + bytes(500))

    assert TWO_AND_TWO == kinds(displaced(disk, restore_torn_copy))
    assert [0, 1] == numbers(open_log(disk))[:2]


@pytest.mark.guarantee("G4")
def test_a_side_file_of_another_history_is_refused() -> None:
    """The copy of the segment was continued by another process: only an operator can choose."""
    disk, other = FakeDisk(), FakeDisk()
    append(open_log(other), put_entry(9))
    other_data = data_of(other, FIRST)
    displaced(disk, lambda: replace(disk, FIRST, other_data))
    before = disk.contents(FOLDER)

    with pytest.raises(CorruptionError, match="two histories"):
        open_log(disk)

    assert before == disk.contents(FOLDER)


def test_a_side_file_that_the_segment_contains_is_removed() -> None:
    """An operator has copied it back already, and the log was continued."""
    disk = FakeDisk()
    displaced(disk, lambda: remove(disk, FIRST))
    disk.open(FIRST, create=True)
    disk.replace(FIRST, data_of(disk, SIDE_FILE))

    assert [0, 1] == numbers(open_log(disk))[:2]
    assert SIDE_FILE not in disk.names_cached


def test_a_side_file_after_a_gap_is_refused() -> None:
    disk = log_of(5, segment_bytes=1)
    name = segment.name(3)
    displaced(disk, lambda: remove(disk, max(disk.names_cached.keys() - {LOCK, FOLDER / "mark"})))
    remove(disk, FOLDER / name)
    before = disk.contents(FOLDER)

    with pytest.raises(CorruptionError, match="does not continue"):
        open_log(disk)

    assert before == disk.contents(FOLDER)


def test_a_damaged_side_file_is_refused() -> None:
    disk = FakeDisk()
    displaced(disk, lambda: remove(disk, FIRST))
    data = bytearray(data_of(disk, SIDE_FILE))
    data[-100] ^= 1
    disk.replace(SIDE_FILE, bytes(data))

    with pytest.raises(CorruptionError, match=r"unlinked at byte \d+"):
        open_log(disk)


def test_a_reader_refuses_a_folder_with_a_side_file() -> None:
    """Without the side file it would show less than was acknowledged, and call the log whole."""
    disk = log_of(3, segment_bytes=1)
    last = FOLDER / segment.name(3)
    disk.rename(last, last.with_name(last.name + ".unlinked"))

    with pytest.raises(CorruptionError, match="foldb serve"):
        LogReader(FOLDER, disk)


def test_a_lost_lock_stops_the_log_and_loses_nothing() -> None:
    disk = FakeDisk()

    results = displaced(disk, lambda: remove(disk, LOCK))

    assert TWO_AND_TWO == kinds(results)
    assert "`lock`" in str(results[2])
    assert [0, 1] == numbers(open_log(disk))[:2]


def test_a_look_finds_a_loss_that_no_write_finds() -> None:
    disk, fatal = FakeDisk(), list[BaseException]()
    log = open_log(disk, on_fatal=fatal.append)
    append(log, put_entry(0))
    log.maintain()
    assert [] == fatal

    remove(disk, FIRST)
    log.maintain()

    assert [AppendUnknownError] == [type(error) for error in fatal]
    log.close()
    assert [0] == numbers(open_log(disk))


def test_a_mark_that_was_replaced_is_written_again() -> None:
    """Without it a reader does not see the last acknowledged records."""
    disk = FakeDisk()
    log = open_log(disk)
    append(log, put_entry(0))
    replace(disk, FOLDER / "mark", b"of yesterday")
    append(log, put_entry(1))

    log.maintain()

    assert [0, 1] == numbers(LogReader(FOLDER, disk))


def test_closing_finds_a_loss_that_no_write_finds() -> None:
    disk = FakeDisk()
    log = open_log(disk)
    append(log, put_entry(0))
    remove(disk, FIRST)

    with pytest.raises(AppendUnknownError, match="unlinked"):
        log.close()

    assert [0] == numbers(open_log(disk))


def test_a_full_segment_that_was_removed_is_taken_back() -> None:
    """It is let go when the next one begins, so it is looked for once more."""
    disk, first, second = FakeDisk(), FOLDER / segment.name(1), FOLDER / segment.name(2)

    def hook(call: str, path: Path) -> None:
        if call == "name" and path == second:
            remove(disk, first)

    disk.hook = hook
    fatal: list[BaseException] = []
    log = open_log(disk, on_fatal=fatal.append, segment_bytes=1)
    results = append(log, put_entry(0), put_entry(1))
    log.close()
    disk.hook = lambda call, path: None

    assert [Appended, AppendUnknownError] == kinds(results)
    assert [0] == numbers(open_log(disk))


def test_a_full_segment_replaced_by_a_partial_copy_is_restored() -> None:
    """It has a follower by then, and zeros in a segment with a follower are damage."""
    disk, first, second = FakeDisk(), FOLDER / segment.name(1), FOLDER / segment.name(2)

    def hook(call: str, path: Path) -> None:
        if call == "name" and path == second:
            replace(disk, first, data_of(disk, first) + bytes(500))

    disk.hook = hook
    log = open_log(disk, segment_bytes=1)
    append(log, put_entry(0), put_entry(1))
    log.close()
    disk.hook = lambda call, path: None

    assert [0] == numbers(open_log(disk))


@pytest.mark.guarantee("G4")
def test_without_room_for_a_side_file_nothing_is_answered() -> None:
    """The records are in this process alone, and an answer would end it."""
    disk, fatal = FakeDisk(), list[BaseException]()
    log = open_log(disk, on_fatal=fatal.append)
    append(log, put_entry(0))
    remove(disk, FIRST)
    disk.space = disk.used() + 300

    results = append(log, put_entry(1))
    log.maintain()
    assert ([], []) == (results, fatal)

    disk.space = None
    log.maintain()
    assert [AppendUnknownError] == kinds(results)
    assert 1 == len(fatal)
    log.close()
    assert [0] == numbers(open_log(disk))[:1]


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("seed", range(3))
def test_the_power_may_go_while_a_side_file_is_taken_back(seed: int) -> None:
    call = 0
    while True:
        disk = FakeDisk()
        displaced(disk, lambda disk=disk: remove(disk, FIRST))  # type: ignore[misc]  # a default binds it now
        call += 1
        left = iter(range(call))

        def hook(name: str, path: Path, left: object = left) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]  # an iterator
                raise PowerCut

        disk.hook = hook
        try:
            open_log(disk)
        except PowerCut:
            disk.hook = lambda name, path: None
            disk.power_cut(random.Random(seed))
            assert [0, 1] == numbers(open_log(disk))[:2]
        else:
            return


@pytest.mark.guarantee("G4")
def test_a_segment_never_replaces_another() -> None:
    disk, fatal = FakeDisk(), list[BaseException]()
    log = open_log(disk, on_fatal=fatal.append, segment_bytes=1)
    taken = FOLDER / segment.name(2)
    append(log, put_entry(0))
    create_file(disk, taken, b"of another process")

    results = append(log, put_entry(1))

    assert [AppendUnknownError] == kinds(results)
    assert b"of another process" == data_of(disk, taken)


def on_system(path: Path) -> LocalLog:
    return open_log(SystemFilesystem(), path=path, segment_bytes=1)


def test_a_renamed_folder_is_written_where_it_is(tmp_path: Path) -> None:
    """Each append begins a segment. The log that begins under the old name gets none of them."""
    data, moved = tmp_path / "data", tmp_path / "data.old"
    old = on_system(data)
    append(old, put_entry(0))
    data.rename(moved)
    new = on_system(data)
    results = append(old, put_entry(1), put_entry(2)) + append(new, put_entry(7))
    old.close()
    new.close()

    assert [Appended] * 3 == kinds(results)
    assert [0, 1, 2] == numbers(on_system(moved))
    assert [7] == numbers(on_system(data))


def test_a_removed_lock_admits_no_second_log(tmp_path: Path) -> None:
    log = on_system(tmp_path / "data")
    (tmp_path / "data" / "lock").unlink()

    with pytest.raises(LogLockedError):
        on_system(tmp_path / "data")

    with pytest.raises(AppendUnknownError):
        log.close()


def test_a_folder_that_moved_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = on_system(tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "moved")

    log.maintain()
    log.maintain()

    assert 1 == caplog.text.count("no longer leads to the folder")
    log.close()


def test_a_removed_folder_leaves_a_side_file_beside_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log = open_log(SystemFilesystem(), path=data)
    append(log, put_entry(0))
    for path in data.iterdir():
        path.unlink()
    data.rmdir()

    with pytest.raises(AppendUnknownError):
        log.close()

    [side_file] = tmp_path.iterdir()
    data.mkdir()
    side_file.rename(data / side_file.name)
    assert [0] == numbers(open_log(SystemFilesystem(), path=data))


def test_a_file_system_without_links_keeps_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object, **__: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", link)
    disk = SystemFilesystem().hold(tmp_path)
    create_file(disk, tmp_path / "a", b"1").close()

    with pytest.raises(FileExistsError):
        create_file(disk, tmp_path / "a", b"2")

    assert (b"1", ["a"]) == ((tmp_path / "a").read_bytes(), disk.names(tmp_path))
    disk.close()
