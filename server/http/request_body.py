"""The body of an HTTP request, gathered piece by piece and never beyond its bound.

The bound counts bytes received and, for a gzipped body, bytes inflated, each as it grows. So neither a lie about
the length nor a zip bomb costs more memory than an honest request of the largest size.
"""

import zlib
from typing import Protocol

from .request_head import BadRequestError

_CHUNK_LINE = 1024  # a chunk's size and its extensions; and each of the trailers, which are read past
_TRAILERS = 4096
_INFLATE_STEP = 64 * 1024
_SIZES = {b"%x" % size: size for size in range(1, 4096)}  # of chunks that have no extension
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
        at = self._whole_chunks(data, 0) if self._state == self._size else 0
        while at < len(data) and not self.done:
            next_at = self._state(data, at)
            if next_at is None:
                break
            at = next_at
        self._rest = b"" if self.done else data[at:]
        return data[at:] if self.done else b""

    def _whole_chunks(self, data: bytes, at: int) -> int:
        """Take the chunks from here on that are as most clients write them, and return the place behind them.

        A piece from the socket may hold forty thousand chunks of a byte: one by one they would stop the loop.
        """
        body, most = self.data, self._limit
        while True:
            end = data.find(b"\r\n", at, at + 6)
            size = _SIZES.get(data[at:end]) if end > 0 else None
            if size is None:
                return at
            start, at_end = end + 2, end + 2 + size
            if data[at_end : at_end + 2] != b"\r\n" or len(body) + size > most:
                return at
            body += data[start:at_end]
            at = at_end + 2

    # A state takes something from `data` at a place and returns the place behind it, or None if it needs more.

    def _line(self, data: bytes, at: int) -> bytes | None:
        end = data.find(b"\r\n", at, at + _CHUNK_LINE + 2)
        if end < 0:
            if len(data) - at > _CHUNK_LINE:
                raise BadRequestError(400, "a chunk's line is too long")
            return None
        line = data[at:end]
        if b"\n" in line or b"\r" in line:
            raise BadRequestError(400, "a line that does not end with CRLF")
        return line

    def _size(self, data: bytes, at: int) -> int | None:
        line = self._line(data, at)
        if line is None:
            return None
        digits = line.partition(b";")[0].rstrip(b" \t") if len(line) > 1 else line
        if not 0 < len(digits) <= 16 or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadRequestError(400, "bad chunk size")
        self._left = int(digits, 16)
        if len(self.data) + self._left > self._limit:
            raise TooLargeError
        self._state = self._bytes if self._left else self._trailer
        return at + len(line) + 2

    def _bytes(self, data: bytes, at: int) -> int | None:
        taken = min(self._left, len(data) - at)
        self.data += memoryview(data)[at : at + taken]
        self._left -= taken
        if not self._left:
            self._state = self._end
        return at + taken

    def _end(self, data: bytes, at: int) -> int | None:
        if not data.startswith(b"\r\n", at):
            if len(data) - at == 1 and data.endswith(b"\r"):
                return None
            raise BadRequestError(400, "bad chunk end")
        self._state = self._size
        return self._whole_chunks(data, at + 2)

    def _trailer(self, data: bytes, at: int) -> int | None:
        line = self._line(data, at)
        if line is None:
            return None
        self._trailers += len(line)
        if self._trailers > _TRAILERS:
            raise BadRequestError(400, "too many trailers")
        self.done = not line
        return at + len(line) + 2


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
