"""The common parts of Query and Scan: the index, the attributes, the start key and the answer.

The checks have DynamoDB's order: the request alone, then the table, then both together.
"""

from itertools import chain
from typing import Any, Final

from ...expressions import Plan
from ...materializer.fold.index_entries import entry_key
from ...materializer.fold.state import Index, Table
from ...materializer.partition import Page, ResultPosition
from ...model import keys
from ...model.errors import RequestError, ValidationError
from ...model.key_schema import KEY_MISMATCH, KeySchema, empty_key_error
from ...model.limits import Limits
from ...model.values import Item, check_item
from . import parameters
from .long_answers import LONG_BYTES, array_pieces, portions
from .parameters import ReadRequest
from .reply import Reply
from .response_json import Consumed, consumed_one

_INVALID: Final = "One or more parameter values were invalid: "
_START_INVALID: Final = "The provided starting key is invalid"
_ALL_PROJECTED: Final = "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"
_ALL_OF_GLOBAL: Final = (
    _INVALID + "Select type ALL_ATTRIBUTES is not supported for global secondary index {} "
    "because its projection type is not ALL"
)
_NAMED_NOTHING: Final = (
    "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
)
_CHOICES: Final = {
    "COUNT": "only the Count",
    "ALL_ATTRIBUTES": "ALL_ATTRIBUTES",
    "ALL_PROJECTED_ATTRIBUTES": "ALL_PROJECTED_ATTRIBUTES",
}


def check_request(body: dict[str, Any], limits: Limits, operation: str) -> ReadRequest:
    """Validate a request without its table, and compile its expressions."""
    parameters.check(body, limits, operation)
    if "Select" in body:
        _check_select(body, operation)
    parsed = parameters.read(body, limits)
    start = body.get("ExclusiveStartKey")
    if start is not None:
        try:
            check_item(start, limits)
        except ValidationError as error:
            if operation == "Query":
                raise
            raise ValidationError(f"{_START_INVALID}: {error.older}") from None
    return parsed


def _check_select(body: dict[str, Any], operation: str) -> None:
    error = _select_error(body)
    if error is not None:
        raise ValidationError(parameters.ONE_ERROR + error if operation == "Query" else error)


def _select_error(body: dict[str, Any]) -> str | None:
    select = body["Select"]
    named = next((name for name in ("ProjectionExpression", "AttributesToGet") if name in body), None)
    if select == "SPECIFIC_ATTRIBUTES":
        return None if named is not None else _NAMED_NOTHING
    if named is not None:
        return f"Cannot specify the {named} when choosing to get {_CHOICES[select]}"
    if select == "ALL_PROJECTED_ATTRIBUTES" and "IndexName" not in body:
        return _ALL_PROJECTED
    return None


def index_of(body: dict[str, Any], table: Table) -> Index | None:
    """Return the index that the request names; None for the table.

    Raises:
        ValidationError: The index does not exist, or cannot be read consistently.
    """
    name = body.get("IndexName")
    if name is None:
        return None
    index = table.indexes.get(name)
    if index is None:
        raise ValidationError(f"The table does not have the specified index: {name}")
    if index.definition.kind == "GSI" and body.get("ConsistentRead"):
        raise ValidationError("Consistent reads are not supported on global secondary indexes")
    return index


def fetches(body: dict[str, Any], index: Index | None, plan: Plan | None) -> bool:
    """Return whether a page of an index needs attributes that the index does not project.

    Raises:
        ValidationError: The index is a global one, which cannot fetch attributes from the table.
    """
    if index is None or index.kept is None:
        return False
    if body.get("Select") == "ALL_ATTRIBUTES":
        if index.definition.kind == "GSI":
            raise ValidationError(_ALL_OF_GLOBAL.format(index.definition.name))
        return True
    requested = () if plan is None or plan.projection is None else plan.projection.attributes
    lacking = [name for name in requested if name not in index.kept]
    if lacking and index.definition.kind == "GSI":
        raise ValidationError(
            f"{_INVALID}Global secondary index {index.definition.name} does not project [{', '.join(lacking)}]"
        )
    return bool(lacking)


def check_filter(index: Index | None, plan: Plan) -> None:
    """Refuse a Query's filter on attributes that its index does not project. A Scan's filter finds them missing.

    Raises:
        ValidationError: The filter has such an attribute, even if the index is local and could fetch it.
    """
    if index is None or index.kept is None or plan.filter is None:
        return
    lacking = sorted(name for name in plan.filter.attributes if name not in index.kept)
    if lacking:
        raise ValidationError(
            f"{_INVALID}Secondary index {index.definition.name} does not project one or more filter attributes: "
            f"[{', '.join(lacking)}]"
        )


def start_key(
    body: dict[str, Any], table: Table, index: Index | None, limits: Limits, operation: str
) -> tuple[bytes, bytes] | None:
    """Return the partition key and the sort key of ExclusiveStartKey, in the order of the store.

    Raises:
        ValidationError: ExclusiveStartKey is not a key of the table and the index.
    """
    start: Item | None = body.get("ExclusiveStartKey")
    if start is None:
        return None
    key = table.definition.key
    read = key if index is None else index.definition.key
    # DynamoDB has one message for errors in the key that is read, and another for the rest of the table's key. A Scan
    # of a table has only the other message.
    of_table = index is None and operation == "Scan"
    if len(start) != len({*key.names, *read.names}):
        raise ValidationError(f"{_START_INVALID}: {KEY_MISMATCH}" if of_table else _START_INVALID)
    if not of_table:
        _check_start_key(start, read)
    try:
        pk, sk = key.read_key({name: start[name] for name in key.names if name in start}, limits)
    except ValidationError as error:
        raise ValidationError(f"{_START_INVALID}: {error.message}") from None
    if index is None:
        return pk, sk
    entry = entry_key(index, start, pk, sk)
    assert entry is not None, "the key of the index was checked"
    return entry


def _check_start_key(start: Item, read: KeySchema) -> None:
    for attribute in read.attributes:
        value = start.get(attribute.name)
        if value is None:
            raise ValidationError(_START_INVALID)
        if attribute.type not in value:
            raise ValidationError(KEY_MISMATCH)
        if not keys.encode(value):
            raise empty_key_error(attribute)


def answer(
    body: dict[str, Any],
    index: Index | None,
    reply: Reply,
    page: Page | RequestError,
    position: ResultPosition,
) -> None:
    """Reply to a Query or Scan with its page."""
    if isinstance(page, RequestError):
        reply.error(page, position)
        return
    before, after = (b"", b"") if body.get("Select") == "COUNT" else (b'"Items":[', b"],")
    last = b"" if page.last is None else b',"LastEvaluatedKey":' + page.last
    consumed = b""
    if "ReturnConsumedCapacity" in body or reply.record is not None:
        consumed = consumed_one(body, reply, _consumed(body["TableName"], index, page))
        consumed = consumed and b"," + consumed
    if page.size >= LONG_BYTES and (shown := page.size * len(page.items) // page.scanned) >= LONG_BYTES:
        end = b'%b"Count":%d,"ScannedCount":%d%b%b}' % (after, page.count, page.scanned, last, consumed)
        pieces = chain((b"{" + before,), array_pieces(page.items, shown), (end,))
        reply.ok_long(portions(pieces), position)
        return
    # One formatting step, because items are many bytes to copy.
    text = b'{%b%b%b"Count":%d,"ScannedCount":%d%b%b}' % (
        before, b",".join(page.items), after, page.count, page.scanned, last, consumed,
    )  # fmt: skip
    reply.ok(text, position)


def _consumed(name: str, index: Index | None, page: Page) -> Consumed:
    consumed = Consumed(name, page.table_half_units)
    if index is not None:
        arm = consumed.local if index.definition.kind == "LSI" else consumed.glob
        arm[index.definition.name] = page.index_half_units
    return consumed
