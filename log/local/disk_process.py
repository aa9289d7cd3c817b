"""Writes and syncs groups outside this process, and so outside Python's lock.

    owner's loop    append ──► blocks ──► socket                     socket ──► callbacks
    disk process                            └──► one write, one sync ──┘         (disk_worker.py)

A thread that returns from a write or a sync waits for Python's lock, which a busy loop hardly releases before it waits
for requests. That took most of the time of a commit. The process does not need the lock: it answers as soon as the disk
does, and the loop reads the answer in its next turn.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from .disk_worker import ANSWER, HEAD
from .durable_position import DurablePosition
from .filesystem import File, Filesystem, SystemFile, SystemFilesystem

COMMAND: Final = [sys.executable, "-I", "-S", str(Path(__file__).with_name("disk_worker.py"))]
MOST_BYTES: Final = 128 << 10
"""Of one write: the socket's buffer has room for them, so that no write waits for the process."""

_BUFFER_BYTES: Final = 1 << 20  # the system may give less, a fifth on Linux

STARTS_AFTER = 100
"""The groups that a log writes itself before its disk process starts, which most short runs do not need."""

Done: TypeAlias = Callable[[int | None], None]
"""Receives the errno of a failed write or sync, 0 if the bytes are durable, or None if the process has ended: then
nothing is known, and nothing more will be written.
"""


class DiskWrite(NamedTuple):
    """Bytes for a segment, and the mark that shows them to readers; without a file of the mark, no mark is written."""

    file: File
    position: int
    data: bytes
    mark_file: File | None
    mark: DurablePosition


class DiskProcess:
    """A disk process of one log, which writes one group at a time. It starts when the log has much to write.

    Args:
        watch: Calls a function on the owner's loop whenever a descriptor can be read: `loop.add_reader`.
        unwatch: Ends that.
        environment: The variables of the process.

    Attributes:
        starts_after: The number of groups that the log writes itself before.
    """

    def __init__(
        self,
        watch: Callable[[int, Callable[[], None]], object],
        unwatch: Callable[[int], object],
        environment: Mapping[str, str],
    ) -> None:
        self.starts_after = STARTS_AFTER
        self._watch = watch
        self._unwatch = unwatch
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._files: list[File] = []
        self._done: Done | None = None
        self._ended: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int | None:
        """The id of the process, from its start to its end."""
        return None if self._process is None else self._process.pid

    def start(self, folder: Filesystem, lock: File) -> None:
        """Start the process, in any thread. It shares the locks of the folder and of the file `lock`.

        Raises:
            OSError: The system has no room for another process.
        """
        assert isinstance(folder, SystemFilesystem), "a process writes to real files"
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603  a program of foldb
                    [*COMMAND, str(theirs.fileno())],
                    env=self._environment,
                    pass_fds=(theirs.fileno(), folder.held, _descriptor(lock)),
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        self._socket = ours

    def attach(self, ended: Callable[[], None]) -> None:
        """Begin to receive answers, on the owner's loop, and call `ended` if the process has ended too early."""
        assert self._socket is not None
        self._ended = ended
        self._watch(self._socket.fileno(), self.wait)

    def write(self, write: DiskWrite, done: Done) -> None:
        """Write and sync at most MOST_BYTES, write the mark, and call `done` on the owner's loop."""
        assert self._done is None, "one group at a time"
        self._done = done
        if not self._send(write):
            self._fail()

    def wait(self) -> None:
        """Wait for an answer, and call `done`."""
        assert self._socket is not None
        try:
            answer = self._socket.recv(ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            answer = b""
        if len(answer) < ANSWER.size:
            self._fail()
            return
        done, self._done = self._done, None
        assert done is not None, "an answer to nothing"
        done(ANSWER.unpack(answer)[0])

    def close(self) -> None:
        """End the process, after all messages."""
        if self._socket is not None and self._process is not None:
            self._unwatch(self._socket.fileno())
            self._socket.close()
            self._process.wait()
            self._socket = self._process = None

    def _fail(self) -> None:
        """Report the early end of the process."""
        self.close()
        self._ended()
        done, self._done = self._done, None
        if done is not None:
            done(None)

    def _send(self, write: DiskWrite) -> bool:
        """Send a message; return whether the process takes it."""
        if self._socket is None:
            return False
        mark = b"" if write.mark_file is None else write.mark.encode()
        head = HEAD.pack(write.position, len(write.data), len(mark))
        files = [write.file] if write.mark_file is None else [write.file, write.mark_file]
        try:
            if files == self._files:
                self._socket.sendall(head + write.data + mark)
            else:
                socket.send_fds(self._socket, [head], list(map(_descriptor, files)))
                self._socket.sendall(write.data + mark)
                self._files = files
        except OSError:
            return False
        return True


def _descriptor(file: File) -> int:
    assert isinstance(file, SystemFile), "a process writes to real files"
    return file.descriptor
