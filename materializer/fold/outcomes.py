"""What folding one command yields.

    command ──► fold ──► Outcome: the reply for whoever waits, the changes, the units

A refusal is an outcome, not an exception: the command keeps its place in the log, changes nothing, and its
sender is told why. Outcomes are plain data, because the sender may sit on another node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...log.commands import Action, Context, Position
from ...model.capacity import write_units
from ...model.errors import RequestError
from ...model.subscriptions import Subscription
from ...model.tables import TableDefinition
from .storage import Stored

# A sequence number is (base + offset, index, which change of the command), written as one decimal number of
# 27 digits. The widths are in every feed ever served: 10^18 entries, 10^4 commands an entry, 10^4 changes a command.
_OFFSETS = 10**18
_WIDTH = 10**4
NEXT_COMMAND = _WIDTH
"""From the number of a command's first change to that of the next command's."""


def sequence_number(offset: int, index: int, nth: int) -> int:
    """The number of a change, rising with its place in the log, the same on every refold.

    >>> sequence_number(10482, 3, 0)
    100000000000001048200030000
    """
    return ((_OFFSETS + offset) * _WIDTH + index) * _WIDTH + nth


def place_of(sequence_number: int) -> tuple[int, int]:
    """The offset and index that a sequence number was made of.

    >>> place_of(sequence_number(10482, 3, 7))
    (10482, 3)
    """
    offset, index = divmod(sequence_number // _WIDTH, _WIDTH)
    return offset - _OFFSETS, index


class Tx(NamedTuple):
    """Which transaction a change is part of.

    `id` is the place of the Transact in its coordinator's log, `n` tells, from 0, which of its changes this is and `of`
    how many it made, in all partitions; they are in the order of its actions.
    """

    id: str
    n: int
    of: int


@dataclass(slots=True)
class Change:
    """One item before and after; images are canonical item bytes, None where there was or is no item.

    `stream` is the label of the stream that was enabled then, 0 where the table was only watched; `is_read` tells that
    nothing changed: the item was found, as part of a snapshot.
    """

    table: int
    pk: bytes
    sk: bytes
    old: bytes | None
    new: bytes | None
    sequence_number: int
    time: int
    context: Context
    tx: Tx | None = None
    stream: int = 0
    is_read: bool = False


@dataclass(slots=True)
class Units:
    """Write units one item command consumed: the table's arm (its LSIs listed in `local`), and each GSI's."""

    table: int
    local: dict[str, int] | None = None
    glob: dict[str, int] | None = None


@dataclass(slots=True)
class Applied:
    """An item command went through: at its key, `new` is in place of `old`.

    `attributes` is the JSON object that ReturnValues asked for, ready to be spliced, or None;
    `collection_size` the bytes of the item collection after the write where the table has an LSI;
    `local` and `glob` what the write cost in indexes. What it cost in all and what it changed is worked out when
    somebody asks: a refold does not.
    """

    action: Action
    old: Stored | None
    new: Stored | None
    sequence_number: int
    time: int
    attributes: bytes | None = None
    collection_size: int | None = None
    local: dict[str, int] | None = None
    glob: dict[str, int] | None = None
    twice: bool = False  # in a transaction the table's units count double
    looked: int = 0  # the units of only looking at an action that a transaction had done before

    @property
    def units(self) -> Units:
        """What it cost: the larger of the item before and after, and each index's part."""
        return Units(self.looked or cost(self.old, self.new) << self.twice, self.local, self.glob)

    @property
    def change(self) -> Change | None:
        """What it changed, if anything."""
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
    """The write units of a table for one item before and after."""
    return write_units(max(old[1] if old else 0, new[1] if new else 0))


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
    """The change of an item; None if it stays as it was.

    DynamoDB publishes nothing for a write that leaves the item as it was. Canonical bytes are equal exactly if
    the items are equal in DynamoDB's sense, so comparing bytes is enough.
    """
    if not changes_item(old, new):
        return None
    before = None if old is None else old[0]
    after = None if new is None else new[0]
    return Change(table, pk, sk, before, after, sequence_number, time, context)


def changes_item(old: Stored | None, new: Stored | None) -> bool:
    """Whether an item is another one afterwards."""
    return (None if old is None else old[0]) != (None if new is None else new[0])


@dataclass(slots=True)
class Refused:
    """The command changed nothing; `error` is DynamoDB's answer, `units` what it cost all the same."""

    error: RequestError
    units: int = 0

    def __post_init__(self) -> None:
        # It was raised among frames that hold this outcome and the decoded item: a cycle, and the item stays in
        # memory until the collector comes by.
        self.error.__traceback__ = None


@dataclass(slots=True)
class CostOnly:
    """An action of a transaction over partitions: what it cost. What it did is told where its item lives."""

    units: Units
    collection_size: int | None = None


@dataclass(slots=True)
class Transacted:
    """Every action went through. `replayed` marks a used ClientRequestToken: nothing was done again."""

    actions: Sequence[Applied | CostOnly]
    replayed: bool = False


@dataclass(slots=True)
class TransactionRefused:
    """No action went through; `error` carries a reason an action, `units` what each action cost."""

    error: RequestError
    units: list[int]


@dataclass(slots=True)
class Defined:
    """A table command went through; `definition` is the table as the operation answers it, before it is settled."""

    definition: TableDefinition


@dataclass(slots=True)
class Subscribed:
    """A command about a subscription went through; `subscription` is as it is now, or as it was if it is removed.

    One that was created has its tables captured where the catalog's definitions up to `version` have been applied.
    """

    subscription: Subscription
    version: int = 0


@dataclass(slots=True)
class Done:
    """A command of an owner, an operator or the log itself; `progressed` tells whether it did anything."""

    progressed: bool
    change: Change | None = None


@dataclass(slots=True)
class Skipped:
    """The command had no effect at its place: the entry is a duplicate or stale, its table or slot not of here."""

    why: str


@dataclass(slots=True)
class TransactionStarted:
    """A transaction over partitions has begun, and has this number here. Its outcome comes later, in a Taken."""

    transaction_number: int


class Share(NamedTuple):
    """Which part of a transaction over partitions a commit has done.

    Attributes:
        transact: Where the Transact stands in its coordinator's log; the offset has the log's base in it.
        changing: The places in the transaction of all actions that change an item; None if they are all of this part.
    """

    transact: Position
    changing: Sequence[int] | None


class Resolved(NamedTuple):
    """A transaction over partitions that has come to its end; `places` is where other participants did their part."""

    transaction_number: int
    outcome: "Outcome"
    places: tuple[Position, ...] = ()


@dataclass(slots=True)
class MessageFolded:
    """What another partition told was folded, or a transaction was given up.

    `through` is the number of the last message of that sender that is folded now, `applied` what a commit wrote here
    and `share` which part of its transaction that is (not known of those that began below level 3),
    `resolved` the outcomes of this partition's transactions that are known now, by number; `time` is log time.
    """

    through_message: int = -1
    applied: Sequence[Applied] = ()
    resolved: Sequence["Resolved"] = ()
    time: int = 0
    share: Share | None = None


@dataclass(slots=True)
class Failed:
    """The append failed, or nothing was appended. `error` says whether a retry can help."""

    error: RequestError


Outcome: TypeAlias = (
    Applied
    | Refused
    | Transacted
    | TransactionRefused
    | Defined
    | Subscribed
    | Done
    | Skipped
    | TransactionStarted
    | MessageFolded
    | Failed
)
