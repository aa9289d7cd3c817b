"""Backups and naive copies of a folder that is served under load."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import Process, foldb
from tests.support.write_ledger import Ledger, Writers, create, scan
from tests.verification.crash.programs import DISK_CALLS
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
ROUNDS = 50 if SOAK else 2
KILLS = range(1, 40, 2 if SOAK else 13)
SMALL = ("--segment-bytes", "60000")
PAUSE_S = 0.0 if SOAK else 0.01


def acknowledged(ledger: Ledger) -> set[str]:
    """Return the keys of the acknowledged items."""
    return {key for key, fate in dict(ledger.items).items() if fate == "acknowledged"}


def done(*arguments: str | Path) -> dict[str, Any]:
    """Run a command that succeeds, and return its output."""
    ran = foldb(*arguments)
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def served_items(folder: Path) -> set[str]:
    with Process(folder) as server:
        return set(scan(server.url))


def digest(folder: Path) -> str:
    return str(done("verify", folder)["digest"])


@pytest.mark.guarantee("G7")
def test_backups_under_load_hold_every_acknowledged_write(tmp_path: Path) -> None:
    """Each backup can be restored. The last one, after the stop, has the whole database."""
    folder, backup, ledger = tmp_path / "data", tmp_path / "backup", Ledger()
    copied = []
    with Process(folder, *SMALL) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=4, pause_s=PAUSE_S) as writers:
            for number in range(3 if SOAK else 2):
                writers.wait_for(150)
                before = acknowledged(ledger)
                source = server.url if number % 2 else folder
                copied.append(done("log", "backup", source, backup))
                restored = tmp_path / f"restored-{number}"
                done("log", "restore", backup, restored)
                assert before <= served_items(restored)
        server.terminate()
    copied.append(done("log", "backup", folder, backup))
    done("log", "restore", backup, tmp_path / "restored")

    assert all(each["copied"] > 0 for each in copied)
    assert len(list(folder.glob("*.avro"))) > 3
    whole = done("log", "stats", folder)
    assert whole["entries"] == sum(each["copied"] for each in copied)
    assert whole["bytes"] == sum(each["bytes"] for each in copied)
    assert digest(folder) == digest(backup) == digest(tmp_path / "restored")
    with Process(tmp_path / "restored") as server:
        ledger.check(server.url)


def killed_backup(folder: Path, backup: Path, calls: int) -> int:
    """Return a `foldb log backup` that is killed right before its nth call of the disk."""
    program = f"""
import itertools, os, signal, sys
count = itertools.count(1)
def counted(call):
    def before(*arguments, **options):
        if next(count) == {calls}: os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return before
from foldb.cli.main import run
import foldb.cli.commands.log.log
for name in {DISK_CALLS!r}: setattr(os, name, counted(getattr(os, name)))
sys.argv = ["foldb", "log", "backup", {str(folder)!r}, {str(backup)!r}]
run()
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60).returncode


@pytest.mark.guarantee("G7")
def test_a_killed_backup_is_healed_by_the_next_one(tmp_path: Path) -> None:
    folder, backup, ledger = tmp_path / "data", tmp_path / "backup", Ledger()
    killed = 0
    with Process(folder, *SMALL) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=2, pause_s=PAUSE_S) as writers:
            for calls in KILLS:
                writers.wait_for(60)
                killed += killed_backup(folder, backup, calls) != 0
                before = acknowledged(ledger)
                done("log", "backup", folder, backup)
                assert 0 == foldb("verify", backup).returncode
        server.terminate()
    done("log", "restore", backup, tmp_path / "restored")

    assert killed > len(KILLS) // 2
    assert before <= served_items(tmp_path / "restored")
    record(test="backup, kill -9", cycles=killed, faults={"kill": killed}, checked=len(before))


def slow_copy(folder: Path, copy: Path, writers: Writers) -> None:
    """Copy a served folder as rsync and tar do: one file after the other, in the order of their names."""
    copy.mkdir()
    for path in sorted(folder.glob("*.avro")):
        shutil.copy(path, copy)
    writers.wait_for(30)
    shutil.copy(folder / "mark", copy)


@pytest.mark.guarantee("G8")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_slow_hot_copy_is_refused_and_salvaged(seed: int, tmp_path: Path) -> None:
    """Its durable position is ahead of its segments. All writes acknowledged before the copy are recovered."""
    folder, copy, salvaged, ledger = tmp_path / "data", tmp_path / "copy", tmp_path / "salvaged", Ledger()
    # In every second round new segments begin while the copy is made.
    options = ("--segment-bytes", "6000000" if seed % 2 else "20000")
    with Process(folder, *options) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=8) as writers:
            writers.wait_for(100 + random.Random(seed).randrange(100))
            before = acknowledged(ledger)
            slow_copy(folder, copy, writers)
    files = {path.name: path.read_bytes() for path in copy.iterdir()}

    refused = foldb("verify", copy)
    with Process(copy, may_end=True) as server:
        assert not server.url
    asked = foldb("log", "salvage", copy, salvaged)
    step = asked.stderr.partition(f"`foldb log salvage {copy} {salvaged} --to ")[2]
    done("log", "salvage", copy, salvaged, "--to", step.partition("`")[0])

    assert (9, 2) == (refused.returncode, asked.returncode)
    assert refused.stderr == server.said
    assert "it is inconsistent: make copies with `foldb log backup`" in refused.stderr
    (copy / "lock").unlink()
    assert files == {path.name: path.read_bytes() for path in copy.iterdir()}
    found = served_items(salvaged)
    assert before <= found
    record(
        test="slow hot copy, salvage", seeds=str(seed), cycles=1, acknowledged=len(before), checked=len(found)
    )
