"""What a node remembers of its log, so that a log in its place does not pass for it.

A topic that was deleted and made anew, or one that lost its end, looks healthy. Who saw it before knows better.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...model.errors import CorruptionError, ForeignLogError, LogError

FILE: Final = "kafka.json"


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """A log's id, and where its partitions ended at least."""

    log_id: bytes
    ends: list[int]

    @classmethod
    def recall(cls, folder: Path) -> "LogIdentity | None":
        """What was kept in a folder.

        Raises:
            LogError: It cannot be read.
        """
        path = folder / FILE
        try:
            content = json.loads(path.read_text())
            return cls(bytes.fromhex(content["log_id"]), [int(end) for end in content["ends"]])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LogError(
                f"{path} cannot be read ({error}): remove it if the log is known to be whole"
            ) from None

    def keep(self, folder: Path) -> None:
        """Keep it, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = folder / f"{FILE}.partial"
        with partial.open("w") as file:
            json.dump({"log_id": self.log_id.hex(), "ends": self.ends}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / FILE)

    def compare(self, topic: str, log_id: bytes, ends: list[int]) -> None:
        """Look whether a log can be the one that is remembered.

        Raises:
            ForeignLogError: It is another.
            CorruptionError: It is, and ends before it did.
        """
        if log_id != self.log_id:
            raise ForeignLogError(
                f"the topic {topic} holds the log {log_id.hex()} and this node knows {self.log_id.hex()}: the topic "
                "was made anew, or the address is another's. A new data folder begins with the log that is there."
            )
        for partition, (end, before) in enumerate(zip(ends, self.ends, strict=True)):
            if end < before:
                what = f"the topic {topic} ended at {before} and now ends at {end}: it lost records"
                raise CorruptionError(f"{partition}:{end}", what)
