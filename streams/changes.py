"""From the outcomes of a record to its changes.

    outcomes ──► changes: one item each, before and after, in the order of their sequence numbers

Refused and repeated commands have none, nor has a write that left its item as it was.
"""

from collections.abc import Iterable, Iterator

from ..materializer.fold.outcomes import Applied, Change, Counted, Done, Outcome, Taken, Transacted


def changes(outcomes: Iterable[Outcome | Counted]) -> Iterator[Change]:
    """The changes that one record's outcomes hold."""
    for outcome in outcomes:
        match outcome:
            case Applied(change=Change() as change) | Done(change=Change() as change):
                yield change
            case Transacted(actions=actions) | Taken(applied=actions):
                yield from changes(actions)
