"""TransactWriteItems: up to a hundred writes and checks, all or none.

A malformed request and an empty key value are errors of the request. Another mismatch between an action and its table
(a key of another type, a missing key) cancels the transaction, with a reason at the index of the action. Such a
transaction never reaches the log.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from ....log.commands import Action, Check, Context, Delete, Put, Transact, Update
from ....materializer.fold.outcomes import Outcome, Transacted, TransactionRefused
from ....materializer.fold.storage import Stored
from ....materializer.partition import ResultPosition
from ....model.errors import Reason, RequestError, TransactionCanceledError, ValidationError
from ....model.index_keys import empty_key_of_item_error, index_key_error
from ....model.limits import Limits
from ....model.tables import TableDefinition
from ....model.values import dump
from ...auth.rights import Demand, ItemDemand, Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..parameters import WriteRequest
from ..policy_facts import facts_of_request
from ..reply import Reply
from ..response_json import Consumed, array, collection_metrics, consumed_each, members, quoted
from .transact_get_items import MULTIPLE, TOO_LARGE

_DEMANDED: Final = {
    "ConditionCheck": (
        "dynamodb:ConditionCheckItem",
        Right.READ,
        partial(facts_of_request, "ConditionCheck"),
    ),
    "Put": ("dynamodb:PutItem", Right.WRITE, partial(facts_of_request, "Put")),
    "Update": ("dynamodb:UpdateItem", Right.WRITE, partial(facts_of_request, "Update")),
    "Delete": ("dynamodb:DeleteItem", Right.WRITE, partial(facts_of_request, "Delete")),
}
OnTransacted: TypeAlias = Callable[[tuple[bytes, ...] | RequestError, ResultPosition], None]
"""Receives the members of the answer to a transaction, as JSON, or its error."""

_NO_ACTION: Final = (
    "1 validation error detected: Value '' at 'transactItems' failed to satisfy constraint: "
    "TransactWriteRequest should contain Delete or Put or Update or ConditionCheck"
)
_ONE_OF: Final = "TransactItems can only contain one of Check, Put, Update or Delete"


class ParsedAction(NamedTuple):
    """One action, validated without its table."""

    kind: str
    body: dict[str, Any]
    write: WriteRequest


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    for actions in body["TransactItems"]:
        for kind, (action, right, facts) in _DEMANDED.items():
            if request := actions.get(kind):
                table = request["TableName"]
                yield ItemDemand(action, right, table, request, facts, None, body, "TransactWriteItems")


@operation("TransactWriteItems", _demands)
def transact_write_items(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and submit the transaction as one command."""
    parsed = [_parse(item, database.state.limits) for item in body["TransactItems"]]
    submit_transaction(database, body, parsed, reply, partial(_answer, reply))


def submit_transaction(
    database: Database, body: dict[str, Any], parsed: list[ParsedAction], reply: Reply, done: OnTransacted
) -> None:
    """Validate a request, whose actions are parsed, submit it, and call `done` with its answer's members or its error.

    Raises:
        RequestError: The request is invalid.
    """
    limits = database.state.limits
    definitions = [database.state.usable_table(one.body["TableName"]).definition for one in parsed]
    size = sum(one.write.size + one.write.expression_bytes for one in parsed)
    if size > limits.transaction_bytes:
        raise ValidationError(TOO_LARGE)
    context = reply.context
    actions = _actions(parsed, definitions, context, limits)
    token = body.get("ClientRequestToken")
    command = Transact(actions, context, token, b"" if token is None else fingerprint(body))
    answer = partial(_on_outcome, body, reply, done, definitions, actions)
    submit = partial(database.counted.submit, command, size + 256 * len(actions), answer)
    _limit_examined(database, actions, reply, submit)


def fingerprint(body: dict[str, Any]) -> bytes:
    """Return a hash of the actions. A repeated ClientRequestToken must have the same one."""
    canonical = orjson.dumps(body["TransactItems"], option=orjson.OPT_SORT_KEYS)
    return blake2b(canonical, digest_size=16).digest()


def _parse(item: dict[str, Any], limits: Limits) -> ParsedAction:
    if len(item) != 1:
        raise ValidationError(_ONE_OF if item else _NO_ACTION)
    ((kind, request),) = item.items()
    return parse_action(kind, request, limits)


def parse_action(
    kind: str, request: dict[str, Any], limits: Limits, operation: str | None = None
) -> ParsedAction:
    """Validate an action without its table; `operation` is as for `parse_write`.

    Raises:
        ValidationError: A parameter, a value or an expression is invalid.
    """
    item = request["Item" if kind == "Put" else "Key"]
    return ParsedAction(kind, request, parameters.parse_write(request, item, limits, operation))


def _actions(
    parsed: list[ParsedAction], definitions: list[TableDefinition], context: Context, limits: Limits
) -> list[Action]:
    for one, definition in zip(parsed, definitions, strict=True):
        _refuse_empty_key(one, definition)
    actions: list[Action] = []
    reasons = []
    for one, definition in zip(parsed, definitions, strict=True):
        try:
            actions.append(action_of(one, definition, context, limits))
            reasons.append(Reason("None"))
        except ValidationError as error:
            reasons.append(Reason("ValidationError", error.message))
    if len({(action.table, action.pk, action.sk) for action in actions}) < len(actions):
        raise ValidationError(MULTIPLE)
    if len(actions) < len(parsed):
        raise TransactionCanceledError(reasons)
    return actions


def _refuse_empty_key(one: ParsedAction, definition: TableDefinition) -> None:
    """Refuse the whole request for an empty key value, before any action is a reason to cancel.

    Raises:
        ValidationError: A key attribute of the table, or in a put of an index, is empty.
    """
    if one.kind == "Put":
        error = empty_key_of_item_error(definition, one.body["Item"])
    else:
        error = definition.key.emptiness_error(one.body["Key"])
    if error is not None:
        raise error


def _limit_examined(
    database: Database, actions: list[Action], reply: Reply, proceed: Callable[[], None]
) -> None:
    """Proceed, unless conditions and updates would examine more than 4 MB of items, at their current size.

    The fold limits the items that are written. This limit is checked before, because a hundred checks of the largest
    items would delay all other clients by seconds.
    """
    limits = database.state.limits
    examined = [action for action in actions if isinstance(action, Update) or action.expression is not None]
    if len(examined) * limits.item_bytes <= limits.transaction_bytes:
        proceed()
        return

    def on_read(items: list[Stored | None] | RequestError, position: ResultPosition) -> None:
        if isinstance(items, RequestError):
            reply.error(items, position)
        elif sum(stored[1] for stored in items if stored is not None) > limits.transaction_bytes:
            reply.error(ValidationError(TOO_LARGE), position)
        else:
            proceed()

    keys = [(action.table, action.pk, action.sk) for action in examined]
    database.partition.get_all(keys, database.settings.lags, on_read)  # a transaction is never stale


def action_of(one: ParsedAction, definition: TableDefinition, context: Context, limits: Limits) -> Action:
    """Return the command of an action.

    Raises:
        ValidationError: The key or an expression does not match the table.
    """
    expression, show = one.write.expression, one.write.show_refused
    if expression is not None:
        write_requests.check_key_paths(definition, expression)
    if one.kind == "Put":
        return _put(one, definition, context, limits)
    pk, sk = definition.key.read_key(one.body["Key"], limits)
    if one.kind == "Update":
        return Update(definition.id, pk, sk, context, expression, one.write.return_values, show)
    if one.kind == "Delete":
        return Delete(definition.id, pk, sk, context, expression, one.write.return_values, show)
    return Check(definition.id, pk, sk, context, expression, show)


def _put(one: ParsedAction, definition: TableDefinition, context: Context, limits: Limits) -> Put:
    item = one.body["Item"]
    pk, sk = definition.key.item_key(item, limits)
    if definition.indexes and (error := index_key_error(definition, item, limits)) is not None:
        raise error
    return Put(
        definition.id,
        pk,
        sk,
        dump(item),
        one.write.size,
        context,
        one.write.expression,
        show_refused=one.write.show_refused,
        parsed=item,
    )


def _answer(reply: Reply, answer: tuple[bytes, ...] | RequestError, position: ResultPosition) -> None:
    if isinstance(answer, RequestError):
        reply.error(answer, position)
    else:
        reply.ok(members(*answer), position)


def _on_outcome(
    body: dict[str, Any],
    reply: Reply,
    done: OnTransacted,
    definitions: list[TableDefinition],
    actions: list[Action],
    outcome: Outcome,
    position: ResultPosition,
) -> None:
    if isinstance(outcome, Transacted):
        done(_transacted(body, reply, definitions, actions, outcome), position)
        return
    if isinstance(outcome, TransactionRefused):
        reply.consumed(2 * sum(outcome.units))
    error = outcome.error if isinstance(outcome, TransactionRefused) else write_requests.refusal(outcome)
    assert error is not None, "a transaction has no other outcome"
    done(error, position)


def _transacted(
    body: dict[str, Any],
    reply: Reply,
    definitions: list[TableDefinition],
    actions: list[Action],
    outcome: Transacted,
) -> tuple[bytes, ...]:
    is_asked = "ReturnConsumedCapacity" in body or "ReturnItemCollectionMetrics" in body
    if not is_asked and reply.record is None:
        return ()
    tables: dict[int, Consumed] = {}
    for name, definition, applied in zip(_names(body), definitions, outcome.actions, strict=True):
        consumed = Consumed(name, kind="Read" if outcome.replayed else "Write")
        tables.setdefault(definition.id, consumed).add(applied.units)
    return consumed_each(body, reply, tables.values()), _metrics(body, definitions, actions, outcome)


def _names(body: dict[str, Any]) -> list[str]:
    """Return the table's name or ARN in each action."""
    return [request["TableName"] for item in body["TransactItems"] for request in item.values()]


def _metrics(
    body: dict[str, Any], definitions: list[TableDefinition], actions: list[Action], outcome: Transacted
) -> bytes:
    if body.get("ReturnItemCollectionMetrics") != "SIZE":
        return b""
    tables: dict[str, list[bytes]] = {}
    for name, definition, action, applied in zip(
        _names(body), definitions, actions, outcome.actions, strict=True
    ):
        if applied.collection_size is not None:
            one = collection_metrics(definition, action.pk, applied.collection_size)
            tables.setdefault(name, []).append(one)
    if not tables:
        return b""
    return b'"ItemCollectionMetrics":' + members(
        *(b"%b:%b" % (quoted(name), array(each)) for name, each in tables.items())
    )
