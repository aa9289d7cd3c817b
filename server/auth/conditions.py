"""The conditions of policies: tests of the facts of a request.

    "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["${aws:username}"]}
     quantifier   operator         key                     values

A fact has a name and one or more values; a fact that a request does not have is absent. Without a quantifier all values
must pass. The keys and operators below are the supported ones. A document with any other is refused when it is stored.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...model.lazy_dataclass import dataclass
from .policy_text import TEXT_MAX, VARIABLES, PolicyText, policy_text

Facts: TypeAlias = Mapping[str, tuple[str, ...]]
"""The values of condition keys, by their names in lower case. An absent key is missing or has no values."""

LEADING_KEYS: Final = (
    "dynamodb:firstpartitionkeyvalues",
    "dynamodb:secondpartitionkeyvalues",
    "dynamodb:thirdpartitionkeyvalues",
    "dynamodb:fourthpartitionkeyvalues",
)
"""The keys for the values of the first attribute of partition keys, of the second, ..."""

_SETS: Final = frozenset((*LEADING_KEYS, "dynamodb:leadingkeys", "dynamodb:attributes"))
KEYS: Final = frozenset(
    (
        *_SETS,
        *VARIABLES,
        "dynamodb:enclosingoperation",
        "dynamodb:fulltablescan",
        "dynamodb:returnconsumedcapacity",
        "dynamodb:returnvalues",
        "dynamodb:select",
    )
)
"""The condition keys of foldb, in lower case."""

_FOR_ALL, _FOR_ANY = "ForAllValues", "ForAnyValue"
_IF_EXISTS: Final = "IfExists"
_NULL: Final = "Null"
_BOOLEAN: Final = "Bool"
# Whether the texts of a policy and a value of a request fit together.
_Test: TypeAlias = Callable[[PolicyText, str, str], bool]


def _equals(text: PolicyText, value: str, key_id: str) -> bool:
    return text.value(key_id) == value


def _equals_in_any_case(text: PolicyText, value: str, key_id: str) -> bool:
    return text.value(key_id).casefold() == value.casefold()


def _is_like(text: PolicyText, value: str, key_id: str) -> bool:
    return text.is_like(value, key_id)


def _is_like_arn(text: PolicyText, value: str, key_id: str) -> bool:
    return text.is_like(value, key_id, is_arn=True)


_OPERATORS: Final[dict[str, tuple[_Test, bool]]] = {
    "StringEquals": (_equals, False),
    "StringNotEquals": (_equals, True),
    "StringEqualsIgnoreCase": (_equals_in_any_case, False),
    "StringNotEqualsIgnoreCase": (_equals_in_any_case, True),
    "StringLike": (_is_like, False),
    "StringNotLike": (_is_like, True),
    "ArnEquals": (_is_like_arn, False),
    "ArnNotEquals": (_is_like_arn, True),
    "ArnLike": (_is_like_arn, False),
    "ArnNotLike": (_is_like_arn, True),
    _BOOLEAN: (_equals_in_any_case, False),
}
"""The test of each operator, and whether it is negated."""


class ConditionError(ValueError):
    """A condition is malformed, or foldb does not support it. The text names it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A test of one fact.

    Attributes:
        key: The name of the fact, in lower case.
        operator: A name of _OPERATORS, or Null.
        texts: The texts of the policy, of which one must fit; none may, if the operator is negated.
        quantifier: ForAllValues, ForAnyValue, or an empty text.
        if_exists: Whether an absent fact passes.
    """

    key: str
    operator: str
    texts: tuple[PolicyText, ...]
    quantifier: str = ""
    if_exists: bool = False

    @property
    def is_negated(self) -> bool:
        return self.operator != _NULL and _OPERATORS[self.operator][1]

    def holds(self, facts: Facts, key_id: str) -> bool:
        """Return whether the facts of a request of this key pass."""
        values = facts.get(self.key, ())
        if self.operator == _NULL:
            return any((text.text.lower() == "true") == (not values) for text in self.texts)
        if not values:
            return self.if_exists or self.quantifier == _FOR_ALL or (not self.quantifier and self.is_negated)
        passes = (self._passes(value, key_id) for value in values)
        return any(passes) if self.quantifier == _FOR_ANY else all(passes)

    def _passes(self, value: str, key_id: str) -> bool:
        test, is_negated = _OPERATORS[self.operator]
        return any(test(text, value, key_id) for text in self.texts) != is_negated

    def fixes_the_caller(self) -> bool:
        """Return whether only named keys, or the keys of one account, can pass."""
        return (
            self.key in VARIABLES
            and not self.if_exists
            and not self.is_negated
            and self.operator not in (_NULL, _BOOLEAN)
            and self.quantifier != _FOR_ALL
            and not any(set("*?$") & set(text.text) for text in self.texts)
        )


def parse_conditions(block: Any, version: str) -> tuple[Condition, ...]:
    """Return the conditions of a Condition element. All must hold.

    Raises:
        ConditionError: The element is malformed, or has an operator or a key that foldb does not support.
    """
    if not isinstance(block, dict):
        raise ConditionError("Condition is not an object")
    found = []
    for operator, tests in block.items():
        if not isinstance(tests, dict):
            raise ConditionError(f"the condition {operator} is not an object")
        found += [_condition(operator, key, values, version) for key, values in tests.items()]
    return tuple(found)


def _condition(name: str, key: str, values: Any, version: str) -> Condition:
    quantifier, colon, rest = name.partition(":")
    if not colon:
        quantifier, rest = "", name
    operator = rest.removesuffix(_IF_EXISTS)
    is_known = quantifier in ("", _FOR_ALL, _FOR_ANY) and (operator in _OPERATORS or rest == _NULL)
    if not is_known or (operator == _NULL and quantifier):
        raise ConditionError(f"foldb does not support the condition operator {name}")
    lower = key.lower()
    if lower not in KEYS:
        raise ConditionError(f"foldb does not support the condition key {key}")
    if lower in _SETS and not quantifier and operator != _NULL:
        raise ConditionError(f"{key} has several values: write {_FOR_ALL}:{name} or {_FOR_ANY}:{name}")
    texts = tuple(policy_text(text, version) for text in _texts(values, f"{name} of {key}"))
    for text in texts:
        if (unknown := text.unknown_variable()) is not None:
            raise ConditionError(f"foldb does not have the policy variable ${{{unknown}}}")
        if operator in (_NULL, _BOOLEAN) and text.text.lower() not in ("true", "false"):
            raise ConditionError(f"{name} of {key} is neither true nor false")
    return Condition(lower, operator, texts, quantifier, rest != operator)


def _texts(values: Any, name: str) -> list[str]:
    given = values if isinstance(values, list) else [values]
    texts = [str(value).lower() if isinstance(value, bool) else value for value in given]
    if not texts or not all(isinstance(text, str) and len(text) <= TEXT_MAX for text in texts):
        raise ConditionError(f"{name} is not a text or a list of texts of at most {TEXT_MAX} characters")
    return texts
