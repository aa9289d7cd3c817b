"""The outcomes of the fold: one per command.

    command ──► fold ──► Outcome: the reply to the caller, the changes, the units

A refusal is an outcome, not an exception: the command stays in the log, changes nothing, and the reply carries the
reason. Outcomes are plain data, because the caller may be on another node.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias

from ...log.commands import Action, Context, Position
from ...model.backups import Backup
from ...model.capacity import write_units
from ...model.errors import RequestError
from ...model.jobs import Job
from ...model.lazy_dataclass import dataclass
from ...model.subscriptions import Subscription
from ...model.tables import TableDefinition
from .storage import Stored

_NO_ITEM: Final[tuple[None, int]] = None, 0


class Tx(NamedTuple):
    """The transaction that a change is part of.

    `id` is the position of the Transact in its coordinator's log, `n` the index of this change among the changes of
    the transaction, from 0, and `of` their number in all partitions. They are in the order of the transaction's
    actions.
    """

    id: str
    n: int
    of: int


@dataclass(slots=True)
class Change:
    """One item before and after a write; images are canonical item bytes, None if there is no item.

    `stream` is the label of the enabled stream, 0 if the table was only watched. `is_read` marks an item that was
    read for a snapshot and not changed. `old_size` and `new_size` are the sizes of the items if the fold knows them:
    0 of a change that was read from a file.
    """

    table: int
    pk: bytes
    sk: bytes
    old: bytes | None
    new: bytes | None
    sequence_number: int
    time: int
    context: Context
    tx: Tx | None
    stream: int
    is_read: bool
    old_size: int = field(compare=False)
    new_size: int = field(compare=False)

    def __init__(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        old: bytes | None,
        new: bytes | None,
        sequence_number: int,
        time: int,
        context: Context,
        tx: Tx | None = None,
        stream: int = 0,
        is_read: bool = False,
        old_size: int = 0,
        new_size: int = 0,
    ) -> None:
        self.table = table
        self.pk = pk
        self.sk = sk
        self.old = old
        self.new = new
        self.sequence_number = sequence_number
        self.time = time
        self.context = context
        self.tx = tx
        self.stream = stream
        self.is_read = is_read
        self.old_size = old_size
        self.new_size = new_size


@dataclass(slots=True)
class Units:
    """Write units of one item command: the table's (those of its LSIs listed in `local`), and each GSI's."""

    table: int
    local: dict[str, int] | None
    glob: dict[str, int] | None

    def __init__(
        self,
        table: int,
        local: dict[str, int] | None = None,
        glob: dict[str, int] | None = None,
    ) -> None:
        self.table = table
        self.local = local
        self.glob = glob

    @property
    def half_units(self) -> int:
        """The half units of the table and its local indexes, which use its capacity."""
        return 2 * (self.table + sum((self.local or {}).values()))


@dataclass(slots=True)
class Applied:
    """An item command was applied: at its key, `new` replaces `old`.

    `attributes` is the JSON object for ReturnValues, serialized, or None. `collection_size` is the bytes of the item
    collection after the write, if the table has an LSI. `local` and `glob` are the units of the indexes. Total units
    and the change are computed on demand, because a refold needs neither.
    """

    action: Action
    old: Stored | None
    new: Stored | None
    sequence_number: int
    time: int
    attributes: bytes | None
    collection_size: int | None
    local: dict[str, int] | None
    glob: dict[str, int] | None
    twice: bool  # a transaction doubles the table's units
    replayed_units: int  # units of an action of a replayed transaction, which only reads

    def __init__(
        self,
        action: Action,
        old: Stored | None,
        new: Stored | None,
        sequence_number: int,
        time: int,
        attributes: bytes | None = None,
        collection_size: int | None = None,
        local: dict[str, int] | None = None,
        glob: dict[str, int] | None = None,
        twice: bool = False,
        replayed_units: int = 0,
    ) -> None:
        self.action = action
        self.old = old
        self.new = new
        self.sequence_number = sequence_number
        self.time = time
        self.attributes = attributes
        self.collection_size = collection_size
        self.local = local
        self.glob = glob
        self.twice = twice
        self.replayed_units = replayed_units

    @property
    def units(self) -> Units:
        """Return the units: those of the larger item image, before or after, and those of each index."""
        return Units(self.replayed_units or cost(self.old, self.new) << self.twice, self.local, self.glob)

    @property
    def change(self) -> Change | None:
        """Return the change, or None if the item stays equal."""
        action = self.action
        return change(
            action.table,
            action.pk,
            action.sk,
            self.old,
            self.new,
            self.sequence_number,
            self.time,
            action.context,
        )


def cost(old: Stored | None, new: Stored | None) -> int:
    """Return the table's write units for one item before and after."""
    before, after = old[1] if old else 0, new[1] if new else 0
    return write_units(before if before > after else after)  # `max` would take twice as long


def change(
    table: int,
    pk: bytes,
    sk: bytes,
    old: Stored | None,
    new: Stored | None,
    sequence_number: int,
    time: int,
    context: Context,
) -> Change | None:
    """Return the change of an item; None if the item stays equal.

    DynamoDB publishes nothing for a write that leaves the item equal. Canonical bytes are equal exactly if the items
    are equal in DynamoDB's sense, so comparing bytes is enough.
    """
    if not changes_item(old, new):
        return None
    before, old_size = _NO_ITEM if old is None else old
    after, new_size = _NO_ITEM if new is None else new
    return Change(
        table, pk, sk, before, after, sequence_number, time, context, None, 0, False, old_size, new_size
    )


def changes_item(old: Stored | None, new: Stored | None) -> bool:
    """Whether the item differs afterwards."""
    return (None if old is None else old[0]) != (None if new is None else new[0])


@dataclass(slots=True)
class Refused:
    """The command changed nothing; `error` is DynamoDB's answer, `units` its cost."""

    error: RequestError
    units: int = 0

    def __post_init__(self) -> None:
        # The traceback's frames hold this outcome and the decoded item: a cycle, which keeps the item in
        # memory until the next collection.
        self.error.__traceback__ = None


@dataclass(slots=True)
class CostOnly:
    """The cost of an action of a transaction over partitions. Its effect is an outcome in the partition of its item."""

    units: Units
    collection_size: int | None = None


@dataclass(slots=True)
class Transacted:
    """All actions were applied. `replayed` marks a used ClientRequestToken: nothing was applied again."""

    actions: Sequence[Applied | CostOnly]
    replayed: bool = False


@dataclass(slots=True)
class TransactionRefused:
    """No action was applied; `error` carries one reason per action, `units` the cost of each action."""

    error: RequestError
    units: list[int]


def transaction_units(outcome: "Outcome") -> list[Units]:
    """Return the units of each action of a transaction; none if nothing was appended."""
    if isinstance(outcome, Transacted):
        return [each.units for each in outcome.actions]
    if isinstance(outcome, TransactionRefused):
        return [Units(units) for units in outcome.units]
    return []


@dataclass(slots=True)
class TableDefined:
    """A table command was applied; `definition` is the one in the operation's answer, before it settles."""

    definition: TableDefinition


@dataclass(slots=True)
class BackupDefined:
    """A backup was created or deleted; `backup` is its content, or its last."""

    backup: Backup


@dataclass(slots=True)
class JobDefined:
    """A job began, or was changed; `job` is its state after the command."""

    job: Job


@dataclass(slots=True)
class Loaded:
    """The items of a Load were stored; `applied` are their writes, in this partition only."""

    count: int
    applied: Sequence[Applied] = field(default=(), compare=False, repr=False)


@dataclass(slots=True)
class Subscribed:
    """A subscription command was applied; `subscription` is its result, or its last state if it was removed.

    After a Create, all partitions that have applied the catalog's definitions up to `version` capture its tables.
    """

    subscription: Subscription
    version: int = 0


@dataclass(slots=True)
class Completed:
    """A command of an owner, an operator or the log itself; `progressed` is whether it had an effect."""

    progressed: bool
    change: Change | None = None


@dataclass(slots=True)
class Skipped:
    """The command had no effect: the entry is a duplicate or stale, or its table or slot is not in this partition."""

    why: str


@dataclass(slots=True)
class TransactionStarted:
    """A transaction over partitions has started, under this number. Its outcome follows in a MessageFolded."""

    transaction_number: int


class Share(NamedTuple):
    """The part of a transaction over partitions that one Commit applied.

    Attributes:
        transact: The position of the Transact in its coordinator's log.
        changing: The indexes of all actions that change an item, over all partitions; None if all are in this part.
    """

    transact: Position
    changing: Sequence[int] | None


class Resolved(NamedTuple):
    """A transaction over partitions that has ended; `positions` are those of the other participants' last messages."""

    transaction_number: int
    outcome: "Outcome"
    positions: tuple[Position, ...] = ()


@dataclass(slots=True)
class MessageFolded:
    """Result of folding a relayed message, or of aborting a transaction.

    Attributes:
        through_message: The number of the sender's last message that is folded.
        applied: The writes of a Commit in this partition.
        resolved: The transactions of this coordinator that have ended.
        time: Log time.
        share: The part of its transaction that a Commit applied; None for transactions that began below level 3.
    """

    through_message: int = -1
    applied: Sequence[Applied] = ()
    resolved: Sequence["Resolved"] = ()
    time: int = 0
    share: Share | None = None


@dataclass(slots=True)
class Failed:
    """The append failed, or nothing was appended. `error` states whether a retry can help."""

    error: RequestError


Outcome: TypeAlias = (
    Applied
    | Refused
    | Transacted
    | TransactionRefused
    | TableDefined
    | Subscribed
    | Completed
    | Skipped
    | TransactionStarted
    | MessageFolded
    | Failed
    | BackupDefined
    | JobDefined
    | Loaded
)
