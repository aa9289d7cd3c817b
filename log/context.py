"""The context of a command: who sent the request, and why.

    first layout    ::= request_id invocation_id? principal? source depth            schemas 001 to 003
    present layout  ::= request_id invocation_id? principal? source depth reason?    since schema 004

A context keeps its bytes as in the log, in the present layout, and decodes them on access: a refold never needs them.
Without a reason the present layout is the first one and a 00, so bytes of older logs are converted by one append.
"""

from typing import Final, Literal, TypeAlias, final, get_args

from .avro import long, optional_text, read_long, read_optional, read_text, skip_sized

Source: TypeAlias = Literal["api", "ttl", "trigger", "restore", "undo"]

# The log stores an enum as the index of its symbol in the schema. Add symbols at the end only.
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
_SOURCE_INDEXES: Final = {source: index for index, source in enumerate(SOURCES)}
_VALUE: Final = 2
"""The branch of an optional field that has a value, as Avro encodes it."""
NO_REASON: Final = b"\0"
_FIRST_SOURCES: Final = b"".join(long(_SOURCE_INDEXES[source]) for source in SOURCES[:4])


@final
class Context:
    """The origin of a request: its ids, its principal, the kind of its client and its reason.

    Args:
        encoded: The bytes in the present layout, which are not decoded here.
    """

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded

    @property
    def request_id(self) -> str:
        """The response's x-amzn-RequestId."""
        return self.fields()[0]

    @property
    def invocation_id(self) -> str | None:
        """The id that the SDK sent, the same for all its retries of one call."""
        return self.fields()[1]

    @property
    def principal(self) -> str | None:
        """The owner of the credentials."""
        return self.fields()[2]

    @property
    def source(self) -> Source:
        """The kind of client."""
        return self.fields()[3]

    @property
    def depth(self) -> int:
        """The number of triggers in the chain that led to the request. Each change of a batch is asked for it."""
        encoded = self.encoded
        try:
            end = first_end(encoded, 0)
            byte = encoded[end - 1]
        except IndexError as error:
            raise ValueError(f"not a context: {error!r}") from error
        if encoded[end - 2] >= 0x80:  # the depth has several bytes
            return self.fields()[4]
        return (byte >> 1) ^ -(byte & 1)

    @property
    def reason(self) -> str | None:
        """The reason that the client gave for the request."""
        return self.fields()[5]

    def fields(self) -> tuple[str, str | None, str | None, Source, int, str | None]:
        """Decode all fields.

        Raises:
            ValueError: The bytes are not a context.
        """
        data = self.encoded
        try:
            request_id, at = read_text(data, 0)
            invocation_id, at = read_optional(data, at, read_text)
            principal, at = read_optional(data, at, read_text)
            source, at = read_long(data, at)
            depth, at = read_long(data, at)
            reason, at = read_optional(data, at, read_text)
        except IndexError as error:
            raise ValueError(f"not a context: {error!r}") from error
        if not 0 <= source < len(SOURCES):
            raise ValueError(f"an enum has no symbol {source}")
        return request_id, invocation_id, principal, SOURCES[source], depth, reason

    def in_first_layout(self) -> bytes | None:
        """Return the bytes in the first layout; None if that cannot express the reason or the source."""
        first = self.encoded[:-1]
        if not self.encoded.endswith(NO_REASON) or first_end(self.encoded, 0) != len(first):
            return None
        source = first[-2]  # unless it is the first of several bytes of the depth
        has_source = source in _FIRST_SOURCES if source < 0x80 else self.source != "undo"
        return first if has_source else None

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal."""
        return isinstance(other, Context) and (
            self.encoded == other.encoded or self.fields() == other.fields()
        )

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        return f"Context{self.fields()}"


def new_context(
    request_id: str,
    invocation_id: str | None = None,
    principal: str | None = None,
    source: Source = "api",
    depth: int = 0,
    reason: str | None = None,
) -> Context:
    """Return the context of a new command."""
    request = request_id.encode()
    return Context(
        b"%b%b%b%b%b%b%b"
        % (
            long(len(request)),
            request,
            optional_text(invocation_id),
            optional_text(principal),
            long(_SOURCE_INDEXES[source]),
            long(depth),
            NO_REASON if reason is None else optional_text(reason),
        )
    )


def either_context(encoded: bytes) -> Context:
    """Return the context with these bytes in either layout, as dumps and nodes of the release before have them.

    Raises:
        ValueError: The bytes are not a context.
    """
    try:
        is_first = first_end(encoded, 0) == len(encoded)
    except IndexError as error:
        raise ValueError(f"not a context: {error!r}") from error
    return Context(encoded + NO_REASON if is_first else encoded)


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
