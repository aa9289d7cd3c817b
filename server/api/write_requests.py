"""The submission and the answers of single-item writes: PutItem, UpdateItem and DeleteItem."""

from typing import Any, Final

from ...expressions import refuse_key_update
from ...log.commands import Command, Context, Delete, Expression, Put, Source, new_context
from ...materializer.fold.outcomes import Applied, Failed, Outcome, Refused, Skipped
from ...materializer.fold.storage import EncodedKey, Stored
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError, ResourceNotFoundError
from ...model.tables import TableDefinition
from ..database import Database
from ..usage.usage import TableUsage
from . import parameters
from .reply import Reply
from .response_json import EMPTY, Consumed, collection_metrics, consumed_one, members

_COMMAND_BYTES: Final = 256  # about the size of a command without its item and expressions

_ANSWER_MEMBERS: Final = frozenset(("ReturnConsumedCapacity", "ReturnItemCollectionMetrics"))


def check_key_paths(definition: TableDefinition, expression: Expression) -> None:
    """Refuse an expression that updates a key attribute of the table, or has a nested path into any key attribute.

    Raises:
        ValidationError: The expression updates or enters a key attribute.
    """
    plan = expression.plan
    if plan is None:
        return
    if plan.update is not None:
        refuse_key_update(plan.update, definition.key.names)
    parameters.check_key_paths(plan, definition)


def write_back(key: EncodedKey, item: Stored | None, digest: str, context: Context) -> Put | Delete:
    """Return the write of a restore or undo: put an item back, or remove the present one if `item` is None.

    It is refused if the present item does not have the digest (fold/writes.py: item_digest).
    """
    condition = Expression(digest, dialect="digest")
    if item is None:
        return Delete(*key, context, condition)
    return Put(*key, *item, context, condition)


def context_of(sent: Context, source: Source, reason: str | None) -> Context:
    """Return the context of a request, with the source of a restore or undo and its reason."""
    request_id, invocation_id, principal, _, depth, _ = sent.fields()
    return new_context(request_id, invocation_id, principal, source, depth, reason)


def submit(
    database: Database,
    body: dict[str, Any],
    reply: Reply,
    definition: TableDefinition,
    pk: bytes,
    command: Command,
    size: int,
) -> None:
    """Submit a command and reply with its outcome; `size` is the size of its item and expressions."""
    usage = database.usage[definition.id]
    database.partition.submit(
        command,
        size + _COMMAND_BYTES,
        # Compiled, this calls `_answer` directly; a `partial` would pack and unpack its arguments.
        lambda outcome, position: _answer(body, reply, definition, pk, usage, outcome, position),
    )


def refusal(outcome: Outcome) -> RequestError | None:
    """Return the error of an outcome, or None if the command was applied."""
    match outcome:
        case Refused(error) | Failed(error):
            return error
        case Skipped():
            return ResourceNotFoundError()
        case _:
            return None


def _answer(
    body: dict[str, Any],
    reply: Reply,
    definition: TableDefinition,
    pk: bytes,
    usage: TableUsage,
    outcome: Outcome,
    position: ResultPosition,
) -> None:
    usage.count_outcome(pk, outcome)
    if not isinstance(outcome, Applied):
        error = refusal(outcome)
        assert error is not None, "a write of an item has no other outcome"
        if isinstance(outcome, Refused):
            reply.consumed(2 * outcome.units)
        reply.error(error, position)
    elif outcome.attributes is None and _ANSWER_MEMBERS.isdisjoint(body) and reply.record is None:
        reply.ok(EMPTY, position)
    else:
        reply.ok(_applied(body, reply, definition, pk, outcome), position)


def _applied(
    body: dict[str, Any], reply: Reply, definition: TableDefinition, pk: bytes, outcome: Applied
) -> bytes:
    consumed = Consumed(body["TableName"])
    consumed.add(outcome.units)
    return members(
        b"" if outcome.attributes is None else b'"Attributes":' + outcome.attributes,
        consumed_one(body, reply, consumed),
        _metrics(body, definition, pk, outcome),
    )


def _metrics(body: dict[str, Any], definition: TableDefinition, pk: bytes, outcome: Applied) -> bytes:
    if body.get("ReturnItemCollectionMetrics") != "SIZE" or outcome.collection_size is None:
        return b""
    return b'"ItemCollectionMetrics":' + collection_metrics(definition, pk, outcome.collection_size)
