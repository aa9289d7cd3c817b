"""The operations of DynamoDB. A file holds one, or a few of one subject, and declares each with its name and right."""

from ..operation import operations_in

# An X-Amz-Target with another name is answered with an UnknownOperationException.
OPERATIONS = operations_in(__name__, __path__)
