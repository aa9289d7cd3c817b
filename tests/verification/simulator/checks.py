"""Invariants of the states of all partitions at rest.

None of them uses the code that produced the states: an index holds the entries that a reader of the table expects, a
transaction is in all of its lists or in none, and money is only moved.
"""

from collections import defaultdict
from collections.abc import Iterable

from foldb.materializer.fold.state import PartitionState
from foldb.model.slots import partition_of_key
from foldb.model.values import load
from tests.verification.histories.history import History, Operation, Step
from tests.verification.histories.model import ACCOUNTS, OPENING_BALANCE
from tests.verification.simulator.clients import requests


def is_at_rest(state: PartitionState) -> bool:
    """Whether a partition has no open messages, transactions or tables."""
    return (
        not state.unacknowledged_bytes
        and state.transactions.idle
        and all(table.definition.status == "ACTIVE" for table in state.tables.values())
        and not any(
            index.backfilling for table in state.tables.values() for index in table.definition.indexes
        )
    )


def check_at_rest(states: list[PartitionState]) -> None:
    """Check that every message is folded and acknowledged, no transaction is open, no key held, every table settled."""
    for number, state in enumerate(states):
        for receiver, outbox in state.outboxes.items():
            assert not outbox.unacknowledged, (
                f"{number} has unacknowledged messages for {receiver}: {outbox.unacknowledged}"
            )
            arrived = states[receiver].received.get(number, 0)
            assert arrived == outbox.next_message_number, (
                f"{receiver} has received {arrived} of {outbox.next_message_number} from {number}"
            )
        assert state.unacknowledged_bytes == 0, (
            f"{number} counts {state.unacknowledged_bytes} bytes of messages"
        )
        assert not state.deferred, f"{number} has messages about indexes that never came: {state.deferred}"
        assert not state.rollout.pending, f"{number} has tables on their way: {state.rollout}"
        assert not state.rollout.filled, f"{number} has indexes that are filled in part: {state.rollout}"
        assert state.transactions.idle, f"{number} has transactions under way: {state.transactions}"


def check_indexes(states: list[PartitionState]) -> None:
    """Check that every index is the projection of its table, every item is in its partition, all partitions know all
    tables.
    """
    catalog = states[0].tables
    for number, state in enumerate(states):
        for table_id in sorted({*state.tables, *catalog}):
            known, reported = (tables.get(table_id) for tables in (state.tables, catalog))
            assert known is not None, f"{number} does not know table {table_id}"
            assert reported is not None, f"{number} knows table {table_id}, which is gone"
            assert known.definition == reported.definition, (
                f"{number} knows table {table_id} as {known.definition}"
            )
            assert known.definition.status == "ACTIVE", (
                f"table {table_id} is {known.definition.status} for ever"
            )
    for table_id, table in catalog.items():
        items = _everything(states, table_id, None)
        for name, index in table.indexes.items():
            expected = {(load(item)["g"]["S"], pk): item for pk, item in items.items() if b'"g"' in item}
            entries = _everything(states, table_id, name)
            found = {
                (load(item)["g"]["S"], load(item)["pk"]["S"].encode()): item for item in entries.values()
            }
            assert not index.definition.backfilling, f"index {name} of table {table_id} is never filled"
            assert found == expected, (
                f"index {name} of table {table_id} is not its projection: {_difference(found, expected)}"
            )


def _difference(found: dict[tuple[str, bytes], bytes], expected: dict[tuple[str, bytes], bytes]) -> str:
    keys = sorted(key for key in {**found, **expected} if found.get(key) != expected.get(key))
    return "; ".join(f"{key} holds {found.get(key)!r}, not {expected.get(key)!r}" for key in keys)


def _everything(states: list[PartitionState], table_id: int, index: str | None) -> dict[bytes, bytes]:
    """Return the items of a table, or the entries of an index, of all partitions."""
    found: dict[bytes, bytes] = {}
    for number, state in enumerate(states):
        table = state.tables[table_id]
        store = table.items if index is None else table.indexes[index].store
        owner = table_id if index is None else table.indexes[index].definition.id
        for _, pk, sk, (item, _) in store.scan():
            assert partition_of_key(owner, pk, len(states)) == number, f"{pk!r} is in partition {number}"
            key = pk if index is None else pk + b" " + sk
            assert key not in found, f"{key!r} is in two partitions"
            found[key] = item
    return found


def contents(states: list[PartitionState], table_id: int, keys: Iterable[str]) -> dict[str, object]:
    """Return the items of a table as states of the model."""
    found: dict[str, object] = {}
    for key in keys:
        pk = requests.pk_of(key)
        stored = states[partition_of_key(table_id, pk, len(states))].tables[table_id].items.get(pk, b"")
        found[key] = requests.state(key, None if stored is None else stored[0])
    return found


def keys_of(history: History) -> list[str]:
    """Return all keys of requests, and the accounts."""
    asked = {step.key for operation in history.operations for step in operation.steps}
    return sorted(asked | {f"a{number}" for number in range(ACCOUNTS)})


def check_whole(history: History, found: dict[str, object]) -> None:
    """Check that money was only moved, and that each transaction's appends are all there or none."""
    total = sum(found[f"a{number}"] for number in range(ACCOUNTS))  # type: ignore[misc]
    assert total == ACCOUNTS * OPENING_BALANCE, f"the accounts come to {total}: {found}"
    there: dict[int, set[str]] = defaultdict(set)
    for key, state in found.items():
        if key[0] == "l":
            assert isinstance(state, tuple)
            assert len(set(state)) == len(state), f"something was appended to {key} twice: {state}"
            for number in state:
                there[number].add(key)
    for operation in history.operations:
        asked = {step.key for step in operation.steps if step.verb == "append"}
        for step in operation.steps:
            if step.verb == "append":
                seen = there.get(step.argument, set())
                assert seen in (set(), asked), f"only {seen} of a transaction is there: {operation}"


def look(found: dict[str, object], now: int) -> list[Operation]:
    """Return the items as reads of a history."""
    return [Operation(-1, now, now, (Step(key, "get"),), (state,)) for key, state in found.items()]
