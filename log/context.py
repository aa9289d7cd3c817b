"""The context of a command: who sent the request, and why.

    first layout    ::= request_id invocation_id? principal? source depth            schemas 001 to 003
    present layout  ::= request_id invocation_id? principal? source depth reason?    since schema 004

A context keeps its bytes as in the log, in the present layout, and decodes them on access: a refold never needs them.
Without a reason the present layout is the first one and a 00, so bytes of older logs are converted by one append.
"""

from typing import Final, Literal, TypeAlias, final, get_args

from . import avro
from .context_layout import NO_REASON, depth_of, encoded_context, fields_of, first_end

Source: TypeAlias = Literal["api", "ttl", "trigger", "restore", "undo"]

# The log stores an enum as the index of its symbol in the schema. Add symbols at the end only.
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
_SOURCE_INDEXES: Final = {source: index for index, source in enumerate(SOURCES)}
_FIRST_SOURCES: Final = b"".join(avro.long(_SOURCE_INDEXES[source]) for source in SOURCES[:4])


@final
class Context:
    """The origin of a request: its ids, its principal, the kind of its client and its reason."""

    __slots__ = ("encoded",)

    def __init__(
        self,
        request_id: str,
        invocation_id: str | None = None,
        principal: str | None = None,
        source: Source = "api",
        depth: int = 0,
        reason: str | None = None,
    ) -> None:
        self.encoded = encoded_context(
            request_id, invocation_id, principal, _SOURCE_INDEXES[source], depth, reason
        )

    @staticmethod
    def of(encoded: bytes) -> "Context":
        """Return the context with these bytes in the present layout, without decoding them."""
        context: Context = object.__new__(Context)
        context.encoded = encoded
        return context

    @staticmethod
    def of_either(encoded: bytes) -> "Context":
        """Return the context with these bytes in either layout, as dumps and nodes of the release before have them.

        Raises:
            ValueError: The bytes are not a context.
        """
        try:
            is_first = first_end(encoded, 0) == len(encoded)
        except IndexError as error:
            raise ValueError(f"not a context: {error!r}") from error
        return Context.of(encoded + NO_REASON if is_first else encoded)

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
        return depth_of(self.encoded)

    @property
    def reason(self) -> str | None:
        """The reason that the client gave for the request."""
        return self.fields()[5]

    def fields(self) -> tuple[str, str | None, str | None, Source, int, str | None]:
        """Decode all fields.

        Raises:
            ValueError: The bytes are not a context.
        """
        request_id, invocation_id, principal, source, depth, reason = fields_of(self.encoded)
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
