"""A message is folded once, in order, and at a later log time than it was sent."""

import pytest

from foldb.log.commands import Barrier, Command, IndexEntry, Record, Relay, RelayAck, Skip
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.fold_record import LateSkipError, Void, voids
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outbox import size_of
from foldb.materializer.fold.outcomes import Completed, MessageFolded, Skipped
from foldb.materializer.fold.state import PartitionState
from tests.unit.materializer.ledger import CONTEXT, START, Ledger, delete, index_request, put
from tests.unit.materializer.partitions.cluster import Cluster


def talkative() -> tuple[Cluster, int, int, list[Relay]]:
    """Return a cluster, two of its partitions, and messages from the first to the second: some index entries."""
    cluster = Cluster()
    cars = cluster.create("Cars", GlobalSecondaryIndexes=[index_request("by-colour", "colour")])
    for n in range(40):
        cluster.write(put(cars, {"pk": {"S": str(n)}, "colour": {"S": f"colour {n % 7}"}}))
    relays = list(cluster.states[1].outboxes[2].unacknowledged)
    assert len(relays) > 3
    return cluster, 1, 2, relays


def entries(state: PartitionState) -> int:
    return state.tables[1].indexes["by-colour"].store.count


@pytest.mark.guarantee("G29")
def test_only_the_next_message_counts() -> None:
    cluster, _, receiver, relays = talkative()
    first, second, third = relays[:3]
    before = entries(cluster.states[receiver])
    last = first.message_number - 1

    reported = [cluster.deliver(relay, receiver) for relay in (second, first, third, first, second, third)]

    assert [last, last + 1, last + 1, last + 1, last + 2, last + 3] == [
        one.through_message for one in reported if isinstance(one, MessageFolded)
    ]
    assert before + 3 == entries(cluster.states[receiver])


def test_a_message_waits_until_it_is_acknowledged() -> None:
    cluster, sender, receiver, relays = talkative()
    state = cluster.states[sender]
    before = state.unacknowledged_bytes

    cluster.deliver(relays[0], receiver)
    cluster.deliver(relays[1], receiver)
    assert relays == list(state.outboxes[receiver].unacknowledged)
    outcomes = [cluster.acknowledge(sender, receiver) for _ in range(2)]

    assert [Completed(progressed=True), Completed(progressed=False)] == outcomes
    assert relays[2:] == list(state.outboxes[receiver].unacknowledged)
    assert before - size_of(relays[0].message) - size_of(relays[1].message) == state.unacknowledged_bytes


def test_an_old_or_unknown_acknowledgement_has_no_effect() -> None:
    cluster, sender, receiver, relays = talkative()
    late = RelayAck(receiver, relays[1].message_number, START)
    cluster.fold(sender, late)

    assert Completed(progressed=False) == cluster.fold(
        sender, RelayAck(receiver, relays[0].message_number, START)
    )
    assert Completed(progressed=False) == cluster.fold(sender, RelayAck(77, 5, START))
    assert relays[2:] == list(cluster.states[sender].outboxes[receiver].unacknowledged)


def test_a_message_says_where_it_was_sent_and_when() -> None:
    cluster, sender, receiver, _ = talkative()

    for relay in cluster.states[sender].outboxes[receiver].unacknowledged:
        [command] = cluster.records[sender][relay.offset].entry.commands
        assert (sender, 0) == (relay.sender, relay.index)
        assert cluster.states[sender].log_time == relay.time
        assert isinstance(relay.message, IndexEntry)
        assert relay.message.item == command.item  # type: ignore[union-attr]


def test_a_message_is_folded_at_a_later_log_time_than_it_was_sent() -> None:
    """Clocks differ: if the receiver's is behind, its log time catches up."""
    cluster, _, receiver, relays = talkative()
    relays[0].time = START + 3_600_000

    cluster.deliver(relays[0], receiver)

    assert START + 3_600_001 == cluster.states[receiver].log_time


def test_a_record_has_one_log_time_for_all_its_messages() -> None:
    """The put is before the message in the record, and must not have an earlier log time: its own messages would be
    folded elsewhere at a time at which it is not folded here.
    """
    cluster, _, receiver, relays = talkative()
    relays[0].time = START + 1000
    writes = (
        put(cluster.catalog.tables[1], {"pk": {"S": str(n)}, "colour": {"S": str(n)}}) for n in range(99)
    )
    write = next(write for write in writes if cluster.home(write) == receiver)
    before = cluster.states[receiver].unacknowledged_bytes

    cluster.fold(receiver, write, relays[0])

    state = cluster.states[receiver]
    times = [one.time for outbox in state.outboxes.values() for one in outbox.unacknowledged]
    assert before < state.unacknowledged_bytes
    assert START + 1001 == state.log_time == max(times)


@pytest.mark.guarantee("G29")
def test_an_acknowledgement_has_a_later_log_time_than_its_message() -> None:
    """Otherwise at some time the sender would have removed it, and the receiver not yet folded it."""
    cluster, sender, receiver, relays = talkative()
    reported = cluster.deliver(relays[0], receiver)
    assert isinstance(reported, MessageFolded)

    cluster.fold(sender, RelayAck(receiver, reported.through_message, reported.time + 5000))

    assert cluster.states[receiver].log_time == reported.time
    assert reported.time + 5001 == cluster.states[sender].log_time


@pytest.mark.guarantee("G29")
@pytest.mark.parametrize("partition", [0, 1, 2, 3])
def test_a_dump_holds_the_messages_in_flight(partition: int) -> None:
    """A loaded state sends the same messages as the dumped one."""
    cluster, *_ = talkative()
    before = cluster.states[partition]

    cluster.reload(partition)

    state = cluster.states[partition]
    assert before.outboxes == state.outboxes
    assert before.received == state.received
    assert before.unacknowledged_bytes == state.unacknowledged_bytes


def test_a_barrier_does_nothing() -> None:
    assert Completed(progressed=False) == Cluster().fold(1, Barrier())


# Void commands


def skipping(*skips: Void) -> tuple[Ledger, list[Command]]:
    """Return a log of puts that ends with an operator's Skip commands."""
    ledger = Ledger()
    table = ledger.create("Cars")
    ledger.fold(*(put(table, {"pk": {"S": name}}) for name in "abc"))
    ledger.fold(delete(table, {"pk": {"S": "c"}}))
    decisions: list[Command] = [Skip(*skip, CONTEXT) for skip in skips]
    return ledger, decisions


def refold(records: list[Record], void: list[Void]) -> tuple[PartitionState, list[str]]:
    state, left_out = PartitionState(), []
    for record in records:
        for outcome in fold(state, record, void):
            left_out += [outcome.why] if isinstance(outcome, Skipped) else []
    return state, left_out


@pytest.mark.parametrize(
    ("void", "names"),
    [
        ([(2, 1)], [b"a"]),
        ([(2, None)], []),
        ([(3, None)], [b"a", b"b", b"c"]),
        ([(2, 0), (3, 0)], [b"b", b"c"]),
    ],
)
def test_exactly_the_void_commands_are_skipped(void: list[Void], names: list[bytes]) -> None:
    ledger, decisions = skipping(*void)
    records = [*ledger.records, ledger.record(*decisions)]
    assert void == voids(records)

    state, left_out = refold(records, void)

    assert names == sorted(pk for _, pk, *_ in state.tables[1].items.scan())
    assert {"an operator declared it void"} == set(left_out)


def test_a_skip_of_a_folded_command_restarts_the_fold() -> None:
    """A release whose fold does not raise there must not produce another history."""
    ledger, decisions = skipping((2, 1))

    with pytest.raises(LateSkipError) as caught:
        ledger.fold(*decisions)

    assert (2, 1) == caught.value.void


def test_a_state_before_the_skip_knows_the_voided_command() -> None:
    ledger, decisions = skipping((2, 1))
    state, _ = refold(ledger.records, [(2, 1)])
    again = load(dump(state))
    record = ledger.record(*decisions)

    assert [Completed(progressed=False)] == fold(again, record)
    assert digest(state) != digest(ledger.state)


def test_nothing_that_is_yet_to_come_can_be_void() -> None:
    ledger = Ledger()

    assert Completed(progressed=False) == ledger.fold(Skip(1, None, CONTEXT))
    assert Completed(progressed=False) == ledger.fold(Skip(99, 0, CONTEXT))
    assert [] == voids(ledger.records)


def test_a_void_message_counts_or_its_sender_would_tell_it_for_ever() -> None:
    cluster, _, receiver, relays = talkative()
    state = cluster.states[receiver]
    before, offset = entries(state), state.next_offset

    cluster.fold(receiver, relays[0], void=[(offset, 0)])

    assert before == entries(state)
    reported = cluster.fold(receiver, relays[1])
    assert isinstance(reported, MessageFolded)
    assert relays[1].message_number == reported.through_message
    assert before + 1 == entries(state)
