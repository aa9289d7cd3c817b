"""`foldb doctor`: check a database and the machine that serves it, with one line for each check.

    machine ──► folder ──► log ──► snapshots, history ──► clock ──► server ──► triggers ──► keys, Kafka

The checks of the log are those of a start (`LocalLog.open_reader`, `hold`), and with --deep those of `foldb verify`.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from ...log.local.filesystem import SystemFilesystem
from ...log.local.foundation import faults as foundation_faults
from ...log.local.reader import LogReader
from ...log.local.writer import LOCK_NAME
from ...materializer.history.epoch_storage import read_list
from ...materializer.history.history import FOLDER as HISTORY
from ...materializer.snapshots import snapshots_of_each
from ...model.durations import duration
from ...model.errors import FoldbError
from ...server.auth.keyfile import read_keys
from ...server.settings import kafka_variables
from ..lib import machine_checks
from ..lib.client import address
from ..lib.errors import CommandError, ExitCode, of_foldb, of_system
from ..lib.log_location import KAFKA, LogSource, source_of
from ..lib.machine_checks import Finding, Result
from ..lib.options import SourceArgument
from ..lib.output import Output, Row, counted, time_text
from ..lib.session import Session, is_address
from ..lib.settings import DEFAULT_URL, SessionSettings
from .key import KeyFile
from .verify import verify

_KEYS: Final = Path("keys.toml")
_MINUTE_MS: Final = 60_000
_SEGMENTS: Final = 2
_SNAPSHOT_ENTRIES: Final = 1_000_000
_MEMORY_SHARE: Final = 0.9
_LAG_MS: Final = 60_000
_LAGS: Final = {"--read-lag": "ReadLagMs", "--index-lag": "IndexLagMs"}


class _Collected(Output):
    """An output that keeps the rows of a command instead of writing them."""

    def __init__(self, settings: SessionSettings) -> None:
        super().__init__(settings)
        self.collected: list[Row] = []

    def row(self, row: Row) -> None:
        self.collected.append(row)

    def say(self, text: str) -> None:
        """Write nothing: the findings say it."""


def doctor(
    session: Session,
    source: SourceArgument = None,
    keys: KeyFile = _KEYS,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read and refold the whole log, as `foldb verify` does.")
    ] = False,
) -> None:
    """Give a folder or the address of a server; without one the database of --db is checked.

    Each line has a result: ok, warning or failed, and a next step if it is not ok. The exit code is 1 if a check
    failed. The command changes nothing: it measures the disk with a temporary file.

    Example: foldb doctor ./data
    """
    is_topic = source is not None and source.startswith(KAFKA)
    checked = session if source is None or is_topic else session.of(source)
    findings = [*_findings(checked, source if is_topic else None, keys)]
    if deep:
        findings += _guarded("verify", lambda: _deep(checked, source if is_topic else None))
    rows = [{name: value for name, value in each._asdict().items() if value} for each in findings]
    session.output.rows(rows, first=("check", "result", "found", "step"))
    failed = sum(each.result is Result.FAILED for each in findings)
    warnings = sum(each.result is Result.WARNING for each in findings)
    summary = f"{counted(len(findings), 'check')} · {counted(warnings, 'warning')} · {failed} failed"
    if failed:
        raise CommandError(summary, ExitCode.DIFFERENT)
    session.output.say(summary)


def _findings(session: Session, topic: str | None, keys: Path) -> Iterator[Finding]:
    yield from machine_checks.python_and_libraries()
    yield from machine_checks.limits()
    server: dict[str, Any] = {}
    if topic is not None:
        yield from _guarded("Kafka", lambda: _kafka(source_of(session, topic)))
    else:
        yield from _guarded("server", lambda: _server(session, server))
        yield from _guarded("log", lambda: _source(session, server))
    if server:
        yield from _guarded("server", lambda: _status(server))
        yield from _guarded("settings", lambda: _settings(session, server))
        yield from _guarded("triggers", lambda: _triggers(session))
    if keys != _KEYS or keys.exists():
        yield from _guarded("keys", lambda: _keys(keys))


def _guarded(check: str, run: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a check; an error of it is a finding too."""
    try:
        yield from run()
    except CommandError as error:
        yield _failed(check, error)
    except FoldbError as error:
        yield _failed(check, of_foldb(error))
    except OSError as error:
        yield _failed(check, of_system(error))


def _failed(check: str, error: CommandError) -> Finding:
    sentence, _, step = error.sentence.partition(". ")
    return Finding(check, Result.FAILED, sentence, step)


def _server(session: Session, status: dict[str, Any]) -> Iterator[Finding]:
    """Check that the server answers, and put its status into `status`. For a folder without one check the port."""
    db = session.settings.db
    if session.server is None:
        _, host, number = address(DEFAULT_URL)
        yield Finding("server", Result.OK, f"none has {db} open")
        yield machine_checks.port(host, number)
        return
    started = time.perf_counter()
    status |= session.client.admin("Status")
    milliseconds = (time.perf_counter() - started) * 1000
    yield Finding("server", Result.OK, f"{session.client.url} answers in {milliseconds:.1f} ms")


def _source(session: Session, status: dict[str, Any]) -> Iterator[Finding]:
    """Check the folder and the log. The log of a server on another machine is checked by that server alone."""
    if is_address(session.settings.db) and not status:
        return  # the server did not answer, which is a finding already
    path = status.get("Path")
    if status and status.get("Log") is None and (path is None or not Path(path).is_dir()):
        yield Finding("log", Result.OK, "in memory, or on another machine: run `foldb doctor FOLDER` there")
        return
    source = source_of(session, None)
    if source.folder is not None:
        yield from _guarded("folder", lambda: machine_checks.folder(Path(str(source.folder))))
    if source.is_shared:
        yield from _kafka(source)
    else:
        yield from _lock(Path(source.location), status)
        yield from _log(source, status)


def _lock(folder: Path, status: dict[str, Any]) -> Iterator[Finding]:
    """Check that the server, and no other process, has the folder."""
    if status:
        note = (folder / LOCK_NAME).read_text("utf-8", "replace").strip()
        yield Finding("lock", Result.OK, f"held by the server ({note})")
        number = note.removeprefix("pid ")
        if number.isdecimal():
            yield from machine_checks.processes(int(number))
        return
    held = SystemFilesystem().hold(folder)
    try:
        held.lock_folder()
    except BlockingIOError:
        step = "Find the process (`fuser -v FOLDER`): it is a server that does not answer, or a command that runs."
        yield Finding("lock", Result.WARNING, "another process writes to the folder", step)
    else:
        yield Finding("lock", Result.OK, "free")
    finally:
        held.close()


def _log(source: LogSource, status: dict[str, Any]) -> Iterator[Finding]:
    """Check the end of the log as a start does, and read its last segments."""
    log = source.open()
    assert isinstance(log, LogReader), "a log in a folder"
    tail = log.hold()
    headers = log.part().headers
    first = headers[-_SEGMENTS:][0]
    records = 0
    for partition, offset in enumerate(first.chain.ends):
        for _ in log.read(partition, max(offset, log.begin(partition))):
            records += 1
    read = f"{counted(records, 'record')} of the last {counted(min(_SEGMENTS, len(headers)), 'segment')} are intact"
    if tail.missing:
        step = "Run `foldb verify`: acknowledged writes were never synced."
        yield Finding("log", Result.FAILED, f"the last {counted(tail.missing, 'byte')} are missing", step)
    elif tail.torn and not status:
        step = "The next start moves it to a side file: no client got an answer for it."
        yield Finding("log", Result.WARNING, f"{read}; an unfinished write of {tail.torn} bytes", step)
    else:
        yield Finding("log", Result.OK, f"{read}; `--deep` reads all {counted(len(headers), 'segment')}")
    if damaged := foundation_faults(SystemFilesystem(), Path(source.location)):
        step = "Start the server: it writes the damaged copy again from the other one."
        yield Finding("foundation", Result.FAILED, "; ".join(damaged), step)
    yield from _clock(log.statistics().time_ms, status)
    yield from _snapshots(source, log)
    yield from _history(Path(source.location), log, status)


def _clock(log_ms: int, status: dict[str, Any]) -> Iterator[Finding]:
    """Compare the clock of this machine with log time, which never goes back."""
    ahead = log_ms - time.time_ns() // 1_000_000
    text = f"the last entry is of {time_text(log_ms)}"
    if refused := status.get("ClockRefusedMs", 0):
        step = "Set the clock: a server accepts a step only after it has lasted."
        yield Finding("clock", Result.WARNING, f"the server refuses a step of {refused:,} ms; {text}", step)
    elif ahead > _MINUTE_MS:
        step = "Set the clock of this machine: until then new entries get the time of the last one."
        yield Finding("clock", Result.WARNING, f"{ahead / 1000:,.0f} s behind the log; {text}", step)
    else:
        yield Finding("clock", Result.OK, f"not behind the log; {text}")


def _snapshots(source: LogSource, log: LogReader) -> Iterator[Finding]:
    """Check that a start has few entries to fold after the newest snapshot of each partition."""
    folder = source.snapshots_folder()
    for partition, snapshots in enumerate(snapshots_of_each(folder, SystemFilesystem(), log.partitions)):
        head = snapshots.newest_head(log)
        behind = (
            log.end(partition) - log.begin(partition)
            if head is None
            else log.end(partition) - head.offset - 1
        )
        name = "snapshots" if log.partitions == 1 else f"snapshots of {partition}"
        if head is None:
            text = f"none; a start folds {counted(behind, 'record')}"
        else:
            text = f"newest of {time_text(head.time_ms)}; a start folds {counted(behind, 'record')} after it"
        if behind > _SNAPSHOT_ENTRIES:
            step = "Take one with `foldb snapshot make`, or set `foldb serve --snapshot-every`."
            yield Finding(name, Result.WARNING, text, step)
        else:
            yield Finding(name, Result.OK, text)


def _history(folder: Path, log: LogReader, status: dict[str, Any]) -> Iterator[Finding]:
    """Check the list of the epochs, and whether the sealed ones reach back to the beginning of the log."""
    if not (folder / HISTORY).is_dir():
        yield Finding("history", Result.OK, "none: reads of the past fold the log (`foldb serve --history`)")
        return
    for partition in range(log.partitions):
        name = "history" if log.partitions == 1 else f"history of {partition}"
        text = read_list(SystemFilesystem(), folder / HISTORY / str(partition))
        epochs = [] if text is None else orjson.loads(text)["epochs"]
        if not epochs:
            result = Result.OK if status else Result.WARNING
            yield Finding(
                name, result, "no epoch is complete", "" if status else "Start the server: it builds them."
            )
            continue
        first = min(each["first"] for each in epochs)
        missing = first - log.begin(partition)
        reach = (
            "the whole log"
            if missing <= 0
            else f"all but the first {counted(missing, 'record')}, which follow"
        )
        yield Finding(name, Result.OK, f"{counted(len(epochs), 'epoch')}: {reach}")


def _kafka(source: LogSource) -> Iterator[Finding]:
    """Check that the brokers answer, and the settings of the topic."""
    from ...log.kafka.log import topic_problems  # the Kafka client is slow to import
    from ...log.kafka.settings import Security

    security = Security.read(None, kafka_variables())
    problems, warnings = topic_problems(source.location, security)
    for problem in problems:
        sentence, _, step = problem.partition(": ")
        yield Finding("Kafka", Result.FAILED, sentence, f"{step[:1].upper()}{step[1:]}.")
    for warning in warnings:
        sentence, _, step = warning.partition(". ")
        yield Finding("Kafka", Result.WARNING, sentence, step)
    if not problems and not warnings:
        yield Finding("Kafka", Result.OK, f"{source.location} answers, and its topic has safe settings")


def _status(status: dict[str, Any]) -> Iterator[Finding]:
    """Check the server's own report."""
    if status["Damaged"]:
        step = "Run `foldb verify`, and `foldb rebuild TABLE` for a table that differs."
        yield Finding("scrub", Result.FAILED, f"damaged: {'; '.join(status['Damaged'])}", step)
    elif status["ScrubbedMs"]:
        yield Finding(
            "scrub", Result.OK, f"the last one, of {time_text(status['ScrubbedMs'])}, found no damage"
        )
    if status["Stopped"]:
        step = "Read the server's log, then start it again."
        yield Finding("writes", Result.FAILED, "a partition has stopped: its disk or broker failed", step)
    if partitions := status.get("Unreachable"):
        step = "Run `foldb cluster status`: it prints the owner of each partition."
        yield Finding("partitions", Result.FAILED, f"unreachable: {partitions}", step)
    used, most = status["MemoryBytes"], status["MemoryLimit"]
    text = f"{used:,} bytes of items" + ("; no --memory-limit" if most is None else f" of at most {most:,}")
    if status["Refusing"]:
        step = "Raise --memory-limit, or delete items."
        yield Finding("memory limit", Result.FAILED, f"{text}: writes are refused", step)
    elif most is not None and used > most * _MEMORY_SHARE:
        yield Finding("memory limit", Result.WARNING, text, "Raise --memory-limit, or delete items.")
    elif (total := _memory_of_server(status)) is not None and (used if most is None else most) > total // 2:
        text += f"; the machine has {total:,}"
        step = "Set --memory-limit to at most half of the memory: a snapshot needs as much as the items."
        yield Finding("memory limit", Result.WARNING, text, step)
    else:
        yield Finding("memory limit", Result.OK, text)
    if status["Fsync"] != "always":
        step = "Use --fsync always unless the data can be lost."
        text = f"--fsync {status['Fsync']}: a power cut loses the last writes"
        yield Finding("durability", Result.WARNING, text, step)


def _memory_of_server(status: dict[str, Any]) -> int | None:
    """Return the memory of the server's machine; None if it is another one than this."""
    path = status.get("Path")
    return machine_checks.total_memory() if path is not None and Path(path).is_dir() else None


def _settings(session: Session, status: dict[str, Any]) -> Iterator[Finding]:
    """Judge the settings of the running server. One of an older release does not report them."""
    settings = status.get("Settings")
    if settings is None:
        return
    if not settings["Throttle"]:
        yield Finding(
            "throttling", Result.OK, "off: no request is refused for lack of throughput (--throttle)"
        )
    else:
        events = sum(_throttle_events(session))
        text = f"on; {counted(events, 'item')} throttled in the last hour"
        step = "`foldb capacity report TABLE` prints where: raise its throughput, or spread its keys."
        yield Finding("throttling", Result.WARNING if events else Result.OK, text, step if events else "")
    lags = {name: settings[member] for name, member in _LAGS.items() if settings[member]}
    if lags:
        text = ", ".join(f"{name} {duration(lag_ms)}" for name, lag_ms in lags.items())
        step = "Serve without them, except to test programs: they make reads stale."
        yield Finding("stale reads", Result.WARNING, text, step)
    kept_ms, stream_ms = settings["HistoryRetentionMs"], status["StreamRetentionMs"]
    reads = "from the start" if settings["History"] else "from the first read of the past on"
    text = "all history is kept" if not kept_ms else f"history is kept for {duration(kept_ms)}"
    text += f", and versions of items {reads}"
    if kept_ms and (kept_ms < stream_ms or not stream_ms):
        step = (
            "Raise --history-retention to that of the streams: a damaged change is made again from the log."
        )
        text += f"; records of streams {'without end' if not stream_ms else f'for {duration(stream_ms)}'}"
        yield Finding("retention", Result.WARNING, text, step)
    else:
        yield Finding("retention", Result.OK, text)


def _throttle_events(session: Session) -> Iterator[int]:
    """Yield the throttled reads and writes of each table and index in the last hour."""
    for metric in ("ReadThrottleEvents", "WriteThrottleEvents"):
        for each in session.client.admin("Metrics", {"MetricName": metric})["Metrics"]:
            yield sum(int(point["Sum"]) for point in each["Datapoints"])


def _triggers(session: Session) -> Iterator[Finding]:
    """Check that every trigger is active, without dead letters and with little lag."""
    names = [each["Name"] for each in session.client.admin("ListSubscriptions")["Subscriptions"]]
    for name in names:
        described = session.client.admin("DescribeSubscription", {"Name": name})
        lag_ms = max((each["Milliseconds"] for each in described["Lag"].values()), default=0)
        text = f"{name}: {described['Status']}, {lag_ms / 1000:,.1f} s behind"
        step = f"`foldb trigger show {name}` prints its state."
        if described["Dead"]:
            text += f", {counted(described['Dead'], 'dead letter')}"
            step = f"`foldb dlq show {name}` prints the errors."
        if described["LastError"] is not None:
            text += f", last error: {described['LastError']}"
        is_done = described["Status"] == "STOPPED" and described["Reason"] == "done"
        if is_done or (described["Status"] == "ACTIVE" and lag_ms < _LAG_MS and not described["Dead"]):
            yield Finding("trigger", Result.OK, text)
        else:
            yield Finding("trigger", Result.WARNING, text, step)


def _keys(path: Path) -> Iterator[Finding]:
    """Check the file of keys as a server does."""
    keys = read_keys(path).by_id.values()
    now = datetime.now(UTC)
    expired = sum(key.expires is not None and key.expires <= now for key in keys)
    text = f"{path}: {counted(len(keys), 'key')}, {expired} expired"
    if expired:
        yield Finding(
            "keys", Result.WARNING, text, "`foldb key list` prints them, `foldb key revoke` removes one."
        )
    else:
        yield Finding("keys", Result.OK, text)


def _deep(session: Session, topic: str | None) -> Iterator[Finding]:
    """Run `foldb verify`, whose errors are findings."""
    other = session.of(session.settings.db)
    other.output = output = _Collected(session.settings)
    verify(other, topic)
    compared = max((each["compared"] for each in output.collected), default=0)
    yield Finding("verify", Result.OK, f"the whole log is intact; {counted(compared, 'digest')} compared")
