"""`foldb log trim`: remove old records from a log in a folder."""

import queue
from pathlib import Path
from typing import Annotated, Any

import typer

from ....log.commands import Cut, Position
from ....log.local import LocalLog
from ....log.local.filesystem import SystemFilesystem
from ....log.local.foundation import Foundation
from ....log.local.segment import Header
from ....materializer.trim import plan
from ....materializer.trim_job import STREAM_RETENTION_MS, TrimCut, TrimJob
from ....materializer.trim_worker import prepare_here
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import read_position
from ...lib.log_location import LogServer, SourceLog, opened_to_write, source_of
from ...lib.log_times import time_of
from ...lib.options import DryRun, SourceArgument
from ...lib.output import counted, time_text
from ...lib.progress import progress
from ...lib.session import Session


def trim(
    session: Session,
    source: SourceArgument = None,
    *,
    before: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="POSITION|TIME",
            help="Remove records before this position or time: 10482, -35d, an ISO 8601 time.",
        ),
    ],
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            metavar="DIR",
            help="First copy the removed segments to this folder: new, or the archive of an earlier trim.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove the history before a cut. The tables do not change.

    Whole segments are removed, so the history begins at the last segment boundary before the cut. The state at the
    horizon is written to the folder in two copies, and another process refolds the log and compares it before a segment
    is removed. Positions before the horizon cannot be read any longer, except in the archive, which `foldb log cat`
    and `foldb verify` read like a database folder. The trim is refused if a subscription or a stream needs the records.

    A server of the folder trims its log itself, and copies the segments to the archive that it was started with.

    Example: foldb log trim ./data --before -35d --archive /mnt/archive
    """
    found = source_of(session, source)
    if found.is_shared:
        raise CommandError(
            f"{found.location}: only a log in a folder can be trimmed. The topic keeps its whole history.",
            ExitCode.USAGE,
        )
    server = found.server or session.of(found.location).server
    log = found.open()
    cut = _cut(log, before)
    if dry_run:
        own = (
            {} if server is None else server.admin("Status")
        )  # a server of an earlier release has no such member
        retention_ms = own.get("StreamRetentionMs", STREAM_RETENTION_MS)
        planned = plan(SystemFilesystem(), TrimJob(Path(found.location), cut, archive, retention_ms))
        if planned is None:
            raise _nothing(before)
        session.output.plan({"change": "trim the log", "log": found.location} | _plan_row(log, *planned))
        return
    lost = "" if archive is not None or server is not None else " They cannot be restored."
    session.confirm(f"Remove the records before {before} from {found.location}?{lost}")
    if server is not None:
        row = _by_server(session, server, cut, archive)
    else:
        row = _by_this_process(session, found.location, cut, archive)
    if row is None:
        raise _nothing(before)
    session.output.row(row)
    session.output.say(
        f"{counted(row['segments'], 'segment')} removed · the history begins at @{row['horizon']} ({row['time']}), "
        f"the last segment boundary before {before}"
    )


def _nothing(before: str) -> CommandError:
    return CommandError(
        f"no segment ends before {before}: nothing was removed. The log is trimmed by whole segments.",
        ExitCode.DIFFERENT,
    )


def _plan_row(log: SourceLog, header: Header, segments: int) -> dict[str, Any]:
    ends = header.chain.ends
    horizon = Cut(tuple(Position(partition, end) for partition, end in enumerate(ends)))
    return {
        "horizon": horizon.text(len(ends)),
        "time": time_text(header.chain.time),
        "segments": segments,
        "entries": sum(end - log.begin(partition) for partition, end in enumerate(ends)),
    }


def _cut(log: SourceLog, text: str) -> TrimCut:
    time_ms = time_of(text)
    if time_ms is not None:
        return TrimCut(time_ms=time_ms)
    positions = [read_position(each, log.partitions) for each in text.split(",")]
    return TrimCut(offsets={each.partition: each.offset for each in positions})


def _by_this_process(
    session: Session, location: str, cut: TrimCut, archive: Path | None
) -> dict[str, Any] | None:
    folder = Path(location)
    with opened_to_write(location, None) as (log, deliveries):
        assert isinstance(log, LocalLog)
        with progress(session.settings, session.output.stderr, "fold", None) as advance:
            job = TrimJob(folder, cut, archive)
            foundation = prepare_here(log.disk, job, advance)
        if foundation is None:
            return None
        results: queue.SimpleQueue[int | Exception] = queue.SimpleQueue()
        log.trim(foundation, results.put)
        deliveries.get()()
        result = results.get()
        if isinstance(result, Exception):
            raise result
        return row_of(foundation, result)


def row_of(foundation: Foundation, segments: int) -> dict[str, Any]:
    """Return the output of a trim."""
    ends = foundation.chain.ends
    horizon = Cut(tuple(Position(partition, end) for partition, end in enumerate(ends)))
    return {
        "log_id": foundation.log_id.hex(),
        "horizon": horizon.text(len(ends)),
        "time": time_text(foundation.time_ms),
        "segments": segments,
        "archive": foundation.archive,
    }


def _by_server(
    session: Session, server: LogServer, cut: TrimCut, archive: Path | None
) -> dict[str, Any] | None:
    request: dict[str, Any] = {"Offsets": {str(each): offset for each, offset in cut.offsets.items()}}
    if cut.time_ms is not None:
        request = {"TimeMs": cut.time_ms}
    if archive is not None:
        request["Archive"] = str(archive.absolute())
    with progress(session.settings, session.output.stderr, "trim", None):
        answer = server.admin("Trim", request)
        while answer["Status"] == "RUNNING":
            answer = server.admin("Trim", {"Id": answer["Id"]})
    if answer["Horizon"] is None:
        return None
    return {
        "log_id": answer["LogId"],
        "horizon": answer["Horizon"],
        "time": time_text(answer["HorizonMs"]),
        "segments": answer["Segments"],
        "archive": answer["Archive"],
    }
