"""Compile a request's expressions to a plan, and cache plans.

A plan depends on the texts, the names and the *types* of the values, not on the values. A request with the same texts
and other values therefore costs one cache lookup. Only checks that depend on the values run every time.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from ..model.errors import ValidationError
from ..model.lazy_dataclass import dataclass
from ..model.limits import MODERN, Limits
from ..model.values import type_of
from .conditions import Condition, check_values
from .key_conditions import KeyCondition, key_condition
from .parameters import check_substitutions
from .parse_condition import NO_CHECKS, ConditionParser, ValueChecks
from .parse_update import UpdateParser
from .parser import Names, Scope, Values
from .projections import CompiledProjection, ProjectionParser
from .updates import CompiledUpdate


@dataclass(frozen=True, slots=True)
class Plan:
    """The compiled expressions of a request."""

    condition: Condition | None = None
    filter: Condition | None = None
    key_condition: KeyCondition | None = None
    update: CompiledUpdate | None = None
    projection: CompiledProjection | None = None
    value_checks: tuple[tuple[str, ValueChecks], ...] = ()


Parsed = TypeVar("Parsed")


class PlanCache(Generic[Parsed]):
    """A cache of plans, or of other results of parsing, in two generations.

    A full young generation replaces the old one, and a plan that is used again moves to the young generation. The
    effect is close to that of a least-recently-used cache, without an order to maintain.
    """

    __slots__ = ("_capacity", "_old", "_young")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._young: dict[Hashable, Parsed] = {}
        self._old: dict[Hashable, Parsed] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: Hashable) -> Parsed | None:
        """Return the plan, or None if it is not cached."""
        plan = self._young.get(key)
        if plan is None:
            plan = self._old.get(key)
            if plan is not None:
                self.put(key, plan)
        return plan

    def put(self, key: Hashable, plan: Parsed) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[key] = plan


_SHOWN: Final = 16  # unused placeholders named in a message

_PLANS: Final = PlanCache[Plan](capacity=1024)
# Larger plans are rare and not cached: a thousand of them would need too much memory.
_CACHED_CHARACTERS: Final = 16 * 1024


def compile(  # noqa: A001  # the agreed name
    *,
    condition: str | None = None,
    filter: str | None = None,  # noqa: A002
    key_condition: str | None = None,
    update: str | None = None,
    projection: str | None = None,
    names: Names = None,
    values: Values = None,
    limits: Limits = MODERN,
) -> Plan:
    """Return the plan of a request's expressions, from the cache or compiled.

    Args:
        condition: ConditionExpression.
        filter: FilterExpression.
        key_condition: KeyConditionExpression.
        update: UpdateExpression.
        projection: ProjectionExpression.
        names: ExpressionAttributeNames.
        values: ExpressionAttributeValues, checked and canonical.
        limits: The limits of expressions.

    Raises:
        ValidationError: An expression is invalid, on its own or with its names and values.
    """
    texts = (update, condition, key_condition, filter, projection)
    # One flat tuple is hashed and compared in half the time of nested ones.
    parts: list[str | int | None] = [*texts, limits.name]
    if names is not None:
        parts.append(len(names))
        for name, meaning in names.items():
            parts.append(name)
            parts.append(meaning)
    if values is not None:
        parts.append(-1)  # the names have ended, or there are none
        for name, value in values.items():
            parts.append(name)
            parts.append(type_of(value))
    key = tuple(parts)
    plan = _PLANS.get(key)
    if plan is None:
        plan = _compile(texts, names, values, limits)
        if _characters(texts, names, values) <= _CACHED_CHARACTERS:
            _PLANS.put(key, plan)
    elif plan.value_checks and values is not None:
        for parameter, checks in plan.value_checks:
            check_values(parameter, checks, values)
    return plan


def _characters(texts: tuple[str | None, ...], names: Names, values: Values) -> int:
    size = sum(len(text) for text in texts if text is not None)
    size += sum(len(name) + len(meaning) for name, meaning in (names or {}).items())
    return size + sum(map(len, values or {}))


def _compile(texts: tuple[str | None, ...], names: Names, values: Values, limits: Limits) -> Plan:
    """Compile the expressions in DynamoDB's order, so that the first invalid one is reported."""
    check_substitutions(names, values, limits)
    update, condition, key, filter_, projection = texts
    scope = Scope(names, values)
    compiled_update = None if update is None else _update(update, scope, limits)
    compiled_condition = _condition("ConditionExpression", condition, scope, limits)
    compiled_key = _condition("KeyConditionExpression", key, scope, limits)
    compiled_filter = _condition("FilterExpression", filter_, scope, limits)
    compiled_projection = (
        None
        if projection is None
        else ProjectionParser("ProjectionExpression", projection, scope, limits).parse()
    )
    _check_unused("ExpressionAttributeNames", names, scope.used_names)
    _check_unused("ExpressionAttributeValues", values, scope.used_values)
    # DynamoDB checks the form of a key condition after all other expressions.
    key_part = None if compiled_key is None else key_condition(compiled_key.tree, compiled_key.value_checks)
    conditions = [part for part in (compiled_condition, compiled_key, compiled_filter) if part is not None]
    return Plan(
        condition=compiled_condition,
        filter=compiled_filter,
        key_condition=key_part,
        update=compiled_update,
        projection=compiled_projection,
        value_checks=tuple(
            (part.parameter, part.value_checks) for part in conditions if part.value_checks != NO_CHECKS
        ),
    )


def _update(text: str, scope: Scope, limits: Limits) -> CompiledUpdate:
    parser = UpdateParser("UpdateExpression", text, scope, limits)
    actions = parser.parse()
    return CompiledUpdate(actions, parser.targets, tuple(parser.attributes), tuple(parser.nested))


def _condition(parameter: str, text: str | None, scope: Scope, limits: Limits) -> Condition | None:
    if text is None:
        return None
    parser = ConditionParser(parameter, text, scope, limits)
    tree = parser.parse()
    return Condition(parameter, tree, tuple(parser.attributes), tuple(parser.nested), parser.value_checks)


def _check_unused(parameter: str, given: Names | Values, used: dict[str, None]) -> None:
    unused = [name for name in given or {} if name not in used]
    if unused:
        raise ValidationError(
            f"Value provided in {parameter} unused in expressions: keys: {{{', '.join(unused[:_SHOWN])}}}"
        )
