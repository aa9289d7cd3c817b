"""The body of an HTTP request, received in pieces, with a limit.

The limit counts received bytes and, for a gzipped body, inflated bytes, while the body grows. So neither a false length
nor a zip bomb takes more memory than an honest request of the maximum size.
"""

import zlib
from typing import Final, Protocol

from .request_head import BadRequestError

_CHUNK_LINE: Final = 1024  # a chunk's size with its extensions, or one trailer; trailers are skipped
_TRAILERS: Final = 4096
_INFLATE_STEP: Final = 64 * 1024
_SIZES: Final = {b"%x" % size: size for size in range(1, 4096)}  # sizes of chunks without extensions
_GZIP: Final = 16 + zlib.MAX_WBITS  # selects gzip in zlib


class TooLargeError(BadRequestError):
    """The body is larger than a request may be."""

    def __init__(self) -> None:
        super().__init__(413, "the body is too large")


class Body(Protocol):
    """A body that is being received."""

    is_complete: bool
    data: bytearray

    def feed(self, data: bytes) -> bytes:
        """Consume the bytes of the body and return the rest."""
        ...


class SizedBody:
    """A body with a Content-Length."""

    __slots__ = ("_length", "data", "is_complete")

    def __init__(self, length: int) -> None:
        self._length = length
        self.data = bytearray()
        self.is_complete = length == 0

    def feed(self, data: bytes) -> bytes:
        missing = self._length - len(self.data)
        self.data += memoryview(data)[:missing]
        self.is_complete = len(self.data) == self._length
        return data[missing:]


class ChunkedBody:
    """A body in chunks, each `size-in-hex [;extension] CRLF bytes CRLF`, ended by one of size 0 and trailers.

    Only CRLF ends a line, and sizes are plain hexadecimal. A lenient decoder could be made to see another end of the
    request than a proxy in front of it.
    """

    __slots__ = ("_left", "_limit", "_rest", "_state", "_trailers", "data", "is_complete")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._left = 0
        self._state = self._size
        self._trailers = 0
        self.data = bytearray()
        self.is_complete = False

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        at = self._whole_chunks(data, 0) if self._state == self._size else 0
        while at < len(data) and not self.is_complete:
            next_at = self._state(data, at)
            if next_at is None:
                break
            at = next_at
        self._rest = b"" if self.is_complete else data[at:]
        return data[at:] if self.is_complete else b""

    def _whole_chunks(self, data: bytes, at: int) -> int:
        """Consume complete chunks in the common form from `at` on, and return the index behind them.

        One read of the socket may hold forty thousand chunks of one byte: parsed one by one they would block the loop.
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

    # A state consumes bytes of `data` from an index on, and returns the index behind them or None if it needs more.

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
        self.is_complete = not line
        return at + len(line) + 2


def inflate(data: bytes, limit: int) -> bytes:
    """Decompress gzip, in steps, to at most `limit` bytes.

    Raises:
        TooLargeError: The body has more than `limit` bytes.
        BadRequestError: The data is not gzip, is incomplete, or has bytes after its end.
    """
    inflater = zlib.decompressobj(_GZIP)
    inflated = bytearray()
    try:
        while not inflater.eof:
            step = inflater.decompress(data, _INFLATE_STEP)
            data = inflater.unconsumed_tail
            inflated += step
            if len(inflated) > limit:
                raise TooLargeError
            if not step and not data and not inflater.eof:
                raise BadRequestError(400, "the gzipped body ends early")
    except zlib.error:
        raise BadRequestError(400, "the body is not gzip") from None
    if inflater.unused_data:
        raise BadRequestError(400, "the gzipped body goes on after its end")
    return bytes(inflated)
