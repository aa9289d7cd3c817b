"""The body of an HTTP request, gathered piece by piece and never beyond its bound.

The bound counts bytes received and, for a gzipped body, bytes inflated, each as it grows. So neither a lie about
the length nor a zip bomb costs more memory than an honest request of the largest size.
"""

import zlib
from typing import Protocol

from .heads import BadRequestError

_CHUNK_LINE = 1024  # a chunk's size and its extensions; and each of the trailers, which are read past
_TRAILERS = 4096
_INFLATE_STEP = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way of asking for a gzip header


class TooLargeError(BadRequestError):
    """The body is larger than a request may be."""

    def __init__(self) -> None:
        super().__init__(413, "the body is too large")


class Body(Protocol):
    """A body under way."""

    done: bool
    data: bytearray

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body and return the rest."""
        ...


class SizedBody:
    """A body whose length the head told."""

    __slots__ = ("_length", "data", "done")

    def __init__(self, length: int) -> None:
        self._length = length
        self.data = bytearray()
        self.done = length == 0

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body and return the rest."""
        wanted = self._length - len(self.data)
        self.data += memoryview(data)[:wanted]
        self.done = len(self.data) == self._length
        return data[wanted:]


class ChunkedBody:
    """A body in chunks, each `size-in-hex [;extension] CRLF bytes CRLF`, ended by one of size 0 and trailers.

    Only CRLF ends a line and sizes are plain hexadecimal: a decoder that is lenient here can be made to see
    another end of the request than a proxy in front of it.
    """

    __slots__ = ("_left", "_limit", "_rest", "_state", "_trailers", "data", "done")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._left = 0
        self._state = self._size
        self._trailers = 0
        self.data = bytearray()
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body and return the rest."""
        data = self._rest + data
        self._rest = b""
        while data and not self.done:
            rest = self._state(data)
            if rest is None:
                self._rest = data
                return b""
            data = rest
        return data

    def _line(self, data: bytes) -> tuple[bytes, bytes] | None:
        end = data.find(b"\r\n")
        if end > _CHUNK_LINE or (end < 0 and len(data) > _CHUNK_LINE):
            raise BadRequestError(400, "a chunk's line is too long")
        return None if end < 0 else (data[:end], data[end + 2 :])

    def _size(self, data: bytes) -> bytes | None:
        if (found := self._line(data)) is None:
            return None
        line, rest = found
        digits = line.partition(b";")[0].rstrip(b" \t")
        if not 0 < len(digits) <= 16 or digits.strip(b"0123456789abcdefABCDEF") or b"\n" in line:
            raise BadRequestError(400, "bad chunk size")
        self._left = int(digits, 16)
        if len(self.data) + self._left > self._limit:
            raise TooLargeError
        self._state = self._bytes if self._left else self._trailer
        return rest

    def _bytes(self, data: bytes) -> bytes | None:
        taken = min(self._left, len(data))
        self.data += memoryview(data)[:taken]
        self._left -= taken
        if not self._left:
            self._state = self._end
        return data[taken:]

    def _end(self, data: bytes) -> bytes | None:
        if len(data) < 2 and data == b"\r":
            return None
        if not data.startswith(b"\r\n"):
            raise BadRequestError(400, "bad chunk end")
        self._state = self._size
        return data[2:]

    def _trailer(self, data: bytes) -> bytes | None:
        if (found := self._line(data)) is None:
            return None
        line, rest = found
        self._trailers += len(line)
        if self._trailers > _TRAILERS:
            raise BadRequestError(400, "too many trailers")
        self.done = not line
        return rest


def inflate(data: bytes, limit: int) -> bytes:
    """Undo gzip, once, in steps, to at most `limit` bytes.

    Raises:
        TooLargeError: It would be more.
        BadRequestError: It is no gzip, ends early, or goes on after its end.
    """
    inflater = zlib.decompressobj(_GZIP)
    whole = bytearray()
    try:
        while not inflater.eof:
            step = inflater.decompress(data, _INFLATE_STEP)
            data = inflater.unconsumed_tail
            whole += step
            if len(whole) > limit:
                raise TooLargeError
            if not step and not data and not inflater.eof:
                raise BadRequestError(400, "the gzipped body ends early")
    except zlib.error:
        raise BadRequestError(400, "the body is not gzip") from None
    if inflater.unused_data:
        raise BadRequestError(400, "the gzipped body goes on after its end")
    return bytes(whole)
