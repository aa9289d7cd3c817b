"""Messages between nodes are decoded to the objects that were sent."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.log.commands import Cut, DefineTable, Position, Transact
from foldb.materializer.feed_requests import Changes, CountChanges, ReadChanges, Shard, Shards
from foldb.materializer.fold.outcomes import (
    Applied,
    BackupDefined,
    Change,
    Completed,
    CostOnly,
    Failed,
    JobDefined,
    Loaded,
    MessageFolded,
    Refused,
    Skipped,
    TableDefined,
    Transacted,
    TransactionRefused,
    TransactionStarted,
    Tx,
    Units,
)
from foldb.materializer.fold.read_requests import ItemKeys
from foldb.materializer.history.history import TimeCut
from foldb.materializer.history.requests import (
    AtInstant,
    DescribeTables,
    Difference,
    GetItems,
    ItemVersion,
    PastDifferences,
    PastItems,
    PastMember,
    PastMembers,
    PastTable,
    PastTables,
    PastVersions,
    ReadDifferences,
    ReadMembers,
    ReadVersions,
)
from foldb.materializer.partition import FIRST_READ, Conflict, Page, QueryRequest, ScanRequest
from foldb.model import errors, table_requests
from foldb.model.backups import Backup
from foldb.model.errors import Reason, RequestError
from foldb.model.jobs import Job
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN
from foldb.model.table_requests import create
from foldb.server.api import parameters
from foldb.server.cluster import messages, wire
from foldb.server.cluster.wire import METHODS, WireError
from tests.support.tables import table_request
from tests.unit.log.samples import CONTEXT, actions, commands, contexts, keys, puts, texts

ids = st.integers(0, 2**40)
positions = st.builds(Position, st.integers(0, 256), st.integers(-1, 2**60), st.none() | st.integers(0, 511))
places = positions | st.builds(Cut, st.lists(positions, min_size=1, max_size=3).map(tuple))
items = st.none() | st.tuples(st.binary(max_size=30), st.integers(0, 400_000))
reasons = st.builds(Reason, texts, st.none() | texts, st.none() | st.binary())
reported = st.lists(st.fixed_dictionaries({"reason": texts, "resource": texts}), max_size=2)


def _any_error(kind: type[RequestError]) -> st.SearchStrategy[RequestError]:
    match kind:
        case errors.ConditionalCheckFailedError:
            return st.builds(kind, st.none() | st.binary())
        case errors.TransactionCanceledError:
            return st.builds(kind, st.lists(reasons, max_size=3))
        case errors.ThrottlingError | errors.ProvisionedThroughputExceededError:
            return st.builds(kind, texts, reported)
        case _:
            return st.builds(kind, texts)


request_errors = st.sampled_from(list(messages.ERRORS.values())).flatmap(_any_error)


def travelled(value: Any) -> Any:
    """Return a plain value as the other end receives it."""
    return wire.unpacked(wire.frame(value)[4:])


def same(one: RequestError, other: RequestError) -> bool:
    return type(one) is type(other) and vars(one) == vars(other) and one.args == other.args


def test_every_error_has_a_name_of_its_own() -> None:
    kinds = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RequestError)
    }

    assert kinds - {RequestError} == set(messages.ERRORS.values())


@given(request_errors)
def test_errors_arrive_with_their_members(error: RequestError) -> None:
    arrived = messages.decode_error(travelled(messages.encode_error(error)))

    assert same(error, arrived)
    assert error.body() == arrived.body() or "Item" in str(error.body())  # a fragment equals no other


def test_an_error_of_a_later_release_is_an_error_still() -> None:
    arrived = messages.decode_error(["OutOfCheeseException", "no more", None])

    assert isinstance(arrived, errors.InternalServerError)
    assert "no more" == arrived.message


@given(commands)
def test_commands_arrive_as_they_were(command: Any) -> None:
    assert command == messages.decode_command(travelled(messages.encode_command(command)))


@given(places)
def test_positions_and_cuts_arrive_as_they_were(place: Any) -> None:
    assert place == messages.decode_result_position(travelled(messages.encode_position(place)))


units = st.dictionaries(texts, ids, max_size=2)
applied = st.builds(
    Applied,
    puts,
    items,
    items,
    st.integers(0, 10**39),
    ids,
    st.none() | st.binary(),
    st.none() | ids,
    st.none() | units,
    st.none() | units,
    st.booleans(),
    ids,
)
counted = st.builds(CostOnly, st.builds(Units, ids, st.none() | units, st.none() | units), st.none() | ids)
changes = st.builds(
    Change,
    ids,
    keys,
    keys,
    st.none() | keys,
    st.none() | keys,
    st.integers(0, 10**39),
    ids,
    contexts,
)


@given(applied)
def test_the_effect_of_a_write_arrives_with_its_reply(outcome: Applied) -> None:
    command: Any = outcome.action

    assert outcome == messages.decode_outcome(travelled(messages.encode_outcome(outcome)), command)


@given(puts, applied)
def test_the_item_that_a_put_left_is_not_sent_back(put: Any, outcome: Applied) -> None:
    put.item = b"x" * 10_000
    outcome.action, outcome.old, outcome.new = put, None, (put.item, put.size)
    sent = messages.encode_outcome(outcome)

    assert outcome == messages.decode_outcome(travelled(sent), put)
    assert len(msgpack.packb(sent)) < 5_000


@given(st.lists(applied | counted, max_size=4), st.booleans())
def test_transactions_arrive_action_by_action(done: list[Any], replayed: bool) -> None:
    asked: list[Any] = [one.action if isinstance(one, Applied) else None for one in done]
    outcome = Transacted(done, replayed)

    arrived = messages.decode_outcome(travelled(messages.encode_outcome(outcome)), Transact(asked, CONTEXT))

    assert outcome == arrived


backups = st.builds(
    Backup,
    texts,
    texts,
    st.just(
        table_requests.create(table_request("T", "pk:S"), table_id=1, uuid="u", time_ms=0, limits=MODERN)
    ),
    *[st.integers(0, 2**40)] * 4,
)
jobs = st.builds(
    Job,
    texts,
    st.sampled_from(["export", "import", "bulk-operation"]),
    st.integers(0, 2**40),
    texts,
    texts,
    st.just(KeySchema((KeyAttribute("pk", "S"),))),
    st.dictionaries(texts, texts, max_size=2),
    st.none() | texts,
    st.integers(0, 2**40),
    failure=st.none() | st.tuples(texts, texts),
    files=st.just(()) | st.just(({"key": "a"},)),
)


@given(
    st.one_of(
        st.builds(Completed, st.booleans(), st.none() | changes),
        st.builds(Skipped, texts),
        st.builds(TransactionStarted, ids),
        st.builds(MessageFolded, st.integers(-1, 2**40), time=st.integers(0, 2**40)),
        st.builds(Loaded, st.integers(0, 2**31)),
        st.builds(BackupDefined, backups),
        st.builds(JobDefined, jobs),
    )
)
def test_the_outcomes_of_owners_arrive(outcome: Any) -> None:
    arrived = messages.decode_outcome(
        travelled(messages.encode_outcome(outcome)), DefineTable("", 0, b"", "", CONTEXT)
    )

    assert outcome == arrived


@given(request_errors, st.lists(ids), actions)
def test_refusals_arrive_with_their_units(error: RequestError, cost: list[int], asked: Any) -> None:
    command = Transact(asked, CONTEXT)
    for outcome in (Refused(error, 3), Failed(error), TransactionRefused(error, cost)):
        arrived: Any = messages.decode_outcome(travelled(messages.encode_outcome(outcome)), command)

        assert type(outcome) is type(arrived)
        assert same(error, arrived.error)
        assert getattr(outcome, "units", None) == getattr(arrived, "units", None)


def test_a_table_definition_arrives_whole() -> None:
    definition = create(table_request("Cars", "pk:S", "sk:N"), table_id=7, uuid="u", time_ms=1, limits=MODERN)

    outcome = TableDefined(definition)

    assert outcome == messages.decode_outcome(
        travelled(messages.encode_outcome(outcome)), DefineTable("", 0, b"", "", CONTEXT)
    )


def test_the_projection_of_a_page_is_compiled_by_its_reader() -> None:
    body: dict[str, Any] = {
        "TableName": "Cars",
        "KeyConditionExpression": "pk = :k",
        "FilterExpression": "#c = :c",
        "ProjectionExpression": "pk",
        "ExpressionAttributeNames": {"#c": "colour"},
        "ExpressionAttributeValues": {":k": {"S": "a"}, ":c": {"S": "red"}},
    }
    read = parameters.read(body, MODERN)
    request = QueryRequest(
        7, "by-colour", b"a", b"", None, False, b"s", 5, False, read.plan, read.values, source=body
    )

    assert request == messages.decode_query(travelled(messages.encode_query(request)), MODERN)


def test_a_legacy_filter_is_compiled_again_too() -> None:
    body = {
        "TableName": "Cars",
        "ScanFilter": {"c": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "red"}]}},
    }
    read = parameters.read(body, MODERN)
    request = ScanRequest(
        7, None, 1, 4, (b"a", b"b"), plan=read.plan, values=read.values, source=body, room=7
    )

    assert request == messages.decode_scan(travelled(messages.encode_scan(request)), MODERN)


def test_a_key_condition_alone_is_not_compiled_again() -> None:
    body = {"KeyConditionExpression": "pk = :k", "ExpressionAttributeValues": {":k": {"S": "a"}}}
    read = parameters.read(body, MODERN)
    request = QueryRequest(7, None, b"a", b"", None, plan=read.plan, values=read.values, source=body)

    arrived = messages.decode_query(travelled(messages.encode_query(request)), MODERN)

    assert QueryRequest(7, None, b"a", b"", None) == arrived


@given(
    st.builds(
        Page,
        st.lists(keys),
        ids,
        ids,
        st.none() | keys,
        ids,
        ids,
        ids,
        keys=st.none() | st.builds(ItemKeys, st.lists(keys), st.lists(keys), st.lists(ids)),
    )
)
def test_pages_arrive_as_they_were(page: Page) -> None:
    assert page == messages.PAGE.decode(travelled(messages.PAGE.encode(page)))


@given(st.lists(items | st.just(Conflict()), max_size=4))
def test_items_read_in_isolation_arrive(found: list[Any]) -> None:
    result = wire.GET_ISOLATED.result(found)

    assert found == wire.GET_ISOLATED.read_result(travelled(result), ())


cuts = st.builds(TimeCut, st.integers(0, 2**60)) | positions
pairs = st.tuples(ids, ids)
differences = st.builds(
    ReadDifferences, ids, cuts, st.none() | pairs, ids, st.just(()) | st.lists(positions, min_size=1)
)
past_reads = (
    st.builds(GetItems, st.lists(st.tuples(ids, keys, keys), max_size=3))
    | st.builds(DescribeTables, st.lists(texts.filter(bool), max_size=3), st.booleans())
    | st.builds(QueryRequest, ids, st.none() | texts, keys, keys, st.none() | keys)
    | st.builds(ReadVersions, ids, keys, keys, st.none() | cuts, st.none() | pairs, ids)
    | differences
    | st.builds(ReadMembers, st.lists(st.tuples(ids, ids, ids, ids), max_size=3))
    | st.builds(ReadChanges, ids, st.integers(0, 10**30), st.none() | st.integers(0, 10**30))
    | st.builds(ScanRequest, ids, st.none() | texts)
)
instants = st.builds(
    AtInstant,
    st.builds(GetItems, st.lists(st.tuples(ids, keys, keys), max_size=3))
    | st.builds(QueryRequest, ids, st.none() | texts, keys, keys, st.none() | keys)
    | st.builds(ScanRequest, ids, st.none() | texts)
    | differences,
    st.lists(positions),
)


@given(cuts, past_reads | instants)
def test_reads_of_the_past_arrive_as_they_were(cut: Any, read: Any) -> None:
    data = travelled(wire.AS_OF.arguments(cut, read))

    assert [cut, read] == wire.AS_OF.read_arguments(data, MODERN)


def test_answers_about_the_past_arrive_as_they_were() -> None:
    definition = create(table_request("Cars", "pk:S", "sk:N"), table_id=7, uuid="u", time_ms=1, limits=MODERN)
    for answer in (
        PastItems([None, (b"{}", 2)]),
        Page([b"{}"], 1, 2, b"{}", 3),
        PastTables([PastTable(definition, {7: [1, 2]})]),  # type: ignore[dict-item]  # a pair is a list then
        PastTables([], 5, 8),
        PastVersions([ItemVersion(1, 2, 3, b"{}", b"context", [1, 2], None)], (2, 1)),
        PastVersions([ItemVersion(1, 2, 3, None, None, None, ["put", "code", None])], None),
        PastDifferences([Difference(b"p", b"", None, b"{}", 1, 2)], (1, 0)),
        PastMembers([[PastMember("Cars", b"{}", "put")], []]),
        Changes([CHANGE], 10**26, 0, is_end=True, time=9),
    ):
        assert answer == wire.AS_OF.read_result(travelled(wire.AS_OF.result(answer)), ())


def test_a_node_of_the_release_before_reads_the_definitions_of_tables() -> None:
    """It takes each member for a name, and has no table without one. An answer to it has two members."""
    cut, tag, names = travelled(wire.AS_OF.arguments(TimeCut(5), DescribeTables(["Cars"], is_counted=False)))

    assert [5, 1, ["Cars", ""]] == [cut, tag, names]
    assert 2 == len(travelled(wire.AS_OF.result(PastTables([]))))


@given(st.dictionaries(texts, ids | st.dictionaries(ids, texts, max_size=2), max_size=3))
def test_metrics_arrive_under_any_label(figures: dict[str, Any]) -> None:
    result = wire.STATUS.result({"error": figures})

    assert {"error": figures} == wire.STATUS.read_result(travelled(result), (None,))


def test_a_status_without_a_table_has_no_argument_on_the_wire() -> None:
    """A node of the first release sends none."""
    read = [
        wire.STATUS.read_arguments(travelled(wire.STATUS.arguments(table)), MODERN) for table in (None, 7)
    ]

    assert [[None], [7]] == read
    assert [] == wire.STATUS.arguments(None)


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5) | st.binary(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@given(st.sampled_from(METHODS), junk)
def test_arguments_that_are_none_are_refused_and_do_nothing_else(method: wire.Method, data: Any) -> None:
    try:
        wire.reading(method.read_arguments, data, MODERN)
    except WireError:
        return


@given(st.sampled_from(METHODS), junk, st.lists(puts, max_size=1))
def test_results_that_are_none_are_refused_and_do_nothing_else(
    method: wire.Method, data: Any, asked: Any
) -> None:
    try:
        wire.reading(method.read_result, data, asked)
    except WireError:
        return


@given(st.binary(max_size=40))
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    try:
        wire.unpacked(data)
    except WireError:
        return


def test_a_frame_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(WireError, match="a frame of"):
        wire.frame(b"x" * wire.FRAME_BYTES)


CHANGE = Change(1, b"a", b"b", None, b"{}", 10**26, 5, CONTEXT, Tx("t", 1, 2), 7, is_read=False)
FIRST_RELEASE: list[tuple[Any, Any]] = [
    (
        messages.PAGE.encode(Page([b"{}"], 1, 2, None, 3)),
        [[b"{}"], 1, 2, None, 3, 0, 0, 0, None, False, None],
    ),
    (
        messages.encode_query(QueryRequest(7, None, b"a", b"", None, limit=5)),
        [None, 7, None, b"a", b"", None, True, None, 5, False, False, False, False],
    ),
    (
        messages.encode_scan(ScanRequest(7, None, start=(b"a", b"b"))),
        [None, 7, None, 0, 1, [b"a", b"b"], None, False, False, False, False, None, False],
    ),
    (
        messages.FEED_REQUEST.encode(ReadChanges(7, 10**26)),
        [0, 7, str(10**26), None, None, 1000, 2**20, 0, None],
    ),
    (messages.FEED_REQUEST.encode(CountChanges(7, 1, 2)), [3, 7, "1", "2"]),
    (
        messages.FEED_ANSWER.encode(Changes([CHANGE], 2, 0, is_end=True, time=9)),
        [
            0,
            [[1, b"a", b"b", None, b"{}", str(10**26), 5, CONTEXT.in_first_layout(), ["t", 1, 2], 7, False]],
            "2",
            "0",
            True,
            9,
            False,
        ],
    ),
    (messages.FEED_ANSWER.encode(Shards([Shard(0, 1, None, 5)], 6)), [2, [[0, "1", None, 5, [0]]], 6]),
    (
        messages.encode_outcome(Completed(progressed=True, change=CHANGE)),
        [5, True, [1, b"a", b"b", None, b"{}", str(10**26), 5, CONTEXT.in_first_layout()]],
    ),
    (messages.encode_outcome(MessageFolded(3, time=4)), [9, 3, 4]),
    (messages.encode_outcome(TransactionStarted(8)), [8, 8]),
]


@pytest.mark.parametrize(("message", "row"), FIRST_RELEASE)
def test_messages_have_the_shape_of_the_first_release(message: Any, row: Any) -> None:
    """Nodes of two releases share a log while a cluster is upgraded. A later release adds members at the end only."""
    assert row == travelled(message)


def test_a_message_of_another_release_may_have_fewer_or_more_members() -> None:
    assert Page([], 1, 2, None, 3) == messages.PAGE.decode([[], 1, 2, None, 3])
    assert Page([], 1, 2, None, 3) == messages.PAGE.decode(
        [[], 1, 2, None, 3, 0, 0, 0, None, False, None, "of a later release"]
    )


def test_a_node_of_an_earlier_release_reads_once() -> None:
    """It sends no third argument, and ignores that of a first read."""
    keys = [[7, b"car", b""]]
    sent = wire.GET_ISOLATED.arguments(keys, FIRST_READ)

    assert [keys, None] == sent[:2]
    assert [[(7, b"car", b"")], FIRST_READ] == wire.GET_ISOLATED.read_arguments(sent, MODERN)
    assert [[(7, b"car", b"")], None] == wire.GET_ISOLATED.read_arguments(sent[:2], MODERN)
