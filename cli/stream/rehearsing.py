"""`foldb trigger test`: what a trigger would be called with, and with --call, what comes of it.

    the last changes, or a file's ──► those that the trigger chooses ──► calls ──► shown ──► made, with --call

Nothing of it is remembered: no mark moves, no letter is written. The database need not be served.
"""

import asyncio
import logging
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ...model.errors import RequestError
from ...model.subscriptions.settings import EVENTS
from ...streams.formats import lambda_event
from ...streams.formats.delivery import Delivery
from ...streams.formats.plain import plain
from ...streams.sinks import module_of
from ...streams.sinks.sink import Batch, Failed, Gone, Handled, Partly, Sink, Surroundings, Verdict
from ...streams.subscriptions.choosing import Chooser
from ..failures import CommandError, ExitCode
from ..literals import Lifted
from ..output import counted
from ..session import Session
from ..values import read_json
from . import declare
from .chosen import Events, Names, Pattern, Tables, Values, When, choice
from .events import batches, delivery_of, read_events
from .reading import Known, Row, known
from .shown import shown
from .since import now

_LAST: Final = 10
_ALL: Final[Row] = {
    "Events": list(EVENTS),
    "Filter": None,
    "FilterCriteria": None,
    "BatchSize": 100,
    "TimeoutSeconds": 60,
}


def rehearse(
    ctx: typer.Context,
    function: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE.py:FUNCTION", help="A trigger, or a function that is none yet."),
    ],
    event: Annotated[
        str | None,
        typer.Option(
            "--event", metavar="FILE", help="These changes: as `foldb stream tail` prints them, or Lambda's."
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, show_default=str(_LAST), help="The last so many that it chooses."),
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
    batch: declare.Batch = None,
    triggers: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=".", help="Where functions and commands come from."),
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
    changes are read from its log.

    Example: foldb trigger test receipts --last 10
    """
    session: Session = ctx.obj
    if event is not None and last is not None:
        raise CommandError(
            "--event and --last: the changes are either of a file or the last ones", ExitCode.USAGE
        )
    rows = None if event is None else read_events(event, typed=session.settings.typed)
    database = known(session)
    settings = _ALL | (
        _of_function(function, is_lambda=is_lambda) if ":" in function else database.settings(function)
    )
    settings |= choice(on or [], when, pattern or [], Lifted(names or [], values or []))
    settings |= {"TableNames": tables} if tables else {}
    settings |= {"BatchSize": batch} if batch else {}
    found = _chosen(database, settings, rows, last or _LAST)
    calls = batches(found, 1 if step else settings["BatchSize"])
    showing = _Showing(session, settings, call=call, step=step)
    if call:
        name = function.rpartition(":")[2]
        asyncio.run(
            _call(
                showing, calls, name, settings, triggers or Path(), tuple(webhooks or ()), session.url or ""
            )
        )
    else:
        for deliveries in calls:
            if not showing.show(deliveries, None):
                break
    showing.end(len(calls))


def _of_function(text: str, *, is_lambda: bool) -> Row:
    flag = "--lambda" if is_lambda else "--python"
    return {"Sink": declare.sink_of({flag: text}, None), "TableNames": []}


def _chosen(database: Known, settings: Row, rows: list[Row] | None, count: int) -> list[Delivery]:
    """The changes that are meant, those of a file or the last ones."""
    chooser = Chooser(settings)
    time_ms = now()
    given = database.rows(settings["TableNames"], {"At": "HORIZON"}) if rows is None else rows
    deliveries = (delivery_of(row, nth, database.keys, time_ms) for nth, row in enumerate(given))
    return list(deque(filter(chooser.chooses, deliveries), maxlen=count if rows is None else None))


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
        row: Row = {"call": self._calls, "calls": declare.sink_text(self._sink)}
        if self._sink["Kind"] == "lambda":
            row["event"] = read_json(lambda_event.event(deliveries), "the event")
        else:
            typed = self._session.settings.typed
            row["changes"] = [shown(read_json(plain(each), "the change"), typed=typed) for each in deliveries]
        if verdict is not None:
            row |= verdict
            self._failed += verdict["verdict"] != "handled"
        self._session.output.row(row)
        return not self._step or self._goes_on()

    def end(self, calls: int) -> None:
        """Say what there was; fail if a call did."""
        said = f"{counted(self._calls, 'call')} · {counted(self._changes, 'change')}"
        if not calls:
            self._session.output.say("no change is chosen: `foldb trigger explain` says why")
        else:
            self._session.output.say(said if self._call else f"{said} · nothing was called: --call does it")
        if self._failed:
            raise CommandError(f"{self._failed} of {counted(self._calls, 'call')} failed", ExitCode.PARTLY)

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
        surroundings = Surroundings(
            loop=asyncio.get_running_loop(),
            clock=now,
            random_bytes=os.urandom,
            log_id=bytes(16),
            subscription=name,
            timeout_s=float(settings["TimeoutSeconds"]),
            lanes=1,
            endpoint=lambda: url,
            folder=folder,
            webhooks=webhooks,
            destinations=None,
            kafka=None,
            scratch=Path(scratch),
            reports_failures="ReportBatchItemFailures" in settings.get("FunctionResponseTypes", ()),
        )
        module = module_of(settings["Sink"])
        module.check(settings["Sink"])
        sink = module.make(settings["Sink"], surroundings)
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


def _of_verdict(verdict: Verdict) -> dict[str, Any]:
    match verdict:
        case Handled():
            return {"verdict": "handled"}
        case Partly(number=number, error=error, traceback=traceback):
            return {"verdict": "failed", "number": str(number), "error": error, "traceback": traceback}
        case Failed(error=error, traceback=traceback):
            return {"verdict": "failed", "error": error, "traceback": traceback}
        case Gone(reason=reason):
            return {"verdict": "gone", "error": reason}
