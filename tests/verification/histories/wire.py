"""Operations as requests to DynamoDB, and its answers as results.

An answer has one of three meanings: the request was applied (or refused by a condition), it was not and never will
be, or it is unknown. Any other answer is a fault of the test.
"""

from typing import Any

from tests.verification.histories.history import Step
from tests.verification.histories.model import OPENING_BALANCE, Refused
from tests.verification.histories.workload import PAGE

TABLE = "Histories"

UNREAD = object()
"""The result of a step whose item a page does not reach."""

_RETURN_OLD = "ReturnValuesOnConditionCheckFailure"
_NOT_TAKEN = frozenset(
    (
        "ThrottlingException",
        "RequestLimitExceeded",
        "ProvisionedThroughputExceededException",
        "TransactionConflictException",
        "TransactionInProgressException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    )
)


class UnexpectedError(Exception):
    """An answer that none of these requests should get."""


def request(steps: tuple[Step, ...], consistent: bool) -> tuple[str, dict[str, Any]]:
    """Return the operation and the body of a request; `consistent` is for a read of one item."""
    verbs = {step.verb for step in steps}
    if len(steps) == 1 and steps[0].verb in _SINGLES and steps[0].argument is not PAGE:
        operation, body = _SINGLES[steps[0].verb], _single(steps[0])
        if operation == "GetItem":
            body["ConsistentRead"] = consistent
        return operation, body
    if steps[0].argument is PAGE:
        return "Scan", {"TableName": TABLE, "ConsistentRead": True}
    if verbs == {"get"}:
        return "TransactGetItems", {"TransactItems": [{"Get": _at(step.key)} for step in steps]}
    return "TransactWriteItems", {"TransactItems": [_action(step) for step in steps]}


def reported(steps: tuple[Step, ...], status: int, body: Any) -> tuple[Any, ...] | None:
    """Return the result of each step; None if the request was not applied.

    Raises:
        UnexpectedError: The answer is neither. (A 500 is not passed to this function: its result is unknown.)
    """
    if status == 200:
        if "Responses" in body:
            found = zip(steps, body["Responses"], strict=True)
            return tuple(_state(step.key, one.get("Item")) for step, one in found)
        if "Items" in body:
            return _found(steps, body)
        return tuple(_told(step, body) for step in steps)
    error = body.get("__type", "").rpartition("#")[2]
    if error == "ConditionalCheckFailedException":
        return (Refused(_state(steps[0].key, body.get("Item"))),)
    if error == "TransactionCanceledException":
        reasons = body["CancellationReasons"]
        codes = {reason["Code"] for reason in reasons}
        if codes == {"None", "ConditionalCheckFailed"} or codes == {"ConditionalCheckFailed"}:
            return tuple(_reason(step, reason) for step, reason in zip(steps, reasons, strict=True))
        if "TransactionConflict" in codes:
            return None
    if status == 503 or error in _NOT_TAKEN:
        return None
    raise UnexpectedError(f"{steps}: {status} {body}")


def read_part(
    steps: tuple[Step, ...], reported: tuple[Any, ...]
) -> tuple[tuple[Step, ...], tuple[Any, ...] | None]:
    """Return the steps that a page has answered, with their results; None if it has answered none of them."""
    pairs = [pair for pair in zip(steps, reported, strict=True) if pair[1] is not UNREAD]
    if not pairs:
        return steps, None
    return tuple(step for step, _ in pairs), tuple(result for _, result in pairs)


def _found(steps: tuple[Step, ...], page: dict[str, Any]) -> tuple[Any, ...]:
    """Return the result of each step in the first page of a Scan; UNREAD if a later page may have the item."""
    items = {item["pk"]["S"]: item for item in page["Items"]}
    missing = "LastEvaluatedKey" not in page
    return tuple(
        _state(step.key, items.get(step.key)) if missing or step.key in items else UNREAD for step in steps
    )


def _at(key: str) -> dict[str, Any]:
    return {"TableName": TABLE, "Key": {"pk": {"S": key}}}


def _single(step: Step) -> dict[str, Any]:
    key, verb, argument = step
    match verb:
        case "get":
            return _at(key)
        case "put":
            return _item(key, argument)
        case "swap":
            return _item(key, argument) | {"ReturnValues": "ALL_OLD"}
        case "put_if":
            expected, version = argument
            return _item(key, version) | {_RETURN_OLD: "ALL_OLD"} | _version_is(expected)
        case "set":
            return _at(key) | {
                "UpdateExpression": "SET v = :v",
                "ExpressionAttributeValues": {":v": _number(argument)},
                "ReturnValues": "ALL_OLD",
            }
        case "add":
            return _at(key) | {
                "UpdateExpression": "ADD n :n",
                "ExpressionAttributeValues": {":n": _number(argument)},
                "ReturnValues": "UPDATED_NEW",
            }
        case _:
            return _at(key) | {"ReturnValues": "ALL_OLD"}


def _action(step: Step) -> dict[str, Any]:
    key, verb, argument = step
    if verb == "append":
        return {
            "Update": _at(key)
            | {
                "UpdateExpression": "SET l = list_append(if_not_exists(l, :none), :one)",
                "ExpressionAttributeValues": {":none": {"L": []}, ":one": {"L": [_number(argument)]}},
            }
        }
    if verb == "move":
        update: dict[str, Any] = _at(key) | {
            "UpdateExpression": "SET b = if_not_exists(b, :opening) + :amount",
            "ExpressionAttributeValues": {":opening": _number(OPENING_BALANCE), ":amount": _number(argument)},
        }
        if argument < 0:
            assert -argument <= OPENING_BALANCE, "the condition takes it that a new account holds enough"
            update["ConditionExpression"] = "attribute_not_exists(b) OR b >= :least"
            update["ExpressionAttributeValues"][":least"] = _number(-argument)
            update[_RETURN_OLD] = "ALL_OLD"
        return {"Update": update}
    condition = "size(l) = :size" if argument else "attribute_not_exists(l)"
    check = _at(key) | {"ConditionExpression": condition, _RETURN_OLD: "ALL_OLD"}
    if argument:
        check["ExpressionAttributeValues"] = {":size": _number(argument)}
    return {"ConditionCheck": check}


def _item(key: str, version: int) -> dict[str, Any]:
    return {"TableName": TABLE, "Item": {"pk": {"S": key}, "v": _number(version)}}


def _version_is(expected: int | None) -> dict[str, Any]:
    if expected is None:
        return {"ConditionExpression": "attribute_not_exists(v)"}
    return {
        "ConditionExpression": "v = :expected",
        "ExpressionAttributeValues": {":expected": _number(expected)},
    }


def _number(number: int) -> dict[str, str]:
    return {"N": str(number)}


def _told(step: Step, body: dict[str, Any]) -> Any:
    match step.verb:
        case "get":
            return _state(step.key, body.get("Item"))
        case "swap" | "set" | "delete":
            return _state(step.key, body.get("Attributes"))
        case "add":
            return int(body["Attributes"]["n"]["N"])
        case _:
            return None


def _reason(step: Step, reason: dict[str, Any]) -> Refused | None:
    return None if reason["Code"] == "None" else Refused(_state(step.key, reason.get("Item")))


def _state(key: str, item: dict[str, Any] | None) -> Any:
    """Return the state of the model for an item."""
    item = {} if item is None else item
    match key[0]:
        case "r":
            version, number = (int(item[name]["N"]) if name in item else None for name in "vn")
            return (version, number) if item else None
        case "l":
            return tuple(int(one["N"]) for one in item["l"]["L"]) if item else ()
        case _:
            return int(item["b"]["N"]) if item else OPENING_BALANCE


_SINGLES = {
    "get": "GetItem",
    "put": "PutItem",
    "swap": "PutItem",
    "put_if": "PutItem",
    "set": "UpdateItem",
    "add": "UpdateItem",
    "delete": "DeleteItem",
}
