"""Conditions and updates as trees that can be written down for DynamoDB or carried out on the spot.

The model never parses an expression: a test makes a tree, `Text` writes it as DynamoDB would read it, and
the model walks the tree. So the two sides share no reader, no printer and no arithmetic.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

Plain: TypeAlias = (
    Any  # a value as boto3's resource gives it: str, Decimal, bytes, bool, None, set, list, dict
)
PlainItem: TypeAlias = dict[str, Plain]


class InvalidError(Exception):
    """DynamoDB answers ValidationException."""


class ConditionFailedError(Exception):
    """DynamoDB answers ConditionalCheckFailedException."""


@dataclass
class Text:
    """An expression's placeholders as they are handed out."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Plain] = field(default_factory=dict)

    def name(self, attribute: str) -> str:
        self.names["#" + attribute] = attribute
        return "#" + attribute

    def value(self, value: Plain) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def arguments(self) -> dict[str, Any]:
        """Return the request's members for the allocated placeholders."""
        members: dict[str, Any] = {}
        if self.names:
            members["ExpressionAttributeNames"] = self.names
        if self.values:
            members["ExpressionAttributeValues"] = self.values
        return members


# Conditions


@dataclass(frozen=True)
class Exists:
    attribute: str
    wanted: bool

    def write(self, text: Text) -> str:
        function = "attribute_exists" if self.wanted else "attribute_not_exists"
        return f"{function}({text.name(self.attribute)})"

    def holds(self, item: PlainItem) -> bool:
        return (self.attribute in item) is self.wanted


@dataclass(frozen=True)
class Compare:
    attribute: str
    comparator: str
    operand: Plain

    def write(self, text: Text) -> str:
        return f"{text.name(self.attribute)} {self.comparator} {text.value(self.operand)}"

    def holds(self, item: PlainItem) -> bool:
        if self.attribute not in item:
            return self.comparator == "<>"
        value = item[self.attribute]
        if self.comparator == "=":
            return same(value, self.operand)
        if self.comparator == "<>":
            return not same(value, self.operand)
        if kind(value) != kind(self.operand) or kind(value) not in ("S", "N", "B"):
            return False
        left, right = order(value), order(self.operand)
        return {
            "<": bool(left < right),
            "<=": bool(left <= right),
            ">": bool(left > right),
            ">=": bool(left >= right),
        }[self.comparator]


@dataclass(frozen=True)
class Contains:
    attribute: str
    operand: Plain

    def write(self, text: Text) -> str:
        return f"contains({text.name(self.attribute)}, {text.value(self.operand)})"

    def holds(self, item: PlainItem) -> bool:
        value = item.get(self.attribute)
        if isinstance(value, str):
            return isinstance(self.operand, str) and self.operand in value
        if isinstance(value, (set, list)):
            return any(same(element, self.operand) for element in value)
        return False


@dataclass(frozen=True)
class Begins:
    attribute: str
    prefix: str

    def write(self, text: Text) -> str:
        return f"begins_with({text.name(self.attribute)}, {text.value(self.prefix)})"

    def holds(self, item: PlainItem) -> bool:
        value = item.get(self.attribute)
        return isinstance(value, str) and value.startswith(self.prefix)


@dataclass(frozen=True)
class Both:
    left: "Condition"
    right: "Condition"
    connective: str

    def write(self, text: Text) -> str:
        return f"({self.left.write(text)}) {self.connective} ({self.right.write(text)})"

    def holds(self, item: PlainItem) -> bool:
        left, right = self.left.holds(item), self.right.holds(item)
        return left and right if self.connective == "AND" else left or right


@dataclass(frozen=True)
class Not:
    inner: "Condition"

    def write(self, text: Text) -> str:
        return f"NOT ({self.inner.write(text)})"

    def holds(self, item: PlainItem) -> bool:
        return not self.inner.holds(item)


Condition: TypeAlias = Exists | Compare | Contains | Begins | Both | Not


# Updates: each names one attribute, reads the item before the update and computes the attribute's new value.


@dataclass(frozen=True)
class Set:
    attribute: str
    value: Plain
    clause = "SET"

    def write(self, text: Text) -> str:
        return f"{text.name(self.attribute)} = {text.value(self.value)}"

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        after[self.attribute] = self.value


@dataclass(frozen=True)
class SetSum:
    attribute: str
    amount: Decimal
    clause = "SET"

    def write(self, text: Text) -> str:
        name = text.name(self.attribute)
        return f"{name} = {name} + {text.value(self.amount)}"

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        if kind(before.get(self.attribute, "")) != "N":
            raise InvalidError
        after[self.attribute] = before[self.attribute] + self.amount


@dataclass(frozen=True)
class SetIfNotExists:
    attribute: str
    value: Plain
    clause = "SET"

    def write(self, text: Text) -> str:
        name = text.name(self.attribute)
        return f"{name} = if_not_exists({name}, {text.value(self.value)})"

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        after[self.attribute] = before.get(self.attribute, self.value)


@dataclass(frozen=True)
class Append:
    attribute: str
    elements: list[Plain]
    clause = "SET"

    def write(self, text: Text) -> str:
        name = text.name(self.attribute)
        return f"{name} = list_append(if_not_exists({name}, {text.value([])}), {text.value(self.elements)})"

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        value = before.get(self.attribute, [])
        if not isinstance(value, list):
            raise InvalidError
        after[self.attribute] = value + self.elements


@dataclass(frozen=True)
class Remove:
    attribute: str
    clause = "REMOVE"

    def write(self, text: Text) -> str:
        return text.name(self.attribute)

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        after.pop(self.attribute, None)


@dataclass(frozen=True)
class Add:
    attribute: str
    operand: Plain  # a number or a set
    clause = "ADD"

    def write(self, text: Text) -> str:
        return f"{text.name(self.attribute)} {text.value(self.operand)}"

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        if self.attribute not in before:
            after[self.attribute] = self.operand
        elif kind(before[self.attribute]) != kind(self.operand):
            raise InvalidError
        elif isinstance(self.operand, set):
            after[self.attribute] = before[self.attribute] | self.operand
        else:
            after[self.attribute] = before[self.attribute] + self.operand


@dataclass(frozen=True)
class DeleteElements:
    attribute: str
    elements: set[Plain]
    clause = "DELETE"

    def write(self, text: Text) -> str:
        return f"{text.name(self.attribute)} {text.value(self.elements)}"

    def carry_out(self, before: PlainItem, after: PlainItem) -> None:
        if self.attribute not in before:
            return
        if kind(before[self.attribute]) != kind(self.elements):
            raise InvalidError
        left = before[self.attribute] - self.elements
        if left:
            after[self.attribute] = left
        else:
            del after[self.attribute]


Step: TypeAlias = Set | SetSum | SetIfNotExists | Append | Remove | Add | DeleteElements


def write_update(steps: list[Step], text: Text) -> str:
    """Return the update expression, with the steps of each clause together."""
    clauses: dict[str, list[str]] = {}
    for step in steps:
        clauses.setdefault(step.clause, []).append(step.write(text))
    return " ".join(f"{clause} {', '.join(parts)}" for clause, parts in clauses.items())


def kind(value: Plain) -> str:
    """DynamoDB's name of a value's type."""
    match value:
        case bool():
            return "BOOL"
        case str():
            return "S"
        case Decimal():
            return "N"
        case bytes():
            return "B"
        case None:
            return "NULL"
        case list():
            return "L"
        case dict():
            return "M"
        case set():
            return kind(next(iter(value))) + "S"
    raise AssertionError(f"not a value: {value!r}")


def same(left: Plain, right: Plain) -> bool:
    """DynamoDB's equality: of one type, numbers by value, sets without order."""
    return kind(left) == kind(right) and bool(left == right)


def order(value: Plain) -> Any:
    """Return the sort key of values of one key type."""
    return value.encode() if isinstance(value, str) else value
