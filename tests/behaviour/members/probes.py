"""Whether a member of a request has an effect: the request is sent with other values of it, without it, and with it."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any, Final

import orjson

from tests.behaviour.members.meanings import other_values, refusals
from tests.behaviour.members.model import Place, Steps, places, smallest
from tests.behaviour.members.samples import BEFORE, Sample, samples
from tests.behaviour.members.world import Observation, observe

_ABSENT: Final = object()
# The error for a value that the service model refuses before a handler reads the member.
_OF_THE_MODEL: Final = "failed to satisfy constraint: Member must"


def effect(sample: Sample, place: Place) -> str:
    """Return how a member that a sample has shows its effect; an empty text if nothing shows one.

    Other values of it, and its absence, are tried. Where both requests succeed, the answers or the tables must differ.
    A refusal counts if it comes from the evaluation of a condition, or if `refusals` has it: many a request is refused
    for what it lacks without a member, although the member itself would be ignored.
    """
    plain, value = sent(sample, sample.body), at(sample.body, place.steps)
    for other in (*other_values(place.path, place.shape, value), _ABSENT):
        found = sent(sample, put(sample.body, place.steps, other))
        if found == plain:
            continue
        if not found.error:
            return "another result"
        if "ConditionalCheckFailed" in found.error:
            return "a condition"
        if any(text in found.error for text in refusals(place.path)):
            return "a refusal"
    return ""


def effect_added(sample: Sample, place: Place) -> str:
    """Add a member that a sample lacks; return the error, "another result", or an empty text."""
    plain = sent(sample, sample.body)
    for value in _values(sample.operation, place):
        found = sent(sample, put(sample.body, place.steps, value))
        if found.error and _OF_THE_MODEL not in found.error:
            return found.error
        if not found.error and found != plain:
            return "another result"
    return ""


def _values(operation: str, place: Place) -> Iterator[Any]:
    """Make values for a member: those of other samples, and others of its kind."""
    used = [
        at(each.body, found.steps)
        for each in samples()
        if each.operation == operation
        for found in places(operation, each.body)
        if found.path == place.path
    ]
    least = smallest(place.shape)
    yield from used
    yield least
    yield from other_values(place.path, place.shape, used[0] if used else least)


def at(body: Any, steps: Steps) -> Any:
    """Return the value at a place of a request."""
    for step in steps:
        body = body[step]
    return body


def put(body: dict[str, Any], steps: Steps, value: Any) -> dict[str, Any]:
    """Return a copy of a request with another value at a place, or none."""
    copied = deepcopy(body)
    around = at(copied, steps[:-1])
    if value is _ABSENT:
        del around[steps[-1]]
    else:
        around[steps[-1]] = value
    return copied


def sent(sample: Sample, body: dict[str, Any]) -> Observation:
    """Observe a sample with this body."""
    return _observed(sample.operation, orjson.dumps(body), orjson.dumps(sample.before), sample.times)


def sent_again(sample: Sample) -> Observation:
    """Observe a sample in another database."""
    body, before = orjson.dumps(sample.body), orjson.dumps(sample.before)
    return _observed.__wrapped__(sample.operation, body, before, sample.times)


@cache
def _observed(operation: str, body: bytes, before: bytes, times: int) -> Observation:
    requests = [(operation, orjson.loads(body))] * times
    return observe([*BEFORE, *orjson.loads(before)], *requests)
