"""A node and its listener, from start to stop.

    run(settings)            serve until a signal or a fatal error: `foldb serve`
    Serving(settings, ...)   the same on the caller's event loop: `foldb.serve()`, tests

A served folder holds `server.json` with the server's address, so that commands that name the folder find the server.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson

from ..log.local import disk_of
from ..log.local.filesystem import Filesystem, create_file
from ..log.local.recovery import ADDRESS_NAME
from ..materializer.gc_tuning import short_pauses
from ..materializer.os_process import hide
from ..model.errors import CertificateError, FoldbError
from .auth.guard import Guard
from .clock import clock_of
from .http.address import bind, is_open
from .http.listener import Listener
from .http.tls import Certificate
from .node import Node
from .settings import Settings, check

# Prefixes of environment variables that can hold secrets. The settings were read from them before.
_SECRETS = ("FOLDB_", "AWS_")

logger = logging.getLogger(__name__)


class FolderRefusedError(FoldbError):
    """The folder is a symbolic link of another user, who would choose where the server writes."""


class Serving:
    """A served node.

    Attributes:
        node: The database and the services of this process.
        listener: Accepts connections.
        stopped: Set when the server should stop.
        error: The fatal error that stops the server, if there is one.
    """

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Callable[[], int] | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Bind the address, then open the log and refold it. A server that cannot bind creates no folder.

        `clock` returns milliseconds since 1970. The default is this machine's clock, guarded against steps.

        Raises:
            SettingError: A setting has a value that the server cannot use.
            AddressRefusedError, ListenError: The address cannot be bound.
            KeyFileError, CertificateError: The key file or the certificate cannot be used.
            FolderRefusedError: The folder is a link of another user.
            FoldbError: The log cannot be opened.
        """
        self.stopped = asyncio.Event()
        self.error: BaseException | None = None
        check(settings)
        if settings.path is not None:
            _refuse_link(settings.path)
        clock = clock or clock_of(settings)
        guard = None if settings.keys is None else Guard(settings.keys, clock)
        self._certificate: Certificate | None = None
        if settings.tls_cert is not None:
            self._certificate = Certificate(settings.tls_cert, settings.tls_key)
        self._bound = bind(settings)
        host, port = self._bound.getsockname()[:2]
        self.settings = replace(settings, host=host, port=port)  # port 0 took a free port
        try:
            self.node = Node(
                self.settings,
                loop=loop,
                clock=clock,
                random_bytes=random_bytes,
                on_fatal=self._on_fatal,
                progress=progress,
            )
        except BaseException:
            self._bound.close()
            raise
        self.listener = Listener(self.node, loop, guard, self._certificate)

    @property
    def url(self) -> str:
        host, port = self.settings.host, self.settings.port
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start(self) -> None:
        """Join the cluster, if there is one, then listen and write the address into the folder.

        Raises:
            ListenError: Another process listens on the address since it was bound. The log is closed again.
        """
        try:
            if self.node.cluster is not None:
                await self.node.cluster.start()
            await self.listener.start(self._bound)
        except BaseException:
            await self.node.close()
            raise
        if is_open(self.settings):
            logger.warning(
                "anyone who can reach %s port %d can read and change all data: requests need no key. "
                "Create keys with `foldb key create` and name their file with --keys",
                self.settings.host,
                self.settings.port,
            )
        self.node.start_triggers(self.listener.on_triggers_running)
        self.node.alarms.start()
        if self.settings.path is not None:
            _write_address(disk_of(self.node.log), self.settings.path, self.url)

    async def stop(self) -> None:
        """Stop triggers, hand partitions over to other nodes, finish requests in flight and close the log."""
        cluster = self.node.cluster
        self.node.alarms.stop()
        await self.node.stop_triggers()
        if cluster is not None:
            await cluster.leave()
        if self.settings.path is not None:
            with contextlib.suppress(OSError):
                disk_of(self.node.log).remove(self.settings.path / ADDRESS_NAME)
        await self.listener.stop()
        if cluster is not None:
            await cluster.stop()
        await self.node.close()
        if self.listener.request_log is not None:
            self.listener.request_log.close()

    def reload(self) -> None:
        """Read the certificate and the key file again. Log an error and keep the old ones if they cannot be used."""
        if self.listener.guard is not None:
            self.listener.guard.reload_if_changed()
        if self._certificate is not None:
            try:
                self._certificate.reload()
            except CertificateError as error:
                logger.error(
                    "cannot reload the certificate: %s; the previous certificate stays in use", error
                )

    def _on_fatal(self, error: BaseException) -> None:
        if (
            self.error is None
        ):  # the log and the worker may both report; the first error is nearer to the cause
            logger.critical("the partition cannot continue: %s; the server stops", error)
            self.error = error
            self.stopped.set()


def run(
    settings: Settings,
    *,
    on_ready: Callable[[str], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish requests in flight.

    Args:
        on_ready: Receives the URL once the server answers requests.
        progress: Receives the number of refolded commands now and then.

    Raises:
        FoldbError, OSError: The server could not start, or the log or the fold could not continue.
    """
    before = os.umask(0o077)  # only the owner can read the files of this process
    try:
        _raise_descriptor_limit()
        with short_pauses(), asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(settings, on_ready, progress))
    finally:
        os.umask(before)


async def _serve(
    settings: Settings, on_ready: Callable[[str], None] | None, progress: Callable[[int], None] | None
) -> None:
    loop = asyncio.get_running_loop()
    serving = Serving(settings, loop, progress=progress)
    _drop_secrets()  # before any code of triggers runs; a start that fails drops nothing
    await serving.start()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, serving.stopped.set)
    if (
        settings.keys is not None or settings.tls_cert is not None
    ):  # else SIGHUP ends the process, as by default
        loop.add_signal_handler(signal.SIGHUP, serving.reload)
    if on_ready is not None:
        on_ready(serving.url)
    await serving.stopped.wait()
    await serving.stop()
    if serving.error is not None:
        raise serving.error


def _refuse_link(path: Path) -> None:
    """Refuse a folder that is a symbolic link, unless this user or root owns the link.

    A link to a larger disk is common. A link that another user left where the folder was going to be created would
    make the server write to, and restrict access to, a folder of that user's choice.

    Raises:
        FolderRefusedError: Another user owns the link.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
            raise FolderRefusedError(
                f"{path} is a link that another user made: name the folder itself, or create the link again."
            )


def _drop_secrets() -> None:
    """Hide this process's secrets from the code of triggers, which may run as the same user."""
    for name in [name for name in os.environ if name.startswith(_SECRETS)]:
        del os.environ[name]
    hide()


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files and sockets to the hard limit; the soft limit is often only 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS may refuse the hard limit that it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed, as on every platform but Windows, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _write_address(disk: Filesystem, path: Path, url: str) -> None:
    """Write `server.json` atomically, so that no command reads half an address. A full disk prevents no start."""
    address = orjson.dumps({"endpoint_url": url, "pid": os.getpid()})
    try:
        create_file(disk, path / ADDRESS_NAME, address, replaces=True).close()
    except OSError as error:
        logger.warning(
            "cannot write %s: %s; commands that name the folder will not find this server",
            ADDRESS_NAME,
            error,
        )
