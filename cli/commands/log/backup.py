"""`foldb log backup`, `restore` and `salvage`: copies of a log in a folder."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ....log.commands import Cut, Position
from ....log.local.backup import Copied, IntactPart, back_up, cut, cut_at, intact_part
from ....log.local.backup import restore as restore_part
from ....log.local.filesystem import SystemFilesystem
from ....log.local.history import Part
from ....log.local.reader import LogReader
from ....model.errors import CorruptionError
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import read_position
from ...lib.log_location import KAFKA
from ...lib.log_times import time_of
from ...lib.output import counted, time_text
from ...lib.progress import Advance, progress
from ...lib.session import Session, existing, is_address

_CHECKED = "each checked against the chain of hashes"


def _path(text: str) -> Path:
    """Return the folder to write to.

    Raises:
        typer.BadParameter: `text` is an address, which Path would accept as a folder.
    """
    if is_address(text):
        raise typer.BadParameter(f"{text} is an address: give a folder")
    return Path(text)


NewFolder = Annotated[
    Path,
    typer.Argument(metavar="NEWFOLDER", parser=_path, help="A folder that does not exist or is empty."),
]


def backup(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A database folder, with or without a server, or the address of a server on this machine.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", parser=_path, help="A folder: new, empty, or an earlier backup of SOURCE."
        ),
    ],
) -> None:
    """Copy the log of a database folder, or append the new records to an earlier backup. A server may run.

    The backup ends with the last write that was acknowledged when the command started. Each record is checked against
    the chain of hashes before it is written, and the backup is synced to the disk. A second backup to the same folder
    copies only new records. Run an interrupted command again to continue it. TARGET can be read and verified like any
    database folder. Do not serve it: serve a folder that `foldb log restore` creates from it.

    Example: foldb log backup ./data /mnt/backup/shop
    """
    folder, is_served = _source(session, source)
    if target.exists() and target.samefile(folder):
        raise CommandError(
            f"{target} is the source: give another folder, best on another disk", ExitCode.USAGE
        )
    part = LogReader(folder, SystemFilesystem()).part()
    with _copying(session, part, "run the same command again to continue") as advance:
        copied = back_up(SystemFilesystem(), part, target, advance)
    _report(session, target, part, copied)
    if part.behind and not is_served:
        session.output.warn(
            f"{counted(part.behind, 'record')} at the end of {folder} are not in the backup: nothing proves that they "
            "were acknowledged. A crash leaves such records. Serve the folder once, then run the backup again."
        )


def restore(
    session: Session,
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="The TARGET of `foldb log backup`, or another folder.")
    ],
    target: NewFolder,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION|TIME",
            show_default="the end of the backup",
            help="Restore up to and including this position or log time.",
        ),
    ] = None,
) -> None:
    """Create a folder from a backup, for `foldb serve`.

    Each record is checked against the chain of hashes. Positions, sequence numbers, log time and digests are those of
    the backup. Writes that were acknowledged after the backup (or after --to) are missing, and a server of NEWFOLDER
    gives their positions and sequence numbers to other writes. So never serve both NEWFOLDER and the original.

    Example: foldb log restore /mnt/backup/shop ./restored
    """
    log = LogReader(existing(source), SystemFilesystem())
    log.hold()
    part = log.part()
    if to is not None:
        part = _cut(part, to)
    with _copying(session, part, f"remove {target} before you run it again") as advance:
        copied = restore_part(SystemFilesystem(), part, target, advance)
    _report(session, target, part, copied)


def salvage(
    session: Session,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A database folder that `foldb serve` refuses. It is not changed."
        ),
    ],
    target: NewFolder,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION|TIME",
            show_default="print the end of the intact part",
            help="Copy up to and including this position or log time.",
        ),
    ] = None,
) -> None:
    """Copy the intact records at the beginning of a damaged log to a new folder.

    All records up to and including --to are copied, and those of other partitions before it. The rest is reported as
    left out; it may include acknowledged writes, which a backup may have. Without --to nothing is copied, and the last
    position that can be copied is printed.

    Example: foldb log salvage ./data ./salvaged --to 10482
    """
    whole = intact_part(SystemFilesystem(), existing(source))
    partitions = len(whole.part.chain.ends)
    if to is None:
        raise CommandError(_extent(whole, source, target), ExitCode.USAGE)
    end = to
    if time_of(to) is None:
        position = _entry(to, partitions)
        end = f"@{position.text(partitions)}"
        if position.offset >= whole.part.chain.ends[position.partition]:
            raise CommandError(_extent(whole, source, target), ExitCode.INTEGRITY)
    part = _cut(whole.part, to)
    with _copying(session, part, f"remove {target} before you run it again") as advance:
        copied = restore_part(SystemFilesystem(), part, target, advance)
    left = whole.part.chain.sequence - part.chain.sequence
    _report(session, target, part, copied, left_out_records=left + whole.records, left_out_bytes=whole.bytes)
    session.output.say(
        f"left out: {counted(left, 'intact record')} after {end}, and "
        f"{counted(whole.bytes, 'byte')} that are not intact records"
        + (f", in place of at least {counted(whole.records, 'record')}" if whole.records else "")
    )


def _extent(whole: IntactPart, source: Path, target: Path) -> str:
    """Return a sentence about the intact part of the log and the damage after it."""
    last = whole.last.text(len(whole.part.chain.ends))
    extent = f"{source} is intact up to position {last} ({time_text(whole.part.chain.time)})"
    refusal = whole.damage
    if refusal is None:
        return f"{extent}, which is its end. `foldb log backup {source} {target}` copies all of it."
    damage = f"{refusal.position}: {refusal.reason}." if isinstance(refusal, CorruptionError) else refusal
    return (
        f"{extent}. After it are {counted(whole.bytes, 'byte')} that are not intact records. {damage} "
        f"Copy the intact part with `foldb log salvage {source} {target} --to {last}`."
    )


def _source(session: Session, source: str) -> tuple[Path, bool]:
    """Return the folder to copy, and whether a server is writing it."""
    if source.startswith(KAFKA):
        raise CommandError(
            f"{source}: a backup needs a folder, and the copies of a topic are its replicas. To copy this log to a "
            f"folder, stop its nodes and run `foldb log copy {source} FOLDER`.",
            ExitCode.USAGE,
        )
    with closing(Session(replace(session.settings, db=source))) as of_source:
        return of_source.folder, of_source.server is not None


def _cut(part: Part, to: str) -> Part:
    """Return the records up to and including a position or a time."""
    time_ms = time_of(to)
    return cut(part, _entry(to, len(part.chain.ends))) if time_ms is None else cut_at(part, time_ms)


def _entry(text: str, partitions: int) -> Position:
    """Return the position of an entry, the smallest unit of a copy.

    Raises:
        CommandError: `text` is not a position, or is one of a command.
    """
    position = read_position(text, partitions)
    if position.index is not None:
        whole = replace(position, index=None).text(partitions)
        raise CommandError(
            f"{text} is one command of an entry, which is copied as a whole: give --to {whole}",
            ExitCode.USAGE,
        )
    return position


@contextmanager
def _copying(session: Session, part: Part, next_step: str) -> Iterator[Advance]:
    try:
        with progress(session.settings, session.output.stderr, "copy", part.chain.sequence) as advance:
            yield advance
    except KeyboardInterrupt as error:
        raise CommandError(f"interrupted: {next_step}", ExitCode.INTERRUPTED) from error


def _report(session: Session, target: Path, part: Part, copied: Copied, **more: int) -> None:
    ends, chain = copied.chain.ends, copied.chain
    cut_ = Cut(tuple(Position(partition, end - 1) for partition, end in enumerate(ends)))
    position, time = cut_.text(len(ends)), time_text(chain.time)
    session.output.row(
        {
            "log_id": part.history.headers[0].log_id.hex(),
            "target": str(target),
            "position": position,
            "time": time,
            "copied": copied.records,
            "bytes": copied.bytes,
            **more,
        }
    )
    session.output.say(
        f"{counted(copied.records, 'record')} copied, {copied.bytes:,} bytes, {_CHECKED} · "
        f"{target} is as of @{position} ({time})"
    )
