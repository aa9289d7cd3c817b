"""The bytes of a context (context.py), for the compiled build: each write encodes one, and a refold skips all."""

from typing import Final

from .avro import long, optional_text, read_long, skip_sized

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
