"""Frames: the messages between a server and its workers, over a socket pair.

    frame ::= length message-length message body      lengths in 4 bytes, big-endian; `length` counts the bytes after it

The message is a JSON object. The body is passed on unchanged: the changes of a batch, one line of JSON each.
"""

import socket
from struct import Struct
from typing import Any, Final, TypeAlias

import orjson

WorkerMessage: TypeAlias = dict[str, Any]

LENGTH: Final = Struct(">I")
_CHUNK: Final = 1 << 20


def encode(message: WorkerMessage, body: bytes = b"") -> bytes:
    first = orjson.dumps(message)
    length = LENGTH.size + len(first) + len(body)
    return b"%b%b%b%b" % (LENGTH.pack(length), LENGTH.pack(len(first)), first, body)


def receive(channel: socket.socket) -> tuple[WorkerMessage, bytes]:
    """Receive the next frame. It blocks: for a worker, which has nothing else to do.

    Raises:
        EOFError: The server has closed the socket.
    """
    (length,) = LENGTH.unpack(_read(channel, LENGTH.size))
    return decode(_read(channel, length))


def decode(frame: bytes) -> tuple[WorkerMessage, bytes]:
    """Decode message and body from the bytes after a frame's length."""
    (length,) = LENGTH.unpack_from(frame)
    end = LENGTH.size + length
    return orjson.loads(frame[LENGTH.size : end]), frame[end:]


def _read(channel: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = channel.recv(min(length - len(data), _CHUNK))
        if not more:
            raise EOFError("the server has closed the socket")
        data += more
    return bytes(data)
