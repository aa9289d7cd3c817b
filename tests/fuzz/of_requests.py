"""A request's body through dispatch, to its answer, in a database that has one table with two indexes."""

import json

from foldb.server.admin import ADMIN
from foldb.server.operations import OPERATIONS
from tests.hostile.judge import check, documented
from tests.hostile.samples import CREATE, ITEM, ON_TABLE, SAMPLES

from .inside import Inside, Untouched
from .target import Target

NAMES = [*OPERATIONS, *(f"Foldb_20261121.{name}" for name in ADMIN)]
ALLOWED = documented()


def world() -> Inside:
    """A database with the table and an item in it."""
    inside = Inside()
    assert inside.ask("CreateTable", CREATE)[0] == 200
    assert inside.ask("PutItem", {**ON_TABLE, "Item": ITEM})[0] == 200
    return inside


def judge_request(data: bytes, inside: Inside) -> None:
    """The first byte chooses the operation; the rest is the body."""
    operation = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
    status, answer = inside.ask(operation, data[1:])
    check(operation, status, answer, ALLOWED)
    inside.loop.advance(1)


TARGETS = (
    Target(
        "requests",
        judge_request,
        [bytes([NAMES.index(name)]) + json.dumps(body).encode() for name, body in SAMPLES if name in NAMES],
        (
            *(
                '{"S":"a"}',
                '{"N":"1"}',
                '{"B":"AQ=="}',
                '{"L":[',
                '{"M":{',
                '{"SS":["a"]}',
                '"AttributeName":',
            ),
            *(
                '"IndexName":"lsi"',
                '"IndexName":"gsi"',
                '"TableName":"abc"',
                '"Key":{',
                '"Item":{',
                "null",
                "[]",
            ),
            *(
                '"ConditionExpression":"',
                '"FilterExpression":"',
                '"ProjectionExpression":"',
                "{}",
                "true",
                "-1",
            ),
            *('"ExpressionAttributeValues":{":v":', '"ExpressionAttributeNames":{"#b":', '"Select":"COUNT"'),
        ),
        steps=(40_000, 200),
        bytes_max=2048,
        world=Untouched(world),
    ),
)
