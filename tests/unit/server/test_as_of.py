"""Requests with a cut in the names of their tables, before they reach a partition."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.log.commands import Position
from foldb.materializer.fold.read_requests import QueryRequest, ScanRequest
from foldb.materializer.history.requests import AtInstant, Cuts, GetItems
from foldb.model import service
from foldb.model.cuts import AtTime
from foldb.model.errors import RequestError, ValidationError
from foldb.server.api.as_of import READS, PartitionAt, past_request, rename

NOW_MS = 1_795_176_000_000  # 2026-11-20T12:00:00Z

names = st.sampled_from(
    ["Orders@10482", "Orders@-1h", "Orders@2:9", "Orders", "@", "a@b@1", "Orders@", "x" * 300]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.just("Get"), inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(
    st.sampled_from(["TableName", "RequestItems", "TransactItems", "ExclusiveStartKey", "Segment"]),
    names | junk | st.lists(st.fixed_dictionaries({"Get": st.fixed_dictionaries({"TableName": names})})),
)
operations = st.sampled_from([*READS, "PutItem", "BatchWriteItem", "CreateTable", "ListTables"])


@given(operations, bodies)
def test_any_body_is_read_or_refused(operation: str, body: dict[str, Any]) -> None:
    """One that is valid without its cut then has the names that it had. Unknown members are removed."""
    try:
        past = past_request(operation, body, NOW_MS)
        if past is None:
            return
        given = {member: repr(value) for member, value in body.items()}
        rename(body, past.present)
        service.validate(operation, body)
        rename(body, past.past)
    except RequestError:
        return
    assert {member: repr(value) for member, value in body.items()}.items() <= given.items()


def test_an_age_is_counted_from_the_first_page() -> None:
    first = past_request("Scan", {"TableName": "Orders@-1h"}, NOW_MS)
    assert first is not None
    assert (AtTime(NOW_MS - 3_600_000), True) == (first.cut, first.is_relative)

    start = {"pk": {"S": "a"}, "@": {"S": "2026-11-20T11:00:00.000Z"}}
    body = {"TableName": "Orders@-1h", "ExclusiveStartKey": start}
    second = past_request("Scan", body, NOW_MS + 60_000)
    assert second is not None
    assert first.cut == second.cut
    assert {"pk": {"S": "a"}} == body["ExclusiveStartKey"]


@pytest.mark.parametrize(
    "value", [None, "x", {}, {"S": 1}, {"N": "1"}, {"S": "10482"}, {"S": "-1h"}, {"S": "x"}]
)
def test_the_time_of_a_page_is_a_time(value: Any) -> None:
    body = {"TableName": "Orders@-1h", "ExclusiveStartKey": {"pk": {"S": "a"}, "@": value}}
    with pytest.raises(ValidationError, match="must have the member @"):
        past_request("Scan", body, NOW_MS)


def test_an_age_before_1970_is_the_beginning() -> None:
    past = past_request("Scan", {"TableName": "Orders@-99999d"}, NOW_MS)

    assert past is not None
    assert AtTime(0) == past.cut


class FakePast:
    """A partition that keeps the reads of its past."""

    def __init__(self) -> None:
        self.reads: list[Any] = []

    def as_of(self, cut: object, read: object, done: object) -> None:
        self.reads.append((cut, read))


def read_at(cuts: Cuts, partition_id: int, *, consistent: bool) -> list[Any]:
    """Return the reads that reach the past of a partition, without their cut."""
    past, cut = FakePast(), cuts.of(partition_id)
    partition = PartitionAt(past, cut, cuts.instant(partition_id))  # type: ignore[arg-type]
    partition.get(1, b"a", b"", consistent, lambda *_: None)
    partition.get_all([(1, b"a", b"")], consistent, lambda *_: None)
    partition.query(QueryRequest(1, None, b"a", b"", None, consistent=consistent), lambda *_: None)
    partition.scan(ScanRequest(1, None, consistent=consistent), lambda *_: None)
    assert {cut} == {each for each, _ in past.reads}
    return [read for _, read in past.reads]


def test_a_consistent_read_at_positions_is_of_one_instant() -> None:
    cuts = Cuts({1: Position(1, 7), 2: Position(2, 9)}, 5)

    reads = read_at(cuts, 2, consistent=True)

    assert 4 == len(reads)
    assert all(isinstance(each, AtInstant) and [*cuts.positions.values()] == each.positions for each in reads)
    assert [GetItems, GetItems, QueryRequest, ScanRequest] == [type(each.read) for each in reads]


def test_other_reads_of_the_past_are_of_their_cut_alone() -> None:
    cuts = Cuts({1: Position(1, 7), 2: Position(2, 9)}, 5)

    for reads in (
        read_at(cuts, 1, consistent=False),
        read_at(Cuts({1: Position(1, 7)}, 5), 1, consistent=True),
        read_at(cuts, 3, consistent=True),
    ):
        assert [GetItems, GetItems, QueryRequest, ScanRequest] == [type(each) for each in reads]
