"""Assignments are even, need few moves, and move a partition only to a node that has folded it."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from foldb.server.cluster.assignment import assign
from foldb.server.cluster.routes import Member, Route, RoutingTable, decode_table, encode_table


def node(number: int, owned: Iterable[int] = (), warm: Iterable[int] = ()) -> Member:
    return Member(
        f"member-{number:02}",
        (f"10.0.0.{number}", 7000),
        frozenset(owned),
        frozenset(owned) | frozenset(warm),
    )


def loads(routes: list[Route]) -> list[int]:
    return sorted(Counter(route.owner for route in routes).values())


def later(members: list[Member], routes: list[Route]) -> list[Member]:
    """Return the members after each has folded its partitions."""
    found = []
    for member in members:
        given = {n for n, route in enumerate(routes) if member.address in route[:2]}
        owned = {n for n, route in enumerate(routes) if member.address == route.owner}
        found.append(Member(member.name, member.address, frozenset(owned), frozenset(given)))
    return found


def test_a_lone_node_owns_everything_without_a_standby() -> None:
    assert [Route(("10.0.0.1", 7000))] * 9 == assign([node(1)], 9)


def test_two_nodes_share_partitions_as_owner_and_standby() -> None:
    routes = assign([node(1), node(2)], 8)

    assert [4, 4] == loads(routes)
    assert all(route.standby not in (None, route.owner) for route in routes)


def test_a_node_that_joins_folds_before_it_owns() -> None:
    first = assign([node(1, owned=range(8)), node(2)], 8)

    assert [8] == loads(first)
    assert 4 == sum(route.moving for route in first)
    assert {("10.0.0.2", 7000)} == {route.standby for route in first}

    second = assign(later([node(1), node(2)], first), 8)

    assert [4, 4] == loads(second)
    assert not any(route.moving for route in second)


def test_the_partitions_of_a_lost_node_go_to_their_standbys() -> None:
    three = [node(1), node(2), node(3)]
    routes = assign(three, 9)
    members = later(three, routes)

    after = assign(members[1:], 9)

    kept = [n for n, route in enumerate(routes) if route.owner != ("10.0.0.1", 7000)]
    assert all(after[n].owner == routes[n].owner for n in kept)
    assert all(after[n].owner == routes[n].standby for n in range(9) if n not in kept)


def test_the_order_of_members_says_nothing() -> None:
    members = [node(n, owned={n}, warm=range(n)) for n in range(5)]

    assert assign(members, 17) == assign(members[::-1], 17)


def test_two_owners_of_one_partition_are_distinguished() -> None:
    routes = assign([node(1, owned=range(4)), node(2, owned=range(4))], 4)

    assert [2, 2] == loads(routes)


def test_no_address_is_a_standby_for_itself() -> None:
    """A node that was killed and restarted is a member twice until the first session expires."""
    routes = assign([node(1, owned=range(4)), Member("member-99", node(1).address)], 4)

    assert {None} == {route.standby for route in routes}


@pytest.mark.parametrize("seed", range(60))
def test_any_membership_change_ends_balanced_with_few_moves(seed: int) -> None:
    dice = random.Random(seed)
    partitions = dice.choice([1, 2, 9, 17, 64])
    members: list[Member] = [node(0)]
    for number in range(1, 12):
        if len(members) > 1 and dice.random() < 0.4:
            members.pop(dice.randrange(len(members)))
        else:
            members.append(node(number))
        for _ in range(4):
            before = members
            routes = assign(before, partitions)
            members = later(before, routes)
            _never_cold(before, routes)

        counts = Counter(route.owner for route in routes)
        assert max(counts.values()) - min(counts[member.address] for member in members) <= 1
        assert not any(route.moving for route in routes)
        assert routes == assign(members, partitions), "at rest nothing moves"
        if len(members) > 1:
            assert all(route.standby not in (None, route.owner) for route in routes)
            standing = Counter(route.standby for route in routes)
            assert max(standing.values()) <= 2 * -(-partitions // len(members))


def _never_cold(members: list[Member], routes: list[Route]) -> None:
    """Assert that a partition moves only to a node that has folded it, if there is one."""
    by_address = {member.address: member for member in members}
    for number, route in enumerate(routes):
        warm = [member for member in members if number in member.warm]
        assert not warm or number in by_address[route.owner].warm


@pytest.mark.parametrize("seed", range(5))
def test_a_table_arrives_as_it_was_made(seed: int) -> None:
    dice = random.Random(seed)
    members = [node(n, warm={dice.randrange(40)}) for n in range(dice.randrange(1, 6))]
    routes = assign(members, 40)

    assert RoutingTable(7, tuple(routes)) == decode_table(encode_table(routes), 7)


def test_the_largest_table_is_small_enough_to_travel_with_the_group() -> None:
    members = [node(n) for n in range(32)]

    assert len(encode_table(assign(members, 257))) < 4096
