"""Compile a SELECT to reads: items by key, ranges of sort keys, or a scan.

    pk = 'a' AND sk = 1                  one item
    pk = 'a' AND sk > 1 AND x = 2        one range, with a filter
    pk IN ['a', 'b'] AND sk > 1          two ranges
    pk = 'a' AND (sk = 1 OR sk = 5)      two items
    pk = 'a' OR x = 2                    a scan: the second branch has no partition key

A WHERE is a list of branches, joined by OR. If each of them has an equality for the partition key, each is a read;
otherwise the SELECT is a scan, with WHERE as its filter. Only an OR that has a condition on the key becomes branches,
and there are at most 50. The ranges of two branches must not overlap, or an item would be returned twice.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from ...model.errors import ValidationError
from ...model.key_schema import KeySchema
from ...model.lazy_dataclass import dataclass
from ...model.values import Item, Value
from ..key_conditions import key_condition, key_range
from ..parse_condition import NO_CHECKS
from ..tree import Among, And, Between, Call, Comparison, ConditionNode, Not, Or, Path, Reference
from .rendering import Renderer
from .statements import Bound, KeyMismatchError, Select
from .writes import and_terms, equality

_READS_MAX: Final = 50
_TOO_MANY_READS = "Too many decomposed read operations for a given query."
_OVERLAP = "Overlapping conditions with range keys are not supported in where clause"
_ORDER_WITHOUT_WHERE = "Must have WHERE clause in the statement when using ORDER BY clause."
_ORDER_WITHOUT_KEY = (
    "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause."
)
_ORDER_OF_KEYS = (
    "Must have hash key in ORDER BY clause when more than one hash key condition specified in WHERE clause."
)


@dataclass(frozen=True, slots=True)
class KeyRead:
    """One item of a table."""

    key: Item


@dataclass(frozen=True, slots=True)
class RangeRead:
    """The items of one partition key, and of a range of sort keys.

    Attributes:
        keys: The conditions on the key.
        filter: The rest of the branch.
        pk: The bytes of the partition key; `low` and `high` are those of the range, as in KeyRange.
    """

    keys: tuple[ConditionNode, ...]
    filter: ConditionNode | None
    pk: bytes
    low: bytes
    high: bytes | None


@dataclass(frozen=True, slots=True)
class ScanRead:
    """All items of a table or an index."""

    filter: ConditionNode | None


Read: TypeAlias = KeyRead | RangeRead | ScanRead


class Reads(NamedTuple):
    """The reads of a SELECT, in order.

    Attributes:
        forward: Whether each reads in ascending order of sort keys.
        has_one_filter: Whether all have the same filter.
    """

    reads: tuple[Read, ...]
    forward: bool = True
    has_one_filter: bool = True


def reads_of(bound: Bound, select: Select, schema: KeySchema, *, composite: bool) -> Reads:
    """Return the reads of a SELECT for the key of a table, or of an index if `composite`.

    Raises:
        ValidationError: The branches overlap or are too many, or the order is not that of the key.
    """
    key = _Key(schema, bound.values, composite)
    if select.where is None or not key.is_fixed_by(select.where):
        if select.order:
            raise ValidationError(_ORDER_WITHOUT_WHERE if select.where is None else _ORDER_WITHOUT_KEY)
        return Reads((ScanRead(select.where),))
    ranges = key.ranges(select.where)
    forward, ranges = _in_order(select, key, ranges)
    reads = tuple(_item_or_range(each, schema, bound.values, composite=composite) for each in ranges)
    return Reads(reads, forward, all(each.filter == ranges[0].filter for each in ranges))


def request_of(read: Read, bound: Bound, select: Select, *, forward: bool = True) -> dict[str, Any]:
    """Return the request of GetItem, Query or Scan for a read."""
    renderer = Renderer(bound.values)
    request: dict[str, Any] = {"TableName": select.table}
    if select.index is not None:
        request["IndexName"] = select.index
    if isinstance(read, KeyRead):
        request["Key"] = read.key
    elif isinstance(read, RangeRead):
        request["KeyConditionExpression"] = " AND ".join(map(renderer.condition, read.keys))
        if not forward:
            request["ScanIndexForward"] = False
    if not isinstance(read, KeyRead) and read.filter is not None:
        request["FilterExpression"] = renderer.condition(read.filter)
    if select.columns:
        names = dict.fromkeys(column.attribute for column in select.columns)
        request["ProjectionExpression"] = renderer.projection(names)
    return request | renderer.substitutions()


def _in_order(select: Select, key: "_Key", ranges: list[RangeRead]) -> tuple[bool, list[RangeRead]]:
    """Return the direction within a partition key, and the ranges in order.

    DynamoDB returns descending sort keys if ORDER BY names the partition key alone.
    """
    order = {each.attribute: each.is_descending for each in select.order}
    for name in order:
        if name not in (key.hash, key.sort):
            raise ValidationError(f"Attribute {name} in ORDER BY clause must be part of the primary key")
    if order and key.hash not in order and any(each.pk != ranges[0].pk for each in ranges):
        raise ValidationError(_ORDER_OF_KEYS)
    forward = not order.get(key.sort or "", bool(order))
    ranges = sorted(ranges, key=lambda each: each.low, reverse=not forward)
    return forward, sorted(ranges, key=lambda each: each.pk, reverse=order.get(key.hash, False))


def _item_or_range(
    read: RangeRead, schema: KeySchema, values: Mapping[str, Value], *, composite: bool
) -> Read:
    equalities = [equality(each) for each in read.keys]
    key = {name: values[value.name] for name, value in equalities if value is not None}
    is_item = not composite and read.filter is None and len(key) == len(schema.names)
    return KeyRead(key) if is_item else read


class _Key:
    """The key of the table or index that a SELECT reads, and the conditions on it."""

    def __init__(self, schema: KeySchema, values: Mapping[str, Value], composite: bool) -> None:
        self.hash = schema.partition[0].name
        self.sort = schema.sort[0].name if schema.sort else None
        self._schema = schema
        self._values = values
        self._composite = composite

    def is_fixed_by(self, node: ConditionNode) -> bool:
        """Return whether each branch of a condition has an equality for the partition key."""
        match node:
            case And(terms):
                return any(map(self.is_fixed_by, terms))
            case Or(terms):
                return all(map(self.is_fixed_by, terms))
            case _:
                return self._is_hash_condition(node)

    def ranges(self, where: ConditionNode) -> list[RangeRead]:
        """Return a range for each branch."""
        terms = and_terms(where)
        is_fixed = any(map(self._is_hash_condition, terms))
        if self._count(where, is_fixed) > _READS_MAX:
            raise ValidationError(_TOO_MANY_READS)
        ranges = [self._range(branch) for branch in self._branches(where, is_fixed)]
        by_key: dict[bytes, list[RangeRead]] = {}
        for each in ranges:
            by_key.setdefault(each.pk, []).append(each)
        return [each for of_key in by_key.values() for each in self._without_overlap(of_key)]

    def _is_hash_condition(self, node: ConditionNode) -> bool:
        """Return whether a condition is an equality or an IN for the partition key."""
        if isinstance(node, Among):
            return _key_attribute(node) == self.hash
        name, _ = equality(node)
        return name == self.hash

    def _becomes_branches(self, node: Or, is_fixed: bool) -> bool:
        """Return whether an OR has a condition on the key. If the partition key is fixed, only the sort key counts."""
        pending: list[ConditionNode] = [node]
        while pending:
            each = pending.pop()
            if isinstance(each, And | Or):
                pending.extend(each.terms)
                continue
            is_sort_condition = self.sort is not None and _key_attribute(each) == self.sort
            if is_sort_condition or (not is_fixed and self._is_hash_condition(each)):
                return True
        return False

    def _count(self, node: ConditionNode, is_fixed: bool) -> int:
        match node:
            case And(terms):
                count = 1
                for term in terms:
                    count *= self._count(term, is_fixed)
                return count
            case Or(terms) if self._becomes_branches(node, is_fixed):
                return sum(self._count(term, is_fixed) for term in terms)
            case Among(_, choices) if _key_attribute(node) in (self.hash, self.sort):
                return len(choices)
            case _:
                return 1

    def _branches(self, node: ConditionNode, is_fixed: bool) -> list[list[ConditionNode]]:
        match node:
            case And(terms):
                branches: list[list[ConditionNode]] = [[]]
                for term in terms:
                    expanded = self._branches(term, is_fixed)
                    branches = [[*branch, *more] for branch in branches for more in expanded]
                return branches
            case Or(terms) if self._becomes_branches(node, is_fixed):
                return [branch for term in terms for branch in self._branches(term, is_fixed)]
            case Among(operand, choices) if _key_attribute(node) in (self.hash, self.sort):
                return [[Comparison("=", operand, choice)] for choice in choices]
            case _:
                return [[node]]

    def _range(self, branch: list[ConditionNode]) -> RangeRead:
        partition: ConditionNode | None = None
        sort: ConditionNode | None = None
        rest: list[ConditionNode] = []
        for node in branch:
            name, value = equality(node)
            if name == self.hash and partition is None:
                partition = node
            elif self.sort is not None and _key_attribute(node) == self.sort and sort is None:
                sort = node
            elif name == self.sort and value is not None and sort is not None and not equality(sort)[0]:
                rest.append(sort)  # an equality is the narrowest range
                sort = node
            elif not self._is_repeated(node, partition, sort):
                rest.append(node)
        assert partition is not None, "each branch has an equality for the partition key"
        return self._with_filter((partition,) if sort is None else (partition, sort), _all(rest))

    def _is_repeated(self, node: ConditionNode, *conditions: ConditionNode | None) -> bool:
        """Return whether an equality is that of another condition."""
        name, value = equality(node)
        if value is None:
            return False
        for condition in conditions:
            other, its_value = ("", None) if condition is None else equality(condition)
            if other == name and its_value is not None:
                return self._values[its_value.name] == self._values[value.name]
        return False

    def _with_filter(self, keys: tuple[ConditionNode, ...], rest: ConditionNode | None) -> RangeRead:
        tree = And(keys) if len(keys) > 1 else keys[0]
        condition = key_condition(tree, NO_CHECKS)
        types = {attribute.name: attribute.type for attribute in self._schema.attributes}
        for term in condition.terms:
            if any(types[term.attribute] not in self._values[name] for name in term.values):
                raise KeyMismatchError(
                    "Key attribute's data type should match its data type in table's schema: "
                    f"Key {term.attribute}"
                )
        found = key_range(condition, self._schema, self._values, composite=self._composite)
        return RangeRead(keys, rest, *found)

    def _without_overlap(self, ranges: list[RangeRead]) -> list[RangeRead]:
        """Return the ranges of one partition key.

        Raises:
            ValidationError: Two ranges overlap. If a branch excludes sort keys, by NOT or <>, all become one range.
        """
        in_order = sorted(
            (each for each in ranges if each.high is None or each.low < each.high), key=lambda each: each.low
        )
        if all(a.high is not None and a.high <= b.low for a, b in pairwise(in_order)):
            return ranges
        if not any(self._excludes_sort_keys(each.filter) for each in ranges):
            raise ValidationError(_OVERLAP)
        filters = [_all([*each.keys[1:], *and_terms(each.filter)]) for each in ranges]
        present = [each for each in filters if each is not None]
        merged = self._with_filter(ranges[0].keys[:1], None)
        return [merged if len(present) < len(filters) else replace(merged, filter=Or(tuple(present)))]

    def _excludes_sort_keys(self, node: ConditionNode | None) -> bool:
        for term in and_terms(node):
            inner = term.term if isinstance(term, Not) else term
            is_negative = inner is not term or (isinstance(term, Comparison) and term.operator == "<>")
            if is_negative and self.sort is not None and _first_path(inner) == self.sort:
                return True
        return False


def _all(terms: list[ConditionNode]) -> ConditionNode | None:
    if len(terms) < 2:
        return terms[0] if terms else None
    return And(tuple(terms))


def _key_attribute(node: ConditionNode) -> str | None:
    """Return the attribute of a condition that a key condition may have: one attribute, and values only."""
    match node:
        case Comparison(operator, Path((str(name),)), Reference()) if operator != "<>":
            return name
        case Comparison(operator, Reference(), Path((str(name),))) if operator != "<>":
            return name
        case Between(Path((str(name),)), Reference(), Reference()):
            return name
        case Call("begins_with", (Path((str(name),)), Reference())):
            return name
        case Among(Path((str(name),)), choices) if all(isinstance(each, Reference) for each in choices):
            return name
        case _:
            return None


def _first_path(node: ConditionNode) -> str | None:
    """Return the attribute of the first operand of a condition."""
    match node:
        case Comparison(_, Path((str(name),)), _):
            return name
        case Comparison(_, _, Path((str(name),))):
            return name
        case Between(Path((str(name),)), _, _) | Among(Path((str(name),)), _):
            return name
        case Call(_, (Path((str(name),)), *_)):
            return name
        case _:
            return None
