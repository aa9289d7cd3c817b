"""A bound on what is kept for clients that are slow.

Half a body, requests sent ahead, an answer that nobody reads: each is bounded for one connection, and a thousand
connections would still fill the memory. So they are counted together. Past the bound the client that has been slow
for longest gives way: an honest one is done in the time in which a hundred others begin.
"""

from typing import Protocol


class BufferHolder(Protocol):
    """Whoever something is kept for: a connection.

    Attributes:
        held: How many bytes; `Slow` alone writes it.
    """

    held: int

    def give_way(self) -> None:
        """Go; what was kept is needed no more."""
        ...


class BufferBudget:
    """Counts what is kept, and for whom.

    Attributes:
        bytes: All that is kept.
    """

    def __init__(self, bound: int) -> None:
        self.bytes = 0
        self._bound = bound
        self._holders: dict[BufferHolder, None] = {}  # who has been slow for longest comes first

    def hold(self, holder: BufferHolder, size: int) -> None:
        """Keep `size` bytes for it from now on, not counting what was kept before; 0 when it is slow no more."""
        self.bytes += size - holder.held
        holder.held = size
        if size == 0:
            self._holders.pop(holder, None)
            return
        self._holders[holder] = None
        while self.bytes > self._bound:
            slowest = next(iter(self._holders))
            self.forget(slowest)
            slowest.give_way()

    def forget(self, holder: BufferHolder) -> None:
        """It is slow no more, or no more there."""
        self.hold(holder, 0)
