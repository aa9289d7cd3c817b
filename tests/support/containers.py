"""A container without Docker: a program as process 1 of namespaces of its own, and a client in another network.

    network of the test   ·   network of the client  ◄── veth pair ──►  network of the container
                                    CLIENT                                     CONTAINER

No address of either network leads anywhere else.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from tests.support.served import FOLDB
from tests.unit.project.source import ROOT

# Addresses for documentation (RFC 5737).
CONTAINER = "198.51.100.2"
CLIENT = "198.51.100.3"
_PREFIX = 24
_ISOLATED = ("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child")
_PATIENCE_S = 30


def require_namespaces() -> None:
    """Skip the test if this user cannot create network namespaces."""
    if any(shutil.which(program) is None for program in ("ip", "nsenter", "unshare")):
        pytest.skip("needs ip, nsenter and unshare")
    made = subprocess.run([*_ISOLATED, "ip", "link", "add", "type", "veth"], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"may not make a network namespace with a veth pair: {made.stderr.strip()}")


def instruction(name: str) -> list[str]:
    """Return the program and the arguments of an instruction of the Dockerfile in its exec form."""
    text = (ROOT / "compose" / "Dockerfile").read_text()
    found = re.search(rf"^{name} (?:[^\[\n]*\\\n +CMD )?(\[.*\])$", text, re.MULTILINE)
    assert found, f"the Dockerfile has no {name}"
    words: list[str] = json.loads(found[1])
    return words


def entry_point(data: Path) -> list[str]:
    """Return the command that `docker run IMAGE` runs, with the volume in the folder `data`."""
    command = [*instruction("ENTRYPOINT"), *instruction("CMD")]
    assert "/data" in command
    paths = {"foldb": str(FOLDB), "/data": str(data)}
    return [paths.get(word, word) for word in command]


class Container:
    """A program as process 1 of its own network, process ids and mounts; killed at the end of the block.

    Attributes:
        pid: The process id of process 1 outside of the container.
        said: The lines that the program has written to stderr until `read_until` or `stop` returned.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.said = ""
        self._process = subprocess.Popen(
            [*_ISOLATED, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=_PATIENCE_S)

    @property
    def pid(self) -> int:
        own = self._process.pid
        return int(Path(f"/proc/{own}/task/{own}/children").read_text())

    def read_until(self, text: str) -> None:
        """Read stderr up to the line that contains the text."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said += line
            if text in line:
                return
        raise AssertionError(f"the program ended: {self.said}")

    def stop(self) -> int:
        """Send SIGTERM to process 1, as `docker stop` does, and return its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        self.said += self._process.communicate(timeout=_PATIENCE_S)[1]
        return self._process.returncode

    def run(self, *command: str, stdin: int | None = None) -> str:
        """Run a command in the container, as `docker exec` does, and return what it prints."""
        return _enter(self.pid, "--net", "--pid", "--mount", command=command, stdin=stdin)

    def process(self, pid: int) -> Path:
        """Return the folder in /proc of a process by its id in the container."""
        return Path(f"/proc/{self.pid}/root/proc/{pid}")


class Client:
    """A network that a veth pair joins to a container's, with names for the container's address."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def run(self, program: str, *arguments: str) -> str:
        """Run a Python program there, and return what it prints."""
        return _enter(self._pid, "--net", "--mount", command=(sys.executable, "-c", program, *arguments))


@contextmanager
def client_of(container: Container, folder: Path, *names: str) -> Iterator[Client]:
    """Yield a client in whose /etc/hosts the container's address has these names, as in a compose network."""
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{CONTAINER} {' '.join(names)}\n")
    script = f"mount --bind {hosts} /etc/hosts && echo ready && exec cat"
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        peer = ("type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _ip(container.pid, "link", "add", "eth0", *peer)
        for pid, address in ((container.pid, CONTAINER), (holder.pid, CLIENT)):
            _ip(pid, "address", "add", f"{address}/{_PREFIX}", "dev", "eth0")
            _ip(pid, "link", "set", "eth0", "up")
            _ip(pid, "link", "set", "lo", "up")
        yield Client(holder.pid)
    finally:
        holder.communicate(timeout=_PATIENCE_S)


def _ip(pid: int, *arguments: str) -> None:
    _enter(pid, "--net", command=("ip", *arguments))


def _enter(pid: int, *spaces: str, command: Sequence[str], stdin: int | None = None) -> str:
    done = subprocess.run(
        ["nsenter", "--target", str(pid), *spaces, *command],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S * 2,
        stdin=stdin,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
