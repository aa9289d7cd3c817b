"""Signature, options and reference tables follow the declarations of settings and sinks."""

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args, get_type_hints

import pytest
import typer.main

from foldb import trigger
from foldb.cli.commands.trigger.trigger import app
from foldb.model.subscriptions.setting_types import (
    BackoffRange,
    Bool,
    FilterExpression,
    FilterPatterns,
    Int,
    OneOf,
    Seconds,
    SettingType,
    SomeOf,
    StartPosition,
    TableName,
)
from foldb.model.subscriptions.settings import (
    REQUIRED,
    SUBSCRIPTION_SETTINGS,
    Duration,
    SubscriptionSetting,
    TriggerSettings,
    check,
)
from foldb.streams.sinks import MODULES, sink_kind, sink_kinds
from foldb.streams.sinks.kind import SinkKind
from tests.unit.streams.settings_reference import markers, pages, tables, with_tables

KEYWORD_TYPES: dict[type, Any] = {
    Bool: bool | None,
    FilterExpression: str | None,
    FilterPatterns: Mapping[str, object] | Sequence[Mapping[str, object]] | None,
    Int: int | None,
    Seconds: Duration | None,
    SomeOf: str | Sequence[str] | None,
    StartPosition: str | datetime | None,
    BackoffRange: str | None,
    TableName: str | None,
}


def keyword_type(type_: SettingType) -> Any:
    """The type that a keyword of this setting has in TriggerSettings."""
    return Literal[type_.words] | None if isinstance(type_, OneOf) else KEYWORD_TYPES[type(type_)]


def test_the_typed_keywords_are_the_declared_ones() -> None:
    declared = {each.keyword: keyword_type(each.type) for each in SUBSCRIPTION_SETTINGS if each.keyword}
    typed = get_type_hints(TriggerSettings)

    assert declared.keys() == typed.keys()
    assert {name: set(get_args(each)) for name, each in declared.items()} == {
        name: set(get_args(each)) for name, each in typed.items()
    }


@pytest.mark.parametrize("setting", SUBSCRIPTION_SETTINGS, ids=lambda each: each.name)
def test_a_default_is_a_checked_value_of_its_type(setting: SubscriptionSetting) -> None:
    least = {"TableNames": ["Cars"], "Sink": {"Kind": "python"}}

    value = check("s", least)[setting.name]

    if setting.default not in (REQUIRED, None):
        assert value == setting.type.check(setting.name, value)


@pytest.mark.parametrize("setting", SUBSCRIPTION_SETTINGS, ids=lambda each: each.name)
def test_a_keyword_is_in_signature_and_docstring(setting: SubscriptionSetting) -> None:
    parameters = inspect.signature(trigger).parameters

    assert "settings" not in parameters
    if setting.keyword is not None:
        assert parameters[setting.keyword].default is None
        assert f"    {setting.keyword}: {setting.help} Default: " in str(inspect.getdoc(trigger))


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'bach'"):
        trigger("orders", bach=7)  # type: ignore[call-arg]


def test_every_flag_is_an_option_of_trigger_add() -> None:
    group: Any = typer.main.get_command(app)
    options = {each for parameter in group.commands["add"].params for each in parameter.opts}
    flags = [*(each.flag for each in SUBSCRIPTION_SETTINGS), *(each.flag for each in sink_kinds())]

    assert {flag.partition("/")[0] for flag in flags if flag is not None} <= options


@pytest.mark.parametrize("name", MODULES)
def test_a_kind_is_registered_under_its_name(name: str) -> None:
    assert name == sink_kind({"Kind": name}).name


@pytest.mark.parametrize(
    "kind", [each for each in sink_kinds() if each.flag is not None], ids=lambda each: each.name
)
def test_the_example_of_a_flag_is_a_value_of_it(kind: SinkKind) -> None:
    kind.check(kind.from_flag(kind.example.strip("'")))


def test_the_reference_tables_are_generated() -> None:
    """`python -m tests.unit.streams.settings_reference` writes them."""
    text = "".join(page.read_text() for page in pages())

    assert all(markers(name)[0] in text for name in tables())
    for page in pages():
        assert with_tables(page.read_text()) == page.read_text()
