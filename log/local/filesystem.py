"""The operating system calls of the local log, behind one small interface.

Tests replace it by a disk with torn writes, failed syncs and no space; the simulator by a disk in memory that loses
power. Methods raise OSError like the system's calls.

A database's folder is *held*: it is opened once, and every path below it is resolved relative to that descriptor. If
the folder is renamed, or covered by a mount, the process continues in the same folder and reaches no other.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final, Protocol, TypeAlias

READ_WRITE = os.O_RDWR | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
UNFINISHED: Final = ".new"

# Errors of file systems without hard links (FAT, some FUSE and SMB).
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
# Errors of file systems that cannot lock a folder: NFS locks only files open for writing.
_NO_FOLDER_LOCKS: Final = (
    errno.EBADF,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.ENOLCK,
    errno.EINVAL,
)


class File(Protocol):
    """An open file. Positions are bytes from its start."""

    def size(self) -> int:
        """Return the number of bytes."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read `size` bytes, fewer only at the end of the file."""
        ...

    def write(self, position: int, data: bytes) -> int:
        """Write at least the first byte of `data`, and return the number of bytes written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def sync(self) -> None:
        """Make bytes and size survive a power cut. After an error the state of both is unknown."""
        ...

    def is_at(self, name: str) -> bool:
        """Return whether `name`, a path in the held folder, still names this file and no other."""
        ...

    def close(self) -> None:
        """Close the file, and release its lock."""
        ...


class Filesystem(Protocol):
    """Files in folders."""

    def hold(self, path: Path) -> "HeldFolder":
        """Open the folder, and return a disk that resolves paths below `path` in this folder, even after a move.

        Raises:
            FileNotFoundError, NotADirectoryError: `path` is not a folder.
        """
        ...

    def make_folder(self, path: Path) -> None:
        """Create the folder and its missing parents durably, with access for their owner only."""
        ...

    def names(self, path: Path) -> list[str]:
        """Return the names in the folder, sorted."""
        ...

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> File:
        """Open a file. An existing file keeps its content."""
        ...

    def name(self, old: Path, new: Path) -> None:
        """Give a file another name that is not in use. After a crash it may have both names.

        Raises:
            FileExistsError: The name is in use; no file was changed.
        """
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, replacing a file of that name."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Make the folder's names survive a power cut."""
        ...

    def lock(self, path: Path, note: bytes) -> File:
        """Lock a file against other processes and write `note` into it. Closing the file, or a crash, unlocks it.

        Raises:
            BlockingIOError: Another process has locked the file.
        """
        ...


class HeldFolder(Filesystem, Protocol):
    """A disk with one held folder."""

    def lock_folder(self) -> bool:
        """Lock the folder itself until `close`; return False if the file system cannot lock folders.

        Raises:
            BlockingIOError: Another process has locked the folder.
        """
        ...

    def is_in_place(self) -> bool:
        """Return whether the path by which the folder was opened still leads to it."""
        ...

    def close(self) -> None:
        """Close the folder, and release its lock."""
        ...


def write_all(file: File, position: int, data: bytes) -> None:
    """Write all of `data`, by as many system calls as needed."""
    while data:
        written = file.write(position, data)
        position += written
        data = data[written:]


def read_all(disk: Filesystem, path: Path, size: int | None = None) -> bytes:
    """Read the file's first `size` bytes, or all of it."""
    file = disk.open(path, write=False)
    try:
        return file.read(0, file.size() if size is None else size)
    finally:
        file.close()


def create_file(disk: Filesystem, path: Path, data: bytes, *, replaces: bool = False) -> File:
    """Create a file with the content `data`, and return it open. After a crash it has all of `data`, or no name.

    An existing file of that name is replaced only with `replaces`.

    Raises:
        FileExistsError: A file of that name exists.
        OSError: The file was not created; or EIO, if its name may be durable.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    with contextlib.suppress(FileNotFoundError):
        disk.remove(unfinished)  # it may be a second name of an existing file
    file = disk.open(unfinished, create=True)
    try:
        write_all(file, 0, data)
        file.sync()
        if replaces:
            disk.rename(unfinished, path)
        else:
            disk.name(unfinished, path)
    except OSError:
        file.close()
        with contextlib.suppress(OSError):
            disk.remove(unfinished)
        raise
    try:
        disk.sync_folder(path.parent)
    except OSError as error:
        raise OSError(errno.EIO, f"{path} may or may not exist after a crash") from error
    return file


class SystemFile:
    """A file of this machine."""

    def __init__(self, descriptor: int, folder: int | None = None) -> None:
        """Wrap a file descriptor. `folder` is the descriptor of the held folder that names are relative to."""
        self.descriptor = descriptor
        self._folder = folder
        self._identity = _identity(os.fstat(descriptor))
        self._name: _Name | None = None  # of the last lookup

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        parts = []
        while size > 0 and (part := os.pread(self.descriptor, size, position)):
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, position: int, data: bytes) -> int:
        return os.pwrite(self.descriptor, data, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def sync(self) -> None:
        _fdatasync(self.descriptor)

    def is_at(self, name: str) -> bool:
        """See File. An open file keeps its inode number even without a name."""
        if self._name is None or self._name.text != name:
            self._name = _Name(self._folder, name)
        return self._name.identity() == self._identity

    def close(self) -> None:
        os.close(self.descriptor)


class SystemFilesystem:
    """The file systems of this machine, with or without a held folder."""

    def __init__(self, held: tuple[Path, int] | None = None) -> None:
        """Resolve paths below the held folder relative to its descriptor, and other paths as given."""
        self._root = None if held is None else held[0]
        self._absolute_root = None if self._root is None else self._root.absolute()
        self._descriptor = None if held is None else held[1]

    def hold(self, path: Path) -> "SystemFilesystem":
        return SystemFilesystem((path, os.open(path, FOLDER)))

    def make_folder(self, path: Path) -> None:
        if not self._has(path.parent):
            self.make_folder(path.parent)
        try:
            os.mkdir(self._at(path), 0o700, dir_fd=self._descriptor)
        except FileExistsError:
            os.close(self._open_folder(path))  # raises for a file
        os.chmod(self._at(path), 0o700, dir_fd=self._descriptor)
        self.sync_folder(path.parent)

    def names(self, path: Path) -> list[str]:
        descriptor = self._open_folder(path)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        flags = READ_WRITE if write else os.O_RDONLY | os.O_CLOEXEC
        return self._open(path, flags | (os.O_CREAT if create else 0))

    def name(self, old: Path, new: Path) -> None:
        """See Filesystem. Without hard links the name is checked first; the folder's lock excludes other writers."""
        here = self._descriptor
        try:
            os.link(self._at(old), self._at(new), src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if self._has(new):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from error
            self.rename(old, new)
        else:
            with contextlib.suppress(OSError):  # a second name does no harm
                self.remove(old)

    def rename(self, old: Path, new: Path) -> None:
        here = self._descriptor
        os.rename(self._at(old), self._at(new), src_dir_fd=here, dst_dir_fd=here)

    def remove(self, path: Path) -> None:
        os.remove(self._at(path), dir_fd=self._descriptor)

    def sync_folder(self, path: Path) -> None:
        descriptor = self._open_folder(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path, note: bytes) -> SystemFile:
        file = self._open(path, READ_WRITE | os.O_CREAT)
        try:
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        # The note is for the error message of a refused process. A full disk has no room for it, but allows a start.
        with contextlib.suppress(OSError):
            file.truncate(0)
            file.write(0, note)
        return file

    def lock_folder(self) -> bool:
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_FOLDER_LOCKS:
                return False
            raise
        return True

    def is_in_place(self) -> bool:
        assert self._absolute_root is not None, "no folder is held"
        try:
            return _identity(os.stat(self._absolute_root)) == _identity(os.fstat(self.held))
        except OSError:
            return False

    def close(self) -> None:
        held, self._descriptor = self.held, -1  # a later call fails, and reaches no other file
        os.close(held)

    @property
    def held(self) -> int:
        """The descriptor of the held folder."""
        assert self._descriptor is not None, "no folder is held"
        return self._descriptor

    def _at(self, path: Path) -> Path:
        """Return the path, relative to the held folder if it is below that folder."""
        if self._root is None or not path.is_relative_to(self._root):
            return path if self._root is None else path.absolute()
        return path.relative_to(self._root)

    def _has(self, path: Path) -> bool:
        try:
            os.stat(self._at(path), dir_fd=self._descriptor)
        except FileNotFoundError:
            return False
        return True

    def _open(self, path: Path, flags: int) -> SystemFile:
        return SystemFile(os.open(self._at(path), flags, 0o600, dir_fd=self._descriptor), self._descriptor)

    def _open_folder(self, path: Path) -> int:
        return os.open(self._at(path), FOLDER, dir_fd=self._descriptor)


_Identity: TypeAlias = tuple[int, int, int]


def _identity(status: os.stat_result) -> _Identity:
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


# statx(2) of Linux: no other call returns the inode number without the file's times. Since Linux 6.13 a write after a
# call that read the times must update the inode, which took 20 us more for each group. The call keeps Python's lock
# (PyDLL): names in use are cached in memory, so the lookup takes less time than to acquire that lock again.
_STATX = getattr(ctypes.PyDLL(None, use_errno=True), "statx", None)
_STATX_BYTES: Final = 256
_STATX_FIELDS: Final = struct.Struct("=32xQ96xII")  # the inode number; the device, major and minor
_STATX_INO: Final = 0x100
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_AT_STATX_DONT_SYNC: Final = 0x4000  # use cached attributes of a network file system
_AT_FDCWD: Final = -100


class _Name:
    """A name in a folder with prepared arguments for its lookup after each group of writes."""

    def __init__(self, folder: int | None, text: str) -> None:
        self.text = text
        self._folder = folder
        self._found = ctypes.create_string_buffer(_STATX_BYTES)
        self._arguments = (
            ctypes.c_int(_AT_FDCWD if folder is None else folder),
            ctypes.c_char_p(os.fsencode(text)),
            ctypes.c_int(_AT_SYMLINK_NOFOLLOW | _AT_STATX_DONT_SYNC),
            ctypes.c_uint(_STATX_INO),
            self._found,
        )

    def identity(self) -> _Identity | None:
        """Return the identity of the file with this name; None if there is none."""
        if _STATX is not None:
            if _STATX(*self._arguments) == 0:
                inode, major, minor = _STATX_FIELDS.unpack_from(self._found)
                return major, minor, inode
            # Any other error may come from a sandbox that does not support the call.
            if ctypes.get_errno() == errno.ENOENT:
                return None
        try:
            return _identity(os.stat(self.text, dir_fd=self._folder, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None


# macOS has no fdatasync, and its fsync does not flush the disk's own cache: F_FULLFSYNC does.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _fdatasync(descriptor: int) -> None:
    if _FULL_SYNC is None:
        os.fdatasync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)
