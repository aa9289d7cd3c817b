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
    """The folder to write to, which is not an address: Path would read `http://x` as a folder."""
    if is_address(text):
        raise typer.BadParameter(f"{text} is an address: name a folder")
    return Path(text)


NewFolder = Annotated[
    Path,
    typer.Argument(metavar="NEWFOLDER", parser=_path, help="A folder that does not exist or is empty."),
]


def backup(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A database folder, served or not, or the address of a server on this machine.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", parser=_path, help="A folder: new, empty, or an earlier backup of SOURCE."
        ),
    ],
) -> None:
    """Copy the log of a database folder, also while it is served, and append to an earlier backup.

    The backup ends with the last write that was acknowledged when the command began. Each record is checked against
    the chain of hashes before it is written, and the backup is synced to the disk. A second backup into the same
    folder copies only the records that came since; an interrupted one goes on when it is run again. TARGET can be read
    and verified like any database folder. Do not serve it: serve a folder that `foldb log restore` makes of it.

    Example: foldb log backup ./data /mnt/backup/shop
    """
    session: Session = ctx.obj
    folder, is_served = _source(session, source)
    if target.exists() and target.samefile(folder):
        raise CommandError(
            f"{target} is the source: name another folder, best on another disk", ExitCode.USAGE
        )
    part = LogReader(folder, SystemFilesystem()).part()
    with _copying(session, part, "the same command goes on where this one was") as advance:
        copied = back_up(SystemFilesystem(), part, target, advance)
    _report(session, target, part, copied)
    if part.behind and not is_served:
        session.output.warn(
            f"{counted(part.behind, 'record')} at the end of {folder} are not in the backup: nothing proves that they "
            "were acknowledged. A crash leaves such records. Serve the folder once, then make a backup again."
        )


def restore(
    ctx: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="The TARGET of `foldb log backup`, or another folder.")
    ],
    target: NewFolder,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION|TIME",
            help="The last position or log time to restore; without it, the backup's end.",
        ),
    ] = None,
) -> None:
    """Make a folder from a backup that `foldb serve` accepts.

    Each record is checked against the chain of hashes. Positions, sequence numbers, log time and digests are those of
    the backup. Writes that were acknowledged after the backup (or after --to) are not in it, and a server of NEWFOLDER
    gives their positions and sequence numbers to other writes. So never serve NEWFOLDER and the original both.

    Example: foldb log restore /mnt/backup/shop ./restored
    """
    session: Session = ctx.obj
    log = LogReader(existing(source), SystemFilesystem())
    log.hold()
    part = log.part()
    if to is not None:
        part = _cut(part, to)
    with _copying(session, part, f"remove {target} before you run it again") as advance:
        copied = restore_part(SystemFilesystem(), part, target, advance)
    _report(session, target, part, copied)


def salvage(
    ctx: typer.Context,
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
            help="The last position or log time to copy. Without it, print how far the log is whole.",
        ),
    ] = None,
) -> None:
    """Copy the whole records at the beginning of a damaged log into a new folder.

    All records up to and including --to are copied, those of the other partitions before it too, and everything
    behind is reported as left out. Acknowledged writes may be among that: a backup may have more. Without --to nothing
    is copied, and the last position that can be copied is printed.

    Example: foldb log salvage ./data ./salvaged --to 10482
    """
    session: Session = ctx.obj
    whole = intact_part(SystemFilesystem(), existing(source))
    partitions = len(whole.part.chain.ends)
    if to is None:
        raise CommandError(_how_far(whole, source, target), ExitCode.USAGE)
    place = to
    if time_of(to) is None:
        position = _entry(to, partitions)
        place = f"@{position.text(partitions)}"
        if position.offset >= whole.part.chain.ends[position.partition]:
            raise CommandError(_how_far(whole, source, target), ExitCode.INTEGRITY)
    part = _cut(whole.part, to)
    with _copying(session, part, f"remove {target} before you run it again") as advance:
        copied = restore_part(SystemFilesystem(), part, target, advance)
    left = whole.part.chain.sequence - part.chain.sequence
    _report(session, target, part, copied, left_out_records=left + whole.records, left_out_bytes=whole.bytes)
    session.output.say(
        f"left out: {counted(left, 'whole record')} behind {place}, and "
        f"{counted(whole.bytes, 'byte')} that are not whole records"
        + (f", in place of at least {counted(whole.records, 'record')}" if whole.records else "")
    )


def _how_far(whole: IntactPart, source: Path, target: Path) -> str:
    last = whole.last.text(len(whole.part.chain.ends))
    place = f"{source} is whole up to position {last} ({time_text(whole.part.chain.time)})"
    refusal = whole.damage
    if refusal is None:
        return f"{place}, which is its end. `foldb log backup {source} {target}` copies all of it."
    damage = f"{refusal.position}: {refusal.reason}." if isinstance(refusal, CorruptionError) else refusal
    return (
        f"{place}. Behind it are {counted(whole.bytes, 'byte')} that are not whole records. {damage} "
        f"Copy the whole part with `foldb log salvage {source} {target} --to {last}`."
    )


def _source(session: Session, source: str) -> tuple[Path, bool]:
    """The folder to copy, and whether a server is writing it."""
    if source.startswith(KAFKA):
        raise CommandError(
            f"{source}: a backup is of a folder, and the replicas of a topic are its copies. To have this log in a "
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
    """A position that names an entry, the smallest part of a log."""
    position = read_position(text, partitions)
    if position.index is not None:
        whole = replace(position, index=None).text(partitions)
        raise CommandError(
            f"{text} is one command of an entry, which is copied as a whole: say --to {whole}", ExitCode.USAGE
        )
    return position


@contextmanager
def _copying(session: Session, part: Part, if_interrupted: str) -> Iterator[Advance]:
    try:
        with progress(session.settings, session.output.stderr, "copy", part.chain.sequence) as advance:
            yield advance
    except KeyboardInterrupt as error:
        raise CommandError(f"interrupted: {if_interrupted}", ExitCode.INTERRUPTED) from error


def _report(session: Session, target: Path, part: Part, copied: Copied, **more: int) -> None:
    ends, chain = copied.chain.ends, copied.chain
    cut_ = Cut(tuple(Position(number, end - 1) for number, end in enumerate(ends)))
    place, time = cut_.text(len(ends)), time_text(chain.time)
    session.output.row(
        {
            "log_id": part.history.headers[0].log_id.hex(),
            "target": str(target),
            "position": place,
            "time": time,
            "copied": copied.records,
            "bytes": copied.bytes,
            **more,
        }
    )
    session.output.say(
        f"{counted(copied.records, 'record')} copied, {copied.bytes:,} bytes, {_CHECKED} · {target} is as of @{place} "
        f"({time})"
    )
