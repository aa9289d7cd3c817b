"""Filters the changes of a subscription: by event, by a condition over OLD and NEW, and by patterns.

    change ──► Events ──► Filter ──► FilterCriteria ──► delivered

A change must pass every rule that the subscription sets; it passes FilterCriteria if it matches one pattern. A filtered
change counts as handled. Images are decoded only if a rule needs them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from ... import expressions
from ...model.errors import ValidationError
from ...model.limits import MODERN
from ...model.subscriptions.setting_types import EVENTS
from ...model.values import check_values
from ..formats import lambda_event
from ..formats.table_view import Delivery, operation
from .patterns import Pattern, compile_pattern

_IMAGES: Final = frozenset(("OLD", "NEW"))
_IMAGE: Final = re.compile(r"(?<![#:.\w])(OLD|NEW)(?!\w)")

Test = Callable[[Delivery], bool]


class FilterReason(NamedTuple):
    """The result of one rule for a change."""

    rule: str
    holds: bool
    why: str


class ChangeFilter:
    """Decides which changes a subscription delivers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Compile validated settings.

        Raises:
            ValidationError: The expression or a pattern is invalid.
        """
        self._events = frozenset(settings["Events"])
        self._filter = _filter(settings["Filter"])
        self._patterns = _patterns(settings["FilterCriteria"])
        self._settings = settings

    @property
    def test(self) -> Test | None:
        """Return the test that `chooses` applies; None if the subscription delivers every change."""
        tests: list[Test] = []
        if len(self._events) < len(EVENTS):
            tests.append(self._is_event)
        if self._filter is not None:
            tests.append(self._filter)
        if self._patterns:
            tests.append(self._matches)
        if len(tests) < 2:
            return tests[0] if tests else None
        return lambda delivery: all(test(delivery) for test in tests)

    def chooses(self, delivery: Delivery) -> bool:
        """Return whether the subscription delivers the change."""
        test = self.test
        return test is None or test(delivery)

    def explain(self, delivery: Delivery) -> list[FilterReason]:
        """Return each rule of the subscription, and whether it holds for a change."""
        op = operation(delivery.change)
        reasons = [FilterReason("Events", op in self._events, f"{op} of {', '.join(sorted(self._events))}")]
        if self._filter is not None:
            reasons.append(
                FilterReason("Filter", self._filter(delivery), self._settings["Filter"]["Expression"])
            )
        if self._patterns:
            record = _record(delivery)
            reasons += [
                FilterReason("FilterCriteria", pattern(record), each["Pattern"])
                for pattern, each in zip(
                    self._patterns, self._settings["FilterCriteria"]["Filters"], strict=True
                )
            ]
        return reasons

    def _is_event(self, delivery: Delivery) -> bool:
        return operation(delivery.change) in self._events

    def _matches(self, delivery: Delivery) -> bool:
        record = _record(delivery)
        return any(pattern(record) for pattern in self._patterns)


def _filter(given: Mapping[str, Any] | None) -> Test | None:
    if given is None:
        return None
    text, names = _with_placeholders(given["Expression"], given.get("ExpressionAttributeNames"))
    # A copy, because check_values makes numbers canonical.
    values = orjson.loads(orjson.dumps(given.get("ExpressionAttributeValues")))
    expressions.check_substitution_size(names, 0 if values is None else check_values(values, MODERN), MODERN)
    condition = expressions.compile(filter=text, names=names, values=values).filter
    assert condition is not None, "an expression was given"
    if not _IMAGES.issuperset(condition.attributes):
        raise ValidationError(
            "Filter.Expression may only use OLD and NEW and their attributes, like NEW.#status = :paid"
        )
    bound = condition.bind(values or {})

    def holds(delivery: Delivery) -> bool:
        change = delivery.change
        images: dict[str, Any] = {}
        if change.old is not None:
            images["OLD"] = {"M": orjson.loads(change.old)}
        if change.new is not None:
            images["NEW"] = {"M": orjson.loads(change.new)}
        return condition.holds(images, bound)

    return holds


def _with_placeholders(text: str, names: dict[str, str] | None) -> tuple[str, dict[str, str] | None]:
    """Replace OLD and NEW by placeholders: they are reserved words of DynamoDB."""
    used = dict.fromkeys(match[0] for match in _IMAGE.finditer(text))
    if not used:
        return text, names
    return _IMAGE.sub(r"#\1", text), {f"#{image}": image for image in used} | (names or {})


def _patterns(given: Mapping[str, Any] | None) -> list[Pattern]:
    return [] if given is None else [compile_pattern(each["Pattern"]) for each in given["Filters"]]


def _record(delivery: Delivery) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(lambda_event.record(delivery))
    return record
