"""Load on a server, with wrk."""

import shutil
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from .peers import Running
from .requests import NOTE_BYTES

_SCRIPT = Path(__file__).with_name("load.lua")


@dataclass(frozen=True)
class Rate:
    """Requests per second, and the median and the 99th percentile of the latency in milliseconds.

    Attributes:
        cpu_us: The microseconds of processor time that the server took a request, kernel included; 0 if not measured.
    """

    requests: float
    p50: float
    p99: float
    cpu_us: float = 0.0


def median(rates: Sequence[Rate]) -> Rate:
    """Return the median of each figure."""
    return Rate(*(statistics.median(figures) for figures in zip(*map(astuple, rates), strict=True)))


def require_wrk() -> None:
    """Exit with the name of a missing program before anything starts."""
    if shutil.which("wrk") is None:
        raise SystemExit("benchmarks: wrk is not on the PATH (Debian: apt-get install wrk)")


def rate(
    url: str, operation: str, *, keys: int, seconds: int, connections: int, note: int = NOTE_BYTES
) -> Rate:
    """Let N clients repeat one kind of request, each as soon as it has the response."""
    command = _command(url, operation, keys, seconds, connections, note)
    run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 -- our own arguments
    found = next(line.split()[1:] for line in run.stdout.splitlines() if line.startswith("RESULT"))
    requests, p50, p99, refused = map(float, found)
    if refused:
        raise SystemExit(f"{operation} at {url}: {refused:.0f} answers were not 200")
    return Rate(requests, p50 / 1000, p99 / 1000)


def measured(
    server: Running, operation: str, *, keys: int, seconds: int, connections: int, note: int = NOTE_BYTES
) -> Rate:
    """Let N clients repeat one kind of request, as `rate` does, and measure the server's processor time too."""
    before = server.cpu_seconds()
    found = rate(server.url, operation, keys=keys, seconds=seconds, connections=connections, note=note)
    used = server.cpu_seconds() - before
    return replace(found, cpu_us=1e6 * used / (found.requests * seconds))


@contextmanager
def under_way(url: str, operation: str, *, keys: int, connections: int) -> Iterator[None]:
    """Let N clients repeat one kind of request until the block ends."""
    command = _command(url, operation, keys, 3600, connections, NOTE_BYTES)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 -- our own arguments
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _command(url: str, operation: str, keys: int, seconds: int, connections: int, note: int) -> list[str]:
    return [
        *("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(_SCRIPT), url),
        *("--", operation, str(keys), str(note)),
    ]
