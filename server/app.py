"""A node and its listener, from start to stop.

    run(settings)            until a signal or a fatal error: `foldb serve`
    Serving(settings, ...)   the same on a loop of the caller's: `foldb.serve()`, tests

While a folder is served it holds `server.json`, which says where, so that commands given the folder find the
server.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from .cluster import Cluster
from .http.listener import Listener, bind, is_open
from .http.tls import Certificate
from .node import Node
from .settings import Settings, check

# Variables that can hold secrets. The settings were read from them before.
_SECRETS = ("FOLDB_", "AWS_")

logger = logging.getLogger(__name__)


class FolderRefusedError(FoldbError):
    """The folder is named by a link that is not ours: whoever made it chooses what we write to."""


class Serving:
    """A served node. `stopped` is set when it should stop, with the error that wants it in `error` if there is one."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Callable[[], int] | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Take the address, then open the log and refold it: who cannot serve makes no folder.

        `clock` tells milliseconds since 1970; without it, this machine's does, and its steps are checked.

        Raises:
            SettingError: A setting is nothing that it could go by.
            AddressRefusedError, ListenError: It cannot listen there.
            KeyFileError, CertificateError: The keys or the certificate cannot be used.
            FolderRefusedError: The folder may be somebody else's.
            FoldbError: It cannot open the log.
        """
        self.settings = settings
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
        try:
            self.node = Node(
                settings,
                loop=loop,
                clock=clock,
                random_bytes=random_bytes,
                on_fatal=self._on_fatal,
                progress=progress,
            )
        except BaseException:
            self._bound.close()
            raise
        try:
            self.cluster = self.node.cluster = _cluster_of(self.node)
        except BaseException:
            self._bound.close()
            self.node.log.close()
            raise
        self.listener = Listener(self.node, loop, guard, self._certificate)
        self.node.triggers.runner.on_running = partial(setattr, self.listener, "depth")

    @property
    def url(self) -> str:
        """Where it answers, once started."""
        host, port = self.listener.address
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def start(self) -> None:
        """Find the other nodes, if there may be any, then listen, and say where.

        Raises:
            ListenError: Somebody else listens there by now; the log is closed again.
        """
        try:
            if self.cluster is not None:
                await self.cluster.start()
            await self.listener.start(self._bound)
        except BaseException:
            await self.node.close()
            raise
        host, port = self.listener.address
        self.node.settings = replace(self.settings, host=host, port=port)  # the port that it got
        if is_open(self.settings):
            logger.warning(
                "anyone who can reach %s port %d can read and change everything: no key is needed there. "
                "Make keys with `foldb key create` and name their file with --keys",
                host,
                port,
            )
        self.node.triggers.start()
        if self.settings.path is not None:
            _write_address(disk_of(self.node.log), self.settings.path, self.url)

    async def stop(self) -> None:
        """Call nobody any more, hand over to other nodes, finish what is in flight and let go of the log."""
        await self.node.triggers.stop()
        if self.cluster is not None:
            await self.cluster.leave()
        if self.settings.path is not None:
            with contextlib.suppress(OSError):
                disk_of(self.node.log).remove(self.settings.path / ADDRESS_NAME)
        await self.listener.stop()
        if self.cluster is not None:
            await self.cluster.stop()
        await self.node.close()
        if self.listener.request_log is not None:
            self.listener.request_log.close()

    def reload(self) -> None:
        """Read certificate and keys anew. What cannot be used changes nothing but the log of the process."""
        if self.listener.guard is not None:
            self.listener.guard.look()
        if self._certificate is not None:
            try:
                self._certificate.reload()
            except CertificateError as error:
                logger.error("the certificate stays what it was: %s", error)

    def _on_fatal(self, error: BaseException) -> None:
        if self.error is None:  # log and worker may both tell; the first is nearer to the cause
            logger.critical("the partition cannot go on: %s", error)
            self.error = error
            self.stopped.set()


def run(
    settings: Settings,
    *,
    on_ready: Callable[[str], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is in flight.

    Args:
        settings: How to serve.
        on_ready: Told the address once requests are answered.
        progress: Told now and then how many commands were refolded.

    Raises:
        FoldbError, OSError: It could not begin, or the log or the fold could not go on.
    """
    before = os.umask(0o077)  # so that every file of this process is its owner's alone
    try:
        _allow_connections()
        with short_pauses(), asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(settings, on_ready, progress))
    finally:
        os.umask(before)


async def _serve(
    settings: Settings, on_ready: Callable[[str], None] | None, progress: Callable[[int], None] | None
) -> None:
    loop = asyncio.get_running_loop()
    serving = Serving(settings, loop, progress=progress)
    _keep_secrets()  # before any code of triggers runs; a start that was refused drops nothing
    await serving.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.stopped.set)
    if settings.keys is not None or settings.tls_cert is not None:  # else a terminal's end ends it, as ever
        loop.add_signal_handler(signal.SIGHUP, serving.reload)
    if on_ready is not None:
        on_ready(serving.url)
    await serving.stopped.wait()
    await serving.stop()
    if serving.error is not None:
        raise serving.error


def _cluster_of(node: Node) -> Cluster | None:
    """The node among those that share its log, if it may be shared."""
    if node.settings.log is None:
        return None
    from .cluster.bootstrap import place_of

    place = place_of(node.settings, node.log)
    return Cluster(place, node.partitions, node.peers, node.loop, node.random_bytes)


def _refuse_link(path: Path) -> None:
    """Follow a link to the folder only if its maker may tell us where to write: this user, or root.

    A link to a larger disk is common. One that somebody else left where the folder was going to be made would have
    us write to, and close to others, a folder of their choosing.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
            raise FolderRefusedError(
                f"{path} is a link that another user made: name the folder itself, or make the link anew."
            )


def _keep_secrets() -> None:
    """Keep what this process knows from the code of triggers, which may run as the same user."""
    for name in [name for name in os.environ if name.startswith(_SECRETS)]:
        del os.environ[name]
    hide()


def _allow_connections() -> None:
    """Ask for as many open files and sockets as this process may have; the first limit is often only 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS may not give what it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def new_loop() -> asyncio.AbstractEventLoop:
    """A uvloop where there is one, which is everywhere but on Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _write_address(disk: Filesystem, path: Path, url: str) -> None:
    """Write the file whole or not at all, so that no command reads half an address. A full disk prevents no start."""
    address = orjson.dumps({"endpoint_url": url, "pid": os.getpid()})
    try:
        create_file(disk, path / ADDRESS_NAME, address, replaces=True).close()
    except OSError as error:
        logger.warning("commands given the folder will not find this server: %s", error)
