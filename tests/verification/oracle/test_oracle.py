"""boto3 against a served database and against the model: every step answers the same in both.

A failing run prints the steps that lead to it, shortened. `make soak` runs many more.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import boto3
import hypothesis.strategies as st
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import foldb
from foldb.cli.lib.client import Client
from tests.support.positions import Positions
from tests.support.tables import table_request
from tests.verification.oracle.language import (
    Add,
    Append,
    Begins,
    Both,
    Compare,
    Condition,
    ConditionFailedError,
    Contains,
    DeleteElements,
    Exists,
    InvalidError,
    Not,
    PlainItem,
    Remove,
    Set,
    SetIfNotExists,
    SetSum,
    Step,
    Text,
    order,
    write_update,
)
from tests.verification.oracle.oracle import CancelledError, Model, transact

T = TypeVar("T")

SOAK = bool(os.environ.get("FOLDB_SOAK"))
EXAMPLES, STEPS = (400, 100) if SOAK else (16, 50)
pytestmark = [pytest.mark.soak] if SOAK else []

texts = st.sampled_from(["", "a", "aa", "A", "b", "é", "z" * 40])
numbers = st.sampled_from(
    [Decimal(n) for n in ("0", "1", "-1", "2.5", "10", "1000000000000000000001", "-0.001")]
)
binaries = st.sampled_from([b"", b"\x00", b"\xff\x01"])
scalars = st.one_of(texts, numbers, binaries, st.booleans(), st.none())
sets = st.one_of(
    st.sets(texts.filter(bool), min_size=1, max_size=3), st.sets(numbers, min_size=1, max_size=3)
)
values = st.one_of(
    scalars,
    sets,
    st.lists(scalars, max_size=3),
    st.dictionaries(st.sampled_from(["x", "y"]), scalars, max_size=2),
)
ATTRIBUTES = ["a", "b", "n", "s", "g", "l"]
attributes = st.sampled_from(ATTRIBUTES)
partitions = st.sampled_from(["p", "q", "r"])
sorts = st.sampled_from([Decimal(n) for n in ("-2", "0", "0.5", "3", "30")])
comparators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])

leaves = st.one_of(
    st.builds(Exists, attributes, st.booleans()),
    st.builds(Compare, attributes, comparators, st.one_of(texts, numbers, binaries)),
    st.builds(Compare, attributes, st.sampled_from(["=", "<>"]), values),
    st.builds(Contains, attributes, st.one_of(texts, numbers)),
    st.builds(Begins, attributes, texts),
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Both, inner, inner, st.sampled_from(["AND", "OR"])), st.builds(Not, inner)
    ),
    max_leaves=4,
)
maybe_condition = st.one_of(st.none(), conditions)

# Most items have valid index keys; a few do not.
fitting: dict[str, st.SearchStrategy[Any]] = {"g": st.sampled_from(["red", "blue"]), "l": numbers}


@st.composite
def bodies(draw: st.DrawFn) -> PlainItem:
    """The attributes of an item other than its key."""
    body: PlainItem = draw(st.dictionaries(st.sampled_from(["a", "b", "n", "s"]), values, max_size=3))
    for name, strategy in fitting.items():
        choice = draw(st.integers(0, 9))
        if choice < 6:
            body[name] = draw(strategy)
        elif choice == 9:
            body[name] = draw(values)
    return body


def steps_for(attribute: str) -> st.SearchStrategy[Step]:
    fits = fitting.get(attribute, values)
    return st.one_of(
        st.builds(Set, st.just(attribute), fits),
        st.builds(SetSum, st.just(attribute), numbers),
        st.builds(SetIfNotExists, st.just(attribute), fits),
        st.builds(Append, st.just(attribute), st.lists(scalars, max_size=2)),
        st.builds(Remove, st.just(attribute)),
        st.builds(Add, st.just(attribute), st.one_of(numbers, sets)),
        st.builds(DeleteElements, st.just(attribute), sets),
    )


updates = st.lists(attributes, min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.tuples(*(steps_for(name) for name in names)).map(list)
)


class Database(RuleBasedStateMachine):
    """`bare` has one key attribute and no index, `full` a sort key and two indexes."""

    divided_into = 1

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="foldb-model-")))
        self.bare = Model(("p",), indexed=False)
        self.full = Model(("p", "n0"), indexed=True)
        self.models = {"bare": self.bare, "full": self.full}

    @initialize()
    def begin(self) -> None:
        self.open()
        self.resource.create_table(**table_request("bare", "p:S"))
        self.resource.create_table(
            **table_request(
                "full",
                "p:S",
                "n0:N",
                gsi={"by-g": "g:S l:N"},
                lsi={"by-l": "l:N KEYS_ONLY"},
            )
        )

    def open(self) -> None:
        self.server = foldb.serve(self.path, partitions=self.divided_into)
        self.server.__enter__()
        config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
        self.resource: Any = boto3.resource("dynamodb", **self.server.boto3, config=config)
        Positions().follow(self.resource.meta.client)

    def close(self) -> None:
        self.resource.meta.client.close()
        self.server.__exit__(None, None, None)

    def teardown(self) -> None:
        if hasattr(self, "server"):
            self.close()
        self.stack.close()

    def key(self, table: str, partition: str, sort: Decimal) -> PlainItem:
        return {"p": partition} if table == "bare" else {"p": partition, "n0": sort}

    # Writes

    @rule(
        table=st.sampled_from(["bare", "full"]),
        partition=partitions,
        sort=sorts,
        body=bodies(),
        condition=maybe_condition,
    )
    def put(
        self, table: str, partition: str, sort: Decimal, body: PlainItem, condition: Condition | None
    ) -> None:
        item = {**body, **self.key(table, partition, sort)}
        expected = outcome_of(lambda: self.models[table].put(item, condition))
        answer = answer_of(
            lambda: self.resource.Table(table).put_item(
                Item=item, ReturnValues="ALL_OLD", **conditional(condition)
            )
        )
        assert expected == attributes_in(answer)

    @rule(
        table=st.sampled_from(["bare", "full"]),
        partition=partitions,
        sort=sorts,
        steps=updates,
        condition=maybe_condition,
    )
    def update(
        self,
        table: str,
        partition: str,
        sort: Decimal,
        steps: list[Step],
        condition: Condition | None,
    ) -> None:
        key = self.key(table, partition, sort)
        expected = outcome_of(lambda: self.models[table].update(key, steps, condition))
        text = Text()
        members = {"UpdateExpression": write_update(steps, text)}
        if condition is not None:
            members["ConditionExpression"] = condition.write(text)
        answer = answer_of(
            lambda: self.resource.Table(table).update_item(
                Key=key, ReturnValues="ALL_NEW", **members, **text.arguments()
            )
        )
        assert expected == attributes_in(answer)

    @rule(
        table=st.sampled_from(["bare", "full"]),
        partition=partitions,
        sort=sorts,
        condition=maybe_condition,
    )
    def delete(self, table: str, partition: str, sort: Decimal, condition: Condition | None) -> None:
        key = self.key(table, partition, sort)
        expected = outcome_of(lambda: self.models[table].delete(key, condition))
        answer = answer_of(
            lambda: self.resource.Table(table).delete_item(
                Key=key, ReturnValues="ALL_OLD", **conditional(condition)
            )
        )
        assert expected == attributes_in(answer)

    @rule(
        puts=st.dictionaries(
            st.tuples(partitions, sorts),
            st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2),
            min_size=1,
            max_size=6,
        )
    )
    def batch_write(self, puts: dict[tuple[str, Decimal], PlainItem]) -> None:
        items = [{**body, "p": p, "n0": n} for (p, n), body in puts.items()]
        for item in items:
            self.full.put(item, None)
        requests = [{"PutRequest": {"Item": item}} for item in items]
        answer = self.resource.batch_write_item(RequestItems={"full": requests})
        assert {} == answer["UnprocessedItems"]

    @rule(
        bare=partitions,
        full=st.tuples(partitions, sorts),
        other=st.tuples(partitions, sorts),
        body=st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2),
        conditions=st.tuples(maybe_condition, maybe_condition, conditions),
        amount=numbers,
    )
    def write_together(
        self,
        bare: str,
        full: tuple[str, Decimal],
        other: tuple[str, Decimal],
        body: PlainItem,
        conditions: tuple[Condition | None, Condition | None, Condition],
        amount: Decimal,
    ) -> None:
        """A transaction over both tables: a put, an update and, on a third item, a check."""
        item = {**body, "p": bare}
        key, checked = self.key("full", *full), self.key("full", *other)
        steps: list[Step] = [Add("n", amount)]
        actions: list[tuple[Model, str, tuple[Any, ...]]] = [
            (self.bare, "put", (item, conditions[0])),
            (self.full, "update", (key, steps, conditions[1])),
        ]
        text = Text()
        update = {"TableName": "full", "Key": key, "UpdateExpression": write_update(steps, text)}
        if conditions[1] is not None:
            update["ConditionExpression"] = conditions[1].write(text)
        request = [
            {"Put": {"TableName": "bare", "Item": item, **conditional(conditions[0])}},
            {"Update": {**update, **text.arguments()}},
        ]
        if full != other:
            actions.append((self.full, "check", (checked, conditions[2])))
            request.append(
                {"ConditionCheck": {"TableName": "full", "Key": checked, **conditional(conditions[2])}}
            )
        expected = outcome_of(lambda: transact(actions))
        answer = answer_of(lambda: self.resource.meta.client.transact_write_items(TransactItems=request))
        assert expected == (answer if isinstance(answer, (str, list)) else None)

    # Reads

    @rule(table=st.sampled_from(["bare", "full"]), partition=partitions, sort=sorts)
    def get(self, table: str, partition: str, sort: Decimal) -> None:
        key = self.key(table, partition, sort)
        answer = self.resource.Table(table).get_item(Key=key, ConsistentRead=True)
        assert self.models[table].get(key) == plain(answer.get("Item"))

    @rule(
        partition=partitions,
        low=sorts,
        high=sorts,
        forward=st.booleans(),
        limit=st.one_of(st.none(), st.integers(1, 4)),
        wanted=maybe_condition,
    )
    def query(
        self,
        partition: str,
        low: Decimal,
        high: Decimal,
        forward: bool,
        limit: int | None,
        wanted: Condition | None,
    ) -> None:
        low, high = min(low, high), max(low, high)
        expected = [
            item
            for item in self.full.collection(partition)
            if low <= item["n0"] <= high and (wanted is None or wanted.holds(item))
        ]
        text = Text()
        members: dict[str, Any] = {
            "KeyConditionExpression": (
                f"{text.name('p')} = {text.value(partition)} "
                f"AND {text.name('n0')} BETWEEN {text.value(low)} AND {text.value(high)}"
            ),
            "ScanIndexForward": forward,
        }
        if wanted is not None:
            members["FilterExpression"] = wanted.write(text)
        found = pages(self.resource.Table("full").query, limit, {**members, **text.arguments()})
        assert (expected if forward else expected[::-1]) == found

    @rule(g=st.sampled_from(["red", "blue"]), limit=st.one_of(st.none(), st.integers(1, 3)))
    def query_global_index(self, g: str, limit: int | None) -> None:
        found = pages(
            self.resource.Table("full").query,
            limit,
            {
                "IndexName": "by-g",
                "KeyConditionExpression": "g = :g",
                "ExpressionAttributeValues": {":g": g},
            },
        )
        assert sorted(item["l"] for item in found) == [item["l"] for item in found]
        assert in_some_order(self.full.by_g(g)) == in_some_order(found)

    @rule(partition=partitions, limit=st.one_of(st.none(), st.integers(1, 3)), forward=st.booleans())
    def query_local_index(self, partition: str, limit: int | None, forward: bool) -> None:
        found = pages(
            self.resource.Table("full").query,
            limit,
            {
                "IndexName": "by-l",
                "KeyConditionExpression": "p = :p",
                "ExpressionAttributeValues": {":p": partition},
                "ScanIndexForward": forward,
                "ConsistentRead": True,
            },
        )
        expected = [{name: item[name] for name in ("p", "n0", "l")} for item in self.full.by_l(partition)]
        assert sorted((item["l"] for item in found), reverse=not forward) == [item["l"] for item in found]
        assert in_some_order(expected) == in_some_order(found)

    @rule(limit=st.one_of(st.none(), st.integers(1, 5)), segments=st.integers(1, 3), wanted=maybe_condition)
    def scan(self, limit: int | None, segments: int, wanted: Condition | None) -> None:
        text = Text()
        members: dict[str, Any] = {}
        if wanted is not None:
            members["FilterExpression"] = wanted.write(text)
        found = []
        for segment in range(segments):
            part = {"Segment": segment, "TotalSegments": segments} if segments > 1 else {}
            found += pages(self.resource.Table("full").scan, limit, {**members, **part, **text.arguments()})
        expected = [item for item in self.full.items.values() if wanted is None or wanted.holds(item)]
        assert in_some_order(expected) == in_some_order(found)

    # The log

    @precondition(lambda self: self.full.items)
    @rule()
    def restart(self) -> None:
        """Everything comes back from the log."""
        self.close()
        self.open()

    @rule(table=st.sampled_from(["bare", "full"]))
    def rebuild(self, table: str) -> None:
        """The table folded again from the log, beside the one that serves, is the same; it takes its place."""
        client = Client(self.server.endpoint_url)
        answer = client.admin("Rebuild", {"TableName": table})
        while answer["Status"] == "RUNNING":
            answer = client.admin("Rebuild", {"TableName": table, "Id": answer["Id"]})
        client.close()
        assert answer["Same"]
        assert len(self.models[table].items) == answer["Items"]

    @invariant()
    def counts_are_exact(self) -> None:
        if not hasattr(self, "server"):
            return
        for name, model in self.models.items():
            description = self.resource.meta.client.describe_table(TableName=name)["Table"]
            assert len(model.items) == description["ItemCount"]


def conditional(condition: Condition | None) -> dict[str, Any]:
    if condition is None:
        return {}
    text = Text()
    return {"ConditionExpression": condition.write(text), **text.arguments()}


def outcome_of(act: Callable[[], T]) -> Any:
    """Return the model's response: a value, the name of an error, or a transaction's reasons."""
    try:
        return act()
    except ConditionFailedError:
        return "ConditionalCheckFailedException"
    except InvalidError:
        return "ValidationException"
    except CancelledError as error:
        return error.codes


def answer_of(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except ClientError as error:
        reasons = error.response.get("CancellationReasons")
        return [reason["Code"] for reason in reasons] if reasons else error.response["Error"]["Code"]


def attributes_in(answer: Any) -> Any:
    return answer if isinstance(answer, str) else plain(answer.get("Attributes"))


def plain(value: Any) -> Any:
    """boto3 wraps binary values in a class of its own; everything else is plain."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, set):
        return {plain(inner) for inner in value}
    return bytes(value.value) if hasattr(value, "value") and not isinstance(value, (str, Decimal)) else value


def pages(ask: Callable[..., Any], limit: int | None, members: dict[str, Any]) -> list[PlainItem]:
    """All pages of a Query or Scan; none is longer than the limit."""
    found: list[PlainItem] = []
    start: dict[str, Any] = {}
    bound = {} if limit is None else {"Limit": limit}
    while True:
        answer = ask(**members, **bound, **start)
        assert limit is None or answer["ScannedCount"] <= limit
        found += [plain(item) for item in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            return found
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def in_some_order(items: Any) -> list[PlainItem]:
    return sorted(items, key=lambda item: (item["p"], order(item["n0"])))


class DividedDatabase(Database):
    """The same with a client that sends its last position, and so finds its writes in a global index."""

    divided_into = 8


def explored(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


TestDatabase = Database.TestCase
TestDatabase.settings = explored(EXAMPLES)
TestDividedDatabase = DividedDatabase.TestCase
TestDividedDatabase.settings = explored(EXAMPLES // 8)
