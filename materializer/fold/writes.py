"""The effect of one item command: decide, then apply.

    item before ──► decide ──► Decision ──► apply ──► Applied
                        └────► Refused

*Decide* reads the item, evaluates the condition and computes the new item; it changes nothing and may refuse. *Apply*
stores the decision and cannot fail. A transaction decides all its actions before it applies the first.
"""

from hashlib import blake2b
from typing import Final

import orjson

from ... import expressions
from ...expressions import Plan
from ...log.commands import Action, Check, Delete, Expression, Put, Update
from ...model.capacity import write_units
from ...model.errors import (
    ConditionalCheckFailedError,
    ItemCollectionSizeLimitError,
    RequestError,
    ValidationError,
)
from ...model.index_keys import index_key_error
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.values import UPDATE_TOO_LARGE, Item, Value, dump, item_size, load
from .index_entries import IndexUpdate, apply_index_updates, index_updates, size_with_local_entries
from .indexes import spread_index_updates
from .outcomes import Applied, Refused, Units, cost
from .state import EXPRESSION_LEVEL, PartitionState, Table
from .storage import Stored

_DIGEST_BYTES: Final = 16
_UNSUPPORTED_KEY: Final = (
    "The update expression attempted to update the secondary index key to unsupported type"
)


@dataclass(slots=True)
class Decision:
    """The item before and after a command, the updates of its indexes, and the attributes to return."""

    old: Stored | None
    new: Stored | None
    index_updates: list[IndexUpdate]
    attributes: bytes | None

    def __init__(
        self,
        old: Stored | None,
        new: Stored | None,
        index_updates: list[IndexUpdate],
        attributes: bytes | None = None,
    ) -> None:
        self.old = old
        self.new = new
        self.index_updates = index_updates
        self.attributes = attributes


def decide(table: Table, action: Action, limits: Limits, level: int) -> Decision | Refused:
    """Decide one action on the table at `level`. Change nothing."""
    old = table.items.get(action.pk, action.sk)
    try:
        match action:
            case Put():
                return _decide_put(table, action, old, limits, level)
            case Update():
                return _decide_update(table, action, old, limits, level)
            case Delete():
                return _decide_delete(table, action, old, limits, level)
            case Check():
                _require(action.expression, old, None, action.show_refused, limits, level)
                return Decision(old, old, [])
    except RequestError as error:
        return Refused(error, _cost(old))


def apply(
    state: PartitionState,
    table: Table,
    action: Action,
    decision: Decision,
    sequence_number: int,
    *,
    twice: bool = False,
) -> Applied:
    """Store a decision. `twice` doubles the table's units, as a transaction does."""
    old, new = decision.old, decision.new
    store(state, table, action.pk, action.sk, decision, sequence_number)
    size = table.collection_size(action.pk) if table.has_lsi and (old or new) else None
    applied = Applied(
        action, old, new, sequence_number, state.log_time, decision.attributes, size, twice=twice
    )
    if decision.index_updates:
        applied.local, applied.glob = _index_units(decision.index_updates)
    return applied


def replace(table: Table, put: Put, sequence_number: int, time: int) -> Applied:
    """Decide and apply in one step a put without a condition into a table without indexes: it cannot be refused."""
    new: Stored = (put.item, put.size)
    old = table.items.put(put.pk, put.sk, new)
    attributes = old[0] if old is not None and put.returns == "ALL_OLD" else None
    return Applied(put, old, new, sequence_number, time, attributes)


def store(
    state: PartitionState, table: Table, pk: bytes, sk: bytes, decision: Decision, sequence_number: int
) -> None:
    """Store the new item and update the indexes."""
    old, new = decision.old, decision.new
    if new is None:
        if old is not None:
            table.items.remove(pk, sk)
    elif old is None or old[0] != new[0]:
        table.items.put(pk, sk, new, old)
    if decision.index_updates:
        if state.partitions == 1:
            apply_index_updates(decision.index_updates)
        else:
            spread_index_updates(state, table, decision.index_updates, sequence_number)


def _decide_put(table: Table, put: Put, old: Stored | None, limits: Limits, level: int) -> Decision | Refused:
    new: Stored = (put.item, put.size)
    attributes = old[0] if put.returns == "ALL_OLD" and old is not None else None
    if not table.indexes and put.expression is None:
        return Decision(old, new, [], attributes)

    item = put.parsed if put.parsed is not None else load(put.item)
    error = index_key_error(table.definition, item, limits) if table.indexes else None
    if error is not None:
        return Refused(error)
    before = None if old is None else load(old[0])
    _require(put.expression, old, before, put.show_refused, limits, level)
    return Decision(old, new, _index_updates(table, put, before, old, item, new, limits), attributes)


def _decide_update(
    table: Table, update: Update, old: Stored | None, limits: Limits, level: int
) -> Decision | Refused:
    before = None if old is None else load(old[0])
    plan, values = compiled(update.expression, limits, level)
    if plan is not None and plan.condition is not None and not plan.condition.holds(before, values):
        raise ConditionalCheckFailedError(old[0] if update.show_refused and old is not None else None)

    key = table.definition.key.decode(update.pk, update.sk) if before is None else {}
    attributes = old[0] if update.returns == "ALL_OLD" and old is not None else None
    if plan is None or plan.update is None:
        item = key if before is None else before
        size = item_size(key, limits) if old is None else old[1]
    elif before is None and plan.update.only_removes:
        # Removing attributes from a missing item creates no item.
        return Decision(None, None, [])
    else:
        new_item = key if level >= EXPRESSION_LEVEL else {}
        updated = plan.update.apply(before, values, limits, new_item)
        if before is None or old is None:
            item = {**key, **updated.item}
            size = item_size(item, limits)
        else:
            item = updated.item
            size = old[1] + plan.update.growth(before, item, limits)
        if update.returns == "UPDATED_OLD" and before is not None:
            attributes = _dump_nonempty(plan.update.select(before, updated.touched))
        elif update.returns == "UPDATED_NEW":
            attributes = _dump_nonempty(plan.update.select(item, updated.touched))

    if size > limits.item_bytes:
        raise ValidationError(UPDATE_TOO_LARGE)
    new: Stored = (dump(item), size)
    if table.indexes:
        by_expression = update.expression is not None and update.expression.dialect != "legacy"
        error = index_key_error(table.definition, item, limits, updated=by_expression)
        if error is not None:
            raise _of_computed_key(table, plan, item) or error
    if update.returns == "ALL_NEW":
        attributes = new[0]
    return Decision(old, new, _index_updates(table, update, before, old, item, new, limits), attributes)


def _of_computed_key(table: Table, plan: Plan | None, item: Item) -> ValidationError | None:
    """Return the error for an index key of a wrong type that an expression has computed, not taken from the request."""
    computed = () if plan is None or plan.update is None else plan.update.computed
    for index in table.definition.indexes:
        for attribute in index.key.attributes:
            if attribute.name in computed and attribute.type not in item.get(attribute.name, attribute.type):
                return ValidationError(_UNSUPPORTED_KEY)
    return None


def _decide_delete(table: Table, delete: Delete, old: Stored | None, limits: Limits, level: int) -> Decision:
    needed = old is not None and (bool(table.indexes) or delete.expression is not None)
    before = load(old[0]) if needed and old is not None else None
    _require(delete.expression, old, before, delete.show_refused, limits, level)
    attributes = old[0] if delete.returns == "ALL_OLD" and old is not None else None
    return Decision(old, None, _index_updates(table, delete, before, old, None, None, limits), attributes)


def removal(table: Table, pk: bytes, sk: bytes, old: Stored, limits: Limits) -> Decision:
    """Return the decision to remove an existing item."""
    changes = index_updates(table, pk, sk, (load(old[0]), old), None, limits) if table.indexes else []
    return Decision(old, None, changes)


def compiled(
    expression: Expression | None, limits: Limits, level: int
) -> tuple[Plan | None, dict[str, Value]]:
    """Return the compiled expressions of a command at `level`, and the values that they reference.

    In the process that proposed the command, the server has compiled them already; elsewhere the bounded cache of
    `expressions` usually holds them.
    """
    if expression is None:
        return None, {}
    assert expression.dialect != "digest", "only puts, deletes and checks compare digests"
    if expression.dialect == "legacy":
        condition = {} if expression.condition is None else orjson.loads(expression.condition)
        legacy = expressions.compile_legacy(
            expected=condition.get("Expected"),
            conditional_operator=condition.get("ConditionalOperator"),
            attribute_updates=None if expression.update is None else orjson.loads(expression.update),
            absent_contains_nothing=level < EXPRESSION_LEVEL,
        )
        return legacy.plan, legacy.values
    plan = expression.plan
    if plan is None:
        plan = expressions.compile(
            condition=expression.condition,
            update=expression.update,
            names=expression.names,
            values=expression.values,
            limits=limits,
        )
    return plan, expression.values or {}


def _require(
    expression: Expression | None,
    old: Stored | None,
    before: Item | None,
    show_refused: bool,
    limits: Limits,
    level: int,
) -> None:
    """Raise ConditionalCheckFailedError if the condition does not hold for the item."""
    if expression is None:
        return
    if expression.dialect == "digest":
        if expression.condition != item_digest(old):
            raise ConditionalCheckFailedError(old[0] if show_refused and old is not None else None)
        return
    plan, values = compiled(expression, limits, level)
    if plan is None or plan.condition is None:
        return
    if before is None and old is not None:
        before = load(old[0])
    if not plan.condition.holds(before, values):
        raise ConditionalCheckFailedError(old[0] if show_refused and old is not None else None)


def item_digest(stored: Stored | None) -> str:
    """Return the digest of an item, as an expression of the dialect `digest` names it; "" if there is no item."""
    return "" if stored is None else blake2b(stored[0], digest_size=_DIGEST_BYTES).hexdigest()


def _index_updates(
    table: Table,
    action: Put | Update | Delete,
    before: Item | None,
    old: Stored | None,
    after: Item | None,
    new: Stored | None,
    limits: Limits,
) -> list[IndexUpdate]:
    """Return the index updates of a write; check the limits of tables with local indexes."""
    if not table.indexes:
        return []
    source = None if before is None or old is None else (before, old)
    target = None if after is None or new is None else (after, new)
    if table.has_lsi and target is not None:
        _check_collection(table, action.pk, source, target, limits)
    return index_updates(table, action.pk, action.sk, source, target, limits)


def _check_collection(
    table: Table,
    pk: bytes,
    old: tuple[Item, Stored] | None,
    new: tuple[Item, Stored],
    limits: Limits,
) -> None:
    """Refuse a write after which an item with its local entries, or its collection, is too large.

    DynamoDB Developer Guide, "Item collections in local secondary indexes": both include the entries.
    """
    size = size_with_local_entries(table, *new, limits)
    if size > limits.item_bytes:
        raise ValidationError("Item size has exceeded the maximum allowed size")
    growth = size - (size_with_local_entries(table, *old, limits) if old is not None else 0)
    if growth > 0 and table.collection_size(pk) + growth > limits.collection_bytes:
        raise ItemCollectionSizeLimitError


def _dump_nonempty(attributes: Item) -> bytes | None:
    return dump(attributes) if attributes else None


def units_of(decision: Decision) -> Units:
    """Return the units of a decision."""
    return Units(cost(decision.old, decision.new), *_index_units(decision.index_updates))


def _index_units(updates: list[IndexUpdate]) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Return the units of a write in local and in global indexes, by name."""
    local: dict[str, int] = {}
    glob: dict[str, int] = {}
    for update in updates:
        definition = update.index.definition
        (local if definition.kind == "LSI" else glob)[definition.name] = update.units
    return local or None, glob or None


def _cost(old: Stored | None) -> int:
    """Return the units of a failed condition: by the size of the existing item, one if there is none."""
    return write_units(old[1] if old is not None else 0)
