"""A log of all kinds of commands, from a seed; as a program it folds one and prints the digests.

    python -m tests.unit.materializer.random_log FILE

FILE holds entries, each behind its length in four bytes. The output is the digest of the state and a hash of all
changes; and both again from a state that was dumped and loaded several times. Two processes with the same output
folded the same, byte for byte.
"""

import hashlib
import random
import sys
from dataclasses import replace
from pathlib import Path

from foldb.log.codec import decode_entry, encode_entry
from foldb.log.commands import (
    Backfill,
    Checkpoint,
    Command,
    Delete,
    Expire,
    Expression,
    Load,
    LoadedItem,
    Put,
    Record,
    RestoreProgress,
    Transact,
    new_context,
)
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.fold.writes import item_digest
from foldb.model.values import Item, Value
from foldb.model.values import dump as dump_item
from foldb.streams.changes import changes
from tests.unit.materializer.ledger import (
    Ledger,
    about,
    define,
    delete,
    index_request,
    put,
    subscribe,
    table_request,
    update,
)
from tests.unit.materializer.splitting import random_split

_INDEXES = {
    "LocalSecondaryIndexes": [index_request("by-n", "pk", "n", projection="KEYS_ONLY")],
    "GlobalSecondaryIndexes": [index_request("by-s", "s", "n")],
}


def random_log(seed: int, length: int) -> Ledger:
    """Return a ledger with `length` entries of random commands on a table with both kinds of index."""
    dice = random.Random(seed)
    ledger = Ledger()
    table = ledger.create("T", "pk:S sk:N", **_INDEXES)
    bare = ledger.create("Bare")
    ledger.fold(
        define(
            "UpdateTimeToLive",
            bare.definition.id,
            {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "exp"}},
        )
    )
    for _ in range(length):
        ledger.now += dice.randrange(-500, 2000)
        ledger.fold(*(_command(dice, ledger, table, bare) for _ in range(dice.randrange(1, 5))))
        if dice.random() < 0.1:
            _fold_again(ledger)
    return ledger


def _fold_again(ledger: Ledger) -> None:
    last = ledger.records[-1]
    again = Record(0, ledger.state.next_offset, ledger.now, last.entry)
    ledger.records.append(again)
    fold(ledger.state, again)


def _command(dice: random.Random, ledger: Ledger, table: Table, bare: Table) -> Command:
    key: Item = {"pk": {"S": dice.choice("abcé")}, "sk": {"N": str(dice.randrange(-3, 4))}}
    alone: Item = {"pk": {"S": str(dice.randrange(8))}}
    match dice.randrange(14):
        case 0 | 1 | 2:
            return put(table, {**key, **_body(dice)}, when=_condition(dice))
        case 11:
            return _about_the_past(dice, ledger, bare)
        case 12:
            reasoned = new_context("U", source="undo", reason=dice.choice(["wrong price", "é", ""]))
            item = bare.items.get(alone["pk"]["S"].encode(), b"")
            digest = dice.choice([item_digest(item), item_digest(item), "", "00"])
            command: Put | Delete = put(bare, alone) if dice.random() < 0.5 else delete(bare, alone)
            return replace(command, context=reasoned, expression=Expression(digest, dialect="digest"))
        case 3:
            return update(
                table,
                key,
                "SET s = :s, m = :m ADD c :n",
                {":s": _s(dice), ":m": _m(dice), ":n": {"N": "0.1"}},
            )
        case 4:
            return delete(table, key, when=_condition(dice))
        case 5:
            soon = str(ledger.state.log_time // 1000 + dice.randrange(5))
            return put(bare, {**alone, "exp": {"N": soon}})
        case 6:
            due = str(ledger.state.log_time // 1000 - dice.randrange(3))
            return Expire(
                bare.definition.id, alone["pk"]["S"].encode(), b"", due, new_context("T", source="ttl")
            )
        case 7:
            token = f"token{dice.randrange(20)}"
            return Transact(
                [put(table, {**key, **_body(dice)}), put(bare, dict(alone), when=_condition(dice))],
                new_context("R"),
                token,
                b"f",
            )
        case 8:
            return _about_the_feed(dice, ledger, dice.choice([table, bare]))
        case 9:
            one = dice.choice([*ledger.state.subscriptions.values(), None])
            number = ledger.state.next_offset * 10**8 + 10**26
            epoch = 0 if one is None else one.epoch
            return Checkpoint(1 if one is None else one.id, epoch, [(0, number)], "v", dice.randrange(9), 0)
        case 13:
            return random_split(dice, dice.choice([table, bare]).definition)
        case _:
            return Backfill(table.definition.id, table.definition.indexes[-1].id, 3, new_context("B"))


def _about_the_feed(dice: random.Random, ledger: Ledger, table: Table) -> Command:
    """Enable or disable a stream, or return a command about a subscription."""
    name = dice.choice("RS")
    match dice.randrange(6):
        case 0 | 1:
            view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
            specification = dice.choice([view, {"StreamEnabled": False}])
            request = {"TableName": table.definition.name, "StreamSpecification": specification}
            return define("UpdateTable", table.definition.id, {**request, "ShardAgeMs": 5000})
        case 2 | 3:
            return subscribe(name, table.definition.name, BatchSize=dice.randrange(1, 9))
        case 4:
            return about(name, "Reset", Start={"At": "HORIZON"})
        case _:
            return about(name, dice.choice(["Remove", "Pause", "Resume"]))


def _about_the_past(dice: random.Random, ledger: Ledger, bare: Table) -> Command:
    """Begin or continue a restore, or create or delete a backup."""
    names, context = ledger.state.names, new_context("H", source="restore", reason="drill")
    restored = names.get("Restored")
    match dice.randrange(8):
        case 0:
            counts = {"Items": bare.items.count, "Bytes": bare.items.size}
            return define("CreateBackup", bare.definition.id, {"BackupName": "b", "TimeMs": 0, **counts})
        case 1:
            return define("DeleteBackup", 0, {"BackupArn": dice.choice([*ledger.state.backups, "none"])})
        case 2 | 3 if restored is None:
            source = {"Id": bare.definition.id, "Name": "Bare", "Arn": bare.definition.arn}
            request = table_request("Restored", GlobalSecondaryIndexes=[index_request("by-s", "s")])
            origin = {"Restore": {"Source": source, "TimeMs": ledger.state.log_time}}
            return define(dice.choice(["ForkTable", "RestoreTableToPointInTime"]), 0, {**request, **origin})
        case 2:
            return define("DeleteTable", restored or 0, {"TableName": "Restored"})
        case 3 | 4:
            done = dice.random() < 0.4
            return RestoreProgress(restored or 0, b"" if done else dice.randbytes(3), done, context)
        case _:
            items = [{"pk": {"S": name}, **_body(dice)} for name in dice.sample("abcdef", 3)]
            loaded = [LoadedItem(item["pk"]["S"].encode(), b"", dump_item(item), 9) for item in items]
            return Load(restored or 0, loaded, context)


def _body(dice: random.Random) -> Item:
    body: Item = {
        "s": _s(dice),
        "n": _s(dice),
        "m": _m(dice),
        "set": {"SS": dice.sample(["x", "y", "z", "é"], 2)},
    }
    return {name: value for name, value in body.items() if dice.random() < 0.7}


def _s(dice: random.Random) -> Value:
    return {"S": dice.choice(["red", "blue", "grün", "z" * 50])}


def _m(dice: random.Random) -> Value:
    return {"M": {name: {"N": str(dice.randrange(100))} for name in dice.sample("pqrst", 3)}}


def _condition(dice: random.Random) -> str | None:
    return dice.choice([None, None, "attribute_exists(s)", "attribute_not_exists(pk) OR size(s) > pk"])


def write(records: list[Record], path: Path) -> None:
    """Write the entries of `records` and their log times."""
    with path.open("wb") as file:
        for record in records:
            body = encode_entry(record.entry)
            file.write(record.time.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body)


def read(path: Path) -> list[Record]:
    data, place = path.read_bytes(), 0
    records: list[Record] = []
    while place < len(data):
        time = int.from_bytes(data[place : place + 8], "big")
        size = int.from_bytes(data[place + 8 : place + 12], "big")
        place += 12 + size
        records.append(Record(0, len(records), time, decode_entry(data[place - size : place])))
    return records


def fold_all(records: list[Record], reloads: int = 0) -> tuple[str, str]:
    """Return the digest of the state, and the hash of all changes, after folding `records` into an empty state.

    With `reloads`, the state is dumped and loaded before that many of the records.
    """
    state, feed = PartitionState(), hashlib.blake2b()
    every = len(records) // (reloads + 1)
    for number, record in enumerate(records):
        if reloads and number and number % every == 0:
            state = load(dump(state))
        for change in changes(fold(state, record)):
            feed.update(repr(change).encode())
    return digest(state), feed.hexdigest()


if __name__ == "__main__":
    logged = read(Path(sys.argv[1]))
    sys.stdout.write("\n".join(fold_all(logged) + fold_all(logged, reloads=3)))
