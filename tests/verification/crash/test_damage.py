"""A damaged log, a failing disk and a locked folder: the server refuses with the reason."""

import copy
import shutil
from pathlib import Path

import pytest

from tests.support.served import Process, foldb
from tests.support.write_ledger import Ledger, Writers, create
from tests.unit.log.damage import flip
from tests.verification.crash.programs import with_failing_sync

SEGMENT_BYTES = "20000"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ledger]:
    """A log of many segments that was written under load, and its ledger."""
    folder, ledger = tmp_path_factory.mktemp("original") / "data", Ledger()
    with Process(folder, "--segment-bytes", SEGMENT_BYTES) as server:
        create(server.url)
        with Writers(ledger, server.url) as writers:
            writers.wait_for(300)
        server.terminate()
    return folder, ledger


@pytest.fixture
def written(original: tuple[Path, Ledger], tmp_path: Path) -> tuple[Path, Ledger]:
    """A copy of both for one test."""
    return shutil.copytree(original[0], tmp_path / "data"), copy.deepcopy(original[1])


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.avro"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, without the lock, which names the last process that tried."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def test_a_log_of_many_segments_is_gone_on_with(written: tuple[Path, Ledger]) -> None:
    folder, ledger = written
    count = len(segments(folder))
    assert count > 5

    with Process(folder, "--segment-bytes", SEGMENT_BYTES) as server:
        ledger.check(server.url)
        with Writers(ledger, server.url, run=1) as writers:
            writers.wait_for(80)
        server.kill()
    with Process(folder) as server:
        ledger.check(server.url)

    assert len(segments(folder)) > count


@pytest.mark.guarantee("G10")
def test_a_flipped_byte_is_reported_and_changes_nothing(
    written: tuple[Path, Ledger],
) -> None:
    folder, _ = written
    damaged = segments(folder)[2]
    flip(damaged, damaged.stat().st_size // 2)
    before = contents(folder)

    for command in ("serve", "--port", "0"), ("verify",):
        result = foldb(*command, "--db", folder)
        assert (9, "") == (result.returncode, result.stdout)
        assert result.stderr.startswith(f"foldb: {damaged.name} at byte "), result.stderr
    assert before == contents(folder)


@pytest.mark.parametrize("place", [3, -1])
def test_a_missing_segment_is_refused(written: tuple[Path, Ledger], place: int) -> None:
    folder, _ = written
    segments(folder)[place].unlink()
    before = contents(folder)

    result = foldb("serve", "--port", "0", "--db", folder)

    assert (9, True) == (result.returncode, ".avro" in result.stderr), result.stderr
    assert before == contents(folder)


def test_a_torn_tail_is_cut_into_a_side_file(written: tuple[Path, Ledger]) -> None:
    folder, ledger = written
    last = segments(folder)[-1]
    torn = b"\x02\x90\x03" + b"half of a write"
    with last.open("ab") as file:
        whole = file.tell()
        file.write(torn)

    with Process(folder) as server:
        ledger.check(server.url)
        server.terminate()

    assert (
        f"the last write to {last.name} was torn: {len(torn)} bytes from byte {whole} on are moved"
        in server.said
    )
    assert torn == (folder / f"{last.name}.torn-{whole}").read_bytes()


@pytest.mark.guarantee("G3")
def test_a_failed_sync_stops_the_process_and_loses_nothing(tmp_path: Path) -> None:
    ledger, failing = Ledger(), tmp_path / "failing"
    with Process(tmp_path / "data", program=with_failing_sync(failing)) as server:
        create(server.url)
        with Writers(ledger, server.url) as writers:
            writers.wait_for(100)
            failing.touch()
            writers.join()
        assert server.wait() == 9
        *_, last = server.said.splitlines()
        assert last.startswith(f"foldb: the log in {tmp_path / 'data'} could not be written: ")

    with Process(tmp_path / "data") as server:
        ledger.check(server.url)


@pytest.mark.guarantee("G17")
def test_a_folder_that_is_written_can_be_read_but_not_served_again(tmp_path: Path) -> None:
    ledger = Ledger()
    with Process(tmp_path, "--segment-bytes", SEGMENT_BYTES) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=2) as writers:
            writers.wait_for(100)
            verified = foldb("verify", "--db", tmp_path)
            reported = foldb("log", "cat", "--to", "100", "--db", tmp_path)
            second = foldb("serve", "--port", "0", "--db", tmp_path)
        ledger.check(server.url)

    assert (0, True) == (verified.returncode, "1 digest compared" in verified.stderr), verified
    assert (0, True) == (reported.returncode, reported.stdout.count("\n") > 100), reported.stderr
    assert (8, 1) == (second.returncode, second.stderr.count("\n")), second
    assert "is in use by another process" in second.stderr


def test_a_folder_that_cannot_be_made_is_named_and_not_the_port() -> None:
    result = foldb("serve", "--db", "/proc/data", "--port", "0")

    assert (8, True) == (result.returncode, result.stderr.startswith("foldb: /proc/data: ")), result
