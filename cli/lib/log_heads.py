"""The heads of a log: position, log time and chain of each partition. A saved head proves the history before it.

    foldb log head > heads.jsonl      later: foldb verify --against heads.jsonl

A chain covers every record up to its position (log/chain.py), in every copy of the log. One head shows whether a record
before it differs; the heads of several positions show which one.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...log.chain import Chain
from ...log.commands import Position, Relay
from ...log.local.filesystem import SystemFilesystem
from ...materializer.foundation import initial_chain, initial_head
from ...materializer.snapshots import Snapshots
from .errors import CommandError, ExitCode
from .log_history import read_position
from .log_location import LogSource, SourceLog
from .output import time_text
from .progress import Advance

LogHeads: TypeAlias = Mapping[int, Mapping[int, str]]
"""Chains in hexadecimal, by partition and offset."""

_MEMBERS: Final = ("log_id", "position", "chain")


def heads(
    log: SourceLog, source: LogSource, partition: int, every: int | None, advance: Advance
) -> Iterator[dict[str, Any]]:
    """Yield the head of a partition, after those of every N records if `every` is given.

    Without `every` the chain continues from the newest snapshot, so that only the records after it are read.
    """
    end = log.end(partition)
    chain = initial_chain(log, partition)
    head = initial_head(log, partition)
    if every is None and source.folder is not None:
        snapshots = Snapshots(source.folder, SystemFilesystem(), partition, log.partitions)
        newest = snapshots.newest_head(log)
        if newest is not None and newest.chain is not None:
            head, chain = newest, Chain(log.genesis(partition), newest.offset + 1, newest.chain)
    time_ms = 0 if head is None else head.time_ms
    advance(chain.next_offset - log.begin(partition))

    def row() -> dict[str, Any]:
        return {
            "log_id": log.log_id.hex(),
            "position": Position(partition, chain.next_offset - 1).text(log.partitions),
            "time": time_text(time_ms),
            "chain": chain.value.hex(),
        }

    if chain.next_offset < end:
        for record in log.read(partition, chain.next_offset):
            if chain.next_offset == end:
                break
            chain.extend(record)
            relayed = (command.time + 1 for command in record.entry.commands if isinstance(command, Relay))
            own = record.time if record.entry.time is None else record.entry.time
            time_ms = max(time_ms, own, *relayed)
            if every is not None and chain.next_offset % every == 0 and chain.next_offset < end:
                yield row()
            advance(1)
    yield row()


def read_heads(path: Path, log: SourceLog) -> LogHeads:
    """Read the saved output of `foldb log head`.

    Raises:
        CommandError: The file is no such output, or is of another log.
    """
    found: dict[int, dict[int, str]] = {}
    for row in _rows(path):
        if row["log_id"] != log.log_id.hex():
            raise CommandError(
                f"{path} is of the log {row['log_id']}, and this is {log.log_id.hex()}: the log was replaced, or "
                "another one was named",
                ExitCode.INTEGRITY,
            )
        position = read_position(row["position"], log.partitions)
        found.setdefault(position.partition, {})[position.offset] = row["chain"]
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    text = path.read_text("utf-8", errors="replace").strip()
    try:
        rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    except ValueError:
        rows = []
    if not rows or not all(
        isinstance(row, dict) and all(isinstance(row.get(member), str) for member in _MEMBERS) for row in rows
    ):
        raise CommandError(
            f"{path} has no heads: save them with `foldb log head -o jsonl` or `-o json`", ExitCode.USAGE
        )
    return rows


def check_heads(log: SourceLog, saved: LogHeads, path: Path, advance: Advance) -> int:
    """Check that the log begins with the history of all saved heads. Return the number of heads compared.

    Raises:
        CommandError: A record differs or is missing, or a trim has removed the positions of all heads of a partition.
    """
    compared = 0
    for partition, chains in sorted(saved.items()):
        compared += _check_partition(log, partition, chains, path, advance)
    return compared


def _check_partition(
    log: SourceLog, partition: int, chains: Mapping[int, str], path: Path, advance: Advance
) -> int:
    def text(offset: int) -> str:
        return f"@{Position(partition, offset).text(log.partitions)}"

    chain = initial_chain(log, partition)
    begin, end, last = chain.next_offset, log.end(partition), max(chains)
    equal = begin - 1  # the chain of a base is part of the foundation
    if last < begin - 1:
        raise CommandError(
            f"{path} ends at {text(last)}, and the log was trimmed and begins at {text(begin)}: verify the archive of "
            "the trim against it",
            ExitCode.DIFFERENT,
        )
    compared = 0
    records = log.read(partition, begin) if begin < end else iter(())
    while chain.next_offset <= last + 1:
        offset = chain.next_offset - 1
        if offset in chains:
            if chains[offset] != chain.value.hex():
                place = text(offset) if equal + 1 >= offset else f"{text(equal + 1)} to {text(offset)}"
                raise CommandError(
                    f"the log has another history than {path}: a record at {place} was changed, removed or inserted",
                    ExitCode.INTEGRITY,
                )
            equal, compared = offset, compared + 1
        if offset == last:
            break
        record = next(records, None)
        if record is None:
            raise CommandError(
                f"the log ends at {text(offset)}, before {text(last)} of {path}: records are missing",
                ExitCode.INTEGRITY,
            )
        chain.extend(record)
        advance(1)
    return compared
