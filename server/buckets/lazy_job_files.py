"""The files of jobs, whose code is imported with the first job: a start needs none of it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ...materializer.owner.job_files import ExportOutput, JobFiles, JobInput
from ...model.jobs import Job
from ...model.tables import TableDefinition
from ...streams.feed.serial_executor import SerialExecutor

T = TypeVar("T")


class LazyJobFiles:
    """The files of jobs in the folder of the buckets, as BucketFiles has them.

    Args:
        root: The folder of --buckets; None if the server has none.
        executor: Runs the work.
        limits: The name of the limits of the database.

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
        return self._files.open_export(job)

    def open_input(self, job: Job, definition: TableDefinition, place: Any) -> JobInput:
        return self._files.open_input(job, definition, place)

    def write_report(self, job: Job, number: int, errors: Sequence[dict[str, Any]]) -> None:
        self._files.write_report(job, number, errors)

    @cached_property
    def _files(self) -> JobFiles:
        from .job_files import BucketFiles

        return BucketFiles(self._root, self.executor, self._limits)
