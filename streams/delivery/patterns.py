"""Filter patterns in the form of EventBridge and of Lambda's FilterCriteria: JSON that a record must match.

    {"eventName": ["INSERT", "MODIFY"],
     "dynamodb": {"NewImage": {"status": {"S": [{"prefix": "PA"}]}, "total": {"N": [{"numeric": [">", 100]}]}}}}

All members must match. A member matches if one rule of its list holds; `$or` matches if one of its patterns does. A
value that is a list matches if one of its elements does. Numbers are compared as decimals. A numeric rule compares the
text of a DynamoDB number (`N`) as a number.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import orjson

from ...model.errors import ValidationError

Rule: TypeAlias = Callable[[Any], bool]
"""Tests one value; a missing value is MISSING."""
Pattern: TypeAlias = Callable[[Mapping[str, Any]], bool]


class _Missing:
    """The type of MISSING."""


MISSING: Final = _Missing()
_COMPARED: Final[dict[str, Callable[[Decimal, Decimal], bool]]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern from JSON.

    Raises:
        ValidationError: The text is not a valid pattern.
    """
    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _invalid(f"it is no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise _invalid("it must be a JSON object")
    return _pattern(tree, "")


def _pattern(tree: Mapping[str, Any], path: str) -> Pattern:
    if not tree:
        raise _invalid(f"{path or 'it'} is empty")
    tests = [_member(name, rules, f"{path}.{name}" if path else name) for name, rules in tree.items()]
    return lambda value: all(test(value) for test in tests)


def _member(name: str, rules: Any, path: str) -> Pattern:
    if name == "$or":
        if not isinstance(rules, list) or len(rules) < 2 or not all(isinstance(each, dict) for each in rules):
            raise _invalid("$or must be a list of two patterns or more")
        choices = [_pattern(each, path) for each in rules]
        return lambda value: any(choice(value) for choice in choices)
    if isinstance(rules, dict):
        inner = _pattern(rules, path)

        def matches_inner(value: Mapping[str, Any]) -> bool:
            found = value.get(name, _NOTHING)
            each = found if isinstance(found, list) else [found]
            return any(inner(one if isinstance(one, Mapping) else _NOTHING) for one in each)

        return matches_inner
    if not isinstance(rules, list) or not rules:
        raise _invalid(f"{path} must be a list of rules")
    tests = [_rule(rule, path, of_text=name == "N") for rule in rules]

    def matches(value: Mapping[str, Any]) -> bool:
        found = value.get(name, MISSING)
        each = found if isinstance(found, list) and found else [found]
        return any(test(one) for test in tests for one in each)

    return matches


_NOTHING: Final[Mapping[str, Any]] = {}


def _rule(rule: Any, path: str, *, of_text: bool) -> Rule:
    if not isinstance(rule, dict):
        return _equals(rule, path, of_text=of_text)
    if len(rule) != 1:
        raise _invalid(f"a rule of {path} must have one member")
    ((name, given),) = rule.items()
    match name:
        case "prefix" | "suffix":
            return _affix(name, given, path)
        case "equals-ignore-case":
            folded = _text(given, name, path).casefold()
            return lambda value: isinstance(value, str) and value.casefold() == folded
        case "wildcard":
            matches = re.compile(_wildcards(_text(given, name, path)), re.DOTALL).fullmatch
            return lambda value: isinstance(value, str) and matches(value) is not None
        case "exists":
            if not isinstance(given, bool):
                raise _invalid(f"exists in {path} must be true or false")
            return lambda value: (value is not MISSING) == given
        case "numeric":
            return _numeric(given, path, of_text=of_text)
        case "anything-but":
            choices = given if isinstance(given, list) else [given]
            tests = [_rule(choice, path, of_text=of_text) for choice in choices]
            return lambda value: value is not MISSING and not any(test(value) for test in tests)
    raise _invalid(f"{path} has an unknown rule {name}")


def _wildcards(text: str) -> str:
    """Return the regular expression, which never goes back over a `*`: a match of `a*b*c` takes linear time."""
    first, *middle = map(re.escape, text.split("*"))
    last = f".*{middle.pop()}" if middle else ""
    return first + "".join(f"(?>.*?{part})" for part in middle) + last


def _equals(wanted: Any, path: str, *, of_text: bool) -> Rule:
    if isinstance(wanted, list):
        raise _invalid(f"{path} must not hold a list in a list")
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        number = Decimal(str(wanted))
        return lambda value: _number(value, of_text=of_text) == number
    return lambda value: type(value) is type(wanted) and value == wanted


def _affix(name: str, given: Any, path: str) -> Rule:
    ignores_case = isinstance(given, dict) and set(given) == {"equals-ignore-case"}
    text = _text(given["equals-ignore-case"] if ignores_case else given, name, path)
    matches = str.startswith if name == "prefix" else str.endswith
    if ignores_case:
        folded = text.casefold()
        return lambda value: isinstance(value, str) and matches(value.casefold(), folded)
    return lambda value: isinstance(value, str) and matches(value, text)


def _numeric(given: Any, path: str, *, of_text: bool) -> Rule:
    if not isinstance(given, list) or len(given) not in (2, 4):
        raise _invalid(f'numeric in {path} must be like [">", 0] or [">", 0, "<=", 100]')
    bounds = [_bound(given[at], given[at + 1], path) for at in range(0, len(given), 2)]

    def within(value: Any) -> bool:
        number = _number(value, of_text=of_text)
        return number is not None and all(test(number, bound) for test, bound in bounds)

    return within


def _bound(comparison: Any, bound: Any, path: str) -> tuple[Callable[[Decimal, Decimal], bool], Decimal]:
    is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
    if not isinstance(comparison, str) or comparison not in _COMPARED or not is_number:
        raise _invalid(f"numeric in {path} compares by {', '.join(_COMPARED)} with a number")
    return _COMPARED[comparison], Decimal(str(bound))


def _number(value: Any, *, of_text: bool) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str if of_text else int | float):
        return None
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _text(given: Any, rule: str, path: str) -> str:
    if not isinstance(given, str):
        raise _invalid(f"{rule} in {path} must be a text")
    return given


def _invalid(what: str) -> ValidationError:
    return ValidationError(f"Invalid filter pattern definition: {what}")
