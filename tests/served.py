"""A `foldb serve` in a process of its own."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDB = Path(sys.executable).with_name("foldb")


@contextmanager
def served(directory: Path, *options: str) -> Iterator[str]:
    """Serve `directory` until the block ends; yields the address."""
    port = _free_port()
    command = [FOLDB, "serve", "--db", directory, "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_until_it_answers(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output


def foldb(*arguments: str | os.PathLike[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a `foldb` command to its end."""
    return subprocess.run([FOLDB, *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_it_answers(port: int, process: subprocess.Popen[str]) -> None:
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
            return
        except ConnectionRefusedError:
            if process.poll() is not None:
                raise AssertionError(f"foldb serve ended: {process.communicate()[0]}") from None
        finally:
            connection.close()
