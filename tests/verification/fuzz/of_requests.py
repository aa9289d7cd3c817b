"""A request's body through dispatch, to its answer, in a database that has one table with two indexes and a stream.

What is asked of subscriptions needs a loop that runs tasks, which this database has not;
tests/verification/hostile asks for it.
"""

import json
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

from foldb import server
from foldb.model import service
from foldb.model.errors import RequestError
from foldb.server.api.admin import ADMIN
from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS
from tests.verification.fuzz.inside import Inside, Untouched
from tests.verification.fuzz.target import Target
from tests.verification.hostile.judge import check, documented
from tests.verification.hostile.samples import ADMIN_API, CREATE, ITEM, ON_TABLE, SAMPLES, STREAMS_API, Told

NAMES = [
    *(name for name in OPERATIONS if "Kinesis" not in name),
    *(STREAMS_API + name for name in STREAMS),
    *(
        ADMIN_API + name
        for name in ADMIN
        if not name.endswith(("Subscription", "Letters", "WaitForTriggers"))
    ),
]
ALLOWED = documented()


def world() -> Inside:
    """A database with the table and an item in it."""
    for module in walk_packages(server.__path__, f"{server.__name__}."):
        import_module(module.name)  # at its first use, whose steps are not those of a request
    for name in service.OPERATIONS - service.ABSENT:
        with suppress(RequestError):  # compiles the checks, whose steps are not those of a request
            service.validate(name, {})
    inside = Inside()
    assert inside.ask("CreateTable", CREATE)[0] == 200
    assert inside.ask("PutItem", {**ON_TABLE, "Item": ITEM})[0] == 200
    return inside


def seeds() -> list[bytes]:
    """The samples. Their names are the same in each database, because no name is random."""
    inside = world()
    reported = Told(lambda operation, body: inside.ask(operation, body)[1])
    return [
        bytes([NAMES.index(name)]) + reported.fill(json.dumps(body).encode())
        for name, body in SAMPLES
        if name in NAMES
    ]


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
        seeds(),
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
