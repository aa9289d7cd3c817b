"""Evaluate conditions and filters.

A comparison with a missing attribute, or with an attribute of another type, is false and never an error. Only <> is
true then, even between two missing attributes.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, NamedTuple, TypeAlias

from ..model.errors import ValidationError
from ..model.lazy_dataclass import dataclass
from ..model.values import Item, Value, contains
from .comparison_cache import ComparisonCache
from .operands import Bound, OperandReader, begins_with, ordered, reader
from .parse_condition import NO_CHECKS, ValueChecks, bounds_problem, type_name_problem
from .tree import Among, And, Between, Call, Comparison, ConditionNode, Not, Operand, Or, Path, Reference

Test: TypeAlias = Callable[[Item, Bound], bool]
# A relation of two present values. The third argument is the request's values, possibly a ComparisonCache.
Relation: TypeAlias = Callable[[Value, Value, Any], bool]
Order: TypeAlias = Callable[[Value, Value, Any], int | None]

_NO_ITEM: Final[Item] = {}

# Conditions that read at least this many values use a ComparisonCache.
_MANY: Final = 5


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition or filter.

    Attributes:
        attributes: The top-level attributes that it names, in order.
        nested: The attributes with nested paths.
        value_reads: The maximum number of values that a test reads, which is its cost for small values.
    """

    parameter: str
    tree: ConditionNode
    attributes: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    value_checks: ValueChecks = NO_CHECKS
    value_reads: int = field(init=False, compare=False, repr=False)
    _test: Test = field(init=False, compare=False, repr=False)
    _caches: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        value_reads = _count_value_reads(self.tree)
        object.__setattr__(self, "value_reads", value_reads)
        object.__setattr__(self, "_caches", value_reads >= _MANY)
        object.__setattr__(self, "_test", _test(self.tree, _CACHED if self._caches else _PLAIN))

    def holds(self, item: Item | None, values: Bound) -> bool:
        """Return whether `item` (or None) meets the condition. For several items, `bind` the values once."""
        if self._caches:
            if type(values) is not ComparisonCache:
                values = ComparisonCache(values)
            values.forget_item()
        return self._test(_NO_ITEM if item is None else item, values)

    def bind(self, values: Bound) -> Bound:
        """Return the values in the form for the evaluation of several items."""
        return ComparisonCache(values) if self._caches else values


def check_values(parameter: str, checks: ValueChecks, values: Bound) -> None:
    """Check values whose content, not type, decides: the bounds of BETWEEN, the type name of attribute_type."""
    for low, high in checks.bounds:
        problem = bounds_problem(values[low], values[high])
        if problem:
            raise ValidationError(f"Invalid {parameter}: {problem}")
    for name in checks.type_names:
        problem = type_name_problem(values[name])
        if problem:
            raise ValidationError(f"Invalid {parameter}: {problem}")


def _count_value_reads(tree: ConditionNode) -> int:
    count, pending = 0, [tree]
    while pending:
        match pending.pop():
            case Not(term):
                pending.append(term)
            case And(terms) | Or(terms):
                pending.extend(terms)
            case Among(_, choices):
                count += len(choices)
            case Between():
                count += 2
            case _:
                count += 1
    return count


def _test(node: ConditionNode, related: "_Relations") -> Test:
    match node:
        case Comparison():
            return _comparison(node, related)
        case Between():
            return _between(node, related)
        case Among():
            return _among(node, related)
        case Call():
            return _call(node, related)
        case Not(term):
            return _not(_test(term, related))
        case And(terms):
            return _all(tuple(_test(term, related) for term in terms))
        case Or(terms):
            return _any(tuple(_test(term, related) for term in terms))


def _comparison(node: Comparison, related: "_Relations") -> Test:
    left, right = reader(node.left), reader(node.right)
    fast = _fast_equal(node) if related is _PLAIN else None
    if fast is not None:
        return fast
    if node.operator in ("=", "<>"):
        equal = _related(left, right, related.equal(node.left, node.right))
        return equal if node.operator == "=" else _not(equal)
    wanted, order = _ORDERS[node.operator], related.order(node.left, node.right)

    def test(item: Item, values: Bound) -> bool:
        a, b = left(item, values), right(item, values)
        found = None if a is None or b is None else order(a, b, values)
        return found is not None and wanted(found)

    return test


_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def _related(left: OperandReader, right: OperandReader, relation: Relation) -> Test:
    """Return the test that both values are present and related."""

    def test(item: Item, values: Bound) -> bool:
        a = left(item, values)
        if a is None:
            return False
        b = right(item, values)
        return b is not None and relation(a, b, values)

    return test


def _fast_equal(node: Comparison) -> Test | None:
    """Return a fast test for the most common comparison, attribute = :value; None for others."""
    if (
        node.operator == "="
        and isinstance(node.left, Path)
        and len(node.left.parts) == 1
        and isinstance(node.right, Reference)
    ):
        attribute, name = node.left.attribute, node.right.name
        return lambda item, values: item.get(attribute) == values[name]
    return None


def _between(node: Between, related: "_Relations") -> Test:
    operand, low, high = reader(node.operand), reader(node.low), reader(node.high)
    to_low, to_high = related.order(node.operand, node.low), related.order(node.operand, node.high)

    def test(item: Item, values: Bound) -> bool:
        value, least, most = operand(item, values), low(item, values), high(item, values)
        if value is None or least is None or most is None:
            return False
        above, below = to_low(value, least, values), to_high(value, most, values)
        return above is not None and below is not None and above >= 0 and below <= 0

    return test


def _among(node: Among, related: "_Relations") -> Test:
    operand = reader(node.operand)
    choices = tuple((reader(choice), related.equal(node.operand, choice)) for choice in node.choices)

    def test(item: Item, values: Bound) -> bool:
        value = operand(item, values)
        if value is None:
            return False
        for choice, equal in choices:
            other = choice(item, values)
            if other is not None and equal(value, other, values):
                return True
        return False

    return test


def _call(node: Call, related: "_Relations") -> Test:
    first = reader(node.operands[0])
    if node.function == "attribute_exists":
        return lambda item, values: first(item, values) is not None
    if node.function == "attribute_not_exists":
        return lambda item, values: first(item, values) is None
    if node.function == "contains":
        relation = related.contains(node.operands[0], node.operands[1])
    else:
        relation = _RELATIONS[node.function]
    return _related(first, reader(node.operands[1]), relation)


_RELATIONS: Final[dict[str, Relation]] = {
    "attribute_type": lambda value, type_name, _values: type_name["S"] in value,
    "begins_with": lambda value, prefix, _values: begins_with(value, prefix),
}


class _Relations(NamedTuple):
    """The relations whose cost grows with the size of the values, each created for two operands."""

    equal: Callable[[Operand, Operand], Relation]
    contains: Callable[[Operand, Operand], Relation]
    order: Callable[[Operand, Operand], Order]


def _cached_order(left: Operand, right: Operand) -> Order:
    def order(a: Value, b: Value, values: ComparisonCache) -> int | None:
        return values.compare(a, b, left, right) if "B" in a and "B" in b else ordered(a, b)

    return order


def _cached_equal(left: Operand, right: Operand) -> Relation:
    def equal(a: Value, b: Value, values: ComparisonCache) -> bool:
        return values.equal(a, b, left, right)

    return equal


def _cached_contains(left: Operand, right: Operand) -> Relation:
    def holds(a: Value, b: Value, values: ComparisonCache) -> bool:
        return values.contains(a, b, left, right)

    return holds


def _equal(a: Value, b: Value, _values: Bound) -> bool:
    return a == b


def _contains(a: Value, b: Value, _values: Bound) -> bool:
    return contains(a, b)


def _ordered(a: Value, b: Value, _values: Bound) -> int | None:
    return ordered(a, b)


_PLAIN: Final = _Relations(
    lambda _left, _right: _equal, lambda _left, _right: _contains, lambda _left, _right: _ordered
)
_CACHED: Final = _Relations(_cached_equal, _cached_contains, _cached_order)


def _not(test: Test) -> Test:
    return lambda item, values: not test(item, values)


def _all(tests: tuple[Test, ...]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda item, values: first(item, values) and second(item, values)

    def test(item: Item, values: Bound) -> bool:
        return all(term(item, values) for term in tests)

    return test


def _any(tests: tuple[Test, ...]) -> Test:
    def test(item: Item, values: Bound) -> bool:
        return any(term(item, values) for term in tests)

    return test
