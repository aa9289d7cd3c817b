"""Databases for benchmarks: their log is written directly, without a server.

A million items take minutes over a socket and seconds in the log.
"""

import os
import random
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from foldb.log.commands import Command, DefineTable, Entry, Expression, Put, Update, new_context
from foldb.log.kafka import KafkaLog
from foldb.log.local import LocalLog
from foldb.log.log import Appended, Log
from foldb.model.errors import LogError
from foldb.model.limits import MODERN
from foldb.model.values import check_item, dump
from foldb.server.clock import system_ms

from .peers import FOLDB, running
from .requests import TABLE, Client, item

# Commands per entry: about as many as with 128 connections.
_ENTRY_COMMANDS = 128
_UNDER_WAY = 64
FIRST_TABLE = 1
CONTEXT = new_context("0" * 52, None, "fake")


def write(folder: Path, commands: Iterable[Command], port: int, table: dict[str, Any] = TABLE) -> None:
    """Create a database with the benchmarks' table, and append commands to its log."""
    with running(FOLDB, port, folder) as server, Client(server.url) as client:
        client.call("CreateTable", table)
    append(folder, commands)


def append(folder: Path, commands: Iterable[Command], *, create: bool = False) -> None:
    """Append commands to the log of a database; `create` a log first."""
    log = LocalLog(
        folder / "data",
        clock=system_ms,
        deliver=lambda callback: callback(),
        random_bytes=os.urandom,
        on_fatal=_fail,
        fsync="never",
        create=create,
    )
    _append(log, commands)


def append_to_kafka(url: str, commands: Iterable[Command]) -> None:
    """Append commands to the log of a database in Kafka."""
    _append(
        KafkaLog(
            url, deliver=lambda callback: callback(), random_bytes=os.urandom, create=False, repeat=False
        ),
        commands,
    )


def _append(log: Log, commands: Iterable[Command]) -> None:
    """Append commands in large entries, and close the log."""
    origin, room = os.urandom(16), threading.Semaphore(_UNDER_WAY)

    def done(result: Appended | LogError) -> None:
        room.release()
        if isinstance(result, LogError):
            _fail(result)

    for number, group in enumerate(_groups(commands)):
        room.acquire()
        log.append(0, Entry(origin, number, group), done)
    for _ in range(_UNDER_WAY):  # the last entries are acknowledged
        room.acquire()
    log.close()


def puts(keys: Iterable[tuple[str, str]]) -> Iterator[Put]:
    """Yield a put of an item for each key."""
    for pk, sk in keys:
        value = item(pk, sk)
        size = check_item(value, MODERN)
        yield Put(FIRST_TABLE, pk.encode(), sk.encode(), dump(value), size, CONTEXT)


def updates(keys: Iterable[tuple[str, str]]) -> Iterator[Update]:
    """Yield the conditional update of load.lua for each key."""
    expression = Expression(
        condition="attribute_not_exists(locked)",
        update="SET qty = if_not_exists(qty, :z) + :o, #s = :s",
        names={"#s": "status"},
        values={":z": {"N": "0"}, ":o": {"N": "1"}, ":s": {"S": "PAID"}},
    )
    for pk, sk in keys:
        yield Update(FIRST_TABLE, pk.encode(), sk.encode(), CONTEXT, expression)


def table(*indexes: dict[str, Any]) -> DefineTable:
    """Return the command that creates the benchmarks' table, with global indexes."""
    request: dict[str, Any] = {**TABLE}
    if indexes:
        attributes = [*request["AttributeDefinitions"], {"AttributeName": "status", "AttributeType": "S"}]
        request |= {"GlobalSecondaryIndexes": list(indexes), "AttributeDefinitions": attributes}
    return DefineTable("CreateTable", 0, orjson.dumps(request), "0" * 36, CONTEXT)


def changing_puts(keys: Iterable[tuple[str, str]], dice: random.Random) -> Iterator[Put]:
    """Yield puts of items of 200 bytes, half of them random."""
    for pk, sk in keys:
        value = {**item(pk, sk), "note": {"S": dice.randbytes(50).hex()}}
        size = check_item(value, MODERN)
        yield Put(FIRST_TABLE, pk.encode(), sk.encode(), dump(value), size, CONTEXT)


def _groups(commands: Iterable[Command]) -> Iterator[list[Command]]:
    rest = iter(commands)
    while group := list(islice(rest, _ENTRY_COMMANDS)):
        yield group


def _fail(error: BaseException) -> None:
    raise SystemExit(f"benchmarks: the log could not be written: {error}")
