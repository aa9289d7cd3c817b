"""All that the local log asks of an operating system, in one small object.

Tests replace it by a disk whose writes tear, whose syncs fail and whose space runs out; a simulator can use one that
lives in memory and loses power. A method raises OSError as the system does.

A database's folder is *held*: opened once, and every path below it is resolved relative to that descriptor. So a
process whose folder is renamed, or covered by a mount, goes on in the same folder and reaches no other.
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

# A file system without hard links (FAT, some of FUSE and SMB).
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
# A file system that locks what is open for writing only (NFS), or nothing: a folder is not.
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
        """How many bytes it has."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes; fewer only at the end of the file."""
        ...

    def write(self, position: int, data: bytes) -> int:
        """Write some of `data`, at least one byte of it; how many it were."""
        ...

    def truncate(self, size: int) -> None:
        """Cut it to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when its bytes and its size would survive a power cut. After an error nothing is known of either."""
        ...

    def is_at(self, name: str) -> bool:
        """Return whether `name`, a path in the held folder, still names this file and no other."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


class Filesystem(Protocol):
    """Files in folders."""

    def hold(self, path: Path) -> "HeldFolder":
        """Open the folder and return a disk whose paths below `path` are those of this folder, wherever it is moved.

        Raises:
            FileNotFoundError, NotADirectoryError: `path` is not a folder.
        """
        ...

    def make_folder(self, path: Path) -> None:
        """Make the folder and those above it where they are missing, durably; nobody else may look into it."""
        ...

    def names(self, path: Path) -> list[str]:
        """What the folder holds, sorted."""
        ...

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> File:
        """Open a file. One that is there already is opened as it is."""
        ...

    def name(self, old: Path, new: Path) -> None:
        """Give a file another name that is not taken. After a crash it may have both names.

        Raises:
            FileExistsError: The name is taken; nothing was changed.
        """
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name; a file that has it is replaced."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Return when the folder's names would survive a power cut."""
        ...

    def lock(self, path: Path, note: bytes) -> File:
        """Lock a file against every other process and write `note` into it. Closing the file unlocks it.

        Raises:
            BlockingIOError: Another process has locked the file. The system unlocks the files of a process that dies.
        """
        ...


class HeldFolder(Filesystem, Protocol):
    """A disk of which one folder is held."""

    def lock_folder(self) -> bool:
        """Lock the folder itself until `close`; False where the file system cannot lock a folder.

        Raises:
            BlockingIOError: Another process has locked the folder.
        """
        ...

    def is_in_place(self) -> bool:
        """Return whether the path by which the folder was opened still leads to it."""
        ...

    def reopen(self) -> int:
        """Open the held folder once more, without its lock, for a process that is started; the caller closes it."""
        ...

    def close(self) -> None:
        """Let the folder go, and its lock."""
        ...


def write_all(file: File, position: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at once."""
    while data:
        written = file.write(position, data)
        position += written
        data = data[written:]


def read_all(disk: Filesystem, path: Path, size: int | None = None) -> bytes:
    """The file's first `size` bytes, or all of it."""
    file = disk.open(path, write=False)
    try:
        return file.read(0, file.size() if size is None else size)
    finally:
        file.close()


def create_file(disk: Filesystem, path: Path, data: bytes, *, replaces: bool = False) -> File:
    """Create a file that holds `data`, and return it open: after a crash it has all of `data`, or no name.

    A file that has the name is never replaced, unless `replaces`.

    Raises:
        FileExistsError: There is a file of that name.
        OSError: The file was not created; or, if its name may be durable, EIO.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    with contextlib.suppress(FileNotFoundError):
        disk.remove(unfinished)  # it may be a second name of a file that is there
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
        raise OSError(errno.EIO, f"{path} may or may not be there after a crash") from error
    return file


class SystemFile:
    """A file of this machine."""

    def __init__(self, descriptor: int, folder: int | None = None) -> None:
        """Take an open file, and the descriptor of the held folder that names are relative to."""
        self.descriptor = descriptor
        self._folder = folder
        self._identity = _identity(os.fstat(descriptor))
        self._name: _Name | None = None  # the last that was looked up

    def size(self) -> int:
        """See File."""
        return os.fstat(self.descriptor).st_size

    def read(self, position: int, size: int) -> bytes:
        """See File."""
        parts = []
        while size > 0 and (part := os.pread(self.descriptor, size, position)):
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, position: int, data: bytes) -> int:
        """See File."""
        return os.pwrite(self.descriptor, data, position)

    def truncate(self, size: int) -> None:
        """See File."""
        os.ftruncate(self.descriptor, size)

    def sync(self) -> None:
        """See File."""
        _fdatasync(self.descriptor)

    def is_at(self, name: str) -> bool:
        """See File. An open file keeps its inode number, also when it has lost its last name."""
        if self._name is None or self._name.text != name:
            self._name = _Name(self._folder, name)
        return self._name.identity() == self._identity

    def close(self) -> None:
        """See File."""
        os.close(self.descriptor)


class SystemFilesystem:
    """The file systems of this machine, with or without a held folder."""

    def __init__(self, held: tuple[Path, int] | None = None) -> None:
        """Resolve paths below the held folder, given with its descriptor, relative to it, and others as they are."""
        self._root = None if held is None else held[0]
        self._place = None if self._root is None else self._root.absolute()
        self._descriptor = None if held is None else held[1]

    def hold(self, path: Path) -> "SystemFilesystem":
        """See Disk."""
        return SystemFilesystem((path, os.open(path, FOLDER)))

    def make_folder(self, path: Path) -> None:
        """See Disk."""
        if not self._has(path.parent):
            self.make_folder(path.parent)
        try:
            os.mkdir(self._at(path), 0o700, dir_fd=self._descriptor)
        except FileExistsError:
            os.close(self._open_folder(path))  # which a file does not permit
        os.chmod(self._at(path), 0o700, dir_fd=self._descriptor)
        self.sync_folder(path.parent)

    def names(self, path: Path) -> list[str]:
        """See Disk."""
        descriptor = self._open_folder(path)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        """See Disk."""
        flags = READ_WRITE if write else os.O_RDONLY | os.O_CLOEXEC
        return self._open(path, flags | (os.O_CREAT if create else 0))

    def name(self, old: Path, new: Path) -> None:
        """See Disk. Without hard links the name is looked up first, which the folder's lock makes good enough."""
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
        """See Disk."""
        here = self._descriptor
        os.rename(self._at(old), self._at(new), src_dir_fd=here, dst_dir_fd=here)

    def remove(self, path: Path) -> None:
        """See Disk."""
        os.remove(self._at(path), dir_fd=self._descriptor)

    def sync_folder(self, path: Path) -> None:
        """See Disk."""
        descriptor = self._open_folder(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path, note: bytes) -> SystemFile:
        """See Disk."""
        file = self._open(path, READ_WRITE | os.O_CREAT)
        try:
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        # The note is for the process that is refused. A full disk has no room for it and must not prevent a start.
        with contextlib.suppress(OSError):
            file.truncate(0)
            file.write(0, note)
        return file

    def lock_folder(self) -> bool:
        """See HeldFolder."""
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_FOLDER_LOCKS:
                return False
            raise
        return True

    def is_in_place(self) -> bool:
        """See HeldFolder."""
        assert self._place is not None, "no folder is held"
        try:
            return _identity(os.stat(self._place)) == _identity(os.fstat(self._held))
        except OSError:
            return False

    def reopen(self) -> int:
        """See HeldFolder."""
        return os.open(".", FOLDER, dir_fd=self._held)

    def close(self) -> None:
        """See HeldFolder."""
        held, self._descriptor = self._held, -1  # a later call fails, and reaches no other file
        os.close(held)

    @property
    def _held(self) -> int:
        assert self._descriptor is not None, "no folder is held"
        return self._descriptor

    def _at(self, path: Path) -> Path:
        """The path, relative to the held folder if it is below that."""
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


# statx(2) of Linux: no other call returns the inode number without the times of the file. Since Linux 6.13 times that
# were read are exact: a write after `stat` then has to change the inode, which took 20 us more of each group. The call
# keeps Python's lock (PyDLL): names that are in use are looked up in memory, and to wait for that lock takes longer.
_STATX = getattr(ctypes.PyDLL(None, use_errno=True), "statx", None)
_STATX_BYTES: Final = 256
_STATX_FIELDS: Final = struct.Struct("=32xQ96xII")  # the inode number; the device, major and minor
_STATX_INO: Final = 0x100
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_AT_STATX_DONT_SYNC: Final = 0x4000  # of a network file system, what is known here
_AT_FDCWD: Final = -100


class _Name:
    """A name in a folder, made ready to be looked up after each group of writes."""

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
        """Return the identity of the file that has the name; None if none has it."""
        if _STATX is not None:
            if _STATX(*self._arguments) == 0:
                inode, major, minor = _STATX_FIELDS.unpack_from(self._found)
                return major, minor, inode
            # Any other error may be that of a sandbox that does not know the call.
            if ctypes.get_errno() == errno.ENOENT:
                return None
        try:
            return _identity(os.stat(self.text, dir_fd=self._folder, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None


# macOS has no fdatasync, and its fsync does not reach the disk's own platters: F_FULLFSYNC does.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _fdatasync(descriptor: int) -> None:
    if _FULL_SYNC is None:
        os.fdatasync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_SYNC)
