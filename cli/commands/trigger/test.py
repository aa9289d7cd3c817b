"""`foldb trigger test`: print the calls of a trigger; with --call, make them and print their results.

    the latest changes, or those of a file ──► filter ──► batches ──► print ──► call, with --call

It writes no checkpoint and no dead letter, and works without a server.
"""

import asyncio
import logging
import symtable
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ....model.errors import RequestError
from ....model.lazy_dataclass import dataclass
from ....model.subscriptions.settings import check
from ....server.settings import Settings as ServerSettings
from ....server.settings import check as check_server
from ....streams.delivery.filter import ChangeFilter
from ....streams.formats import lambda_event
from ....streams.formats.table_view import Delivery
from ....streams.sinks import sink_kind
from ....streams.sinks.sink import (
    Batch,
    DeliveryResult,
    Failure,
    PartialFailure,
    Sink,
    SinkContext,
    Success,
    Unsubscribed,
)
from ....streams.workers.code_folder import CodeFolder
from ....streams.workers.declarations import Declarations
from ...lib import trigger_options
from ...lib.change_sources import Row, known
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.events import LAST, EventFile, batches, change_row, deliveries_of, read_events
from ...lib.filter_options import FilterOptions, Tables
from ...lib.output import counted
from ...lib.session import Session
from ...lib.values import read_folder, read_json


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The target that is tested: that of a trigger, or a function of a file.

    Attributes:
        function: The name of a trigger, or FILE.py:FUNCTION.
    """

    function: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE.py:FUNCTION", help="A trigger, or a function of a file."),
    ]
    is_lambda: Annotated[
        bool, typer.Option("--lambda", help="FUNCTION is a handler as AWS Lambda calls it.")
    ] = False
    triggers: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=read_folder,
            show_default="that of FILE.py, else .",
            help="Folder of functions and commands.",
        ),
    ] = None

    @property
    def is_trigger(self) -> bool:
        return ":" not in self.function

    def located(self) -> tuple[Path, str]:
        """Return the folder of functions, and the trigger or the function in that folder."""
        if self.triggers is None and not self.is_trigger:
            return _split(self.function)
        return self.triggers or Path(), self.function


@dataclass(frozen=True, slots=True)
class ChangesOptions:
    """The changes with which a target is tested."""

    event: EventFile = None
    last: Annotated[
        int | None,
        typer.Option(
            "--last", min=1, show_default=str(LAST), help="Number of latest changes that pass the filter."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a target is called, or that its calls are only printed."""

    step: Annotated[
        bool, typer.Option("--step", help="One change per call. Enter continues, q and Enter ends.")
    ] = False
    call: Annotated[
        bool, typer.Option("--call", help="Call the target instead of only printing the calls.")
    ] = False
    webhooks: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Private address or network that --call may call. Repeatable."),
    ] = None


def run_test(
    session: Session,
    target: TargetOptions,
    source: ChangesOptions,
    calling: CallOptions,
    tables: Tables = None,
    batch: Annotated[int | None, trigger_options.option("BatchSize")] = None,
    *,
    filter_: FilterOptions,
) -> None:
    """Print the calls of a trigger for the latest changes or those of a file; --call makes the calls.

    Neither form changes the state of a trigger. Without a server the changes are read from the log. If the file of a
    function declares it with @trigger, the declaration applies; the file is imported for that.

    Example: foldb trigger test triggers/receipts.py:send_receipt --last 10
    """
    settings = target_settings(session, target, source)
    folder, function = target.located()
    settings |= filter_.settings()
    settings |= {"TableNames": tables} if tables else {}
    settings |= {"BatchSize": batch} if batch else {}
    webhooks = tuple(calling.webhooks or ())
    check_server(ServerSettings(webhooks=webhooks))
    if calling.call:
        _check_callable(function, settings["Sink"])
    changes = filtered(session, settings, source)
    calls = batches(changes, 1 if calling.step else settings["BatchSize"])
    report = _Report(session, settings, calling)
    hint = f": `foldb trigger explain {function}` prints the reason" if target.is_trigger else ""
    if calling.call:
        name = function.rpartition(":")[2]
        asyncio.run(_call(report, calls, name, settings, folder, webhooks, session.url or ""))
    else:
        for deliveries in calls:
            if not report.show(deliveries, None):
                break
    report.end(len(calls), hint)


def target_settings(session: Session, target: TargetOptions, source: ChangesOptions) -> Row:
    """Return the settings of a trigger, or of a function of a file.

    Raises:
        CommandError: Two sources of changes are given, or the trigger or the function does not exist.
    """
    if source.event is not None and source.last is not None:
        raise CommandError("--event and --last: give one of them", ExitCode.USAGE)
    folder, function = target.located()
    if target.is_trigger:
        return known(session).settings(function)
    return _of_function(function, folder, session.url or "", is_lambda=target.is_lambda)


def _split(function: str) -> tuple[Path, str]:
    """Return the folder of triggers and the function in it that a path, as a shell completes it, names.

    A folder with an __init__.py is a package, so its name is part of the module's.
    """
    file, colon, name = function.rpartition(":")
    path = Path(file)
    folder = path.parent
    while folder.name and (folder / "__init__.py").exists():
        folder = folder.parent
    return folder, f"{path.relative_to(folder)}{colon}{name}"


def _of_function(text: str, folder: Path, url: str, *, is_lambda: bool) -> Row:
    """Return the settings of a function: those that its file declares, or the defaults."""
    sink = trigger_options.sink_from_flag("lambda" if is_lambda else "python", text)
    file = text.rpartition(":")[0].removeprefix("./")
    if not (folder / file).is_file():
        raise CommandError(
            f"there is no {file} in {folder.absolute()}: name the folder with --triggers", ExitCode.USAGE
        )
    declared = {} if is_lambda else asyncio.run(_declared(folder, file, sink["Function"], url))
    _check_function(folder / file, text.rpartition(":")[2])
    settings = check("test", {"TableNames": ["any"], "Sink": sink} | declared)
    return settings | {"TableNames": declared.get("TableNames", [])}


def _check_function(file: Path, name: str) -> None:
    """Check that a file defines a function. The file is parsed and not run, because printing a call must call nothing.

    Raises:
        CommandError: The file has no such function, or is not valid Python.
    """
    text = file.read_text("utf-8", "replace")
    try:
        names = symtable.symtable(text, str(file), "exec").get_identifiers()
    except (SyntaxError, ValueError) as error:
        raise CommandError(
            f"{file} cannot be imported: {type(error).__name__}: {error}", ExitCode.PARTLY
        ) from None
    if name not in names and "import *" not in text:
        raise CommandError(f"there is no {name} in {file}: name a function of it", ExitCode.USAGE)


async def _declared(folder: Path, file: str, function: str, url: str) -> Row:
    """Return the settings that a file declares for its function with @trigger; {} if it declares none."""
    with tempfile.TemporaryDirectory(prefix="foldb-test-") as scratch:
        declarations = await Declarations(CodeFolder(folder), Path(scratch)).read(
            url, only=function.partition(":")[0]
        )
    if file in declarations.problems:
        raise CommandError(f"{file} cannot be imported: {declarations.problems[file].error}", ExitCode.PARTLY)
    for declared in declarations.declared.get(file, ()):
        if declared["Sink"]["Function"] == function:
            return {member: value for member, value in declared.items() if member != "Name"}
    return {}


def _check_callable(name: str, sink: Row) -> None:
    """Check that the command can call a sink.

    Raises:
        CommandError: Only a server can write to the sink, or the server hides members of the sink.
    """
    kind = sink_kind(sink)
    if kind.writes is not None:
        raise CommandError(
            f"--call writes no {kind.writes}: omit --call to see the changes that would be written",
            ExitCode.USAGE,
        )
    hidden = kind.hidden_members(sink)
    if hidden:
        raise CommandError(
            f"the server does not show {' and '.join(hidden)} of {name}: stop it, and name its folder with --db",
            ExitCode.USAGE,
        )


def filtered(session: Session, settings: Row, source: ChangesOptions) -> list[Delivery]:
    """Return the changes of a file, or the latest ones, that pass the filter."""
    database = known(session)
    passes = ChangeFilter(settings).chooses
    if source.event is not None:
        events = read_events(source.event)
        typed = session.settings.typed
        return list(filter(passes, deliveries_of(events, database.keys, source.event, typed=typed)))

    def passing(rows: Iterable[Row]) -> Iterable[Delivery]:
        return filter(passes, deliveries_of(rows, database.keys, session.settings.db))

    return database.last(settings["TableNames"], passing, source.last or LAST)


class _Report:
    """Prints calls and their results."""

    def __init__(self, session: Session, settings: Row, calling: CallOptions) -> None:
        self._session = session
        self._sink = settings["Sink"]
        self._calling = calling
        self._calls = self._changes = self._failed = 0

    def show(self, deliveries: Sequence[Delivery], result: Row | None) -> bool:
        """Print one call; return False if the user ends the test."""
        self._calls += 1
        self._changes += len(deliveries)
        row: Row = {"call": self._calls, "target": trigger_options.sink_text(self._sink)}
        if self._sink["Kind"] == "lambda":
            row["event"] = read_json(lambda_event.event(deliveries), "the event")
        else:
            typed = self._session.settings.typed
            row["changes"] = [change_row(each, typed=typed) for each in deliveries]
        if result is not None:
            row |= result
            self._failed += result["result"] != "success"
        self._session.output.row(row)
        return not self._calling.step or self._continues()

    def end(self, calls: int, hint: str) -> None:
        """Print the totals. `hint` follows if no change passes the filter.

        Raises:
            CommandError: A call failed.
        """
        totals = f"{counted(self._calls, 'call')} · {counted(self._changes, 'change')}"
        if not calls:
            self._session.output.say(f"no change passes the filter{hint}")
        else:
            self._session.output.say(
                totals if self._calling.call else f"{totals} · nothing was called: use --call"
            )
        if self._failed:
            raise CommandError(f"{self._failed} of {self._calls:,} calls failed", ExitCode.PARTLY)

    def _continues(self) -> bool:
        typer.echo("Enter continues, q and Enter ends: ", nl=False, err=True)
        answer = sys.stdin.readline() if sys.stdin else ""
        return bool(answer) and answer.strip().lower() not in ("q", "quit")


async def _call(
    report: _Report,
    calls: Sequence[Sequence[Delivery]],
    name: str,
    settings: Row,
    folder: Path,
    webhooks: tuple[str, ...],
    url: str,
) -> None:
    """Make the calls one after the other, and log their output as a server would."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="foldb-test-") as scratch:
        sink = make_sink(name, settings, folder, Path(scratch), webhooks=webhooks, url=url)
        try:
            await _start(sink)
            for deliveries in calls:
                if not report.show(deliveries, await _deliver(sink, Batch(name, deliveries))):
                    break
        finally:
            await sink.close()


def make_sink(
    name: str, settings: Row, folder: Path, scratch: Path, *, webhooks: tuple[str, ...], url: str
) -> Sink:
    """Return the sink of the settings, not started. It runs in the event loop of the caller."""
    context = SinkContext(
        loop=asyncio.get_running_loop(),
        clock=now,
        subscription=name,
        instance=f"{name}~test",
        timeout_s=float(settings["TimeoutSeconds"]),
        endpoint=lambda: url,
        folder=folder,
        webhooks=webhooks,
        destinations=None,
        kafka=None,
        scratch=scratch,
        reports_failures="ReportBatchItemFailures" in settings.get("FunctionResponseTypes", ()),
    )
    kind = sink_kind(settings["Sink"])
    kind.check(settings["Sink"])
    return kind.make(settings["Sink"], context)


async def _start(sink: Sink) -> None:
    try:
        await sink.start()
    except RequestError:
        raise
    except Exception as error:
        raise CommandError(f"the target cannot be loaded: {error}", ExitCode.PARTLY) from error


async def _deliver(sink: Sink, batch: Batch) -> Row:
    started = time.monotonic()
    try:
        row = _result_row(await sink.deliver(batch))
    except Exception as error:  # a server counts an error of a sink as a failure, too
        row = {"result": "failure", "error": f"{type(error).__name__}: {error}"}
    return row | {"milliseconds": round((time.monotonic() - started) * 1000)}


def _result_row(result: DeliveryResult) -> Row:
    match result:
        case Success():
            return {"result": "success"}
        case PartialFailure(sequence_number=sequence_number, error=error, traceback=traceback):
            return {
                "result": "failure",
                "number": str(sequence_number),
                "error": error,
                "traceback": traceback,
            }
        case Failure(error=error, traceback=traceback):
            return {"result": "failure", "error": error, "traceback": traceback}
        case Unsubscribed(reason=reason):
            return {"result": "unsubscribed", "error": reason}
