"""The facts of requests on items, which conditions of policies test.

    demand ──► classic requests: reads and writes of items ──► leading keys, attributes, Select, ReturnValues

They are computed when a condition first needs them, so a request to a table without policies does not pay for them.
A malformed request has no facts: it is refused with its ValidationError.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from ... import expressions
from ...model.key_schema import KeyAttribute
from ...model.limits import Limits
from ...model.tables import TableDefinition
from ...model.values import Value, check_item, check_value, check_values
from ..auth.conditions import LEADING_KEYS, Facts
from ..auth.rights import FactsOf, ItemDemand

_ATTRIBUTES, _SELECT = "dynamodb:attributes", "dynamodb:select"
_RETURN_VALUES, _CONSUMED = "dynamodb:returnvalues", "dynamodb:returnconsumedcapacity"
_OPERATION, _FULL_SCAN = "dynamodb:enclosingoperation", "dynamodb:fulltablescan"

_PROJECTIONS: Final = frozenset(("ProjectionExpression", "AttributesToGet"))
_EXPRESSIONS: Final = {
    "condition": "ConditionExpression",
    "filter": "FilterExpression",
    "key_condition": "KeyConditionExpression",
    "projection": "ProjectionExpression",
    "update": "UpdateExpression",
}
# Legacy parameters whose members are attributes.
_BY_ATTRIBUTE: Final = ("AttributeUpdates", "Expected", "KeyConditions", "QueryFilter", "ScanFilter")

_READS: Final = frozenset(("GetItem", "Query", "Scan"))
_PAGES: Final = frozenset(("Query", "Scan"))


class Classic(NamedTuple):
    """A request of an operation on one item or page, or an action of a transaction.

    Attributes:
        kind: The name of the operation, or Put, Update, Delete or ConditionCheck.
        request: Its members.
    """

    kind: str
    request: dict[str, Any]


class _Collected:
    """The facts of several requests to one table."""

    def __init__(self, definition: TableDefinition, limits: Limits) -> None:
        self._definition = definition
        self._limits = limits
        self._values: dict[str, dict[str, None]] = {}

    def add(self, classic: Classic) -> None:
        """Add the facts of a request.

        Raises:
            ValidationError: The request is malformed.
        """
        kind, request = classic
        partition = self._definition.key.partition
        if "IndexName" in request:
            index = self._definition.index(request["IndexName"])
            partition = () if index is None else index.key.partition
        if "ExpressionAttributeValues" in request:
            check_values(request["ExpressionAttributeValues"], self._limits)
        plan = expressions.compile(
            **{name: request.get(member) for name, member in _EXPRESSIONS.items()},
            names=request.get("ExpressionAttributeNames"),
            values=request.get("ExpressionAttributeValues"),
            limits=self._limits,
        )
        self._add_keys(partition, _key_values(request, plan))
        self._add_all(_ATTRIBUTES, _attributes(request, plan))
        if kind in _READS:
            self._add_all(_SELECT, (_select(kind, request),))
        else:
            self._add_all(_RETURN_VALUES, _return_values(request))

    def add_write(self, item: dict[str, Value]) -> None:
        """Add the facts of a write in a batch, of which the item or key is known and which has no parameters."""
        self._add_keys(self._definition.key.partition, item)
        self._add_all(_ATTRIBUTES, item)

    def set(self, key: str, value: str | None) -> None:
        """Set the only value of a fact."""
        if value is not None:
            self._values[key] = {value: None}

    def facts(self) -> Facts:
        """Return the facts of all requests."""
        facts = {key: tuple(values) for key, values in self._values.items()}
        first = facts.get(LEADING_KEYS[0])
        return facts if first is None else facts | {"dynamodb:leadingkeys": first}

    def _add_all(self, key: str, values: Iterable[str]) -> None:
        self._values.setdefault(key, {}).update(dict.fromkeys(values))

    def _add_keys(self, partition: tuple[KeyAttribute, ...], values: Mapping[str, Value]) -> None:
        for key, attribute in zip(LEADING_KEYS, partition, strict=False):
            value = values.get(attribute.name)
            if value is not None:
                check_value(value, self._limits)  # makes a number canonical
                self._add_all(key, map(str, value.values()))


def _key_values(request: dict[str, Any], plan: expressions.Plan) -> Mapping[str, Value]:
    """Return the values of attributes that a request fixes: those of its item or key, or of its key condition."""
    if plan.key_condition is not None:
        values = request.get("ExpressionAttributeValues", {})
        return {
            term.attribute: values[term.values[0]]
            for term in plan.key_condition.terms
            if term.operator == "="
        }
    if "KeyConditions" in request:
        return {
            name: condition["AttributeValueList"][0]
            for name, condition in request["KeyConditions"].items()
            if condition.get("ComparisonOperator") == "EQ" and condition.get("AttributeValueList")
        }
    found: dict[str, Value] = request.get("Key") or request.get("Item") or {}
    return found


def _attributes(request: dict[str, Any], plan: expressions.Plan) -> Iterator[str]:
    for part in (plan.condition, plan.filter, plan.key_condition, plan.projection, plan.update):
        if part is not None:
            yield from part.attributes
    yield from request.get("Key", ())
    yield from request.get("Item", ())
    yield from request.get("AttributesToGet", ())
    for member in _BY_ATTRIBUTE:
        yield from request.get(member, ())


def _select(kind: str, request: dict[str, Any]) -> str:
    """Return the Select of the request, or its default."""
    if "Select" in request and kind in _PAGES:
        return str(request["Select"])
    if not _PROJECTIONS.isdisjoint(request):
        return "SPECIFIC_ATTRIBUTES"
    return "ALL_PROJECTED_ATTRIBUTES" if "IndexName" in request else "ALL_ATTRIBUTES"


def _return_values(request: dict[str, Any]) -> Iterator[str]:
    """Yield ReturnValues, and ALL_OLD if the answer to a failed condition has the item."""
    yield request.get("ReturnValues", "NONE")
    if request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
        yield "ALL_OLD"


def facts_of_classics(
    demand: ItemDemand, classics: Iterable[Classic], definition: TableDefinition, limits: Limits
) -> Facts:
    """Return the facts of the requests of a demand.

    Raises:
        ValidationError: A request is malformed.
    """
    collected = _Collected(definition, limits)
    kinds = []
    for classic in classics:
        collected.add(classic)
        kinds.append(classic.kind)
    return _with_common(demand, collected, is_full_scan="Scan" in kinds)


def _with_common(demand: ItemDemand, collected: _Collected, *, is_full_scan: bool = False) -> Facts:
    whole = demand.request if demand.enclosing is None else demand.enclosing
    collected.set(_CONSUMED, whole.get("ReturnConsumedCapacity", "NONE"))
    collected.set(_OPERATION, demand.operation)
    if demand.action == "dynamodb:PartiQLSelect":
        collected.set(_FULL_SCAN, str(is_full_scan).lower())
    return collected.facts()


def facts_of_request(kind: str, demand: ItemDemand, definition: TableDefinition, limits: Limits) -> Facts:
    """Return the facts of a request of one operation, or of an action of a transaction."""
    return facts_of_classics(demand, [Classic(kind, demand.request)], definition, limits)


def facts_of_batch_get(demand: ItemDemand, definition: TableDefinition, limits: Limits) -> Facts:
    """Return the facts of the reads of one table in a BatchGetItem."""
    request = demand.request
    reads = [Classic("GetItem", {**request, "Key": key}) for key in request["Keys"]]
    return facts_of_classics(demand, reads, definition, limits)


def facts_of_batch_write(demand: ItemDemand, definition: TableDefinition, limits: Limits) -> Facts:
    """Return the facts of the writes to one table in a BatchWriteItem, which has neither Select nor ReturnValues."""
    collected = _Collected(definition, limits)
    for write in demand.request:
        for request in write.values():
            item = request.get("Item") or request.get("Key") or {}
            check_item(item, limits)
            collected.add_write(item)
    return _with_common(demand, collected)


FACTS: Final[dict[str, FactsOf]] = {
    kind: partial(facts_of_request, kind)
    for kind in ("DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem")
}
"""The facts of the operations on one item or page."""
