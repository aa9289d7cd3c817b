"""The change feed as the fold yields it."""

import pytest

from foldb.materializer.fold import fold
from foldb.materializer.fold.outcomes import Change
from foldb.materializer.fold.state import PartitionState
from foldb.streams.changes import changes
from tests.materializer.random_log import random_log


def feed_of(seed: int) -> tuple[list[Change], PartitionState]:
    state = PartitionState()
    feed: list[Change] = []
    for record in random_log(seed, length=200).records:
        feed += changes(fold(state, record))
    return feed, state


@pytest.mark.parametrize("seed", range(5))
def test_sequence_numbers_rise_from_change_to_change(seed: int) -> None:
    feed, _ = feed_of(seed)

    numbers = [change.sequence_number for change in feed]
    assert len(numbers) > 100
    assert sorted(set(numbers)) == numbers


@pytest.mark.parametrize("seed", range(5))
def test_each_change_of_an_item_begins_where_the_one_before_ended(seed: int) -> None:
    """
    No gap and nothing twice: the images of an item's changes are a chain from nothing to the item as it is.
    """
    feed, state = feed_of(seed)

    images: dict[tuple[int, bytes, bytes], bytes | None] = {}
    for change in feed:
        key = (change.table, change.pk, change.sk)
        assert images.get(key) == change.old
        assert change.old != change.new
        images[key] = change.new

    for (table, pk, sk), image in images.items():
        stored = state.tables[table].items.get(pk, sk)
        assert image == (None if stored is None else stored[0])
    assert sum(table.items.count for table in state.tables.values()) == sum(
        image is not None for image in images.values()
    )
