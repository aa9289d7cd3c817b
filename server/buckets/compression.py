"""Compressed files as streams: NONE, GZIP and ZSTD, read and written in pieces of bounded size.

A file may be a sequence of compressed streams, as appending to it makes. The standard library has ZSTD from Python 3.14
on. Before, ZSTD needs `pip install "foldb[exports]"`.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias, cast

from ...model.errors import FoldbError

Compression: TypeAlias = Literal["NONE", "GZIP", "ZSTD"]

SUFFIXES: Final[dict[str, Compression]] = {".gz": "GZIP", ".zst": "ZSTD"}

_BUFFER_BYTES: Final = 1 << 18


class DamagedFileError(FoldbError):
    """A compressed file is damaged, so its rest cannot be read."""


class MissingExtraError(FoldbError):
    """A format needs a library that is not installed."""

    def __init__(self, what: str, extra: str = "exports") -> None:
        super().__init__(f'{what} needs a library that is not installed: pip install "foldb[{extra}]"')


def compression_of(name: str) -> Compression:
    """Return the compression that the suffix of a file's name shows.

    >>> compression_of("items.json.gz")
    'GZIP'
    """
    return SUFFIXES.get(Path(name).suffix, "NONE")


def open_compressed(path: Path, compression: Compression) -> BinaryIO:
    """Open a file to read its content.

    A read of the file raises DamagedFileError if the compressed data is damaged or ends early.

    Raises:
        MissingExtraError: The library for ZSTD is not installed.
    """
    if compression == "NONE":
        return path.open("rb")
    if compression == "GZIP":
        return _reader(path, gzip.GzipFile(path, "rb"))
    zstd = _zstd()
    return _reader(path, zstd.ZstdFile(path, "rb"), zstd.ZstdError)


def compressing(file: BinaryIO, compression: Compression) -> BinaryIO:
    """Return a stream that writes compressed data to a file. Closing it ends the data, and leaves the file open.

    Equal content makes equal bytes.

    Raises:
        MissingExtraError: The library for ZSTD is not installed.
    """
    if compression == "NONE":
        return _Uncompressed(file)
    if compression == "GZIP":
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
    return cast(BinaryIO, _zstd().ZstdFile(file, "wb"))


class _Uncompressed(io.BufferedIOBase, BinaryIO):
    """A stream without compression. Closing it leaves the file open."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


class _Decompressed(io.RawIOBase):
    """The decompressed content of a file; errors of any library are DamagedFileErrors."""

    def __init__(self, path: Path, content: Any, errors: tuple[type[Exception], ...]) -> None:
        self._path = path
        self._content = content
        self._errors = errors

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._content.readinto(buffer)
        except self._errors as error:
            raise DamagedFileError(f"{self._path}: the compressed data is damaged: {error}") from error
        return count

    def close(self) -> None:
        self._content.close()
        super().close()


def _reader(path: Path, content: Any, *errors: type[Exception]) -> BinaryIO:
    damage: tuple[type[Exception], ...] = (EOFError, zlib.error, gzip.BadGzipFile, *errors)
    return io.BufferedReader(_Decompressed(path, content, damage), _BUFFER_BYTES)


def _zstd() -> Any:
    """Return the module of the standard library, or the same of the extra."""
    import_zstd: Callable[[], Any] = _from_library if sys.version_info >= (3, 14) else _from_extra
    return import_zstd()


def _from_library() -> Any:
    from importlib import import_module

    return import_module("compression.zstd")


def _from_extra() -> Any:
    try:
        from backports import zstd
    except ImportError:
        raise MissingExtraError("ZSTD") from None
    return zstd
