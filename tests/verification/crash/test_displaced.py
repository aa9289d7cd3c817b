"""The data folder is renamed, emptied, covered or removed under a server that writes to it.

    folder renamed, or another mounted over it      the server continues in the folder that it holds
    active segment removed or replaced              a side file has what the segment held; exit code 9
    `lock` removed or replaced                      no second server starts; exit code 9

In each case every acknowledged write is served by the next start.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.raw import ask
from tests.support.served import Process, foldb
from tests.support.write_ledger import TABLE, Ledger, Writers, create
from tests.verification.crash.recorded import recorded

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(50 if SOAK else 1)
# Several segments are begun in each run: they are created, and must not replace others.
SMALL = ("--segment-bytes", "40000")
pytestmark = [pytest.mark.soak] if SOAK else []

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}

seeds = pytest.mark.parametrize("seed", SEEDS)


def active(folder: Path) -> Path:
    """Return the active segment."""
    return max(folder.glob("*.avro"))


def unlink(folder: Path) -> None:
    active(folder).unlink()


def replace(folder: Path) -> None:
    """Replace the active segment by another file, as `rsync` does when it restores."""
    segment = active(folder)
    copy = shutil.copy(segment, folder / ".copy")
    os.replace(copy, segment)


def truncate(folder: Path) -> None:
    """Return an old copy of a segment, with its header and little more."""
    segment = active(folder)
    copy = folder / ".copy"
    copy.write_bytes(segment.read_bytes()[:8000])
    os.replace(copy, segment)


def unlink_lock(folder: Path) -> None:
    (folder / "lock").unlink()


def replace_lock(folder: Path) -> None:
    copy = shutil.copy(folder / "lock", folder / ".copy")
    os.replace(copy, folder / "lock")


@pytest.mark.guarantee("G4")
@seeds
def test_a_renamed_folder_stays_the_servers_own(seed: int, tmp_path: Path) -> None:
    """A server that creates a log under the old name writes to another folder."""
    data, moved = tmp_path / "data", tmp_path / "data.old"
    first, second = Ledger(), Ledger()
    with recorded("folder renamed", seed, first) as faults:
        with Process(data, *SMALL) as old:
            create(old.url)
            with Writers(first, old.url) as writers:
                writers.wait_for(100 + seed)
                data.rename(moved)
                faults["rename"] += 1
                with Process(data, *SMALL) as new:
                    create(new.url)
                    with Writers(second, new.url) as others:
                        others.wait_for(100)
                        writers.wait_for(100)
                    new.terminate()
            old.terminate()

        check(first, moved)
        check(second, data)
    assert (set(), set()) == (
        first.answers.keys() - {"acknowledged"},
        second.answers.keys() - {"acknowledged"},
    )


@pytest.mark.guarantee("G4")
def test_a_renamed_folders_server_writes_nothing_under_the_old_name(tmp_path: Path) -> None:
    """This includes its address, snapshots and changes: they would be those of another log."""
    data, moved, ledger = tmp_path / "data", tmp_path / "data.old", Ledger()
    with Process(data, "--snapshot-every", "50", *SMALL) as old:
        create(old.url)
        ask(old.url, "UpdateTable", {"TableName": TABLE, "StreamSpecification": STREAM})
        with Writers(ledger, old.url) as writers:
            writers.wait_for(100)
            data.rename(moved)
            with Process(data) as new:
                before = tree(data)
                writers.wait_for(300)
                writers.stop()
                old.terminate()
                assert before == tree(data)
                new.terminate()

    assert not (moved / "server.json").exists()
    assert "was renamed or covered" in old.said
    assert list((moved / "changes" / "0").glob("*.avro"))
    check(ledger, moved)


@pytest.mark.guarantee("G4")
@seeds
def test_a_covered_folder_stays_the_servers_own(seed: int, tmp_path: Path) -> None:
    data, first, second = tmp_path / "data", Ledger(), Ledger()
    with recorded("folder mounted over", seed, first) as faults:
        with Process(data, *SMALL) as old:
            create(old.url)
            with Writers(first, old.url) as writers:
                writers.wait_for(100 + seed)
                with covered(data, tmp_path / "other"):
                    faults["mount"] += 1
                    with Process(data, *SMALL) as new:
                        create(new.url)
                        with Writers(second, new.url) as others:
                            others.wait_for(100)
                            writers.wait_for(100)
                        new.terminate()
            old.terminate()

        check(first, data)
        check(second, tmp_path / "other")


@pytest.mark.guarantee("G4")
@seeds
@pytest.mark.parametrize("displace", [unlink, replace, truncate])
def test_a_lost_segment_stops_the_server_and_comes_back(
    displace: Callable[[Path], None], seed: int, tmp_path: Path
) -> None:
    ledger = Ledger()
    with recorded(f"active segment: {displace.__name__}", seed, ledger) as faults:
        with Process(tmp_path, *SMALL) as server:
            create(server.url)
            with Writers(ledger, server.url) as writers:
                writers.wait_for(100 + seed)
                server.signal(signal.SIGSTOP)  # else the segment may be full by then, and no longer open
                displace(tmp_path)
                faults[displace.__name__] += 1
                server.signal(signal.SIGCONT)
                writers.join()
            assert server.wait() == 9
        assert side_file(server.said).exists()

        check(ledger, tmp_path)


@pytest.mark.guarantee("G4")
@seeds
@pytest.mark.parametrize("stops", [False, True])
def test_a_segment_lost_while_idle_comes_back(stops: bool, seed: int, tmp_path: Path) -> None:
    """No write follows that would detect it. A check every second does, or the stop of the server."""
    ledger = Ledger()
    with recorded("active segment removed while idle", seed, ledger) as faults:
        with Process(tmp_path, *SMALL) as server:
            create(server.url)
            with Writers(ledger, server.url) as writers:
                writers.wait_for(100 + seed)
            unlink(tmp_path)
            faults["unlink"] += 1
            if stops:
                server.signal(signal.SIGTERM)
            assert server.wait() == 9
        assert side_file(server.said).exists()

        check(ledger, tmp_path)


@pytest.mark.guarantee("G17")
@seeds
@pytest.mark.parametrize("displace", [unlink_lock, replace_lock])
def test_a_lost_lock_admits_no_second_server(
    displace: Callable[[Path], None], seed: int, tmp_path: Path
) -> None:
    ledger = Ledger()
    with recorded(f"lock: {displace.__name__}", seed, ledger) as faults:
        with Process(tmp_path, *SMALL) as server:
            create(server.url)
            with Writers(ledger, server.url) as writers:
                writers.wait_for(100 + seed)
                server.signal(signal.SIGSTOP)  # else it stops before the second one has looked
                displace(tmp_path)
                faults[displace.__name__] += 1
                second = foldb("serve", "--port", "0", "--db", tmp_path)
                server.signal(signal.SIGCONT)
                writers.join()
            assert server.wait() == 9

        check(ledger, tmp_path)
    assert 8 == second.returncode, second
    assert f"is in use by another process (pid {server.pid})" in second.stderr


@pytest.mark.guarantee("G4")
@seeds
def test_a_removed_folder_leaves_a_side_file_beside_it(seed: int, tmp_path: Path) -> None:
    """Older segments are lost with it; this log has only one."""
    data, ledger = tmp_path / "data", Ledger()
    with recorded("folder removed", seed, ledger) as faults:
        with Process(data) as server:
            create(server.url)
            with Writers(ledger, server.url) as writers:
                writers.wait_for(100 + seed)
                subprocess.run(["rm", "-rf", data], check=False)  # fails if the side file is there first
                faults["rm -rf"] += 1
                writers.join()
            assert server.wait() == 9

        found = side_file(server.said)
        data.mkdir(exist_ok=True)
        found.rename(data / found.name)
        check(ledger, data)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return the files of an idle server by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def check(ledger: Ledger, folder: Path) -> None:
    """Assert that a start, which folds the whole log, serves every acknowledged write."""
    with Process(folder, *SMALL) as server:
        ledger.check(server.url)
        server.terminate()


def side_file(said: str) -> Path:
    """Return the side file that the server names when it stops."""
    found = re.search(r"\S+\.avro\.unlinked\+*", said.splitlines()[-1])
    assert found, said
    return Path(found[0])


@contextmanager
def covered(folder: Path, other: Path) -> Iterator[None]:
    """Mount another folder over `folder` until the block ends."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting takes root on Linux")
    other.mkdir()
    if subprocess.run(["mount", "--bind", other, folder], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
