"""Whether an item meets a condition.

A missing attribute and one of another type make a comparison false, never an error; only <> holds then,
even between two missing attributes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..model.errors import ValidationError
from ..model.values import Item, Value, contains
from .operands import Bound, Reader, begins_with, ordered, reader
from .parse_condition import NO_CHECKS, ValueChecks, bounds_problem, type_name_problem
from .tree import Among, And, Between, Call, Comparison, ConditionNode, Not, Or, Path, Reference

Test: TypeAlias = Callable[[Item, Bound], bool]

_NO_ITEM: Final[Item] = {}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition or a filter, ready for any item.

    Attributes:
        attributes: The top-level attributes it names, in order.
        nested: Those of them that a path goes into.
    """

    parameter: str
    tree: ConditionNode
    attributes: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    value_checks: ValueChecks = NO_CHECKS
    _test: Test = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_test", _test(self.tree))

    def holds(self, item: Item | None, values: Bound) -> bool:
        """Whether `item`, which may not exist, meets the condition."""
        return self._test(_NO_ITEM if item is None else item, values)


def check_values(parameter: str, checks: ValueChecks, values: Bound) -> None:
    """Refuse values that only their content makes wrong: BETWEEN reversed, an unknown type name."""
    for low, high in checks.bounds:
        problem = bounds_problem(values[low], values[high])
        if problem:
            raise ValidationError(f"Invalid {parameter}: {problem}")
    for name in checks.type_names:
        problem = type_name_problem(values[name])
        if problem:
            raise ValidationError(f"Invalid {parameter}: {problem}")


def _test(node: ConditionNode) -> Test:
    match node:
        case Comparison():
            return _comparison(node)
        case Between():
            return _between(reader(node.operand), reader(node.low), reader(node.high))
        case Among():
            return _among(reader(node.operand), tuple(reader(choice) for choice in node.choices))
        case Call():
            return _call(node)
        case Not(term):
            return _not(_test(term))
        case And(terms):
            return _all(tuple(_test(term) for term in terms))
        case Or(terms):
            return _any(tuple(_test(term) for term in terms))


def _comparison(node: Comparison) -> Test:
    left, right = reader(node.left), reader(node.right)
    if node.operator == "=":
        return _fast_equal(node) or (lambda item, values: _equal(left(item, values), right(item, values)))
    if node.operator == "<>":
        return lambda item, values: not _equal(left(item, values), right(item, values))
    wanted = _ORDERS[node.operator]

    def test(item: Item, values: Bound) -> bool:
        a, b = left(item, values), right(item, values)
        order = None if a is None or b is None else ordered(a, b)
        return order is not None and wanted(order)

    return test


_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def _equal(left: Value | None, right: Value | None) -> bool:
    return left is not None and left == right


def _fast_equal(node: Comparison) -> Test | None:
    """The comparison that almost every condition is made of: attribute = :value."""
    if isinstance(node.left, Path) and len(node.left.parts) == 1 and isinstance(node.right, Reference):
        attribute, name = node.left.attribute, node.right.name
        return lambda item, values: item.get(attribute) == values[name]
    return None


def _between(operand: Reader, low: Reader, high: Reader) -> Test:
    def test(item: Item, values: Bound) -> bool:
        value, least, most = operand(item, values), low(item, values), high(item, values)
        if value is None or least is None or most is None:
            return False
        above, below = ordered(value, least), ordered(value, most)
        return above is not None and below is not None and above >= 0 and below <= 0

    return test


def _among(operand: Reader, choices: tuple[Reader, ...]) -> Test:
    def test(item: Item, values: Bound) -> bool:
        value = operand(item, values)
        return value is not None and any(value == choice(item, values) for choice in choices)

    return test


def _call(node: Call) -> Test:
    first = reader(node.operands[0])
    if node.function == "attribute_exists":
        return lambda item, values: first(item, values) is not None
    if node.function == "attribute_not_exists":
        return lambda item, values: first(item, values) is None
    second = reader(node.operands[1])
    relation = _RELATIONS[node.function]

    def test(item: Item, values: Bound) -> bool:
        a, b = first(item, values), second(item, values)
        return a is not None and b is not None and relation(a, b)

    return test


def _has_type(value: Value, type_name: Value) -> bool:
    return type_name["S"] in value


_RELATIONS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "attribute_type": _has_type,
    "begins_with": begins_with,
    "contains": contains,
}


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
