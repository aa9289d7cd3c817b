"""Feed requests and answers arrive at another node as they were sent."""

from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from foldb.materializer.feed_requests import (
    ChangeCount,
    Changes,
    CountChanges,
    FindSequenceNumber,
    FoundSequenceNumber,
    ListShards,
    ReadChanges,
    Shard,
    Shards,
)
from foldb.model.limits import MODERN
from foldb.server.cluster.wire import FEED
from tests.unit.streams.feed.test_change_codec import changes

ids = st.integers(0, 2**40)
numbers = st.integers(0, 10**30)
requests = (
    st.builds(
        ReadChanges,
        ids,
        numbers,
        st.none() | numbers,
        st.none() | ids,
        st.integers(1, 1000),
        ids,
        ids,
        st.none() | st.tuples(ids, ids),
    )
    | st.builds(FindSequenceNumber, ids, ids, st.none() | ids)
    | st.builds(ListShards, ids, ids)
    | st.builds(CountChanges, ids, numbers, st.none() | numbers)
)
shards = st.builds(Shard, ids, numbers, st.none() | numbers, ids, st.lists(ids, min_size=1, max_size=3))
answers = (
    st.builds(Changes, st.lists(changes, max_size=3), numbers, numbers, st.booleans(), ids, st.booleans())
    | st.builds(FoundSequenceNumber, numbers, numbers)
    | st.builds(Shards, st.lists(shards, max_size=3), ids)
    | st.builds(ChangeCount, ids, st.none() | ids, numbers)
)


def round_trip(value: Any) -> Any:
    return msgpack.unpackb(msgpack.packb(value), strict_map_key=False)


@given(requests)
def test_requests_arrive(request: Any) -> None:
    assert [request] == FEED.read_arguments(round_trip(FEED.arguments(request)), MODERN)


@given(answers)
def test_answers_arrive(answer: Any) -> None:
    assert answer == FEED.read_result(round_trip(FEED.result(answer)), ())
