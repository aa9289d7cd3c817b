"""`foldb trigger debug`: run a trigger's function in Python's debugger, one change at a time."""

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from ....streams.formats.table_view import Delivery
from ....streams.sinks.lambda_handler import LambdaSink
from ....streams.sinks.python import PythonSink
from ....streams.sinks.sink import Batch
from ....streams.workers.code_folder import CodeFolder
from ....streams.workers.runtime.debugger import Status
from ...lib.change_sources import Row
from ...lib.errors import CommandError, ExitCode
from ...lib.events import change_row
from ...lib.filter_options import FilterOptions, Tables
from ...lib.output import counted
from ...lib.session import Session
from ...lib.settings import terminal_variables
from ...lib.values import write_json
from .test import ChangesOptions, TargetOptions, filtered, make_sink, target_settings

_KINDS: Final = ("python", "lambda")


def debug(
    session: Session,
    target: TargetOptions,
    source: ChangesOptions,
    tables: Tables = None,
    *,
    filter_: FilterOptions,
) -> None:
    """Call the function for the latest changes or those of a file, with the terminal in pdb at its first line.

    n executes a line, s steps into a call, p prints an expression, c continues to the next change, q ends. After an
    exception pdb shows the line that raised it. The function runs in a process with a worker's environment. No
    checkpoint and no dead letter is written, and the trigger itself continues. Requests of the function itself reach
    the server, as with `foldb trigger test --call`.

    Example: foldb trigger debug triggers/receipts.py:send_receipt --last 1
    """
    settings = target_settings(session, target, source) | filter_.settings()
    settings |= {"TableNames": tables} if tables else {}
    folder, function = target.located()
    if settings["Sink"]["Kind"] not in _KINDS:
        raise CommandError(
            f"{function} calls a {settings['Sink']['Kind']}: only functions and Lambda handlers have lines to debug",
            ExitCode.USAGE,
        )
    changes = filtered(session, settings, source)
    if not changes:
        hint = f": `foldb trigger explain {function}` prints the reason" if target.is_trigger else ""
        session.output.say(f"no change passes the filter{hint}")
        return
    name = function.rpartition(":")[2]
    status = asyncio.run(_run(session, name, settings, folder, changes))
    if status == Status.QUIT:
        raise CommandError("the debugger was quit; nothing was committed", ExitCode.INTERRUPTED)
    if status == Status.NOT_LOADED:
        raise CommandError(f"{function} cannot be loaded: correct its file", ExitCode.PARTLY)
    if status != Status.DONE:
        raise CommandError("a call failed; nothing was committed", ExitCode.PARTLY)
    session.output.say(f"{counted(len(changes), 'call')} · nothing was committed")


async def _run(session: Session, name: str, settings: Row, folder: Path, changes: Sequence[Delivery]) -> int:
    """Run the calls in another process, which has the terminal, and return its exit status."""
    with tempfile.TemporaryDirectory(prefix="foldb-debug-") as text:
        scratch = Path(text)
        sink = make_sink(name, settings, folder, scratch, webhooks=(), url=session.url or "")
        assert isinstance(sink, PythonSink | LambdaSink), "a kind with code in Python"
        job = {
            "load": sink.workers.load_message(CodeFolder(folder).read()),
            "calls": [
                _call(session, sink, name, nth, len(changes), each)
                for nth, each in enumerate(changes, start=1)
            ],
        }
        file = scratch / "job.json"
        file.write_bytes(orjson.dumps(job))
        environment = terminal_variables() | sink.workers.environment(scratch, 0)
        # -P: Python must not import modules from the process's working directory.
        command = [sys.executable, "-P", "-m", "foldb.streams.workers.runtime.debugger", str(file)]
        process = subprocess.Popen(  # noqa: S603  foldb's own command
            command, env=environment, cwd=sink.workers.working_folder(scratch)
        )
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the debugger
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, handler)


def _call(
    session: Session, sink: PythonSink | LambdaSink, name: str, nth: int, count: int, change: Delivery
) -> dict[str, Any]:
    message, body = sink.request(Batch(name, [change]))
    row = change_row(change, typed=session.settings.typed)
    title = f"change {nth} of {count}: {row['op']} {write_json(row['keys'])}"
    return {"title": title, "message": message, "body": body.decode()}
