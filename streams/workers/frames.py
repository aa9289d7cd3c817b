"""What a server and its children tell each other, over a socket between the two.

    frame ::= length head-length head body      both lengths in 4 bytes, big-endian; `length` counts what follows it

The head is a JSON object. The body is handed on as it is: the changes of a batch, one line of JSON each.
"""

import socket
from struct import Struct
from typing import Any, Final, TypeAlias

import orjson

Head: TypeAlias = dict[str, Any]

LENGTH: Final = Struct(">I")
_CHUNK: Final = 1 << 20


def encode(head: Head, body: bytes = b"") -> bytes:
    """A whole frame."""
    first = orjson.dumps(head)
    length = LENGTH.size + len(first) + len(body)
    return b"%b%b%b%b" % (LENGTH.pack(length), LENGTH.pack(len(first)), first, body)


def receive(channel: socket.socket) -> tuple[Head, bytes]:
    """The next frame, for a child, which has nothing else to do.

    Raises:
        EOFError: The other end is gone.
    """
    (length,) = LENGTH.unpack(_read(channel, LENGTH.size))
    return decode(_read(channel, length))


def decode(frame: bytes) -> tuple[Head, bytes]:
    """Head and body of what follows a frame's length."""
    (length,) = LENGTH.unpack_from(frame)
    end = LENGTH.size + length
    return orjson.loads(frame[LENGTH.size : end]), frame[end:]


def _read(channel: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = channel.recv(min(length - len(data), _CHUNK))
        if not more:
            raise EOFError("the server is gone")
        data += more
    return bytes(data)
