"""The disk process: `python -I -S disk_worker.py DESCRIPTOR`, with a socket to the log (disk_process.py).

    segment ::= 0  position (8)  size (4)  bytes       written and synced, then answered: errno (4), 0 if it is durable
    mark    ::= 1  position (8)  size (4)  bytes       written; no sync, no answer, and a failure is ignored

A message has a file descriptor, if it is for another file than the last message of its kind. Numbers are big-endian.

It imports nothing of foldb and few modules, so that it starts in a hundredth of a second. It inherits the log's locks
and holds them until it ends: while it writes, no other process can continue the log. It ends when the log closes the
socket, or dies.
"""

import os
import signal
import socket
import struct
import sys
from contextlib import suppress

HEAD = struct.Struct(">BQI")
ANSWER = struct.Struct(">I")
SEGMENT, MARK = 0, 1
KINDS = (SEGMENT, MARK)


def serve(log: socket.socket) -> None:
    """Execute the messages of a log until it closes the socket."""
    files = [-1 for _ in KINDS]
    while (received := _receive(log)) is not None:
        kind, position, data, descriptor = received
        if descriptor is not None:
            if files[kind] >= 0:
                os.close(files[kind])
            files[kind] = descriptor
        if kind == MARK:
            with suppress(OSError):
                _write(files[MARK], position, data)
        else:
            log.sendall(ANSWER.pack(_write_durably(files[SEGMENT], position, data)))


def _receive(log: socket.socket) -> tuple[int, int, bytes, int | None] | None:
    """Return kind, position, bytes and descriptor of the next message; None at the end."""
    head, descriptors, _, _ = socket.recv_fds(log, HEAD.size, 1)
    if head:
        head += log.recv(HEAD.size - len(head), socket.MSG_WAITALL)
    if len(head) < HEAD.size:
        return None
    kind, position, size = HEAD.unpack(head)
    data = log.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        return None
    return kind, position, data, descriptors[0] if descriptors else None


def _write_durably(file: int, position: int, data: bytes) -> int:
    """Write and sync; return the errno of a failure, or 0."""
    try:
        _write(file, position, data)
        _sync(file)
    except OSError as error:
        return error.errno or 1
    return 0


def _write(file: int, position: int, data: bytes) -> None:
    while data:
        written = os.pwrite(file, data, position)
        position += written
        data = data[written:]


def _sync(file: int) -> None:
    if sys.platform == "darwin":  # see filesystem.py
        import fcntl

        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(file)


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    # A terminal or a supervisor sends these to all processes of a server, whose last writes are still to come.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(ConnectionError), socket.socket(fileno=int(sys.argv[1])) as log:
        serve(log)


if __name__ == "__main__":
    main()
