"""Entries survive the log exactly, and a log outlives the version that wrote it."""

import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import orjson
import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st

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
    message_head,
    schema,
    schema_files,
)
from foldb.log.commands import (
    Command,
    Commit,
    Context,
    DefineSubscription,
    Entry,
    Expression,
    Message,
    Put,
    Relay,
)
from foldb.model.errors import NewerVersionError
from foldb.model.values import Value
from tests.unit.log.samples import ORIGIN, entries, fields_of, messages, one_of_each, put_entry


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
    expression = Expression("attribute_exists(a)", plan=object())  # type: ignore[arg-type]
    put = Put(1, b"a", b"", b"{}", 2, Context("r"), expression, parsed={"a": {"S": "x"}})

    [back] = decode_entry(encode_entry(Entry(ORIGIN, 0, [put]))).commands

    assert put == back
    assert isinstance(back, Put)
    assert back.parsed is None
    assert back.expression is not None
    assert back.expression.plan is None


def test_values_travel_in_canonical_order() -> None:
    """Equal requests have equal bytes, in any order of their values."""
    values: dict[str, Value] = {":b": {"S": "2"}, ":a": {"M": {"y": {"N": "1"}, "x": {"N": "2"}}}}
    put = Put(1, b"a", b"", b"{}", 2, Context("r"), Expression("c", None, None, values))

    body = encode_entry(Entry(ORIGIN, 0, [put]))

    assert orjson.dumps(values, option=orjson.OPT_SORT_KEYS) in body


def test_a_message_names_the_previous_schema_if_possible() -> None:
    """The release before can read it, as long as it holds no new command."""
    before = [*schema_files()][-2]
    new: list[Command] = [
        DefineSubscription("Remove", "s", b"{}", "", Context("r")),
        Relay(1, 2, 3, 4, 5, Commit(1, 2, 3, None)),
    ]

    assert b"\xc3\x01" + before + encode_entry(put_entry(1)) == encode_message(put_entry(1))
    assert put_entry(1) == decode_message(encode_message(put_entry(1)))
    for command in new:
        entry = Entry(ORIGIN, 0, [command, *put_entry(1).commands])
        assert b"\xc3\x01" + CURRENT + encode_entry(entry) == encode_message(entry)


def test_new_records_are_those_missing_in_the_previous_schema() -> None:
    before = json.dumps(schema([*schema_files()][-2]))
    entry = one_of_each()[0]
    kinds = [Entry(ORIGIN, 0, [command]) for command in entry.commands]

    for each in kinds:
        kind = type(getattr(each.commands[0], "message", each.commands[0])).__name__
        assert (f'"name": "{kind}"' in before) == (message_head(each)[2:] != CURRENT)


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
    commands = older["fields"][3]["type"]["items"]
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


@pytest.mark.parametrize("known", [*schema_files()], ids=lambda known: schema_files()[known].stem)
def test_an_older_schema_has_the_same_bytes(known: bytes) -> None:
    """So an older log is read by hand, as fast as a new one. fastavro, which resolves schemas, says the same."""
    branches = [branch["name"] for branch in schema(known)["fields"][3]["type"]["items"]]
    commands = [each for each in one_of_each()[0].commands if type(each).__name__ in branches]
    if known != CURRENT:
        commands = [each for each in commands if not isinstance(each, Relay)]
    entry = Entry(ORIGIN, 7, commands)
    out = BytesIO()
    schemaless_writer(out, parse_schema(schema(known)), fields_of(entry))

    assert out.getvalue() == encode_entry(entry)
    assert entry == decode_resolved(out.getvalue(), known) == decode_entry(out.getvalue(), known)


def test_an_array_may_say_its_size_as_avro_allows() -> None:
    """With a minus sign before the count and the size after it: other writers do so, and readers can skip it."""
    body = encode_entry(put_entry(0))
    head, command = body[:18], body[19:-1]
    assert body == head + b"\x02" + command + b"\0"

    assert put_entry(0) == decode_entry(head + b"\x01" + long(len(command)) + command + b"\0")


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(noise: bytes) -> None:
    body = encode_entry(one_of_each()[0])
    for wrong in (noise, body[: len(noise) * 7] + noise, noise + body):
        with suppress(ValueError):
            decode_entry(wrong)
