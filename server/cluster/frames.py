"""Frames over a socket in both directions: the part that both ends of a connection between nodes share.

All frames that are sent in one turn of the event loop leave in one write. A frame that is too long closes the
connection before it is read.
"""

import asyncio
import logging
from typing import cast

from ...model.errors import FoldbError
from .codec import PlainValue
from .handshake import HANDSHAKE_BYTES
from .wire import FRAME_BYTES, LENGTH, WireError, frame, unpacked

logger = logging.getLogger(__name__)


class Frames(asyncio.Protocol):
    """One end of a connection. Subclasses implement `on_frame` and `on_close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._unsent: list[bytes] = []
        self._max_bytes = HANDSHAKE_BYTES

    def on_frame(self, value: PlainValue) -> None:
        """Handle a received frame."""
        raise NotImplementedError

    def on_close(self, error: FoldbError | None) -> None:
        """Handle the end of the connection. Called once."""
        raise NotImplementedError

    def trust(self) -> None:
        """Accept frames of any length: the other end has authenticated itself."""
        self._max_bytes = FRAME_BYTES

    def send(self, value: PlainValue) -> int:
        """Send a frame at the end of this turn, and return its length.

        Raises:
            WireError: The frame is longer than FRAME_BYTES.
        """
        data = frame(value)
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(data)
        return len(data)

    def abort(self, error: FoldbError | None = None) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()
            self.on_close(error)

    def finish(self) -> None:
        """Close the connection after all frames have left."""
        if self._transport is not None:
            self._flush()
            transport, self._transport = self._transport, None
            transport.close()
            self.on_close(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class does not declare it

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  every cause has the same effect
        if self._transport is not None:
            self._transport = None
            self.on_close(None)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        offset = 0
        try:
            while len(received) - offset >= LENGTH.size:
                [length] = LENGTH.unpack_from(received, offset)
                if length > self._max_bytes:
                    raise WireError(f"a frame of {length} bytes")
                end = offset + LENGTH.size + length
                if len(received) < end:
                    break
                value = unpacked(bytes(received[offset + LENGTH.size : end]))
                offset = end
                self.on_frame(value)
                if self._transport is None:
                    return
        except FoldbError as error:
            self.abort(error)
        finally:
            del received[:offset]

    def _flush(self) -> None:
        if self._transport is not None and self._unsent:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()
