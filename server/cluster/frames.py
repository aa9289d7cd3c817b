"""Frames over a socket, in both directions: what both ends of a connection between nodes have in common.

What is sent in one turn of the loop leaves in one write. A frame longer than allowed closes the connection before
it is read.
"""

import asyncio
import logging
from typing import cast

from ...model.errors import FoldbError
from .codec import Plain
from .handshake import HANDSHAKE_BYTES
from .wire import FRAME_BYTES, LENGTH, WireError, frame, unpacked

logger = logging.getLogger(__name__)


class Frames(asyncio.Protocol):
    """One end of a connection; `received` and `lost` are for whoever inherits it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._arrived = bytearray()
        self._leaving: list[bytes] = []
        self._longest = HANDSHAKE_BYTES

    def received(self, value: Plain) -> None:
        """A frame has come."""
        raise NotImplementedError

    def lost(self, why: FoldbError | None) -> None:
        """The connection is over; called once."""
        raise NotImplementedError

    def trust(self) -> None:
        """The other end is who it should be: it may send frames of any length."""
        self._longest = FRAME_BYTES

    def send(self, value: Plain) -> int:
        """Send a frame with what else is sent in this turn; its length.

        Raises:
            WireError: It is too long.
        """
        data = frame(value)
        if not self._leaving:
            self._loop.call_soon(self._flush)
        self._leaving.append(data)
        return len(data)

    def abort(self, why: FoldbError | None = None) -> None:
        """Close at once."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()
            self.lost(why)

    def finish(self) -> None:
        """Close when what was sent has left."""
        if self._transport is not None:
            self._flush()
            transport, self._transport = self._transport, None
            transport.close()
            self.lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  whatever it was, it is over
        if self._transport is not None:
            self._transport = None
            self.lost(None)

    def data_received(self, data: bytes) -> None:
        arrived = self._arrived
        arrived += data
        at = 0
        try:
            while len(arrived) - at >= LENGTH.size:
                [length] = LENGTH.unpack_from(arrived, at)
                if length > self._longest:
                    raise WireError(f"a frame of {length} bytes")
                end = at + LENGTH.size + length
                if len(arrived) < end:
                    break
                value = unpacked(bytes(arrived[at + LENGTH.size : end]))
                at = end
                self.received(value)
                if self._transport is None:
                    return
        except FoldbError as error:
            self.abort(error)
        finally:
            del arrived[:at]

    def _flush(self) -> None:
        if self._transport is not None and self._leaving:
            self._transport.write(b"".join(self._leaving))
        self._leaving.clear()
