"""The routing table, which the leader of the group makes and all nodes receive.

    RoutingTable ──► for each partition: its owner, its standby, and whether it moves to the standby

It is part of the broker's own assignment, so every table was agreed on by the group. A node may have an old table: its
calls are slower then, but its data are right. When encoded, each address is in the table once, and routes refer to it
by index.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgpack

from ...model.lazy_dataclass import dataclass
from .link import PeerAddress
from .wire import WireError, reading

_FORMAT: Final = 1


class Route(NamedTuple):
    """The nodes of a partition.

    Attributes:
        owner: The node that acts for it: it runs timers and sends messages to other partitions.
        standby: Another node that folds it, and serves it while the owner is unreachable.
        moving: Whether the standby becomes the owner as soon as it has folded the partition.
    """

    owner: PeerAddress
    standby: PeerAddress | None = None
    moving: bool = False


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """The routes of all partitions. `generation` counts assignments, and restarts after all nodes were gone."""

    generation: int
    routes: tuple[Route, ...]

    @property
    def nodes(self) -> tuple[PeerAddress, ...]:
        """All nodes that have a partition."""
        named = (node for route in self.routes for node in (route.owner, route.standby) if node is not None)
        return tuple(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as it describes itself when it joins.

    Attributes:
        name: The group's name for it.
        address: Where other nodes call it.
        owned: The partitions that it acts for.
        warm: The partitions that it has folded, `owned` among them.
    """

    name: str
    address: PeerAddress
    owned: frozenset[int] = frozenset()
    warm: frozenset[int] = frozenset()


def encode_table(routes: Sequence[Route]) -> bytes:
    nodes = RoutingTable(0, tuple(routes)).nodes
    indexes = {node: index for index, node in enumerate(nodes)}
    rows = [
        [indexes[route.owner], None if route.standby is None else indexes[route.standby], route.moving]
        for route in routes
    ]
    data: bytes = msgpack.packb([_FORMAT, [list(node) for node in nodes], rows])
    return data


def decode_table(data: bytes, generation: int) -> RoutingTable:
    """Return the routing table.

    Raises:
        WireError: The data have the format of another release.
    """
    return reading(_read_table, data, generation)  # type: ignore[no-any-return]


def _read_table(data: bytes, generation: int) -> RoutingTable:
    form, addresses, rows, *_ = msgpack.unpackb(data)
    if form != _FORMAT:
        raise WireError("the routing table was made by another release")
    nodes: list[PeerAddress] = [(host, port) for host, port in addresses]
    routes = tuple(
        Route(nodes[owner], None if standby is None else nodes[standby], bool(moving))
        for owner, standby, moving in rows
    )
    return RoutingTable(generation, routes)


def encode_member(address: PeerAddress, owned: Sequence[int], warm: Sequence[int]) -> bytes:
    """Return the encoding of a node's description of itself."""
    data: bytes = msgpack.packb([_FORMAT, list(address), sorted(owned), sorted(warm)])
    return data


def decode_member(name: str, data: bytes) -> Member:
    """Return the member of that name.

    Raises:
        WireError: The data have the format of another release.
    """
    return reading(_read_member, name, data)  # type: ignore[no-any-return]


def _read_member(name: str, data: bytes) -> Member:
    form, (host, port), owned, warm, *_ = msgpack.unpackb(data)
    if form != _FORMAT:
        raise WireError("a member of the group is of another release")
    return Member(name, (host, port), frozenset(owned), frozenset(warm))
