"""The messages between nodes: commands, positions, items, pages, feeds, outcomes and errors (codec.py encodes them).

An outcome leaves out the parts that its caller has: the actions are those of the command, and the item that a put
wrote is the one that it sent. The part of a `MessageFolded` that only its worker uses is left out, too. A plan is not
sent: the receiver compiles the request body again that it came from.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson

from ...log.codec import decode_message, encode_message
from ...log.commands import Action, Command, Context, Cut, Entry, Position, Put, either_context
from ...materializer.feed_requests import (
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
from ...materializer.fold.outcomes import (
    Applied,
    BackupDefined,
    Change,
    Completed,
    CostOnly,
    Failed,
    JobDefined,
    Loaded,
    MessageFolded,
    Outcome,
    Refused,
    Skipped,
    Subscribed,
    TableDefined,
    Transacted,
    TransactionRefused,
    TransactionStarted,
    Units,
)
from ...materializer.fold.storage import Stored
from ...materializer.history.history import PartitionCut, TimeCut
from ...materializer.history.requests import (
    AtInstant,
    DescribeTables,
    Difference,
    GetItems,
    ItemVersion,
    PastAnswer,
    PastDifferences,
    PastItems,
    PastMember,
    PastMembers,
    PastRead,
    PastTable,
    PastTables,
    PastVersions,
    ReadDifferences,
    ReadMembers,
    ReadVersions,
)
from ...materializer.partition import Conflict, Found, Page, QueryRequest, ResultPosition, ScanRequest
from ...model import errors
from ...model.backups import Backup
from ...model.errors import (
    ConditionalCheckFailedError,
    InternalServerError,
    ProvisionedThroughputExceededError,
    Reason,
    RequestError,
    RequestLimitExceededError,
    ThrottlingError,
    TransactionCanceledError,
)
from ...model.jobs import Job
from ...model.limits import Limits
from ...model.subscriptions import Subscription
from ...model.tables import TableDefinition
from ..api import parameters
from .codec import AS_IS, DECIMAL, Converter, PlainValue, Tagged, WireMessage, register

R = TypeVar("R", QueryRequest, ScanRequest)

_NO_ORIGIN: Final = bytes(16)

ERRORS: Final[dict[str, type[RequestError]]] = {
    kind.wire_name: kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, RequestError) and kind is not RequestError
}
"""The errors by DynamoDB's names."""


def encode_command(value: Command) -> bytes:
    """Return a command in the encoding of logs, which names its schema: nodes of two releases understand it."""
    return encode_message(Entry(_NO_ORIGIN, 0, [value]))


def decode_command(data: PlainValue) -> Command:
    [value] = decode_message(data).commands
    return value


# Errors


def encode_error(value: RequestError) -> PlainValue:
    """Return an error's name, its message, and the further members of its answer."""
    return [value.wire_name, value.message, _details(value)]


def _details(value: RequestError) -> PlainValue:
    match value:
        case ConditionalCheckFailedError(item=item):
            return item
        case TransactionCanceledError(reasons=reasons):
            return [[reason.code, reason.message, reason.item] for reason in reasons]
        case (
            ThrottlingError(reasons=causes)
            | ProvisionedThroughputExceededError(reasons=causes)
            | RequestLimitExceededError(reasons=causes)
        ):
            return list(causes)
        case _:
            return None


def decode_error(data: PlainValue) -> RequestError:
    """Return the error; an InternalServerError if only a later release has it."""
    name, message, details = data
    kind = ERRORS.get(name, InternalServerError)
    if kind is ConditionalCheckFailedError:
        return ConditionalCheckFailedError(details)
    if kind is TransactionCanceledError:
        return TransactionCanceledError([Reason(*reason) for reason in details])
    make: Callable[..., RequestError] = kind
    return make(message) if details is None else make(message, details)


def _encode_context(value: Context) -> bytes:
    """Return a context in the layout that nodes of the release before read, if that can express it."""
    return value.in_first_layout() or value.encoded


def _json_of(read: Callable[[Any], Any]) -> Converter:
    return Converter(lambda value: orjson.dumps(value.to_json()), lambda data: read(orjson.loads(data)))


register(RequestError, Converter(encode_error, decode_error))
register(Context, Converter(_encode_context, either_context))
register(TableDefinition, _json_of(TableDefinition.from_json))
register(Subscription, _json_of(Subscription.from_json))
register(Backup, _json_of(Backup.from_json))
register(Job, _json_of(Job.from_json))


# Positions, keys and items


def encode_position(value: ResultPosition) -> PlainValue:
    """Return a position, or those of a cut, without log time."""
    if isinstance(value, Cut):
        return [encode_position(each) for each in value.positions]
    return [value.partition, value.offset, value.index]


def decode_position(data: PlainValue) -> Position:
    partition, offset, index = data
    return Position(int(partition), int(offset), index)


def decode_result_position(data: PlainValue, time_ms: int | None = None) -> ResultPosition:
    """Return the position or the cut, with its log time."""
    if data and isinstance(data[0], int):
        return replace(decode_position(data), time_ms=time_ms)
    return Cut(tuple(map(decode_position, data)), time_ms)


def decode_keys(data: PlainValue) -> list[tuple[int, bytes, bytes]]:
    return [(table, pk, sk) for table, pk, sk in data]


def decode_stored(data: PlainValue) -> Stored | None:
    """Return an item's bytes and size, which msgpack packs as they are."""
    if data is None:
        return None
    item, size = data
    return item, size


def encode_found(value: Found) -> PlainValue:
    """Return an item, or False for one that cannot be read in isolation."""
    return False if isinstance(value, Conflict) else value


def decode_found(data: PlainValue) -> Found:
    """Return the item or the Conflict."""
    return Conflict() if data is False else decode_stored(data)


# Pages

_COMPILED: Final = ("plan", "values", "source")
_QUERY: Final = WireMessage(QueryRequest, omit=_COMPILED)
_SCAN: Final = WireMessage(ScanRequest, omit=_COMPILED)
PAGE: Final[WireMessage[Page]] = WireMessage(Page)


def encode_query(request: QueryRequest) -> PlainValue:
    """Return a query, with the body to compile first."""
    return [_source(request), *_QUERY.encode(request)]


def encode_scan(request: ScanRequest) -> PlainValue:
    """Return a scan, with the body to compile first."""
    return [_source(request), *_SCAN.encode(request)]


def decode_query(data: PlainValue, limits: Limits) -> QueryRequest:
    """Return the query, compiled with the limits of this node."""
    return _decode_read(_QUERY, data, limits)


def decode_scan(data: PlainValue, limits: Limits) -> ScanRequest:
    """Return the scan, compiled with the limits of this node."""
    return _decode_read(_SCAN, data, limits)


def _source(request: QueryRequest | ScanRequest) -> bytes | None:
    """Return the request body, unless the plan only has a key condition, which other fields express."""
    plan = request.plan
    if plan is None or (plan.filter is None and plan.projection is None):
        return None
    assert request.source is not None, "a plan that is sent has its source"
    return orjson.dumps(request.source)


def _decode_read(message: WireMessage[R], data: PlainValue, limits: Limits) -> R:
    source, *members = data
    request = message.decode(members)
    if source is not None:
        body = orjson.loads(source)
        compiled = parameters.read(body, limits)
        request.plan, request.values, request.source = compiled.plan, compiled.values, body
    return request


# The past

_PAST_TABLE: Final = WireMessage(PastTable)
_UNCOUNTED: Final = ""  # no table has this name, so a node of the release before sends the counts
_GET_ITEMS, _DESCRIBE_TABLES, _PAST_QUERY, _PAST_SCAN, _READ_VERSIONS, _READ_DIFFERENCES = range(6)
_READ_MEMBERS, _PAST_FEED, _AT_INSTANT = 6, 7, 8
_PAST_ITEMS, _PAST_PAGE, _PAST_TABLES, _PAST_VERSIONS, _PAST_DIFFERENCES, _PAST_MEMBERS, _PAST_CHANGES = (
    range(7)
)


def encode_past(cut: PartitionCut, read: PastRead) -> PlainValue:
    """Return a cut and a read: a time is an integer, a position is a list."""
    encoded = _encode_cut(cut)
    match read:
        case GetItems(keys):
            return [encoded, _GET_ITEMS, keys]
        case DescribeTables(names, is_counted):
            return [encoded, _DESCRIBE_TABLES, names if is_counted else [*names, _UNCOUNTED]]
        case QueryRequest():
            return [encoded, _PAST_QUERY, encode_query(read)]
        case ScanRequest():
            return [encoded, _PAST_SCAN, encode_scan(read)]
        case ReadVersions(table, pk, sk, since, before, limit):
            earlier = None if since is None else _encode_cut(since)
            return [encoded, _READ_VERSIONS, [table, pk, sk, earlier, before, limit]]
        case ReadDifferences(table, since, start, limit, positions):
            body = [table, _encode_cut(since), start, limit]
            if positions:  # several nodes send none, because the release before expects four members
                body.append(list(map(encode_position, positions)))
            return [encoded, _READ_DIFFERENCES, body]
        case ReadMembers(transactions):
            return [encoded, _READ_MEMBERS, transactions]
        case ReadChanges():
            return [encoded, _PAST_FEED, FEED_REQUEST.encode(read)]
        case AtInstant(at_cut, positions):
            return [encoded, _AT_INSTANT, [encode_past(cut, at_cut), list(map(encode_position, positions))]]


def decode_past(data: PlainValue, limits: Limits) -> tuple[PartitionCut, PastRead]:
    """Return the cut and the read, compiled with the limits of this node."""
    encoded, tag, body = data
    cut = _decode_cut(encoded)
    if tag == _GET_ITEMS:
        return cut, GetItems(decode_keys(body))
    if tag == _DESCRIBE_TABLES:
        names = [str(name) for name in body if name != _UNCOUNTED]
        return cut, DescribeTables(names, is_counted=len(names) == len(body))
    if tag == _PAST_QUERY:
        return cut, decode_query(body, limits)
    if tag == _PAST_SCAN:
        return cut, decode_scan(body, limits)
    if tag == _READ_VERSIONS:
        table, pk, sk, since, before, limit = body
        earlier = None if since is None else _decode_cut(since)
        return cut, ReadVersions(table, pk, sk, earlier, _pair(before), limit)
    if tag == _READ_DIFFERENCES:
        table, since, start, limit, *positions = body
        known = list(map(decode_position, positions[0])) if positions else ()
        return cut, ReadDifferences(table, _decode_cut(since), _pair(start), limit, known)
    if tag == _READ_MEMBERS:
        return cut, ReadMembers(
            [(coordinator, place, first, last) for coordinator, place, first, last in body]
        )
    if tag == _PAST_FEED:
        return cut, FEED_REQUEST.decode(body)
    if tag == _AT_INSTANT:
        at_cut, positions = body
        _, read = decode_past(at_cut, limits)
        if isinstance(read, GetItems | QueryRequest | ScanRequest | ReadDifferences):
            return cut, AtInstant(read, list(map(decode_position, positions)))
    raise ValueError(f"a read of the kind {tag!r}")


def _encode_cut(cut: PartitionCut) -> PlainValue:
    return cut.time_ms if isinstance(cut, TimeCut) else encode_position(cut)


def _decode_cut(data: PlainValue) -> PartitionCut:
    return TimeCut(data) if isinstance(data, int) else decode_position(data)


def _pair(data: PlainValue) -> tuple[int, int] | None:
    return None if data is None else (int(data[0]), int(data[1]))


def encode_past_answer(value: PastAnswer) -> PlainValue:
    """Return an answer, with the index of its class first."""
    match value:
        case PastItems(items):
            return [_PAST_ITEMS, items]
        case Page():
            return [_PAST_PAGE, PAGE.encode(value)]
        case PastTables(tables, since, until):
            encoded = [_PAST_TABLES, [_PAST_TABLE.encode(each) for each in tables]]
            return [*encoded, since, until] if until else encoded
        case PastVersions():
            return [_PAST_VERSIONS, value]
        case PastDifferences():
            return [_PAST_DIFFERENCES, value]
        case PastMembers(members):
            return [_PAST_MEMBERS, members]
        case Changes():
            return [_PAST_CHANGES, FEED_ANSWER.encode(value)]


def decode_past_answer(data: PlainValue) -> PastAnswer:
    """Return the answer."""
    tag, body, *span = data
    if tag == _PAST_ITEMS:
        return PastItems([decode_stored(each) for each in body])
    if tag == _PAST_PAGE:
        return PAGE.decode(body)
    if tag == _PAST_VERSIONS:
        versions, before = body
        return PastVersions([ItemVersion(*each) for each in versions], _pair(before))
    if tag == _PAST_DIFFERENCES:
        differences, following = body
        return PastDifferences([Difference(*each) for each in differences], _pair(following))
    if tag == _PAST_MEMBERS:
        return PastMembers([[PastMember(*each) for each in members] for members in body])
    if tag == _PAST_CHANGES:
        changes: Changes = FEED_ANSWER.decode(body)
        return changes
    return PastTables([_PAST_TABLE.decode(each) for each in body], *span)


# Change feeds

# Another node computes the sizes of the few records that it reads from here.
_CHANGE: Final = WireMessage(Change, omit=("old_size", "new_size"), sequence_number=DECIMAL)
register(Change, _CHANGE.converter)
register(Shard, WireMessage(Shard, first=DECIMAL, last=DECIMAL).converter)

FEED_REQUEST: Final[Tagged] = Tagged(
    WireMessage(ReadChanges, after_sequence_number=DECIMAL, until=DECIMAL),
    WireMessage(FindSequenceNumber),
    WireMessage(ListShards),
    WireMessage(CountChanges, after_sequence_number=DECIMAL, until=DECIMAL),
)

FEED_ANSWER: Final[Tagged] = Tagged(
    WireMessage(Changes, next=DECIMAL, trim_horizon=DECIMAL),
    WireMessage(FoundSequenceNumber, after=DECIMAL, trim_horizon=DECIMAL),
    WireMessage(Shards),
    WireMessage(ChangeCount, end=DECIMAL),
)


# Outcomes

_APPLIED: Final = WireMessage(Applied, omit=("index_updates",), action=AS_IS, sequence_number=DECIMAL)
_UNITS: Final = WireMessage(Units)
_NEW: Final = _APPLIED.names.index("new")
_SAME_AS_PUT: Final = True  # sent for an item that is that of the put


def encode_outcome(value: Outcome) -> PlainValue:
    """Return an outcome, with the index of its class first."""
    tag, encode = _ENCODERS[type(value)]
    return [tag, *encode(value)]


def decode_outcome(data: PlainValue, command: Command) -> Outcome:
    tag, *members = data
    outcome: Outcome = _DECODERS[tag](command, members)
    return outcome


def _encode_applied(value: Applied) -> PlainValue:
    row, action = _APPLIED.encode(value), value.action
    if isinstance(action, Put) and value.new == (action.item, action.size):
        row[_NEW] = _SAME_AS_PUT
    return row[1:]


def _decode_applied(action: Any, data: PlainValue) -> Applied:
    row = [action, *data]
    if row[_NEW] is _SAME_AS_PUT:
        row[_NEW] = [action.item, action.size]
    return _APPLIED.decode(row)


def _encode_transacted(value: Transacted) -> PlainValue:
    return [[_encode_action(each) for each in value.actions], value.replayed]


def _encode_action(value: Applied | CostOnly) -> PlainValue:
    if isinstance(value, Applied):
        return _encode_applied(value)
    return {"units": _UNITS.encode(value.units), "size": value.collection_size}


def _decode_transacted(command: Any, data: PlainValue) -> Transacted:
    actions, replayed = data
    commanded: Sequence[Action] = command.actions
    return Transacted([_decode_action(*each) for each in zip(commanded, actions, strict=True)], replayed)


def _decode_action(action: Action, data: PlainValue) -> Applied | CostOnly:
    if isinstance(data, dict):
        return CostOnly(_UNITS.decode(data["units"]), data["size"])
    return _decode_applied(action, data)


_Encoder = Callable[[Any], list[PlainValue]]
_Decoder = Callable[[Any, PlainValue], Outcome]


def _plainly(message: WireMessage[Any]) -> tuple[type, _Encoder, _Decoder]:
    """Return the row of an outcome that does not depend on its command."""
    return message.kind, message.encode, lambda _, data: message.decode(data)


_DONE_CHANGE: Final = WireMessage(
    Change, omit=("tx", "stream", "is_read", "old_size", "new_size"), sequence_number=DECIMAL
)

_KINDS: Final[list[tuple[type, _Encoder, _Decoder]]] = [
    # The index is what is sent. Add at the end only.
    (Applied, _encode_applied, _decode_applied),
    _plainly(WireMessage(Refused)),
    (Transacted, _encode_transacted, _decode_transacted),
    _plainly(WireMessage(TransactionRefused)),
    _plainly(WireMessage(TableDefined)),
    _plainly(WireMessage(Completed, change=_DONE_CHANGE.converter)),
    _plainly(WireMessage(Skipped)),
    _plainly(WireMessage(Failed)),
    _plainly(WireMessage(TransactionStarted)),
    _plainly(WireMessage(MessageFolded, omit=("applied", "resolved", "share"))),
    _plainly(WireMessage(Subscribed)),
    _plainly(WireMessage(BackupDefined)),
    _plainly(WireMessage(Loaded, omit=("applied",))),
    _plainly(WireMessage(JobDefined)),
]
_ENCODERS: Final = {kind: (tag, encode) for tag, (kind, encode, _) in enumerate(_KINDS)}
_DECODERS: Final = [decode for _, _, decode in _KINDS]
