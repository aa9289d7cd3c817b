"""Damage a log in every way that a disk can, and check the result of a start.

    files ──► damaged ──► open, read, refold ──► DETECTED    refused with segment and byte; no file was touched
                                            └──► HARMLESS    the state is one that its clients may expect

A state that they may not expect, or a refusal that names no place or changed something, fails the test.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from foldb.log.commands import Entry, Record
from foldb.log.local.segment import sequence_in
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import fold_record, refold
from foldb.model.errors import CorruptionError, FoldbError
from tests.unit.log.fake_disk import FakeDisk, Node
from tests.unit.log.local_logs import FOLDER, Held, open_log
from tests.unit.materializer.ledger import Ledger, delete, put, update

SECTOR = 512
DETECTED, HARMLESS = "detected", "harmless"
_PLACE = re.compile(r"[0-9]{20}\.avro at byte [0-9]+")

Files = dict[str, bytes]


@dataclass(frozen=True)
class Sample:
    """A log's files, and the digests of the states that may come of them: of what was acknowledged, and of that with
    more and more of what was on its way.
    """

    files: Files
    expected: frozenset[str]
    segment_bytes: int

    @property
    def segments(self) -> list[str]:
        """The segments' names, in order."""
        return sorted(name for name in self.files if sequence_in(name) is not None)

    def with_file(self, name: str, data: bytes) -> Files:
        """The files, one of them replaced."""
        return self.files | {name: data}


def entries(groups: int, seed: int = 0) -> list[Entry]:
    """Entries of one or two commands, each of which changes the state."""
    dice = random.Random(seed)
    ledger = Ledger()
    table = ledger.create("t", "pk:S sk:S")
    for n in range(groups):
        key = {"pk": {"S": f"p{n % 3}"}, "sk": {"S": f"s{n % 5}"}}
        item = key | {"n": {"N": str(n)}}
        ledger.fold(
            put(table, item), update(table, key, "ADD c :one", {":one": {"N": str(dice.randrange(9) + 1)}})
        )
        if n % 7 == 6:
            ledger.fold(delete(table, key))
    # The numbers of an origin begin with 0; a log has its own Genesis.
    each = (record.entry for record in ledger.records[1:])
    return [replace(entry, entry_number=entry.entry_number - 1) for entry in each]


def sample(groups: int, *, segment_bytes: int, in_flight: int = 0, fsync: str = "always") -> Sample:
    """A log of some segments, its entries written two at a time.

    With `in_flight` it crashed when so many more had been written as one group, of which nobody was told.
    """
    disk = FakeDisk()
    held = Held()
    log = open_log(disk, background=held, segment_bytes=segment_bytes, fsync=fsync)
    reported = entries(groups)
    reported, late = reported[: len(reported) - in_flight], reported[len(reported) - in_flight :]
    for first in range(0, len(reported), 2):
        for entry in reported[first : first + 2]:
            log.append(0, entry, lambda result: None)
        held.close()
    mark = bytes(disk.names_cached[FOLDER / "mark"].cached)
    for entry in late:
        log.append(0, entry, lambda result: None)
    if late:
        held.close()
        disk.names_cached[FOLDER / "mark"].cached[:] = mark
    else:
        log.close()
    everything = list(log.read(0))
    states = list(digests(everything))
    names = [name for name in disk.names(FOLDER) if name != "lock"]
    files = {name: bytes(disk.names_cached[FOLDER / name].cached) for name in names}
    return Sample(files, frozenset(states[len(states) - 1 - in_flight :]), segment_bytes)


def without_mark(sample: Sample) -> Sample:
    """The same log after its mark was lost, as a copy may have it: it may have lost its last group too."""
    files = {name: data for name, data in sample.files.items() if name != "mark"}
    records = list(open_log(disk_of(files)).read(0))
    return Sample(files, frozenset(list(digests(records))[-4:]), sample.segment_bytes)


def digests(records: list[Record]) -> Iterator[str]:
    """The digest of the state after each record."""
    state = PartitionState()
    for record in records:
        fold_record(state, record)
        yield digest(state)


def judge(files: Files, expected: frozenset[str]) -> str:
    """Start on these files like a server, and return the result."""
    disk = disk_of(files)
    state = PartitionState()
    try:
        refold(state, open_log(disk).read(0))
    except FoldbError as error:
        refused = error
    else:
        assert digest(state) in expected, "the log was taken, and its state is none that may be"
        return HARMLESS
    assert isinstance(refused, CorruptionError), refused
    assert _PLACE.search(str(refused)), f"this names no place: {refused}"
    assert _kept(files) == _kept(
        {path.name: bytes(node.cached) for path, node in disk.names_cached.items()}
    ), f"something changed, though the log was refused: {refused}"
    return DETECTED


def _kept(files: Files) -> Files:
    """Return the files that a refusal must not change: all but the writer's mark and zeros after the end."""
    return {name: data.rstrip(b"\0") for name, data in files.items() if name not in ("lock", "mark")}


def disk_of(files: Files) -> FakeDisk:
    """A disk that holds a log's files, all of them durable."""
    disk = FakeDisk()
    disk.folders.add(FOLDER)
    for name, data in files.items():
        node = Node()
        node.cached = bytearray(data)
        node.durable = bytearray(data)
        disk.names_cached[FOLDER / name] = disk.names_durable[FOLDER / name] = node
    return disk


# Kinds of damage: each yields the files as they are after it


def flips(sample: Sample, name: str, first: int, last: int, step: int = 1) -> Iterator[Files]:
    """One bit of a file turned over, every `step` bits."""
    data = bytearray(sample.files[name])
    for bit in range(first * 8, min(last, len(data)) * 8, step):
        data[bit >> 3] ^= 1 << (bit & 7)
        yield sample.with_file(name, bytes(data))
        data[bit >> 3] ^= 1 << (bit & 7)


def truncations(sample: Sample, name: str, step: int = 1) -> Iterator[Files]:
    """A file cut to each length."""
    data = sample.files[name]
    for size in range(0, len(data), step):
        yield sample.with_file(name, data[:size])


def zeros(sample: Sample, name: str, length: int | None, first: int = 0, step: int = 1) -> Iterator[Files]:
    """Replace bytes from each position by zeros: a number of bytes, or up to the end."""
    data = sample.files[name]
    for start in range(first, len(data), step):
        end = len(data) if length is None else min(len(data), start + length)
        if any(data[start:end]):
            yield sample.with_file(name, data[:start] + bytes(end - start) + data[end:])


def sector_swaps(sample: Sample) -> Iterator[Files]:
    """Two sectors, of one segment or of two, each in the other's place."""
    places = list(_sectors(sample))
    for one, (name, at) in enumerate(places):
        for other, to in places[:one]:
            here, there = _sector(sample, name, at), _sector(sample, other, to)
            if here != there:
                yield _put(_put(sample.files, name, at, there), other, to, here)


def sector_copies(sample: Sample) -> Iterator[Files]:
    """A sector in another's place."""
    places = list(_sectors(sample))
    for name, at in places:
        for other, to in places:
            here = _sector(sample, name, at)
            if here != _sector(sample, other, to):
                yield _put(sample.files, other, to, here)


def at_random(sample: Sample, dice: random.Random, times: int) -> Iterator[Files]:
    """Any of these, or random bytes, anywhere."""
    for _ in range(times):
        name = dice.choice(sample.segments)
        data = sample.files[name]
        at = dice.randrange(len(data))
        end = min(len(data), at + dice.choice([1, 2, 16, SECTOR, 4096]))
        kind = dice.randrange(4)
        if kind == 0:
            changed = data[:at]
        elif kind == 1:
            changed = data[:at] + bytes(end - at) + data[end:]
        elif kind == 2:
            changed = data[:at] + dice.randbytes(end - at) + data[end:]
        else:
            changed = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
        if changed != data:
            yield sample.with_file(name, changed)


def _sectors(sample: Sample) -> Iterator[tuple[str, int]]:
    for name in sample.segments:
        for at in range(0, len(sample.files[name]), SECTOR):
            yield name, at


def _sector(sample: Sample, name: str, at: int) -> bytes:
    return sample.files[name][at : at + SECTOR]


def _put(files: Files, name: str, at: int, sector: bytes) -> Files:
    """The files with a sector put somewhere; a short one, from a file's end, leaves the rest as it is."""
    data = files[name]
    room = min(SECTOR, len(data) - at)
    sector = sector[:room]
    return files | {name: data[:at] + sector + data[at + len(sector) :]}


def flip(path: Path, at: int) -> None:
    """Flip the lowest bit of a byte, in place: a server may have the file open."""
    with path.open("r+b") as file:
        file.seek(at)
        [byte] = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))
