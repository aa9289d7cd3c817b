"""The limit of the memory that is buffered for slow clients.

A connection buffers half a body, pipelined requests and unread answers. The buffers of one connection are bounded, but
a thousand connections would still fill the memory. So the buffers of all connections have one limit. Past it, the
client that has been slow for the longest time is disconnected: an honest client finishes before a hundred others
begin.
"""

from typing import Protocol


class BufferHolder(Protocol):
    """A connection that buffers bytes for a slow client.

    Attributes:
        held: The number of buffered bytes. Only `BufferBudget` sets it.
    """

    held: int

    def evict(self) -> None:
        """Close the connection and drop its buffers."""
        ...


class BufferBudget:
    """Limits the bytes that all holders buffer together.

    Attributes:
        bytes: The number of bytes that are buffered now.
    """

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._holders: dict[BufferHolder, None] = {}  # the longest slow holder first

    def reserve(self, holder: BufferHolder, size: int) -> None:
        """Set the number of bytes buffered for `holder`. 0 releases them."""
        self.bytes += size - holder.held
        holder.held = size
        if size == 0:
            self._holders.pop(holder, None)
            return
        self._holders[holder] = None
        while self.bytes > self._limit:
            slowest = next(iter(self._holders))
            self.release(slowest)
            slowest.evict()

    def release(self, holder: BufferHolder) -> None:
        """Release all bytes of `holder`: its client has caught up, or its connection is closed."""
        self.reserve(holder, 0)
