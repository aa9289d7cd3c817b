"""Check the segments of a log one by one while a writer may be active, so that one report names all damage."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from ...model.errors import CorruptionError, FoldbError
from . import segment
from .filesystem import Filesystem
from .history import History, segments_in
from .segment import Header


def damage_in(disk: Filesystem, folder: Path) -> Iterator[FoldbError | OSError]:
    """Check every segment but the last, by itself and against its successor, and yield the errors."""
    history = History(disk, folder)
    sequences = segments_in(disk, folder)
    if sequences[:1] != [0]:
        yield CorruptionError(segment.name(0), "the log's first segment is missing")
    headers: list[Header | None] = []
    for sequence in sequences:
        headers.append(None)
        try:
            headers[-1] = history.head(sequence)
        except (FoldbError, OSError) as error:
            yield error
    for header, following in pairwise(headers):
        if header is not None:
            try:
                history.check(header, following)
            except (FoldbError, OSError) as error:
                yield error
