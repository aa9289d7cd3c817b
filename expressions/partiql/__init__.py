"""PartiQL statements, compiled to the classic requests.

    text ──► tokens ──► parser ──► Statement ──► Bound, with the values of the parameters
                                                   ├── reads     the keys and ranges of a SELECT, each a request
                                                   └── writes    one action of TransactWriteItems

A compiled statement is a request of the classic API: names of tables and indexes, expressions with placeholders, keys.
Everything behind it (plans, commands, pages, capacity units) is that of the classic operations.
"""

from .parser import column_label, parse
from .reads import KeyRead, RangeRead, Read, Reads, ScanRead, reads_of, request_of
from .statements import (
    Bound,
    Delete,
    Exists,
    Insert,
    KeyMismatchError,
    OrderKey,
    Select,
    Statement,
    Update,
    bind,
)
from .writes import WriteAction, action_of

__all__ = [
    "Bound",
    "Delete",
    "Exists",
    "Insert",
    "KeyMismatchError",
    "KeyRead",
    "OrderKey",
    "RangeRead",
    "Read",
    "Reads",
    "ScanRead",
    "Select",
    "Statement",
    "Update",
    "WriteAction",
    "action_of",
    "bind",
    "column_label",
    "parse",
    "reads_of",
    "request_of",
]
