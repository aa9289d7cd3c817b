"""Transactions, in a dump of a partition's state.

    frames ::= number? (under way  vote*)* prepared*      by number, by coordinator and number

A state that never had a transaction over partitions has none of them. To keep frames short, each vote has its own
frame, and so has each item that waits for its commit.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from ....log.commands import Check, Context, Delete, Put, Vote
from .state import Effect, Prepared, Transactions, UnderWay

NUMBER: Final = b"N"  # number of the next transaction
UNDER_WAY: Final = b"C"
VOTE: Final = b"V"  # on the transaction in the last UNDER_WAY frame
PREPARED: Final = b"P"  # one action of a prepared part


def frames(transactions: Transactions) -> Iterator[tuple[bytes, Any]]:
    """Yield kind and content, as JSON, of each frame."""
    if transactions.next_number:
        yield NUMBER, transactions.next_number
    for number, transaction in sorted(transactions.under_way.items()):
        yield UNDER_WAY, _under_way(number, transaction)
        for partition, vote in sorted(transaction.votes.items()):
            yield VOTE, [partition, vote.holds, vote.verdicts.decode()]
    for name, prepared in sorted(transactions.prepared.items()):
        for nth, effect in zip(prepared.nths, prepared.effects, strict=True):
            yield PREPARED, [*name, nth, *_effect(effect)]


def take_frame(transactions: Transactions, kind: bytes, payload: bytes) -> bool:
    """Load a frame; return False for a frame of another kind."""
    match kind:
        case b"N":
            transactions.next_number = orjson.loads(payload)
        case b"C":
            _take_under_way(transactions, *orjson.loads(payload))
        case b"V":
            partition, holds, verdicts = orjson.loads(payload)
            number = next(reversed(transactions.under_way))
            vote = Vote(number, holds, verdicts.encode())
            transactions.under_way[number].votes[partition] = vote
        case b"P":
            _take_prepared(transactions, *orjson.loads(payload))
        case _:
            return False
    return True


def _under_way(number: int, transaction: UnderWay) -> list[Any]:
    return [
        number,
        transaction.begun,
        transaction.token,
        transaction.fingerprint.hex(),
        [[partition, list(nths)] for partition, nths in transaction.parts.items()],
        transaction.commit,
        transaction.awaited,
        transaction.answered,
        sorted([partition, *place] for partition, place in transaction.places.items()),
        *([] if transaction.place is None else [transaction.place]),
    ]


def _take_under_way(transactions: Transactions, number: int, *fields: Any) -> None:
    begun, token, fingerprint, parts, commit, awaited, answered, places, *place = fields
    transaction = UnderWay(
        begun,
        token,
        bytes.fromhex(fingerprint),
        dict(parts),
        commit=commit,
        awaited=awaited,
        answered=answered,
        places={partition: (offset, index) for partition, offset, index in places},
        place=tuple(place[0]) if place else None,
    )
    transactions.go_on(number, transaction)


def _effect(effect: Effect) -> list[Any]:
    place = [effect.table, effect.pk.hex(), effect.sk.hex(), effect.context.encoded.hex()]
    match effect:
        case Put():
            return [*place, "put", effect.item.decode(), effect.size]
        case Delete():
            return [*place, "delete"]
        case Check():
            return [*place, "check"]


def _take_prepared(transactions: Transactions, coordinator: int, number: int, nth: int, *fields: Any) -> None:
    table, pk, sk, context, kind, *item = fields
    place = table, bytes.fromhex(pk), bytes.fromhex(sk)
    who = Context.of(bytes.fromhex(context))
    effect: Effect
    match kind:
        case "put":
            effect = Put(*place, item[0].encode(), item[1], who)
        case "delete":
            effect = Delete(*place, who)
        case _:
            effect = Check(*place, who)
    name = coordinator, number
    part = transactions.prepared.get(name)
    nths, effects = ([], []) if part is None else (part.nths, part.effects)
    transactions.hold(name, Prepared([*nths, nth], [*effects, effect]))
