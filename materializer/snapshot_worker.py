"""Makes snapshots of partitions, in a process of its own beside the server.

    job on stdin ──► newest snapshot of a partition ──► the log after it ──► the next snapshot ──► the next partition

It reads the log as any reader, and needs as much memory as the largest of its partitions. The job comes on stdin,
because it may hold the password of a connection to Kafka.
"""

import sys
from contextlib import closing
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

import orjson

from ..log.local.filesystem import SystemFilesystem
from ..log.local.reader import LogReader
from ..model.errors import FoldbError
from ..model.lazy_dataclass import dataclass
from .os_process import hide
from .snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """The snapshots to make.

    Attributes:
        folder: The folder of the database or of the node, which gets the snapshots.
        partitions: The partitions of the log; None for all.
        kafka: The address of the log; None for a log in `folder`.
        security: The file of the settings of connections to Kafka.
        variables: The same settings from the environment.
    """

    folder: str
    partitions: list[int] | None = None
    kafka: str | None = None
    security: str | None = None
    variables: dict[str, str] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """Return the job as a line of JSON."""
        return orjson.dumps(asdict(self)) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "SnapshotJob":
        """Parse the line that `encode` returns."""
        return cls(**orjson.loads(line))


def make_snapshots(job: SnapshotJob) -> None:
    """Make a snapshot of each partition at the end of its log, one after the other.

    Raises:
        FoldbError, OSError: A log cannot be read or folded, or the disk refused a snapshot.
    """
    folder = Path(job.folder)
    # An open descriptor: if the folder is renamed during the fold, the snapshot still goes into this folder.
    disk = SystemFilesystem().hold(folder)
    log: Any
    if job.kafka is None:
        log = LogReader(folder, disk)
    else:
        from ..log.kafka import KafkaLog, Security  # the client takes an eighth of a second to import

        security = None if job.security is None else Path(job.security)
        log = KafkaLog.open_reader(job.kafka, Security.read(security, job.variables))
    with closing(log):
        for partition_id in range(log.partitions) if job.partitions is None else job.partitions:
            Snapshots(folder, disk, partition_id, log.partitions).make(log)


def main() -> None:
    """Run the job on stdin."""
    hide()  # before there is a password to be read
    try:
        make_snapshots(SnapshotJob.decode(sys.stdin.buffer.readline()))
    except (FoldbError, OSError) as error:
        sys.exit(f"cannot take a snapshot: {error}")


if __name__ == "__main__":
    main()
