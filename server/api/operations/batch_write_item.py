"""BatchWriteItem: up to twenty-five independent puts and deletes of several tables.

Every put or delete is a command of its own. Those that are throttled or conflict are returned as UnprocessedItems; if
all are throttled, the answer is that error. A conflict is no error of BatchWriteItem (API reference, "Errors").
"""

from dataclasses import field
from functools import partial
from typing import Any, Final

import orjson

from ....log.commands import Context, Delete, Position, Put
from ....materializer.fold.outcomes import Applied, Outcome
from ....materializer.partition import ResultPosition
from ....model.errors import (
    ProvisionedThroughputExceededError,
    RequestError,
    ServiceUnavailableError,
    ThrottlingError,
    TransactionConflictError,
    ValidationError,
    is_throttled,
)
from ....model.index_keys import index_key_error
from ....model.key_schema import KEY_MISMATCH
from ....model.lazy_dataclass import dataclass
from ....model.limits import Limits
from ....model.tables import TableDefinition
from ....model.values import check_item, dump
from ...auth.rights import Right, each_table
from ...database import Database
from ...routing import joined
from .. import write_requests
from ..operation import operation
from ..policy_facts import facts_of_batch_write
from ..reply import Reply
from ..response_json import Consumed, array, collection_metrics, consumed_each, members, quoted

_ONE_OF: Final = "Supplied WriteRequest must contain exactly one of PutRequest and DeleteRequest"

# The write had no effect, and the same request may succeed later.
_LATER: Final = (
    ProvisionedThroughputExceededError,
    ServiceUnavailableError,
    ThrottlingError,
    TransactionConflictError,
)


@dataclass(slots=True)
class _Write:
    """One put or delete; `name` is the table's name or ARN in the request."""

    name: str
    request: dict[str, Any]
    size: int
    definition: TableDefinition
    outcome: Outcome | None = None


@dataclass(slots=True)
class _Batch:
    """The writes in flight. The last outcome triggers the answer."""

    body: dict[str, Any]
    reply: Reply
    writes: list[_Write]
    waiting: int
    positions: dict[int, Position] = field(default_factory=dict)  # the latest position of each partition
    keys: list[bytes] = field(default_factory=list)


@operation("BatchWriteItem", each_table("BatchWriteItem", Right.WRITE, facts_of_batch_write))
def batch_write_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate all writes, then submit a command for each."""
    limits = database.state.limits
    requests: dict[str, list[dict[str, Any]]] = body["RequestItems"]
    if sum(map(len, requests.values())) > limits.batch_write_requests:
        raise ValidationError("Too many items requested for the BatchWriteItem call")
    sizes = [_check(request, limits) for each in requests.values() for request in each]
    if sum(sizes) > limits.batch_write_bytes:
        raise ValidationError("The items of the BatchWriteItem call exceed 16 MB")
    size = iter(sizes)
    writes = [
        _Write(name, request, next(size), database.state.usable_table(name).definition)
        for name, each in requests.items()
        for request in each
    ]
    context = reply.context
    commands = [_command(write, context, limits) for write in writes]
    if len({(command.table, command.pk, command.sk) for command in commands}) < len(commands):
        raise ValidationError("Provided list of item keys contains duplicates")

    batch = _Batch(body, reply, writes, len(writes), keys=[command.pk for command in commands])
    for write, command in zip(writes, commands, strict=True):
        database.counted.submit(command, write.size + 256, partial(_on_outcome, batch, write))


def _check(request: dict[str, Any], limits: Limits) -> int:
    if len(request) != 1:
        raise ValidationError(_ONE_OF)
    put = request.get("PutRequest")
    try:
        return check_item(request["DeleteRequest"]["Key"] if put is None else put["Item"], limits)
    except ValidationError as error:
        raise ValidationError(error.older) from None


def _command(write: _Write, context: Context, limits: Limits) -> Put | Delete:
    definition = write.definition
    if "DeleteRequest" in write.request:
        pk, sk = definition.key.read_key(write.request["DeleteRequest"]["Key"], limits)
        return Delete(definition.id, pk, sk, context)
    item, key = write.request["PutRequest"]["Item"], definition.key
    if key.pk(item) is None or key.sk(item) is None:
        # PutItem would name the attribute.
        raise ValidationError(KEY_MISMATCH)
    pk, sk = key.item_key(item, limits)
    if definition.indexes and (error := index_key_error(definition, item, limits)) is not None:
        raise error
    return Put(definition.id, pk, sk, dump(item), write.size, context, parsed=item)


def _on_outcome(batch: _Batch, write: _Write, outcome: Outcome, position: ResultPosition) -> None:
    write.outcome = outcome
    batch.waiting -= 1
    assert isinstance(position, Position), "one item is in one partition"
    batch.positions[position.partition] = position  # the answers of a partition are in order
    if not batch.waiting:
        _answer(batch)


def _answer(batch: _Batch) -> None:
    position = joined(batch.positions.values())
    unprocessed: dict[str, list[dict[str, Any]]] = {}
    causes: list[RequestError] = []
    for write in batch.writes:
        assert write.outcome is not None
        error = write_requests.refusal(write.outcome)
        if error is not None and (isinstance(error, _LATER) or is_throttled(error)):
            unprocessed.setdefault(write.name, []).append(write.request)
            causes.append(error)
        elif error is not None:
            batch.reply.error(error, position)
            return
    has_conflict = any(isinstance(cause, TransactionConflictError) for cause in causes)
    if len(causes) == len(batch.writes) and not has_conflict:
        batch.reply.error(causes[-1], position)
        return
    answer = members(
        b'"UnprocessedItems":' + orjson.dumps(unprocessed),
        consumed_each(batch.body, batch.reply, _consumed(batch)),
        _metrics(batch),
    )
    batch.reply.ok(answer, position)


def _consumed(batch: _Batch) -> list[Consumed]:
    tables: dict[str, Consumed] = {}
    for write in batch.writes:
        consumed = tables.setdefault(write.name, Consumed(write.name))
        if isinstance(write.outcome, Applied):
            consumed.add(write.outcome.units)
    return list(tables.values())


def _metrics(batch: _Batch) -> bytes:
    if batch.body.get("ReturnItemCollectionMetrics") != "SIZE":
        return b""
    tables: dict[str, list[bytes]] = {}
    for write, pk in zip(batch.writes, batch.keys, strict=True):
        if isinstance(write.outcome, Applied) and write.outcome.collection_size is not None:
            one = collection_metrics(write.definition, pk, write.outcome.collection_size)
            tables.setdefault(write.name, []).append(one)
    if not tables:
        return b""
    return b'"ItemCollectionMetrics":' + members(
        *(b"%b:%b" % (quoted(name), array(each)) for name, each in tables.items())
    )
