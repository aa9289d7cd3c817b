"""All errors that foldb raises on purpose.

    FoldbError
    ├── RequestError                         an error of a request, sent as its HTTP response
    │   ├── ValidationError, SerializationError, ...            400, with DynamoDB's names
    │   ├── ConditionalCheckFailedError, TransactionCanceledError, ...   400, with members of their own
    │   ├── InternalServerError                500: the request may or may not have been applied
    │   └── ServiceUnavailableError            503: the request was not applied, retry it
    ├── LogError                             the log could not be written or read
    │   ├── LogFullError                       the disk is full: the entry was not written, retry it
    │   ├── LogLockedError                     another process writes this log
    │   ├── HorizonError                       a record was removed by a trim
    │   └── AppendUnknownError                 the entry may or may not have been written
    ├── JobFailedError                       an export, import or bulk operation cannot go on
    ├── CorruptionError                      bytes in the log are damaged: stop
    ├── ForeignLogError                      the log belongs to another database
    └── NewerVersionError                    a later version of foldb wrote the log

Catch the branch, not the leaf: the endpoint turns a `RequestError` into its response, the worker handles a
`LogError`, and only the top of a process catches the last three. A broken invariant is a bug and not in this tree:
an `assert` reports it.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import orjson

from .lazy_dataclass import dataclass

DYNAMODB = "com.amazonaws.dynamodb.v20120810"
CORAL_SERVICE = "com.amazon.coral.service"
CORAL_VALIDATE = "com.amazon.coral.validate"
CORAL_AVAILABILITY = "com.amazon.coral.availability"

# DynamoDB's messages repeat parts of the request. These bounds, in characters, keep enough of a part to identify it,
# and keep the response to a bad request from being much larger than the request.
_PART_MAX: Final = 259
_MESSAGE_MAX: Final = 1800
_too_long = re.compile(rf"\S{{{_PART_MAX + 1},}}")


class FoldbError(Exception):
    """Base of every error raised on purpose."""


class RequestError(FoldbError):
    """An error of a request, with DynamoDB's text."""

    wire_name: ClassVar[str]  # derived from the name of the class: ValidationException for ValidationError
    status: ClassVar[int] = 400
    namespace: ClassVar[str] = DYNAMODB
    # DynamoDB's errors differ in the capital M, and some clients read only one form.
    message_member: ClassVar[str] = "message"
    default_message: ClassVar[str]

    def __init__(self, message: str | None = None) -> None:
        self.message = self.default_message if message is None else message
        super().__init__(self.message)

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "wire_name"):
            cls.wire_name = f"{cls.__name__.removesuffix('Error')}Exception"

    @property
    def wire_type(self) -> str:
        return f"{self.namespace}#{self.wire_name}"

    def fields(self) -> dict[str, Any]:
        """Return the other members of the response, ready for orjson."""
        return {}

    def body(self) -> dict[str, Any]:
        """Return the response, ready for orjson."""
        return {"__type": self.wire_type, self.message_member: truncated(self.message), **self.fields()}


def truncated(message: str) -> str:
    """Return a message with its long parts truncated.

    >>> truncated("Unknown attribute: " + "x" * 1000).count("x")
    256
    """
    if len(message) <= _PART_MAX:
        return message
    message = _too_long.sub(lambda long: long[0][: _PART_MAX - 3] + "...", message)
    return message if len(message) <= _MESSAGE_MAX else f"{message[: _MESSAGE_MAX - 500]}...{message[-500:]}"


class ValidationError(RequestError):
    """The request is malformed, or does not fit the tables.

    Attributes:
        older: The text in the operations that keep DynamoDB's older checks of values: BatchWriteItem, Scan, statements.
    """

    namespace = CORAL_VALIDATE

    def __init__(self, message: str | None = None, older: str | None = None) -> None:
        super().__init__(message)
        self.older = self.message if older is None else older


class SerializationError(RequestError):
    """The body is not JSON, or a member has the wrong JSON type."""

    namespace = CORAL_SERVICE
    message_member = "Message"


class UnknownOperationError(RequestError):
    """The operation is unknown."""

    namespace = CORAL_SERVICE
    default_message = ""


class MissingAuthenticationTokenError(RequestError):
    """The request has no credentials."""

    namespace = CORAL_SERVICE
    default_message = "Request is missing Authentication Token"


class IncompleteSignatureError(RequestError):
    """The Authorization header lacks a part."""

    namespace = CORAL_SERVICE


class InvalidSignatureError(RequestError):
    """The signature does not match the request, its time or the key that it names."""

    namespace = CORAL_SERVICE
    default_message = (
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
        "Access Key and signing method. Consult the service documentation for details."
    )


class UnrecognizedClientError(RequestError):
    """The access key is unknown."""

    namespace = CORAL_SERVICE
    default_message = "The security token included in the request is invalid."


class ExpiredTokenError(RequestError):
    """The access key has expired."""

    namespace = CORAL_SERVICE
    default_message = "The security token included in the request is expired"


class AccessDeniedError(RequestError):
    """The access key lacks the right for the operation."""

    namespace = CORAL_SERVICE
    message_member = "Message"


class ThrottlingError(RequestError):
    """The control plane or this process is overloaded; the request was not applied."""

    namespace = CORAL_AVAILABILITY

    def __init__(self, message: str, reasons: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def fields(self) -> dict[str, Any]:
        return {"throttlingReasons": list(self.reasons)} if self.reasons else {}


class RequestLimitExceededError(RequestError):
    """The account's throughput is exceeded, or the database is full."""

    wire_name = "RequestLimitExceeded"

    def __init__(self, message: str, reasons: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def fields(self) -> dict[str, Any]:
        return {"ThrottlingReasons": list(self.reasons)} if self.reasons else {}


class ProvisionedThroughputExceededError(RequestError):
    """A table, an index or a capacity partition has no capacity left for the request."""

    default_message = (
        "The level of configured provisioned throughput for the table was exceeded. "
        "Consider increasing your provisioning level with the UpdateTable API."
    )

    def __init__(self, message: str | None = None, reasons: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def fields(self) -> dict[str, Any]:
        return {"ThrottlingReasons": list(self.reasons)} if self.reasons else {}


def is_throttled(error: RequestError) -> bool:
    """Return whether a table, an index or the account has no throughput left for the request."""
    kinds = (ProvisionedThroughputExceededError, RequestLimitExceededError, ThrottlingError)
    return isinstance(error, kinds) and bool(error.reasons)


class ConditionalCheckFailedError(RequestError):
    """The condition did not hold.

    `item` is the item that failed the condition, in canonical bytes, if the request asked for it.
    """

    def __init__(self, item: bytes | None = None) -> None:
        super().__init__("The conditional request failed")
        self.item = item

    def fields(self) -> dict[str, Any]:
        return {} if self.item is None else {"Item": orjson.Fragment(self.item)}


class DuplicateItemError(RequestError):
    """The item of an INSERT exists already."""

    default_message = "Duplicate primary key exists in table"


@dataclass(frozen=True, slots=True)
class Reason:
    """The cancellation reason of one action of a transaction; code "None" for an action without an error.

    Attributes:
        index: The global index without capacity that throttled the action; None if that is the table, or another node
            throttled it.
    """

    code: str
    message: str | None = None
    item: bytes | None = None
    index: str | None = None

    def body(self) -> dict[str, Any]:
        """Return an entry of CancellationReasons, ready for orjson."""
        body: dict[str, Any] = {"Code": self.code}
        if self.message is not None:
            body["Message"] = truncated(self.message)
        if self.item is not None:
            body["Item"] = orjson.Fragment(self.item)
        return body


class TransactionCanceledError(RequestError):
    """A transaction was cancelled, with one reason for each of its actions in order."""

    message_member = "Message"

    def __init__(self, reasons: Sequence[Reason]) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        )
        self.reasons = list(reasons)

    def body(self) -> dict[str, Any]:
        # Not truncated: clients parse the reasons.
        return super().body() | {self.message_member: self.message}

    def fields(self) -> dict[str, Any]:
        return {"CancellationReasons": [reason.body() for reason in self.reasons]}


class TransactionConflictError(RequestError):
    """Another transaction has locked the item."""

    default_message = "Transaction is ongoing for the item"


class TransactionInProgressError(RequestError):
    """A transaction with the same token is in progress."""

    message_member = "Message"


class IdempotentParameterMismatchError(RequestError):
    """The token was used for another request: of a transaction within ten minutes, of a bulk put within eight hours."""

    message_member = "Message"
    default_message = "Idempotent request with the same token but different parameters"


class ExportConflictError(RequestError):
    """The token was used for another export within eight hours."""


class ImportConflictError(RequestError):
    """The token was used for another import within eight hours."""


class ExportNotFoundError(RequestError):
    """The export does not exist."""


class ImportNotFoundError(RequestError):
    """The import does not exist."""


class ItemCollectionSizeLimitError(RequestError):
    """An item collection of a table with local indexes would exceed its limit."""

    wire_name = "ItemCollectionSizeLimitExceededException"
    default_message = "Collection size exceeded."


class ResourceNotFoundError(RequestError):
    """The table, index, stream or tagged resource does not exist."""

    default_message = "Requested resource not found"


class ResourceInUseError(RequestError):
    """The table exists already, or is being created, updated or deleted."""


class TableAlreadyExistsError(RequestError):
    """The target table of a restore exists already."""


class BackupNotFoundError(RequestError):
    """The backup does not exist."""


class PolicyNotFoundError(RequestError):
    """The resource has no policy, or not the expected revision."""


class ExpiredIteratorError(RequestError):
    """The shard iterator has expired."""

    default_message = "Shard iterator has expired"


class TrimmedDataAccessError(RequestError):
    """The position is before the trim horizon of the stream."""

    default_message = "The data you are trying to access has been trimmed"


class LimitExceededError(RequestError):
    """The account's limit of tables, indexes or concurrent changes is exceeded."""


class GlobalTableNotFoundError(RequestError):
    """The global table does not exist, in the form of the operations of version 2017.11.29."""


class TableNotFoundError(RequestError):
    """The table does not exist, in the form of the operations on backups."""


class TableInUseError(RequestError):
    """The table is being created or deleted, in the form of the operations on backups."""


class BackupInUseError(RequestError):
    """The backup is being restored to a table."""


class ContinuousBackupsUnavailableError(RequestError):
    """The table is being created, so it has no backups yet."""


class PointInTimeRecoveryUnavailableError(RequestError):
    """The table's point-in-time recovery is disabled."""


class InvalidRestoreTimeError(RequestError):
    """The time of a restore is outside the restorable range."""

    default_message = (
        "An invalid restore time was specified. RestoreDateTime must be between EarliestRestorableDateTime "
        "and LatestRestorableDateTime."
    )


class InvalidExportTimeError(RequestError):
    """The time of an export is outside the range from which the table can be restored."""


class InternalServerError(RequestError):
    """An error of foldb; a write may or may not have been applied.

    SDKs retry it. A condition or a request token makes the retry harmless.
    """

    wire_name = "InternalServerError"
    status = 500
    default_message = "The request processing has failed because of an unknown error"


class ServiceUnavailableError(RequestError):
    """The request was not applied and is valid: retry it."""

    namespace = CORAL_AVAILABILITY
    status = 503
    default_message = "The service is temporarily unavailable"


class LogError(FoldbError):
    """The log could not be written or read."""


class LogFullError(LogError):
    """The disk has no space left for the log; the entry was not written.

    Operator action: make room. Writes then succeed without a restart.
    """


class LogLockedError(LogError):
    """Another process writes this log.

    Operator action: stop that process, or use the commands that only read.
    """


class HorizonError(LogError):
    """A position is before the history horizon: a trim removed the record.

    Operator action: read a later position, or the archive of the trim.
    """


class AppendUnknownError(LogError):
    """The entry may or may not be in the log.

    The process must assume neither: it stops, and the next start reads the log.
    """


class JobFailedError(FoldbError):
    """An export, import or bulk operation cannot go on.

    Attributes:
        code: The FailureCode in the description of the job.
        message: The sentence of its FailureMessage.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CorruptionError(FoldbError):
    """Bytes of the log are damaged or missing.

    Operator action: `next_step`, if given. `foldb log salvage` reports the intact part of a folder's log.
    """

    def __init__(self, position: str, reason: str, next_step: str = "") -> None:
        super().__init__(f"{position}: {reason}. {next_step}" if next_step else f"{position}: {reason}")
        self.position = position
        self.reason = reason


class ForeignLogError(FoldbError):
    """The log belongs to another database."""


class NewerVersionError(FoldbError):
    """A later version of foldb wrote the log, and this version cannot read it.

    Operator action: start the version that wrote the log, or a later one.
    """


class CertificateError(FoldbError):
    """The certificate or its key cannot be used."""
