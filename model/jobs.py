"""Jobs: exports of tables to files, imports of tables from files, and bulk puts of items from files.

A job is state of the catalog, so every node describes it and its runner can continue after a crash. A job begins with a
request. Each portion of its work ends with a progress, which holds the cursor after which the work continues:

    ExportTable | ImportTable | BulkPutItems ──► Job(IN_PROGRESS) ──► JobProgress* ──► COMPLETED | FAILED | CANCELLED

A progress names the cursor that it continues, so a portion that two runners repeat counts once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Final, Literal, TypeAlias

from .errors import (
    ExportConflictError,
    IdempotentParameterMismatchError,
    ImportConflictError,
    LimitExceededError,
    RequestError,
)
from .key_schema import KeySchema
from .lazy_dataclass import dataclass

JobKind: TypeAlias = Literal["export", "import", "bulk-operation"]
JobStatus: TypeAlias = Literal[
    "IN_PROGRESS", "COMPLETED", "COMPLETED_WITH_ERRORS", "CANCELLING", "CANCELLED", "FAILED"
]

START_EXPORT: Final = "ExportTableToPointInTime"
START_IMPORT: Final = "ImportTable"
START_BULK: Final = "StartBulkPutItems"
CANCEL: Final = "CancelBulkOperation"
PROGRESS: Final = "JobProgress"

JOB_COMMANDS: Final = (START_EXPORT, START_IMPORT, START_BULK, CANCEL, PROGRESS)
"""The operations of the commands that begin and change jobs."""

KINDS: Final[dict[str, JobKind]] = {
    START_EXPORT: "export",
    START_IMPORT: "import",
    START_BULK: "bulk-operation",
}

JOB: Final = "Job"
"""The member of a table command that has the job. No client's request has it."""

_RUNNING_MAX: Final[dict[JobKind, int]] = {"export": 300, "import": 50, "bulk-operation": 50}
_TOKEN_MS: Final = 8 * 60 * 60 * 1000
_KEPT_MS: Final = 90 * 24 * 60 * 60 * 1000  # DynamoDB lists the jobs of 90 days


@dataclass(frozen=True, slots=True)
class Job:
    """An export, an import or a bulk operation.

    Attributes:
        arn: The job's Amazon resource name.
        kind: The kind of the job, as the ARN names it.
        table_id, table_arn, table_uuid: The table that is read or written. A job outlives it.
        key: The table's key schema.
        request: The request without its token.
        token: The ClientToken; None if the request had none.
        started_ms: The log time of the command that began the job.
        cut_ms: The log time of the items of an export; None for other jobs.
        since_ms: The log time after which an incremental export has changes; None for other jobs.
        status: The status that the API shows.
        ended_ms: The log time of the end; None while the job runs.
        cursor: The place after which the job continues, in the form of its runner; None at the beginning.
        counts: The figures of the job by name, as its runner counts them.
        files: The data files of an export that runs. The manifest has those of an export that has ended.
        failure: The code and the sentence of a job that failed.
    """

    arn: str
    kind: JobKind
    table_id: int
    table_arn: str
    table_uuid: str
    key: KeySchema
    request: dict[str, Any]
    token: str | None
    started_ms: int
    cut_ms: int | None = None
    since_ms: int | None = None
    status: JobStatus = "IN_PROGRESS"
    ended_ms: int | None = None
    cursor: Any = None
    counts: dict[str, int] = field(default_factory=dict)
    files: tuple[dict[str, Any], ...] = ()
    failure: tuple[str, str] | None = None

    @property
    def id(self) -> str:
        """The last part of the ARN: the time of the start, and random digits."""
        return self.arn.rpartition("/")[2]

    @property
    def is_running(self) -> bool:
        return self.ended_ms is None

    def to_json(self) -> dict[str, Any]:
        """Return every field in canonical form, for the state dump."""
        written = {name: getattr(self, name) for name in self.__slots__}
        return written | {
            "key": self.key.to_json(),
            "files": list(self.files),
            "failure": self.failure and list(self.failure),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Job":
        """Return the job that `to_json` wrote."""
        failure = data["failure"]
        return cls(
            **{
                **data,
                "key": KeySchema.from_json(data["key"]),
                "files": tuple(data["files"]),
                "failure": failure and tuple(failure),
            }
        )

    def after(self, progress: Mapping[str, Any], time_ms: int) -> "Job | None":
        """Return the job after a progress; None if the progress continues another cursor, or the job has ended.

        Args:
            progress: The request of a JobProgress: `After`, `Cursor`, `Counts`, `Files`, and at the end `Status` and
                perhaps `Failure`.
            time_ms: The log time.
        """
        if not self.is_running or progress["After"] != self.cursor:
            return None
        changed = replace(
            self,
            cursor=progress["Cursor"],
            counts=progress["Counts"],
            files=(*self.files, *progress.get("Files", ())),
        )
        status = progress.get("Status")
        if status is None:
            return changed
        failure = progress.get("Failure")
        return replace(
            changed, status=status, ended_ms=time_ms, files=(), failure=failure and (failure[0], failure[1])
        )


def job_arn(table_arn: str, kind: JobKind, *, uuid: str, time_ms: int) -> str:
    """Return the ARN of a job that begins at a log time, with the first part of a random `uuid`."""
    return f"{table_arn}/{kind}/{time_ms:014d}-{uuid[:8]}"


def repeated(
    jobs: Iterable[Job], kind: JobKind, request: Mapping[str, Any], token: str | None, time_ms: int
) -> Job | None:
    """Return the job that the same request began with the same token, at most eight hours ago; None if there is none.

    Raises:
        ExportConflictError, ImportConflictError, IdempotentParameterMismatchError: Another request has used the token.
    """
    if token is None:
        return None
    for job in jobs:
        if job.kind == kind and job.token == token and time_ms < job.started_ms + _TOKEN_MS:
            if job.request == request:
                return job
            raise _token_error(kind)
    return None


def _token_error(kind: JobKind) -> RequestError:
    match kind:
        case "export":
            return ExportConflictError("Another export has the same ClientToken and other parameters")
        case "import":
            return ImportConflictError("Another import has the same ClientToken and other parameters")
        case _:
            return IdempotentParameterMismatchError()


def check_running(jobs: Iterable[Job], kind: JobKind) -> None:
    """Check that another job of a kind may begin.

    Raises:
        LimitExceededError: As many jobs as possible run.
    """
    limit = _RUNNING_MAX[kind]
    if sum(job.kind == kind and job.is_running for job in jobs) >= limit:
        noun = {"export": "exports", "import": "imports", "bulk-operation": "bulk operations"}[kind]
        raise LimitExceededError(
            f"Subscriber limit exceeded: There is a limit of {limit} {noun} that run at once"
        )


def is_kept(job: Job, time_ms: int) -> bool:
    """Return whether a job runs, or began in the last 90 days."""
    return job.is_running or time_ms < job.started_ms + _KEPT_MS
