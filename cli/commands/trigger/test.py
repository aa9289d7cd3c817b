"""`foldb trigger test`: what a trigger would be called with, and with --call, what comes of it.

    the last changes, or a file's ──► those that the trigger chooses ──► calls ──► shown ──► made, with --call

Nothing of it is remembered: no mark moves, no letter is written. The database need not be served.
"""

import asyncio
import logging
import symtable
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ....model.errors import RequestError
from ....model.subscriptions import check
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
from ...lib.change_sources import Known, Row, known
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.events import LAST, EventFile, batches, deliveries_of, read_events, told
from ...lib.filter_options import Events, Names, Pattern, Tables, Values, When, choice
from ...lib.output import counted
from ...lib.session import Session
from ...lib.values import read_folder, read_json


def rehearse(
    ctx: typer.Context,
    function: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE.py:FUNCTION", help="A trigger, or a function that is none yet."),
    ],
    event: EventFile = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, show_default=str(LAST), help="The last so many that it chooses."),
    ] = None,
    step: Annotated[
        bool, typer.Option("--step", help="One change at a time: Enter goes on, q and Enter ends.")
    ] = False,
    call: Annotated[bool, typer.Option("--call", help="Call it, instead of only showing with what.")] = False,
    is_lambda: Annotated[
        bool, typer.Option("--lambda", help="FUNCTION is a handler as AWS Lambda calls it.")
    ] = False,
    tables: Tables = None,
    on: Events = None,
    when: When = None,
    pattern: Pattern = None,
    values: Values = None,
    names: Names = None,
    batch: Annotated[int | None, trigger_options.option("BatchSize")] = None,
    triggers: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=read_folder,
            show_default="that of FILE.py, else .",
            help="Where functions and commands come from.",
        ),
    ] = None,
    webhooks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="A private address that --call may call all the same; repeat it."
        ),
    ] = None,
) -> None:
    """Show what a trigger would be called with, for the last changes or those of a file; --call calls it.

    Without --call nothing is called, and in no case does anybody else notice. The database need not be served: the
    changes are read from its log. Of a function that its file declares with @trigger the declaration counts; the file
    is imported for that.

    Example: foldb trigger test triggers/receipts.py:send_receipt --last 10
    """
    session: Session = ctx.obj
    if event is not None and last is not None:
        raise CommandError(
            "--event and --last: the changes are either of a file or the last ones", ExitCode.USAGE
        )
    folder, is_trigger = triggers or Path(), ":" not in function
    if triggers is None and not is_trigger:
        folder, function = _apart(function)
    database = known(session)
    if is_trigger:
        settings = database.settings(function)
    else:
        settings = _of_function(function, folder, session.url or "", is_lambda=is_lambda)
    settings |= choice(on, when, pattern, names, values)
    settings |= {"TableNames": tables} if tables else {}
    settings |= {"BatchSize": batch} if batch else {}
    check_server(ServerSettings(webhooks=tuple(webhooks or ())))
    if call:
        _check_callable(function, settings["Sink"])
    found = _chosen(session, database, settings, event, last or LAST)
    calls = batches(found, 1 if step else settings["BatchSize"])
    showing = _Showing(session, settings, call=call, step=step)
    hint = f": `foldb trigger explain {function}` says why" if is_trigger else ""
    if call:
        name = function.rpartition(":")[2]
        asyncio.run(_call(showing, calls, name, settings, folder, tuple(webhooks or ()), session.url or ""))
    else:
        for deliveries in calls:
            if not showing.show(deliveries, None):
                break
    showing.end(len(calls), hint)


def _apart(function: str) -> tuple[Path, str]:
    """The folder of triggers that a path as a shell completes it names, and the function as it is named in there.

    A folder with an __init__.py is a package, which is part of a module's name.
    """
    file, colon, name = function.rpartition(":")
    path = Path(file)
    folder = path.parent
    while folder.name and (folder / "__init__.py").exists():
        folder = folder.parent
    return folder, f"{path.relative_to(folder)}{colon}{name}"


def _of_function(text: str, folder: Path, url: str, *, is_lambda: bool) -> Row:
    """The settings of a function that is no trigger yet: what its file declares of it, or what none declares."""
    sink = trigger_options.sink_from_flag("lambda" if is_lambda else "python", text)
    file = text.rpartition(":")[0].removeprefix("./")
    if not (folder / file).is_file():
        raise CommandError(
            f"there is no {file} in {folder.absolute()}: name the folder with --triggers", ExitCode.USAGE
        )
    declared = {} if is_lambda else asyncio.run(_declared(folder, file, sink["Function"], url))
    _check_there(folder / file, text.rpartition(":")[2])
    settings = check("test", {"TableNames": ["any"], "Sink": sink} | declared)
    return settings | {"TableNames": declared.get("TableNames", [])}


def _check_there(file: Path, name: str) -> None:
    """Refuse a function that the file does not have. It is read and not run: to be shown a call is to call nothing.

    Raises:
        CommandError: It has none of that name.
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
    """What the file declares of its function with @trigger; {} where that is nothing."""
    with tempfile.TemporaryDirectory(prefix="foldb-test-") as scratch:
        found = await Declarations(CodeFolder(folder), Path(scratch)).read(
            url, only=function.partition(":")[0]
        )
    if file in found.problems:
        raise CommandError(f"{file} cannot be imported: {found.problems[file].error}", ExitCode.PARTLY)
    for declared in found.declared.get(file, ()):
        if declared["Sink"]["Function"] == function:
            return {member: value for member, value in declared.items() if member != "Name"}
    return {}


def _check_callable(name: str, sink: Row) -> None:
    """Refuse to call what only a server can write, or what cannot be signed as it would be.

    Raises:
        CommandError: It is so.
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


def _chosen(
    session: Session, database: Known, settings: Row, event: str | None, count: int
) -> list[Delivery]:
    """The changes that are meant, those of a file or the last ones."""
    chooses = ChangeFilter(settings).chooses
    if event is not None:
        typed = session.settings.typed
        given = deliveries_of(read_events(event), database.keys, event, typed=typed)
        return list(filter(chooses, given))

    def chosen(rows: Iterable[Row]) -> Iterable[Delivery]:
        return filter(chooses, deliveries_of(rows, database.keys, session.settings.db))

    return database.last(settings["TableNames"], chosen, count)


class _Showing:
    """Shows calls, and what came of them."""

    def __init__(self, session: Session, settings: Row, *, call: bool, step: bool) -> None:
        self._session = session
        self._sink = settings["Sink"]
        self._call = call
        self._step = step
        self._calls = self._changes = self._failed = 0

    def show(self, deliveries: Sequence[Delivery], verdict: Row | None) -> bool:
        """Show one call; False where nobody wants to see another one."""
        self._calls += 1
        self._changes += len(deliveries)
        row: Row = {"call": self._calls, "calls": trigger_options.sink_text(self._sink)}
        if self._sink["Kind"] == "lambda":
            row["event"] = read_json(lambda_event.event(deliveries), "the event")
        else:
            typed = self._session.settings.typed
            row["changes"] = [told(each, typed=typed) for each in deliveries]
        if verdict is not None:
            row |= verdict
            self._failed += verdict["verdict"] != "handled"
        self._session.output.row(row)
        return not self._step or self._goes_on()

    def end(self, calls: int, hint: str) -> None:
        """Say what there was; fail if a call did. `hint` says what to do where no change is chosen."""
        said = f"{counted(self._calls, 'call')} · {counted(self._changes, 'change')}"
        if not calls:
            self._session.output.say(f"no change is chosen{hint}")
        else:
            self._session.output.say(said if self._call else f"{said} · nothing was called: --call does it")
        if self._failed:
            raise CommandError(f"{self._failed} of {self._calls:,} calls failed", ExitCode.PARTLY)

    def _goes_on(self) -> bool:
        typer.echo("Enter goes on, q and Enter ends: ", nl=False, err=True)
        answer = sys.stdin.readline() if sys.stdin else ""
        return bool(answer) and answer.strip().lower() not in ("q", "quit")


async def _call(
    showing: _Showing,
    calls: Sequence[Sequence[Delivery]],
    name: str,
    settings: Row,
    folder: Path,
    webhooks: tuple[str, ...],
    url: str,
) -> None:
    """Make the calls, one after the other; what they print is said, as a server would."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="foldb-test-") as scratch:
        surroundings = SinkContext(
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
            scratch=Path(scratch),
            reports_failures="ReportBatchItemFailures" in settings.get("FunctionResponseTypes", ()),
        )
        kind = sink_kind(settings["Sink"])
        kind.check(settings["Sink"])
        sink = kind.make(settings["Sink"], surroundings)
        try:
            await _start(sink)
            for deliveries in calls:
                if not showing.show(deliveries, await _deliver(sink, Batch(name, deliveries))):
                    break
        finally:
            await sink.close()


async def _start(sink: Sink) -> None:
    try:
        await sink.start()
    except RequestError:
        raise
    except Exception as error:
        raise CommandError(f"it cannot be called: {error}", ExitCode.PARTLY) from error


async def _deliver(sink: Sink, batch: Batch) -> Row:
    begun = time.monotonic()
    try:
        verdict = _of_verdict(await sink.deliver(batch))
    except Exception as error:  # a sink that raises has failed, as it would have in a server
        verdict = {"verdict": "failed", "error": f"{type(error).__name__}: {error}"}
    return verdict | {"milliseconds": round((time.monotonic() - begun) * 1000)}


def _of_verdict(verdict: DeliveryResult) -> dict[str, Any]:
    match verdict:
        case Success():
            return {"verdict": "handled"}
        case PartialFailure(sequence_number=number, error=error, traceback=traceback):
            return {"verdict": "failed", "number": str(number), "error": error, "traceback": traceback}
        case Failure(error=error, traceback=traceback):
            return {"verdict": "failed", "error": error, "traceback": traceback}
        case Unsubscribed(reason=reason):
            return {"verdict": "gone", "error": reason}
