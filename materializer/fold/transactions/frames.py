"""Transactions, in a dump of a partition's state.

    frames ::= number? (under way  vote*)* prepared*      by number, by coordinator and number

A state that never had a transaction over partitions has none of them. To keep frames short, each vote has its own
frame, and so has each item that waits for its commit. A context has the log's first layout if that can express it.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from ....log.commands import Check, Delete, Put, Vote, either_context
from .state import Effect, Prepared, Transactions, UnderWay

NUMBER: Final = b"N"  # number of the next transaction
UNDER_WAY: Final = b"C"
VOTE: Final = b"V"  # on the transaction in the last UNDER_WAY frame
PREPARED: Final = b"P"  # one action of a prepared part


def frames(transactions: Transactions) -> Iterator[tuple[bytes, Any]]:
    """Yield kind and content, as JSON, of each frame."""
    if transactions.next_transaction_number:
        yield NUMBER, transactions.next_transaction_number
    for transaction_number, transaction in sorted(transactions.under_way.items()):
        yield UNDER_WAY, _under_way(transaction_number, transaction)
        for partition, vote in sorted(transaction.votes.items()):
            yield VOTE, [partition, vote.holds, vote.verdicts.decode()]
    for transaction_id, prepared in sorted(transactions.prepared.items()):
        for nth, effect in zip(prepared.nths, prepared.effects, strict=True):
            yield PREPARED, [*transaction_id, nth, *_effect(effect)]


def load_frame(transactions: Transactions, kind: bytes, payload: bytes) -> bool:
    """Load a frame; return False for a frame of another kind."""
    match kind:
        case b"N":
            transactions.next_transaction_number = orjson.loads(payload)
        case b"C":
            _load_under_way(transactions, *orjson.loads(payload))
        case b"V":
            partition, holds, verdicts = orjson.loads(payload)
            transaction_number = next(reversed(transactions.under_way))
            vote = Vote(transaction_number, holds, verdicts.encode())
            transactions.under_way[transaction_number].votes[partition] = vote
        case b"P":
            _load_prepared(transactions, *orjson.loads(payload))
        case _:
            return False
    return True


def _under_way(transaction_number: int, transaction: UnderWay) -> list[Any]:
    return [
        transaction_number,
        transaction.started_ms,
        transaction.token,
        transaction.fingerprint.hex(),
        [[partition, list(nths)] for partition, nths in transaction.parts.items()],
        transaction.commit,
        transaction.awaited,
        transaction.answered,
        sorted([partition, *position] for partition, position in transaction.positions.items()),
        *([] if transaction.position is None else [transaction.position]),
    ]


def _load_under_way(transactions: Transactions, transaction_number: int, *fields: Any) -> None:
    begun, token, fingerprint, parts, commit, awaited, answered, positions, *position = fields
    transaction = UnderWay(
        begun,
        token,
        bytes.fromhex(fingerprint),
        dict(parts),
        commit=commit,
        awaited=awaited,
        answered=answered,
        positions={partition: (offset, index) for partition, offset, index in positions},
        position=tuple(position[0]) if position else None,
    )
    transactions.add(transaction_number, transaction)


def _effect(effect: Effect) -> list[Any]:
    context = effect.context.in_first_layout() or effect.context.encoded
    key = [effect.table, effect.pk.hex(), effect.sk.hex(), context.hex()]
    match effect:
        case Put():
            return [*key, "put", effect.item.decode(), effect.size]
        case Delete():
            return [*key, "delete"]
        case Check():
            return [*key, "check"]


def _load_prepared(
    transactions: Transactions, coordinator: int, transaction_number: int, nth: int, *fields: Any
) -> None:
    table, pk, sk, encoded_context, kind, *item = fields
    key = table, bytes.fromhex(pk), bytes.fromhex(sk)
    context = either_context(bytes.fromhex(encoded_context))
    effect: Effect
    match kind:
        case "put":
            effect = Put(*key, item[0].encode(), item[1], context)
        case "delete":
            effect = Delete(*key, context)
        case _:
            effect = Check(*key, context)
    transaction_id = coordinator, transaction_number
    part = transactions.prepared.get(transaction_id)
    nths, effects = ([], []) if part is None else (part.nths, part.effects)
    transactions.hold(transaction_id, Prepared([*nths, nth], [*effects, effect]))
