"""Steps of a history as commands of the database, and outcomes as their results.

A step is a request for one item (tests/verification/histories/model.py). Every item except the accounts has a group
in `g`, the key of an index, and most writes move it to another group: so index entries travel between partitions.
"""

from typing import Any

import orjson

from foldb.log.commands import (
    Action,
    Check,
    Command,
    DefineSubscription,
    DefineTable,
    Delete,
    Expression,
    Put,
    SubscriptionOperation,
    Transact,
    Update,
    new_context,
)
from foldb.materializer.fold.outcomes import (
    Applied,
    Failed,
    Outcome,
    Refused,
    Skipped,
    Transacted,
    TransactionRefused,
)
from foldb.model.capacity_partitions import Boundary, partitions_for
from foldb.model.errors import (
    ConditionalCheckFailedError,
    InternalServerError,
    ServiceUnavailableError,
    ThrottlingError,
    TransactionCanceledError,
    TransactionConflictError,
    TransactionInProgressError,
)
from foldb.model.limits import MODERN
from foldb.model.subscriptions.settings import check
from foldb.model.values import check_item, dump, load
from tests.verification.histories.history import Step
from tests.verification.histories.model import OPENING_BALANCE
from tests.verification.histories.model import Refused as NotSo

GROUPS = 3
INDEX = "by_group"
SILENCE = InternalServerError()
"""The answer of a client whose request times out."""
_CONTEXT = new_context("R")
_NONE: dict[str, Any] = {"L": []}


class UnclearError(Exception):
    """It is unknown whether the request was applied."""


class NotDoneError(Exception):
    """The request was not applied and never will be. It may be repeated."""


class UnexpectedError(AssertionError):
    """An answer that no request of the clients should get."""


def command(table: int, steps: tuple[Step, ...], token: str | None) -> Command:
    """Return the command of steps that are not all reads."""
    if token is None:
        action = _action(table, steps[0])
        assert not isinstance(action, Check)
        return action
    actions = [_action(table, step) for step in steps]
    return Transact(actions, _CONTEXT, token, repr(steps).encode())


def reported(steps: tuple[Step, ...], outcome: Outcome) -> tuple[Any, ...]:
    """Return the result of each step in an outcome.

    Raises:
        NotDoneError: The outcome says that the request was not applied.
        UnclearError: The outcome leaves open whether the request was applied.
    """
    match outcome:
        case Applied():
            return (_told(steps[0], outcome),)
        case Transacted():
            return (None,) * len(steps)
        case Refused(error=ConditionalCheckFailedError() as error):
            return (NotSo(state(steps[0].key, error.item)),)
        case TransactionRefused(error=TransactionCanceledError() as error):
            codes = {reason.code for reason in error.reasons}
            if codes <= {"None", "ConditionalCheckFailed"}:
                pairs = zip(steps, error.reasons, strict=True)
                return tuple(
                    None if one.code == "None" else NotSo(state(step.key, one.item)) for step, one in pairs
                )
            if "TransactionConflict" in codes:
                raise NotDoneError
        case (
            Refused(error=TransactionConflictError())
            | Failed(error=ThrottlingError() | ServiceUnavailableError())
        ):
            raise NotDoneError
        case Refused(error=TransactionInProgressError()) | Failed() | Skipped():
            raise UnclearError
    raise UnexpectedError(f"{steps}: {outcome}")


def state(key: str, item: bytes | None) -> Any:
    """Return the state of the model for an item."""
    there = {} if item is None else load(item)
    match key[0]:
        case "r":
            version, number = (int(there[name]["N"]) if name in there else None for name in "vn")
            return (version, number) if there else None
        case "l":
            return tuple(int(one["N"]) for one in there["l"]["L"]) if there else ()
        case _:
            return int(there["b"]["N"]) if there else OPENING_BALANCE


def pk_of(key: str) -> bytes:
    """Return the bytes of a key."""
    return key.encode()


def define(
    operation: str, table: int, request: dict[str, Any], uuid: str, *, settle: bool = False
) -> DefineTable:
    """Return a table command; with `settle` the owner's timer settles it."""
    body = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    return DefineTable(operation, table, body, uuid, _CONTEXT, settle)


def new_table(name: str, *indexes: str) -> dict[str, Any]:
    """Return the request for a table of keys alone, with indexes by group."""
    request: dict[str, Any] = {
        "TableName": name,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [_attribute("pk")],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if indexes:
        request["GlobalSecondaryIndexes"] = [_index(index) for index in indexes]
        request["AttributeDefinitions"].append(_attribute("g"))
    return request


def new_index(name: str, index: str) -> dict[str, Any]:
    """Return the request to add an index by group."""
    return {
        "TableName": name,
        "AttributeDefinitions": [_attribute("pk"), _attribute("g")],
        "GlobalSecondaryIndexUpdates": [{"Create": _index(index)}],
    }


def without_index(name: str, index: str) -> dict[str, Any]:
    """Return the request to delete an index."""
    return {"TableName": name, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": index}}]}


def split(hash_: int) -> dict[str, Any]:
    """Return the request to split an initial capacity partition of a table on demand at a hash."""
    return {
        "Partition": hash_ * partitions_for(12_000, 4_000) >> 64,
        "Boundary": Boundary(hash_).to_json(),
        "Reason": "heat",
        "MinimumAgeMs": 0,
    }


def stream(name: str, *, on: bool) -> dict[str, Any]:
    """Return the request to enable or disable a stream."""
    view = {"StreamViewType": "NEW_IMAGE"} if on else {}
    return {"TableName": name, "StreamSpecification": {"StreamEnabled": on, **view}, "ShardAgeMs": 5000}


def subscribe(name: str, table: str) -> DefineSubscription:
    """Return the command that creates a subscription to a table."""
    return about(name, "Create", **check(name, {"TableNames": [table], "Sink": {"Kind": "python"}}))


def about(name: str, operation: SubscriptionOperation, **request: Any) -> DefineSubscription:
    """Return a command about a subscription."""
    body = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    return DefineSubscription(operation, name, body, "", _CONTEXT)


def group(number: int) -> dict[str, str]:
    """Return the group of an item with this number."""
    return {"S": f"g{number % GROUPS}"}


def put(table: int, key: str, number: int) -> Put:
    """Return a put of an item with a number, in the number's group."""
    item = {"pk": {"S": key}, "v": _number(number), "g": group(number)}
    return Put(table, pk_of(key), b"", dump(item), check_item(item, MODERN), _CONTEXT)


def _attribute(name: str) -> dict[str, str]:
    return {"AttributeName": name, "AttributeType": "S"}


def _index(name: str) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }


def _action(table: int, step: Step) -> Action:
    key, verb, argument = step
    pk = pk_of(key)
    match verb:
        case "put":
            return put(table, key, argument)
        case "swap":
            swap = put(table, key, argument)
            swap.returns = "ALL_OLD"
            return swap
        case "put_if":
            expected, version = argument
            conditional = put(table, key, version)
            conditional.show_refused = True
            conditional.expression = (
                Expression("attribute_not_exists(v)")
                if expected is None
                else Expression("v = :expected", values={":expected": _number(expected)})
            )
            return conditional
        case "set":
            values = {":v": _number(argument), ":g": group(argument)}
            return Update(
                table, pk, b"", _CONTEXT, Expression(None, "SET v = :v, g = :g", values=values), "ALL_OLD"
            )
        case "add":
            values = {":n": _number(argument)}
            return Update(
                table, pk, b"", _CONTEXT, Expression(None, "ADD n :n", values=values), "UPDATED_NEW"
            )
        case "delete":
            return Delete(table, pk, b"", _CONTEXT, returns="ALL_OLD")
        case "append":
            values = {":none": _NONE, ":one": {"L": [_number(argument)]}, ":g": group(argument)}
            text = "SET l = list_append(if_not_exists(l, :none), :one), g = :g"
            return Update(table, pk, b"", _CONTEXT, Expression(None, text, values=values))
        case "move":
            values = {":opening": _number(OPENING_BALANCE), ":amount": _number(argument)}
            condition = None
            if argument < 0:
                condition = "attribute_not_exists(b) OR b >= :least"
                values[":least"] = _number(-argument)
            text = "SET b = if_not_exists(b, :opening) + :amount"
            return Update(
                table, pk, b"", _CONTEXT, Expression(condition, text, values=values), show_refused=True
            )
        case "size":
            expression = (
                Expression("size(l) = :size", values={":size": _number(argument)})
                if argument
                else Expression("attribute_not_exists(l)")
            )
            return Check(table, pk, b"", _CONTEXT, expression, show_refused=True)
    raise AssertionError(f"no such verb: {verb}")


def _number(number: int) -> dict[str, Any]:
    return {"N": str(number)}


def _told(step: Step, outcome: Applied) -> Any:
    match step.verb:
        case "swap" | "set" | "delete":
            return state(step.key, None if outcome.old is None else outcome.old[0])
        case "add":
            assert outcome.new is not None
            return state(step.key, outcome.new[0])[1]
        case _:
            return None
