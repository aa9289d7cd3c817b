"""Handlers of AWS Lambda: their event, their context, and Lambda's reading of their answer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks.lambda_handler import delivery_result
from foldb.streams.sinks.sink import DeliveryResult, Failure, PartialFailure, Success, Window
from tests.unit.streams.deliveries import ORDERS, delivery, numbered, order
from tests.unit.streams.sinks.context import batch
from tests.unit.streams.workers.working import Folder

HANDLER = {"Kind": "lambda", "Handler": "app.lambda_handler"}
GOLDEN = Path(__file__).with_name("lambda_event.json")

KEEP = """
import json, os

def lambda_handler(event, context):
    with open(os.environ["OUT"], "w") as file:
        json.dump(event, file)
"""


def test_the_event_is_that_of_the_documentation(folder: Folder) -> None:
    """The three records of AWS's example (INSERT, MODIFY, REMOVE of item 101), member by member."""
    folder.write("app.py", KEEP)
    table = replace(
        ORDERS,
        key=KeySchema((KeyAttribute("Id", "N"),)),
        stream_arn="arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/2023-11-14T22:00:00.000",
    )
    item = {"Id": {"N": "101"}, "Message": {"S": "New item!"}}
    changed = {"Id": {"N": "101"}, "Message": {"S": "This item has changed"}}
    changes = [
        delivery(None, item, 1, table=table),
        delivery(item, changed, 2, table=table),
        delivery(changed, None, 3, table=table),
    ]

    assert folder.deliver(HANDLER, changes) == Success()

    event, golden = json.loads(folder.out), json.loads(GOLDEN.read_text())
    for record in event["Records"]:
        assert len(record.pop("eventID")) == 32
        assert len(record["dynamodb"].pop("SequenceNumber")) == 27
    assert event == golden


def test_an_expired_item_has_the_ttl_principal(folder: Folder) -> None:
    folder.write("app.py", KEEP)
    item = {"customer": {"S": "ann"}, "order": {"N": "1"}}

    folder.deliver(HANDLER, [delivery(item, None, source="ttl")])

    [record] = json.loads(folder.out)["Records"]
    assert record["userIdentity"] == {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


def test_the_context_has_lambdas_attributes(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        import json, os
        def lambda_handler(event, context):
            left = context.get_remaining_time_in_millis()
            assert 25_000 < left <= 30_000, left
            names = ["function_name", "function_version", "invoked_function_arn", "memory_limit_in_mb",
                     "log_group_name", "log_stream_name", "client_context"]
            told = {name: getattr(context, name) for name in names}
            told["identity"] = context.identity.cognito_identity_id
            assert len(context.aws_request_id) == 36
            told["cwd"] = os.getcwd() == os.environ["LAMBDA_TASK_ROOT"]
            told["environment"] = [os.environ[name] for name in ("_HANDLER", "AWS_LAMBDA_FUNCTION_NAME", "AWS_REGION")]
            json.dump(told, open(os.environ["OUT"], "w"))
        """,
    )

    assert folder.deliver({**HANDLER, "MemorySize": 512}) == Success()
    assert json.loads(folder.out) == {
        "function_name": "receipts",
        "function_version": "$LATEST",
        "invoked_function_arn": "arn:aws:lambda:us-east-1:000000000000:function:receipts",
        "memory_limit_in_mb": "512",
        "log_group_name": "/aws/lambda/receipts",
        "log_stream_name": "receipts",
        "client_context": None,
        "identity": None,
        "cwd": True,
        "environment": ["app.lambda_handler", "receipts", "us-east-1"],
    }


def test_an_exception_fails_the_batch(folder: Folder) -> None:
    folder.write("app.py", "def lambda_handler(event, context):\n    raise ValueError('no')")

    result = folder.deliver(HANDLER)

    assert isinstance(result, Failure)
    assert result.error == "ValueError: no"


def test_an_answer_that_is_not_json_fails_the_batch(folder: Folder) -> None:
    folder.write("app.py", "def lambda_handler(event, context):\n    return {1, 2}")

    result = folder.deliver(HANDLER)

    assert isinstance(result, Failure)
    assert result.error.startswith("RuntimeError: Unable to marshal response")


def test_a_handler_in_a_package_has_lambdas_name(folder: Folder) -> None:
    folder.write("billing/__init__.py", "")
    folder.write("billing/app.py", KEEP)

    assert folder.deliver({"Kind": "lambda", "Handler": "billing/app.lambda_handler"}) == Success()


def test_reported_failures_count_only_if_configured(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        def lambda_handler(event, context):
            records = event["Records"]
            return {"batchItemFailures": [{"itemIdentifier": records[n]["dynamodb"]["SequenceNumber"]} for n in (2, 1)]}
        """,
    )
    changes = numbered(3)

    assert folder.deliver(HANDLER, changes) == Success()

    result = folder.deliver(HANDLER, changes, reports_failures=True)
    assert isinstance(result, PartialFailure)
    assert result.sequence_number == changes[1].change.sequence_number


@pytest.mark.parametrize(
    "answer", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}, {"statusCode": 200}]
)
def test_no_failures_mean_success(answer: Any) -> None:
    assert delivery_result(answer, batch(numbered(3)), is_partial=True) == Success()


@pytest.mark.parametrize(
    "answer",
    [
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"sequenceNumber": "1"}]},
        {"batchItemFailures": [{"itemIdentifier": "1234"}]},
        {"batchItemFailures": ["1234"]},
        {"batchItemFailures": "1234"},
        "ok",
        [],
    ],
)
def test_an_invalid_answer_fails_the_whole_batch(answer: Any) -> None:
    """Lambda retries the whole batch: a misspelt member must not count as success."""
    assert isinstance(delivery_result(answer, batch(numbered(3)), is_partial=True), Failure)


def test_one_unknown_identifier_fails_the_whole_batch() -> None:
    changes = numbered(2)
    failures = [
        {"itemIdentifier": str(changes[1].change.sequence_number)},
        {"itemIdentifier": ""},
    ]

    assert isinstance(
        delivery_result({"batchItemFailures": failures}, batch(changes), is_partial=True), Failure
    )


def test_an_ambiguous_identifier_fails_from_its_first_record() -> None:
    """Changes of two partitions may have one sequence number: neither is handled then."""
    one, only, other = (
        delivery(None, order(customer), offset, partition=partition)
        for customer, offset, partition in (("ann", 7, 1), ("bob", 8, 1), ("cid", 7, 2))
    )

    def result(*failed: Delivery) -> DeliveryResult:
        answer = {"batchItemFailures": [{"itemIdentifier": str(each.sequence_number)} for each in failed]}
        return delivery_result(answer, batch([one, only, other]), is_partial=True)

    assert isinstance(result(other), Failure)
    assert isinstance(result(other, only), Failure)
    assert isinstance(found := result(only), PartialFailure)
    assert (1, only.change.sequence_number) == (found.partition, found.sequence_number)


def test_a_snapshot_item_has_the_number_of_its_record() -> None:
    """All items have the snapshot's sequence number, so only one that is alone in its batch can be named."""
    item = delivery(None, order(), offset=1, is_read=True)._replace(snapshot=10**30)
    answer = {"batchItemFailures": [{"itemIdentifier": str(10**30)}]}

    assert isinstance(found := delivery_result(answer, batch([item]), is_partial=True), PartialFailure)
    assert item.change.sequence_number == found.sequence_number
    assert isinstance(delivery_result(answer, batch([item, item]), is_partial=True), Failure)


def test_a_tumbling_window_passes_its_state_on(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        def lambda_handler(event, context):
            if event["isFinalInvokeForWindow"]:
                assert event["Records"] == []
            assert event["window"] == {"start": "1970-01-01T00:01:00Z", "end": "1970-01-01T00:02:00Z"}
            state = event["state"]
            state["n"] = state.get("n", 0) + len(event["Records"])
            return {"state": state}
        """,
    )

    def window(state: dict[str, Any], *, is_final: bool) -> dict[str, Any]:
        return {"window": Window(60_000, 120_000, state, is_final)}

    assert folder.deliver(HANDLER, about=window({}, is_final=False)) == Success({"n": 3})
    assert folder.deliver(HANDLER, [], about=window({"n": 3}, is_final=True)) == Success({"n": 3})
