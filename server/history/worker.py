"""The history process: `python -m foldb.server.history.worker`, with its job on stdin and a socket to the server.

    frame ──► read ──► History.at(cut) ──► fold/reads.py ──► frame

It serves the calls of one server, in the encoding of calls between nodes, and ends with it. It is the only process that
opens the folder of the histories.
"""

import asyncio
import gc
import logging
import socket
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from ...log.commands import Genesis
from ...log.local.filesystem import SystemFilesystem
from ...log.local.reader import LogReader
from ...materializer.history.history import History, NotFoldedError
from ...materializer.history.reads import read_past
from ...materializer.history.refold_history import RefoldHistory
from ...materializer.os_process import hide
from ...model.errors import FoldbError, LogError
from ...model.limits import limits_named
from ..cluster.codec import PlainValue
from ..cluster.frames import Frames
from ..cluster.messages import encode_position
from ..cluster.wire import ANSWERED, AS_OF, FAILED

logger = logging.getLogger(__name__)

NOT_FOLDED: Final = 3
"""The status of an answer: the log is not folded up to the cut yet. ANSWERED and FAILED are those between nodes."""


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """The job that the process reads from stdin: the log, where it is, and the socket to the server."""

    log_id: str
    database: str | None = None
    kafka: str | None = None
    security: str | None = None
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    descriptor: int = -1

    def encode(self) -> bytes:
        """Return the job as a line of JSON."""
        return orjson.dumps(asdict(self)) + b"\n"


class HistoryServer(Frames):
    """Answers the calls of the server: `[id, partition, arguments]`."""

    def __init__(self, log: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.closed: asyncio.Future[None] = loop.create_future()
        self._log = log
        genesis: Genesis = log.genesis(0)
        self._partitions = genesis.partitions
        self._limits = limits_named(genesis.limits)
        self._histories: dict[int, History] = {}
        self.trust()

    def on_frame(self, value: PlainValue) -> None:
        call_id, partition_id, arguments = value
        try:
            cut, read = AS_OF.read_arguments(arguments, self._limits)
            history = self._history(partition_id)
            result, position = read_past(history, cut, read, self._partitions)
        except NotFoldedError:
            self.send([call_id, NOT_FOLDED])
        except Exception:
            logger.exception("cannot read the past of partition %d; the read fails", partition_id)
            self.send([call_id, FAILED])
        else:
            self.send([call_id, ANSWERED, AS_OF.result(result), encode_position(position), position.time_ms])

    def _history(self, partition_id: int) -> History:
        history = self._histories.get(partition_id)
        if history is None:
            history = self._histories[partition_id] = RefoldHistory(self._log, partition_id)
        return history

    def on_close(self, error: FoldbError | None) -> None:
        if error is not None:
            logger.error("cannot read a call of the server: %s; the process ends", error)
        if not self.closed.done():
            self.closed.set_result(None)


def open_log(job: HistoryJob) -> Any:
    """Open the log to read it.

    Raises:
        LogError: It is another log: the folder was renamed, and its old name leads to another database.
    """
    log = _open(job)
    if log.genesis(0).log_id.hex() != job.log_id:
        raise LogError(f"{job.database or job.kafka} is another log than that of the server")
    return log


def _open(job: HistoryJob) -> Any:
    if job.database is not None:
        folder = Path(job.database)
        return LogReader(folder, SystemFilesystem().hold(folder))
    from ...log.kafka import KafkaLog, Security

    assert job.kafka is not None, "a log is in a folder or in Kafka"
    security = None if job.security is None else Path(job.security)
    return KafkaLog.open_reader(job.kafka, Security.read(security, job.variables))


async def serve(job: HistoryJob) -> None:
    """Answer calls until the server closes the socket."""
    loop = asyncio.get_running_loop()
    log = open_log(job)
    try:
        server = HistoryServer(log, loop)
        await loop.create_unix_connection(lambda: server, sock=socket.socket(fileno=job.descriptor))
        await server.closed
    finally:
        log.close()


def main() -> None:
    """Run the job on stdin."""
    hide()  # before there is a password to be read
    job = HistoryJob(**orjson.loads(sys.stdin.buffer.readline()))
    gc.freeze()
    asyncio.run(serve(job))


if __name__ == "__main__":
    main()
