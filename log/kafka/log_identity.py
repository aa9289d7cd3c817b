"""The identity of a node's log, stored in its data folder to detect another log at the same address.

A topic that was deleted and created again, or that lost its last records, looks healthy without this comparison.
"""

import json
import os
from pathlib import Path
from typing import Final

from ...model.errors import CorruptionError, ForeignLogError, LogError
from ...model.lazy_dataclass import dataclass

FILE: Final = "kafka.json"


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """A log's id, a lower bound for the end of each partition, and the address, which tools read and no check uses."""

    log_id: bytes
    ends: list[int]
    address: str = ""

    @classmethod
    def load(cls, folder: Path) -> "LogIdentity | None":
        """Load the identity stored in a folder.

        Raises:
            LogError: The file cannot be read or parsed.
        """
        path = folder / FILE
        try:
            content = json.loads(path.read_text())
            return cls(
                bytes.fromhex(content["log_id"]),
                [int(end) for end in content["ends"]],
                content.get("log", ""),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LogError(
                f"cannot read {path} ({error}): remove the file if the log is known to be complete"
            ) from None

    def save(self, folder: Path) -> None:
        """Store the identity in a folder, atomically."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = folder / f"{FILE}.partial"
        with partial.open("w") as file:
            json.dump({"log_id": self.log_id.hex(), "ends": self.ends, "log": self.address}, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / FILE)

    def verify(self, topic: str, log_id: bytes, ends: list[int]) -> None:
        """Compare a log with the stored identity.

        Raises:
            ForeignLogError: The log has another id.
            CorruptionError: A partition ends before its stored end.
        """
        if log_id != self.log_id:
            raise ForeignLogError(
                f"the topic {topic} holds the log {log_id.hex()}, but this data folder belongs to the log "
                f"{self.log_id.hex()}: the topic was deleted and created again, or the address is wrong. Use a new "
                "data folder to serve the log of this topic."
            )
        for partition, (end, stored_end) in enumerate(zip(ends, self.ends, strict=True)):
            if end < stored_end:
                reason = f"the topic {topic} ended at {stored_end} and now ends at {end}: it lost records"
                raise CorruptionError(f"{partition}:{end}", reason)
