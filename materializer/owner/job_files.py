"""The files of jobs, as the runners of jobs use them. The server implements them (server/buckets/bucket_files.py).

    runner ──► submit(work, done) ──► work in a thread: open, read, add, end_file, finish ──► done, in the loop

The methods of inputs and outputs block. Only one call runs at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import orjson

from ...log.commands import DefineTable, Put, new_context
from ...model.jobs import PROGRESS, Job
from ...model.tables import TableDefinition
from ..history.requests import Difference

T = TypeVar("T")

_RUNNER: Final = new_context(request_id="")


class InputPage(NamedTuple):
    """A page of the items of files.

    Attributes:
        puts: The valid items in order, as writes to the table.
        place: The place after the page, which is plain JSON.
        counts: The figures of the page: `processed` items, `errors` among them, `bytes` of files that it completes.
        errors: A JSON object for each invalid item.
        is_last: Whether the page ends the files.
    """

    puts: list[Put]
    place: Any
    counts: dict[str, int]
    errors: list[dict[str, Any]]
    is_last: bool


class JobInput(Protocol):
    """The items of files."""

    def read(self, limit: int) -> InputPage:
        """Return the next page, of at most `limit` items.

        Raises:
            JobFailedError: The files cannot be read.
        """
        ...

    def close(self) -> None: ...


class OutputProgress(NamedTuple):
    """The complete data files of an export: those since the last progress, and the figures of all."""

    files: list[dict[str, Any]]
    items: int
    bytes: int


class ExportOutput(Protocol):
    """The files of an export."""

    def add_items(self, items: Sequence[bytes]) -> bool:
        """Write canonical items; return whether the data file is large enough to be ended.

        Raises:
            JobFailedError: The file cannot be written. This is true of all methods.
        """
        ...

    def add_changes(self, differences: Sequence[Difference]) -> bool:
        """Write the changes of items, as `add_items` writes items."""
        ...

    def end_file(self) -> OutputProgress:
        """Complete the data file, durably."""
        ...

    def finish(self, end_ms: int) -> None:
        """Write the manifests. The export is complete with the last of them."""
        ...

    def discard(self) -> None:
        """Remove the data file that is not complete."""
        ...


class JobFiles(Protocol):
    """Opens the files of jobs."""

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a thread, and call `done` with its result or exception, in the loop."""
        ...

    def open_export(self, job: Job) -> ExportOutput:
        """Open the files of an export, to continue after its complete data files.

        Raises:
            JobFailedError: The bucket does not exist, or cannot be written.
        """
        ...

    def open_input(self, job: Job, definition: TableDefinition, place: Any) -> JobInput:
        """Open the files of an import or a bulk operation, to continue at a place of `InputPage`, or at the beginning.

        Raises:
            JobFailedError: The bucket or its files do not exist, or cannot be read.
        """
        ...

    def write_report(self, job: Job, number: int, errors: Sequence[dict[str, Any]]) -> None:
        """Write a file of a bulk operation's report, or replace it.

        Raises:
            JobFailedError: The bucket does not exist, or cannot be written.
        """
        ...


def job_progress(
    job: Job,
    cursor: Any,
    counts: dict[str, int],
    *,
    files: Sequence[dict[str, Any]] = (),
    status: str | None = None,
    failure: Sequence[str] | None = None,
) -> DefineTable:
    """Return the command of a job's progress up to a cursor; with a status that of its end."""
    progress = {
        "Arn": job.arn,
        "After": job.cursor,
        "Cursor": cursor,
        "Counts": counts,
        "Files": list(files),
        "Status": status,
        "Failure": failure,
    }
    written = {
        name: value for name, value in progress.items() if value or name in ("After", "Cursor", "Counts")
    }
    return DefineTable(PROGRESS, 0, orjson.dumps(written, option=orjson.OPT_SORT_KEYS), "", _RUNNER)
