"""PartiQL: ExecuteStatement, BatchExecuteStatement and ExecuteTransaction.

The statements, answers and error texts are those that were recorded from DynamoDB in September and October 2026.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
from botocore.exceptions import ClientError

from tests.support.claims import invalid, refused
from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided

Run: TypeAlias = Callable[..., Any]

MALFORMED = "Statement wasn't well formed, can't be processed: "
OVERLAP = "Overlapping conditions with range keys are not supported in where clause"
TOO_MANY_READS = "Too many decomposed read operations for a given query."
KEY_TYPE = "Key attribute's data type should match its data type in table's schema: Key "
INCOMPLETE = "Where clause does not contain a mandatory equality on all key attributes"
WRONG_OPERAND = "Incorrect operand type for operator or function; operator or function: "
OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
IN_TRANSACTION = "Validation failed in TransactStatements[0]: "
BATCH_KEY = "Select statements within BatchExecuteStatement must specify the primary key in the where clause."


@pytest.fixture
def table(make_table: MakeTable) -> Any:
    return make_table("pk:S", "sk:S")


@pytest.fixture
def run(table: Any) -> Run:
    """Execute a statement, whose table is written T, and return its answer."""

    def execute(statement: str, *parameters: Any, **members: Any) -> Any:
        if parameters:
            members["Parameters"] = list(parameters)
        return table.meta.client.execute_statement(Statement=named(table, statement), **members)

    return execute


def named(table: Any, statement: str) -> str:
    return statement.replace('"T"', f'"{table.name}"')


def in_transaction(table: Any, *statements: str, **members: Any) -> Any:
    sent = [{"Statement": named(table, each)} for each in statements]
    return table.meta.client.execute_transaction(TransactStatements=sent, **members)


def in_batch(table: Any, *statements: str, **members: Any) -> Any:
    sent = [{"Statement": named(table, each)} for each in statements]
    return table.meta.client.batch_execute_statement(Statements=sent, **members)


def sort_keys(answer: Any) -> list[str]:
    return [item["sk"] for item in answer["Items"]]


# SELECT


READS = [
    ("pk = 'p'", ["1", "2", "3"]),
    ("pk = 'p' ORDER BY sk DESC", ["3", "2", "1"]),
    ("pk = 'p' ORDER BY sk", ["1", "2", "3"]),
    ("pk = 'p' ORDER BY pk ASC", ["3", "2", "1"]),
    ("pk = 'p' AND sk = '2'", ["2"]),
    ("pk = 'p' AND sk > '1'", ["2", "3"]),
    ("'1' < sk AND 'p' = pk", ["2", "3"]),
    ("pk = 'p' AND sk BETWEEN '2' AND '3'", ["2", "3"]),
    ("pk = 'p' AND begins_with(sk, '3')", ["3"]),
    ("pk = 'p' AND (sk = '1' OR sk = '3')", ["1", "3"]),
    ("pk = 'p' AND sk IN ['1', '3'] ORDER BY sk DESC", ["3", "1"]),
    ("pk = 'p' AND (sk < '1' OR sk > '1' OR sk = '1')", ["1", "2", "3"]),
    ("pk = 'p' AND sk = '1' AND sk > '0'", ["1"]),
    ("pk = 'p' AND sk > '0' AND sk = '1'", ["1"]),
    ("pk = 'p' AND sk > '0' AND sk <> '1'", ["2", "3"]),
    ("pk = 'p' AND NOT sk = '1'", ["2", "3"]),
    ("pk = 'p' AND NOT sk IN ['1', '3']", ["2"]),
    ("pk = 'p' AND sk <> '1' OR pk = 'p' AND sk = '2'", ["2", "3"]),
    ("pk = 'p' OR pk = 'p' AND NOT sk = '1'", ["1", "2", "3"]),
    ("pk = 'p' AND n != 2", ["1", "3"]),
    ("pk = 'p' AND n IN (1, 3)", ["1", "3"]),
    ("pk = 'p' AND n > - - 1 AND n BETWEEN -2 AND +5", ["2", "3"]),
    ("pk = 'p' AND n = 2e0", ["2"]),
    ("pk = 'p' AND n = .3e1", ["3"]),
    ("pk = 'p' AND size(name) = 3", ["1"]),
    ("pk = 'p' AND contains(tags, 'a')", ["1"]),
    ("pk = 'p' AND attribute_type(tags, 'SS')", ["1"]),
    ("pk = 'p' AND tags = <<'b', 'a'>>", ["1"]),
    ("pk = 'p' AND m = {'y': [1], 'x': 'deep'}", ["1"]),
    ("pk = 'p' AND m.x = 'deep'", ["1"]),
    ('pk = \'p\' AND "m"."y"[0] = 1', ["1"]),
    ("pk = 'p' AND m['x'] IS STRING", ["1"]),
    ("pk = 'p' AND name = 'it''s'", ["2"]),
    ("pk = 'p' AND name IS MISSING", ["3"]),
    ("pk = 'p' AND name IS NOT MISSING", ["1", "2"]),
    ("pk = 'p' AND none IS NULL", ["1"]),
    ("pk = 'p' AND none IS NOT NULL", ["2", "3"]),
    ("pk = 'p' AND flag IS BOOL AND flag = true", ["1"]),
    ("pk = 'p' AND ATTRIBUTE_EXISTS(flag) = true", ["1"]),
    ("pk = 'p' AND attribute_exists(flag) = false", ["2", "3"]),
    ("pk = 'p' AND (attribute_exists(nope) OR NOT attribute_exists(flag))", ["2", "3"]),
    ("pk = 'p' AND attribute_exists(pk)", ["1", "2", "3"]),
    ("(pk = 'p' AND sk = '1') AND n = 1", ["1"]),
    ("pk = 'p' -- a note\n AND sk /* here */ = '1'; -- done", ["1"]),
    ("pk = 'p' AND name < 5", []),
    ("pk = 'p' AND sk <> '-' AND NOT name IN ['+', '*', '?']", ["1", "2", "3"]),
]


@pytest.mark.parametrize(("where", "expected"), READS, ids=[where for where, _ in READS])
def test_a_select_finds_the_items_of_its_where(table: Any, run: Run, where: str, expected: list[str]) -> None:
    _fill(table)

    assert expected == sort_keys(run(f'SELECT * FROM "T" WHERE {where}'))


def _fill(table: Any) -> None:
    items: list[dict[str, Any]] = [
        {
            "sk": "1",
            "name": "abc",
            "tags": {"a", "b"},
            "m": {"x": "deep", "y": [1]},
            "none": None,
            "flag": True,
        },
        {"sk": "2", "name": "it's"},
        {"sk": "3"},
    ]
    for number, item in enumerate(items, 1):
        table.put_item(Item={"pk": "p", "n": number, **item})
    table.put_item(Item={"pk": "q", "sk": "4", "n": 4})


@pytest.mark.spec("X12")
def test_keys_in_several_partitions_are_ordered_by_both_keys(table: Any, run: Run) -> None:
    _fill(table)
    select = "SELECT pk, sk FROM \"T\" WHERE pk IN ['p', 'q'] ORDER BY pk DESC"

    assert ["4", "1", "2", "3"] == sort_keys(run(f"{select}, sk ASC"))
    first = run(select, Limit=2)
    assert ["4", "3"] == sort_keys(first)
    second = run(select, Limit=2, NextToken=first["NextToken"])
    assert ["2", "1"] == sort_keys(second)


def test_a_select_without_a_partition_key_is_a_scan(table: Any, run: Run) -> None:
    _fill(table)

    assert ["3", "4"] == sorted(sort_keys(run('SELECT * FROM "T" WHERE n > 2')))
    assert ["1", "2", "3", "4"] == sorted(sort_keys(run("SELECT * FROM \"T\" WHERE pk = 'p' OR n = 4")))
    assert 4 == len(run('SELECT * FROM "T"')["Items"])


def test_columns_have_the_name_of_the_last_step_of_their_path(table: Any, run: Run) -> None:
    item = {"m": {"k": ["c", {"z": 1}]}, "tags": ["a", "b"], "n": 1}
    table.put_item(Item={"pk": "p", "sk": "1", **item})
    columns = "n, m.k, m.k[0], m.k[1].z, tags[1], tags[-0], tags[7], m.nope"

    assert [{"n": 1, "k": ["c", {"z": 1}], "k[0]": "c", "z": 1, "tags[1]": "b", "tags[0]": "a"}] == run(
        f"SELECT {columns} FROM \"T\" WHERE pk = 'p' AND sk = '1'"
    )["Items"]


@pytest.mark.spec("X12")
def test_a_page_ends_at_its_limit_and_has_a_token(table: Any, run: Run) -> None:
    _fill(table)
    select = 'SELECT sk FROM "T" WHERE pk = ?'
    first = run(select, "p", Limit=2)

    assert {"pk": "p", "sk": "2"} == first["LastEvaluatedKey"]
    assert ["3"] == sort_keys(run(select, "p", NextToken=first["NextToken"]))
    with invalid("NextToken does not match request"):
        run(select, "q", NextToken=first["NextToken"])
    with invalid("Invalid NextToken"):
        run(select, "p", NextToken="abc")


def test_a_read_costs_what_the_classic_read_costs(table: Any, run: Run) -> None:
    _fill(table)
    table.put_item(Item={"pk": "large", "sk": "1", "d": "x" * 9000})

    def units(where: str, **members: Any) -> Decimal:
        found = run(f'SELECT sk FROM "T" WHERE {where}', ReturnConsumedCapacity="TOTAL", **members)
        return Decimal(str(found["ConsumedCapacity"]["CapacityUnits"]))

    assert Decimal("1.5") == units("pk = 'large'")
    assert Decimal(3) == units("pk = 'large' AND sk = '1'", ConsistentRead=True)
    assert Decimal("0.5") == units("pk = 'nobody' AND sk = '1'")
    assert Decimal(2) == units("pk IN ['large', 'p'] AND d IS MISSING")


REFUSED_READS = [
    ("pk IN ['p', 'p']", OVERLAP),
    ("pk = 'p' OR pk = 'p'", OVERLAP),
    ("pk = 'p' AND (sk > '0' OR sk < '5')", OVERLAP),
    ("pk = 'p' AND (sk = '1' OR n = 2)", OVERLAP),
    ("pk = 'p' AND n <> 1 OR pk = 'p' AND sk = '2'", OVERLAP),
    ("pk = 1 OR pk = 'p'", KEY_TYPE + "pk"),
    ("pk = 'p' AND sk IN ['1', 2]", KEY_TYPE + "sk"),
    (f"pk IN [{', '.join(map(repr, map(str, range(51))))}]", TOO_MANY_READS),
    (f"pk = 'p' AND sk IN [{', '.join(map(repr, map(str, range(51))))}]", TOO_MANY_READS),
    (f"pk IN [{', '.join(map(repr, map(str, range(26))))}] AND sk IN ['1', '2']", TOO_MANY_READS),
    (
        f"pk = 'p' AND n IN [{', '.join(map(str, range(101)))}]",
        "The IN operator is provided with too many operands; number of operands: 101",
    ),
    ("pk = 'p' AND n < true", WRONG_OPERAND + "<, operand type: BOOL"),
    ("pk = 'p' AND attribute_exists(n) > false", WRONG_OPERAND + ">, operand type: BOOL"),
    ("pk = 'p' AND n BETWEEN [1] AND [2]", WRONG_OPERAND + "BETWEEN, operand type: L"),
    ("pk = 'p' AND attribute_type(n, 1)", WRONG_OPERAND + "attribute_type, operand type: N"),
    (
        "pk = 'p' AND attribute_exists('n')",
        "Operator or function requires a document path; operator or function: attribute_exists",
    ),
    (
        "pk = 'p' AND attribute_exists()",
        "Incorrect number of operands for operator or function; "
        "operator or function: attribute_exists, number of operands: 0",
    ),
    ("pk = 'p' AND EXISTS(n)", "Unrecognized function: exists at 1:"),
    ("pk = 'p' AND set_add(n, <<1>>) = n", "Unrecognized function: set_add at 1:"),
    ("pk = 'p' AND attribute_exists(m.inner)", MALFORMED + "Invalid path dot component"),
    ("pk = 'p' AND x IS FOO", MALFORMED + "Expected type name"),
    ("pk = 'p' AND", MALFORMED + "Missing right-hand side expression of infix operator"),
    ("pk = LIKE", MALFORMED + "Unexpected operator"),
    ("IS NULL", MALFORMED + "Unexpected operator"),
    ("ORDER BY pk", MALFORMED + "Unexpected keyword"),
    ("", MALFORMED + "Unexpected term"),
    (";", MALFORMED + "Unexpected term"),
    ("NOT", MALFORMED + "Unexpected term"),
    ("(", MALFORMED + "Unexpected term"),
    ("pk = 'p' foo", MALFORMED + "Unexpected token after expression"),
    ("n = 1 e5", MALFORMED + "Unexpected token after expression"),
    ("n = 1)", MALFORMED + "Unexpected token after expression"),
    ("n = 1e2147483648", MALFORMED),
    ("n = 1.5e-2147483647", MALFORMED),
    ("n = 1 # note", MALFORMED),
    ("n = 1 /* note", MALFORMED),
    ("n = 'open", MALFORMED),
    ("n = 1e126", OVERFLOW + " under root"),
    ("n = 1e-131", UNDERFLOW + " under root"),
    ("n = [1, {'x': 1e126}]", OVERFLOW + " under root[1].x"),
    ("n = <<>>", "Empty bags are not supported"),
    ("pk > 'a' ORDER BY sk", "Must have at least one non-optional hash key condition in WHERE clause"),
    ("pk = 'p' ORDER BY n", "Attribute n in ORDER BY clause must be part of the primary key"),
    (
        "pk IN ['p', 'q'] ORDER BY sk DESC",
        "Must have hash key in ORDER BY clause when more than one hash key condition specified in WHERE clause.",
    ),
]


@pytest.mark.parametrize(("where", "message"), REFUSED_READS, ids=[where[:40] for where, _ in REFUSED_READS])
def test_a_where_that_dynamodb_refuses_is_refused(run: Run, where: str, message: str) -> None:
    with invalid(message):
        run(f'SELECT * FROM "T" WHERE {where}')


REFUSED_STATEMENTS = [
    ("SLECT * FROM \"T\" WHERE pk = 'p'", MALFORMED + "Expected data manipulation"),
    ("SELECT * FROM", MALFORMED + "Unexpected term"),
    ("x IS DOUBLE PRECISION", "Unsupported operation: IsType"),
    ("SELECT * FROM \"T\" t WHERE pk = 'p'", "Aliasing is not supported"),
    ("SELECT * FROM \"T\" AS t WHERE pk = 'p'", "Aliasing is not supported"),
    ("UPDATE \"T\" t SET a = 3 WHERE pk = 'x'", "Aliasing is not supported"),
    ("DELETE FROM \"T\" t WHERE pk = 'x'", "Aliasing is not supported"),
    ("INSERT INTO \"T\" t VALUE {'pk': 'x'}", MALFORMED + "Unexpected token after expression"),
    ("INSERT INTO \"T\" VALUE {'pk': 'x'} foo", MALFORMED + "Unexpected token after expression"),
    ('SELECT * FROM "T" ORDER BY pk WHERE pk = 1', MALFORMED + "Unexpected token after expression"),
    ("DELETE FROM \"T\" WHERE pk = 'x' ORDER BY pk", MALFORMED + "Unexpected token after expression"),
    ('SELECT * FROM "T" ORDER BY sk', "Must have WHERE clause in the statement when using ORDER BY clause."),
    ("DELETE FROM", MALFORMED + "Expected identifier for simple path"),
    ("DELETE FROM WHERE pk = 'a'", MALFORMED + "Expected identifier for simple path"),
    ("SELECT * FROM \"\" WHERE pk = 'x'", "Path component cannot be an empty string"),
    ('SELECT * FROM "T"."a"."b"', "A path may contain at most 2 components in the FROM clause"),
    ('SELECT * FROM "T"."lost"', "The table does not have the specified index"),
    ('SELECT l[-1] FROM "T"', "List index is not within the allowable range; index: [-1] at 1:11:1"),
    (
        'SELECT l[2147483648] FROM "T"',
        "List index is not within the allowable range; index: [2147483648] at 1:10:10",
    ),
    ('SELECT attribute_exists(n) FROM "T"', "Unexpected path component at 1:8:16"),
    ('UPDATE "T"."i" SET a = 1 WHERE pk = \'x\'', "This operation is not supported on an index"),
    ("INSERT INTO \"T\".\"i\" VALUE {'pk': 'x'}", "FROM clause may only contain a single table name"),
    ("UPDATE \"T\" SET a = 1 WHERE pk = 'x'", INCOMPLETE),
    ("UPDATE \"T\" SET a = 1 WHERE pk = 'x' AND sk > '1'", INCOMPLETE),
    ('DELETE FROM "T" WHERE a = 1', INCOMPLETE),
    ('FROM "T" SET a = 1', INCOMPLETE),
    ("FROM \"T\" SET a = 1 WHERE pk = 'x'", MALFORMED + "Unexpected token after expression"),
    (
        "UPDATE \"T\" SET a = 1 WHERE pk = 'x' AND sk = '1' AND pk = 'y'",
        "Multiple conditions on same key pk. Only single item Update/Insert/Delete are supported",
    ),
    (
        "DELETE FROM \"T\" WHERE pk = 'x' AND sk = '1' RETURNING MODIFIED OLD *",
        "Invalid returning clause: RETURNING MODIFIED OLD *. "
        "Only RETURNING ALL OLD * is allowed in DELETE statements.",
    ),
    ("INSERT INTO \"T\" VALUE {'pk': 'x', 'm': {'x': 1e126}}", OVERFLOW + " under root.x"),
    (
        "INSERT INTO \"T\" VALUE {'pk': 'x', 's': <<1, 'a'>>}",
        "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags",
    ),
    (
        "INSERT INTO \"T\" VALUE {'pk': 'x', 's': <<'a', 'a'>>}",
        "One or more parameter values were invalid: Input collection [a, a] contains duplicates.",
    ),
    (
        "INSERT INTO \"T\" VALUE {'pk': 'x', 's': set_add(<<'a'>>, <<'b'>>)}",
        "Unsupported data type: set_add under key root at 1:",
    ),
    ("EXISTS(SELECT * FROM \"T\" WHERE pk = 'x' AND a = 1)", "EXISTS can only be used in ExecuteTransaction"),
    ("INSERT INTO \"T\" VALUE {'pk': 'x'}", "Missing the key sk in the item"),
]


@pytest.mark.parametrize(
    ("statement", "message"), REFUSED_STATEMENTS, ids=[each[:50] for each, _ in REFUSED_STATEMENTS]
)
def test_a_statement_that_dynamodb_refuses_is_refused(run: Run, statement: str, message: str) -> None:
    with invalid(message):
        run(statement)


def test_an_unknown_table_is_not_found(run: Run) -> None:
    for statement in ("SELECT * FROM lost", "DELETE FROM lost WHERE a = 1"):
        with refused("ResourceNotFoundException", "Requested resource not found"):
            run(statement)
    with invalid("Table name should be within the length [3, 255]"):
        run('SELECT * FROM "a b c"')


# Indexes


@pytest.fixture
def indexed(make_table: MakeTable) -> Any:
    table = make_table(
        "pk:S",
        "sk:S",
        gsi={"gsi": "g:S shown"},
        lsi={"lsi": "l:S KEYS_ONLY"},
    )
    for number in range(3):
        item = {
            "pk": "p",
            "sk": f"{number}",
            "g": "y",
            "l": f"{2 - number}",
            "shown": number,
            "hidden": number,
        }
        table.put_item(Item=item)
    table.put_item(Item={"pk": "p", "sk": "9", "hidden": 9})
    return table


def test_a_select_reads_an_index(indexed: Any) -> None:
    def rows(statement: str, **members: Any) -> list[Any]:
        sent = named(indexed, statement)
        found: list[Any] = indexed.meta.client.execute_statement(Statement=sent, **members)["Items"]
        return found

    assert 3 == len(rows('SELECT * FROM "T"."gsi" WHERE g = \'y\''))
    assert {"pk", "sk", "g", "shown"} == rows('SELECT * FROM "T"."gsi" WHERE g = \'y\'')[0].keys()
    assert ["2", "1", "0"] == [
        each["sk"] for each in rows('SELECT * FROM "T"."lsi" WHERE pk = \'p\'', ConsistentRead=True)
    ]
    assert [{"hidden": 1}] == rows("SELECT hidden FROM \"T\".\"lsi\" WHERE pk = 'p' AND l = '1'")
    assert [] == rows('SELECT pk FROM "T"."gsi" WHERE hidden = 1')
    assert 3 == len(rows('SELECT pk FROM "T"."lsi" WHERE NOT hidden = 1'))
    assert 1 == len(rows('SELECT pk FROM "T"."gsi" WHERE g = \'y\' AND shown = 1'))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            'SELECT pk FROM "T"."gsi" WHERE g = \'y\' AND hidden = 1',
            "Secondary index gsi does not project one or more filter attributes: [hidden]",
        ),
        (
            'SELECT pk FROM "T"."lsi" WHERE pk = \'p\' AND NOT hidden = 1',
            "Secondary index lsi does not project one or more filter attributes: [hidden]",
        ),
        (
            'SELECT hidden, other FROM "T"."gsi" WHERE g = \'y\'',
            "Global secondary index gsi does not project [hidden, other]",
        ),
        ('SELECT hidden FROM "T"."gsi"', "Global secondary index gsi does not project [hidden]"),
    ],
)
def test_an_index_has_only_what_it_projects(indexed: Any, statement: str, message: str) -> None:
    with invalid(message):
        indexed.meta.client.execute_statement(Statement=named(indexed, statement))


def test_a_global_index_is_not_read_consistently(indexed: Any) -> None:
    with invalid("Strongly consistent read is not supported on Global Secondary Indexes"):
        indexed.meta.client.execute_statement(
            Statement=named(indexed, 'SELECT * FROM "T"."gsi"'), ConsistentRead=True
        )


def test_an_index_with_a_key_of_several_attributes_is_refused(make_table: MakeTable, client: Any) -> None:
    name = make_table("id:S").name
    key = [("h", "HASH"), ("i", "HASH"), ("r", "RANGE")]
    index = {
        "IndexName": "gsi",
        "KeySchema": [{"AttributeName": each, "KeyType": kind} for each, kind in key],
        "Projection": {"ProjectionType": "ALL"},
    }
    client.update_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each, _ in key],
        GlobalSecondaryIndexUpdates=[{"Create": index}],
    )
    refusal = "PartiQL statements cannot be executed on tables with multi-attribute HASH keys"

    for where in ("h = 'a'", "h = 5", "id = 'i'", "h = 'a' AND i = 'x' ORDER BY r DESC"):
        with invalid(refusal):
            client.execute_statement(Statement=f'SELECT * FROM "{name}".gsi WHERE {where}')
    answer = client.batch_execute_statement(
        Statements=[
            {"Statement": f"SELECT * FROM \"{name}\".gsi WHERE h = 'a' AND i = 'x' AND r = 'm'"},
            {"Statement": f"SELECT * FROM \"{name}\" WHERE id = 'i'"},
        ]
    )["Responses"]
    assert refusal in answer[0]["Error"]["Message"]
    assert {"TableName": name} == answer[1]


# Writes


@pytest.mark.spec("X12")
def test_an_insert_stores_an_item_once(table: Any, run: Run) -> None:
    statement = (
        "INSERT INTO \"T\" VALUE {'pk': ?, 'sk': '1', 'n': -1.5e-3, 'm': {'l': [1, 'x', null, true]}, "
        "'ns': <<1, 34, 4.5>>, 'ss': <<'a'>>, 'q': 'it''s'}"
    )

    assert [] == run(statement, "p")["Items"]
    assert {
        "pk": "p",
        "sk": "1",
        "n": Decimal("-0.0015"),
        "m": {"l": [1, "x", None, True]},
        "ns": {Decimal(1), Decimal(34), Decimal("4.5")},
        "ss": {"a"},
        "q": "it's",
    } == table.get_item(Key={"pk": "p", "sk": "1"})["Item"]
    with refused("DuplicateItemException", "Duplicate primary key exists in table"):
        run(statement, "p")


UPDATES = [
    ("SET n = n - - 2", {"n": 7}),
    ("SET n=n-1", {"n": 4}),
    ("SET n = 1 + n", {"n": 6}),
    ("SET m.x = 'new', m.y = [2020, <<'a'>>]", {"m": {"x": "new", "y": [2020, {"a"}]}}),
    ("SET l = list_append(l, [3]) SET n = 1", {"l": [1, 2, 3], "n": 1}),
    ("SET l = LIST_APPEND([0], l)", {"l": [0, 1, 2]}),
    ("REMOVE l[0] REMOVE m", {"l": [2], "m": None}),
    ("SET ss = set_add(ss, <<'c'>>) SET ns = set_delete(ns, <<1>>)", {"ss": {"a", "b", "c"}, "ns": {2}}),
    ("SET fresh = SET_ADD(fresh, <<'m'>>)", {"fresh": {"m"}}),
    ("SET ns = set_delete(ns, <<1, 2>>)", {"ns": None}),
    ("SET lost = set_delete(lost, <<1>>)", {"lost": None}),
    ("SET copy = n", {"copy": 5}),
]


@pytest.mark.parametrize(("changes", "expected"), UPDATES, ids=[changes for changes, _ in UPDATES])
@pytest.mark.parametrize("form", ["UPDATE", "FROM"])
def test_an_update_changes_an_item(
    table: Any, run: Run, form: str, changes: str, expected: dict[str, Any]
) -> None:
    key = {"pk": "p", "sk": "1"}
    item = {**key, "n": 5, "m": {"x": "old"}, "l": [1, 2], "ss": {"a", "b"}, "ns": {1, 2}}
    table.put_item(Item=item)
    where = "WHERE pk = 'p' AND sk = '1' AND n = 5"
    run(f'UPDATE "T" {changes} {where}' if form == "UPDATE" else f'FROM "T" {where} {changes}')

    after = {name: value for name, value in {**item, **expected}.items() if value is not None}
    assert after == table.get_item(Key=key)["Item"]


def test_the_second_argument_of_set_add_can_be_a_parameter(table: Any, run: Run) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "s": {"a"}})
    update = "UPDATE \"T\"\nSET s = set_add(s, ?) WHERE pk = 'p' AND sk = '1'"
    run(update, {"b"})

    assert {"a", "b"} == table.get_item(Key={"pk": "p", "sk": "1"})["Item"]["s"]
    with invalid("The second argument to SET_ADD must be a value with type SET at 2:17:1"):
        run(update, "b")


WRONG_UPDATES = [
    ("t = set_add(ss, <<'x'>>)", "The first argument to SET_ADD must equal the assignment value at 1:"),
    ("ss = set_delete(ss, ['a'])", "The second argument to SET_DELETE must be a value with type SET at 1:"),
    ("ss = set_add(ss)", "SET_ADD must have exactly two arguments at 1:"),
    ("ss = set_add(ss, <<1>>)", "An operand in the update expression has an incorrect data type"),
    ("n = 'a' + 1", WRONG_OPERAND + "+, operand type: S"),
    ("n = n - null", WRONG_OPERAND + "-, operand type: NULL"),
    (
        "x = list_append(x, [1])",
        "The provided expression refers to an attribute that does not exist in the item",
    ),
    ("x[0] = 1", "The document path provided in the update expression is invalid for update"),
    ("pk = 'q'", "Cannot update attribute pk. This attribute is part of the key"),
    ("x = [?]", "Unsupported data type: Parameter under key root[0] at 1:"),
    ("x = 1e-131", UNDERFLOW + " under root"),
    (
        "x = " + "[" * 32 + "1" + "]" * 32,
        "Nesting Levels have exceeded supported limits under root" + "[0]" * 32,
    ),
]


@pytest.mark.parametrize(
    ("change", "message"), WRONG_UPDATES, ids=[change[:30] for change, _ in WRONG_UPDATES]
)
def test_an_update_that_dynamodb_refuses_changes_nothing(
    table: Any, run: Run, change: str, message: str
) -> None:
    item = {"pk": "p", "sk": "1", "ss": {"a"}, "n": 1}
    table.put_item(Item=item)
    with invalid(message):
        run(f"UPDATE \"T\" SET {change} WHERE pk = 'p' AND sk = '1'", *(["v"] if "?" in change else []))

    assert item == table.get_item(Key={"pk": "p", "sk": "1"})["Item"]


@pytest.mark.spec("X12")
def test_an_update_needs_an_item_and_a_delete_does_not(table: Any, run: Run) -> None:
    where = "WHERE pk = 'p' AND sk = '1'"
    for condition in ("", " AND attribute_not_exists(pk)"):
        with refused("ConditionalCheckFailedException", "The conditional request failed"):
            run(f'UPDATE "T" SET a = 1 {where}{condition}')

    assert [] == run(f'DELETE FROM "T" {where}')["Items"]
    assert [] == run(f'DELETE FROM "T" {where} AND a = 1 RETURNING ALL OLD *')["Items"]
    assert 0 == table.scan()["Count"]


@pytest.mark.spec("X12")
def test_the_rest_of_a_where_is_the_condition_of_a_write(table: Any, run: Run) -> None:
    item = {"pk": "p", "sk": "1", "a": 1}
    table.put_item(Item=item)
    for statement in (
        "UPDATE \"T\" SET a = 2 WHERE pk = 'p' AND sk = '1' AND a = 3",
        "DELETE FROM \"T\" WHERE pk = 'p' AND sk = '1' AND (a = 3 OR b = 1)",
    ):
        with pytest.raises(ClientError) as caught:
            run(statement, ReturnValuesOnConditionCheckFailure="ALL_OLD")
        assert {"pk": {"S": "p"}, "sk": {"S": "1"}, "a": {"N": "1"}} == caught.value.response["Item"]
    assert [item] == run("DELETE FROM \"T\" WHERE (pk = 'p' AND sk = '1') AND a = 1 RETURNING ALL OLD *")[
        "Items"
    ]


@pytest.mark.parametrize(
    ("returning", "expected"),
    [
        ("ALL OLD", [{"pk": "p", "sk": "1", "a": 1, "l": ["a", "b", "c"]}]),
        ("ALL NEW", [{"pk": "p", "sk": "1", "a": 2, "l": ["x", "b", "y"]}]),
        ("MODIFIED OLD", [{"a": 1, "l": ["a", "c"]}]),
        ("MODIFIED NEW", [{"a": 2, "l": ["x", "y"]}]),
    ],
)
def test_an_update_returns_the_wanted_attributes(
    table: Any, run: Run, returning: str, expected: list[Any]
) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "a": 1, "l": ["a", "b", "c"]})
    update = "UPDATE \"T\" SET a = 2, l[2] = 'y', l[0] = 'x' WHERE pk = 'p' AND sk = '1'"

    assert expected == run(f"{update} RETURNING {returning} *")["Items"]


def test_modified_attributes_without_a_value_are_no_row(table: Any, run: Run) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "a": 1})
    where = "WHERE pk = 'p' AND sk = '1'"

    assert [] == run(f'UPDATE "T" SET b = 1 {where} RETURNING MODIFIED OLD *')["Items"]
    assert [] == run(f'UPDATE "T" REMOVE a {where} RETURNING MODIFIED NEW *')["Items"]


# Parameters


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"N": "1e99999999999"}, "The parameter cannot be converted to a numeric value: 1e99999999999"),
        ({"N": "1e-2147483648"}, "The parameter cannot be converted to a numeric value: 1e-2147483648"),
        ({"L": [{"NS": ["1", "1e2147483648"]}]}, "cannot be converted to a numeric value: 1e2147483648"),
        ({"N": "1e2147483647"}, UNDERFLOW),
        ({"N": ""}, "The parameter cannot be converted to a numeric value"),
        (
            {"SS": ["a", "a"]},
            "One or more parameter values were invalid: Input collection [a, a] contains duplicates.",
        ),
        (
            {"NULL": False},
            "One or more parameter values were invalid: Null attribute value types must have the value of true",
        ),
    ],
)
def test_parameters_are_checked_before_the_statement(
    client: Any, parameter: dict[str, Any], message: str
) -> None:
    with refused("ValidationException") as refusal:
        client.execute_statement(Statement="UPDATE lost SET WHERE", Parameters=[parameter])

    assert refusal.message.endswith(message)
    assert not refusal.message.startswith("1 validation error")


def test_a_statement_has_as_many_parameters_as_question_marks(run: Run) -> None:
    for parameters in ((), ("a", "b")):
        with invalid("Number of parameters in request and statement don't match."):
            run('SELECT * FROM "T" WHERE pk = ?', *parameters)


# Batches


@pytest.mark.spec("X12")
def test_a_batch_answers_each_statement(table: Any) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "a": {"b": 1}})
    answer = in_batch(
        table,
        "SELECT a.b FROM \"T\" WHERE pk = 'p' AND sk = '1'",
        "SELECT * FROM \"T\" WHERE pk = 'p' AND sk = '2'",
        "SELECT * FROM \"T\" WHERE pk = 'p'",
        "SELECT * FROM \"T\" WHERE pk = 'p' AND sk = '1' AND n = 1",
        'SLECT * FROM "T"',
        "SELECT * FROM lost WHERE pk = 'p'",
        ReturnConsumedCapacity="TOTAL",
    )
    name = table.name

    assert [{"TableName": name, "Item": {"b": 1}}, {"TableName": name}] == answer["Responses"][:2]
    assert [
        {"Code": "ValidationError", "Message": BATCH_KEY},
        {"Code": "ValidationError", "Message": BATCH_KEY},
        {"Code": "ValidationError", "Message": MALFORMED + "Expected data manipulation"},
        {"Code": "ResourceNotFound", "Message": "Requested resource not found"},
    ] == [each["Error"] for each in answer["Responses"][2:]]
    assert [{"TableName": name, "CapacityUnits": 0.5}] * 2 == answer["ConsumedCapacity"]


@pytest.mark.spec("X12")
def test_a_batch_writes_each_statement_on_its_own(table: Any) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "a": 1})
    answer = table.meta.client.batch_execute_statement(
        Statements=[
            {"Statement": named(table, "INSERT INTO \"T\" VALUE {'pk': 'p', 'sk': '2'}")},
            {"Statement": named(table, "INSERT INTO \"T\" VALUE {'pk': 'p', 'sk': '1'}")},
            {
                "Statement": named(table, "DELETE FROM \"T\" WHERE pk = 'p' AND sk = '1' AND a = ?"),
                "Parameters": [2],
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            },
            {"Statement": named(table, "DELETE FROM \"T\" WHERE pk = 'p' AND sk = '1' RETURNING ALL OLD *")},
        ]
    )["Responses"]
    name = table.name

    assert [
        {"TableName": name},
        {
            "TableName": name,
            "Error": {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"},
        },
        {
            "TableName": name,
            "Error": {
                "Code": "ConditionalCheckFailed",
                "Message": "The conditional request failed",
                "Item": {"pk": "p", "sk": "1", "a": 1},
            },
        },
        {"TableName": name, "Item": {"pk": "p", "sk": "1", "a": 1}},
    ] == answer
    assert [{"pk": "p", "sk": "2"}] == table.scan()["Items"]


def test_a_batch_is_at_most_25_statements_that_all_read_or_write(table: Any) -> None:
    with invalid("Member must have length less than or equal to 25"):
        in_batch(table, *["SELECT * FROM \"T\" WHERE pk = 'p' AND sk = '1'"] * 26)
    with invalid("does not support both read and write operations in the same request"):
        in_batch(table, 'SELECT * FROM "T"', "DELETE FROM \"T\" WHERE pk = 'p' AND sk = '1'")


# Transactions


def _reasons(error: ClientError) -> list[str]:
    return [reason["Code"] for reason in error.response["CancellationReasons"]]


@pytest.mark.spec("X12")
def test_a_transaction_writes_all_or_nothing(table: Any) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "n": 1})
    insert = "INSERT INTO \"T\" VALUE {'pk': 'p', 'sk': '2'}"
    update = "UPDATE \"T\" SET n = n + 1 WHERE pk = 'p' AND sk = '1'"

    assert [] == in_transaction(table, insert, update)["Responses"]
    with pytest.raises(ClientError) as caught:
        in_transaction(table, update, insert)
    assert ["None", "DuplicateItem"] == _reasons(caught.value)
    assert (
        "Duplicate primary key exists in table" == caught.value.response["CancellationReasons"][1]["Message"]
    )
    assert 2 == table.get_item(Key={"pk": "p", "sk": "1"})["Item"]["n"]


@pytest.mark.spec("X12")
def test_statements_of_several_turns_are_one_transaction(table: Any) -> None:
    inserts = [
        f"INSERT INTO \"T\" VALUE {{'pk': 'p', 'sk': '{number}', 'text': '{'x' * 8000}'}}"
        for number in range(4)
    ]

    assert [] == in_transaction(table, *inserts)["Responses"]
    assert 4 == table.scan(Select="COUNT")["Count"]
    assert ["DuplicateItem"] * 4 == [each["Error"]["Code"] for each in in_batch(table, *inserts)["Responses"]]


@pytest.mark.spec("X12")
def test_exists_checks_a_condition(table: Any) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "free": True})
    table.put_item(Item={"pk": "p", "sk": "2"})
    update = "UPDATE \"T\" SET n = 1 WHERE pk = 'p' AND sk = '2'"
    in_transaction(
        table, "EXISTS(SELECT * FROM \"T\" WHERE (pk = 'p' AND sk = '1') AND taken IS MISSING)", update
    )

    for condition in ("free = false", "pk = 'q' AND free = true"):
        with pytest.raises(ClientError) as caught:
            in_transaction(
                table, f"EXISTS(SELECT * FROM \"T\" WHERE pk = 'p' AND sk = '1' AND {condition})", update
            )
        assert ["ConditionalCheckFailed", "None"] == _reasons(caught.value)
    for condition in ("pk = 'p' AND sk = '1'", "pk IN ['p'] AND sk = '1' AND free = true"):
        with invalid(IN_TRANSACTION + "EXISTS() must contain a single item read with additional condition"):
            in_transaction(table, f'EXISTS(SELECT * FROM "T" WHERE {condition})', update)


@pytest.mark.spec("X12")
def test_a_transaction_reads_its_items(table: Any) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "a": {"b": 1}})
    answer = in_transaction(
        table,
        "SELECT a.b FROM \"T\" WHERE (sk = '1') AND pk = 'p' AND pk = 'p'",
        "SELECT * FROM \"T\" WHERE pk IN ['p'] AND sk IN ['2']",
        ReturnConsumedCapacity="TOTAL",
    )

    assert [{"Item": {"b": 1}}, {}] == answer["Responses"]
    assert [{"TableName": table.name, "CapacityUnits": 4.0, "ReadCapacityUnits": 4.0}] == answer[
        "ConsumedCapacity"
    ]


@pytest.mark.spec("X12")
def test_a_repeated_token_does_not_write_twice(table: Any) -> None:
    table.put_item(Item={"pk": "p", "sk": "1", "n": 0})
    update = "UPDATE \"T\" SET n = n + 1 WHERE pk = 'p' AND sk = '1'"
    counted = {"ClientRequestToken": "token", "ReturnConsumedCapacity": "INDEXES"}
    first, second = (in_transaction(table, update, **counted)["ConsumedCapacity"][0] for _ in range(2))

    assert (2.0, 2.0) == (first["WriteCapacityUnits"], second["ReadCapacityUnits"])
    assert 1 == table.get_item(Key={"pk": "p", "sk": "1"})["Item"]["n"]
    with refused("IdempotentParameterMismatchException"):
        in_transaction(table, update.replace("+ 1", "+ 2"), **counted)


SELECT_ONE = "SELECT * FROM \"T\" WHERE pk = 'p' AND sk = '1'"
UPDATE_ONE = "UPDATE \"T\" SET a = 1 WHERE pk = 'p' AND sk = '1'"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (
            [f"{UPDATE_ONE} RETURNING ALL NEW *"],
            IN_TRANSACTION + "RETURNING clause is not supported in ExecuteTransaction.",
        ),
        (['SELECT * FROM "T" WHERE'], IN_TRANSACTION + MALFORMED + "Unexpected term"),
        ([f"{SELECT_ONE} AND n = 1"], IN_TRANSACTION + "Select statements within ExecuteTransaction must"),
        (["SELECT * FROM \"T\" WHERE pk = 'p'"], IN_TRANSACTION + "Select statements within"),
        ([f"{SELECT_ONE} AND pk = 'q'"], IN_TRANSACTION + "Select statements within"),
        (
            ["SELECT * FROM \"T\" WHERE pk IN ['a', 'a'] AND sk = '1'"],
            IN_TRANSACTION + OVERLAP,
        ),
        (
            ['SELECT * FROM "T"."i"'],
            IN_TRANSACTION + "Reads on indices are not supported within transactions.",
        ),
        ([UPDATE_ONE.replace("a = 1", "a = a + [1]")], IN_TRANSACTION + WRONG_OPERAND + "+, operand type: L"),
        ([SELECT_ONE, UPDATE_ONE], "ExecuteTransaction API does not support both read and write operations"),
        ([SELECT_ONE, SELECT_ONE], "Transaction request cannot include multiple operations on one item"),
    ],
)
def test_a_transaction_that_dynamodb_refuses_is_refused(
    table: Any, statements: list[str], message: str
) -> None:
    with invalid(message):
        in_transaction(table, *statements)


@pytest.mark.parametrize(
    ("statements", "codes"),
    [
        (["DELETE FROM lost WHERE pk = 'x'", UPDATE_ONE], ["ResourceNotFound", "None"]),
        ([SELECT_ONE, "SELECT * FROM lost.idx WHERE pk = 'x'"], ["None", "ResourceNotFound"]),
        (
            [SELECT_ONE, SELECT_ONE, "SELECT * FROM \"T\" WHERE pk = 1 AND sk = '1'"],
            ["None", "None", "ValidationError"],
        ),
        (
            [
                "UPDATE \"T\" SET a = 1 WHERE pk = 'k'",
                "UPDATE \"T\" SET a = 1 WHERE pk IN ['k'] AND sk = '1'",
                "UPDATE \"T\" SET a = 1 WHERE pk = 'k' AND sk = '1' AND pk = 'o'",
                UPDATE_ONE,
            ],
            ["ValidationError", "ValidationError", "ValidationError", "None"],
        ),
        (["INSERT INTO \"T\" VALUE {'pk': 'k'}"], ["ValidationError"]),
    ],
)
def test_a_statement_without_table_or_item_cancels(
    table: Any, statements: list[str], codes: list[str]
) -> None:
    with pytest.raises(ClientError) as caught:
        in_transaction(table, *statements)

    assert "TransactionCanceledException" == caught.value.response["Error"]["Code"]
    assert codes == _reasons(caught.value)


# The past


@pytest.mark.spec("X12", "H3")
def test_a_select_reads_the_past(table: Any, run: Run) -> None:
    for number in range(3):
        last = table.put_item(Item={"pk": "p", "sk": f"{number}", "m": {"n": number}})
    position = last["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    table.delete_item(Key={"pk": "p", "sk": "1"})
    past = f'"{table.name}@{position}"'

    assert ["0", "1", "2"] == sort_keys(run(f"SELECT * FROM {past} WHERE pk = 'p'"))
    assert [{"n": 1}] == run(f"SELECT m.n FROM {past} WHERE pk = 'p' AND sk = '1'")["Items"]
    assert 3 == len(run(f"SELECT * FROM {past}")["Items"])
    assert [{"Item": {"n": 1}}] == in_transaction(
        table, f"SELECT m.n FROM {past} WHERE pk = 'p' AND sk = '1'"
    )["Responses"]
    assert (
        1
        == in_batch(table, f"SELECT m.n FROM {past} WHERE pk = 'p' AND sk = '1'")["Responses"][0]["Item"]["n"]
    )


def test_an_error_of_a_later_read_is_answered(table: Any, run: Run) -> None:
    past = f'"{table.name}@-0"'
    with invalid("Key attributes must be scalars"):
        run(f"SELECT * FROM {past} WHERE pk = 'p' AND sk = '1' OR pk = 'q' AND sk = '2' AND pk.x = 1")


def test_pages_of_an_age_are_of_one_time(table: Any, run: Run) -> None:
    for number in range(3):
        table.put_item(Item={"pk": "p", "sk": f"{number}"})
    select = f"SELECT * FROM \"{table.name}@-0\" WHERE pk IN ['p', 'q']"
    first = run(select, Limit=2)
    table.delete_item(Key={"pk": "p", "sk": "2"})

    assert ["2"] == sort_keys(run(select, NextToken=first["NextToken"]))


def test_the_past_is_not_written(table: Any, run: Run) -> None:
    past = f'"{table.name}@-1h"'
    with invalid("names a state of the past, which INSERT cannot use"):
        run(f"INSERT INTO {past} VALUE {{'pk': 'p', 'sk': '1'}}")
    with invalid("names a state of the past"):
        in_transaction(table, f"DELETE FROM {past} WHERE pk = 'p' AND sk = '1'")
