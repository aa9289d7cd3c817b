"""The commands of the log and the values around them.

A *command* is one request to a partition. An *entry* is the content of one append: the commands that are committed
together, and their writer. A *record* is an entry with its offset and log time.

    Log        ::= Record*                      one sequence for each partition, offsets 0, 1, 2, ...
    Record     ::= partition offset time Entry
    Entry      ::= origin number time? salt? Command+

Commands are self-contained: values that depend on chance, the clock or other systems are computed before the append.
Their Avro schemas are in `schemas/`; a field has the same name here, or is mapped in codec.py. The fields `plan` and
`parsed` are caches of the process that made the command: they are neither written nor compared.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Final, Literal, NamedTuple, TypeAlias

from ..expressions import Plan
from ..model.lazy_dataclass import dataclass
from ..model.values import Item, Value
from .context import Context, Source, either_context, new_context

# Those of context.py; everything else is defined here.
__all__ = ["Context", "Source", "either_context", "new_context"]

LEVEL: Final = 5
"""The level of a new log, and the highest that this version folds: the version of the rules by which the fold applies
commands."""

Dialect: TypeAlias = Literal["expression", "legacy", "digest"]
SubscriptionOperation: TypeAlias = Literal["Create", "Update", "Pause", "Resume", "Reset", "Remove", "Stop"]
Returns: TypeAlias = Literal["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"]


# Not frozen, though no code changes one: a frozen dataclass takes three times as long to create, once for each write.
@dataclass(slots=True, order=True, unsafe_hash=True)
class Position:
    """The position of a command in the log. `index` None means "after the whole entry".

    `time_ms` is the log time at the position in milliseconds, if known. Comparisons ignore it.
    """

    partition: int
    offset: int
    index: int | None
    time_ms: int | None = field(compare=False, repr=False)

    def __init__(
        self,
        partition: int,
        offset: int,
        index: int | None = None,
        time_ms: int | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.index = index
        self.time_ms = time_ms

    def text(self, partitions: int = 1) -> str:
        """Return the text form, as used by the command line and the header `x-foldb-position`.

        >>> Position(2, 10482, 3).text(partitions=8)
        '2:10482.3'
        >>> Position(0, 10482).text()
        '10482'
        """
        return position_text(self.partition, self.offset, self.index, partitions)


def position_text(partition: int, offset: int, index: int | None, partitions: int) -> str:
    """Return the text form of a position without making one."""
    position = f"{offset}" if index is None else f"{offset}.{index}"
    return position if partitions == 1 else f"{partition}:{position}"


@dataclass(frozen=True, slots=True)
class Cut:
    """One position for each of several partitions, ordered by partition: the state that a response shows.

    `time_ms` is the latest log time of the positions in milliseconds, if known. Comparisons ignore it.
    """

    positions: tuple[Position, ...]
    time_ms: int | None = field(default=None, compare=False, repr=False)

    def text(self, partitions: int = 1) -> str:
        """Return the positions in text form, joined by commas.

        >>> Cut((Position(1, 7), Position(2, 10482, 3))).text(partitions=9)
        '1:7,2:10482.3'
        """
        return ",".join(position.text(partitions) for position in self.positions)


@dataclass(slots=True)
class Expression:
    """Condition and update in the client's text, with their names and values.

    In the dialect `legacy`, `condition` is the canonical JSON of {"Expected", "ConditionalOperator"} and
    `update` that of AttributeUpdates; names and values are None. In the dialect `digest`, from level 5, `condition` is
    the BLAKE2b-128 of the item's canonical bytes in hexadecimal, or empty if no item may exist.
    """

    condition: str | None
    update: str | None
    names: dict[str, str] | None
    values: dict[str, Value] | None
    dialect: Dialect
    plan: Plan | None = field(compare=False, repr=False)

    def __init__(
        self,
        condition: str | None = None,
        update: str | None = None,
        names: dict[str, str] | None = None,
        values: dict[str, Value] | None = None,
        dialect: Dialect = "expression",
        plan: Plan | None = None,
    ) -> None:
        self.condition = condition
        self.update = update
        self.names = names
        self.values = values
        self.dialect = dialect
        self.plan = plan


@dataclass(slots=True)
class Put:
    """Store `item` (canonical bytes, `size` in bytes by DynamoDB's rule), replacing the item with its key."""

    table: int
    pk: bytes
    sk: bytes
    item: bytes
    size: int
    context: Context
    expression: Expression | None
    returns: Returns
    show_refused: bool  # ReturnValuesOnConditionCheckFailure = ALL_OLD
    parsed: Item | None = field(compare=False, repr=False)

    def __init__(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        item: bytes,
        size: int,
        context: Context,
        expression: Expression | None = None,
        returns: Returns = "NONE",
        show_refused: bool = False,
        parsed: Item | None = None,
    ) -> None:
        self.table = table
        self.pk = pk
        self.sk = sk
        self.item = item
        self.size = size
        self.context = context
        self.expression = expression
        self.returns = returns
        self.show_refused = show_refused
        self.parsed = parsed


@dataclass(slots=True)
class Update:
    """Change the item with a key, or create it."""

    table: int
    pk: bytes
    sk: bytes
    context: Context
    expression: Expression | None
    returns: Returns
    show_refused: bool

    def __init__(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        context: Context,
        expression: Expression | None = None,
        returns: Returns = "NONE",
        show_refused: bool = False,
    ) -> None:
        self.table = table
        self.pk = pk
        self.sk = sk
        self.context = context
        self.expression = expression
        self.returns = returns
        self.show_refused = show_refused


@dataclass(slots=True)
class Delete:
    """Remove the item with a key, if it exists."""

    table: int
    pk: bytes
    sk: bytes
    context: Context
    expression: Expression | None
    returns: Returns
    show_refused: bool

    def __init__(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        context: Context,
        expression: Expression | None = None,
        returns: Returns = "NONE",
        show_refused: bool = False,
    ) -> None:
        self.table = table
        self.pk = pk
        self.sk = sk
        self.context = context
        self.expression = expression
        self.returns = returns
        self.show_refused = show_refused


@dataclass(slots=True)
class Check:
    """A transaction's ConditionCheck: test a condition without writing."""

    table: int
    pk: bytes
    sk: bytes
    context: Context
    expression: Expression | None = None
    show_refused: bool = False


Action: TypeAlias = Put | Update | Delete | Check


@dataclass(slots=True)
class Transact:
    """Apply all actions or none. `fingerprint` identifies the payload of `token` (ClientRequestToken)."""

    actions: Sequence[Action]
    context: Context
    token: str | None = None
    fingerprint: bytes = b""


@dataclass(slots=True)
class DefineTable:
    """A table command: the API operation's name and its request as canonical JSON.

    `table` is 0 for CreateTable, whose table gets the next id in the fold. `uuid` is the TableId, or another random
    value that the operation needs. With `settle` the new status (CREATING, UPDATING, DELETING) stays until a Settle
    command; without it the table is settled at once.
    """

    operation: str
    table: int
    request: bytes
    uuid: str
    context: Context
    settle: bool = False


@dataclass(slots=True)
class Settle:
    """Proposed by the owner's timer: the table's delay is over. A settled table stays as it is."""

    table: int
    context: Context


@dataclass(slots=True)
class Backfill:
    """Proposed by the owner's timer: add the next `count` items after the index's cursor to a new index."""

    table: int
    index: int
    count: int
    context: Context


@dataclass(slots=True)
class Expire:
    """Proposed by the owner's timer: delete the item if its time to live is still `at` (canonical number text)."""

    table: int
    pk: bytes
    sk: bytes
    at: str
    context: Context


@dataclass(slots=True)
class Genesis:
    """The first command of every partition. A later Genesis has no effect.

    `base` is 0, and reserved. `hash` names the hash function of keys, `limits` the set of limits.
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
    """Fold the following commands by the rules of `level`."""

    level: int
    context: Context


@dataclass(slots=True)
class Digest:
    """The digest of the state after the entry at `offset`, for comparison. The command changes no state."""

    offset: int
    digest: str


# Messages of one partition to another. A message travels in a Relay and is folded in the receiver's log.


@dataclass(slots=True)
class Defined:
    """Catalog to all: set the definition of a table (canonical JSON), or delete the table if it is None.

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
    """To the owner of an index key: set the entry at this key, or remove it if `item` is None.

    All messages about one key of an index come from the partition of one item, in order.
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
    """To the catalog: the sender has received IndexSent of all partitions, so its part of a new index is complete."""

    table: int
    index: int


@dataclass(slots=True)
class Prepare:
    """To a participant: decide these actions of the sender's transaction `transaction_number`, and lock their keys.

    `nths` are the indexes of the actions in the transaction, for the sequence numbers of their changes.
    """

    transaction_number: int
    nths: Sequence[int]
    actions: Sequence[Action]


@dataclass(slots=True)
class Vote:
    """To the coordinator: the result of its Prepare. `verdicts` is a canonical JSON array, one for each action."""

    transaction_number: int
    holds: bool
    verdicts: bytes


@dataclass(slots=True)
class Decide:
    """To a participant: apply or drop its part of the sender's transaction `transaction_number`."""

    transaction_number: int
    commit: bool


@dataclass(slots=True)
class Commit:
    """To a participant, from level 3: apply its part of the sender's transaction `transaction_number`.

    `offset` and `index` are the position of the Transact in the sender's log, by which a feed
    identifies the transaction. `changing` are the indexes of the actions that change an item, in all partitions; None
    if the receiver holds all actions and can compute them.
    """

    transaction_number: int
    offset: int
    index: int
    changing: Sequence[int] | None


@dataclass(slots=True)
class Decided:
    """To the coordinator: the sender has folded the decision and released its keys."""

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
    """Message `message_number` (from 0, without gaps) of partition `sender` to the partition of this log.

    `offset` and `index` are the position of the sending command in the sender's log, `time` is log time there.
    """

    sender: int
    message_number: int
    offset: int
    index: int
    time: int
    message: Message


@dataclass(slots=True)
class RelayAck:
    """The partition `receiver` has folded this partition's messages up to and including `through_message`.

    `time` is the receiver's log time then, so a cut by time never has an acknowledgement without its message.
    """

    receiver: int
    through_message: int
    time: int


@dataclass(slots=True)
class Abandon:
    """Proposed by the owner's timer: abort a transaction that this coordinator has not decided in time."""

    transaction_number: int
    context: Context


@dataclass(slots=True)
class Barrier:
    """No effect. A worker that has folded its own Barrier has folded all records that were durable when it was sent."""


@dataclass(slots=True)
class Skip:
    """The operator's decision: skip the entry at `offset`, or one command of it, because folding it raises an error.

    A worker that reaches the entry searches the rest of the log for its Skip.
    """

    offset: int
    index: int | None
    context: Context


@dataclass(slots=True)
class DefineSubscription:
    """A command about a subscription, from level 3: the operation and its settings as canonical JSON.

    Create has all settings, Update some, Reset its Start, Pause an optional Reason, Stop the Reason and the finished
    Epoch. `uuid` is random and distinguishes two subscriptions that have the same name at different times.
    """

    operation: SubscriptionOperation
    name: str
    request: bytes
    uuid: str
    context: Context


@dataclass(slots=True)
class Checkpoint:
    """A subscription's progress, from level 3: for each partition the sequence number up to which all is handled.

    A checkpoint is valid for one `epoch`. `version` is a hash of the code that handled the changes. `handled` and
    `dead` are the numbers of changes handled and dead-lettered since the last checkpoint.
    """

    subscription: int
    epoch: int
    checkpoints: Sequence[tuple[int, int]]
    version: str
    handled: int
    dead: int


class LoadedItem(NamedTuple):
    """An item of a Load: its key, its canonical bytes and its size by DynamoDB's rule."""

    pk: bytes
    sk: bytes
    item: bytes
    size: int


@dataclass(slots=True)
class Load:
    """Store items of a table that is being restored, from level 5. All are of one partition."""

    table: int
    items: Sequence[LoadedItem]
    context: Context


@dataclass(slots=True)
class RestoreProgress:
    """The progress of a restore, from level 5, for the catalog.

    Items up to `cursor`, whose form only the restoring process knows, are loaded. With `done` the table becomes ACTIVE.
    """

    table: int
    cursor: bytes
    done: bool
    context: Context


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
    | Load
    | RestoreProgress
)


@dataclass(slots=True)
class Entry:
    """The content of one append.

    `origin` is 16 random bytes of a process start; `entry_number` counts that origin's entries to the partition from
    0. `time` (milliseconds) is the log time where that is not the time of the append: in copied history, and where the
    clock was set back and log time has to pass a cut. `salt` is 16 random bytes that the chain (chain.py) hashes with
    each command, from level 5; None below.
    """

    origin: bytes
    entry_number: int
    commands: Sequence[Command]
    time: int | None = None
    salt: bytes | None = None


@dataclass(slots=True)
class Record:
    """An entry with its offset. `time` is its log time in milliseconds since 1970."""

    partition: int
    offset: int
    time: int
    entry: Entry
