"""Compile a statement that writes, or checks a condition, to one action of TransactWriteItems.

    INSERT     Put      if no item has the key
    UPDATE     Update   if an item has the key, and meets the rest of WHERE
    DELETE     Delete   if no item has the key, or it meets the rest of WHERE
    EXISTS     ConditionCheck

WHERE has an equality for each attribute of the key, joined by AND with the rest.
"""

from typing import Any, NamedTuple

from ...model.errors import ValidationError
from ...model.key_schema import KeySchema
from ...model.values import Item
from ..tree import And, Call, Comparison, ConditionNode, Or, Path, Reference
from .rendering import Renderer
from .statements import Bound, Delete, Exists, Insert, KeyMismatchError, Update

INCOMPLETE_KEY = "Where clause does not contain a mandatory equality on all key attributes"
_NO_INDEX = "This operation is not supported on an index"
_NO_CONDITION = "EXISTS() must contain a single item read with additional condition"


class WriteAction(NamedTuple):
    """A write: the kind of the action, its request, and ReturnValues, which an action of a transaction has not.

    `inserts` is whether a failed condition means that the item exists.
    """

    kind: str
    request: dict[str, Any]
    inserts: bool = False


def action_of(bound: Bound, schema: KeySchema) -> WriteAction:
    """Return the action of a statement for a table with a key schema.

    Raises:
        ValidationError: WHERE does not name one item of the table.
    """
    kind = bound.kind
    if isinstance(kind, Insert):
        return _put(kind, bound, schema)
    assert isinstance(kind, Update | Delete | Exists), "a SELECT is no write"
    if kind.index is not None:
        raise ValidationError(
            "Operations on indices are not supported in transactions"
            if isinstance(kind, Exists)
            else _NO_INDEX
        )
    where = kind.select.where if isinstance(kind, Exists) else kind.where
    key, rest = _split(where, bound, schema, is_check=isinstance(kind, Exists))
    renderer = Renderer(bound.values)
    request: dict[str, Any] = {"TableName": kind.table, "Key": key}
    exists = Path((schema.names[0],))
    if isinstance(kind, Update):
        request["UpdateExpression"] = renderer.update(kind.actions)
        condition: ConditionNode | None = _all([Call("attribute_exists", (exists,)), *rest])
        action = "Update"
    elif isinstance(kind, Delete):
        condition = Or((Call("attribute_not_exists", (exists,)), _all(rest))) if rest else None
        action = "Delete"
    else:
        condition, action = _all(rest), "ConditionCheck"
    if condition is not None:
        request["ConditionExpression"] = renderer.condition(condition)
    if not isinstance(kind, Exists) and kind.returning != "NONE":
        request["ReturnValues"] = kind.returning
    return WriteAction(action, request | renderer.substitutions())


def _put(insert: Insert, bound: Bound, schema: KeySchema) -> WriteAction:
    request: dict[str, Any] = {
        "TableName": insert.table,
        "Item": {name: bound.values[reference.name] for name, reference in insert.item},
        "ConditionExpression": "attribute_not_exists(#n0)",
        "ExpressionAttributeNames": {"#n0": schema.names[0]},
    }
    return WriteAction("Put", request, inserts=True)


def _split(
    where: ConditionNode | None, bound: Bound, schema: KeySchema, *, is_check: bool
) -> tuple[Item, list[ConditionNode]]:
    """Separate the equalities of the key from the rest of a WHERE."""
    key: Item = {}
    rest: list[ConditionNode] = []
    for term in and_terms(where):
        name, reference = equality(term)
        if reference is None or name not in schema.names:
            rest.append(term)
            continue
        value = bound.values[reference.name]
        if name not in key:
            key[name] = value
        elif key[name] != value:
            if not is_check:
                raise KeyMismatchError(
                    f"Multiple conditions on same key {name}. Only single item Update/Insert/Delete are supported"
                )
            rest.append(term)
    if len(key) < len(schema.names):
        raise ValidationError(_NO_CONDITION) if is_check else KeyMismatchError(INCOMPLETE_KEY)
    if is_check and not rest:
        raise ValidationError(_NO_CONDITION)
    return key, rest


def and_terms(node: ConditionNode | None) -> list[ConditionNode]:
    """Return the terms of nested ANDs, in order."""
    if node is None:
        return []
    if isinstance(node, And):
        return [each for term in node.terms for each in and_terms(term)]
    return [node]


def equality(node: ConditionNode) -> tuple[str, Reference | None]:
    """Return the attribute and the value of `attribute = value`, in either order; no value for other conditions."""
    if isinstance(node, Comparison) and node.operator == "=":
        for path, value in ((node.left, node.right), (node.right, node.left)):
            if isinstance(path, Path) and len(path.parts) == 1 and isinstance(value, Reference):
                return path.attribute, value
    return "", None


def _all(terms: list[ConditionNode]) -> ConditionNode:
    return terms[0] if len(terms) == 1 else And(tuple(terms))
