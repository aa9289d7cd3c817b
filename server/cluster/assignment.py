"""Which node owns which partition: evenly, and with as few moves as that takes.

    whoever owns a partition keeps it, up to its share
    what is left goes to nodes below their share, if possible to one that has it folded already
    a partition goes over to a node only when that has it folded; until then the node is its standby

So a node that joins first folds what it is to own, while those who own it go on serving. Where nobody has folded a
partition, somebody has to begin. A pure function of who is there and what they say; the order of members says nothing.
"""

from collections import Counter
from collections.abc import Sequence

from .link import Address
from .routes import Member, Route


def assign(members: Sequence[Member], partitions: int) -> list[Route]:
    """The routes of partitions 0 to `partitions` - 1, for at least one member."""
    members = _apart(members)
    owners = _now(members, partitions)
    wanted = _wanted(members, owners)
    places = [
        want if owner is None or number in want.warm else owner
        for number, (owner, want) in enumerate(zip(owners, wanted, strict=True))
    ]
    standbys = _standbys(members, places, wanted)
    return [
        Route(
            owner.address,
            None if standby is None else standby.address,
            moving=standby is not None and standby is wanted[number] and standby is not owner,
        )
        for number, (owner, standby) in enumerate(zip(places, standbys, strict=True))
    ]


def _apart(members: Sequence[Member]) -> list[Member]:
    """One member an address. A node that was killed and started again is two until the group gives up the first."""
    latest: dict[Address, Member] = {}
    for member in sorted(members, key=lambda member: (-len(member.warm), member.name)):
        latest[member.address] = member  # who has folded least has started last
    return sorted(latest.values(), key=lambda member: member.name)


def _now(members: Sequence[Member], partitions: int) -> list[Member | None]:
    """Who acts for each partition as it is; where nobody does, one who could at once."""
    owners: list[Member | None] = [None] * partitions
    load: Counter[str] = Counter()
    for number in range(partitions):
        owners[number] = next((member for member in members if number in member.owned), None)
    load.update(owner.name for owner in owners if owner is not None)
    for number, owner in enumerate(owners):
        warm = [member for member in members if number in member.warm]
        if owner is None and warm:
            chosen = min(warm, key=lambda member: load[member.name])
            owners[number] = chosen
            load[chosen.name] += 1
    return owners


def _wanted(members: Sequence[Member], owners: Sequence[Member | None]) -> list[Member]:
    """Who is to own each partition in the end: nobody more than one partition more than anybody else."""
    share, more = divmod(len(owners), len(members))
    held = Counter(owner.name for owner in owners if owner is not None)
    # Those who have most already are those who may have one more.
    richest = sorted(members, key=lambda member: -held[member.name])
    quota = {member.name: share + (place < more) for place, member in enumerate(richest)}

    wanted: list[Member | None] = [None] * len(owners)
    # Of too many, those are given away that a node which lacks some has folded already.
    poor = [member for member in members if held[member.name] < quota[member.name]]
    order = sorted(range(len(owners)), key=lambda number: any(number in member.warm for member in poor))
    for number in order:
        owner = owners[number]
        if owner is not None and quota[owner.name]:
            wanted[number] = owner
            quota[owner.name] -= 1
    result = []
    for number, want in enumerate(wanted):
        if want is None:
            free = [member for member in members if quota[member.name]]
            want = max(free, key=lambda member: (number in member.warm, quota[member.name]))
            quota[want.name] -= 1
        result.append(want)
    return result


def _standbys(
    members: Sequence[Member], owners: Sequence[Member], wanted: Sequence[Member]
) -> list[Member | None]:
    """Who folds each partition besides its owner: who is to own it, else one who does so already, evenly."""
    load: Counter[str] = Counter()
    share = -(-len(owners) // len(members))
    standbys: list[Member | None] = [None] * len(owners)
    for number, (owner, want) in enumerate(zip(owners, wanted, strict=True)):
        if want is not owner:
            standbys[number] = want
            load[want.name] += 1
    for number, owner in enumerate(owners):
        others = [member for member in members if member.address != owner.address]
        if standbys[number] is None and others:
            chosen = min(
                others,
                key=lambda member: (
                    max(load[member.name] - share + 1, 0),
                    number not in member.warm,
                    load[member.name],
                ),
            )
            standbys[number] = chosen
            load[chosen.name] += 1
    return standbys
