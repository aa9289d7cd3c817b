"""What a server and its children tell each other, over a socket between the two.

    frame ::= length head-length head body      both lengths in 4 bytes, big-endian; `length` counts what follows it

The head is a JSON object. The body is handed on as it is: the changes of a batch, one line of JSON each.
"""

import asyncio
import socket
from struct import Struct
from typing import Any, Final, TypeAlias

import orjson

Head: TypeAlias = dict[str, Any]

_LENGTH: Final = Struct(">I")
_CHUNK: Final = 1 << 20
_ANSWER_MOST: Final = 16 << 20


def encode(head: Head, body: bytes = b"") -> bytes:
    """A whole frame."""
    first = orjson.dumps(head)
    length = _LENGTH.size + len(first) + len(body)
    return b"%b%b%b%b" % (_LENGTH.pack(length), _LENGTH.pack(len(first)), first, body)


async def receive(reader: asyncio.StreamReader) -> tuple[Head, bytes]:
    """The next frame.

    Raises:
        asyncio.IncompleteReadError: The other end is gone.
        ConnectionError: It sends what is no answer.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _ANSWER_MOST:
        raise ConnectionError(f"an answer of {length} bytes")
    return _decode(await reader.readexactly(length))


def receive_blocking(channel: socket.socket) -> tuple[Head, bytes]:
    """The next frame, for a process that has nothing else to do.

    Raises:
        EOFError: The other end is gone.
    """
    (length,) = _LENGTH.unpack(_read(channel, _LENGTH.size))
    return _decode(_read(channel, length))


def _decode(frame: bytes) -> tuple[Head, bytes]:
    (length,) = _LENGTH.unpack_from(frame)
    end = _LENGTH.size + length
    return orjson.loads(frame[_LENGTH.size : end]), frame[end:]


def _read(channel: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = channel.recv(min(length - len(data), _CHUNK))
        if not more:
            raise EOFError("the server is gone")
        data += more
    return bytes(data)
