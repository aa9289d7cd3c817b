"""Everything foldb raises on purpose.

    FoldbError
    ├── RequestError                         the caller's to fix or to retry: becomes the HTTP answer
    │   ├── ValidationError, SerializationError, ...            400, named as DynamoDB names them
    │   ├── ConditionalCheckFailedError, TransactionCanceledError, ...   400, with members of their own
    │   ├── InternalServerError                500: unknown whether it happened
    │   └── ServiceUnavailableError            503: it did not happen, try again
    ├── LogError                             the log could not be written or read
    │   ├── LogFullError                       the disk is full: nothing was written, it may be retried
    │   ├── LogLockedError                     another process writes this log
    │   └── AppendUnknownError                 written or not? nobody knows
    ├── CorruptionError                      bytes in the log are not what we wrote: stop
    ├── ForeignLogError                      a log, but not this one
    └── NewerVersionError                    written by a later foldb: a reader must not guess

Catch the branch, not the leaf: the endpoint turns a `RequestError` into its answer, the worker
handles a `LogError`, and nothing but the top of a process catches the last three. A broken
invariant is not in this tree: it is a bug, and an `assert` says so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import orjson

DYNAMODB = "com.amazonaws.dynamodb.v20120810"
CORAL_SERVICE = "com.amazon.coral.service"
CORAL_VALIDATE = "com.amazon.coral.validate"
CORAL_AVAILABILITY = "com.amazon.coral.availability"

# DynamoDB's words repeat what they are about. So much of it is enough to find it by, and no answer to a bad request is
# much larger than the request that is worth sending for it.
_REPEATED_MAX: Final = 259
_TOLD_MAX: Final = 1800
_too_long = re.compile(rf"\S{{{_REPEATED_MAX + 1},}}")


class FoldbError(Exception):
    """Base of every error raised on purpose."""


class RequestError(FoldbError):
    """A request that DynamoDB would refuse, in DynamoDB's own words."""

    wire_name: ClassVar[str]
    status: ClassVar[int] = 400
    namespace: ClassVar[str] = DYNAMODB
    # DynamoDB is not consistent about the capital M, and some clients look for one form only.
    message_member: ClassVar[str] = "message"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def wire_type(self) -> str:
        """The `__type` of the answer."""
        return f"{self.namespace}#{self.wire_name}"

    def fields(self) -> dict[str, Any]:
        """Members of the answer besides `__type` and the message, ready for orjson."""
        return {}

    def body(self) -> dict[str, Any]:
        """The whole answer, ready for orjson."""
        return {"__type": self.wire_type, self.message_member: told(self.message), **self.fields()}


def told(message: str) -> str:
    """A message as it is sent: what it repeats of a request is cut where it is long.

    >>> told("Unknown attribute: " + "x" * 1000).count("x")
    256
    """
    if len(message) <= _REPEATED_MAX:
        return message
    message = _too_long.sub(lambda long: long[0][: _REPEATED_MAX - 3] + "...", message)
    return message if len(message) <= _TOLD_MAX else f"{message[: _TOLD_MAX - 500]}...{message[-500:]}"


class ValidationError(RequestError):
    """The request is malformed, or does not fit the tables as they are."""

    wire_name = "ValidationException"
    namespace = CORAL_VALIDATE


class SerializationError(RequestError):
    """The body is not JSON, or has the wrong kind of JSON somewhere."""

    wire_name = "SerializationException"
    namespace = CORAL_SERVICE
    message_member = "Message"


class UnknownOperationError(RequestError):
    """No such operation."""

    wire_name = "UnknownOperationException"
    namespace = CORAL_SERVICE

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class MissingAuthenticationTokenError(RequestError):
    """The request carries no credentials at all."""

    wire_name = "MissingAuthenticationTokenException"
    namespace = CORAL_SERVICE

    def __init__(self, message: str = "Request is missing Authentication Token") -> None:
        super().__init__(message)


class IncompleteSignatureError(RequestError):
    """The Authorization header lacks a part."""

    wire_name = "IncompleteSignatureException"
    namespace = CORAL_SERVICE


class InvalidSignatureError(RequestError):
    """The signature is not of this request and this moment, or not by the key that it names."""

    wire_name = "InvalidSignatureException"
    namespace = CORAL_SERVICE

    def __init__(
        self,
        message: str = (
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
            "Access Key and signing method. Consult the service documentation for details."
        ),
    ) -> None:
        super().__init__(message)


class UnrecognizedClientError(RequestError):
    """There is no such key."""

    wire_name = "UnrecognizedClientException"
    namespace = CORAL_SERVICE

    def __init__(self, message: str = "The security token included in the request is invalid.") -> None:
        super().__init__(message)


class ExpiredTokenError(RequestError):
    """The key was good until some time ago."""

    wire_name = "ExpiredTokenException"
    namespace = CORAL_SERVICE

    def __init__(self, message: str = "The security token included in the request is expired") -> None:
        super().__init__(message)


class AccessDeniedError(RequestError):
    """The caller may not do this."""

    wire_name = "AccessDeniedException"
    namespace = CORAL_SERVICE
    message_member = "Message"


class ThrottlingError(RequestError):
    """Too much at once for the control plane or for this process; nothing was done."""

    wire_name = "ThrottlingException"
    namespace = CORAL_AVAILABILITY

    def __init__(self, message: str, reasons: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def fields(self) -> dict[str, Any]:
        return {"throttlingReasons": list(self.reasons)} if self.reasons else {}


class RequestLimitExceededError(RequestError):
    """More throughput than the account may use."""

    wire_name = "RequestLimitExceeded"


class ProvisionedThroughputExceededError(RequestError):
    """A table, an index or a partition has no capacity left for this request."""

    wire_name = "ProvisionedThroughputExceededException"

    def __init__(
        self,
        message: str = (
            "The level of configured provisioned throughput for the table was exceeded. "
            "Consider increasing your provisioning level with the UpdateTable API."
        ),
        reasons: Sequence[dict[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def fields(self) -> dict[str, Any]:
        return {"ThrottlingReasons": list(self.reasons)} if self.reasons else {}


class ConditionalCheckFailedError(RequestError):
    """The condition did not hold.

    `item` is the item it did not hold for, in canonical bytes, when the request asked for it.
    """

    wire_name = "ConditionalCheckFailedException"

    def __init__(self, item: bytes | None = None) -> None:
        super().__init__("The conditional request failed")
        self.item = item

    def fields(self) -> dict[str, Any]:
        return {} if self.item is None else {"Item": orjson.Fragment(self.item)}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one action of a transaction could not go through; code "None" if it could."""

    code: str
    message: str | None = None
    item: bytes | None = None

    def body(self) -> dict[str, Any]:
        """One entry of CancellationReasons, ready for orjson."""
        body: dict[str, Any] = {"Code": self.code}
        if self.message is not None:
            body["Message"] = told(self.message)
        if self.item is not None:
            body["Item"] = orjson.Fragment(self.item)
        return body


class TransactionCanceledError(RequestError):
    """A transaction did nothing; one reason for each of its actions, in their order."""

    wire_name = "TransactionCanceledException"
    message_member = "Message"

    def __init__(self, reasons: Sequence[Reason]) -> None:
        codes = ", ".join(reason.code for reason in reasons)
        super().__init__(
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
        )
        self.reasons = list(reasons)

    def body(self) -> dict[str, Any]:
        # Whole, however many reasons: clients read it.
        return super().body() | {self.message_member: self.message}

    def fields(self) -> dict[str, Any]:
        return {"CancellationReasons": [reason.body() for reason in self.reasons]}


class TransactionConflictError(RequestError):
    """Another transaction holds the item."""

    wire_name = "TransactionConflictException"

    def __init__(self, message: str = "Transaction is ongoing for the item") -> None:
        super().__init__(message)


class TransactionInProgressError(RequestError):
    """A transaction with the same token has not finished yet."""

    wire_name = "TransactionInProgressException"
    message_member = "Message"


class IdempotentParameterMismatchError(RequestError):
    """The token was used for another request within its ten minutes."""

    wire_name = "IdempotentParameterMismatchException"
    message_member = "Message"

    def __init__(
        self, message: str = "Idempotent request with the same token but different parameters"
    ) -> None:
        super().__init__(message)


class ItemCollectionSizeLimitError(RequestError):
    """A collection of a table with local indexes would grow over its limit."""

    wire_name = "ItemCollectionSizeLimitExceededException"

    def __init__(self, message: str = "Collection size exceeded.") -> None:
        super().__init__(message)


class ResourceNotFoundError(RequestError):
    """No such table, index, stream or tagged resource."""

    wire_name = "ResourceNotFoundException"

    def __init__(self, message: str = "Requested resource not found") -> None:
        super().__init__(message)


class ResourceInUseError(RequestError):
    """The table exists already, or is being created, changed or removed."""

    wire_name = "ResourceInUseException"


class ExpiredIteratorError(RequestError):
    """The iterator was given out too long ago."""

    wire_name = "ExpiredIteratorException"

    def __init__(self, message: str = "Shard iterator has expired") -> None:
        super().__init__(message)


class TrimmedDataAccessError(RequestError):
    """Changes from there on are no longer kept for readers of the stream."""

    wire_name = "TrimmedDataAccessException"

    def __init__(self, message: str = "The data you are trying to access has been trimmed") -> None:
        super().__init__(message)


class LimitExceededError(RequestError):
    """More tables, indexes or changes at once than the account may have."""

    wire_name = "LimitExceededException"


class TableNotFoundError(RequestError):
    """No such table, as the continuous-backup operations say it."""

    wire_name = "TableNotFoundException"


class InternalServerError(RequestError):
    """Our fault; a write may or may not have happened.

    SDKs retry it: a condition or a request token makes the retry harmless.
    """

    wire_name = "InternalServerError"
    status = 500

    def __init__(
        self, message: str = "The request processing has failed because of an unknown error"
    ) -> None:
        super().__init__(message)


class ServiceUnavailableError(RequestError):
    """Nothing was done and nothing is wrong with the request: try again."""

    wire_name = "ServiceUnavailableException"
    namespace = CORAL_AVAILABILITY
    status = 503

    def __init__(self, message: str = "The service is temporarily unavailable") -> None:
        super().__init__(message)


class LogError(FoldbError):
    """The log could not be written or read."""


class LogFullError(LogError):
    """No space left for the log; nothing of the entry was kept.

    Operator action: make room. Writes succeed again by themselves.
    """


class LogLockedError(LogError):
    """Another process writes this log.

    Operator action: stop it, or read the log beside it with the commands that only read.
    """


class AppendUnknownError(LogError):
    """Whether the entry is in the log is known only after the log was read again.

    The process must not go on as if either were true: it stops, and the next start finds out.
    """


class CorruptionError(FoldbError):
    """Bytes that were written are not the bytes that are read.

    Operator action: `next_step`, where there is one. `foldb log salvage` reports how far a folder's log is whole.
    """

    def __init__(self, position: str, what: str, next_step: str = "") -> None:
        super().__init__(f"{position}: {what}. {next_step}" if next_step else f"{position}: {what}")
        self.position = position
        self.what = what


class ForeignLogError(FoldbError):
    """There is a log, but it belongs to another database."""


class NewerVersionError(FoldbError):
    """The log was written by a later version of foldb, whose entries this one must not guess at.

    Operator action: start the version that wrote it, or a later one.
    """


class CertificateError(FoldbError):
    """The certificate or its key cannot be used."""
