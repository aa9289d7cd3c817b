"""What sinks that run code have in common in their settings."""

from typing import Any, Final

from ...model.errors import ValidationError
from ..sinks.sink import Surroundings
from .folder import Folder

_MEMORY_MB: Final = (128, 2048, 65_536)


def members(settings: dict[str, Any], *known: str) -> None:
    """Refuse members that this kind of sink has not."""
    for name in settings:
        if name not in ("Kind", *known):
            raise ValidationError(f"Sink.{name} is no setting of a sink of this kind")


def memory_size(settings: dict[str, Any]) -> int:
    """`MemorySize`: how many megabytes a child may take."""
    least, default, most = _MEMORY_MB
    size = settings.get("MemorySize", default)
    if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= most:
        raise ValidationError(f"Sink.MemorySize must be a whole number of megabytes from {least} to {most}")
    return size


def folder_of(surroundings: Surroundings) -> Folder:
    """The folder of triggers.

    Raises:
        ValidationError: There is none: this server runs nobody's code.
    """
    if surroundings.folder is None:
        raise ValidationError(
            "This server runs no functions and no commands: start it with `foldb serve --triggers FOLDER`"
        )
    return Folder(surroundings.folder)
