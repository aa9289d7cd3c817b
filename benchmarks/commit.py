"""Measure the stages of a lone put, from the client's send to its receipt of the answer.

The server runs in a child process on the loop that `foldb serve` uses. Hooks in that process read the clock that all
processes of a machine share; one reading costs about 0.2 microseconds. One client sends puts on one connection, each
after the answer to the one before it, so each put is an entry of its own and passes every stage alone.

The lowest decile of a stage excludes other programs. The medians show what they cost on this machine.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldb.log.local import disk_process
from foldb.log.local.disk_process import DiskProcess
from foldb.log.local.log import LocalLog
from foldb.log.local.writer import Writer
from foldb.materializer import worker
from foldb.materializer.gc_tuning import short_pauses
from foldb.materializer.worker import Worker
from foldb.server.app import Serving, new_loop
from foldb.server.http import protocol
from foldb.server.http.protocol import Connection
from foldb.server.settings import Settings
from foldb.version import build

from .lone import LoneClient, put
from .options import Options
from .peers import temporary_folder
from .requests import Client
from .tables import show

_PUTS_A_SECOND = 250


class _Hook(NamedTuple):
    """A stage that ends when a function is called, or when it returns.

    The answer of the disk process ends its stage when the loop begins to read it.
    """

    stage: str
    place: str
    owner: Any
    name: str
    at_return: bool = False


_SEND: Final = "socket: send, wake the loop"
_HOOKS: Final = (
    _Hook(_SEND, "loop", Connection, "data_received"),
    _Hook("head: parse, check host and signature", "loop", protocol, "dispatch"),
    _Hook("body: parse, validate, size, canonical bytes", "loop", Worker, "submit"),
    _Hook("next turn of the loop", "loop", Worker, "_append_queued"),
    _Hook("entry: make", "loop", LocalLog, "append"),
    _Hook("entry: encode", "loop", LocalLog, "_begin_outside"),
    _Hook("block: chain, hash", "loop", Writer, "blocks_of", True),
    _Hook("send to the disk process", "loop", DiskProcess, "write", True),
    _Hook("two hops, write, fdatasync", "disk process", DiskProcess, "wait"),
    _Hook("check names", "loop", Writer, "check", True),
    _Hook("send `mark`, publish", "loop", Writer, "_publish", True),
    _Hook("hand the result over", "loop", Worker, "entry_appended"),
    _Hook("fold", "loop", worker, "fold_record", True),
    _Hook("outcome, answer", "loop", Connection, "answer"),
)
_RECEIVE: Final = "answer: head, checksum, send, wake the client"


def measure(options: Options) -> None:
    """Print microseconds by stage."""
    if build() != "pure":
        raise SystemExit(
            "commit: hooks replace functions, which the compiled build does not allow: unset PYTHONPATH"
        )
    puts = _PUTS_A_SECOND * options.seconds * options.rounds
    with temporary_folder() as folder, _served(folder, options.port) as server:
        with Client(server.url) as client:
            client.fill(options.keys)
        with LoneClient(server.url, server.pid, put, options.keys) as client:
            client.send(100)
            server.clear()
            spans = client.send(puts)
        calls = server.clear()
    times = [
        [span.began, *row, span.ended]
        for span, row in zip(spans, calls, strict=True)
        if len(row) == len(_HOOKS)  # now and then the thread has the writer
    ]
    stages = [*((hook.stage, hook.place) for hook in _HOOKS), (_RECEIVE, "client")]
    rows = [
        [stage, where, *_figures([row[nth + 1] - row[nth] for row in times])]
        for nth, (stage, where) in enumerate(stages)
    ]
    rows.append(["a put", "", *_figures([row[-1] - row[0] for row in times])])
    show(f"stages of a lone put, {puts:,} puts", ["microseconds", "in", "lowest decile", "median"], rows)


def _figures(spans: list[int]) -> list[str]:
    spans.sort()
    return [f"{spans[int(len(spans) * share)] / 1000:.1f}" for share in (0.1, 0.5)]


# The server under test


class _Server:
    """The child process. It answers each line on its standard input with the readings of the clock since the last."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self._process = process
        self.pid = process.pid
        self.url = f"http://127.0.0.1:{port}"

    def clear(self) -> list[list[int]]:
        """Return the readings of each put since the last call."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise SystemExit("commit: the server has ended")
        readings: list[list[int]] = json.loads(answer)
        return readings


@contextmanager
def _served(folder: Path, port: int) -> Iterator[_Server]:
    process = subprocess.Popen(  # noqa: S603 -- our own command
        [sys.executable, "-m", "benchmarks.commit", str(folder / "data"), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        server = _Server(process, port)
        server.clear()
        yield server
    finally:
        process.terminate()
        process.communicate(timeout=60)


class _Stages:
    """The readings of the clock at each hook, for one put at a time."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._row: list[int] = []
        for place, hook in enumerate(_HOOKS):
            function = getattr(hook.owner, hook.name)
            setattr(hook.owner, hook.name, self._hooked(place, function, at_return=hook.at_return))

    def take(self) -> list[list[int]]:
        """Return the rows of the puts since the last call; a whole row has passed every hook in order."""
        rows, self._rows = self._rows, []
        return rows

    def _hooked(self, place: int, function: Callable[..., Any], *, at_return: bool) -> Callable[..., Any]:
        clock = time.perf_counter_ns

        def before(*arguments: Any, **named: Any) -> Any:
            if place == 0:
                self._row = []
                self._rows.append(self._row)
            row = self._row
            if len(row) == place:
                row.append(clock())
            return function(*arguments, **named)

        def after(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            row = self._row
            if len(row) == place:
                row.append(clock())
            return result

        return after if at_return else before


async def _serve(path: Path, port: int) -> None:
    disk_process.STARTS_AFTER = 1
    stages, loop = _Stages(), asyncio.get_running_loop()
    serving = Serving(Settings(path=path, port=port), loop)
    await serving.start()

    def listen() -> None:
        for _ in sys.stdin:
            loop.call_soon_threadsafe(lambda: print(json.dumps(stages.take()), flush=True))
        loop.call_soon_threadsafe(serving.stopped.set)

    threading.Thread(target=listen, daemon=True).start()
    await serving.stopped.wait()
    await serving.stop()


if __name__ == "__main__":
    with short_pauses(), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
