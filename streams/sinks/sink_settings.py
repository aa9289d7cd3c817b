"""The members of a subscription's Sink, read and checked in one way for every kind.

    members = Members(settings, "webhook")
    members.text("Url")
    members.end()                      refuses what nobody asked for

Each reading names the member in what it says, so a sink's module says only which members it has.
"""

from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from ...model.errors import ValidationError

T = TypeVar("T")


class Members:
    """Reads members one by one and remembers which were asked for; "Kind" always is."""

    def __init__(self, settings: dict[str, Any], kind: str) -> None:
        self._settings = settings
        self._kind = kind
        self._known = {"Kind"}

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._get(name, str, default)
        if not value:
            raise ValidationError(f"Sink.{name} must be given for the kind {self._kind}")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some texts."""
        value = self._get(name, str, default)
        if value not in choices:
            raise ValidationError(f"Sink.{name} must be one of {', '.join(choices)}")
        return value

    def integer(self, name: str, least: int, most: int, default: int) -> int:
        """A whole number within bounds."""
        value = self._get(name, int, default)
        if isinstance(value, bool) or not least <= value <= most:
            raise ValidationError(f"Sink.{name} must be a whole number from {least} to {most}")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts; none where it is left out."""
        return [self._of(name, str, value) for value in self._get(name, list, [])]

    def pairs(self, name: str) -> dict[str, str]:
        """An object of texts; empty where it is left out."""
        pairs: dict[str, str] = self._get(name, dict, {})
        for value in pairs.values():
            self._of(name, str, value)
        return pairs

    def end(self) -> None:
        """Refuse every other member."""
        unknown = sorted(self._settings.keys() - self._known)
        if unknown:
            raise ValidationError(f"Sink has no member {unknown[0]} for the kind {self._kind}")

    def _get(self, name: str, kind: type[T], default: T | None) -> T:
        self._known.add(name)
        value = self._settings.get(name, default)
        if value is None:
            raise ValidationError(f"Sink.{name} must be given for the kind {self._kind}")
        return self._of(name, kind, value)

    def _of(self, name: str, kind: type[T], value: Any) -> T:
        if not isinstance(value, kind):
            word = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}[kind]
            raise ValidationError(f"Sink.{name} must be {word}")
        return value


def version_of(settings: dict[str, Any]) -> str:
    """Tells these settings from others; the version of a sink that runs nobody's code."""
    return blake2b(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def shown(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a Sink as they may be shown: without what somebody could sign or log in with."""
    hidden = dict(settings)
    if "Secrets" in hidden:
        hidden["Secrets"] = ["..." for _ in hidden["Secrets"]]
    if "Headers" in hidden:
        hidden["Headers"] = dict.fromkeys(hidden["Headers"], "...")
    return hidden


def shown_to_readers(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a Sink as they may be shown to who does not administer it: many a URL holds a token."""
    hidden = shown(settings)
    return hidden | {"Url": site_of(hidden["Url"])} if "Url" in hidden else hidden


def site_of(url: str) -> str:
    """Return a URL without its credentials, path and query.

    >>> site_of("https://hooks.example:8443/services/T0/B0?key=hush")
    'https://hooks.example:8443/...'
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no address
        return "..."
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/..." if host else "..."
