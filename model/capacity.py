"""The capacity units of requests.

Sizes are rounded up to blocks, 4 KB for reads and 1 KB for writes, at least one block. A consistent read of a block
costs one unit, an eventually consistent read half a unit. Reads are counted in *half units*, so that all values are
integers. Write units are integers.

    read               consistent 2 half units a block, eventual 1, transactional 4
    Query, Scan        the sizes of all evaluated items are summed, then rounded once
    BatchGetItem       every item is rounded separately
    write              the larger of the item before and the item after
    delete             the item before
    failed condition   the item that failed it, or one block
    index entry        see `index_write_units`
    transaction        twice a write; indexes are not doubled
"""

from typing import Final

READ_BLOCK: Final = 4096
WRITE_BLOCK: Final = 1024

# Bytes that an item costs to store in addition to its size. Part of a table's size, never of capacity units.
STORAGE_OVERHEAD: Final = 100


def blocks(size: int, block: int) -> int:
    """Return the number of blocks for `size` bytes, at least one."""
    return -(-size // block) or 1


def read_half_units(size: int, consistent: bool) -> int:
    """Return the cost of reading `size` bytes: one item, or a page of items."""
    return blocks(size, READ_BLOCK) << consistent


def transaction_read_half_units(size: int) -> int:
    """Return the cost of reading one item in a transaction."""
    return 4 * blocks(size, READ_BLOCK)


def write_units(size: int) -> int:
    """Return the cost of writing `size` bytes: the larger of before and after."""
    return blocks(size, WRITE_BLOCK)


def transaction_write_units(size: int) -> int:
    """Return the cost of one action of a write transaction, applied or refused."""
    return 2 * write_units(size)


def index_write_units(before: int | None, after: int | None, *, moved: bool, changed: bool) -> int:
    """Return the cost of a write in one index.

    Args:
        before: The size of the item's entry before the write, or None without an entry.
        after: The size of the item's entry after the write, or None without an entry.
        moved: Whether the key of the entry changed: one entry is removed, another put.
        changed: Whether any attribute of the entry changed.
    """
    if before is None or after is None:
        size = before if after is None else after
        return 0 if size is None else write_units(size)
    if moved:
        return write_units(before) + write_units(after)
    return write_units(max(before, after)) if changed else 0


def planned_read_half_units(rate: int, size: int, consistent: bool) -> int:
    """Return the capacity for `rate` reads a second of items with `size` bytes."""
    return rate * read_half_units(size, consistent)


def planned_write_units(rate: int, size: int) -> int:
    """Return the capacity for `rate` writes a second of items with `size` bytes."""
    return rate * write_units(size)


def storage_bytes(item_count: int, size: int) -> int:
    """Return the size of a table in DescribeTable."""
    return size + STORAGE_OVERHEAD * item_count


def text(half_units: int) -> str:
    """Return half units as the JSON number of DynamoDB's responses.

    >>> text(1), text(24)
    ('0.5', '12.0')
    """
    return f"{half_units >> 1}.{'5' if half_units & 1 else '0'}"
