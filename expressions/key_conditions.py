"""Convert key conditions to ranges of keys.

A key condition compares each of its attributes once, with values only. `key_range` checks the condition against the
key schema and returns bytes.

In a table the sort key's bytes are the value's own. In an index they are a composite (see `model.keys`): the index's
sort attributes, then the table's key. A condition on the first attributes is a range there too.

The checks of other expressions against key attributes, which also need the schema, are here too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ..model import keys
from ..model.errors import ValidationError
from ..model.key_schema import KeyAttribute, KeySchema
from ..model.lazy_dataclass import dataclass
from ..model.values import Value
from .conditions import Condition
from .parse_condition import NO_CHECKS, ValueChecks
from .projections import CompiledProjection
from .tree import Among, And, Between, Call, Comparison, ConditionNode, Not, Operand, Or, Path, Reference
from .updates import CompiledUpdate

_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NOT_INDEXABLE: Final = frozenset({"NE", "NULL", "NOT_NULL", "CONTAINS", "NOT_CONTAINS", "IN"})
_EXPRESSIONS: Final = "Invalid KeyConditionExpression: KeyConditionExpressions"
_PARAMETERS: Final = "One or more parameter values were invalid: "


@dataclass(frozen=True, slots=True)
class KeyTerm:
    """The condition on one attribute: = < <= > >= BETWEEN begins_with, or a legacy operator invalid for keys."""

    attribute: str
    operator: str
    values: tuple[str, ...]  # placeholders


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """The key condition of a Query."""

    terms: tuple[KeyTerm, ...]
    value_checks: ValueChecks = NO_CHECKS

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it names, in order."""
        return tuple(term.attribute for term in self.terms)


class KeyRange(NamedTuple):
    """One partition key, and the sort keys from `low` up to but not including `high`; None for no upper bound."""

    pk: bytes
    low: bytes
    high: bytes | None


def key_condition(tree: ConditionNode, value_checks: ValueChecks) -> KeyCondition:
    """Convert a condition's tree to a key condition.

    Raises:
        ValidationError: The condition is not valid for keys.
    """
    terms: dict[str, KeyTerm] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, And):
            pending.extend(reversed(node.terms))
            continue
        term = _term(node)
        if term.attribute in terms:
            raise ValidationError(f"{_EXPRESSIONS} must only contain one condition per key")
        terms[term.attribute] = term
    return KeyCondition(tuple(terms.values()), value_checks)


def _term(node: ConditionNode) -> KeyTerm:
    match node:
        case Comparison(operator, left, right) if operator != "<>":
            attribute, values = _split(left, right)
            mirrored = not isinstance(left, Path)
            return KeyTerm(attribute, _MIRRORED[operator] if mirrored else operator, values)
        case Between(operand, low, high):
            return KeyTerm(*_range_term("BETWEEN", operand, low, high))
        case Call("begins_with", (first, second)):
            return KeyTerm(*_range_term("begins_with", first, second))
        case _:
            raise ValidationError(f"Invalid operator used in KeyConditionExpression: {_operator_name(node)}")


def _range_term(operator: str, first: Operand, *rest: Operand) -> tuple[str, str, tuple[str, ...]]:
    if not isinstance(first, Path):
        raise ValidationError(
            f"Invalid condition in KeyConditionExpression: {operator} operator must have the key attribute "
            "as its first operand"
        )
    attribute, values = _split(first, *rest)
    return attribute, operator, values


def _split(*operands: Operand) -> tuple[str, tuple[str, ...]]:
    """Separate the one attribute from the values."""
    attribute: str | None = None
    values: list[str] = []
    for operand in operands:
        if isinstance(operand, Reference):
            values.append(operand.name)
        elif not isinstance(operand, Path):
            raise ValidationError(f"{_EXPRESSIONS} cannot contain nested operations")
        elif attribute is not None:
            raise ValidationError(
                "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"
            )
        elif len(operand.parts) > 1:
            raise ValidationError(f"{_EXPRESSIONS} cannot have conditions on nested attributes")
        else:
            attribute = operand.attribute
    if attribute is None:
        raise ValidationError("Invalid condition in KeyConditionExpression: No key attribute specified")
    return attribute, tuple(values)


def _operator_name(node: ConditionNode) -> str:
    match node:
        case Comparison(operator):
            return operator
        case Call(function):
            return function
        case Among():
            return "IN"
        case Not():
            return "NOT"
        case Or():
            return "OR"
    raise AssertionError("AND and BETWEEN are allowed")


def key_range(
    condition: KeyCondition, schema: KeySchema, values: Mapping[str, Value], *, composite: bool = False
) -> KeyRange:
    """Return the range of a key condition for a schema.

    The condition must name every partition attribute, by equality, and sort attributes from left to right, all but
    the last by equality.

    Args:
        condition: The request's key condition.
        schema: The key of the table or index.
        values: The request's values.
        composite: Whether sort keys are composites, as in every index.
    """
    terms = {term.attribute: term for term in condition.terms}
    _check_count(terms, schema)
    parts = []
    for attribute in schema.partition:
        term = terms.pop(attribute.name, None)
        data = _operands(attribute, term, values)
        if term is None or term.operator != "=":
            raise ValidationError("Query key condition not supported")
        parts.append(data[0])
    pk = parts[0] if len(parts) == 1 else b"".join(map(keys.part, parts))
    low, high = _sort_range(terms, schema.sort, values, composite=composite or len(schema.sort) > 1)
    return KeyRange(pk, low, high)


def _check_count(terms: Mapping[str, KeyTerm], schema: KeySchema) -> None:
    if len(terms) > len(schema.names):
        raise ValidationError(
            f"The number of query conditions ({len(terms)}) exceeds the number of key attributes "
            f"defined in the schema ({len(schema.names)})"
        )


def _operands(attribute: KeyAttribute, term: KeyTerm | None, values: Mapping[str, Value]) -> list[bytes]:
    """Return the key bytes of a term's values, after checking them against the attribute's type."""
    if term is None:
        raise ValidationError(f"Query condition missed key schema element: {attribute.name}")
    if term.operator in _NOT_INDEXABLE:
        raise ValidationError("Attempted conditional constraint is not an indexable operation")
    data = []
    for name in term.values:
        value = values[name]
        if attribute.type not in value:
            raise ValidationError(f"{_PARAMETERS}Condition parameter type does not match schema type")
        encoded = keys.encode(value)
        if not encoded:
            kind = "string" if attribute.type == "S" else "binary"
            raise ValidationError(
                "One or more parameter values are not valid. The AttributeValue for a key attribute "
                f"cannot contain an empty {kind} value. Key: {attribute.name}"
            )
        data.append(encoded)
    return data


def _sort_range(
    terms: dict[str, KeyTerm], sort: Sequence[KeyAttribute], values: Mapping[str, Value], *, composite: bool
) -> tuple[bytes, bytes | None]:
    _check_gap(terms, sort)
    prefix = b""
    low, high = prefix, _after_all(prefix)
    for attribute in sort:
        if not terms:
            return low, high
        term = terms.pop(attribute.name, None)
        data = _operands(attribute, term, values)
        assert term is not None
        low, high = _composite(term, prefix, data) if composite else _plain(term, data)
        if term.operator != "=":
            break
        prefix = low
    if terms:  # on attributes that are not in the key
        raise ValidationError(f"Query condition missed key schema element: {next(iter(terms))}")
    return low, high


def _check_gap(terms: Mapping[str, KeyTerm], sort: Sequence[KeyAttribute]) -> None:
    """Check that every sort attribute before the last one with a condition has an equality."""
    named = [nth for nth, attribute in enumerate(sort) if attribute.name in terms]
    if not named:
        return
    last = named[-1]
    lacking = [
        each.name for each in sort[:last] if each.name not in terms or terms[each.name].operator != "="
    ]
    if lacking:
        raise ValidationError(
            f"RANGE key attributes {', '.join(lacking)} must have equality conditions specified in the query because "
            f"a condition is present on key attribute {sort[last].name}"
        )


def _plain(term: KeyTerm, data: list[bytes]) -> tuple[bytes, bytes | None]:
    first, last = data[0], data[-1]
    if term.operator == "begins_with":
        return first, _after_all(first)
    return _between(term.operator, b"", first, first + b"\0", last + b"\0")


def _composite(term: KeyTerm, prefix: bytes, data: list[bytes]) -> tuple[bytes, bytes | None]:
    if term.operator == "begins_with":
        start = prefix + keys.part(data[0])[: -len(keys.part(b""))]
        return start, _after_all(start)
    first, last = prefix + keys.part(data[0]), prefix + keys.part(data[-1])
    return _between(term.operator, prefix, first, _after_all(first), _after_all(last))


def _between(
    operator: str, prefix: bytes, first: bytes, after_first: bytes | None, after_last: bytes | None
) -> tuple[bytes, bytes | None]:
    """Return the range of an operator among keys that begin with `prefix`."""
    match operator:
        case "=":
            return first, after_first
        case "<":
            return prefix, first
        case "<=":
            return prefix, after_first
        case ">":
            return after_first or first, _after_all(prefix)
        case ">=":
            return first, _after_all(prefix)
        case _:
            return first, after_last


def _after_all(prefix: bytes) -> bytes | None:
    """Return the lowest bytes above all bytes with `prefix`; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def refuse_key_filter(condition: Condition, key_names: Iterable[str]) -> None:
    """Refuse a Query's filter that names an attribute of the queried key."""
    for name in key_names:
        if name in condition.attributes:
            parameter = condition.parameter
            if parameter == "FilterExpression":
                parameter = "Filter Expression"
            raise ValidationError(
                f"{parameter} can only contain non-primary key attributes: Primary key attribute: {name}"
            )


def refuse_key_update(update: CompiledUpdate, key_names: Iterable[str]) -> None:
    """Refuse an update that writes to the table's key."""
    for name in key_names:
        if name in update.targets.attributes:
            raise ValidationError(
                "One or more parameter values were invalid: "
                f"Cannot update attribute {name}. This attribute is part of the key"
            )


def refuse_key_paths(
    part: Condition | CompiledProjection | CompiledUpdate, key_names: Iterable[str], role: str = "Key"
) -> None:
    """Refuse nested paths of a key attribute, which is always a scalar. `role` is "IndexKey" for an index."""
    for name in key_names:
        if name in part.nested:
            raise ValidationError(
                "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
                f"{role}: {name}"
            )
