"""The statements of a request: parsed once, for its rights and its handler, and many of them in portions.

    request ──► portions ──► (other requests) ──► ... ──► rights ──► handler

A hundred statements of 8 KB take seconds to parse, so a long request takes several turns of the loop.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from ...expressions.partiql import Statement, parse
from ...model.errors import ValidationError
from ...model.limits import MODERN

_PORTION: Final = 4 * 1024  # characters, so that a turn has one of the longest statements

_PARSED: Final = "#"  # the member for a statement or its error; no client can send it


def parsed(member: dict[str, Any]) -> Statement:
    """Return the statement of a request, or of a member of one. It is parsed once for each request.

    Raises:
        ValidationError: The text is no statement.
    """
    found = member.get(_PARSED)
    if found is None:
        try:
            found = parse(member["Statement"], MODERN)
        except ValidationError as error:
            found = error
        member[_PARSED] = found
    if isinstance(found, ValidationError):
        raise found
    assert isinstance(found, Statement)
    return found


def portions(members: list[dict[str, Any]], proceed: Callable[[], None]) -> Callable[[], bool]:
    """Return a step for LongReads that parses the next statements, and calls `proceed` after the last."""
    remaining = iter(members)

    def step() -> bool:
        size = 0
        for member in remaining:
            with suppress(ValidationError):  # the handler refuses the statement
                parsed(member)
            size += len(member["Statement"])
            if size >= _PORTION:
                return False
        proceed()
        return True

    return step
