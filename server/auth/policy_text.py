"""The texts of policies that stand for many: patterns with `*` and `?`, and variables.

    text ──► variables of the caller ──► equal to a value, in either case?    matched by its wildcards?

A variable such as `${aws:username}` is replaced by its value, and `${*}`, `${?}` and `${$}` by these characters, which
are no wildcards then. Documents of the version 2008-10-17 have no variables. A pattern becomes a regular expression
that never goes back over a `*`, so a match takes linear time for each part of the pattern.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

ACCOUNT: Final = "000000000000"
"""The account of every key and table."""

_variable = re.compile(r"\$\{([^}]*)\}")
_CHARACTERS: Final = frozenset("*?$")
_ARN_COLONS: Final = 5  # before the resource part, which may have more of them
TEXT_MAX: Final = 2048
"""The characters of a text: as many as a partition key has bytes. It bounds the time of a match and the cache."""

_PATTERNS_MAX: Final = 1024  # compiled patterns in the cache


def user_arn(key_id: str) -> str:
    """Return the ARN of a key: the principal that policies name.

    >>> user_arn("FOLDB7Q2M5K4T3X6J2WA")
    'arn:aws:iam::000000000000:user/FOLDB7Q2M5K4T3X6J2WA'
    """
    return f"arn:aws:iam::{ACCOUNT}:user/{key_id}"


def variables_of(key_id: str) -> dict[str, str]:
    """Return the variables that texts may have, by their names in lower case: condition keys of the caller."""
    return {
        "aws:principalaccount": ACCOUNT,
        "aws:principalarn": user_arn(key_id),
        "aws:userid": key_id,
        "aws:username": key_id,
    }


VARIABLES: Final = frozenset(variables_of(""))


class PolicyText(NamedTuple):
    """A text of a policy, and whether it may have variables."""

    text: str
    has_variables: bool

    def value(self, key_id: str) -> str:
        """Return the text with its variables replaced. `*` and `?` are characters."""
        return "".join(text for text, _ in self._parts(key_id))

    def is_like(self, value: str, key_id: str, *, is_arn: bool = False) -> bool:
        """Return whether the wildcards of the text match a value.

        In an ARN, no wildcard before the resource part matches a colon.
        """
        caller = key_id if self.has_variables else ""
        return _pattern(self, caller, is_arn).fullmatch(value) is not None

    def unknown_variable(self) -> str | None:
        """Return the first variable that no caller has, or None."""
        if not self.has_variables:
            return None
        names = _variable.findall(self.text)
        return next(
            (name for name in names if name not in _CHARACTERS and name.lower() not in VARIABLES), None
        )

    def _parts(self, key_id: str) -> list[tuple[str, bool]]:
        """Return the pieces of the text, and whether the wildcards in each count."""
        if not self.has_variables:
            return [(self.text, True)]
        values = variables_of(key_id)
        pieces = _variable.split(self.text)
        return [
            (values.get(piece.lower(), piece), False) if nth % 2 else (piece, True)
            for nth, piece in enumerate(pieces)
        ]


def policy_text(text: str, version: str) -> PolicyText:
    """Return a text of a document of this version."""
    return PolicyText(text, version == "2012-10-17" and "${" in text)


@lru_cache(maxsize=_PATTERNS_MAX)
def _pattern(text: PolicyText, key_id: str, is_arn: bool) -> re.Pattern[str]:
    pieces, gaps, colons = [""], [""], 0
    for part, has_wildcards in text._parts(key_id):
        for character in part:
            any_character = "[^:]" if is_arn and colons < _ARN_COLONS else "."
            if has_wildcards and character == "*":
                pieces.append("")
                gaps.append(any_character)
            elif has_wildcards and character == "?":
                pieces[-1] += any_character
            else:
                colons += character == ":"
                pieces[-1] += re.escape(character)
    middle = "".join(f"(?>{gap}*?{piece})" for gap, piece in zip(gaps[1:-1], pieces[1:-1], strict=True))
    end = f"{gaps[-1]}*{pieces[-1]}" if len(pieces) > 1 else ""
    return re.compile(pieces[0] + middle + end, re.DOTALL)
