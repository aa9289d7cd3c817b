"""TransactWriteItems: up to a hundred writes and checks, all or none.

What is wrong with the request as such is an error of its own, and so is an empty key value. What else is wrong with
one action at its table (a key of another type, a missing key) cancels the transaction, with a reason at the action's
place; such a transaction never reaches the log.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from ....log.commands import Action, Check, Context, Delete, Expression, Put, Transact, Update
from ....materializer.fold.outcomes import Outcome, Transacted, TransactionRefused
from ....materializer.fold.storage import Stored
from ....materializer.partition import ResultPosition
from ....model.errors import Reason, RequestError, TransactionCanceledError, ValidationError
from ....model.limits import Limits
from ....model.tables import TableDefinition, empty_key_of_item_error, index_key_error
from ....model.values import check_item, dump
from ...auth.rights import Demand, Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..reply import Reply
from ..response_json import EMPTY, Consumed, array, collection_metrics, consumed_each, members, quoted
from .transact_get_items import MULTIPLE, TOO_LARGE

_DEMANDED = {
    "ConditionCheck": ("dynamodb:ConditionCheckItem", Right.READ),
    "Put": ("dynamodb:PutItem", Right.WRITE),
    "Update": ("dynamodb:UpdateItem", Right.WRITE),
    "Delete": ("dynamodb:DeleteItem", Right.WRITE),
}
_ONE_OF = "TransactItems can only contain one of Check, Put, Update or Delete"


class _Asked(NamedTuple):
    """One action, checked as far as it can be without its table; `size` is that of its item or key."""

    kind: str
    request: dict[str, Any]
    size: int
    expression: Expression | None
    expression_bytes: int


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    for actions in body["TransactItems"]:
        for kind, (action, right) in _DEMANDED.items():
            if request := actions.get(kind):
                yield action, right, request["TableName"]


@operation("TransactWriteItems", _demands)
def transact_write_items(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Check the request, and have the transaction folded as one command."""
    limits = database.limits
    asked = [_asked(item, limits) for item in body["TransactItems"]]
    definitions = [database.table(one.request["TableName"]).definition for one in asked]
    size = sum(one.size + one.expression_bytes for one in asked)
    if size > limits.transaction_bytes:
        raise ValidationError(TOO_LARGE)
    context = reply.context
    actions = _actions(asked, definitions, context, limits)
    token = body.get("ClientRequestToken")
    command = Transact(actions, context, token, b"" if token is None else fingerprint(body))
    answer = partial(_answer, body, reply, definitions, actions)
    submit = partial(database.partition.submit, command, size + 256 * len(actions), answer)
    _look_at_little(database, actions, reply, submit)


def fingerprint(body: dict[str, Any]) -> bytes:
    """What must be the same for a ClientRequestToken to mean the same request."""
    canonical = orjson.dumps(body["TransactItems"], option=orjson.OPT_SORT_KEYS)
    return blake2b(canonical, digest_size=16).digest()


def _asked(item: dict[str, Any], limits: Limits) -> _Asked:
    if len(item) != 1:
        raise ValidationError(_ONE_OF)
    ((kind, request),) = item.items()
    values_bytes = parameters.check(request, limits)
    size = check_item(request["Item" if kind == "Put" else "Key"], limits)
    expression = parameters.write_expression(request, limits)
    return _Asked(kind, request, size, expression, parameters.written_bytes(expression, values_bytes))


def _actions(
    asked: list[_Asked], definitions: list[TableDefinition], context: Context, limits: Limits
) -> list[Action]:
    for one, definition in zip(asked, definitions, strict=True):
        _refuse_empty_key(one, definition)
    actions: list[Action] = []
    reasons = []
    for one, definition in zip(asked, definitions, strict=True):
        try:
            actions.append(_action(one, definition, context, limits))
            reasons.append(Reason("None"))
        except ValidationError as error:
            reasons.append(Reason("ValidationError", error.message))
    if len({(action.table, action.pk, action.sk) for action in actions}) < len(actions):
        raise ValidationError(MULTIPLE)
    if len(actions) < len(asked):
        raise TransactionCanceledError(reasons)
    return actions


def _refuse_empty_key(one: _Asked, definition: TableDefinition) -> None:
    """Refuse the whole request for an empty key value, before any reason to cancel is looked for.

    Raises:
        ValidationError: A key attribute of the action, of the table or in a put of an index, is empty.
    """
    if one.kind == "Put":
        error = empty_key_of_item_error(definition, one.request["Item"])
    else:
        error = definition.key.emptiness_error(one.request["Key"])
    if error is not None:
        raise error


def _look_at_little(
    database: Database, actions: list[Action], reply: Reply, go_on: Callable[[], None]
) -> None:
    """Go on, unless there are more than 4 MB of items that conditions and updates have to look at, as they are now.

    The items that are written count in the fold. These count here, because a hundred checks of the largest items
    would keep everybody else waiting for seconds.
    """
    limits = database.limits
    looking = [action for action in actions if isinstance(action, Update) or action.expression is not None]
    if len(looking) * limits.item_bytes <= limits.transaction_bytes:
        go_on()
        return

    def found(items: list[Stored | None] | RequestError, place: ResultPosition) -> None:
        if isinstance(items, RequestError):
            reply.error(items, place)
        elif sum(stored[1] for stored in items if stored is not None) > limits.transaction_bytes:
            reply.error(ValidationError(TOO_LARGE), place)
        else:
            go_on()

    database.partition.get_all([(action.table, action.pk, action.sk) for action in looking], False, found)


def _action(one: _Asked, definition: TableDefinition, context: Context, limits: Limits) -> Action:
    request, expression = one.request, one.expression
    show = write_requests.shows_refused(request)
    write_requests.check_key_paths(definition, expression)
    if one.kind == "Put":
        return _put(one, definition, context, limits)
    pk, sk = definition.key.read_key(request["Key"], limits)
    if one.kind == "Update":
        return Update(definition.id, pk, sk, context, expression, show_refused=show)
    if one.kind == "Delete":
        return Delete(definition.id, pk, sk, context, expression, show_refused=show)
    return Check(definition.id, pk, sk, context, expression, show)


def _put(one: _Asked, definition: TableDefinition, context: Context, limits: Limits) -> Put:
    item = one.request["Item"]
    pk, sk = definition.key.item_key(item, limits)
    if definition.indexes and (error := index_key_error(definition, item, limits)) is not None:
        raise error
    show = write_requests.shows_refused(one.request)
    return Put(
        definition.id, pk, sk, dump(item), one.size, context, one.expression, show_refused=show, parsed=item
    )


def _answer(
    body: dict[str, Any],
    reply: Reply,
    definitions: list[TableDefinition],
    actions: list[Action],
    outcome: Outcome,
    position: ResultPosition,
) -> None:
    if isinstance(outcome, Transacted):
        reply.ok(_transacted(body, definitions, actions, outcome), position)
        return
    error = outcome.error if isinstance(outcome, TransactionRefused) else write_requests.refusal(outcome)
    assert error is not None, "a transaction has another outcome"
    reply.error(error, position)


def _transacted(
    body: dict[str, Any], definitions: list[TableDefinition], actions: list[Action], outcome: Transacted
) -> bytes:
    if "ReturnConsumedCapacity" not in body and "ReturnItemCollectionMetrics" not in body:
        return EMPTY
    tables: dict[int, Consumed] = {}
    for name, definition, applied in zip(_names(body), definitions, outcome.actions, strict=True):
        consumed = Consumed(name, kind="Read" if outcome.replayed else "Write")
        tables.setdefault(definition.id, consumed).add(applied.units)
    return members(consumed_each(body, tables.values()), _metrics(body, definitions, actions, outcome))


def _names(body: dict[str, Any]) -> list[str]:
    """What the request calls the table of each action."""
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
