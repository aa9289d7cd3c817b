"""Recent writes are remembered; a forgotten item counts as changed."""

from foldb.log.commands import Check, Delete, Put
from foldb.materializer.fold.outcomes import (
    Applied,
    Change,
    Completed,
    MessageFolded,
    Outcome,
    Refused,
    Transacted,
)
from foldb.materializer.recent_writes import RecentWrites
from foldb.model.errors import ConditionalCheckFailedError
from tests.unit.materializer.ledger import CONTEXT

KEY = (1, b"k", b"")


def put(pk: bytes = b"k") -> Applied:
    return Applied(Put(1, pk, b"", b"{}", 2, CONTEXT), None, (b"{}", 2), 0, 0)


def changed_by(*outcomes: Outcome) -> bool:
    recent = RecentWrites(since=0)
    recent.note(7, outcomes)
    assert not recent.changed(KEY, after=7)
    return recent.changed(KEY, after=6)


def test_every_write_of_an_item_is_remembered() -> None:
    expired = Change(*KEY, b"{}", None, 0, 0, CONTEXT)

    assert changed_by(put())
    assert changed_by(Applied(Delete(*KEY, CONTEXT), (b"{}", 2), None, 0, 0))
    assert changed_by(Transacted([put(b"other"), put()]))
    assert changed_by(MessageFolded(0, [put()]))
    assert changed_by(Completed(progressed=True, change=expired))


def test_a_command_without_a_write_is_not_remembered() -> None:
    assert not changed_by(Refused(ConditionalCheckFailedError()))
    assert not changed_by(MessageFolded(0, [Applied(Check(*KEY, CONTEXT), None, None, 0, 0)]))
    assert not changed_by(put(b"other"), MessageFolded(0), Completed(progressed=False))


def test_writes_before_the_start_are_unknown() -> None:
    recent = RecentWrites(since=100)

    assert recent.changed(KEY, after=98)
    assert not recent.changed(KEY, after=99)


def test_the_items_that_changed_longest_ago_are_forgotten() -> None:
    recent = RecentWrites(since=0, kept=2)
    recent.note(1, [put(b"a")])
    recent.note(2, [put(b"b")])
    recent.note(3, [put(b"a")])

    assert not recent.changed((1, b"z", b""), after=0), "all writes are remembered"
    assert recent.changed((1, b"b", b""), after=1)

    recent.note(4, [put(b"c")])

    assert recent.changed((1, b"z", b""), after=1), "b, of offset 2, is forgotten"
    assert not recent.changed((1, b"z", b""), after=2)
    assert recent.changed((1, b"a", b""), after=2)
    assert not recent.changed((1, b"a", b""), after=3)
