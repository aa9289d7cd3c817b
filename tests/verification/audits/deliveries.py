"""A trigger that records each call, and the judge of its records.

lost         a change that was never handled
stranger     a change that the log does not have
reorder      handled before the previous change of its key, or by a process that had handled it or a later one
repeated     handled again although a checkpoint had passed it
skipped      handled although a dead letter of its key is open
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foldb.log.local import LocalLog
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold
from tests.support.subscribed import until
from tests.verification.audits.judge import Findings, Shards

FUNCTION = "recorder:handle"
_SOURCE = """
import json, os, random

FILE = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
DICE = random.Random()
GATE = {gate!r}

def handle(change):
    import time
    while GATE and os.path.exists(GATE):
        time.sleep(0.01)
    image = change.new or change.old
    failed = bool(image.get("poison")) or DICE.random() < {fails}
    line = [os.getpid(), str(change.sequence_number), change.keys["pk"], not failed]
    os.write(FILE, (json.dumps(line) + "\\n").encode())
    if failed:
        raise RuntimeError("so it was planned")
"""


class Call(NamedTuple):
    """A recorded call: its process, its change, and whether it succeeded."""

    process: int
    number: int
    key: str
    done: bool


class Recorder:
    """The folder of triggers with the function, and the file that it writes.

    Args:
        fails: The share of calls that fail at random.
    """

    def __init__(self, folder: Path, *, fails: float = 0.0) -> None:
        self.folder = folder / "triggers"
        self.gate = folder / "gate"
        self._path = folder / "calls"
        self._path.touch()
        self.folder.mkdir()
        source = _SOURCE.format(path=str(self._path), gate=str(self.gate), fails=fails)
        (self.folder / "recorder.py").write_text(source)

    @property
    def options(self) -> list[str]:
        """Return the options of `serve`."""
        return ["--triggers", str(self.folder)]

    @property
    def sink(self) -> dict[str, Any]:
        """Return the settings of the sink."""
        return {"Kind": "python", "Function": FUNCTION}

    def calls(self) -> list[Call]:
        """Return all recorded calls, in order."""
        return [Call(line[0], int(line[1]), *line[2:]) for line in map(json.loads, self._lines())]

    def count(self) -> int:
        """Return the number of recorded calls."""
        return len(self._lines())

    def wait_for(self, count: int) -> None:
        """Wait until `count` calls are recorded."""
        until(lambda: self.count() >= count, 120)

    def _lines(self) -> list[bytes]:
        """Return the complete lines."""
        return self._path.read_bytes().splitlines(keepends=True)[: self._path.read_bytes().count(b"\n")]


Checkpoints = Mapping[int, int]
"""By partition, the sequence number up to which all changes are handled."""


def checkpoint_in_log(folder: Path, name: str) -> dict[int, int]:
    """Return the checkpoint of a subscription in the log of a folder, by partition."""
    state = PartitionState()
    refold(state, LocalLog.open_reader(folder).read(0))
    return dict(state.subscriptions[name].checkpoints)


def judge_calls(
    calls: Sequence[Call],
    truth: Shards,
    checkpoints: Sequence[tuple[int, Checkpoints]] = (),
    dead_letters: Iterable[tuple[str, int]] = (),
) -> Findings:
    """Compare the calls with the log.

    Args:
        calls: All calls, in the order of their records.
        truth: The changes of each partition, by its id in four hexadecimal digits.
        checkpoints: The checkpoints with the number of calls made by then, in the order of the calls.
        dead_letters: Key and sequence number of the changes that are dead letters.
    """
    found, dead = Findings(), set(dead_letters)
    before: dict[tuple[str, int], int | None] = {}  # the previous change of the key
    partition_of: dict[str, int] = {}
    for name, changes in truth.items():
        last: dict[str, int] = {}
        for change in changes:
            before[change.key, change.number] = last.get(change.key)
            last[change.key], partition_of[change.key] = change.number, int(name, 16)
    handled: set[tuple[str, int]] = set()
    newest: dict[tuple[int, str], int] = defaultdict(int)
    marks: Checkpoints = {}
    coming = list(checkpoints)
    for place, call in enumerate(calls):
        while coming and coming[0][0] <= place:
            marks = coming.pop(0)[1]
        key, number = call.key, call.number
        if (key, number) not in before:
            found.add("stranger", f"{call}")
            continue
        if number <= marks.get(partition_of[key], 0):
            found.add("repeated", f"{call}: the checkpoint was {dict(marks)}")
        previous = before[key, number]
        if previous is not None and (key, previous) not in handled:
            kind = "skipped" if (key, previous) in dead else "reorder"
            found.add(kind, f"{call}: {previous} of this key comes before it")
        if number < newest[call.process, key] or (call.done and number == newest[call.process, key]):
            found.add("reorder", f"{call}: {newest[call.process, key]} was handled by this process")
        if call.done:
            handled.add((key, number))
            newest[call.process, key] = number
    for key, number in before:
        if (key, number) not in handled and (key, number) not in dead:
            found.add("lost", f"{key} {number}")
        if (key, number) in handled and (key, number) in dead:
            found.add("stranger", f"{key} {number}: handled, and a dead letter")
    return found
