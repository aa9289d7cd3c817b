"""The changes in the outcomes of a record.

    outcomes ──► changes: one item each, before and after, in the order of their sequence numbers

Refused and repeated commands have no change, nor has a write that left its item as it was. Each change of a transaction
has its index in the transaction.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from ..log.commands import Position
from ..materializer.fold.outcomes import (
    Applied,
    Change,
    Completed,
    CostOnly,
    Loaded,
    MessageFolded,
    Outcome,
    Share,
    Transacted,
    Tx,
)
from ..model.sequence_numbers import nth_of, position_of


def changes(
    outcomes: Iterable[Outcome], tables: Container[int] | None = None, partition: int = 0, partitions: int = 1
) -> Iterator[Change]:
    """Yield the changes in the outcomes of one record.

    Args:
        outcomes: The outcomes of the record's commands.
        tables: Ids of the tables whose changes are wanted; None for all.
        partition: The partition of the record.
        partitions: The number of partitions.
    """
    for outcome in outcomes:
        match outcome:
            case Applied():
                if tables is None or outcome.action.table in tables:
                    change = outcome.change
                    if change is not None:
                        yield change
            case Completed(change=Change() as change):
                if tables is None or change.table in tables:
                    yield change
            case Loaded(applied=applied):
                yield from _of_share(applied, None, tables, partitions)
            case Transacted(actions=actions) if actions:
                yield from _of_one_step(actions, tables, partition, partitions)
            case MessageFolded(applied=applied, share=share) if applied:
                yield from _of_share(applied, share, tables, partitions)


def _of_one_step(
    actions: Sequence[Applied | CostOnly], tables: Container[int] | None, partition: int, partitions: int
) -> Iterator[Change]:
    """Yield the changes of a transaction of one step. An action that only has a cost was applied elsewhere."""
    applied = [action for action in actions if isinstance(action, Applied)]
    if applied:
        share = Share(Position(partition, *position_of(applied[0].sequence_number)), None)
        yield from _of_share(applied, share, tables, partitions)


def _of_share(
    applied: Sequence[Applied], share: Share | None, tables: Container[int] | None, partitions: int
) -> Iterator[Change]:
    """Yield the changes of one partition's share of a transaction."""
    made = [change for each in applied if (change := each.change) is not None]
    places = [nth_of(change.sequence_number) for change in made]
    changing = places if share is None or share.changing is None else share.changing
    index_of = {place: index for index, place in enumerate(changing)}
    for change, place in zip(made, places, strict=True):
        if share is not None:
            change.tx = Tx(share.transact.text(partitions), index_of[place], len(changing))
        if tables is None or change.table in tables:
            yield change
