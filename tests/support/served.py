"""`foldb serve` in a child process, and `foldb` commands run to completion."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDB = Path(sys.executable).with_name("foldb")


@contextmanager
def served(directory: Path, *options: str) -> Iterator[str]:
    """Serve `directory` on a free port until the block ends; yield the address."""
    process = _start(directory, *options)
    try:
        yield _address(process)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said


@contextmanager
def killed(directory: Path, *options: str) -> Iterator[str]:
    """Serve `directory` as `served` does, and end the process with SIGKILL."""
    process = _start(directory, *options)
    try:
        yield _address(process)
    finally:
        process.kill()
        process.communicate(timeout=30)


def foldb(*arguments: str | os.PathLike[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a `foldb` command to completion."""
    return subprocess.run([FOLDB, *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def _address(process: subprocess.Popen[str]) -> str:
    """Return the address that the process prints once it answers."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if match := re.search(r"https?://\S+:\d+", line):
            return match[0]
    raise AssertionError(f"foldb serve ended: {said}")


def _start(directory: Path, *options: str) -> subprocess.Popen[str]:
    command = [str(FOLDB), "serve", "--db", str(directory), "--port", "0", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
