"""The bytes of a context (context.py), for the compiled build.

Each write encodes one, a refold skips all, and a trigger decodes that of each change.
"""

from typing import Final

from .avro import long, optional_text, read_long, read_text, skip_sized

_VALUE: Final = 2
"""The branch of an optional field that has a value, as Avro encodes it."""

NO_REASON: Final = b"\0"


def encoded_context(
    request_id: str,
    invocation_id: str | None,
    principal: str | None,
    source: int,
    depth: int,
    reason: str | None,
) -> bytes:
    """Return the bytes in the present layout; `source` is the index of its symbol."""
    request = request_id.encode()
    return b"%b%b%b%b%b%b%b" % (
        long(len(request)),
        request,
        optional_text(invocation_id),
        optional_text(principal),
        long(source),
        long(depth),
        NO_REASON if reason is None else optional_text(reason),
    )


def context_end(data: bytes, at: int) -> int:
    """Return the index after a context in the present layout.

    Raises:
        ValueError: The bytes are not a context.
    """
    end = first_end(data, at)
    if data[end] == 0:
        return end + 1
    if data[end] == _VALUE:
        return skip_sized(data, end + 1)
    raise ValueError(f"a union of two has no branch {data[end] >> 1}")


def first_end(data: bytes, at: int) -> int:
    """Return the index after the fields of the first layout."""
    length = data[at]
    at = at + 1 + (length >> 1) if length < 0x80 else skip_sized(data, at)
    # The invocation id, then the principal: a loop takes a tenth longer, for each command of a refold.
    branch = data[at]
    if branch == 0:
        at += 1
    elif branch == _VALUE:
        length = data[at + 1]
        at = at + 2 + (length >> 1) if length < 0x80 else skip_sized(data, at + 1)
    else:
        raise ValueError(f"a union of two has no branch {branch >> 1}")
    branch = data[at]
    if branch == 0:
        at += 1
    elif branch == _VALUE:
        length = data[at + 1]
        at = at + 2 + (length >> 1) if length < 0x80 else skip_sized(data, at + 1)
    else:
        raise ValueError(f"a union of two has no branch {branch >> 1}")
    if data[at] < 0x80 and data[at + 1] < 0x80:
        return at + 2
    _, at = read_long(data, at)
    return read_long(data, at)[1]


def fields_of(data: bytes) -> tuple[str, str | None, str | None, int, int, str | None]:
    """Return the fields of a context in the present layout; the source is the index of its symbol.

    Raises:
        ValueError: The bytes are not a context.
    """
    try:
        request_id, at = read_text(data, 0)
        invocation_id, at = _read_optional(data, at)
        principal, at = _read_optional(data, at)
        source, at = read_long(data, at)
        depth, at = read_long(data, at)
        reason, at = _read_optional(data, at)
    except IndexError as error:
        raise ValueError(f"not a context: {error!r}") from error
    return request_id, invocation_id, principal, source, depth, reason


def depth_of(data: bytes) -> int:
    """Return the depth in a context in the present layout.

    Raises:
        ValueError: The bytes are not a context.
    """
    try:
        end = first_end(data, 0)
        byte = data[end - 1]
    except IndexError as error:
        raise ValueError(f"not a context: {error!r}") from error
    if data[end - 2] >= 0x80:  # the depth has several bytes
        return fields_of(data)[4]
    return (byte >> 1) ^ -(byte & 1)


def _read_optional(data: bytes, at: int) -> tuple[str | None, int]:
    branch = data[at]
    if branch == 0:
        return None, at + 1
    if branch != _VALUE:
        raise ValueError(f"a union of two has no branch {branch >> 1}")
    return read_text(data, at + 1)
