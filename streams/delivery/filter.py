"""Which changes a subscription delivers: by what happened, by a condition over OLD and NEW, by patterns.

    change ──► Events ──► Filter ──► FilterCriteria ──► delivered

All that a subscription sets must hold; of FilterCriteria's patterns one is enough. What is not delivered counts as
handled. Nothing is decoded that no rule asks for.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from ... import expressions
from ...model.errors import ValidationError
from ...model.limits import MODERN
from ...model.subscriptions.settings import EVENTS
from ...model.values import check_values
from ..formats import lambda_event
from ..formats.table_view import Delivery, operation
from .patterns import Pattern, compile_pattern

_IMAGES: Final = frozenset(("OLD", "NEW"))
_IMAGE: Final = re.compile(r"(?<![#:.\w])(OLD|NEW)(?!\w)")

Test = Callable[[Delivery], bool]


class Reason(NamedTuple):
    """One rule and what it said of a change."""

    rule: str
    holds: bool
    why: str


class ChangeFilter:
    """Says of each change whether a subscription delivers it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Read checked settings.

        Raises:
            ValidationError: The expression or a pattern is wrong.
        """
        self._events = frozenset(settings["Events"])
        self._filter = _filter(settings["Filter"])
        self._patterns = _patterns(settings["FilterCriteria"])
        self._settings = settings

    @property
    def test(self) -> Test | None:
        """The same as `chooses`; None where everything is delivered."""
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
        """Whether the change is delivered."""
        test = self.test
        return test is None or test(delivery)

    def explain(self, delivery: Delivery) -> list[Reason]:
        """Each rule of the subscription, and whether it holds for a change."""
        op = operation(delivery.change)
        reasons = [Reason("Events", op in self._events, f"{op} of {', '.join(sorted(self._events))}")]
        if self._filter is not None:
            reasons.append(Reason("Filter", self._filter(delivery), self._settings["Filter"]["Expression"]))
        if self._patterns:
            record = _record(delivery)
            reasons += [
                Reason("FilterCriteria", pattern(record), each["Pattern"])
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
    text, names = _placed(given["Expression"], given.get("ExpressionAttributeNames"))
    values = orjson.loads(
        orjson.dumps(given.get("ExpressionAttributeValues"))
    )  # a copy: it is made canonical
    expressions.check_substitution_size(names, 0 if values is None else check_values(values, MODERN), MODERN)
    condition = expressions.compile(filter=text, names=names, values=values).filter
    assert condition is not None, "an expression was given"
    if not _IMAGES.issuperset(condition.attributes):
        raise ValidationError(
            "Filter.Expression is about OLD and NEW, and what is in them: NEW.#status = :paid"
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


def _placed(text: str, names: Mapping[str, str] | None) -> tuple[str, Mapping[str, str] | None]:
    """OLD and NEW are among DynamoDB's reserved words, so they go by placeholders."""
    used = dict.fromkeys(match[0] for match in _IMAGE.finditer(text))
    if not used:
        return text, names
    return _IMAGE.sub(r"#\1", text), {f"#{image}": image for image in used} | dict(names or {})


def _patterns(given: Mapping[str, Any] | None) -> list[Pattern]:
    return [] if given is None else [compile_pattern(each["Pattern"]) for each in given["Filters"]]


def _record(delivery: Delivery) -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(lambda_event.record(delivery))
    return record
