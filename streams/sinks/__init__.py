"""What a subscription can call, one module a kind: each has `check(settings)` and `make(settings, surroundings)`.

A kind's module is loaded when a subscription first names it: who calls no webhook loads no HTTP client.
"""

import importlib
from typing import Any, Final, Protocol, cast

from ...model.errors import ValidationError
from .sink import Sink, SinkContext

MODULES: Final = {
    "python": "python",
    "lambda": "lambda_handler",
    "command": "command",
    "webhook": "webhook",
    "kafka": "kafka",
    "kinesis": "kinesis",
    "file": "file",
    "sqlite": "sqlite",
}
"""The module of each `Kind`."""

RUNNING: Final = frozenset(("python", "lambda", "command"))
"""Kinds that run somebody's code on this machine: they need a folder that it comes from."""


class SinkModule(Protocol):
    """What the module of a kind has."""

    def check(self, settings: dict[str, Any]) -> None:
        """Refuse what this kind cannot be given, with a ValidationError; whether it is there now is not looked at."""
        ...

    def make(self, settings: dict[str, Any], surroundings: SinkContext) -> Sink:
        """A sink that is yet to be started."""
        ...


def module_of(settings: dict[str, Any]) -> SinkModule:
    """The module for the `Kind` of a subscription's Sink.

    Raises:
        ValidationError: There is no such kind.
    """
    kind = settings.get("Kind")
    if not isinstance(kind, str) or kind not in MODULES:
        raise ValidationError(f"Sink.Kind must be one of {', '.join(MODULES)}")
    return cast(SinkModule, importlib.import_module(f".{MODULES[kind]}", __name__))
