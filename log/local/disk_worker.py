"""The disk process: `python -I -S disk_worker.py DESCRIPTOR`, with a socket to the log (disk_process.py).

    message ::= position (8)  size (4)  size of mark (4)  bytes  mark      bytes of the segment, and the mark after them
    answer  ::= errno (4)                                                  0 if the bytes are durable

The bytes are written and synced, then the mark is written, which readers of the log follow; a failure of that is
ignored. The first message has the descriptors of the segment and of the mark, and so has each message after one of
both has changed; without a mark, only that of the segment. Numbers are big-endian.

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

HEAD = struct.Struct(">QII")
ANSWER = struct.Struct(">I")


def serve(log: socket.socket) -> None:
    """Execute the messages of a log until it closes the socket."""
    files: list[int] = []
    while (received := _receive(log)) is not None:
        position, data, mark, changed = received
        if changed:
            for file in files:
                os.close(file)
            files = changed
        failure = _write_durably(files[0], position, data)
        if mark and not failure:
            with suppress(OSError):
                _write(files[1], 0, mark)
        log.sendall(ANSWER.pack(failure))


def _receive(log: socket.socket) -> tuple[int, bytes, bytes, list[int]] | None:
    """Return position, bytes, mark and descriptors of the next message; None at the end."""
    head, descriptors, _, _ = socket.recv_fds(log, HEAD.size, 2)
    if head:
        head += log.recv(HEAD.size - len(head), socket.MSG_WAITALL)
    if len(head) < HEAD.size:
        return None
    position, size, mark_size = HEAD.unpack(head)
    data = log.recv(size + mark_size, socket.MSG_WAITALL)
    if len(data) < size + mark_size:
        return None
    return position, data[:size], data[size:], descriptors


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
