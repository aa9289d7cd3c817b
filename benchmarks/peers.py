"""The servers that are compared: how each is started, on what data, and how it is stopped."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 10


@dataclass(frozen=True)
class Peer:
    """One server under test. `command` gets a port and a folder of its own."""

    name: str
    command: Callable[[int, Path], list[str]]


def foldb_peer() -> Peer:
    """This checkout, on the local log with its default durability: fdatasync before every acknowledgement."""
    return Peer(
        "foldb",
        lambda port, folder: [
            sys.executable,
            "-m",
            "foldb",
            "serve",
            "--port",
            str(port),
            "--db",
            str(folder / "data"),
        ],
    )


def dynoxide_peers() -> list[Peer]:
    """dynoxide in memory and on a file; none where its program is not found (see `make bench`)."""
    program = os.environ.get("DYNOXIDE") or shutil.which("dynoxide")
    if program is None:
        return []
    serve = [program, "serve", "--port"]
    return [
        Peer("dynoxide in memory", lambda port, _: [*serve, str(port)]),
        Peer(
            "dynoxide on a file",
            lambda port, folder: [*serve, str(port), "--db-path", str(folder / "dynoxide.db")],
        ),
    ]


@contextmanager
def running(peer: Peer, port: int) -> Iterator[str]:
    """Start a peer in a folder of its own and yield its URL; stop it and remove the folder afterwards."""
    with tempfile.TemporaryDirectory(prefix="foldb-bench-") as name:
        folder = Path(name)
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 -- the commands are this module's own
                peer.command(port, folder), stdout=output, stderr=subprocess.STDOUT
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_it_answers(url, process, folder / "output")
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait_until_it_answers(url: str, process: "subprocess.Popen[bytes]", output: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 -- a loopback address
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{url} did not start:\n{output.read_text(errors='replace')}")
