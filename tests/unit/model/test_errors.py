"""The answers that errors become."""

import orjson
import pytest

from foldb.model import errors
from foldb.model.errors import (
    ConditionalCheckFailedError,
    Reason,
    RequestError,
    ResourceNotFoundError,
    SerializationError,
    TransactionCanceledError,
    ValidationError,
)

ITEM = b'{"pk":{"S":"car"}}'


def every_request_error() -> list[type[RequestError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return [value for value in classes if issubclass(value, RequestError) and value is not RequestError]


def test_an_error_type_names_the_part_of_dynamodb() -> None:
    assert ResourceNotFoundError().wire_type == ("com.amazonaws.dynamodb.v20120810#ResourceNotFoundException")
    assert ValidationError("no").wire_type == "com.amazon.coral.validate#ValidationException"
    assert SerializationError("no").wire_type == "com.amazon.coral.service#SerializationException"


@pytest.mark.parametrize("error", every_request_error())
def test_every_request_error_has_a_wire_name_of_its_own(error: type[RequestError]) -> None:
    names = [other.wire_name for other in every_request_error()]

    assert names.count(error.wire_name) == 1


def test_a_kind_of_an_error_has_the_name_of_the_error() -> None:
    class OddError(ValidationError):
        """A kind of ValidationError."""

    assert "ValidationException" == OddError.wire_name


def test_a_failed_condition_has_the_item_only_on_request() -> None:
    bare = orjson.loads(orjson.dumps(ConditionalCheckFailedError().body()))
    with_item = orjson.loads(orjson.dumps(ConditionalCheckFailedError(ITEM).body()))

    assert bare["message"] == "The conditional request failed"
    assert "Item" not in bare
    assert with_item["Item"] == {"pk": {"S": "car"}}


def test_a_cancelled_transaction_has_a_reason_for_each_action() -> None:
    error = TransactionCanceledError(
        [Reason("None"), Reason("ConditionalCheckFailed", "The conditional request failed", ITEM)]
    )

    assert orjson.loads(orjson.dumps(error.body())) == {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons "
        "[None, ConditionalCheckFailed]",
        "CancellationReasons": [
            {"Code": "None"},
            {
                "Code": "ConditionalCheckFailed",
                "Message": "The conditional request failed",
                "Item": {"pk": {"S": "car"}},
            },
        ],
    }
