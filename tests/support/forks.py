"""`foldb` processes that are forks of one process, which has imported all modules.

    pytest ──arguments, variables, folder, descriptors──► this module as a program ──fork──► foldb
           ◄──────────── a pipe: process id, then exit code ────────────┘

A start of `foldb serve` takes 0.3 s of processor time, nearly all of it for imports; a fork takes a tenth of that. A
fork runs from `foldb.cli.run` to the end of the interpreter, with a process id, signals, descriptors and an exit code
of its own. All forks have the same hash seed, and pytest has another. A test of the start itself, or of variables that
the interpreter or the dynamic linker reads, starts the program `FOLDB`.

The history process of a fork is a fork of the same process, too: `start_history`. Its parent is not the server, which
it does not need: it ends when the socket to the server is closed.
"""

import atexit
import gc
import io
import os
import pickle
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

FOLDB: Final = Path(sys.executable).with_name("foldb")

_PACKAGES: Final = ("cli", "log", "materializer", "server", "streams")
_REQUEST_BYTES: Final = 1 << 18  # more than a socket takes at once
_MODULE: Final = "--module"
_sending = threading.Lock()
_inherited: list[socket.socket] = []
"""The socket to the parent, in the parent itself and in each fork."""


class Fork:
    """A `foldb` process.

    Args:
        arguments: The command line without the program.
        stdin: The descriptor that the process has as standard input; /dev/null if it is None.
        stdout: As `stdin`.
        stderr: As `stdin`.
        variables: The environment; None for that of pytest.
        folder: The working directory; None for that of pytest.

    Attributes:
        pid: The process id.
    """

    def __init__(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        request = _Request(
            [str(FOLDB), *(os.fspath(each) for each in arguments)],
            dict(variables or os.environ),
            str(folder or os.getcwd()),
        )
        reads, writes = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        descriptors = [null if each is None else each for each in (stdin, stdout, stderr)]
        with _sending:
            request.send(_parent(), [*descriptors, writes])
        os.close(null)
        os.close(writes)
        self._results = open(reads)  # noqa: SIM115  `poll` closes it
        self._code: int | None = None
        self.pid = int(self._results.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self._code is None and is_readable(self._results.fileno(), 0):
            self._code = int(self._results.readline())
            self._results.close()
        return self._code

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: The process still runs after the timeout.
        """
        if self._code is None and not is_readable(self._results.fileno(), timeout_s):
            raise subprocess.TimeoutExpired(str(FOLDB), timeout_s or 0)
        code = Fork.poll(self)
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


class _Request(NamedTuple):
    """A process to start."""

    arguments: list[str]
    variables: dict[str, str]
    folder: str

    def send(self, parent: socket.socket, descriptors: Sequence[int]) -> None:
        """Send this with the three standard descriptors, and that of the pipe for the results."""
        socket.send_fds(parent, [pickle.dumps(tuple(self))], descriptors)

    def become(self) -> None:
        """Make this process the one that was requested."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(self.variables)
        os.chdir(self.folder)
        sys.argv = self.arguments
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())


class _History(Fork):
    """A history process. One thread reads its exit code, for all threads that wait for it."""

    def __init__(self, module: str, job: int, connection: int, on_exit: Callable[[int], None]) -> None:
        from foldb.materializer.os_process import helper_environment

        super().__init__(
            [_MODULE, module], stdin=job, stdout=connection, stderr=2, variables=helper_environment()
        )
        self._on_exit = on_exit
        self._has_ended = threading.Event()
        threading.Thread(target=self._read_code, name="history", daemon=True).start()

    def _read_code(self) -> None:
        code = super().wait()
        self._has_ended.set()
        self._on_exit(code)

    def poll(self) -> int | None:
        return self._code if self._has_ended.is_set() else None

    def wait(self, timeout_s: float | None = None) -> int:
        if not self._has_ended.wait(timeout_s):
            raise subprocess.TimeoutExpired(str(FOLDB), timeout_s or 0)
        assert self._code is not None
        return self._code


def start_history(
    module: str,
    job: bytes,
    _on_line: Callable[[bytes], None],
    on_exit: Callable[[int], None],
    descriptors: Sequence[int],
) -> Fork:
    """Start the history process, as `start_helper` does. The socket to the server is its standard output."""
    import orjson

    [connection] = descriptors
    reads, writes = os.pipe()
    os.write(writes, orjson.dumps({**orjson.loads(job), "descriptor": 1}) + b"\n")
    os.close(writes)
    process = _History(module, reads, connection, on_exit)
    os.close(reads)
    return process


def is_readable(descriptor: int, timeout_s: float | None) -> bool:
    """Return whether a descriptor has data or its end before the timeout."""
    poll = select.poll()  # select.select takes no descriptors from 1024 on
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


@cache
def _parent() -> socket.socket:
    """Return the socket to the parent of all forks; start the parent, which ends with this process."""
    if _inherited:
        return _inherited[0]
    ours, its = socket.socketpair(
        socket.AF_UNIX, socket.SOCK_SEQPACKET
    )  # several processes send whole requests
    command = [sys.executable, "-P", __file__, str(its.fileno()), str(ours.fileno())]
    parent = subprocess.Popen(
        command,
        pass_fds=[its.fileno(), ours.fileno()],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    its.close()

    def end() -> None:
        assert parent.stdin is not None
        parent.stdin.close()
        parent.wait()
        ours.close()

    atexit.register(end)
    return ours


def _received(requests: socket.socket) -> tuple[_Request, list[int]]:
    """Return a request and its descriptors."""
    body, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
    return _Request(*pickle.loads(body)), descriptors


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and report exit codes. Return in each fork."""
    ended, ends = os.pipe()
    os.set_blocking(ends, False)
    signal.set_wakeup_fd(ends, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group
    results: dict[int, int] = {}
    poll = select.poll()  # select.select takes no descriptors from 1024 on
    poll.register(requests, select.POLLIN)
    poll.register(ended, select.POLLIN)
    poll.register(sys.stdin, 0)  # the end of pytest
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if sys.stdin.fileno() in ready:
            os._exit(0)
        if ended in ready:
            os.read(ended, 4096)
            _report(results)
        if requests.fileno() in ready:
            request, (*standard, result) = _received(requests)
            child = os.fork()
            if child == 0:
                for number, descriptor in enumerate(standard):
                    os.dup2(descriptor, number)
                request.become()
                requests.close()
                for descriptor in (*standard, result, *results.values(), ended, ends):
                    os.close(descriptor)
                return
            with suppress(BrokenPipeError):
                os.write(result, f"{child}\n".encode())
            results[child] = result
            for descriptor in standard:
                os.close(descriptor)


def _report(results: dict[int, int]) -> None:
    """Write the exit codes of the processes that have ended."""
    while results:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        result = results.pop(child)
        with suppress(BrokenPipeError):  # a killed server does not wait for its history process
            os.write(result, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(result)


def _main() -> None:
    requests, clients = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for name in _PACKAGES:
        package = import_module(f"foldb.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    _inherited.append(clients)
    setattr(import_module("foldb.server.history.process"), "start_helper", start_history)  # noqa: B010  Any has no type
    assert 1 == threading.active_count(), "a fork has one thread only"
    gc.freeze()
    _serve(requests)
    sys.path.insert(0, str(FOLDB.parent))
    _run()


def _run() -> None:
    """Run `foldb`, or one module of it. When its threads and exit handlers have ended, end without removing modules.

    That would copy all memory which the forks share.
    """
    is_module = sys.argv[1:2] == [_MODULE]
    run = import_module(sys.argv[2]).main if is_module else import_module("foldb.cli").run
    code = 1  # of an exception that nothing handles

    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(end)  # the first to be registered is the last to be called
    try:
        run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise


if __name__ == "__main__":
    _main()
