"""Entries for tests: small ones made by hand, and any at all from hypothesis."""

from dataclasses import fields as fields_in
from dataclasses import is_dataclass
from typing import Any

import orjson
from hypothesis import strategies as st

from foldb.log.codec import ATTRIBUTES
from foldb.log.commands import (
    Abandon,
    Backfill,
    Barrier,
    Check,
    Checkpoint,
    Command,
    Commit,
    Context,
    Decide,
    Decided,
    Defined,
    DefineSubscription,
    DefineTable,
    DefinitionApplied,
    Delete,
    Digest,
    Entry,
    Expire,
    Expression,
    Genesis,
    IndexEntry,
    IndexFilled,
    IndexSent,
    Level,
    Load,
    LoadedItem,
    Message,
    Prepare,
    Put,
    Relay,
    RelayAck,
    RestoreProgress,
    Settle,
    Skip,
    Transact,
    Update,
    Vote,
    new_context,
)

ORIGIN = b"origin of a test"
CONTEXT = new_context("4Q1R", invocation_id="f81d4fae")
CONTEXT_FIELDS = ("request_id", "invocation_id", "principal", "source", "depth", "reason")


def put_entry(number: int, size: int = 20) -> Entry:
    """An entry of one put, of an item of about `size` bytes."""
    item = b'{"n":{"N":"%d"},"pk":{"S":"%s"}}' % (number, b"x" * size)
    return Entry(ORIGIN, number, [Put(1, b"car", b"", item, size + 6, CONTEXT)])


def one_of_each() -> list[Entry]:
    """Every command, with every field filled once and left out once."""
    expression = Expression(
        "#a = :v", "SET #b = :w", {"#a": "a", "#b": "b"}, {":v": {"S": "é"}, ":w": {"N": "1"}}
    )
    legacy = Expression('{"Expected":{"a":{"Exists":false}}}', dialect="legacy")
    digest = Expression("00112233445566778899aabbccddeeff", dialect="digest")
    context = new_context("4Q1R", "f81d4fae", "AKIA", "trigger", 2)
    reasoned = new_context("4Q1R", source="undo", reason="wrong price, é")
    key = (7, b"\x00\xff", b"sort")
    actions: list[Put | Update | Delete | Check] = [
        Put(*key, b'{"a":{"S":"x"}}', 2, CONTEXT, expression, "ALL_OLD", True),
        Update(*key, CONTEXT, expression, "UPDATED_NEW", True),
        Delete(*key, CONTEXT, legacy, "ALL_OLD", True),
        Check(*key, CONTEXT, expression, True),
    ]
    commands: list[Command] = [
        Put(*key, b"{}", 2, CONTEXT, expression),
        Update(*key, CONTEXT, legacy, "ALL_OLD", True),
        Delete(*key, CONTEXT, expression, "ALL_OLD", True),
        Put(1, b"", b"", b"{}", 0, context),
        Update(1, b"a", b"", context, returns="ALL_NEW"),
        Delete(1, b"a", b"", context, returns="UPDATED_OLD"),
        Transact(actions, context, "token", b"\x01\x02"),
        Transact([Check(1, b"a", b"", context)], context),
        DefineTable("CreateTable", 0, b'{"TableName":"T"}', "uuid", context, settle=True),
        Settle(1, context),
        Backfill(1, 2, 100, context),
        Expire(1, b"a", b"b", "1700000000", new_context("r", source="ttl")),
        Genesis(b"l" * 16, 0, 8, 1000, 1, "blake2b-64", "2012"),
        Level(2, new_context("r", source="restore")),
        Digest(2**40, "00ff"),
        RelayAck(3, 2**40, 1_700_000_000_000),
        Abandon(2**40, context),
        Barrier(),
        Skip(2**40, 7, context),
        Skip(0, None, CONTEXT),
        DefineSubscription("Create", "archive", b'{"TableNames":["T"]}', "uuid", context),
        Checkpoint(9, 2, [(1, 100000000000001048200030000), (2**30, 0)], "00ff", 2**40, 3),
        Checkpoint(1, 0, [], "", 0, 0),
        Put(*key, b"{}", 2, reasoned, digest),
        Delete(*key, context, digest),
        Settle(1, reasoned),
        Load(
            7,
            [LoadedItem(b"\x00\xff", b"sort", b'{"a":{"S":"x"}}', 2), LoadedItem(b"a", b"", b"{}", 0)],
            context,
        ),
        Load(1, [], reasoned),
        RestoreProgress(7, b"\x00\xff", False, context),
        RestoreProgress(1, b"", True, reasoned),
    ]
    messages: list[Message] = [
        Defined(7, 2**40, b'{"name":"T"}'),
        Defined(7, 1, None),
        DefinitionApplied(7, 2**40),
        IndexEntry(7, 8, b"\x00\xff", b"sort", b'{"a":{"S":"x"}}', 2),
        IndexEntry(1, 2, b"", b"", None, 0),
        IndexSent(7, 8),
        IndexFilled(7, 8),
        Prepare(2**40, [0, 3, 5, 99], actions),
        Prepare(0, [], []),
        Vote(2**40, True, b'[{"a":1}]'),
        Decide(2**40, True),
        Decided(2**40),
        Commit(2**40, 2**41, 7, [0, 3, 99]),
        Commit(0, 0, 0, []),
        Commit(1, 2, 3, None),
    ]
    commands += [Relay(3, 2**40 + n, 2**41, n, 1_700_000_000_000, each) for n, each in enumerate(messages)]
    return [
        Entry(ORIGIN, 0, commands),
        Entry(ORIGIN, 2**40, commands[:1], time=1_700_000_000_000),
        Entry(ORIGIN, 1, []),
        Entry(ORIGIN, 2, commands[:2], salt=b"salt of an entry"),
        Entry(ORIGIN, 3, [], time=1_700_000_000_000, salt=bytes(16)),
    ]


def in_schema(value: Any, attribute: str) -> str:
    """Return the name that the schema has for an attribute of a command or entry."""
    names = ATTRIBUTES.get(type(value).__name__, {})
    return next((field for field, own in names.items() if own == attribute), attribute)


def fields_of(value: Any) -> Any:
    """An entry as fastavro wants it: records as dicts, commands with the name of their branch."""
    if isinstance(value, Context):
        return dict(zip(CONTEXT_FIELDS, value.fields(), strict=True))
    if isinstance(value, Expression | Entry):
        names = [each.name for each in fields_in(value)]
        fields = {in_schema(value, name): fields_of(getattr(value, name)) for name in names}
        if isinstance(value, Expression) and value.values is not None:
            fields["values"] = orjson.dumps(value.values, option=orjson.OPT_SORT_KEYS)
        return fields
    if isinstance(value, list):
        return [fields_of(each) for each in value]
    if isinstance(value, LoadedItem):
        return value._asdict()
    if isinstance(value, tuple):
        return {"partition": value[0], "number": str(value[1])}
    if is_dataclass(value):
        name = f"foldb.log.{type(value).__name__}"
        return name, {
            in_schema(value, each.name): fields_of(getattr(value, each.name)) for each in fields_in(value)
        }
    return value


ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=20)
keys = st.binary(max_size=20)
values = st.recursive(
    st.fixed_dictionaries({"S": texts})
    | st.fixed_dictionaries({"N": st.just("1.5")})
    | st.just({"NULL": True}),
    lambda inner: st.fixed_dictionaries({"L": st.lists(inner, max_size=3)}),
    max_leaves=4,
)
contexts = st.builds(
    new_context,
    texts,
    st.none() | texts,
    st.none() | texts,
    st.sampled_from(["api", "ttl", "trigger", "restore", "undo"]),
    ints,
    st.none() | texts,
)
expressions = st.none() | st.builds(
    Expression,
    st.none() | texts,
    st.none() | texts,
    st.none() | st.dictionaries(texts, texts, max_size=3),
    st.none() | st.dictionaries(texts, values, max_size=3),
    st.sampled_from(["expression", "legacy", "digest"]),
)
returns = st.sampled_from(["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"])
puts = st.builds(Put, ints, keys, keys, keys, ints, contexts, expressions, returns, st.booleans())
updates = st.builds(Update, ints, keys, keys, contexts, expressions, returns, st.booleans())
deletes = st.builds(Delete, ints, keys, keys, contexts, expressions, returns, st.booleans())
checks = st.builds(Check, ints, keys, keys, contexts, expressions, st.booleans())
actions = st.lists(puts | updates | deletes | checks, max_size=4)
messages = st.one_of(
    st.builds(Defined, ints, longs, st.none() | st.binary()),
    st.builds(DefinitionApplied, ints, longs),
    st.builds(IndexEntry, ints, ints, keys, keys, st.none() | keys, ints),
    st.builds(IndexSent, ints, ints),
    st.builds(IndexFilled, ints, ints),
    st.builds(Prepare, longs, st.lists(ints, max_size=4), actions),
    st.builds(Vote, longs, st.booleans(), st.binary()),
    st.builds(Decide, longs, st.booleans()),
    st.builds(Decided, longs),
    st.builds(Commit, longs, longs, ints, st.none() | st.lists(ints, max_size=4)),
)
marks = st.lists(st.tuples(ints, st.integers(0, 10**30)), max_size=4)
commands = st.one_of(
    puts,
    updates,
    deletes,
    st.builds(
        Transact,
        actions,
        contexts,
        st.none() | texts,
        st.binary(),
    ),
    st.builds(DefineTable, texts, ints, st.binary(), texts, contexts, st.booleans()),
    st.builds(Settle, ints, contexts),
    st.builds(Backfill, ints, ints, ints, contexts),
    st.builds(Expire, ints, keys, keys, texts, contexts),
    st.builds(Genesis, st.binary(min_size=16, max_size=16), ints, ints, longs, ints, texts, texts),
    st.builds(Level, ints, contexts),
    st.builds(Digest, longs, texts),
    st.builds(Relay, ints, longs, longs, ints, longs, messages),
    st.builds(RelayAck, ints, longs, longs),
    st.builds(Abandon, longs, contexts),
    st.builds(Barrier),
    st.builds(Skip, longs, st.none() | ints, contexts),
    st.builds(DefineSubscription, texts, texts, st.binary(), texts, contexts),
    st.builds(Checkpoint, ints, longs, marks, texts, longs, longs),
    st.builds(Load, ints, st.lists(st.builds(LoadedItem, keys, keys, keys, ints), max_size=3), contexts),
    st.builds(RestoreProgress, ints, keys, st.booleans(), contexts),
)
ids = st.binary(min_size=16, max_size=16)
entries = st.builds(Entry, ids, longs, st.lists(commands, max_size=4), st.none() | longs, st.none() | ids)
