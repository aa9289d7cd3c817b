"""Who serves what: the table that the group's leader makes, and every node is given.

    Table ──► for each partition: its owner, its standby, and whether it is to move to the standby

Addresses stand once in it, and partitions name them by their place. It travels in the broker's own assignment, so no
node can have a table that the group has not agreed on; it may have an old one, and then is slow, but not wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgpack

from .link import Address
from .wire import WireError, reading

_FORMAT: Final = 1


class Route(NamedTuple):
    """Who has a partition.

    Attributes:
        owner: The node that acts for it.
        standby: Another that folds it, and serves it where the owner cannot be reached.
        moving: Whether the standby is to become its owner once it has folded all.
    """

    owner: Address
    standby: Address | None = None
    moving: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The routes of all partitions. `generation` counts assignments, and begins anew when all nodes were gone."""

    generation: int
    routes: tuple[Route, ...]

    @property
    def nodes(self) -> tuple[Address, ...]:
        """Every node that has something to do."""
        named = (node for route in self.routes for node in (route.owner, route.standby) if node is not None)
        return tuple(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class Member:
    """What a node says of itself when it joins.

    Attributes:
        name: The group's name for it.
        address: Where other nodes call it.
        owned: The partitions that it acts for.
        warm: Those that it has folded, `owned` among them.
    """

    name: str
    address: Address
    owned: frozenset[int] = frozenset()
    warm: frozenset[int] = frozenset()


def encode_table(routes: Sequence[Route]) -> bytes:
    """The table as it travels."""
    nodes = Table(0, tuple(routes)).nodes
    place = {node: number for number, node in enumerate(nodes)}
    plain = [
        [place[route.owner], None if route.standby is None else place[route.standby], route.moving]
        for route in routes
    ]
    data: bytes = msgpack.packb([_FORMAT, [list(node) for node in nodes], plain])
    return data


def decode_table(data: bytes, generation: int) -> Table:
    """The table that travelled.

    Raises:
        WireError: It is none of this release.
    """
    return reading(_read_table, data, generation)  # type: ignore[no-any-return]


def _read_table(data: bytes, generation: int) -> Table:
    form, addresses, plain, *_ = msgpack.unpackb(data)
    if form != _FORMAT:
        raise WireError("the routing table was made by another release")
    nodes: list[Address] = [(host, port) for host, port in addresses]
    routes = tuple(
        Route(nodes[owner], None if standby is None else nodes[standby], bool(moving))
        for owner, standby, moving in plain
    )
    return Table(generation, routes)


def encode_member(address: Address, owned: Sequence[int], warm: Sequence[int]) -> bytes:
    """What a node says of itself, as it travels."""
    data: bytes = msgpack.packb([_FORMAT, list(address), sorted(owned), sorted(warm)])
    return data


def decode_member(name: str, data: bytes) -> Member:
    """What a node said of itself.

    Raises:
        WireError: It is none of this release.
    """
    return reading(_read_member, name, data)  # type: ignore[no-any-return]


def _read_member(name: str, data: bytes) -> Member:
    form, (host, port), owned, warm, *_ = msgpack.unpackb(data)
    if form != _FORMAT:
        raise WireError("a member of the group is of another release")
    return Member(name, (host, port), frozenset(owned), frozenset(warm))
