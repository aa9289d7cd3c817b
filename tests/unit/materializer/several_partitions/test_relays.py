"""Relays of messages: in order, a limited number in flight, and again after any doubt."""

from collections.abc import Callable
from typing import Any

import pytest

from foldb.log.commands import Command, DefinitionApplied, Genesis, IndexEntry, Message, Relay, RelayAck
from foldb.materializer.fold.outbox import acknowledge, send
from foldb.materializer.fold.outcomes import Completed, Failed, MessageFolded, Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.owner import relays as relays_module
from foldb.materializer.owner.relays import RETRY_SECONDS, RETRY_SECONDS_MAX, WINDOW_MESSAGES, Relays
from foldb.materializer.partition import ResultPosition
from foldb.model.errors import InternalServerError
from foldb.model.sequence_numbers import sequence_number
from tests.unit.materializer.fake_loop import FakeLoop

Answer = Callable[[Outcome, ResultPosition], None]
NOWHERE: Any = None


class Receiver:
    """A partition that answers when the test says so."""

    def __init__(self) -> None:
        self.relays: list[tuple[Relay, Answer]] = []
        self.through = -1

    def submit(self, command: Command, size: int, done: Answer) -> None:
        assert isinstance(command, Relay)
        self.relays.append((command, done))

    @property
    def numbers(self) -> list[int]:
        """The messages received and not answered."""
        return [relay.message_number for relay, _ in self.relays]

    def take(self, count: int | None = None) -> None:
        """Fold received messages, as a partition does."""
        taken, self.relays = self.relays[:count], self.relays[len(self.relays[:count]) :]
        for relay, done in taken:
            if relay.message_number == self.through + 1:
                self.through += 1
            done(MessageFolded(self.through), NOWHERE)

    def lose(self, count: int = 1, *, folded: bool = False) -> None:
        """Fail the first requests with an unknown result."""
        taken, self.relays = self.relays[:count], self.relays[count:]
        for relay, done in taken:
            if folded and relay.message_number == self.through + 1:
                self.through += 1
            done(Failed(InternalServerError()), NOWHERE)


class Sender:
    """Partition 1 of three, which sends to 2; its own log takes acknowledgements when the test says so."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.state = PartitionState()
        self.state.begin(Genesis(bytes(16), 1, 3, 0, 2, "blake2b-64", "modern"))
        self.receiver = Receiver()
        self.acks: list[tuple[RelayAck, Answer]] = []
        self.relays = self.make()

    def make(self) -> Relays:
        partitions: Any = [NOWHERE, NOWHERE, self.receiver]
        return Relays(self, self.state, partitions, self.loop)

    def submit(self, command: Command, size: int, done: Answer) -> None:
        assert isinstance(command, RelayAck)
        self.acks.append((command, done))

    def send(self, count: int, message: Message | None = None) -> None:
        self.state.log_time = self.loop.clock()
        for _ in range(count):
            send(self.state, 2, message or DefinitionApplied(1, 1), sequence_number(7, 0, 0))
        self.relays.send()

    def fold_acks(self) -> None:
        acks, self.acks = self.acks, []
        for ack, done in acks:
            acknowledge(self.state, ack.receiver, ack.through_message)
            done(Completed(progressed=True), NOWHERE)


@pytest.fixture
def sender() -> Sender:
    return Sender()


def test_messages_are_sent_in_order_and_once(sender: Sender) -> None:
    sender.send(3)
    sender.send(2)

    assert [0, 1, 2, 3, 4] == sender.receiver.numbers


def test_messages_in_flight_are_limited(sender: Sender) -> None:
    sender.send(WINDOW_MESSAGES + 10)
    assert len(sender.receiver.relays) == WINDOW_MESSAGES

    sender.receiver.take(4)

    assert WINDOW_MESSAGES + 3 == sender.receiver.numbers[-1]


def test_the_window_is_one_of_bytes_too(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays_module, "WINDOW_BYTES", 1000)

    sender.send(10, IndexEntry(1, 2, b"k", b"", b"x" * 300, 300))

    assert [0, 1, 2] == sender.receiver.numbers


def test_one_acknowledgement_covers_all_messages_folded_so_far(sender: Sender) -> None:
    sender.send(10)
    sender.receiver.take(1)
    sender.receiver.take()
    assert [0] == [ack.through_message for ack, _ in sender.acks]

    sender.fold_acks()
    assert [9] == [ack.through_message for ack, _ in sender.acks]

    sender.fold_acks()
    assert [] == sender.acks
    assert not sender.state.unacknowledged_bytes


def test_a_gap_sends_the_later_messages_again(sender: Sender) -> None:
    sender.send(4)
    del sender.receiver.relays[1]
    sender.receiver.take()
    assert [] == sender.receiver.numbers

    sender.loop.advance(RETRY_SECONDS)

    assert [1, 2, 3] == sender.receiver.numbers


@pytest.mark.parametrize("folded", [True, False])
def test_a_message_of_unknown_fate_is_sent_again(sender: Sender, folded: bool) -> None:
    sender.send(3)
    sender.receiver.lose(folded=folded)

    sender.loop.advance(RETRY_SECONDS)
    sender.receiver.take()
    sender.loop.advance(1)
    sender.receiver.take()

    assert sender.receiver.through == 2
    sender.fold_acks()
    sender.fold_acks()
    assert not sender.state.unacknowledged_bytes


def test_retries_to_an_unreachable_partition_back_off(sender: Sender) -> None:
    sender.send(1)
    pauses = []
    for _ in range(10):
        sender.receiver.lose()
        before = sender.loop.clock()
        while not sender.receiver.relays:
            sender.loop.advance(RETRY_SECONDS / 5)
        pauses.append((sender.loop.clock() - before) / 1000)

    assert sorted(pauses) == pauses
    assert pauses[0] == pytest.approx(RETRY_SECONDS)
    assert pauses[-1] == pytest.approx(RETRY_SECONDS_MAX, abs=0.1)

    sender.receiver.take()
    sender.send(1)
    sender.receiver.lose()
    sender.loop.advance(RETRY_SECONDS)
    assert [1] == sender.receiver.numbers, "who answers is asked at once again"


def test_answers_from_an_earlier_attempt_cause_no_retry(sender: Sender) -> None:
    sender.send(5)
    sender.receiver.lose(5)

    sender.loop.advance(RETRY_SECONDS)

    assert [0, 1, 2, 3, 4] == sender.receiver.numbers


def test_a_new_owner_learns_from_the_receiver_how_far_it_is(sender: Sender) -> None:
    sender.send(5)
    sender.receiver.take()
    sender.relays.close()
    sender.acks.clear()  # its acknowledgement was lost with it

    sender.relays = sender.make()
    sender.relays.send()
    assert [0, 1, 2, 3, 4] == sender.receiver.numbers
    sender.receiver.take(1)

    assert [4] == [ack.through_message for ack, _ in sender.acks]


def test_a_message_of_another_owner_is_acknowledged_too(
    sender: Sender,
) -> None:
    """An owner that starts from a snapshot may receive acknowledgements of messages that its own state has yet to send.
    When they are folded there is nothing to send, and no other event may happen for hours. Found by
    tests/verification/simulator.
    """
    sender.send(1)
    sender.receiver.through = 2
    sender.receiver.take()
    sender.fold_acks()

    sender.send(2)
    assert ([], [2]) == (sender.receiver.numbers, [ack.through_message for ack, _ in sender.acks])
    sender.fold_acks()

    assert not sender.state.unacknowledged_bytes


def test_an_acknowledgement_that_failed_is_made_again(sender: Sender) -> None:
    sender.send(1)
    sender.receiver.take()
    [(_, done)] = sender.acks
    sender.acks.clear()
    done(Failed(InternalServerError()), NOWHERE)

    sender.loop.advance(RETRY_SECONDS_MAX)
    sender.fold_acks()

    assert not sender.state.unacknowledged_bytes


def test_after_closing_nothing_is_sent(sender: Sender) -> None:
    sender.send(2)
    sender.receiver.lose()
    sender.relays.close()

    sender.receiver.take()
    sender.send(1)
    sender.loop.advance(60)

    assert ([], []) == (sender.receiver.numbers, sender.acks)
