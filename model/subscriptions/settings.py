"""The settings of a subscription, each declared once, with Lambda's names where Lambda has the setting.

    request ──► check_request ──► log ──► check ──► settings: complete, in one spelling

SUBSCRIPTION_SETTINGS is the declaration. The validators below, the decorator `@trigger` (streams/decorator.py), the
options of `foldb trigger add` (cli/lib/trigger_options.py) and the table in docs/streams.md follow from it.

`check` is idempotent. The fold calls `check`, so its rules change only with a level of the log; requests go through
`check_request`, whose rules may become stricter in any release.

These validators know neither kinds of sinks nor expressions: streams/sinks validates `Sink`, streams/delivery `Filter`.
A duration is an integer or text such as "0.25", never a float.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, TypedDict

import orjson

from ..lazy_dataclass import dataclass
from .setting_types import (
    EVENTS,
    INT_MAX,
    UNLIMITED,
    BackoffRange,
    Bool,
    EndPosition,
    FilterExpression,
    FilterPatterns,
    Int,
    OneOf,
    Seconds,
    SettingType,
    SinkSettings,
    SomeOf,
    StartPosition,
    TableName,
    TableNames,
    Text,
    invalid,
    milliseconds,
)

Duration: TypeAlias = str | int | float | Decimal | timedelta
"""`"250ms"`, `"1s"`, `"5m"`, `"1h"`, `"7d"`, a number of seconds or a timedelta."""

BYTES_MAX: Final = 64 * 1024
NAME_RULE: Final = "of 1 to 128 letters, digits, dots, hyphens and underscores"

_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,128}")


class _Required:
    """The default of a setting that every subscription must give."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class SubscriptionSetting:
    """The declaration of one setting.

    Attributes:
        name: The member of requests, and of the log: it never changes.
        type: Validates values.
        default: None means that the setting may be null; `{name}` in a text is the subscription's name. The log holds
            defaults written out, so a later release may choose another one.
        help: The effect, for `--help`, the docstring of `@trigger` and the reference page.
        keyword: The keyword of `@trigger`, typed in `TriggerSettings`.
        flag: The option of `foldb trigger add`.
    """

    name: str
    type: SettingType
    default: Any
    help: str
    keyword: str | None = None
    flag: str | None = None


SUBSCRIPTION_SETTINGS: Final = (
    SubscriptionSetting(
        "TableNames",
        TableNames(),
        REQUIRED,
        "Tables whose changes are delivered.",
        flag="--table",
    ),
    SubscriptionSetting("Sink", SinkSettings(), REQUIRED, "Target of the calls.", flag="--sink"),
    SubscriptionSetting(
        "Start",
        StartPosition(),
        {"At": "NOW"},
        "Position of the first change: now, horizon, beginning, snapshot (all items, then changes) or a time.",
        keyword="start",
        flag="--from",
    ),
    SubscriptionSetting("End", EndPosition(), None, "Position after which the subscription stops."),
    SubscriptionSetting(
        "Events",
        SomeOf(EVENTS, least=1),
        list(EVENTS),
        "Events to deliver: INSERT, MODIFY, REMOVE, READ (an item of a snapshot).",
        keyword="on",
        flag="--on",
    ),
    SubscriptionSetting(
        "Filter",
        FilterExpression(),
        None,
        "Condition over OLD and NEW that a change must meet.",
        keyword="when",
        flag="--when",
    ),
    SubscriptionSetting(
        "FilterCriteria",
        FilterPatterns(),
        None,
        "EventBridge patterns, one of which a change must match.",
        keyword="patterns",
        flag="--pattern",
    ),
    SubscriptionSetting(
        "BatchSize",
        Int(1, 10_000),
        100,
        "Maximum number of changes per call.",
        keyword="batch",
        flag="--batch",
    ),
    SubscriptionSetting(
        "MaximumBatchingWindowInSeconds",
        Seconds(0, 300),
        0,
        "Time to wait for a batch to fill.",
        keyword="window",
        flag="--window",
    ),
    SubscriptionSetting(
        "ParallelizationFactor",
        Int(1, 64),
        1,
        "Number of concurrent calls; changes of one key stay in order.",
        keyword="workers",
        flag="--workers",
    ),
    SubscriptionSetting(
        "MaximumRetryAttempts",
        Int(-1, 10_000),
        -1,
        "Retries after the first call fails; -1 for no limit.",
        keyword="retries",
        flag="--retries",
    ),
    SubscriptionSetting(
        "MaximumRecordAgeInSeconds",
        Seconds(60, 604_800, unlimited=True),
        UNLIMITED,
        "Age past which a change becomes a dead letter without a call.",
        keyword="max_age",
        flag="--max-age",
    ),
    SubscriptionSetting(
        "BisectBatchOnFunctionError",
        Bool(),
        False,
        "Halve a batch when its call fails.",
        keyword="bisect",
        flag="--bisect/--no-bisect",
    ),
    SubscriptionSetting(
        "FunctionResponseTypes",
        SomeOf(("ReportBatchItemFailures",)),
        [],
        "The handler's answer names the records that failed (ReportBatchItemFailures).",
        flag="--partial/--no-partial",
    ),
    SubscriptionSetting(
        "Backoff",
        BackoffRange(1, 60, Seconds(0, 3600)),
        {"First": 1, "Most": 60},
        "First and longest pause between retries.",
        keyword="backoff",
        flag="--backoff",
    ),
    SubscriptionSetting(
        "OnFailure",
        OneOf(("isolate", "batch", "block")),
        "isolate",
        "After the last retry: dead-letter the change at fault, or the whole batch, or block until you act.",
        keyword="on_failure",
        flag="--on-failure",
    ),
    SubscriptionSetting(
        "DeadLetterTable",
        TableName(),
        "{name}.dlq",
        "Table of the dead letters.",
        keyword="dlq",
        flag="--dlq",
    ),
    SubscriptionSetting(
        "TumblingWindowInSeconds",
        Seconds(0, 900),
        0,
        "Length of tumbling windows of log time, each with a state; 0s disables them.",
        keyword="tumbling",
        flag="--tumbling",
    ),
    SubscriptionSetting(
        "Transactions",
        OneOf(("separate", "together")),
        "separate",
        "Deliver the changes of a transaction separately, or together in one batch.",
        keyword="transactions",
        flag="--transactions",
    ),
    SubscriptionSetting(
        "MaximumLag",
        Int(1, INT_MAX),
        None,
        "Lag, in changes, past which writes to the tables are throttled.",
        keyword="max_lag",
        flag="--max-lag",
    ),
    SubscriptionSetting(
        "TimeoutSeconds",
        Seconds(0, 86_400),
        60,
        "Timeout of one call, above 0s.",
        keyword="timeout",
        flag="--timeout",
    ),
    SubscriptionSetting("Replay", Bool(), False, "Mark the deliveries as a replay; foldb sets it."),
    SubscriptionSetting(
        "DeclaredIn", Text(4096), None, "File whose `@trigger` declares the subscription; foldb sets it."
    ),
)
"""In the order in which the log keeps them."""


class TriggerSettings(TypedDict, total=False):
    """The types of the keywords that SUBSCRIPTION_SETTINGS declares; None leaves a setting at its default."""

    start: str | datetime | None
    on: str | Sequence[str] | None
    when: str | None
    patterns: Mapping[str, object] | Sequence[Mapping[str, object]] | None
    batch: int | None
    window: Duration | None
    workers: int | None
    retries: int | None
    max_age: Duration | None
    bisect: bool | None
    backoff: str | None
    on_failure: Literal["isolate", "batch", "block"] | None
    dlq: str | None
    tumbling: Duration | None
    transactions: Literal["separate", "together"] | None
    max_lag: int | None
    timeout: Duration | None


_BY_NAME: Final = {setting.name: setting for setting in SUBSCRIPTION_SETTINGS}


def setting_named(name: str) -> SubscriptionSetting:
    return _BY_NAME[name]


def check(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of the subscription `name`: those of `request`, and the defaults of the others.

    Raises:
        ValidationError: The name or a setting is invalid, unknown or missing.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(f"the name of a subscription is {NAME_RULE}")
    for member in request:
        if member not in _BY_NAME:
            raise invalid(f"a subscription has no setting {member}")
    for setting in SUBSCRIPTION_SETTINGS:
        if setting.default is REQUIRED and request.get(setting.name) is None:
            raise invalid(f"{setting.name} is missing")
    settings = {setting.name: _checked(setting, name, request) for setting in SUBSCRIPTION_SETTINGS}
    if settings["DeadLetterTable"] in settings["TableNames"]:
        raise invalid("a subscription cannot read the table of its own dead letters")
    if len(orjson.dumps(settings)) > BYTES_MAX:
        raise invalid(f"all settings of a subscription may have {BYTES_MAX:,} bytes together")
    return settings


def check_request(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `check`; refuse also values that are valid only in logs of earlier releases.

    Raises:
        ValidationError: The name or a setting is invalid, unknown or missing.
    """
    settings = check(name, request)
    if name.startswith("."):
        raise invalid(f"the name of a subscription is {NAME_RULE}, and a dot is not its first")
    if not milliseconds(settings["TimeoutSeconds"]):
        raise invalid("TimeoutSeconds must be above 0")
    return settings


def check_start(value: Any) -> dict[str, Any]:
    """Return the Start of a reset.

    Raises:
        ValidationError: The start is invalid.
    """
    return StartPosition().check("Start", value)


def _checked(setting: SubscriptionSetting, subscription: str, request: Mapping[str, Any]) -> Any:
    if setting.name not in request:
        value = setting.default
        if isinstance(value, str):
            value = value.replace("{name}", subscription)
    else:
        value = request[setting.name]
    if value is None and setting.default is None:
        return None
    return setting.type.check(setting.name, value)
