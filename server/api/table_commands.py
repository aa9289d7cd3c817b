"""The common parts of table operations: from a request to a command, from an outcome to an answer.

A request is validated first, by the rules of `table_rules` and against the current tables, so that refused requests are
not written to the log. The fold validates the command again, and its outcome is the answer.
"""

import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import orjson

from ...log.commands import DefineTable
from ...materializer.fold.outcomes import Failed, Outcome, Refused, Skipped, TableDefined
from ...materializer.fold.state import HISTORY_LEVEL, Table
from ...materializer.partition import ResultPosition
from ...model import table_requests
from ...model.descriptions import describe
from ...model.errors import RequestError, ResourceNotFoundError, ValidationError
from ...model.partition_splits import KEEP_PARTITIONS
from ...model.table_copies import RESTORE
from ...model.table_requests import POLICY, SHARD_AGE
from ...model.tables import TableDefinition, name_of
from ..auth.policy_document import Holder
from ..database import Database
from ..throttling.decreases import check_decreases
from . import table_rules
from .item_counts import Counts, ItemCount
from .policy_rules import canonical_policy
from .reply import Reply

# Replies with the table after the command, and the position.
AnswerBuilder: TypeAlias = Callable[[TableDefinition, ResultPosition], None]

_is_resource = re.compile("arn:[^:]*:dynamodb:[^:]*:[0-9]*:table/[a-zA-Z0-9_.-]{3,255}").fullmatch


def create(
    database: Database,
    body: dict[str, Any],
    reply: Reply,
    operation: str = "CreateTable",
    restore: dict[str, Any] | None = None,
) -> None:
    """Validate a CreateTable and submit its command, or that of an `operation` that copies the items of a table.

    `restore` is the source of such a copy (model/table_copies.py).
    """
    table_id = new_uuid(database)
    body = check_create(database, body, table_id)
    answer = partial(describe_to, database, reply, "TableDescription", None)
    if restore is not None:
        body = {**body, RESTORE: restore}
    _submit(database, operation, body, reply, answer, uuid=table_id)


def new_uuid(database: Database) -> str:
    return str(uuid.UUID(bytes=database.random_bytes(16), version=4))


def check_create(database: Database, body: dict[str, Any], table_id: str) -> dict[str, Any]:
    """Check the members of a CreateTable against the current tables, and return them as they are written to the log.

    Raises:
        ValidationError, LimitExceededError: The table cannot be created.
    """
    body = table_rules.admit("CreateTable", body)
    if "ResourcePolicy" in body:
        body = {**body, POLICY: canonical_policy(database, body["ResourcePolicy"], Holder.TABLE)}
        del body["ResourcePolicy"]
    table_requests.create(
        body,
        table_id=database.state.next_id,
        uuid=table_id,
        time_ms=database.clock(),
        limits=database.state.limits,
        tables=len(database.state.tables),
        units=database.state.units_of_others(None),
    )
    return body


def change(
    database: Database,
    operation: str,
    table: Table,
    body: dict[str, Any],
    reply: Reply,
    answer: Callable[[TableDefinition], dict[str, Any] | None] | None = None,
    *,
    omit: frozenset[str] = frozenset(),
) -> None:
    """Validate a change of an existing table and submit its command.

    The default answer is TableDescription without the members in `omit`. None from `answer` is an empty body.
    """
    body = table_rules.admit(operation, body)
    definition = table.definition
    now_ms = database.clock()
    changed = table_requests.change(
        operation,
        definition,
        body,
        next_id=database.state.next_id,
        time_ms=now_ms,
        limits=database.state.limits,
        units=database.state.units_of_others(table),
    )
    if operation == "UpdateTable" and database.settings.throttle:
        check_decreases(definition, changed, now_ms)
    description: AnswerBuilder = partial(describe_to, database, reply, "TableDescription", table, omit=omit)
    send = description if answer is None else _reply_with(reply, answer)
    _submit(database, operation, body, reply, send, table=definition.id)


def describe_to(
    database: Database,
    reply: Reply,
    member: str,
    table: Table | None,
    definition: TableDefinition,
    position: ResultPosition | None = None,
    *,
    omit: frozenset[str] = frozenset(),
) -> None:
    """Reply with the description of `definition` and the counts of `table` in `member`, without the `omit` members."""

    def on_counted(counts: Counts) -> None:
        own, indexes, counted_at = counts
        description = describe(
            definition,
            item_count=own.items,
            size_bytes=own.bytes,
            index_counts={name: (index.items, index.bytes) for name, index in indexes.items()},
            time_ms=database.clock(),
        )
        shown = {name: value for name, value in description.items() if name not in omit}
        reply.ok(orjson.dumps({member: shown}), position or counted_at)

    if table is None:
        on_counted(Counts(ItemCount(0, 0), {}))
    else:
        database.counts.of(table, on_counted)


def tagged_table(database: Database, arn: str) -> Table | None:
    """Return the table that a ResourceArn means, if there is one.

    Raises:
        ValidationError: The text is not the ARN of a table.
    """
    if not _is_resource(arn):
        raise ValidationError(f"Invalid TableArn: Invalid ResourceArn provided as input {arn}")
    return database.state.table_named(name_of(arn))


def table_to_tag(database: Database, arn: str) -> Table:
    """Return the table that a ResourceArn means.

    Raises:
        ValidationError: The text is not the ARN of a table.
        ResourceNotFoundError: No table has the ARN.
    """
    table = tagged_table(database, arn)
    if table is None:
        # DynamoDB's spelling.
        raise ResourceNotFoundError(f"Requested resource not found: ResourcArn: {arn} not found")
    return table


def _reply_with(reply: Reply, answer: Callable[[TableDefinition], dict[str, Any] | None]) -> AnswerBuilder:
    def send(definition: TableDefinition, position: ResultPosition) -> None:
        content = answer(definition)
        reply.ok(b"" if content is None else orjson.dumps(content), position)

    return send


def _submit(
    database: Database,
    operation: str,
    body: dict[str, Any],
    reply: Reply,
    answer: AnswerBuilder,
    *,
    table: int = 0,
    uuid: str = "",
) -> None:
    if "StreamSpecification" in body:
        body = {**body, SHARD_AGE: database.settings.shard_age_ms}
    # Below that level no split follows, and an older release would ignore the member.
    if operation == "UpdateTable" and database.settings.throttle and database.state.level >= HISTORY_LEVEL:
        body = {**body, KEEP_PARTITIONS: True}
    request = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    settle = database.settings.table_delay_ms > 0
    command = DefineTable(operation, table, request, uuid, reply.context, settle)
    database.partition.submit(command, len(request), partial(_answer, reply, answer))


def _answer(reply: Reply, answer: AnswerBuilder, outcome: Outcome, position: ResultPosition) -> None:
    if isinstance(outcome, TableDefined):
        answer(outcome.definition, position)
    else:
        reply.error(refusal(outcome), position)


def refusal(outcome: Outcome) -> RequestError:
    """Return the error of a table command that was not applied."""
    match outcome:
        case Refused(error) | Failed(error):
            return error
        case Skipped():
            return ResourceNotFoundError()
        case _:
            raise AssertionError("a table command has no other outcome")
