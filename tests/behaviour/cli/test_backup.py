"""Output and refusals of `foldb log backup`, `restore` and `salvage`."""

import os
import shutil
from pathlib import Path

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.unit.log.local_logs import append, log_of, open_log
from tests.unit.log.samples import put_entry


@pytest.fixture
def filled(folder: Path) -> Path:
    """Return a folder with two partitions for data and no server."""
    with foldb.serve(folder, partitions=2) as server:
        lines(at(server.endpoint_url)("sample", "load", "music"))
    return folder


@pytest.fixture
def log(filled: Path) -> Foldb:
    def run(*arguments: str) -> object:
        return at(filled)("log", *arguments)

    return run  # type: ignore[return-value]  # a Result, as of `at`


def test_a_backup_prints_its_end_and_its_size(log: Foldb, filled: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "backup")
    [stats] = lines(log("stats", str(filled)))
    [first] = lines(log("backup", str(filled), target))
    second = log("backup", str(filled), target, "-o", "json")

    assert (stats["entries"], stats["bytes"]) == (first["copied"], first["bytes"])
    assert (stats["log_id"], target, stats["last"]) == (first["log_id"], first["target"], first["time"])
    assert '"copied": 0' in second.stdout
    assert f"0 records copied, 0 bytes, each checked against the chain of hashes · {target}" in second.stderr
    assert lines(at(filled)("verify", str(filled))) == lines(at(filled)("verify", target))


def test_a_restore_may_end_at_a_position(log: Foldb, filled: Path, tmp_path: Path) -> None:
    restored = str(tmp_path / "restored")

    [row] = lines(log("restore", str(filled), restored, "--to", "0:1"))

    assert row["position"].startswith("0:1,1:")
    assert 0 == at(restored)("verify", restored).exit_code
    assert row["copied"] == lines(log("stats", restored))[0]["entries"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("backup kafka://localhost:1/x {new}", 2, "stop its nodes and run `foldb log copy kafka://"),
        ("backup {data} http://localhost:8000", 2, "http://localhost:8000 is an address: give a folder"),
        ("backup {data} {data}", 2, "is the source: give another folder"),
        ("backup {new} {data}", 8, "there is no database in"),
        ("restore {data} {data}", 8, "is not empty: name a new folder"),
        ("restore {data} {new} --to 1:999", 8, "there is no record @1:999: the log ends at @1:"),
        ("restore {data} {new} --to 1:1.2", 2, "is one command of an entry, which is copied as a whole: give --to 1:1"),
        ("restore {data} {new} --to x", 2, "`x` is not a position"),
        ("salvage {data} {new}", 2, "which is its end. `foldb log backup"),
        ("salvage {data} {new} --to 1:999", 9, "is intact up to position"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_next_step(
    arguments: str, code: int, says: str, log: Foldb, filled: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in filled.glob("*.*")}

    result = log(*arguments.format(data=filled, new=tmp_path / "new").split())

    assert (code, "") == (result.exit_code, result.stdout), result.output
    assert says in result.stderr
    assert 1 == result.stderr.count("\n")
    assert before == {path.name: path.read_bytes() for path in filled.glob("*.*")}
    assert not (tmp_path / "new").exists()


def test_a_served_target_is_refused_with_the_next_step(log: Foldb, filled: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "backup")
    lines(log("backup", str(filled), target))
    with foldb.serve(target) as server:
        beside = log("backup", str(filled), target)
        lines(at(server.endpoint_url)("item", "delete", "Music", "Kyuss", "Space Cadet"))

    since = log("backup", str(filled), target)

    assert (8, True) == (beside.exit_code, "is in use by another process" in beside.stderr)
    assert (9, True) == (since.exit_code, "Name a new folder for the backup." in since.stderr)


def test_a_backup_of_a_crashed_folder_prints_what_is_missing(tmp_path: Path) -> None:
    """Its mark may be older than its last records, and nothing else says that they were acknowledged."""
    disk = log_of(2)
    mark = disk.names_cached[Path("/data/mark")].cached[:]
    append(open_log(disk), put_entry(2))
    disk.replace(Path("/data/mark"), bytes(mark))
    (tmp_path / "data").mkdir()
    for name in disk.names(Path("/data")):
        (tmp_path / "data" / name).write_bytes(disk.names_cached[Path("/data") / name].cached)

    result = at(tmp_path)("log", "backup", str(tmp_path / "data"), str(tmp_path / "backup"))

    assert 0 == result.exit_code, result.output
    assert "1 record at the end of" in result.stderr
    assert "Serve the folder once, then run the backup again." in result.stderr


def test_salvage_says_how_far_a_log_is_whole(log: Foldb, filled: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(filled, tmp_path / "damaged")
    [segment] = damaged.glob("*.avro")
    os.truncate(segment, segment.stat().st_size - 30)
    new = str(tmp_path / "new")

    asked = log("salvage", str(damaged), new)
    to = asked.stderr.split(f"{new} --to ")[1].split("`")[0]
    [row] = lines(log("salvage", str(damaged), new, "--to", to))

    assert (2, "") == (asked.exit_code, asked.stdout)
    assert f"{damaged} is intact up to position {to} (" in asked.stderr
    assert row["left_out_bytes"] > 0
    assert 0 == at(new)("verify", new).exit_code
