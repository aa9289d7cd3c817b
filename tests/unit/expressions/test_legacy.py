"""The parameters that expressions replaced."""

from dataclasses import replace
from typing import Any

import pytest

from foldb import expressions
from foldb.expressions import check_mixing, compile_legacy
from foldb.expressions.tree import Comparison, Reference
from foldb.model.errors import ValidationError
from foldb.model.limits import MODERN
from foldb.model.values import Item

ITEM: Item = {
    "n": {"N": "10"},
    "word": {"S": "hello"},
    "tags": {"SS": ["a", "b"]},
    "seq": {"L": [{"S": "x"}]},
}


def clause(operator: str, *operands: dict[str, Any]) -> dict[str, Any]:
    return {"ComparisonOperator": operator, "AttributeValueList": list(operands)}


def meets(filters: dict[str, Any], operator: str | None = None, item: Item = ITEM) -> bool:
    plan, values = compile_legacy(scan_filter=filters, conditional_operator=operator)
    assert plan.filter is not None
    return plan.filter.holds(item, values)


def refusal(**parameters: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        compile_legacy(**parameters)
    return caught.value.message.removeprefix("One or more parameter values were invalid: ")


@pytest.mark.parametrize(
    ("attribute", "operator", "operands", "held"),
    [
        ("n", "EQ", [{"N": "10.0"}], True),
        ("n", "EQ", [{"S": "10"}], False),
        ("n", "NE", [{"N": "10"}], False),
        ("lost", "NE", [{"N": "10"}], True),
        ("tags", "EQ", [{"SS": ["b", "a"]}], True),
        ("seq", "EQ", [{"L": [{"S": "x"}]}], True),
        ("n", "LT", [{"N": "10"}], False),
        ("n", "LE", [{"N": "10"}], True),
        ("n", "GT", [{"N": "9"}], True),
        ("n", "GE", [{"N": "11"}], False),
        ("n", "BETWEEN", [{"N": "9"}, {"N": "11"}], True),
        ("n", "IN", [{"N": "1"}, {"N": "10"}], True),
        ("n", "IN", [{"N": "1"}], False),
        ("word", "BEGINS_WITH", [{"S": "hell"}], True),
        ("word", "CONTAINS", [{"S": "ell"}], True),
        ("tags", "CONTAINS", [{"S": "b"}], True),
        ("tags", "NOT_CONTAINS", [{"S": "b"}], False),
        ("word", "NOT_CONTAINS", [{"S": "z"}], True),
        ("lost", "NULL", [], True),
        ("n", "NULL", [], False),
        ("n", "NOT_NULL", [], True),
    ],
)
def test_the_thirteen_operators(attribute: str, operator: str, operands: list[Any], held: bool) -> None:
    assert held == meets({attribute: clause(operator, *operands)})


def test_conditions_are_joined_by_and_unless_or_is_asked_for() -> None:
    filters = {"n": clause("EQ", {"N": "10"}), "word": clause("EQ", {"S": "other"})}

    assert not meets(filters)
    assert not meets(filters, "AND")
    assert meets(filters, "OR")


@pytest.mark.parametrize(
    ("expected", "held"),
    [
        ({"lost": {"Exists": False}}, True),
        ({"n": {"Exists": False}}, False),
        ({"n": {"Value": {"N": "10"}}}, True),
        ({"n": {"Exists": True, "Value": {"N": "1e1"}}}, True),
        ({"n": {"Value": {"N": "9"}}}, False),
        ({"word": clause("NOT_CONTAINS", {"S": "zebra"})}, True),
        ({"lost": clause("NOT_CONTAINS", {"S": "zebra"})}, False),
        ({"n": {"ComparisonOperator": "GT", "Value": {"N": "9"}}}, True),
        ({"n": clause("NOT_NULL"), "lost": {"ComparisonOperator": "NULL"}}, True),
    ],
)
def test_expected_has_two_forms(expected: dict[str, Any], held: bool) -> None:
    plan, values = compile_legacy(expected=expected)

    assert plan.condition is not None
    assert held == plan.condition.holds(ITEM, values)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ({}, "Value must be provided when Exists is null for Attribute: a"),
        ({"Exists": True}, "Value must be provided when Exists is true for Attribute: a"),
        (
            {"Exists": False, "Value": {"S": "a"}},
            "Value cannot be used when Exists is false for Attribute: a",
        ),
        (
            {"ComparisonOperator": "LT"},
            "Value or AttributeValueList must be used with ComparisonOperator: LT for Attribute: a",
        ),
        (
            {"ComparisonOperator": "LT", "Exists": True},
            "Exists and ComparisonOperator cannot be used together for Attribute: a",
        ),
        (
            {"ComparisonOperator": "LT", "Value": {"S": "a"}, "AttributeValueList": [{"S": "a"}]},
            "Value and AttributeValueList cannot be used together for Attribute: a",
        ),
        (
            {"AttributeValueList": [{"S": "a"}], "Exists": True},
            "AttributeValueList can only be used with a ComparisonOperator for Attribute: a",
        ),
        (
            {"ComparisonOperator": "EQ", "AttributeValueList": []},
            "Invalid number of argument(s) for the EQ ComparisonOperator",
        ),
    ],
)
def test_invalid_expected_parameters_are_refused(clause: dict[str, Any], message: str) -> None:
    assert message == refusal(expected={"a": clause})


@pytest.mark.parametrize(
    ("operator", "operands", "message"),
    [
        ("NULL", [{"S": "a"}], "Invalid number of argument(s) for the NULL ComparisonOperator"),
        ("IN", [], "Invalid number of argument(s) for the IN ComparisonOperator"),
        ("BETWEEN", [{"S": "a"}], "Invalid number of argument(s) for the BETWEEN ComparisonOperator"),
        ("LT", [{"BOOL": True}], "ComparisonOperator LT is not valid for BOOL AttributeValue type"),
        ("CONTAINS", [{"SS": ["a"]}], "ComparisonOperator CONTAINS is not valid for SS AttributeValue type"),
        (
            "BEGINS_WITH",
            [{"N": "1"}],
            "ComparisonOperator BEGINS_WITH is not valid for N AttributeValue type",
        ),
        ("IN", [{"S": "a"}, {"N": "1"}], "AttributeValues inside AttributeValueList must be of same type"),
        (
            "BETWEEN",
            [{"S": "b"}, {"S": "a"}],
            "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound",
        ),
        ("EQ", [{}], "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"),
    ],
)
@pytest.mark.parametrize("parameter", ["expected", "query_filter", "scan_filter", "key_conditions"])
def test_operators_accept_their_types_only(
    parameter: str, operator: str, operands: list[Any], message: str
) -> None:
    assert message == refusal(**{parameter: {"a": clause(operator, *operands)}})


def test_a_conditional_operator_needs_two_conditions() -> None:
    assert "ConditionalOperator cannot be used without Filter or Expected" == refusal(
        conditional_operator="OR"
    )
    assert (
        "ConditionalOperator can only be used when Filter or Expected has two or more elements"
    ) == refusal(conditional_operator="OR", expected={"a": {"Exists": False}})


def test_attribute_updates_put_add_and_delete() -> None:
    plan, values = compile_legacy(
        attribute_updates={
            "word": {"Value": {"S": "new"}},
            "n": {"Action": "ADD", "Value": {"N": "5"}},
            "tags": {"Action": "DELETE", "Value": {"SS": ["b", "z"]}},
            "seq": {"Action": "ADD", "Value": {"L": [{"S": "y"}]}},
            "gone": {"Action": "DELETE"},
        }
    )

    assert plan.update is not None
    assert {
        "word": {"S": "new"},
        "n": {"N": "15"},
        "tags": {"SS": ["a"]},
        "seq": {"L": [{"S": "x"}, {"S": "y"}]},
    } == plan.update.apply({**ITEM, "gone": {"S": "x"}}, values, MODERN).item


def test_no_attribute_updates_change_nothing() -> None:
    plan, values = compile_legacy(attribute_updates={})

    assert plan.update is not None
    assert ITEM == plan.update.apply(ITEM, values, MODERN).item


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ({}, "Only DELETE action is allowed when no attribute value is specified"),
        ({"Action": "ADD"}, "Only DELETE action is allowed when no attribute value is specified"),
        (
            {"Action": "DELETE", "Value": {"S": "1"}},
            "DELETE action with value is not supported for the type S",
        ),
        ({"Action": "ADD", "Value": {"M": {}}}, "ADD action is not supported for the type M"),
    ],
)
def test_invalid_attribute_updates_are_refused(clause: dict[str, Any], message: str) -> None:
    assert message == refusal(attribute_updates={"a": clause})


@pytest.mark.parametrize("action", ["ADD", "DELETE"])
def test_a_legacy_update_words_its_type_error_in_its_own_way(action: str) -> None:
    plan, values = compile_legacy(attribute_updates={"n": {"Action": action, "Value": {"SS": ["a"]}}})

    assert plan.update is not None
    with pytest.raises(ValidationError, match="Type mismatch for attribute to update"):
        plan.update.apply(ITEM, values, MODERN)


def test_attributes_to_get_are_names_and_not_paths() -> None:
    plan, _ = compile_legacy(attributes_to_get=["a.b", "lost"])

    assert plan.projection is not None
    assert {"a.b": {"S": "x"}} == plan.projection.apply({"a.b": {"S": "x"}, "a": {"M": {"b": {"S": "y"}}}})
    assert "Duplicate value in attribute name: a" == refusal(attributes_to_get=["a", "b", "a"])


@pytest.mark.parametrize(
    ("operation", "body", "message"),
    [
        (
            "UpdateItem",
            {"Expected": {}, "AttributeUpdates": {}, "ConditionExpression": "", "UpdateExpression": ""},
            "Can not use both expression and non-expression parameters in the same request: "
            "Non-expression parameters: {AttributeUpdates, Expected} "
            "Expression parameters: {UpdateExpression, ConditionExpression}",
        ),
        (
            "Scan",
            {
                "AttributesToGet": ["a"],
                "ScanFilter": {},
                "ConditionalOperator": "OR",
                "FilterExpression": "",
                "ProjectionExpression": "",
            },
            "Can not use both expression and non-expression parameters in the same request: "
            "Non-expression parameters: {AttributesToGet, ScanFilter, ConditionalOperator} "
            "Expression parameters: {ProjectionExpression, FilterExpression}",
        ),
        (
            "PutItem",
            {"Expected": {}, "ExpressionAttributeNames": {}},
            "ExpressionAttributeNames can only be specified when using expressions",
        ),
        (
            "PutItem",
            {"ExpressionAttributeValues": {}},
            "ExpressionAttributeValues can only be specified when using expressions",
        ),
        (
            "Query",
            {"ExpressionAttributeValues": {}, "ProjectionExpression": "a"},
            "ExpressionAttributeValues can only be specified when using expressions: "
            "FilterExpression and KeyConditionExpression are null",
        ),
    ],
)
def test_the_dialects_do_not_mix(operation: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        check_mixing(body, operation)

    assert message == caught.value.message


def test_key_conditions_may_be_used_with_a_filter_expression() -> None:
    check_mixing({"KeyConditions": {}, "FilterExpression": "a = b"}, "Query")
    with pytest.raises(ValidationError, match=r"\{QueryFilter\} Expression parameters: \{FilterExpression\}"):
        check_mixing({"KeyConditions": {}, "QueryFilter": {}, "FilterExpression": "a = b"}, "Query")


def test_both_dialects_make_the_same_tree() -> None:
    modern = expressions.compile(condition="n = :0", values={":0": {"N": "1"}}).condition
    legacy = compile_legacy(expected={"n": {"Value": {"N": "1"}}}).plan.condition

    assert modern is not None
    assert legacy is not None
    assert isinstance(legacy.tree, Comparison)
    assert modern.tree == replace(legacy.tree, right=Reference(":0"))
