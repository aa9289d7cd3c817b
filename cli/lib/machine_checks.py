"""Checks of this machine for `foldb doctor`: Python, libraries, limits, disks and processes.

Each check yields findings: the thing looked at, its state, and the next step if something is wrong. A check reads, and
writes at most a temporary file without a name.
"""

import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, NamedTuple

from ...version import __version__
from .output import counted


class Result(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """The result of one check. `step` is the next step, in one sentence; empty if there is none."""

    check: str
    result: Result
    found: str
    step: str = ""


_MB: Final = 1 << 20
_LEAST_FILES: Final = 4096
_LEAST_FREE: Final = 512 * _MB
_LOW_FREE: Final = 0.05  # of the disk
_SLOW_SYNC_MS: Final = 20.0
_SYNCS: Final = 7
_SYNC_BYTES: Final = 4096

_OTHERS: Final = 0o077

_REMOTE: Final = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "glusterfs", "ceph"))
_VOLATILE: Final = frozenset(("tmpfs", "ramfs"))


def python_and_libraries() -> Iterator[Finding]:
    """Check the interpreter, and that each required library is installed."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", Result.OK, f"{python} in {sys.prefix}")
    found, missing = [], []
    for requirement in requires("foldb") or ():
        name, _, marker = requirement.partition(";")
        if "extra ==" in marker or ("win32" in marker and sys.platform == "win32"):
            continue
        library = name.split("<")[0].split(">")[0].split("=")[0].split("[")[0].strip()
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            missing.append(library)
    if missing:
        yield Finding(
            "libraries",
            Result.FAILED,
            f"missing: {', '.join(missing)}",
            "Install foldb again: `pip install foldb`.",
        )
    else:
        yield Finding("libraries", Result.OK, f"foldb {__version__}; {', '.join(found)}")


def limits() -> Iterator[Finding]:
    """Check the limits of this user and machine, which a server would have too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a server raises its limit to the hard one
    shown = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    if hard != resource.RLIM_INFINITY and hard < _LEAST_FILES:
        step = f"Raise it to {_LEAST_FILES:,} or more (`ulimit -Hn`): each connection needs a file."
        yield Finding("open files", Result.WARNING, f"at most {shown}", step)
    else:
        yield Finding("open files", Result.OK, f"at most {shown}")
    available = _available_memory()
    if available is not None:
        yield Finding("memory", Result.OK, f"{available // _MB:,} MB are available to new processes")


def folder(path: Path) -> Iterator[Finding]:
    """Check the permissions, the disk and its sync of a database folder."""
    status = path.stat()
    mode = status.st_mode & 0o777
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "folder", Result.FAILED, f"{path} cannot be read and written by this user", "Run as its owner."
        )
        return
    if mode & _OTHERS:
        step = f"Run `chmod 700 {path}`: the log has all items."
        yield Finding("folder", Result.WARNING, f"{path} is open to other users (mode {mode:o})", step)
    else:
        yield Finding("folder", Result.OK, f"{path}, for its owner only (mode {mode:o})")
    yield _space(path)
    yield _filesystem(path)
    yield _sync(path)


def _space(path: Path) -> Finding:
    disk = shutil.disk_usage(path)
    text = f"{disk.free // _MB:,} MB free of {disk.total // _MB:,} MB"
    if disk.free < _LEAST_FREE:
        return Finding(
            "free space", Result.FAILED, text, "Free space: a server refuses writes on a full disk."
        )
    if disk.free < disk.total * _LOW_FREE:
        return Finding(
            "free space", Result.WARNING, text, "Free space, or trim the log with `foldb log trim`."
        )
    return Finding("free space", Result.OK, text)


def _filesystem(path: Path) -> Finding:
    kind = _filesystem_type(path)
    if kind is None:
        return Finding("filesystem", Result.OK, f"unknown: {sys.platform} does not name it in /proc/mounts")
    if kind in _VOLATILE:
        return Finding(
            "filesystem", Result.WARNING, f"{kind} is memory", "Use a disk: a restart loses this folder."
        )
    if kind in _REMOTE:
        step = "Use a local disk: a lock on a network may admit a second writer."
        return Finding("filesystem", Result.WARNING, f"{kind} is a network filesystem", step)
    return Finding("filesystem", Result.OK, kind)


def _filesystem_type(path: Path) -> str | None:
    """Return the type of the mount that has a path."""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return None
    found, longest = None, -1
    real = str(path.resolve())
    for line in mounts:
        _, mount, kind, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        if (real == mount or real.startswith(f"{mount.rstrip('/')}/")) and len(mount) >= longest:
            found, longest = kind, len(mount)
    return found


def _sync(path: Path) -> Finding:
    """Measure the time of a sync, which each write waits for with --fsync always."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=path) as file:  # on Linux a file without a name
            for _ in range(_SYNCS):
                file.write(bytes(_SYNC_BYTES))
                file.flush()
                started = time.perf_counter()
                os.fsync(file.fileno())
                times.append((time.perf_counter() - started) * 1000)
    except OSError as error:
        return Finding(
            "sync", Result.FAILED, f"{error.strerror}", "Check the disk: a write cannot be made durable."
        )
    median = sorted(times)[_SYNCS // 2]
    text = f"{median:.2f} ms for {_SYNC_BYTES // 1024} KB, at most {max(times):.2f} ms"
    if median > _SLOW_SYNC_MS:
        step = "Use a faster disk, or `foldb serve --fsync interval`: each write waits for a sync."
        return Finding("sync", Result.WARNING, text, step)
    return Finding("sync", Result.OK, text)


def port(host: str, number: int) -> Finding:
    """Check that a server could listen on a port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            step = f"Stop the program that uses it, or start with `foldb serve --port {number + 1}`."
            return Finding("port", Result.WARNING, f"{host}:{number}: {error.strerror}", step)
    return Finding("port", Result.OK, f"{host}:{number} is free")


def processes(pid: int) -> Iterator[Finding]:
    """Check a server's process on this machine: its limit of open files and its child processes.

    Workers of triggers are children, and so are the processes that make snapshots and read the history.
    """
    process = Path("/proc") / str(pid)
    try:
        is_limited = next(
            line for line in (process / "limits").read_text().splitlines() if "open files" in line
        ).split()[3]
        used = len(list((process / "fd").iterdir()))
    except (OSError, StopIteration):
        return  # not Linux, or the process of another user
    if is_limited.isdecimal() and used > int(is_limited) * 0.8:
        step = "Raise `ulimit -n`, or find the clients that leave connections open."
        yield Finding("server's files", Result.WARNING, f"{used:,} of {is_limited} are open", step)
    else:
        yield Finding("server's files", Result.OK, f"{used:,} of {is_limited} are open")
    children = list(_children(pid))
    dead = [child for child, state, _ in children if state == "Z"]
    memory = sum(size for _, _, size in children)
    text = f"{counted(len(children), 'process') if len(children) == 1 else f'{len(children):,} processes'}"
    text += f" with {memory // _MB:,} MB"
    if dead:
        step = "Restart the server, and report this: it did not collect them."
        yield Finding("child processes", Result.WARNING, f"{text}; ended and not collected: {dead}", step)
    else:
        yield Finding("child processes", Result.OK, text)


def _children(pid: int) -> Iterator[tuple[int, str, int]]:
    """Yield the id, the state and the resident bytes of each descendant of a process."""
    page = os.sysconf("SC_PAGE_SIZE")
    by_parent: dict[int, list[tuple[int, str, int]]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                # The name may have spaces and parentheses.
                members = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            entry = (int(process.name), members[0], int(members[21]) * page)
            by_parent.setdefault(int(members[1]), []).append(entry)
    waiting = [pid]
    while waiting:
        for child in by_parent.get(waiting.pop(), ()):
            yield child
            waiting.append(child[0])


def total_memory() -> int | None:
    """Return the bytes of this machine's memory; None if the system does not name them."""
    return _memory("MemTotal:")


def _available_memory() -> int | None:
    return _memory("MemAvailable:")


def _memory(name: str) -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) << 10
    except OSError:
        return None
    return None
