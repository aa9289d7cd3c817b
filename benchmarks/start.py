"""Measure the time of a start to the first response: empty, large, and large with a snapshot."""

import subprocess
from pathlib import Path

from . import logs
from .options import Options
from .peers import FOLDB, foldb_command, running, temporary_folder
from .requests import PER_COLLECTION, orders
from .tables import at_most, show

GOAL_EMPTY_MS = 300


def measure(options: Options) -> None:
    """Print milliseconds."""
    with temporary_folder() as folder:
        empty = min(_milliseconds(folder, options) for _ in range(max(3, options.rounds)))
    with temporary_folder() as folder:
        logs.write(folder, logs.puts(orders(options.items // PER_COLLECTION)), options.port)
        whole = _milliseconds(folder, options)
        _make_snapshot(folder)
        snapshot = _milliseconds(folder, options)
    rows = [
        ["empty", at_most(empty, GOAL_EMPTY_MS, " ms")],
        [f"{options.items:,} items, the whole log", f"{whole:,.0f} ms"],
        [f"{options.items:,} items, from a snapshot", f"{snapshot:,.0f} ms"],
    ]
    show("start", ["", "until the first answer"], rows)


def _milliseconds(folder: Path, options: Options) -> float:
    with running(FOLDB, options.port, folder) as server:
        return server.ready_seconds * 1000


def _make_snapshot(folder: Path) -> None:
    subprocess.run(  # noqa: S603 -- our own command
        [*foldb_command(), "snapshot", "make", "--db", str(folder / "data")], check=True, capture_output=True
    )
