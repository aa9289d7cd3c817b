"""Entries survive the log exactly, and a log outlives the version that wrote it."""

import json
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st

from foldb.expressions import Plan
from foldb.log import binary
from foldb.log.avro import long
from foldb.log.codec import (
    CURRENT,
    canonical,
    decode_entry,
    decode_message,
    decode_resolved,
    encode_entry,
    encode_message,
    fingerprint_of,
    schema,
    schema_files,
)
from foldb.log.commands import (
    Barrier,
    Command,
    Context,
    Delete,
    Entry,
    Expression,
    Load,
    Message,
    Prepare,
    Put,
    Relay,
    RestoreProgress,
    Settle,
    Transact,
    either_context,
    new_context,
)
from foldb.model.errors import NewerVersionError
from foldb.model.values import Value
from tests.unit.log.samples import (
    ORIGIN,
    contexts,
    entries,
    fields_of,
    messages,
    one_of_each,
    put_entry,
)


@given(entries)
def test_an_entry_round_trips(entry: Entry) -> None:
    assert entry == decode_entry(encode_entry(entry))


@pytest.mark.parametrize("entry", one_of_each())
def test_every_command_survives_with_each_of_its_fields(entry: Entry) -> None:
    assert entry == decode_entry(encode_entry(entry))
    assert entry == decode_message(encode_message(entry))


@given(entries)
def test_an_entry_has_the_bytes_of_fastavro(entry: Entry) -> None:
    """It is written and read by hand, for speed, and must be Avro to the byte."""
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema(CURRENT)), fields_of(entry))

    assert out.getvalue() == encode_entry(entry)
    assert entry == decode_resolved(out.getvalue(), CURRENT)


@given(messages)
def test_a_message_outside_a_relay_round_trips(message: Message) -> None:
    """As a state keeps it until it is acknowledged."""
    data = binary.encode_message(message)

    assert message == binary.decode_message(data)
    for wrong in (data[:-1], data + b"\0", b"", b"\x7f" + data):
        with pytest.raises(ValueError, match="message"):
            binary.decode_message(wrong)


def test_caches_of_a_command_are_not_encoded() -> None:
    expression = Expression("attribute_exists(a)", plan=Plan())
    put = Put(1, b"a", b"", b"{}", 2, new_context("r"), expression, parsed={"a": {"S": "x"}})

    [back] = decode_entry(encode_entry(Entry(ORIGIN, 0, [put]))).commands

    assert put == back
    assert isinstance(back, Put)
    assert back.parsed is None
    assert back.expression is not None
    assert back.expression.plan is None


def test_values_travel_in_canonical_order() -> None:
    """Equal requests have equal bytes, in any order of their values."""
    values: dict[str, Value] = {":b": {"S": "2"}, ":a": {"M": {"y": {"N": "1"}, "x": {"N": "2"}}}}
    put = Put(1, b"a", b"", b"{}", 2, new_context("r"), Expression("c", None, None, values))

    body = encode_entry(Entry(ORIGIN, 0, [put]))

    assert orjson.dumps(values, option=orjson.OPT_SORT_KEYS) in body


REASONED = Put(1, b"a", b"", b"{}", 2, new_context("r", reason="typo"))
UNDONE = Delete(1, b"a", b"", new_context("r", source="undo", depth=2**20))
COMPARED = Put(1, b"a", b"", b"{}", 2, new_context("r"), Expression("", dialect="digest"))
LATER: list[Command] = [
    REASONED,
    UNDONE,
    COMPARED,
    Settle(1, new_context("r", reason="")),
    Transact([COMPARED], new_context("r")),
    Relay(1, 2, 3, 4, 5, Prepare(1, [0, 1], [UNDONE, REASONED])),
    Load(1, [], new_context("r")),
    RestoreProgress(1, b"", True, new_context("r")),
]


def test_a_message_without_salt_has_the_previous_schema() -> None:
    """The release before can read it, as long as that schema can express it."""
    before = [*schema_files()][-2]
    entry = Entry(ORIGIN, 3, [each for each in one_of_each()[0].commands if in_schema_003(each)], time=5)
    assert len(entry.commands) > 30
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema(before)), first_fields_of(entry))

    assert b"\xc3\x01" + before + out.getvalue() == encode_message(entry)
    assert entry == decode_message(encode_message(entry))


@pytest.mark.parametrize("command", LATER, ids=lambda command: type(command).__name__)
def test_a_message_that_it_cannot_express_has_the_current(command: Command) -> None:
    entry = Entry(ORIGIN, 0, [Barrier(), command])

    assert b"\xc3\x01" + CURRENT + encode_entry(entry) == encode_message(entry)
    assert entry == decode_message(encode_message(entry))


def test_a_message_with_a_salt_has_the_current_schema() -> None:
    entry = replace(put_entry(1), salt=bytes(16))

    assert b"\xc3\x01" + CURRENT + encode_entry(entry) == encode_message(entry)


@given(contexts)
def test_a_context_of_either_layout_is_the_same(context: Context) -> None:
    first = context.in_first_layout()

    assert (first is None) == (context.reason is not None or context.source == "undo")
    assert context == either_context(context.encoded)
    if first is not None:
        assert context.encoded == either_context(first).encoded == first + b"\0"


def in_schema_003(command: Command) -> bool:
    """Whether schema 003 has all kinds, fields and symbols of a command."""
    text = repr(command)
    new = ("Load", "RestoreProgress", "wrong price", "'digest'", "'undo'")
    return not any(word in text for word in new)


def first_fields_of(value: Any) -> Any:
    """An entry as fastavro wants it for schema 003: without salt and reasons."""
    fields = fields_of(value)
    del fields["salt"]
    return without_reasons(fields)


def without_reasons(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_reasons(each) for name, each in value.items() if name != "reason"}
        case list() | tuple():
            return type(value)(map(without_reasons, value))
        case _:
            return value


def test_a_message_of_a_later_schema_is_refused_not_guessed() -> None:
    message = encode_message(put_entry(1))

    with pytest.raises(NewerVersionError, match="aaaaaaaaaaaaaaaa"):
        decode_message(message[:2] + b"\xaa" * 8 + message[10:])


def test_bytes_that_are_no_entry_are_refused() -> None:
    body = encode_entry(put_entry(1))

    for wrong in (b"", body[:-1], body + b"\0", b"\xff" * 40):
        with pytest.raises(ValueError, match="entry"):
            decode_entry(wrong)
    with pytest.raises(ValueError, match="single-object"):
        decode_message(body)


@pytest.mark.parametrize(
    ("primitive", "expected"),
    [("null", 7195948357588979594), ("int", 8247732601305521295), ("string", -8142146995180207161)],
)
def test_a_fingerprint_matches_the_avro_specification(primitive: str, expected: int) -> None:
    """The numbers are those of Avro's own share/test/data/schema-tests.txt; on the wire they are little-endian."""
    assert expected.to_bytes(8, "little", signed=True) == fingerprint_of(primitive)


def test_every_schema_file_is_named_for_its_fingerprint() -> None:
    """A released schema that is changed no longer has its name: this is the test that stops it."""
    assert schema_files()
    for known in schema_files():
        assert known == fingerprint_of(schema(known))


def test_the_canonical_form_is_fastavros() -> None:
    for known in schema_files():
        assert to_parsing_canonical_form(schema(known)) == canonical(schema(known))


def test_an_entry_of_an_older_schema_is_read_by_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that a later schema added gets its default; the commands may have another order."""
    older = json.loads(json.dumps(schema(CURRENT)))
    commands = older["fields"][4]["type"]["items"]
    put = next(command for command in commands if command["name"] == "Put")
    put["fields"] = [field for field in put["fields"] if field["name"] != "show_refused"]
    commands[-1], commands[-2] = commands[-2], commands[-1]
    known = fingerprint_of(older)
    monkeypatch.setitem(schema_files(), known, tmp_path / "older.avsc")
    (tmp_path / "older.avsc").write_text(json.dumps(older))
    fields = fields_of(put_entry(5))
    del fields["commands"][0][1]["show_refused"]
    out = BytesIO()
    schemaless_writer(out, parse_schema(older), fields)

    assert put_entry(5) == decode_entry(out.getvalue(), known)


@pytest.mark.parametrize("known", [*schema_files()][:-1], ids=lambda known: schema_files()[known].stem)
def test_an_older_schema_is_decoded_by_hand(known: bytes) -> None:
    """So an older log is read as fast as a new one. fastavro, which resolves schemas, reads the same."""
    branches = [branch["name"] for branch in schema(known)["fields"][3]["type"]["items"]]
    commands = [each for each in one_of_each()[0].commands if type(each).__name__ in branches]
    commands = [each for each in commands if not isinstance(each, Relay) and in_schema_003(each)]
    entry = Entry(ORIGIN, 7, commands)
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema(known)), first_fields_of(entry))

    assert out.getvalue() == binary.encode_first(entry)
    assert entry == decode_resolved(out.getvalue(), known) == binary.decode_first(out.getvalue())
    assert entry == decode_entry(out.getvalue(), known)


def test_an_array_may_say_its_size_as_avro_allows() -> None:
    """With a minus sign before the count and the size after it: other writers do so, and readers can skip it."""
    body = encode_entry(put_entry(0))
    head, command = body[:19], body[20:-1]
    assert body == head + b"\x02" + command + b"\0"

    assert put_entry(0) == decode_entry(head + b"\x01" + long(len(command)) + command + b"\0")


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(noise: bytes) -> None:
    body = encode_entry(one_of_each()[0])
    for wrong in (noise, body[: len(noise) * 7] + noise, noise + body):
        for known in schema_files():
            with suppress(ValueError):
                decode_entry(wrong, known)
