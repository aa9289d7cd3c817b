"""Convert legacy parameters to the trees of expressions.

Expected, QueryFilter and ScanFilter become conditions, AttributeUpdates an update, KeyConditions a key
condition, AttributesToGet a projection. Their values get placeholders without a colon (`0`, `1`, ...). A
client's placeholders begin with a colon, so KeyConditions can be used together with a FilterExpression.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..model.errors import ValidationError
from ..model.limits import MODERN, Limits
from ..model.values import Value, check_value
from .conditions import Condition
from .key_conditions import KeyCondition, KeyTerm
from .operands import ordered
from .plans import Plan
from .projections import CompiledProjection
from .tree import (
    AddAction,
    Among,
    And,
    Between,
    Call,
    Comparison,
    ConditionNode,
    DeleteAction,
    Not,
    Or,
    Path,
    Reference,
    RemoveAction,
    SetAction,
    UpdateAction,
)
from .updates import CompiledUpdate

_INVALID: Final = "One or more parameter values were invalid: "
_SCALARS: Final = frozenset({"S", "N", "B"})
_SETS: Final = frozenset({"SS", "NS", "BS"})
_COMPARATORS: Final = {"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_KEY_OPERATORS: Final = {**_COMPARATORS, "NE": "NE", "BEGINS_WITH": "begins_with"}
_FUNCTIONS: Final = {
    "NULL": "attribute_not_exists",
    "NOT_NULL": "attribute_exists",
    "CONTAINS": "contains",
    "NOT_CONTAINS": "contains",
    "BEGINS_WITH": "begins_with",
}
_TYPES: Final = {
    **dict.fromkeys(("LT", "LE", "GT", "GE", "IN", "BETWEEN"), _SCALARS),
    **dict.fromkeys(("CONTAINS", "NOT_CONTAINS"), _SCALARS | {"BOOL", "NULL"}),
    "BEGINS_WITH": frozenset({"S", "B"}),
}


class LegacyPlan(NamedTuple):
    """A plan, and the values of its placeholders."""

    plan: Plan
    values: dict[str, Value]


class _Values:
    """Validates the values of legacy parameters, and gives each a placeholder."""

    __slots__ = ("limits", "named")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.named: dict[str, Value] = {}

    def add(self, value: Value) -> Reference:
        name = str(len(self.named))
        self.named[name] = value
        return Reference(name)

    def check(self, value: Any) -> Value:
        check_value(value, self.limits)
        checked: Value = value
        return checked


def compile_legacy(
    *,
    expected: Mapping[str, Any] | None = None,
    conditional_operator: str | None = None,
    attribute_updates: Mapping[str, Any] | None = None,
    key_conditions: Mapping[str, Any] | None = None,
    query_filter: Mapping[str, Any] | None = None,
    scan_filter: Mapping[str, Any] | None = None,
    attributes_to_get: Sequence[str] | None = None,
    limits: Limits = MODERN,
    absent_contains_nothing: bool = False,
) -> LegacyPlan:
    """Compile a request's legacy parameters. Their values are checked and made canonical in place.

    With `absent_contains_nothing`, NOT_CONTAINS in `expected` is true for an attribute that does not exist.

    Raises:
        ValidationError: A parameter is invalid.
    """
    values = _Values(limits)
    _check_operator(conditional_operator, expected, query_filter, scan_filter)
    update = None if attribute_updates is None else _update(attribute_updates, values)
    condition = _expected(expected or {}, conditional_operator, values, absent_contains_nothing)
    filter_ = _filter("QueryFilter", query_filter or {}, conditional_operator, values) or _filter(
        "ScanFilter", scan_filter or {}, conditional_operator, values
    )
    projection = None if attributes_to_get is None else _projection(attributes_to_get)
    key = None if key_conditions is None else _key_condition(key_conditions, values)
    return LegacyPlan(Plan(condition, filter_, key, update, projection), values.named)


def _check_operator(operator: str | None, *conditions: Mapping[str, Any] | None) -> None:
    if operator is None:
        return
    largest = max(len(condition or {}) for condition in conditions)
    if largest == 0:
        raise ValidationError("ConditionalOperator cannot be used without Filter or Expected")
    if largest == 1:
        raise ValidationError(
            "ConditionalOperator can only be used when Filter or Expected has two or more elements"
        )


def _joined(parameter: str, terms: Mapping[str, ConditionNode], operator: str | None) -> Condition | None:
    if not terms:
        return None
    nodes = tuple(terms.values())
    joined = nodes[0] if len(nodes) == 1 else Or(nodes) if operator == "OR" else And(nodes)
    return Condition(parameter, joined, tuple(terms))


def _expected(
    expected: Mapping[str, Any], operator: str | None, values: _Values, absent_contains_nothing: bool
) -> Condition | None:
    terms = {name: _expectation(name, clause, values) for name, clause in expected.items()}
    for name, clause in expected.items():
        if clause.get("ComparisonOperator") == "NOT_CONTAINS" and not absent_contains_nothing:
            terms[name] = And((Call("attribute_exists", (Path((name,)),)), terms[name]))
    return _joined("Expected", terms, operator)


def _expectation(name: str, clause: Mapping[str, Any], values: _Values) -> ConditionNode:
    """Convert one attribute of Expected, with a ComparisonOperator or with Value and Exists."""
    value, listed = clause.get("Value"), clause.get("AttributeValueList")
    exists, comparison = clause.get("Exists"), clause.get("ComparisonOperator")
    if value is not None and listed is not None:
        raise ValidationError(
            f"{_INVALID}Value and AttributeValueList cannot be used together for Attribute: {name}"
        )
    if comparison is not None:
        if exists is not None:
            raise ValidationError(
                f"{_INVALID}Exists and ComparisonOperator cannot be used together for Attribute: {name}"
            )
        if value is None and listed is None and comparison not in ("NULL", "NOT_NULL"):
            raise ValidationError(
                f"{_INVALID}Value or AttributeValueList must be used with ComparisonOperator: {comparison} "
                f"for Attribute: {name}"
            )
        operands = listed if listed is not None else [] if value is None else [value]
        return _term(name, comparison, operands, values)
    if listed is not None:
        raise ValidationError(
            f"{_INVALID}AttributeValueList can only be used with a ComparisonOperator for Attribute: {name}"
        )
    if exists is False:
        if value is not None:
            raise ValidationError(
                f"{_INVALID}Value cannot be used when Exists is false for Attribute: {name}"
            )
        return Call("attribute_not_exists", (Path((name,)),))
    if value is None:
        shown = "null" if exists is None else "true"
        raise ValidationError(
            f"{_INVALID}Value must be provided when Exists is {shown} for Attribute: {name}"
        )
    return Comparison("=", Path((name,)), values.add(values.check(value)))


def _filter(
    parameter: str, clauses: Mapping[str, Any], operator: str | None, values: _Values
) -> Condition | None:
    terms = {
        name: _term(name, clause["ComparisonOperator"], clause.get("AttributeValueList") or [], values)
        for name, clause in clauses.items()
    }
    return _joined(parameter, terms, operator)


def _term(name: str, comparison: str, operands: Sequence[Any], values: _Values) -> ConditionNode:
    """Convert the comparison of an attribute by one of the thirteen operators."""
    _check_operands(comparison, operands, values)
    path = Path((name,))
    references = tuple(values.add(operand) for operand in operands)
    if comparison in _COMPARATORS:
        return Comparison(_COMPARATORS[comparison], path, references[0])
    if comparison == "BETWEEN":
        return Between(path, references[0], references[1])
    if comparison == "IN":
        return Among(path, references)
    call = Call(_FUNCTIONS[comparison], (path, *references))
    return Not(call) if comparison == "NOT_CONTAINS" else call


def _check_operands(comparison: str, operands: Sequence[Any], values: _Values) -> None:
    for operand in operands:
        values.check(operand)
    count = len(operands)
    right = {"NULL": count == 0, "NOT_NULL": count == 0, "BETWEEN": count == 2, "IN": count > 0}
    if not right.get(comparison, count == 1):
        raise ValidationError(
            f"{_INVALID}Invalid number of argument(s) for the {comparison} ComparisonOperator"
        )
    types = [next(iter(operand)) for operand in operands]
    if any(type_name != types[0] for type_name in types):
        raise ValidationError(f"{_INVALID}AttributeValues inside AttributeValueList must be of same type")
    allowed = _TYPES.get(comparison)
    if allowed is not None and types[0] not in allowed:
        raise ValidationError(
            f"{_INVALID}ComparisonOperator {comparison} is not valid for {types[0]} AttributeValue type"
        )
    if comparison == "BETWEEN" and (ordered(operands[0], operands[1]) or 0) > 0:
        raise ValidationError(
            "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"
        )


def _key_condition(clauses: Mapping[str, Any], values: _Values) -> KeyCondition:
    terms = []
    for name, clause in clauses.items():
        comparison, operands = clause["ComparisonOperator"], clause.get("AttributeValueList") or []
        _check_operands(comparison, operands, values)
        references = tuple(values.add(operand).name for operand in operands)
        terms.append(KeyTerm(name, _KEY_OPERATORS.get(comparison, comparison), references))
    if not terms:
        raise ValidationError("Conditions can be of length 1 or 2 only")
    return KeyCondition(tuple(terms))


def _update(updates: Mapping[str, Any], values: _Values) -> CompiledUpdate:
    actions = tuple(_action(name, clause, values) for name, clause in updates.items())
    targets = CompiledProjection({name: index for index, name in enumerate(updates)})
    return CompiledUpdate(actions, targets, targets.attributes, legacy=True)


def _action(name: str, clause: Mapping[str, Any], values: _Values) -> UpdateAction:
    path, action, value = Path((name,)), clause.get("Action") or "PUT", clause.get("Value")
    if value is None:
        if action != "DELETE":
            raise ValidationError(
                f"{_INVALID}Only DELETE action is allowed when no attribute value is specified"
            )
        return RemoveAction(path)
    type_name = next(iter(values.check(value)))
    if action == "PUT":
        return SetAction(path, values.add(value))
    if action == "DELETE":
        if type_name not in _SETS:
            raise ValidationError(
                f"{_INVALID}DELETE action with value is not supported for the type {type_name}"
            )
        return DeleteAction(path, values.add(value))
    if type_name not in _SETS and type_name not in ("N", "L"):
        raise ValidationError(f"{_INVALID}ADD action is not supported for the type {type_name}")
    return AddAction(path, values.add(value))


def _projection(names: Sequence[str]) -> CompiledProjection:
    steps: dict[str | int, Any] = {}
    for index, name in enumerate(names):
        if name in steps:
            raise ValidationError(f"{_INVALID}Duplicate value in attribute name: {name}")
        steps[name] = index
    return CompiledProjection(steps)
