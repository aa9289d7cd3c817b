"""The files of jobs in the folder of the buckets. Their code is imported with the first job: a start needs none."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...materializer.owner.job_files import ExportOutput, JobInput
from ...model.jobs import Job
from ...model.limits import limits_named
from ...model.tables import TableDefinition
from ...streams.feed.serial_executor import SerialExecutor

T = TypeVar("T")


class BucketFiles:
    """The files of jobs in the folder of the buckets.

    Args:
        root: The folder of --buckets; None if the server has none. Then every job fails.
        executor: Runs the work.
        limits: The name of the limits of the database. A fold refuses a name of a later version before a job runs.

    Attributes:
        executor: Runs the work.
    """

    def __init__(self, root: Path | None, executor: SerialExecutor, limits: str) -> None:
        self._root = root
        self.executor = executor
        self._limits = limits

    def submit(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        self.executor.submit(work, done)

    def open_export(self, job: Job) -> ExportOutput:
        from .job_files import open_export

        return open_export(self._root, job)

    def open_input(self, job: Job, definition: TableDefinition, place: Any) -> JobInput:
        from .job_files import open_input

        return open_input(self._root, job, definition, place, limits_named(self._limits))

    def write_report(self, job: Job, number: int, errors: Sequence[dict[str, Any]]) -> None:
        from .job_files import write_report

        write_report(self._root, job, number, errors)
