"""Settings of subscriptions, and the state of a subscription."""

from typing import Any

import orjson
import pytest

from foldb.model.errors import ValidationError
from foldb.model.subscriptions import Subscription
from foldb.model.subscriptions.setting_types import milliseconds
from foldb.model.subscriptions.settings import check, check_request

LEAST: dict[str, Any] = {"TableNames": ["Cars"], "Sink": {"Kind": "python", "Function": "on_car"}}


def test_absent_settings_have_their_defaults() -> None:
    """The log holds all settings, because a later release may have other defaults."""
    assert {
        "TableNames": ["Cars"],
        "Sink": {"Kind": "python", "Function": "on_car"},
        "Start": {"At": "NOW"},
        "End": None,
        "Events": ["INSERT", "MODIFY", "REMOVE", "READ"],
        "Filter": None,
        "FilterCriteria": None,
        "BatchSize": 100,
        "MaximumBatchingWindowInSeconds": 0,
        "ParallelizationFactor": 1,
        "MaximumRetryAttempts": -1,
        "MaximumRecordAgeInSeconds": -1,
        "BisectBatchOnFunctionError": False,
        "FunctionResponseTypes": [],
        "Backoff": {"First": 1, "Most": 60},
        "OnFailure": "isolate",
        "DeadLetterTable": "archive.dlq",
        "TumblingWindowInSeconds": 0,
        "Transactions": "separate",
        "MaximumLag": None,
        "TimeoutSeconds": 60,
        "Replay": False,
        "DeclaredIn": None,
    } == check("archive", LEAST)


@pytest.mark.parametrize(
    "settings",
    [
        {"Start": {"At": "TIME", "Time": 1_700_000_000_000}},
        {"Start": {"At": "NUMBERS", "Numbers": {"1": "100000000000001048200030000", "12": "0"}}},
        {"Start": {"At": "NOW", "Numbers": {"0": "7"}}},
        {"Start": {"At": "SNAPSHOT"}, "End": {"Time": 7}},
        {"End": {"Numbers": {"0": "7"}}},
        {"Events": ["REMOVE", "INSERT"]},
        {"Filter": {"Expression": "NEW.#s = :v", "ExpressionAttributeNames": {"#s": "s"}}},
        {"Filter": {"Expression": "size(OLD.a) > :v", "ExpressionAttributeValues": {":v": {"N": "1"}}}},
        {"FilterCriteria": {"Filters": [{"Pattern": '{"eventName":["INSERT"]}'}]}},
        {"BatchSize": 10_000, "ParallelizationFactor": 64, "MaximumRetryAttempts": 0, "MaximumLag": 5},
        {"MaximumBatchingWindowInSeconds": "0.250", "TumblingWindowInSeconds": 900},
        {"MaximumRecordAgeInSeconds": 60, "TimeoutSeconds": "1.0"},
        {"FunctionResponseTypes": ["ReportBatchItemFailures"], "BisectBatchOnFunctionError": True},
        {"Backoff": {"First": "0.01", "Most": "0.1"}, "OnFailure": "block", "Transactions": "together"},
        {
            "DeadLetterTable": "DeadLetters",
            "Replay": True,
            "DeclaredIn": "cars.py",
            "TableNames": ["Cars", "Bikes"],
        },
    ],
)
def test_a_check_of_checked_settings_changes_nothing(settings: dict[str, Any]) -> None:
    checked = check("s", {**LEAST, **settings})

    assert checked == check("s", checked)
    assert checked == orjson.loads(orjson.dumps(checked))
    assert check("s", LEAST).keys() == checked.keys()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"TableNames": []}, "TableNames must be a list of 1 to 100"),
        ({"TableNames": ["Cars", "Cars"]}, "names a table twice"),
        ({"TableNames": ["no such name"]}, "the name of a table"),
        ({"TableNames": "Cars"}, "TableNames must be a list"),
        ({"Sink": None}, "Sink is missing"),
        ({"Sink": {"Kind": 7}}, "Sink must be an object with a Kind"),
        ({"Colour": "red"}, "has no setting Colour"),
        ({"Start": {"At": "LATER"}}, "Start.At must be one of NOW"),
        ({"Start": {"At": "TIME"}}, "Start.Time must be an integer"),
        ({"Start": {"At": "NOW", "Time": 1}}, "for a start at TIME"),
        ({"Start": {"At": "NUMBERS"}}, "Start.Numbers must map"),
        ({"Start": {"At": "NUMBERS", "Numbers": {"x": "1"}}}, "Start.Numbers must map"),
        ({"Start": {"At": "NOW", "Place": 1}}, "Start has no member Place"),
        ({"End": {}}, "either Time or Numbers"),
        ({"End": {"Time": 1, "Numbers": {}}}, "either Time or Numbers"),
        ({"Events": []}, "Events must be a list"),
        ({"Events": ["UPDATE"]}, "Events must be a list of INSERT"),
        ({"Filter": {"Expression": ""}}, "Filter.Expression must be a text"),
        ({"Filter": {"Expression": "a", "ExpressionAttributeNames": []}}, "must be an object"),
        ({"FilterCriteria": {"Filters": [{}]}}, "Filters.Pattern must be a text"),
        ({"FilterCriteria": {"Filters": []}}, "1 to 10 patterns"),
        ({"BatchSize": 0}, "BatchSize must be an integer from 1 to 10,000"),
        ({"BatchSize": True}, "BatchSize must be an integer"),
        ({"BatchSize": "7"}, "BatchSize must be an integer"),
        ({"MaximumBatchingWindowInSeconds": 301}, "from 0 to 300 seconds"),
        ({"MaximumBatchingWindowInSeconds": -1}, "from 0 to 300 seconds"),
        ({"MaximumBatchingWindowInSeconds": 0.5}, 'an integer or text such as "0.25"'),
        ({"MaximumBatchingWindowInSeconds": "0.0005"}, "from 0 to 300 seconds"),
        ({"MaximumBatchingWindowInSeconds": "٣"}, "from 0 to 300 seconds"),
        ({"MaximumRecordAgeInSeconds": 59}, "from 60 to 604,800 seconds"),
        ({"MaximumRecordAgeInSeconds": "-1"}, "or -1 for no limit"),
        ({"Backoff": {"First": 10, "Most": 1}}, "Backoff.First must not be above Backoff.Most"),
        ({"OnFailure": "retry"}, "OnFailure must be one of isolate, batch, block"),
        ({"DeadLetterTable": "Cars"}, "its own dead letters"),
        ({"Replay": 1}, "Replay must be true or false"),
        ({"Sink": {"Kind": "python", "Much": "x" * 65536}}, "65,536 bytes together"),
    ],
)
def test_an_invalid_setting_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        check("s", {**LEAST, **settings})

    assert why in caught.value.message


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129, "é"])
def test_a_name_needs_no_quotes(name: str) -> None:
    with pytest.raises(ValidationError, match="the name of a subscription"):
        check(name, LEAST)


def test_a_name_is_a_text() -> None:
    with pytest.raises(ValidationError, match="the name of a subscription"):
        check(5, LEAST)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        (".", {}, "a dot is not its first"),
        ("..", {}, "a dot is not its first"),
        (".hidden", {}, "a dot is not its first"),
        ("s", {"TimeoutSeconds": 0}, "TimeoutSeconds must be above 0"),
        ("s", {"TimeoutSeconds": "0.000"}, "TimeoutSeconds must be above 0"),
    ],
)
def test_a_request_refuses_values_that_old_logs_hold(name: str, settings: dict[str, Any], why: str) -> None:
    """If the fold refused such a value, old logs would fold to another state."""
    assert check(name, {**LEAST, **settings})
    with pytest.raises(ValidationError) as caught:
        check_request(name, {**LEAST, **settings})

    assert why in caught.value.message


def test_a_request_is_checked_like_the_fold_checks_it() -> None:
    assert check("s.2", LEAST) == check_request("s.2", LEAST)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 0), (60, 60_000), ("0.25", 250), ("1.5", 1500), ("0.001", 1), (-1, None)]
)
def test_seconds_are_converted_to_milliseconds(seconds: int | str, expected: int | None) -> None:
    assert expected == milliseconds(seconds)


def test_seconds_have_one_spelling() -> None:
    """Equal settings have equal bytes in the log and in a dump."""
    spelled = [
        check("s", {**LEAST, "TimeoutSeconds": each})["TimeoutSeconds"] for each in ("1.50", "01.5", "2.0", 2)
    ]

    assert ["1.5", "1.5", 2, 2] == spelled


def test_a_subscription_survives_json() -> None:
    checkpoints = {1: 10**26 + 7, 0: 10**26}
    subscription = Subscription(
        7,
        "s",
        "uuid",
        (("Cars", 1), ("Bikes", 2)),
        check("s", LEAST),
        5,
        6,
        "STOPPED",
        "done",
        3,
        checkpoints,
        "v",
        8,
        9,
    )

    written = orjson.dumps(subscription.to_json())

    assert subscription == Subscription.from_json(orjson.loads(written))


def test_checkpoints_only_rise() -> None:
    subscription = Subscription(7, "s", "", (), {}, 0, 0, checkpoints={0: 5, 1: 5})

    assert {0: 6, 1: 5, 2: 1} == subscription.checkpointed({0: 6, 1: 4, 2: 1}, "v", 0, 0).checkpoints
