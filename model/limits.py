"""All limits that foldb's code checks. The limits of request members are in `service.json`.

There are two sets. `MODERN` is DynamoDB today. `LIMITS_2012` is the first DynamoDB, with 64 KB items, five global
indexes, neither null nor empty values, and no charge for each element of a list or map. The Genesis of a log names
its set, so a log always folds under the limits under which it was written. Bytes are bytes of UTF-8 or of raw binary.

Some limits of DynamoDB are quotas that AWS raises on request, or too high to reach in a test. A database can set them
after the name of the set: `modern,collection_bytes=1048576`.

The range and precision of numbers are the same in both sets and part of the key encoding: see `numbers`.
"""

from dataclasses import replace

from .lazy_dataclass import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one database."""

    name: str

    # Values
    item_bytes: int = 400 * KIB
    depth: int = 32  # a scalar in an item is at depth 1
    null_allowed: bool = True
    empty_allowed: bool = True  # the empty string and binary; an empty set never is
    element_bytes: int = 1  # charged for each element of a list or map, beside its content

    # Keys and names
    partition_key_bytes: int = 2048
    sort_key_bytes: int = 1024
    attribute_name_bytes: int = 64 * KIB - 1

    # Tables and indexes
    tables: int = 2500
    local_indexes: int = 5
    global_indexes: int = 20
    global_key_parts: int = 4  # for the partition key and the sort key of a global index each
    projected_attributes: int = 100  # named by INCLUDE, all indexes of a table together
    index_changes: int = 1  # global indexes created or deleted by one UpdateTable
    collection_bytes: int = 10 * GIB  # only of tables with local indexes
    tags: int = 50

    # Throughput, in DescribeLimits
    account_capacity_units: int = 80_000
    table_capacity_units: int = 40_000

    # Expressions
    expression_bytes: int = 4 * KIB
    expression_operators: int = 300
    path_depth: int = 32
    in_operands: int = 100
    substitution_bytes: int = 2 * MIB  # all names and values of a request together
    name_placeholder_bytes: int = 255

    # Requests
    body_bytes: int = 16 * MIB
    batch_get_keys: int = 100
    batch_get_bytes: int = 16 * MIB
    batch_write_requests: int = 25
    batch_write_bytes: int = 16 * MIB
    transaction_bytes: int = 4 * MIB
    token_window_ms: int = 10 * 60 * 1000
    page_bytes: int = 1 * MIB
    table_names_page: int = 100
    tags_page: int = 10
    segments: int = 1_000_000


MODERN = Limits("modern")

LIMITS_2012 = replace(
    MODERN,
    name="2012",
    item_bytes=64 * KIB,
    null_allowed=False,
    empty_allowed=False,
    element_bytes=0,
    global_indexes=5,
)

# The Genesis of a log holds these names. Add names; never change or reuse one.
_SETS = {limits.name: limits for limits in (MODERN, LIMITS_2012)}
_SETTABLE = ("collection_bytes", "global_indexes")


def limits_named(text: str) -> Limits:
    """Return the set of limits for the text of a Genesis, with its own values.

    >>> limits_named("2012,global_indexes=7").global_indexes
    7

    Raises:
        ValueError: The text names an unknown set or limit. The message names the valid ones.
    """
    name, *settings = text.split(",")
    if name not in _SETS:
        raise ValueError(f"there are no limits called {name!r}: use {' or '.join(_SETS)}")
    changes: dict[str, int] = {}
    for setting in settings:
        field, _, value = setting.partition("=")
        if field not in _SETTABLE or not (value.isascii() and value.isdigit()) or field in changes:
            raise ValueError(f"{setting!r} sets no limit: use {' or '.join(_SETTABLE)} once each, =NUMBER")
        changes[field] = int(value)
    limits = _SETS[name]
    return limits if not changes else replace(limits, name=text, **changes)  # type: ignore[arg-type]  # all are int
