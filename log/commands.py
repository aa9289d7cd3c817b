"""What can be asked of a partition, and how it stands in the log.

A *command* is what somebody asked for; an *entry* is what one append writes: the commands that were
committed together, and who wrote them; a *record* is an entry at its place.

    Log        ::= Record*                      one sequence a partition, offsets 0, 1, 2, ...
    Record     ::= partition offset time Entry
    Entry      ::= origin number time? Command+

Commands are self-contained: whatever is random, outside or dependent on the hour was decided before the
append. Their Avro schemas are in `schemas/`; a field here has the name that it has there. The two fields
called `plan` and `parsed` are what the process that wrote the command already knows of it. They are never
written and never compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final, get_args

from . import avro

if TYPE_CHECKING:
    from ..expressions import Plan
    from ..model.values import Item, Value

Source: TypeAlias = Literal["api", "ttl", "trigger", "restore"]
Dialect: TypeAlias = Literal["expression", "legacy"]
SubscriptionOperation: TypeAlias = Literal["Create", "Update", "Pause", "Resume", "Reset", "Remove", "Stop"]
Returns: TypeAlias = Literal["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"]

# An enum is the place of its symbol in the schema: these are in every log ever written. Add at the end only.
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
_SOURCES_ENCODED: Final = {source: avro.long(place) for place, source in enumerate(SOURCES)}


# Not frozen, though no code changes one: a frozen one takes three times as long to make, and each write makes one.
@dataclass(slots=True, order=True, unsafe_hash=True)
class Position:
    """Where a command is in the log; `index` None means "after the whole entry".

    `time_ms` is log time there, in milliseconds, where it is known; two positions are equal without it.
    """

    partition: int
    offset: int
    index: int | None = None
    time_ms: int | None = field(default=None, compare=False, repr=False)

    def text(self, partitions: int = 1) -> str:
        """Write it the way the command line and the header `x-foldb-position` do.

        >>> Position(2, 10482, 3).text(partitions=8)
        '2:10482.3'
        >>> Position(0, 10482).text()
        '10482'
        """
        place = f"{self.offset}" if self.index is None else f"{self.offset}.{self.index}"
        return place if partitions == 1 else f"{self.partition}:{place}"


@dataclass(frozen=True, slots=True)
class Cut:
    """Several positions, one a partition, by partition: what an answer of several partitions is true of.

    `time_ms` is the latest log time of them all, in milliseconds, where it is known; two cuts are equal without it.
    """

    positions: tuple[Position, ...]
    time_ms: int | None = field(default=None, compare=False, repr=False)

    def text(self, partitions: int = 1) -> str:
        """The positions, joined by commas.

        >>> Cut((Position(1, 7), Position(2, 10482, 3))).text(partitions=9)
        '1:7,2:10482.3'
        """
        return ",".join(position.text(partitions) for position in self.positions)


@final
class Context:
    """Who asked. `request_id` is the answer's x-amzn-RequestId, `invocation_id` the SDK's, one for all its retries.

    It is kept as it stands in the log, and taken apart when somebody asks: a refold never does.
    """

    __slots__ = ("encoded",)

    def __init__(
        self,
        request_id: str,
        invocation_id: str | None = None,
        principal: str | None = None,
        source: Source = "api",
        depth: int = 0,
    ) -> None:
        request = request_id.encode()
        self.encoded = b"%b%b%b%b%b%b" % (
            avro.long(len(request)),
            request,
            avro.optional_text(invocation_id),
            avro.optional_text(principal),
            _SOURCES_ENCODED[source],
            avro.long(depth),
        )

    @staticmethod
    def of(encoded: bytes) -> "Context":
        """The context that stands in the log as `encoded`."""
        context = _new_context(Context)
        context.encoded = encoded
        return context

    @property
    def request_id(self) -> str:
        """The answer's x-amzn-RequestId."""
        return self.fields()[0]

    @property
    def invocation_id(self) -> str | None:
        """The SDK's, one for all its retries."""
        return self.fields()[1]

    @property
    def principal(self) -> str | None:
        """Whose credentials it were."""
        return self.fields()[2]

    @property
    def source(self) -> Source:
        """What kind of client it was."""
        return self.fields()[3]

    @property
    def depth(self) -> int:
        """How many triggers led to it."""
        return self.fields()[4]

    def fields(self) -> tuple[str, str | None, str | None, Source, int]:
        """All of it.

        Raises:
            ValueError: The bytes are no context.
        """
        data = self.encoded
        try:
            request_id, at = avro.read_text(data, 0)
            invocation_id, at = avro.read_optional(data, at, avro.read_text)
            principal, at = avro.read_optional(data, at, avro.read_text)
            source, at = avro.read_symbol(data, at, SOURCES)
            depth, at = avro.read_long(data, at)
        except IndexError as error:
            raise ValueError(f"not a context: {error!r}") from error
        return request_id, invocation_id, principal, source, depth

    def __eq__(self, other: object) -> bool:
        """Whether both say the same."""
        return isinstance(other, Context) and (
            self.encoded == other.encoded or self.fields() == other.fields()
        )

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        return f"Context{self.fields()}"


_new_context = object.__new__


@dataclass(slots=True)
class Expression:
    """Condition and update as the client wrote them, with their names and values.

    In the dialect `legacy`, `condition` is the canonical JSON of {"Expected", "ConditionalOperator"} and
    `update` that of AttributeUpdates; names and values are None.
    """

    condition: str | None = None
    update: str | None = None
    names: "dict[str, str] | None" = None
    values: "dict[str, Value] | None" = None
    dialect: Dialect = "expression"
    plan: "Plan | None" = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Put:
    """Store `item` (canonical bytes, `size` in bytes by DynamoDB's rule) in place of whatever its key holds."""

    table: int
    pk: bytes
    sk: bytes
    item: bytes
    size: int
    context: Context
    expression: Expression | None = None
    returns: Returns = "NONE"
    show_refused: bool = False  # ReturnValuesOnConditionCheckFailure = ALL_OLD
    parsed: "Item | None" = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Update:
    """Change the item at a key, creating it where there is none."""

    table: int
    pk: bytes
    sk: bytes
    context: Context
    expression: Expression | None = None
    returns: Returns = "NONE"
    show_refused: bool = False


@dataclass(slots=True)
class Delete:
    """Remove the item at a key, if there is one."""

    table: int
    pk: bytes
    sk: bytes
    context: Context
    expression: Expression | None = None
    returns: Returns = "NONE"
    show_refused: bool = False


@dataclass(slots=True)
class Check:
    """A transaction's ConditionCheck: the condition must hold, nothing is written."""

    table: int
    pk: bytes
    sk: bytes
    context: Context
    expression: Expression | None = None
    show_refused: bool = False


Action: TypeAlias = Put | Update | Delete | Check


@dataclass(slots=True)
class Transact:
    """All actions or none. `fingerprint` identifies the payload behind `token` (ClientRequestToken)."""

    actions: Sequence[Action]
    context: Context
    token: str | None = None
    fingerprint: bytes = b""


@dataclass(slots=True)
class DefineTable:
    """A table command: the API operation's name and its request as canonical JSON.

    `table` is 0 for CreateTable, whose table gets the next id in the fold; `uuid` is the TableId or whatever
    else of the operation had to be drawn by chance before the append. With `settle` the new status
    (CREATING, UPDATING, DELETING) stays until a Settle command; without, the table is settled at once.
    """

    operation: str
    table: int
    request: bytes
    uuid: str
    context: Context
    settle: bool = False


@dataclass(slots=True)
class Settle:
    """The owner's timer: the table's delay is over. Has no effect on a table that is settled."""

    table: int
    context: Context


@dataclass(slots=True)
class Backfill:
    """The owner's timer: give the next `count` items after the index's cursor their entries in a new index."""

    table: int
    index: int
    count: int
    context: Context


@dataclass(slots=True)
class Expire:
    """The owner's timer: the item's time to live, still `at` (canonical number text), has passed."""

    table: int
    pk: bytes
    sk: bytes
    at: str
    context: Context


@dataclass(slots=True)
class Genesis:
    """The first command of every partition; a later one has no effect.

    `base` is added to offsets in sequence numbers, `hash` names the hash function of keys, `limits` the set of limits.
    """

    log_id: bytes
    partition: int
    partitions: int
    base: int
    level: int
    hash: str
    limits: str


@dataclass(slots=True)
class Level:
    """From here on commands mean what they mean at `level`."""

    level: int
    context: Context


@dataclass(slots=True)
class Digest:
    """The state after the entry at `offset` had this digest. For comparing; it changes nothing."""

    offset: int
    digest: str


# Messages: what one partition tells another. They travel in a Relay, and are folded in the receiver's log.


@dataclass(slots=True)
class Defined:
    """Catalog to all: a table is now as `definition` says (its JSON, canonical), or is gone if that is None.

    `version` counts the definitions that the catalog has sent, from 1.
    """

    table: int
    version: int
    definition: bytes | None


@dataclass(slots=True)
class DefinitionApplied:
    """To the catalog: the sender has folded the definition `version` of a table."""

    table: int
    version: int


@dataclass(slots=True)
class IndexEntry:
    """To the owner of an index key: what stands there now, or nothing if `item` is None.

    All that ever concerns one place of an index comes from the partition of one item, in order.
    """

    table: int
    index: int
    pk: bytes
    sk: bytes
    item: bytes | None
    size: int


@dataclass(slots=True)
class IndexSent:
    """To every partition: the sender has sent the entries of all its items for a new index."""

    table: int
    index: int


@dataclass(slots=True)
class IndexFilled:
    """To the catalog: the sender has had everybody's IndexSent, so its part of a new index is whole."""

    table: int
    index: int


@dataclass(slots=True)
class Prepare:
    """To a participant: judge these actions of transaction `number` of the sender, and hold their keys.

    `nths` are the places of the actions in the transaction, for the numbers of their changes.
    """

    transaction_number: int
    nths: Sequence[int]
    actions: Sequence[Action]


@dataclass(slots=True)
class Vote:
    """To the coordinator: what became of its Prepare. `verdicts` is a canonical JSON array, one for each action."""

    transaction_number: int
    holds: bool
    verdicts: bytes


@dataclass(slots=True)
class Decide:
    """To a participant: its part of transaction `number` of the sender is to be applied, or forgotten."""

    transaction_number: int
    commit: bool


@dataclass(slots=True)
class Commit:
    """To a participant, from level 3 on: its part of transaction `number` of the sender is to be applied.

    `offset` (with the log's base) and `index` are the place of the Transact in the sender's log, by which a feed calls
    the transaction. `changing` are the places in it of those actions that change an item, in all partitions; None where
    the receiver has all of them, and finds out.
    """

    transaction_number: int
    offset: int
    index: int
    changing: Sequence[int] | None


@dataclass(slots=True)
class Decided:
    """To the coordinator: the sender has folded the decision and holds no key any more."""

    transaction_number: int


Message: TypeAlias = (
    Defined
    | DefinitionApplied
    | IndexEntry
    | IndexSent
    | IndexFilled
    | Prepare
    | Vote
    | Decide
    | Decided
    | Commit
)


@dataclass(slots=True)
class Relay:
    """Message `number` (from 0, without gaps) of partition `sender` to the partition in whose log this stands.

    `offset` and `index` are the place of the command in the sender's log that sent it, `time` is log time there.
    """

    sender: int
    message_number: int
    offset: int
    index: int
    time: int
    message: Message


@dataclass(slots=True)
class RelayAck:
    """The partition `receiver` has folded this partition's messages up to and including number `through`.

    `time` is log time there when it had: so no cut by time has an acknowledgement without what it acknowledges.
    """

    receiver: int
    through_message: int
    time: int


@dataclass(slots=True)
class Abandon:
    """The owner's timer: transaction `number` of this coordinator has been undecided for too long."""

    transaction_number: int
    context: Context


@dataclass(slots=True)
class Barrier:
    """Nothing. Who has folded its own Barrier has folded whatever was durable when it was sent."""


@dataclass(slots=True)
class Skip:
    """The operator's decision: what stands at `offset` (one command of it, or all), where the fold raises, is void.

    Workers look ahead for it when they meet that record.
    """

    offset: int
    index: int | None
    context: Context


@dataclass(slots=True)
class DefineSubscription:
    """A command about a subscription, from level 3 on: what is done, and its settings as canonical JSON.

    Create: all settings. Update, Reset (its Start), Pause (perhaps a Reason), Stop (Reason, and the Epoch that came to
    its end): some of them.
    `uuid` is drawn by chance before the append, for whoever needs to tell two subscriptions of one name apart.
    """

    operation: SubscriptionOperation
    name: str
    request: bytes
    uuid: str
    context: Context


@dataclass(slots=True)
class Checkpoint:
    """How far a subscription is, from level 3 on: of each partition the number up to which all is handled.

    It counts for the `epoch` that it names. `version` is a hash of the code that handled it; `handled` and `dead`, how
    many changes were handled and given up since the last checkpoint.
    """

    subscription: int
    epoch: int
    checkpoints: Sequence[tuple[int, int]]
    version: str
    handled: int
    dead: int


Command: TypeAlias = (
    Put
    | Update
    | Delete
    | Transact
    | DefineTable
    | Settle
    | Backfill
    | Expire
    | Genesis
    | Level
    | Digest
    | Relay
    | RelayAck
    | Abandon
    | Barrier
    | Skip
    | DefineSubscription
    | Checkpoint
)


@dataclass(slots=True)
class Entry:
    """What one append writes.

    `origin` is 16 random bytes a process start; `number` counts that origin's entries to the partition from 0.
    `time` (milliseconds) is None except in copied history, where it keeps the original log time.
    """

    origin: bytes
    entry_number: int
    commands: Sequence[Command]
    time: int | None = None


@dataclass(slots=True)
class Record:
    """An entry at its place; `time` is when the log took it, in milliseconds since 1970."""

    partition: int
    offset: int
    time: int
    entry: Entry
