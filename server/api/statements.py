"""The execution of one PartiQL statement: the common part of ExecuteStatement, BatchExecuteStatement and transactions.

    member of a request ──► parameters ──► parse ──► bind ──► SELECT: reads, one after the other ──► StatementResult
                                                         └──► write: one command               ──► StatementResult

A statement becomes the requests and commands of the classic operations (expressions/partiql), so everything behind
them is the same. A SELECT with several reads runs them in order until a limit ends the page.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import orjson

from ... import expressions
from ...expressions import Plan
from ...expressions.operands import path_reader
from ...expressions.partiql import (
    Bound,
    Exists,
    Insert,
    KeyRead,
    RangeRead,
    ScanRead,
    Select,
    WriteAction,
    action_of,
    bind,
    column_label,
    reads_of,
    request_of,
)
from ...expressions.partiql.rendering import Renderer
from ...log.commands import Check, Context
from ...materializer.fold.outcomes import Applied, Outcome, Refused
from ...materializer.fold.state import Index, Table
from ...materializer.fold.storage import Stored
from ...materializer.partition import Page, ResultPosition
from ...model.capacity import read_half_units
from ...model.cuts import SEPARATOR, AtTime, split_name
from ...model.errors import (
    ConditionalCheckFailedError,
    DuplicateItemError,
    RequestError,
    ValidationError,
)
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.service import is_table
from ...model.tables import TableDefinition, name_of
from ...model.values import Value, check_item, check_value, dump, load
from ..auth.conditions import Facts
from ..auth.rights import Demand, ItemDemand, Past, Right
from ..database import Database
from ..routing import joined
from . import parameters, write_requests
from .as_of import Refusable, open_past, past_request
from .operations.get_item import projected
from .operations.query import query_request
from .operations.scan import scan_request
from .operations.transact_write_items import action_of as command_of
from .operations.transact_write_items import parse_action
from .parsed_statements import parsed
from .policy_facts import Classic, facts_of_classics
from .response_json import Consumed
from .restores import latest_time

_INVALID_NEXT = "Invalid NextToken"
_NO_INDEX = "The table does not have the specified index"
_NO_CONSISTENT = "Strongly consistent read is not supported on Global Secondary Indexes"
_NOT_SUPPORTED_KEYS = (
    "PartiQL statements cannot be executed on tables with multi-attribute HASH keys "
    "or multi-attribute RANGE keys."
)
_INVALID_NAME = (
    "Table name should be within the length [3, 255] and only contain 'a-z', 'A-Z', '0-9', '-', '_', '.'."
)
ONLY_IN_TRANSACTION = "EXISTS can only be used in ExecuteTransaction write requests."

TIME_MEMBER: Final = "@"
"""The member of a request with the time of its cut, if the table is named with an age; no client can send it."""

# DynamoDB names no parameter in an error of a statement.
_parameter_prefix = re.compile(
    r"(?:1 validation error detected: )?"
    r"(?:Invalid (?:Condition|Filter|KeyCondition|Projection|Update)Expression: )?"
)
_ACTIONS: Final = {"Insert": "PartiQLInsert", "Update": "PartiQLUpdate", "Delete": "PartiQLDelete"}
_READS: Final = {KeyRead: "GetItem", RangeRead: "Query", ScanRead: "Scan"}


class StatementResult(NamedTuple):
    """The items of a statement, as JSON, and its cost.

    Attributes:
        last: The LastEvaluatedKey of a page that has another behind it.
        token: Its NextToken.
    """

    items: list[bytes]
    consumed: Consumed | None = None
    last: bytes | None = None
    token: str | None = None


OnResult: TypeAlias = Callable[[StatementResult | RequestError, ResultPosition | None], None]


CheckStatement: TypeAlias = Callable[[Database, Bound], None]
"""Raises a RequestError for a statement that the operation does not execute."""


class Sender(Protocol):
    """The sender of a request, as writes and reads need it; see `Reply`."""

    after: bytes | None

    @property
    def context(self) -> Context: ...

    def consumed(self, half_units: int) -> None:
        """Record consumed half units."""
        ...


def refusal(error: ValidationError) -> ValidationError:
    """Return the error of a classic operation with the text that it has for a statement."""
    return ValidationError(_parameter_prefix.sub("", error.message, count=1))


def bound_statement(member: dict[str, Any], limits: Limits) -> Bound:
    """Return the statement of a request, or of a member of one, with its values.

    Raises:
        ValidationError: The statement or a parameter is invalid; its parameters are checked first.
    """
    values = checked_parameters(member, limits)
    bound = bind(parsed(member), values)
    table = bound.kind.table
    if SEPARATOR not in table and not is_table(table):
        raise ValidationError(_INVALID_NAME)
    return bound


def checked_parameters(member: dict[str, Any], limits: Limits) -> list[Value]:
    """Check the parameters of a statement and make them canonical.

    Raises:
        ValidationError: A parameter is no value of DynamoDB.
    """
    values: list[Value] = member.get("Parameters", [])
    for value in values:
        try:
            check_value(value, limits)
        except ValidationError as error:
            raise ValidationError(error.older) from None
    return values


def demands(
    members: Iterable[dict[str, Any]], request: dict[str, Any] | None = None, operation: str | None = None
) -> Iterator[Demand]:
    """Yield the rights that statements need. A malformed statement needs none: its handler refuses it.

    `request` is the request that has the statements, and `operation` its name if conditions of policies test that.

    The statement that is executed is the one whose rights were checked. It is parsed with one set of limits; the limits
    of the database hold for its values, which become those of a classic request.
    """
    for member in members:
        try:
            kind = parsed(member).kind
        except ValidationError:
            continue
        action = _ACTIONS.get(type(kind).__name__, "PartiQLSelect")
        name, cut = split_name(kind.table)
        right = Right.READ if isinstance(kind, Select | Exists) else Right.WRITE
        needed = right if cut is None else Past.READ
        index = kind.index if isinstance(kind, Select) else None
        yield ItemDemand(f"dynamodb:{action}", needed, name, member, _facts, index, request, operation)


def _facts(demand: ItemDemand, definition: TableDefinition, limits: Limits) -> Facts:
    """Return the facts of a statement: those of the classic requests that it becomes.

    Raises:
        ValidationError: The statement is malformed, or does not fit the table.
    """
    member = demand.request
    try:
        bound = bind(parsed(member), checked_parameters(member, limits))
        return facts_of_classics(demand, _classics(bound, definition, member), definition, limits)
    except ValidationError as error:
        raise refusal(error) from None


def _classics(bound: Bound, definition: TableDefinition, member: dict[str, Any]) -> Iterator[Classic]:
    if not isinstance(bound.kind, Select):
        action = classic_write(bound, definition, member)
        yield Classic(action.kind, action.request)
        return
    select = bound.kind
    index = None if select.index is None else definition.index(select.index)
    if select.index is not None and index is None:
        raise ValidationError(_NO_INDEX)
    plan = reads_of(
        bound, select, definition.key if index is None else index.key, composite=index is not None
    )
    for read in plan.reads:
        yield Classic(_READS[type(read)], request_of(read, bound, select))


def with_tables(
    database: Database, names: Iterable[str], reply: Refusable, proceed: Callable[[], None]
) -> None:
    """Call `proceed`; if a table is unknown and the catalog may be behind its log, once it has caught up."""

    def run() -> None:
        try:
            proceed()
        except RequestError as error:
            reply.error(error)

    state = database.state
    is_unknown = any(SEPARATOR not in name and state.table_named(name_of(name)) is None for name in names)
    if is_unknown and database.router is not None:
        database.catch_up(run)
    else:
        run()


# The past


class _Refusal:
    """Passes the error of a read of the past on; the part of a Reply that `open_past` uses."""

    def __init__(self, done: OnResult) -> None:
        self._done = done

    def error(self, error: RequestError, position: ResultPosition | None = None) -> None:
        self._done(error, position)


def execute_at_cut(
    database: Database,
    bound: Bound,
    member: dict[str, Any],
    sender: Sender,
    done: OnResult,
    check: CheckStatement | None = None,
) -> None:
    """Execute a statement whose table may be named with a cut, and call `done` with its result.

    `check` may refuse the statement before it is executed.

    Raises:
        RequestError: The statement does not fit its table, or cannot read the past.
    """
    name = bound.kind.table
    if SEPARATOR not in name:
        execute(database, bound, member, sender, done, check)
        return
    operation = "Query" if isinstance(bound.kind, Select) else type(bound.kind).__name__.upper()
    past = past_request(operation, {"TableName": name}, latest_time(database))
    if past is None:
        raise ValidationError(_INVALID_NAME)
    if past.is_relative:
        token = page_token(member)
        if token is not None and token.time_ms is not None:
            past = past._replace(cut=AtTime(min(token.time_ms, latest_time(database))))
        assert isinstance(past.cut, AtTime), "an age is resolved to a time"
        member = {**member, TIME_MEMBER: past.cut.time_ms}
        past = past._replace(is_relative=False)

    def proceed(at_cut: Database) -> None:
        try:
            execute(at_cut, bound, member, sender, done, check)
        except RequestError as error:
            done(error, None)

    open_past(database, past, operation, _Refusal(done), proceed)


def execute(
    database: Database,
    bound: Bound,
    member: dict[str, Any],
    sender: Sender,
    done: OnResult,
    check: CheckStatement | None = None,
) -> None:
    """Execute a statement and call `done` with its result.

    Raises:
        RequestError: The statement does not fit its table.
    """
    try:
        if check is not None:
            check(database, bound)
        if isinstance(bound.kind, Select):
            _Reading(database, bound, bound.kind, member, sender, done).run()
        else:
            _write(database, bound, member, sender, done)
    except ValidationError as error:
        raise refusal(error) from None


# Writes


def classic_write(bound: Bound, definition: TableDefinition, member: dict[str, Any]) -> WriteAction:
    """Return the classic request of a write.

    Raises:
        ValidationError: The statement does not name one item of the table.
    """
    action = action_of(bound, definition.key)
    if "ReturnValuesOnConditionCheckFailure" in member:
        wanted = member["ReturnValuesOnConditionCheckFailure"]
        action.request["ReturnValuesOnConditionCheckFailure"] = wanted
    return action


def _write(database: Database, bound: Bound, member: dict[str, Any], sender: Sender, done: OnResult) -> None:
    if isinstance(bound.kind, Exists):
        raise ValidationError(ONLY_IN_TRANSACTION)
    limits = database.state.limits
    table = database.state.usable_table(bound.kind.table)
    action = classic_write(bound, table.definition, member)
    parsed = parse_action(action.kind, action.request, limits, "UpdateItem")
    if not isinstance(bound.kind, Insert):
        _check_key_types(table, action.request["Key"])
    command = command_of(parsed, table.definition, sender.context, limits)
    assert not isinstance(command, Check), "only EXISTS is a check"
    answer = partial(_on_outcome, bound.kind.table, action.inserts, sender, done)
    database.counted.submit(command, parsed.write.size + parsed.write.expression_bytes + 256, answer)


def _check_key_types(table: Table, key: dict[str, Value]) -> None:
    for attribute in table.definition.key.attributes:
        if attribute.type not in key[attribute.name]:
            raise ValidationError(
                "Key attribute's data type should match its data type in table's schema: "
                f"Key {attribute.name}"
            )


def _on_outcome(
    name: str, inserts: bool, sender: Sender, done: OnResult, outcome: Outcome, position: ResultPosition
) -> None:
    if isinstance(outcome, Applied):
        consumed = Consumed(name)
        consumed.add(outcome.units)
        items = [] if outcome.attributes in (None, b"{}") else [outcome.attributes]
        done(StatementResult([each for each in items if each is not None], consumed), position)
        return
    error = write_requests.refusal(outcome)
    assert error is not None, "a write of an item has no other outcome"
    if isinstance(outcome, Refused):
        sender.consumed(2 * outcome.units)
    if inserts and isinstance(error, ConditionalCheckFailedError):
        error = DuplicateItemError()
    done(error, position)


# Reads


@dataclass(slots=True)
class Source:
    """The table or index that a SELECT reads."""

    table: Table
    index: Index | None

    @property
    def keys(self) -> Any:
        definition = self.table.definition if self.index is None else self.index.definition
        return definition.key


def source_of(database: Database, select: Select) -> Source:
    """Return the table and the index that a SELECT reads.

    Raises:
        RequestError: The table or the index does not exist, or the index has a key of several attributes.
    """
    table = database.state.usable_table(select.table)
    if select.index is None:
        return Source(table, None)
    index = table.indexes.get(select.index)
    if index is None:
        raise ValidationError(_NO_INDEX)
    key = index.definition.key
    if len(key.partition) > 1 or len(key.sort) > 1:
        raise ValidationError(_NOT_SUPPORTED_KEYS)
    return Source(table, index)


def check_where(bound: Bound, select: Select, limits: Limits) -> None:
    """Check all conditions of a SELECT, before they are divided into reads.

    Raises:
        ValidationError: An operand or a limit of the conditions is wrong.
    """
    if select.where is not None:
        renderer = Renderer(bound.values)
        text = renderer.condition(select.where)
        substitutions = renderer.substitutions()
        expressions.compile(
            filter=text,
            names=substitutions.get("ExpressionAttributeNames"),
            values=substitutions.get("ExpressionAttributeValues"),
            limits=limits,
        )


def shown_columns(select: Select) -> Callable[[bytes], bytes] | None:
    """Return a function from an item to its selected columns; None if a projection has their names already.

    A nested path is named after its last part, so an item that has it is decoded here. It was read with all members of
    the path's attribute.
    """
    if all(len(column.parts) == 1 for column in select.columns):
        return None
    readers = [(column_label(column), path_reader(column)) for column in select.columns]

    def show(data: bytes) -> bytes:
        item = load(data)
        values = ((label, read(item, {})) for label, read in readers)
        return dump({label: value for label, value in values if value is not None})

    return show


@dataclass(slots=True)
class _Start:
    """The start of a page: a read, and the key after which it begins."""

    read: int = 0
    key: dict[str, Any] | None = None


class _Reading:
    """The reads of one page of a SELECT.

    Attributes:
        units: The consumed half units so far.
    """

    def __init__(
        self,
        database: Database,
        bound: Bound,
        select: Select,
        member: dict[str, Any],
        sender: Sender,
        done: OnResult,
    ) -> None:
        self._database = database
        self._bound = bound
        self._select = select
        self._member = member
        self._done = done
        self._is_fresh = sender.after is not None
        self._source = source_of(database, select)
        index = self._source.index
        if index is not None and index.definition.kind == "GSI" and member.get("ConsistentRead"):
            raise ValidationError(_NO_CONSISTENT)
        check_where(bound, select, database.state.limits)
        self._plan = reads_of(bound, select, self._source.keys, composite=index is not None)
        self._show = shown_columns(select)
        self._start = _start_of(member)
        if self._start.read >= len(self._plan.reads):
            raise ValidationError(_INVALID_NEXT)
        self._limit: int | None = member.get("Limit")
        self._items: list[bytes] = []
        self._size = 0
        self._positions: list[ResultPosition] = []
        self.units = Consumed(select.table)
        self._is_due = False
        self._is_running = False

    def run(self) -> None:
        """Perform the reads until the page ends. Answers that arrive at once do not nest."""
        self._is_due = True
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._is_due:
                self._is_due = False
                self._perform()
        finally:
            self._is_running = False

    def _perform(self) -> None:
        read = self._plan.reads[self._start.read]
        request = request_of(read, self._bound, self._select, forward=self._plan.forward)
        if self._member.get("ConsistentRead"):
            request["ConsistentRead"] = True
        if isinstance(read, KeyRead):
            self._get(request)
            return
        if self._limit is not None:
            request["Limit"] = self._limit
        if self._start.key is not None:
            request["ExclusiveStartKey"] = self._start.key
        partition = self._database.counted
        if isinstance(read, RangeRead):
            query, _ = query_request(
                self._database,
                request,
                self._is_fresh,
                filters_any=self._source.index is None or not self._plan.has_one_filter,
            )
            partition.query(query, self._on_page)
        else:
            assert isinstance(read, ScanRead)
            scan, _ = scan_request(self._database, request, self._is_fresh)
            partition.scan(scan, self._on_page)

    def _get(self, request: dict[str, Any]) -> None:
        limits, key = self._database.state.limits, request["Key"]
        plan = parameters.parse_read(request, limits, partial(check_item, key, limits)).plan
        definition = self._source.table.definition
        parameters.check_key_paths(plan, definition)
        pk, sk = definition.key.read_key(key, limits)
        is_consistent = "ConsistentRead" in request
        answer = partial(self._on_item, plan, is_consistent)
        self._database.counted.get(definition.id, pk, sk, is_consistent or self._is_fresh, answer)

    def _on_item(
        self,
        plan: Plan | None,
        is_consistent: bool,
        stored: Stored | RequestError | None,
        position: ResultPosition,
    ) -> None:
        if isinstance(stored, RequestError):
            self._done(stored, position)
            return
        size = 0 if stored is None else stored[1]
        items = [] if stored is None else [projected(stored, plan)]
        units = read_half_units(size, is_consistent)
        self._on_page(Page(items, len(items), len(items), None, units, size=size), position)

    def _on_page(self, page: Page | RequestError, position: ResultPosition) -> None:
        if isinstance(page, RequestError):
            self._done(page, position)
            return
        self._positions.append(position)
        self._items += page.items if self._show is None else map(self._show, page.items)
        self._size += page.size
        self.units.table += page.table_half_units
        index = self._source.index
        if index is not None:
            arm = self.units.local if index.definition.kind == "LSI" else self.units.glob
            name = index.definition.name
            arm[name] = arm.get(name, 0) + page.index_half_units
        if self._limit is not None:
            self._limit -= page.scanned
        read = self._start.read
        if page.last is not None:
            self._finish(_Start(read, orjson.loads(page.last)), page.last)
        elif read + 1 == len(self._plan.reads):
            self._finish(None, None)
        elif self._limit == 0 or self._size >= self._database.state.limits.page_bytes:
            self._finish(_Start(read + 1), None)
        else:
            self._start = _Start(read + 1)
            self._go_on()

    def _go_on(self) -> None:
        """Perform the next read from the callback of the last one, where no caller can answer with its error."""
        try:
            self.run()
        except ValidationError as error:
            self._done(refusal(error), None)
        except RequestError as error:
            self._done(error, None)

    def _finish(self, start: _Start | None, last: bytes | None) -> None:
        token = None if start is None else _token_of(self._member, start)
        self._done(StatementResult(self._items, self.units, last, token), joined(self._positions))


# Tokens


@dataclass(frozen=True, slots=True)
class PageToken:
    """A NextToken: the text and values that it belongs to, and the start of the next page.

    Attributes:
        digest: The hash of the statement and its parameters. A token of another statement is refused.
        read: The number of the read.
        key: The key after which it begins.
        time_ms: The time of the first page's cut, if the table is named with an age.
    """

    digest: str
    read: int = 0
    key: dict[str, Any] | None = None
    time_ms: int | None = field(default=None)


def page_token(member: dict[str, Any]) -> PageToken | None:
    """Return the token of a request.

    Raises:
        ValidationError: The text is no token, or belongs to another statement.
    """
    text = member.get("NextToken")
    if text is None:
        return None
    try:
        digest, read, key, time_ms = orjson.loads(urlsafe_b64decode(text.encode()))
        token = PageToken(digest, read, key, time_ms)
    except (ValueError, TypeError):
        raise ValidationError(_INVALID_NEXT) from None
    is_valid = (
        isinstance(token.digest, str)
        and type(token.read) is int
        and token.read >= 0
        and (token.key is None or isinstance(token.key, dict))
        and (token.time_ms is None or (type(token.time_ms) is int and token.time_ms >= 0))
    )
    if not is_valid:
        raise ValidationError(_INVALID_NEXT)
    if token.digest != _digest(member):
        raise ValidationError("NextToken does not match request")
    return token


def _start_of(member: dict[str, Any]) -> _Start:
    token = page_token(member)
    return _Start() if token is None else _Start(token.read, token.key)


def _token_of(member: dict[str, Any], start: _Start) -> str:
    parts = [_digest(member), start.read, start.key, member.get(TIME_MEMBER)]
    return urlsafe_b64encode(orjson.dumps(parts)).decode()


def _digest(member: dict[str, Any]) -> str:
    bound_to = [member["Statement"], member.get("Parameters", [])]
    return blake2b(orjson.dumps(bound_to, option=orjson.OPT_SORT_KEYS), digest_size=12).hexdigest()
