"""Log time at each place of a log, as `foldb log cat` has it, to compare answers with."""

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
        """Log time at the position that the answer names; the latest of them where it names several."""
        return max(self._times[_entry(each)] for each in answer.headers["x-foldb-position"].split(","))


def told(answer: Answer) -> int | None:
    """The log time that the answer itself names."""
    text = answer.headers["x-foldb-log-time"]
    return None if text is None else int(text)


def _entry(position: str) -> str:
    return position.partition(".")[0]


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
