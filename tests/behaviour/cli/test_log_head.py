"""`foldb log head` and `foldb verify --against`: a saved head proves the history before it."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.cli.lib.errors import CommandError
from foldb.cli.lib.log_heads import LogHeads, check_heads
from foldb.log.chain import Chain
from foldb.log.commands import Entry, Put, Record
from foldb.log.copy import first_entries, original
from foldb.log.local import LocalLog
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import append, log_of, open_log
from tests.unit.log.samples import put_entry

FILE = Path("heads.jsonl")
RECORDS = 40


def _chains(records: Sequence[Record], log: Any) -> dict[int, str]:
    """Return the chain after each record."""
    chain, found = Chain(log.genesis(0)), {}
    for record in records:
        chain.extend(record)
        found[record.offset] = chain.value.hex()
    return found


def _copied(log: Any, tampered: Sequence[Entry]) -> Any:
    """Return a log with the same id and other entries, whose hashes are right."""
    disk = FakeDisk()
    copy = open_log(disk, first=first_entries(log))
    append(copy, *tampered)
    copy.close()
    return LocalLog.open_reader(Path("/data"), disk=disk)


def _tampered(whole: list[Entry], at_record: int, kind: str, dice: random.Random) -> list[Entry]:
    """Return the entries after Genesis with one of them changed, removed or inserted. `at_record` is its offset."""
    index = at_record - 1
    match kind:
        case "removed":
            return whole[:index] + whole[index + 1 :]
        case "inserted":
            return [*whole[:index], put_entry(dice.randrange(10**6)), *whole[index:]]
    entry = whole[index]
    put = next(command for command in put_entry(1).commands if isinstance(command, Put))
    commands = [*entry.commands, replace(put, size=dice.randrange(100))]
    return [*whole[:index], replace(entry, commands=commands), *whole[index + 1 :]]


@pytest.mark.spec("H11", served=False)
@pytest.mark.parametrize("seed", range(30))
def test_tampering_is_found_at_its_first_position(seed: int) -> None:
    dice = random.Random(seed)
    log = LocalLog.open_reader(Path("/data"), disk=log_of(RECORDS))
    records = list(log.read(0))
    saved: LogHeads = {0: _chains(records, log)}
    place = dice.randrange(1, RECORDS)
    kind = dice.choice(["changed", "removed", "inserted"])
    other = _copied(log, _tampered([original(record) for record in records[1:]], place, kind, dice))

    assert RECORDS + 1 == check_heads(log, saved, FILE, lambda _: None)
    with pytest.raises(CommandError, match=rf"heads\.jsonl: a record at @{place} was changed"):
        check_heads(other, saved, FILE, lambda _: None)


@pytest.mark.parametrize("seed", range(10))
def test_a_single_head_finds_any_tampering_before_it(seed: int) -> None:
    dice = random.Random(seed)
    log = LocalLog.open_reader(Path("/data"), disk=log_of(RECORDS))
    records = list(log.read(0))
    saved: LogHeads = {0: {RECORDS // 2: _chains(records, log)[RECORDS // 2]}}
    place = dice.randrange(1, RECORDS + 1)
    other = _copied(log, _tampered([original(record) for record in records[1:]], place, "changed", dice))

    if place > RECORDS // 2:
        assert 1 == check_heads(other, saved, FILE, lambda _: None)
    else:
        with pytest.raises(CommandError, match=f"a record at @0 to @{RECORDS // 2} was changed, removed or"):
            check_heads(other, saved, FILE, lambda _: None)


def test_a_shorter_log_misses_records() -> None:
    log = LocalLog.open_reader(Path("/data"), disk=log_of(RECORDS))
    saved: LogHeads = {0: _chains(list(log.read(0)), log)}
    shorter = LocalLog.open_reader(Path("/data"), disk=log_of(RECORDS - 3))

    with pytest.raises(CommandError, match=f"ends at @{RECORDS - 3}, before @{RECORDS} of"):
        check_heads(shorter, saved, FILE, lambda _: None)


@pytest.mark.spec("H11")
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_head_of_a_served_log_is_verified_later(tmp_path: Path, partitions: int) -> None:
    data, file = tmp_path / "data", tmp_path / "heads"
    with foldb.serve(data, fsync="never", partitions=partitions, segment_bytes=20_000) as server:
        cli = at(server.endpoint_url)
        _write(cli, 5)
        by_server = lines(cli("log", "head"))
        file.write_text(cli("log", "head", "-o", "json").stdout)
        _write(cli, 3)

    verified = at(data)("verify", "--against", str(file))
    assert verified.exit_code == 0, verified.output
    assert f"of {file} compared: the log begins with this history" in verified.stderr
    assert len(by_server) == (1 if partitions == 1 else 3)
    assert by_server[0].keys() == {"log_id", "position", "time", "chain"}
    # The chain that continues from a snapshot is that of the whole log.
    first = lines(at(data)("log", "head"))
    lines(at(data)("snapshot", "make"))
    assert first == lines(at(data)("log", "head"))
    rows = lines(at(data)("log", "head", "--every", "2"))
    assert len(rows) > len(first)
    assert [row for row in rows if row in first] == first


def _write(cli: Foldb, count: int) -> None:
    if cli("table", "describe", "Orders").exit_code:
        assert cli("table", "create", "Orders", "id:S").exit_code == 0
    for n in range(count):
        assert cli("item", "put", "Orders", json.dumps({"id": f"o{n}"})).exit_code == 0


def test_a_trimmed_log_is_verified_against_its_old_head(tmp_path: Path) -> None:
    data, late, early = tmp_path / "data", tmp_path / "late", tmp_path / "early"
    with foldb.serve(data, fsync="never", segment_bytes=20_000, stream_retention_ms=1) as server:
        cli = at(server.endpoint_url)
        assert cli("table", "create", "Orders", "id:S").exit_code == 0
        early.write_text(cli("log", "head").stdout)
        for n in range(60):
            item = json.dumps({"id": f"o{n}", "x": "x" * 900})
            assert cli("item", "put", "Orders", item).exit_code == 0
        late.write_text(cli("log", "head", "-o", "jsonl").stdout)
    archive = tmp_path / "archive"
    trimmed = at(data)("log", "trim", "--before", "50", "--archive", str(archive), "--yes")
    assert trimmed.exit_code == 0, trimmed.output

    assert 0 == at(data)("verify", "--against", str(late)).exit_code
    refused = at(data)("verify", "--against", str(early))
    assert 1 == refused.exit_code
    assert "verify the archive of the trim against it" in refused.stderr
    assert 0 == at(archive)("verify", "--against", str(early)).exit_code


def test_a_file_without_heads_is_refused(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "heads"
    with foldb.serve(data, fsync="never"):
        pass
    other = tmp_path / "other"
    with foldb.serve(other, fsync="never"):
        pass
    for text in ("", "[]", "no json", '{"position": 7}'):
        file.write_text(text)
        result = at(data)("verify", "--against", str(file))
        assert 2 == result.exit_code
        assert "has no heads: save them with `foldb log head -o jsonl`" in result.stderr
    file.write_text(at(other)("log", "head").stdout)
    result = at(data)("verify", "--against", str(file))
    assert 9 == result.exit_code
    assert "the log was replaced" in result.stderr
