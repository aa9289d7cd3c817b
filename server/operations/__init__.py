"""The DynamoDB operations, one a file, each a function named like its file."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..dispatch import Handler

# The name that X-Amz-Target gives, and what answers to it. Any other name is an UnknownOperationException.
OPERATIONS: "dict[str, Handler]" = {
}
