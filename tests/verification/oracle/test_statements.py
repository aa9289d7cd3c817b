"""Statements and the same requests by the classic API have the same effect: answers, items, units and stream records.

Each step draws a request and writes it twice, as PartiQL and as requests with expressions, for two equal databases. A
value is a literal or a parameter by chance. FOLDB_SOAK=1 takes twenty thousand steps, `make test` a few hundred.
"""

import os
import random
import re
from typing import Any

import pytest

from tests.verification.fuzz.inside import Inside

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(20) if SOAK else range(1)
STEPS = 1000 if SOAK else 300

TABLE = {
    "TableName": "abc",
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": kind} for name, kind in (("p", "S"), ("q", "N"), ("g", "S"))
    ],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "q", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "gsi",
            "KeySchema": [
                {"AttributeName": "g", "KeyType": "HASH"},
                {"AttributeName": "q", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}
PARTITIONS = ["a", "b", "c'd"]
NAMES = ["n", "s", "ss", "ns", "l", "m", "zero", "value"]
COUNTED = {"ReturnConsumedCapacity": "INDEXES"}
EXISTING = {"ConditionalCheckFailedException": "DuplicateItemException"}

Value = dict[str, Any]


class Twin:
    """A request that is written as PartiQL and with expressions at once.

    Attributes:
        parameters: The parameters of the statement, in the order of its question marks.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.parameters: list[Value] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, Value] = {}

    def classic(self, **members: Any) -> dict[str, Any]:
        """The request, with the placeholders that its expressions use."""
        body: dict[str, Any] = {"TableName": "abc", **members}
        if self._names:
            body["ExpressionAttributeNames"] = self._names
        if self._values:
            body["ExpressionAttributeValues"] = self._values
        return body

    def literal(self, value: Value) -> str:
        """A value of a statement: a literal, or a parameter."""
        if "B" in value or self.dice.random() < 0.4:
            self.parameters.append(value)
            return "?"
        return literal(value)

    def value(self, value: Value) -> tuple[str, str]:
        name = f":v{len(self._values)}"
        self._values[name] = value
        return self.literal(value), name

    def path(self, name: str, *steps: str | int) -> tuple[str, str]:
        quoted = f'"{name}"' if name in ("value", "zero") or self.dice.random() < 0.3 else name
        self._names["#" + name] = name
        sql, classic = quoted, "#" + name
        for step in steps:
            if isinstance(step, int):
                sql, classic = f"{sql}[{step}]", f"{classic}[{step}]"
            else:
                self._names["#" + step] = step
                sql, classic = f"{sql}.{step}", f"{classic}.#{step}"
        return sql, classic

    def any_path(self) -> tuple[str, str]:
        steps: tuple[str | int, ...] = self.dice.choice(((), (), (), ("x",), (0,), ("x", 1)))
        return self.path(self.dice.choice(NAMES), *steps)

    def condition(self, depth: int = 2) -> tuple[str, str]:
        """A condition on attributes that are no keys."""
        kind = self.dice.randrange(9 if depth else 6)
        if kind >= 6:
            first, second = self.condition(depth - 1), self.condition(depth - 1)
            if kind == 8:
                return (
                    f"NOT ({first[0]} or {second[0]})",
                    f"NOT ({grouped(first[1])} OR {grouped(second[1])})",
                )
            word = "AND" if kind == 6 else "OR"
            return f"({first[0]} {word} {second[0]})", f"{grouped(first[1])} {word} {grouped(second[1])}"
        sql, classic = self.any_path()
        if kind == 0:
            operator = self.dice.choice(["=", "<>", "<", "<=", ">", ">="])
            value = self.value(scalar(self.dice) if operator not in ("=", "<>") else any_value(self.dice))
            return f"{sql} {operator} {value[0]}", f"{classic} {operator} {value[1]}"
        if kind == 1:
            low, high = sorted(self.dice.sample(range(10), 2))
            first, second = self.value({"N": str(low)}), self.value({"N": str(high)})
            return (
                f"{sql} BETWEEN {first[0]} AND {second[0]}",
                f"{classic} BETWEEN {first[1]} AND {second[1]}",
            )
        if kind == 2:
            values = [self.value(scalar(self.dice)) for _ in range(self.dice.randint(1, 4))]
            return (
                f"{sql} IN [{', '.join(each[0] for each in values)}]",
                f"{classic} IN ({', '.join(each[1] for each in values)})",
            )
        if kind == 3:
            value = self.value({"S": self.dice.choice(["", "a", "it's"])})
            return f"begins_with({sql}, {value[0]})", f"begins_with({classic}, {value[1]})"
        if kind == 4:
            value = self.value(scalar(self.dice))
            return f"CONTAINS({sql}, {value[0]})", f"contains({classic}, {value[1]})"
        return self.dice.choice(
            [
                (f"{sql} IS MISSING", f"attribute_not_exists({classic})"),
                (f"{sql} IS NOT MISSING", f"attribute_exists({classic})"),
                (f"attribute_exists({sql}) = false", f"NOT attribute_exists({classic})"),
            ]
        )


def literal(value: Value) -> str:
    """Write a value as PartiQL."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return "'" + str(content).replace("'", "''") + "'"
        case "N":
            return str(content)
        case "BOOL":
            return str(content).lower()
        case "NULL":
            return "null"
        case "L":
            return f"[{', '.join(map(literal, content))}]"
        case "M":
            return "{" + ", ".join(f"'{name}': {literal(each)}" for name, each in content.items()) + "}"
        case "SS":
            return f"<<{', '.join(literal({'S': each}) for each in content)}>>"
    return f"<<{', '.join(content)}>>"


def scalar(dice: random.Random) -> Value:
    return dice.choice(
        [
            {"N": str(dice.randrange(10))},
            {"S": dice.choice(["a", "ab", "it's"])},
            {"B": "AQ=="},
            {"N": "1.5E2"},
        ]
    )


def any_value(dice: random.Random) -> Value:
    return dice.choice(
        [
            scalar(dice),
            {"BOOL": dice.random() < 0.5},
            {"NULL": True},
            {"SS": ["a", "b"]},
            {"NS": ["1", "22"]},
            {"L": [{"N": "1"}, {"M": {"x": {"S": "a"}}}]},
            {"M": {"x": {"L": [{"N": "7"}, {"N": "8"}]}, "y": {"M": {}}}},
        ]
    )


def any_key(dice: random.Random) -> dict[str, Value]:
    return {"p": {"S": dice.choice(PARTITIONS)}, "q": {"N": str(dice.randrange(12))}}


class Pair:
    """Two equal databases."""

    def __init__(self) -> None:
        self.statements, self.classic = Inside(), Inside()
        for each in (self.statements, self.classic):
            assert each.ask("CreateTable", TABLE)[0] == 200

    def compare(self) -> None:
        """Compare all items and all stream records."""
        assert _state(self.classic) == _state(self.statements)

    def close(self) -> None:
        self.statements.close()
        self.classic.close()


def _state(inside: Inside) -> Any:
    items = inside.ask("Scan", {"TableName": "abc"})[1]["Items"]
    arn = inside.ask("DescribeTable", {"TableName": "abc"})[1]["Table"]["LatestStreamArn"]
    streams = "DynamoDBStreams_20120810."
    shards = inside.ask(streams + "DescribeStream", {"StreamArn": arn})[1]["StreamDescription"]["Shards"]
    records: list[Any] = []
    for shard in shards:
        place = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = inside.ask(streams + "GetShardIterator", place)[1]["ShardIterator"]
        while iterator is not None:
            page = inside.ask(streams + "GetRecords", {"ShardIterator": iterator})[1]
            records += page["Records"]
            iterator = page.get("NextShardIterator") if page["Records"] else None
    changes = [
        (
            each["eventName"],
            {
                name: value
                for name, value in each["dynamodb"].items()
                if name not in ("SequenceNumber", "ApproximateCreationDateTime")
            },
        )
        for each in records
    ]
    return items, changes


def error_of(answer: tuple[int, Any]) -> tuple[str, str]:
    """The name of an error, and its text as a statement has it."""
    assert answer[0] == 400, answer
    body = answer[1]
    text = body.get("message", body.get("Message"))
    return body["__type"].rpartition("#")[2], re.sub(
        r"^Invalid \w+Expression: |^1 validation .*?: ", "", text
    )


def execute(pair: Pair, statement: str, twin: Twin, **members: Any) -> tuple[int, Any]:
    body = {"Statement": statement, **COUNTED, **members}
    if twin.parameters:
        body["Parameters"] = twin.parameters
    return pair.statements.ask("ExecuteStatement", body)


def check_read(pair: Pair, statement: str, twin: Twin, operation: str, body: dict[str, Any]) -> None:
    """Compare a SELECT with all pages of a Query or Scan."""
    limit = {"Limit": twin.dice.randint(1, 4)} if twin.dice.random() < 0.5 else {}
    token: dict[str, Any] = {}
    start: dict[str, Any] = {}
    while True:
        found = execute(pair, statement, twin, **limit, **token)
        wanted = pair.classic.ask(operation, {**body, **COUNTED, **limit, **start})
        if wanted[0] != 200:
            assert error_of(wanted) == error_of(found), statement
            return
        assert found[0] == 200, (statement, found)
        for name in ("Items", "LastEvaluatedKey", "ConsumedCapacity"):
            assert wanted[1].get(name) == found[1].get(name), (statement, name)
        if "LastEvaluatedKey" not in wanted[1]:
            assert "NextToken" not in found[1]
            return
        start = {"ExclusiveStartKey": wanted[1]["LastEvaluatedKey"]}
        token = {"NextToken": found[1]["NextToken"]}


def select_item(pair: Pair, dice: random.Random) -> None:
    twin, key = Twin(dice), any_key(dice)
    column = twin.any_path() if dice.random() < 0.5 else None
    chosen = "*" if column is None or "." in column[0] or "[" in column[0] else column[0]
    where = " AND ".join(f"{name} = {twin.literal(value)}" for name, value in key.items())
    consistent = {"ConsistentRead": True} if dice.random() < 0.3 else {}
    found = execute(pair, f"SELECT {chosen} FROM abc WHERE {where}", twin, **consistent)
    members = {} if chosen == "*" else {"ProjectionExpression": chosen.strip('"').join(("#", ""))}
    names = (
        {} if chosen == "*" else {"ExpressionAttributeNames": {"#" + chosen.strip('"'): chosen.strip('"')}}
    )
    body = {"TableName": "abc", "Key": key, **members, **names, **consistent, **COUNTED}
    wanted = pair.classic.ask("GetItem", body)
    assert wanted[0] == found[0] == 200, found
    assert ([wanted[1]["Item"]] if "Item" in wanted[1] else []) == found[1]["Items"]
    assert wanted[1]["ConsumedCapacity"] == found[1]["ConsumedCapacity"]


def select_range(pair: Pair, dice: random.Random) -> None:
    twin = Twin(dice)
    is_index = dice.random() < 0.4
    name, values = ("g", ["x", "y"]) if is_index else ("p", PARTITIONS)
    hash_name, hash_value = twin.path(name), twin.value({"S": dice.choice(values)})
    where, key = f"{hash_name[0]} = {hash_value[0]}", f"{hash_name[1]} = {hash_value[1]}"
    if dice.random() < 0.6:
        sort, low = twin.path("q"), dice.randrange(8)
        if dice.random() < 0.3:
            first, second = twin.value({"N": str(low)}), twin.value({"N": str(low + 3)})
            where += f" AND {sort[0]} BETWEEN {first[0]} AND {second[0]}"
            key += f" AND {sort[1]} BETWEEN {first[1]} AND {second[1]}"
        else:
            operator, bound = dice.choice(["=", "<", "<=", ">", ">="]), twin.value({"N": str(low)})
            where += f" AND {sort[0]} {operator} {bound[0]}"
            key += f" AND {sort[1]} {operator} {bound[1]}"
    members: dict[str, Any] = {"KeyConditionExpression": key}
    is_item = not is_index and " = " in where[6:]
    condition = twin.condition() if is_item or dice.random() < 0.6 else None
    if condition is not None:
        where += f" AND {condition[0]}"
        members["FilterExpression"] = condition[1]
    if is_index:
        members["IndexName"] = "gsi"
    if dice.random() < 0.3:
        where += " ORDER BY q DESC"
        members["ScanIndexForward"] = False
    source = "abc.gsi" if is_index else '"abc"'
    check_read(pair, f"SELECT * FROM {source} WHERE {where}", twin, "Query", twin.classic(**members))


def select_scan(pair: Pair, dice: random.Random) -> None:
    twin = Twin(dice)
    source = dice.choice(["abc", "abc.gsi"])
    condition = twin.condition()
    members = {"FilterExpression": condition[1]}
    if source != "abc":
        members["IndexName"] = "gsi"
    check_read(pair, f"SELECT * FROM {source} WHERE {condition[0]}", twin, "Scan", twin.classic(**members))


def select_several(pair: Pair, dice: random.Random) -> None:
    twin = Twin(dice)
    keys = dice.sample(PARTITIONS, dice.randint(2, 3))
    values = [twin.literal({"S": key}) for key in keys]
    low = str(dice.randrange(10))
    statement = f"SELECT * FROM abc WHERE p IN ({', '.join(values)}) AND q >= {twin.literal({'N': low})}"
    found = execute(pair, statement, twin)
    items: list[Any] = []
    units = 0.0
    for key in sorted(keys):
        body = {
            "TableName": "abc",
            "KeyConditionExpression": "p = :p AND q >= :q",
            "ExpressionAttributeValues": {":p": {"S": key}, ":q": {"N": low}},
            **COUNTED,
        }
        page = pair.classic.ask("Query", body)[1]
        items += page["Items"]
        units += page["ConsumedCapacity"]["CapacityUnits"]
    assert (items, units) == (found[1]["Items"], found[1]["ConsumedCapacity"]["CapacityUnits"])


def grouped(condition: str) -> str:
    """Put a condition of several terms in parentheses; the classic expressions refuse redundant ones."""
    outside = re.sub(r"BETWEEN :\w+ AND :\w+", "BETWEEN", condition)
    while "(" in outside:
        outside = re.sub(r"\([^()]*\)", "", outside)
    return f"({condition})" if re.search(r" (AND|OR) ", outside) else condition


def any_item(dice: random.Random, key: dict[str, Value]) -> dict[str, Value]:
    item = {**key, "g": {"S": dice.choice("xy")}} if dice.random() < 0.7 else dict(key)
    return item | {name: any_value(dice) for name in dice.sample(NAMES, dice.randint(0, 5))}


Written = tuple[str, Twin, str, dict[str, Any]]


def insert(dice: random.Random, key: dict[str, Value]) -> Written:
    twin = Twin(dice)
    item = any_item(dice, key)
    members = ", ".join(f"'{name}': {twin.literal(value)}" for name, value in item.items())
    body = {"TableName": "abc", "Item": item, "ConditionExpression": "attribute_not_exists(p)"}
    return f"INSERT INTO abc VALUE {{{members}}}", twin, "PutItem", body


def update(dice: random.Random, key: dict[str, Value]) -> Written:
    twin = Twin(dice)
    sections: dict[str, list[str]] = {"SET": [], "REMOVE": [], "ADD": [], "DELETE": []}
    changes: list[str] = []
    for name in dice.sample(NAMES, dice.randint(1, 3)):
        path = twin.path(name) if dice.random() < 0.8 else twin.path(name, "x")
        kind = dice.randrange(6)
        if kind == 0:
            changes.append(f"REMOVE {path[0]}")
            sections["REMOVE"].append(path[1])
        elif kind == 1:
            value = twin.value({"N": str(dice.randrange(9))})
            sign = dice.choice("+-")
            changes.append(f"SET {path[0]} = {path[0]} {sign} {value[0]}")
            sections["SET"].append(f"{path[1]} = {path[1]} {sign} {value[1]}")
        elif kind == 2:
            value = twin.value({"L": [{"N": "1"}]})
            changes.append(f"SET {path[0]} = list_append({path[0]}, {value[0]})")
            sections["SET"].append(f"{path[1]} = list_append({path[1]}, {value[1]})")
        elif kind == 3:
            value = twin.value(dice.choice([{"SS": ["a", "z"]}, {"NS": ["1", "5"]}]))
            word, function = dice.choice([("ADD", "set_add"), ("DELETE", "set_delete")])
            changes.append(f"SET {path[0]} = {function}({path[0]}, {value[0]})")
            sections[word].append(f"{path[1]} {value[1]}")
        else:
            value = twin.value(any_value(dice))
            changes.append(f"SET {path[0]} = {value[0]}")
            sections["SET"].append(f"{path[1]} = {value[1]}")
    where = " AND ".join(f"{name} = {twin.literal(value)}" for name, value in key.items())
    condition = "attribute_exists(p)"
    if dice.random() < 0.5:
        sql, classic = twin.condition(1)
        where += f" AND {sql}"
        condition += f" AND {grouped(classic)}"
    members: dict[str, Any] = {
        "Key": key,
        "UpdateExpression": " ".join(f"{word} {', '.join(each)}" for word, each in sections.items() if each),
        "ConditionExpression": condition,
    }
    statement = f"UPDATE abc {' '.join(changes)} WHERE {where}"
    return statement, twin, "UpdateItem", twin.classic(**members)


def delete(dice: random.Random, key: dict[str, Value]) -> Written:
    twin = Twin(dice)
    where = " AND ".join(f"{name} = {twin.literal(value)}" for name, value in key.items())
    members: dict[str, Any] = {"Key": key}
    if dice.random() < 0.5:
        sql, classic = twin.condition(1)
        where += f" AND {sql}"
        members["ConditionExpression"] = f"attribute_not_exists(p) OR {grouped(classic)}"
    return f"DELETE FROM abc WHERE {where}", twin, "DeleteItem", twin.classic(**members)


def any_write(dice: random.Random, key: dict[str, Value]) -> Written:
    return dice.choice([insert, insert, update, update, delete])(dice, key)


RETURNING = {
    "ALL OLD": "ALL_OLD",
    "ALL NEW": "ALL_NEW",
    "MODIFIED OLD": "UPDATED_OLD",
    "MODIFIED NEW": "UPDATED_NEW",
}


def write(pair: Pair, dice: random.Random) -> None:
    statement, twin, operation, body = any_write(dice, any_key(dice))
    returning = None
    if operation == "UpdateItem" and dice.random() < 0.5:
        returning = dice.choice(list(RETURNING))
    elif operation == "DeleteItem" and dice.random() < 0.5:
        returning = "ALL OLD"
    if returning is not None:
        statement += f" RETURNING {returning} *"
        body = {**body, "ReturnValues": RETURNING[returning]}
    found = execute(pair, statement, twin)
    wanted = pair.classic.ask(operation, {**body, **COUNTED})
    if wanted[0] != 200:
        name, text = error_of(wanted)
        if operation == "PutItem" and name in EXISTING:
            name, text = EXISTING[name], "Duplicate primary key exists in table"
        assert (name, text) == error_of(found), statement
        return
    assert found[0] == 200, (statement, found)
    attributes = wanted[1].get("Attributes")
    assert ([attributes] if attributes else []) == found[1]["Items"], statement
    assert wanted[1]["ConsumedCapacity"] == found[1]["ConsumedCapacity"], statement


def several_keys(dice: random.Random) -> list[dict[str, Value]]:
    keys = [any_key(dice) for _ in range(dice.randint(1, 5))]
    return list({(key["p"]["S"], key["q"]["N"]): key for key in keys}.values())


def member(statement: str, twin: Twin) -> dict[str, Any]:
    return {"Statement": statement, **({"Parameters": twin.parameters} if twin.parameters else {})}


def batch(pair: Pair, dice: random.Random) -> None:
    writes = [any_write(dice, key) for key in several_keys(dice)]
    sent = [member(statement, twin) for statement, twin, _, _ in writes]
    found = pair.statements.ask("BatchExecuteStatement", {"Statements": sent, **COUNTED})
    answers = [pair.classic.ask(operation, {**body, **COUNTED}) for _, _, operation, body in writes]
    assert [status == 200 for status, _ in answers] == ["Error" not in each for each in found[1]["Responses"]]
    assert [body["ConsumedCapacity"] for status, body in answers if status == 200] == found[1].get(
        "ConsumedCapacity", []
    )


KINDS = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}


def transact(pair: Pair, dice: random.Random) -> None:
    writes = [any_write(dice, key) for key in several_keys(dice)]
    sent = [member(statement, twin) for statement, twin, _, _ in writes]
    found = pair.statements.ask("ExecuteTransaction", {"TransactStatements": sent, **COUNTED})
    items = [{KINDS[operation]: body} for _, _, operation, body in writes]
    wanted = pair.classic.ask("TransactWriteItems", {"TransactItems": items, **COUNTED})
    assert wanted[0] == found[0], (sent, found, wanted)
    if wanted[0] == 200:
        assert wanted[1]["ConsumedCapacity"] == found[1]["ConsumedCapacity"]
    elif "CancellationReasons" in wanted[1]:
        codes = [
            "DuplicateItem" if operation == "PutItem" and code == "ConditionalCheckFailed" else code
            for (_, _, operation, _), code in zip(
                writes, (each["Code"] for each in wanted[1]["CancellationReasons"]), strict=True
            )
        ]
        assert codes == [each["Code"] for each in found[1]["CancellationReasons"]]


def transact_reads(pair: Pair, dice: random.Random) -> None:
    keys = several_keys(dice)
    sent = [
        {"Statement": "SELECT * FROM abc WHERE p = ? AND q = ?", "Parameters": list(key.values())}
        for key in keys
    ]
    found = pair.statements.ask("ExecuteTransaction", {"TransactStatements": sent, **COUNTED})
    gets = [{"Get": {"TableName": "abc", "Key": key}} for key in keys]
    assert pair.classic.ask("TransactGetItems", {"TransactItems": gets, **COUNTED}) == found


STEP_KINDS = (
    *([write] * 6),
    *(select_item, select_range, select_range, select_scan, select_several),
    *(batch, transact, transact_reads),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_statements_do_what_the_classic_requests_do(seed: int) -> None:
    dice, pair = random.Random(f"statements {seed}"), Pair()
    for _ in range(STEPS):
        dice.choice(STEP_KINDS)(pair, dice)

    pair.compare()
    pair.close()
