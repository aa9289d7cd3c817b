"""PartiQL: tokens, parsing and the requests that statements become."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb.expressions.partiql import Exists, Select, action_of, bind, parse, reads_of, request_of
from foldb.expressions.partiql.tokens import END, tokenize
from foldb.model.errors import ValidationError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN
from tests.verification.fuzz.of_statements import TEXTS, WORDS, compile_statement, judge_statement
from tests.verification.fuzz.steps import bounded

TABLE = KeySchema((KeyAttribute("p", "S"),), (KeyAttribute("q", "N"),))
WHERE = "SELECT * FROM abc WHERE "
LONGEST = 2048


def requests(text: str, *parameters: Any) -> list[dict[str, Any]]:
    bound = bind(parse(text, MODERN), list(parameters))
    assert isinstance(bound.kind, Select)
    found = reads_of(bound, bound.kind, TABLE, composite=bound.kind.index is not None)
    return [request_of(each, bound, bound.kind, forward=found.forward) for each in found.reads]


def action(text: str, *parameters: Any) -> tuple[str, dict[str, Any]]:
    found = action_of(bind(parse(text, MODERN), list(parameters)), TABLE)
    return found.kind, found.request


def test_a_token_has_its_line_column_and_length() -> None:
    tokens = tokenize('a /* b\n */ "c""d"\n\'e\' -- f')

    assert [("a", "at 1:1:1"), ('c"d', "at 2:5:6"), ("e", "at 3:1:3")] == [
        (token.text, token.at) for token in tokens if token.kind != END
    ]


@pytest.mark.parametrize(
    "text", ["'open", '"open', "/* open", "#", "a ! b", "`ion`", "\x00", "é", "a\ufeff"], ids=repr
)
def test_text_that_starts_no_token_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"can't be processed: $"):
        tokenize(text)


def test_a_whole_key_is_one_item() -> None:
    assert [{"TableName": "abc", "Key": {"q": {"N": "1"}, "p": {"S": "a"}}}] == requests(
        f"{WHERE}1 = q AND p = ?", {"S": "a"}
    )


def test_conditions_on_keys_are_separated_from_the_filter() -> None:
    text = (
        "SELECT a.d[0], a, \"x y\" FROM abc.gsi WHERE p = 'k' "
        "AND (a = 1 OR NOT (b = null AND a.c[2] IN [true, 'it''s'])) AND q > 2 ORDER BY q DESC"
    )
    (request,) = requests(text)
    names = {"#n0": "p", "#n1": "q", "#n2": "a", "#n3": "b", "#n4": "c", "#n5": "x y"}

    assert "#n0 = :v0 AND #n1 > :v5" == request["KeyConditionExpression"]
    assert "#n2 = :v1 OR NOT (#n3 = :v2 AND #n2.#n4[2] IN (:v3, :v4))" == request["FilterExpression"]
    assert "#n2, #n5" == request["ProjectionExpression"]
    assert names == request["ExpressionAttributeNames"]
    assert ("abc", "gsi", False) == tuple(
        request[name] for name in ("TableName", "IndexName", "ScanIndexForward")
    )


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("p IN ['b', 'a']", [("a", None), ("b", None)]),
        ("p = 'a' AND (q = 2 OR q = 1)", [("a", "1"), ("a", "2")]),
        ("p = 'b' AND q = 1 OR p = 'a' AND (q = 3 OR q = 2)", [("a", "2"), ("a", "3"), ("b", "1")]),
        ("p IN ['a', 'b'] AND q IN (1, 2)", [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]),
        ("(p IN ['a']) AND p = 'a' AND q = 2", [("a", "2")]),
    ],
)
def test_branches_on_the_key_are_reads_in_order(where: str, keys: list[tuple[str, str | None]]) -> None:
    found = [
        (each["Key"]["p"]["S"], each["Key"]["q"]["N"])
        if "Key" in each
        else (each["ExpressionAttributeValues"][next(iter(each["ExpressionAttributeValues"]))]["S"], None)
        for each in requests(WHERE + where)
    ]

    assert keys == found


def test_a_branch_without_a_partition_key_makes_a_scan() -> None:
    (only,) = requests(f"{WHERE}p = 'a' OR q = 1 AND (x = 1 OR y = 2)")

    assert "#n0 = :v0 OR #n1 = :v1 AND (#n2 = :v2 OR #n3 = :v3)" == only["FilterExpression"]


def test_an_update_has_one_section_of_each_kind() -> None:
    kind, request = action(
        "UPDATE abc SET a = a + 1, b.c = ? REMOVE d SET s = set_add(s, <<'x'>>) SET n = set_delete(n, <<1>>) "
        "WHERE p = 'k' AND q = 1 AND (e = 1 OR f = 2) RETURNING MODIFIED OLD *",
        {"S": "x"},
    )

    assert ("Update", "UPDATED_OLD") == (kind, request["ReturnValues"])
    assert (
        "SET #n0 = #n0 + :v0, #n1.#n2 = :p0 REMOVE #n3 ADD #n4 :v1 DELETE #n5 :v2"
        == request["UpdateExpression"]
    )
    assert "attribute_exists(#n6) AND (#n7 = :v5 OR #n8 = :v6)" == request["ConditionExpression"]
    assert {"p": {"S": "k"}, "q": {"N": "1"}} == request["Key"]


def test_a_delete_is_conditional_only_on_an_item() -> None:
    assert ("Delete", {"TableName": "abc", "Key": {"p": {"S": "k"}, "q": {"N": "1"}}}) == action(
        "DELETE FROM abc WHERE p = 'k' AND q = 1"
    )
    assert (
        "attribute_not_exists(#n0) OR #n1 = :v2"
        == action("DELETE FROM abc WHERE p = 'k' AND q = 1 AND a = 1")[1]["ConditionExpression"]
    )


def test_exists_is_a_check_of_one_item() -> None:
    text = "EXISTS(SELECT * FROM abc WHERE p = 'k' AND q = 1 AND a IS NOT MISSING)"

    assert isinstance(parse(text, MODERN).kind, Exists)
    assert ("ConditionCheck", "attribute_exists(#n0)") == (
        action(text)[0],
        action(text)[1]["ConditionExpression"],
    )


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it''s'", {"S": "it's"}),
        ("-.50e1", {"N": "-5"}),
        ("- + - 7.", {"N": "7"}),
        ("['-', '+']", {"L": [{"S": "-"}, {"S": "+"}]}),
        ("<<10, 9>>", {"NS": ["9", "10"]}),
        ("[1, ['a'], {}]", {"L": [{"N": "1"}, {"L": [{"S": "a"}]}, {"M": {}}]}),
        ("{'a': {'b': null}, 'c': FALSE}", {"M": {"a": {"M": {"b": {"NULL": True}}}, "c": {"BOOL": False}}}),
    ],
)
def test_a_literal_is_a_canonical_value(literal: str, value: dict[str, Any]) -> None:
    _, request = action(f"INSERT INTO abc VALUE {{'p': 'k', 'q': 1, 'v': {literal}}}")

    assert value == request["Item"]["v"]


def test_a_quoted_star_is_a_name() -> None:
    (request,) = requests('SELECT a."*" FROM abc WHERE a."*" = 1')

    assert {"#n0": "a", "#n1": "*"} == request["ExpressionAttributeNames"]


@pytest.mark.parametrize("right", ["a - b - c", "a - (b - c)"])
def test_a_set_has_one_operator(right: str) -> None:
    with pytest.raises(ValidationError, match=r"Unsupported operator in Update Expression\. Operator: -"):
        action(f"UPDATE abc SET d = {right} WHERE p = 'k' AND q = 1")


@pytest.mark.parametrize("text", TEXTS)
def test_each_sample_of_the_fuzzer_compiles(text: str) -> None:
    compile_statement(text.replace("?", "'x'", 1) if "SET a['b']" not in text else text)


HOSTILE = {
    "open parentheses": (WHERE, "(", 1),
    "conditions": (WHERE + "p = 'a'", " AND a=1", 8),
    "alternatives": (WHERE + "p = 'a' AND (q=1", " OR q=2", 7),
    "negations": (WHERE, "NOT ", 4),
    "choices": (WHERE + "p IN ['a'", ",'b'", 4),
    "signs": (WHERE + "a = ", "- ", 2),
    "lists": (WHERE + "a = ", "[", 1),
    "elements": (WHERE + "a = [1", ",1", 2),
    "parameters": (WHERE + "a IN [?", ",?", 2),
    "steps of a path": ("SELECT a", ".a", 2),
    "quotes": (WHERE + "a = '", "''", 2),
    "comments": ("", "/**/", 4),
    "stars in a comment": ("/*", "*", 1),
    "blocks": (WHERE, "(a=1 OR ", 8),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    head, more, size = HOSTILE[name]

    def steps(length: int) -> int:
        text = head + more * ((length - len(head)) // size)
        return bounded(5_000_000, judge_statement, text.encode())[1]

    assert steps(LONGEST) <= 2.2 * steps(LONGEST // 2) + 1000
    assert steps(LONGEST) <= 150 * LONGEST


def test_conditions_nest_at_most_64_times() -> None:
    compile_statement(f"{WHERE}{'(' * 64}a = 1{')' * 64}")
    for nested in ("(", "size("):
        with pytest.raises(ValidationError, match="Too many nested expressions"):
            compile_statement(f"{WHERE}{nested * 65}a{')' * 65}")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=30).map(" ".join))
def test_any_text_is_refused_in_words_or_compiles(text: str) -> None:
    judge_statement(text.encode("utf-8", "replace"))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_changed_statement_is_refused_in_words_or_compiles(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    judge_statement((text[:start] + data.draw(st.sampled_from(("", *WORDS))) + text[end:]).encode())
