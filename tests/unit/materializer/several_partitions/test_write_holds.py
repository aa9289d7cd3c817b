"""New writes of keys under a first read are kept back until its second read, or for a moment."""

import pytest

from foldb.log.commands import Command, Decided, Delete, Put, Relay, Transact
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.partition import ResultPosition
from foldb.materializer.write_holds import HOLD_SECONDS, WriteHolds
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import CONTEXT

A, B, C = (1, b"a", b""), (1, b"b", b""), (1, b"c", b"")


class Holds:
    """The holds of a partition, and the commands that have reached its worker."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.submitted: list[Command] = []
        self.holds = WriteHolds(lambda command, size, done: self.submitted.append(command), self.loop)

    def submit(self, *commands: Command) -> None:
        for command in commands:
            self.holds.submit(command, 10, _ignore)


def _ignore(outcome: Outcome, position: ResultPosition) -> None:
    pass


def write(key: tuple[int, bytes, bytes]) -> Put:
    return Put(*key, b"{}", 2, CONTEXT)


@pytest.fixture
def holds() -> Holds:
    return Holds()


def test_a_write_of_a_held_key_is_kept_back_until_the_end(holds: Holds) -> None:
    hold = holds.holds.begin([A, B])
    both, other, delete = Transact([write(C), write(B)], CONTEXT), write(C), Delete(*A, CONTEXT)
    holds.submit(both, other, delete)
    assert [other] == holds.submitted

    holds.holds.end(hold)

    assert [other, both, delete] == holds.submitted


def test_a_hold_ends_at_its_deadline(holds: Holds) -> None:
    holds.holds.begin([A])
    command = write(A)
    holds.submit(command)
    holds.loop.advance(HOLD_SECONDS)

    assert [command] == holds.submitted
    holds.submit(command)
    assert [command] * 2 == holds.submitted


def test_a_write_waits_for_every_hold_of_its_key(holds: Holds) -> None:
    first, second = holds.holds.begin([A]), holds.holds.begin([A])
    command = write(A)
    holds.submit(command)

    holds.holds.end(first)
    holds.holds.end(first)
    assert [] == holds.submitted
    holds.holds.end(second)

    assert [command] == holds.submitted


def test_no_hold_begins_before_a_write_that_waits(holds: Holds) -> None:
    """Otherwise one read after the other could keep it back."""
    first = holds.holds.begin([A])
    command = write(A)
    holds.submit(command)
    holds.holds.begin([B, A])
    holds.holds.end(first)

    assert [command] == holds.submitted


def test_a_hold_is_ended_by_its_keys_and_its_offset(holds: Holds) -> None:
    hold = holds.holds.begin([A])
    hold.offset = 7
    command = write(A)
    holds.submit(command)
    for keys, offset in (([A], 8), ([B], 7)):
        holds.holds.end_of(keys, offset)
    assert [] == holds.submitted

    holds.holds.end_of([A], 7)

    assert [command] == holds.submitted


def test_messages_are_never_kept_back(holds: Holds) -> None:
    holds.holds.begin([A])
    message = Relay(2, 0, 0, 0, 0, Decided(1))
    holds.submit(message)

    assert [message] == holds.submitted
