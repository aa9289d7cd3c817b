"""Assigns partitions to nodes: evenly, and with the fewest moves.

    an owner keeps its partitions, up to its share
    all other partitions go to nodes below their share, if possible to nodes that have folded them
    a partition moves to a node only after that has folded it; until then the node is its standby

So a new node first folds its partitions while their owners continue to serve them. A partition that no node has folded
goes to any node. The assignment is a pure function of the members and their descriptions; their order has no effect.
"""

from collections import Counter
from collections.abc import Sequence

from .link import PeerAddress
from .routes import Member, Route


def assign(members: Sequence[Member], partitions: int) -> list[Route]:
    """Return the routes of partitions 0 to `partitions` - 1, for at least one member."""
    members = _one_per_address(members)
    present = _present_owners(members, partitions)
    targets = _target_owners(members, present)
    owners = [
        target if owner is None or partition_id in target.warm else owner
        for partition_id, (owner, target) in enumerate(zip(present, targets, strict=True))
    ]
    standbys = _standbys(members, owners, targets)
    return [
        Route(
            owner.address,
            None if standby is None else standby.address,
            moving=standby is not None and standby is targets[partition_id] and standby is not owner,
        )
        for partition_id, (owner, standby) in enumerate(zip(owners, standbys, strict=True))
    ]


def _one_per_address(members: Sequence[Member]) -> list[Member]:
    """Return the latest member of each address.

    A node that was killed and restarted is a member twice until the session of the first expires.
    """
    latest: dict[PeerAddress, Member] = {}
    for member in sorted(members, key=lambda member: (-len(member.warm), member.name)):
        latest[member.address] = member  # the member that has folded the least was started last
    return sorted(latest.values(), key=lambda member: member.name)


def _present_owners(members: Sequence[Member], partitions: int) -> list[Member | None]:
    """Return the present owner of each partition; without one, a node that has folded it, else None."""
    owners: list[Member | None] = [None] * partitions
    load: Counter[str] = Counter()
    for partition_id in range(partitions):
        owners[partition_id] = next((member for member in members if partition_id in member.owned), None)
    load.update(owner.name for owner in owners if owner is not None)
    for partition_id, owner in enumerate(owners):
        warm = [member for member in members if partition_id in member.warm]
        if owner is None and warm:
            chosen = min(warm, key=lambda member: load[member.name])
            owners[partition_id] = chosen
            load[chosen.name] += 1
    return owners


def _target_owners(members: Sequence[Member], owners: Sequence[Member | None]) -> list[Member]:
    """Return the final owner of each partition. The counts of two nodes differ by one at most."""
    share, remainder = divmod(len(owners), len(members))
    held = Counter(owner.name for owner in owners if owner is not None)
    # The members with the most partitions may have one more than the others.
    by_load = sorted(members, key=lambda member: -held[member.name])
    quota = {member.name: share + (index < remainder) for index, member in enumerate(by_load)}

    targets: list[Member | None] = [None] * len(owners)
    # Of an owner with too many partitions, those move that a node below its share has folded already.
    below = [member for member in members if held[member.name] < quota[member.name]]
    order = sorted(
        range(len(owners)), key=lambda partition_id: any(partition_id in member.warm for member in below)
    )
    for partition_id in order:
        owner = owners[partition_id]
        if owner is not None and quota[owner.name]:
            targets[partition_id] = owner
            quota[owner.name] -= 1
    result = []
    for partition_id, target in enumerate(targets):
        if target is None:
            free = [member for member in members if quota[member.name]]
            target = max(free, key=lambda member: (partition_id in member.warm, quota[member.name]))
            quota[target.name] -= 1
        result.append(target)
    return result


def _standbys(
    members: Sequence[Member], owners: Sequence[Member], targets: Sequence[Member]
) -> list[Member | None]:
    """Return the standby of each partition: its final owner, else evenly a node that has folded it, else any."""
    load: Counter[str] = Counter()
    share = -(-len(owners) // len(members))
    standbys: list[Member | None] = [None] * len(owners)
    for partition_id, (owner, target) in enumerate(zip(owners, targets, strict=True)):
        if target is not owner:
            standbys[partition_id] = target
            load[target.name] += 1
    for partition_id, owner in enumerate(owners):
        others = [member for member in members if member.address != owner.address]
        if standbys[partition_id] is None and others:
            chosen = min(
                others,
                key=lambda member: (
                    max(load[member.name] - share + 1, 0),
                    partition_id not in member.warm,
                    load[member.name],
                ),
            )
            standbys[partition_id] = chosen
            load[chosen.name] += 1
    return standbys
