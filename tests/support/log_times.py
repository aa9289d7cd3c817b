"""The log time at each position of a log, as `foldb log cat` prints it, to compare answers with."""

import json
from datetime import datetime

from tests.support.raw import Answer
from tests.support.served import foldb


class LogTimes:
    """Log times in milliseconds by partition and offset, as text (`2:10482`, or `10482` where there is one)."""

    def __init__(self, log: str) -> None:
        said = foldb("log", "cat", log, "-o", "jsonl")
        assert 0 == said.returncode, said.stderr
        rows = map(json.loads, said.stdout.splitlines())
        self._times = {_entry(row["position"]): _milliseconds(row["time"]) for row in rows}

    def of(self, answer: Answer) -> int:
        """Return the log time at the position in the answer; the latest for several positions."""
        return max(self._times[_entry(each)] for each in answer.headers["x-foldb-position"].split(","))


def reported(answer: Answer) -> int | None:
    """Return the log time in the answer's header."""
    text = answer.headers["x-foldb-log-time"]
    return None if text is None else int(text)


def _entry(position: str) -> str:
    return position.partition(".")[0]


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
