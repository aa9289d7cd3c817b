"""Random requests for every operation: well-formed, but unusual.

Names, keys and values come from small pools, so that requests interact: a table is deleted during writes, an index is
created over items that do not fit it, a transaction is repeated with its token. Names that only the database creates,
such as ARNs and iterators, are taken from its answers.
"""

import json
import random
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

STREAMS = "DynamoDBStreams_20120810."
# Members of answers that requests can name, and how many of each are remembered.
NAMING = (
    "BackupArn",
    "BulkOperationArn",
    "ExportArn",
    "ImportArn",
    "LatestStreamArn",
    "ShardId",
    "ShardIterator",
    "NextShardIterator",
    "SequenceNumber",
)
REMEMBERED = 8
DESTINATIONS = [f"arn:aws:kinesis:us-east-1:000000000000:stream/odd-{n}" for n in range(2)]

# Each with the key that it has, if it is there.
TABLES = {"odd-0": ["p"], "odd-1": ["p", "q"], "odd-2": ["s", "q"], "odd-3": ["q"]}
# The attributes that are keys, with the type that tables and indexes mostly want of them.
KEYS = {"p": "S", "q": "N", "r": "S", "s": "B"}
NAMES = ["q", "r", "s", "a", "b", "c", "size", "é", "x.y", "#"]
INDEXES = ["one", "two", "three"]

STRINGS = [
    "",
    "a",
    "b",
    "a\0",
    "\0",
    "\uffff",
    "😀",
    "é",
    "1",
    "x" * 1024,
    "x" * 1025,
    "k" * 2048,
    "k" * 2049,
]
NUMBERS = [
    *("0", "1", "-1", "1.5", "007", "+2", "-0", "1e2", ".5", "5.", "1E-130", "-1E-130", "1E125", "0.1"),
    "9.9999999999999999999999999999999999999E+125",
    "-9.9999999999999999999999999999999999999E+125",
    "99999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000001",
    "12345678901234567890123456789012345678",
    "253402300800",
]
BINARIES = ["", "AA==", "AAA=", "/w==", "YQ==", "AP8A", "Zm9v"]

CONSUMED = ["NONE", "TOTAL", "INDEXES"]
CONDITIONS = (
    "{path} = {value}",
    "{path} <> {value}",
    "{path} < {scalar}",
    "{scalar} >= {path}",
    "{path} = {path}",
    "{path} BETWEEN {number} AND {number}",
    "{path} IN ({value}, {path}, {value})",
    "size({path}) > {number}",
    "{path} = size({path})",
    "attribute_exists({path})",
    "attribute_not_exists({path})",
    "attribute_type({path}, {type})",
    "begins_with({path}, {string})",
    "contains({path}, {value})",
)
COMPOUNDS = ("{condition} AND {condition}", "{condition} OR {condition}", "NOT {condition}", "({condition})")
SETTINGS = (
    "{path} = {value}",
    "{path} = {value}",
    "{path} = {path}",
    "{path} = {path} + {number}",
    "{path} = {number} - {path}",
    "{path} = if_not_exists({path}, {value})",
    "{path} = if_not_exists({path}, {number}) + {number}",
    "{path} = list_append({path}, {list})",
    "{path} = list_append({list}, if_not_exists({path}, {list}))",
)
KEY_CONDITIONS = (
    "{first}",
    "{first} AND {second} < {of_second}",
    "{first} AND {second} >= {of_second}",
    "{first} AND {second} = {of_second}",
    "{first} AND begins_with({second}, {of_second})",
    "{first} AND {second} BETWEEN {of_second} AND {of_second}",
    "{second} = {of_second}",
)
COMPARISONS = [
    "EQ",
    "NE",
    "IN",
    "LE",
    "LT",
    "GE",
    "GT",
    "BETWEEN",
    "NOT_NULL",
    "NULL",
    "CONTAINS",
    "NOT_CONTAINS",
    "BEGINS_WITH",
]


class Requests:
    """Draws requests. The same dice draw the same ones."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self._now = int(time.time())
        self._named: dict[str, list[str]] = {name: [] for name in NAMING}
        self.operations: dict[str, Callable[[], Json]] = {
            "BatchExecuteStatement": lambda: {"Statements": self._statements()},
            "BatchGetItem": self.batch_get,
            "BatchWriteItem": self.batch_write,
            "CancelBulkOperation": lambda: {"BulkOperationArn": self._known("BulkOperationArn")},
            "CreateBackup": lambda: self._tabled() | {"BackupName": "nightly"},
            "CreateTable": self.create,
            "DeleteBackup": self._of_backup,
            "DeleteItem": lambda: self._conditional(self._keyed() | self._returns("NONE", "ALL_OLD")),
            "DeleteResourcePolicy": self._of_policy,
            "DeleteTable": self._tabled,
            "DescribeBackup": self._of_backup,
            "DescribeBulkOperation": lambda: {"BulkOperationArn": self._known("BulkOperationArn")},
            "DescribeContinuousBackups": self._tabled,
            "CreateGlobalTable": lambda: {"GlobalTableName": self._table(), "ReplicationGroup": []},
            "DescribeContributorInsights": lambda: self._tabled() | self._sometimes("IndexName", *INDEXES),
            "DescribeEndpoints": dict,
            "DescribeGlobalTable": lambda: {"GlobalTableName": self._table()},
            "DescribeGlobalTableSettings": lambda: {"GlobalTableName": self._table()},
            "DescribeExport": lambda: {"ExportArn": self._known("ExportArn")},
            "DescribeImport": lambda: {"ImportArn": self._known("ImportArn")},
            "DescribeKinesisStreamingDestination": self._tabled,
            "DescribeLimits": dict,
            "DescribeTable": self._tabled,
            "DescribeTableReplicaAutoScaling": self._tabled,
            "DescribeTimeToLive": self._tabled,
            "DisableKinesisStreamingDestination": lambda: self._destined("Enable", often=False),
            "EnableKinesisStreamingDestination": lambda: self._destined("Enable"),
            "ExecuteStatement": lambda: self._statement() | self._sometimes("Limit", 1, 100),
            "ExecuteTransaction": lambda: (
                {"TransactStatements": self._statements()}
                | self._sometimes("ClientRequestToken", "one", "two")
            ),
            "GetItem": lambda: self._projected(self._keyed() | self._sometimes("ConsistentRead", True)),
            "GetResourcePolicy": self._of_policy,
            "ExportTableToPointInTime": self.export,
            "ImportTable": self.import_table,
            "ListBulkOperations": lambda: self._sometimes("MaxResults", 1),
            "ListExports": lambda: (
                self._sometimes("TableArn", self._arn()) | self._sometimes("MaxResults", 1)
            ),
            "ListImports": lambda: self._sometimes("TableArn", self._arn()) | self._sometimes("PageSize", 1),
            "ListBackups": lambda: self._sometimes("TableName", *TABLES) | self._sometimes("Limit", 1, 100),
            "ListContributorInsights": lambda: (
                self._sometimes("TableName", *TABLES) | self._sometimes("MaxResults", 1, 100)
            ),
            "ListGlobalTables": lambda: self._sometimes("Limit", 1),
            "ListTables": lambda: self._sometimes("Limit", 2, 1, 100),
            "ListTagsOfResource": lambda: {"ResourceArn": self._arn()},
            "PutItem": lambda: self._conditional(self._tabled_item() | self._returns("NONE", "ALL_OLD")),
            "PutResourcePolicy": lambda: self._of_policy() | {"Policy": self._policy()},
            "Query": self.query,
            "RestoreTableFromBackup": lambda: self._of_backup() | {"TargetTableName": self._table()},
            "RestoreTableToPointInTime": self.restore,
            "Scan": self.scan,
            "StartBulkPutItems": self.bulk_put,
            "TagResource": lambda: {"ResourceArn": self._arn(), "Tags": [{"Key": "k", "Value": "é"}]},
            "TransactGetItems": self.transact_get,
            "TransactWriteItems": self.transact_write,
            "UntagResource": lambda: {"ResourceArn": self._arn(), "TagKeys": ["k"]},
            "UpdateContinuousBackups": self.backups,
            "UpdateContributorInsights": self.insights,
            "UpdateGlobalTable": lambda: {
                "GlobalTableName": self._table(),
                "ReplicaUpdates": [{self.dice.choice(["Create", "Delete"]): {"RegionName": "eu-west-1"}}],
            },
            "UpdateGlobalTableSettings": lambda: {"GlobalTableName": self._table()},
            "UpdateItem": self.update,
            "UpdateKinesisStreamingDestination": lambda: self._destined("Update"),
            "UpdateTable": self.update_table,
            "UpdateTableReplicaAutoScaling": self._tabled,
            "UpdateTimeToLive": self.time_to_live,
            STREAMS + "DescribeStream": self.describe_stream,
            STREAMS + "GetRecords": self.get_records,
            STREAMS + "GetShardIterator": self.get_shard_iterator,
            STREAMS + "ListStreams": lambda: (
                self._sometimes("TableName", *TABLES) | self._sometimes("Limit", 1)
            ),
        }

    def learn(self, answer: Any) -> None:
        """Remember the names in an answer."""
        if isinstance(answer, list):
            for each in answer:
                self.learn(each)
        elif isinstance(answer, dict):
            for name, value in answer.items():
                if name in self._named and isinstance(value, str):
                    self._named[name] = [value, *self._named[name]][:REMEMBERED]
                else:
                    self.learn(value)

    def one(self) -> tuple[str, Json]:
        """An operation's name and a request for it; writes more often than the rest."""
        often = [
            "PutItem",
            "UpdateItem",
            "UpdateItem",
            "TransactWriteItems",
            "Query",
            "UpdateTable",
            "BatchWriteItem",
            STREAMS + "DescribeStream",
            STREAMS + "GetShardIterator",
            STREAMS + "GetRecords",
        ]
        name = self.dice.choice(often if self.dice.random() < 0.6 else sorted(self.operations))
        if name == "DeleteTable" and self.dice.random() < 0.8:
            name = "CreateTable"
        return name, self.operations[name]()

    # Values

    def value(self, depth: int = 3) -> Json:
        """Return any attribute value with at most `depth` levels."""
        pick = self.dice.choice
        kinds = ["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", *(["L", "M"] * 2 if depth > 1 else [])]
        kind = pick(kinds)
        match kind:
            case "S" | "N" | "B":
                return self.scalar(kind)
            case "BOOL":
                return {"BOOL": pick([True, False])}
            case "NULL":
                return {"NULL": True}
            case "L":
                return {"L": [self.value(depth - 1) for _ in range(self.dice.randrange(4))]}
            case "M":
                return {"M": {pick(NAMES): self.value(depth - 1) for _ in range(self.dice.randrange(4))}}
            case _:
                members = [self.scalar(kind[0])[kind[0]] for _ in range(self.dice.randrange(1, 4))]
                return {kind: list(dict.fromkeys(members))}

    def scalar(self, kind: str) -> Json:
        """A value of type S, N or B."""
        if kind == "N" and self.dice.random() < 0.2:
            return {"N": str(self._now + self.dice.randrange(-2, 3))}
        return {kind: self.dice.choice({"S": STRINGS, "N": NUMBERS, "B": BINARIES}[kind])}

    def item(self, table: str) -> Json:
        """An item that has the table's key, most of the time."""
        names = self.dice.sample(NAMES, self.dice.randrange(5))
        return {name: self._fitting(name) for name in names} | self.key(table)

    def _fitting(self, name: str) -> Json:
        """A value that an index on the attribute takes, most of the time."""
        kind = KEYS.get(name)
        if kind is None or self.dice.random() < 0.2:
            return self.value()
        return self._small(kind) if self.dice.random() < 0.8 else self.scalar(kind)

    def _small(self, kind: str) -> Json:
        return {kind: self.dice.choice({"S": "ab", "N": "12", "B": BINARIES[1:3]}[kind])}

    def key(self, table: str) -> Json:
        """A key of the table, out of few, most of the time a valid one."""
        names = TABLES.get(table, ["p"])
        key = {name: self._small(KEYS[name]) for name in names}
        if self.dice.random() < 0.1:
            name = self.dice.choice(names)
            key[name] = self.scalar(self.dice.choice([KEYS[name], KEYS[name], "S", "N", "B"]))
        return key

    # Expressions

    def expression(self, template: str, body: Json, depth: int = 2) -> str:
        """Fill in a template; the names and values that it takes are added to the body."""
        while "{" in template:
            start, _, rest = template.partition("{")
            hole, _, rest = rest.partition("}")
            template = start + self._fill(hole, body, depth) + rest
        return template

    def _condition(self, body: Json, depth: int = 2) -> str:
        templates = CONDITIONS + COMPOUNDS if depth else CONDITIONS
        return self.expression(self.dice.choice(templates), body, depth)

    def _fill(self, hole: str, body: Json, depth: int) -> str:
        match hole:
            case "path":
                return self._path(body)
            case "condition":
                return self._condition(body, depth - 1)
            case "type":
                return self._placeholder(body, {"S": self.dice.choice(["S", "NS", "M", "x"])})
            case "list":
                return self._placeholder(body, {"L": [self.value(2)]})
            case "scalar" | "string" | "number":
                kind = {"scalar": self.dice.choice("SNB"), "string": "S", "number": "N"}[hole]
                return self._placeholder(body, self.scalar(kind))
            case _:
                return self._placeholder(body, self.value(2))

    def _path(self, body: Json) -> str:
        name = self.dice.choice(NAMES)
        if not name.isascii() or not name.isalpha() or len(name) > 1 or self.dice.random() < 0.2:
            names = body.setdefault("ExpressionAttributeNames", {})
            placeholder = f"#n{len(names)}"
            names[placeholder] = name
            name = placeholder
        while self.dice.random() < 0.25:
            name += self.dice.choice([".a", ".b", "[0]", "[1]"])
        if self.dice.random() < 0.01:
            name += self.dice.choice(["[99999999]", "[4294967296]", "[00]"])
        return name

    def _placeholder(self, body: Json, value: Json) -> str:
        values = body.setdefault("ExpressionAttributeValues", {})
        name = f":v{len(values)}"
        values[name] = value
        return name

    def _conditional(self, body: Json) -> Json:
        if self.dice.random() < 0.3:
            body["ConditionExpression"] = self._condition(body)
        elif self.dice.random() < 0.1 and "UpdateExpression" not in body:
            body["Expected"] = self._legacy_conditions()
        body |= self._sometimes("ReturnValuesOnConditionCheckFailure", "ALL_OLD", "NONE")
        body |= self._sometimes("ReturnItemCollectionMetrics", "SIZE")
        return body | self._sometimes("ReturnConsumedCapacity", *CONSUMED)

    def _projected(self, body: Json) -> Json:
        if self.dice.random() < 0.3:
            paths = ", ".join(self._path(body) for _ in range(self.dice.randrange(1, 4)))
            body["ProjectionExpression"] = paths
        elif self.dice.random() < 0.1:
            body["AttributesToGet"] = self.dice.sample(NAMES, 2)
        return body | self._sometimes("ReturnConsumedCapacity", *CONSUMED)

    def _legacy_conditions(self) -> Json:
        conditions: Json = {}
        for name in self.dice.sample(NAMES, 2):
            operator = self.dice.choice(COMPARISONS)
            count = {"NULL": 0, "NOT_NULL": 0, "BETWEEN": 2}.get(operator, 1)
            conditions[name] = {"ComparisonOperator": operator}
            if count:
                conditions[name]["AttributeValueList"] = [self.value(2) for _ in range(count)]
        return conditions

    # Operations on items

    def update(self) -> Json:
        """UpdateItem in either dialect."""
        body = self._keyed() | self._returns("NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW")
        if self.dice.random() < 0.15:
            body["AttributeUpdates"] = {
                name: {"Action": self.dice.choice(["PUT", "ADD", "DELETE"]), "Value": self._fitting(name)}
                for name in self.dice.sample(NAMES, 2)
            }
            return body | ({"Expected": self._legacy_conditions()} if self.dice.random() < 0.3 else {})
        return self._conditional(self._updating(body))

    def _updating(self, body: Json) -> Json:
        clauses = []
        if self.dice.random() < 0.8:
            settings = [
                self.expression(self.dice.choice(SETTINGS), body) for _ in range(self.dice.randrange(1, 4))
            ]
            clauses.append("SET " + ", ".join(settings))
        if self.dice.random() < 0.3:
            clauses.append(f"REMOVE {self._path(body)}")
        if self.dice.random() < 0.3 or not clauses:
            verb, kinds = self.dice.choice([("ADD", "NSB"), ("DELETE", "SNB")])
            kind = self.dice.choice(kinds)
            amount = (
                self.scalar(kind)
                if verb == "ADD" and kind == "N"
                else {kind + "S": [self.scalar(kind)[kind]]}
            )
            clauses.append(f"{verb} {self._path(body)} {self._placeholder(body, amount)}")
        return body | {"UpdateExpression": " ".join(clauses)}

    def query(self) -> Json:
        """Query of a table or an index."""
        body = self._page()
        keys = TABLES[body["TableName"]] if "IndexName" not in body else self.dice.sample(sorted(KEYS), 2)
        first, second = keys[0], keys[-1]
        template = self.dice.choice(KEY_CONDITIONS).replace("{first}", "{p} = {of_p}")
        for hole, name in (("p", first), ("second", second)):
            while f"{{of_{hole}}}" in template:
                value = self._placeholder(body, self._fitting(name))
                template = template.replace(f"{{of_{hole}}}", value, 1)
            template = template.replace(f"{{{hole}}}", name)
        body["KeyConditionExpression"] = template
        body |= self._sometimes("ScanIndexForward", False)
        if self.dice.random() < 0.1:
            for name in [name for name in body if "Expression" in name or name == "AttributesToGet"]:
                del body[name]
            body["KeyConditions"] = {
                "p": {"ComparisonOperator": "EQ", "AttributeValueList": [self.scalar("S")]}
            }
        return body

    def scan(self) -> Json:
        """Scan, perhaps of a segment."""
        segments = {"Segment": self.dice.randrange(4), "TotalSegments": self.dice.choice([1, 4, 1_000_000])}
        return self._page() | (segments if self.dice.random() < 0.3 else {})

    def _page(self) -> Json:
        body = self._tabled() | self._sometimes("IndexName", *INDEXES) | self._sometimes("Limit", 1, 2, 3)
        if self.dice.random() < 0.2:
            body["ExclusiveStartKey"] = self.key(body["TableName"])
            if "IndexName" in body:
                body["ExclusiveStartKey"] |= {name: self.scalar(self.dice.choice("SN")) for name in "qr"}
        if self.dice.random() < 0.4:
            body["FilterExpression"] = self._condition(body)
        if self.dice.random() < 0.3:
            return body | {
                "Select": self.dice.choice(["COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"])
            }
        return self._projected(body)

    def batch_get(self) -> Json:
        """BatchGetItem of some tables."""
        tables = self.dice.sample(sorted(TABLES), self.dice.randrange(1, 3))
        requests = {table: self._projected({"Keys": [self.key(table) for _ in range(2)]}) for table in tables}
        for request in requests.values():
            request.pop("ReturnConsumedCapacity", None)
        return {"RequestItems": requests} | self._sometimes("ReturnConsumedCapacity", *CONSUMED)

    def batch_write(self) -> Json:
        """BatchWriteItem of some tables."""
        requests: Json = {}
        for table in self.dice.sample(sorted(TABLES), self.dice.randrange(1, 3)):
            requests[table] = [
                {"PutRequest": {"Item": self.item(table)}}
                if self.dice.random() < 0.8
                else {"DeleteRequest": {"Key": self.key(table)}}
                for _ in range(self.dice.randrange(1, 3))
            ]
        return {"RequestItems": requests} | self._sometimes("ReturnItemCollectionMetrics", "SIZE")

    def transact_get(self) -> Json:
        """TransactGetItems of a few keys."""
        gets = [self._projected(self._keyed()) for _ in range(self.dice.randrange(1, 4))]
        for get in gets:
            get.pop("ReturnConsumedCapacity", None)
        return {"TransactItems": [{"Get": get} for get in gets]}

    def _statements(self) -> list[Json]:
        return [self._statement() for _ in range(self.dice.randrange(1, 4))]

    def _statement(self) -> Json:
        """Return a statement of PartiQL, whose values are parameters."""
        table = self._table()
        key, name = self.key(table), self.dice.choice(NAMES)
        where = " AND ".join(f'"{each}" = ?' for each in key)
        values, changed = [*key.values()], [self._fitting(name), *key.values()]
        item = self.item(table)
        members = ", ".join(f"'{each}': ?" for each in item)
        statements = [
            (f'SELECT * FROM "{table}" WHERE {where}', values),
            (f'SELECT "{name}" FROM "{table}" WHERE "{name}" = ? OR size("{name}") > 2', changed[:1]),
            (f'INSERT INTO "{table}" VALUE {{{members}}}', [*item.values()]),
            (f'UPDATE "{table}" SET "{name}" = ? WHERE {where} RETURNING ALL NEW *', changed),
            (f'DELETE FROM "{table}" WHERE {where}', values),
            (f'EXISTS(SELECT * FROM "{table}" WHERE {where} AND "{name}" IS NOT MISSING)', values),
        ]
        statement, parameters = self.dice.choice(statements)
        return {"Statement": statement, "Parameters": parameters}

    def transact_write(self) -> Json:
        """TransactWriteItems, perhaps with a token that was used before."""
        actions = [self._action() for _ in range(self.dice.randrange(1, 4))]
        body = {"TransactItems": actions} | self._sometimes("ReturnConsumedCapacity", *CONSUMED)
        return body | self._sometimes("ClientRequestToken", "one", "two", str(self.dice.random()))

    def _action(self) -> Json:
        kind = self.dice.choice(["Put", "Update", "Delete", "ConditionCheck"])
        body = self._tabled_item() if kind == "Put" else self._keyed()
        if kind == "Update":
            body = self._updating(body)
        if kind == "ConditionCheck" or self.dice.random() < 0.3:
            body["ConditionExpression"] = self._condition(body)
        return {kind: body | self._sometimes("ReturnValuesOnConditionCheckFailure", "ALL_OLD")}

    # Operations on streams

    def describe_stream(self) -> Json:
        """Return a DescribeStream of a known stream."""
        body = {"StreamArn": self._known("LatestStreamArn")} | self._sometimes("Limit", 1, 100)
        child = {"Type": "CHILD_SHARDS", "ShardId": self._known("ShardId")}
        body |= self._sometimes("ShardFilter", child)
        return body | self._sometimes("ExclusiveStartShardId", self._known("ShardId"))

    def get_shard_iterator(self) -> Json:
        """GetShardIterator of any kind; a shard may be another stream's."""
        kind = self.dice.choice(
            ["TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP"]
        )
        body: Json = {"ShardId": self._known("ShardId"), "ShardIteratorType": kind}
        if "NUMBER" in kind or self.dice.random() < 0.05:
            body["SequenceNumber"] = self._known("SequenceNumber")
        if kind == "AT_TIMESTAMP" or self.dice.random() < 0.05:
            body["Timestamp"] = self.dice.choice(
                [0, -1.5, self._now - 0.5, self._now, self._now + 3600, 1e300]
            )
        return {"StreamArn": self._known("LatestStreamArn"), **body}

    def get_records(self) -> Json:
        """GetRecords from where an answer has led to."""
        name = self.dice.choice(["ShardIterator", "NextShardIterator"])
        return {"ShardIterator": self._known(name)} | self._sometimes("Limit", 1, 2, 1000)

    def _known(self, name: str) -> str:
        """Return a name from an answer, or an unknown name if there is none yet."""
        return self.dice.choice(self._named[name] or ["1" * 40])

    def _destined(self, kind: str, *, often: bool = True) -> Json:
        """Any of the operations on destinations."""
        body = self._tabled() | {"StreamArn": self.dice.choice(DESTINATIONS)}
        precision = {"ApproximateCreationDateTimePrecision": self.dice.choice(["MILLISECOND", "MICROSECOND"])}
        is_said = self.dice.random() < (0.8 if often else 0.1)
        return body | ({f"{kind}KinesisStreamingConfiguration": precision} if is_said else {})

    # Operations on tables

    def create(self) -> Json:
        """CreateTable with indexes."""
        table = self._table()
        names = TABLES[table]
        body: Json = {"TableName": table, "KeySchema": _schema(names), "BillingMode": "PAY_PER_REQUEST"}
        indexed = set(names)
        if self.dice.random() < 0.6:
            indexes = [self._index(name) for name in self.dice.sample(INDEXES, self.dice.randrange(1, 3))]
            body["GlobalSecondaryIndexes"] = indexes
            indexed |= {element["AttributeName"] for index in indexes for element in index["KeySchema"]}
        if len(names) == 2 and self.dice.random() < 0.5:
            sort = self.dice.choice(sorted(KEYS))
            local = {
                "IndexName": "local",
                "KeySchema": _schema([names[0], sort]),
                "Projection": self._projection(),
            }
            body["LocalSecondaryIndexes"] = [local]
            indexed.add(sort)
        body["AttributeDefinitions"] = [self._definition(name) for name in sorted(indexed)]
        stream = {
            "StreamEnabled": True,
            "StreamViewType": self.dice.choice(["NEW_IMAGE", "NEW_AND_OLD_IMAGES"]),
        }
        return body | ({"StreamSpecification": stream} if self.dice.random() < 0.5 else {})

    def _definition(self, name: str) -> Json:
        kind = KEYS[name] if self.dice.random() < 0.9 else self.dice.choice("SNB")
        return {"AttributeName": name, "AttributeType": kind}

    def _index(self, name: str) -> Json:
        keys = self.dice.sample(sorted(KEYS), self.dice.randrange(1, 5))
        hashes = self.dice.randrange(1, len(keys) + 1)
        return {
            "IndexName": name,
            "KeySchema": _schema(keys, hashes if self.dice.random() < 0.3 else 1)[: 2 if hashes > 2 else 5],
            "Projection": self._projection(),
        }

    def _projection(self) -> Json:
        kind = self.dice.choice(["ALL", "KEYS_ONLY", "INCLUDE"])
        included = {"NonKeyAttributes": self.dice.sample(["a", "b", "size", "q", "é"], 2)}
        return {"ProjectionType": kind} | (included if kind == "INCLUDE" else {})

    def update_table(self) -> Json:
        """UpdateTable, most often of its indexes."""
        body = self._tabled()
        name = self.dice.choice(INDEXES)
        chance = self.dice.random()
        if chance < 0.5:
            index = self._index(name)
            body["GlobalSecondaryIndexUpdates"] = [{"Create": index}]
            body["AttributeDefinitions"] = [
                self._definition(element["AttributeName"]) for element in index["KeySchema"]
            ]
        elif chance < 0.7:
            body["GlobalSecondaryIndexUpdates"] = [{"Delete": {"IndexName": name}}]
        elif chance < 0.8:
            throughput = {"ReadCapacityUnits": 1, "WriteCapacityUnits": self.dice.choice([1, 40_000])}
            body |= {"BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput}
            body["GlobalSecondaryIndexUpdates"] = [
                {"Update": {"IndexName": each, "ProvisionedThroughput": throughput}} for each in INDEXES[:2]
            ]
        elif chance < 0.9:
            body["BillingMode"] = "PAY_PER_REQUEST"
        else:
            body["StreamSpecification"] = {"StreamEnabled": self.dice.random() < 0.5} | self._sometimes(
                "StreamViewType", "KEYS_ONLY", "NEW_AND_OLD_IMAGES"
            )
            body |= self._sometimes("DeletionProtectionEnabled", False)
        return body

    def backups(self) -> Json:
        """UpdateContinuousBackups."""
        enabled = {"PointInTimeRecoveryEnabled": self.dice.choice([True, False])}
        return self._tabled() | {"PointInTimeRecoverySpecification": enabled}

    def insights(self) -> Json:
        """UpdateContributorInsights, of a table or any index."""
        body = self._tabled() | {"ContributorInsightsAction": self.dice.choice(["ENABLE", "DISABLE"])}
        mode = self._sometimes("ContributorInsightsMode", "THROTTLED_KEYS", "ACCESSED_AND_THROTTLED_KEYS")
        return body | mode | self._sometimes("IndexName", *INDEXES)

    def restore(self) -> Json:
        """RestoreTableToPointInTime, of a time that is seldom in the range."""
        moment = self._sometimes("RestoreDateTime", self._now) or {"UseLatestRestorableTime": True}
        return {"SourceTableName": self._table(), "TargetTableName": self._table()} | moment

    def export(self) -> Json:
        """ExportTableToPointInTime, full or of the changes since a time that is seldom in the range."""
        body = {"TableArn": self._arn(), "S3Bucket": self._bucket()} | self._sometimes("ExportFormat", "ION")
        if self.dice.random() < 0.5:
            return body | self._sometimes("ExportTime", self._now)
        specification = {"ExportFromTime": self._now} | self._sometimes("ExportViewType", "NEW_IMAGE")
        return body | {
            "ExportType": "INCREMENTAL_EXPORT",
            "IncrementalExportSpecification": specification,
        }

    def import_table(self) -> Json:
        """ImportTable of the sample files, which have items for some tables."""
        parameters = self.create()
        unknown = ("LocalSecondaryIndexes", "StreamSpecification", "Tags", "DeletionProtectionEnabled")
        return {
            "S3BucketSource": {"S3Bucket": self._bucket(), "S3KeyPrefix": "in/"},
            "InputFormat": self.dice.choice(["CSV", "ION", "DYNAMODB_JSON"]),
            "TableCreationParameters": {
                name: value for name, value in parameters.items() if name not in unknown
            },
        } | self._sometimes("InputCompressionType", "GZIP")

    def bulk_put(self) -> Json:
        """StartBulkPutItems of the sample files."""
        return self._tabled() | {
            "InputS3Configuration": {"S3Bucket": self._bucket(), "InputFormat": "ION"},
            "OutputS3Configuration": {"S3Bucket": self._bucket(), "OutputType": ["ERROR"]},
        }

    def _bucket(self) -> str:
        return self.dice.choice(["one", "one", "lost"])

    def time_to_live(self) -> Json:
        """UpdateTimeToLive, of any attribute, a key as well."""
        enabled = {"Enabled": self.dice.random() < 0.7, "AttributeName": self.dice.choice(NAMES)}
        return self._tabled() | {"TimeToLiveSpecification": enabled}

    # Parts

    def _sometimes(self, name: str, *values: Any) -> Json:
        return {name: self.dice.choice(values)} if self.dice.random() < 0.3 else {}

    def _returns(self, *values: str) -> Json:
        return self._sometimes("ReturnValues", *values)

    def _table(self) -> str:
        return self.dice.choice(sorted(TABLES))

    def _tabled(self) -> Json:
        return {"TableName": self._table()}

    def _of_backup(self) -> Json:
        return {"BackupArn": self._known("BackupArn")}

    def _keyed(self) -> Json:
        table = self._table()
        return {"TableName": table, "Key": self.key(table)}

    def _tabled_item(self) -> Json:
        table = self._table()
        return {"TableName": table, "Item": self.item(table)}

    def _of_policy(self) -> Json:
        return {"ResourceArn": self._arn()} | self._sometimes("ExpectedRevisionId", "NO_POLICY", "1")

    def _policy(self) -> str:
        """A policy that may be malformed."""
        element = {"Action": self.dice.choice(["dynamodb:Get*", "*", "s3:GetObject", ["dynamodb:Scan"]])}
        conditions = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": "a"}, "StringLike": {"other": 1}}
        statement = element | {
            "Effect": self.dice.choice(["Deny", "Allow", "None"]),
            "Principal": self.dice.choice(["*", {"AWS": "000000000000"}, {}]),
            "Resource": self.dice.choice(["*", self._arn()]),
            "Condition": dict([self.dice.choice(list(conditions.items()))]),
        }
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]})

    def _arn(self) -> str:
        return f"arn:aws:dynamodb:us-east-1:000000000000:table/{self._table()}"


def _schema(names: list[str], hashes: int = 1) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": "HASH" if nth < hashes else "RANGE"}
        for nth, name in enumerate(names)
    ]
