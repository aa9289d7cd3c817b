"""The declarations of a folder of triggers, read in a worker, and the settings that the decorator makes."""

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from foldb import Change, trigger
from foldb.model.subscriptions.settings import check
from foldb.streams.decorator import condition, read_declarations, seconds
from foldb.streams.delivery.filter import ChangeFilter
from foldb.streams.sinks.sink import Success
from foldb.streams.workers.code_folder import CodeFolder as TriggersFolder
from foldb.streams.workers.declarations import Declarations, FolderDeclarations
from tests.unit.streams.workers.working import Folder


def read(folder: Folder) -> FolderDeclarations:
    declarations = Declarations(TriggersFolder(folder.path), folder.scratch)
    return asyncio.run(declarations.read("http://127.0.0.1:1"))


def declared(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> dict[str, Any]:
    """Return the settings of a trigger on orders that differ from the defaults."""
    module = ModuleType("orders_triggers")
    vars(module).update(trigger=trigger, settings=settings)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("@trigger('orders', **settings)\ndef f(change): ...", vars(module))

    [made] = read_declarations(module.__name__)
    assert made.pop("Name") == settings.get("name", "f")
    assert made.pop("TableNames") == ["orders"]
    del made["Sink"]
    return made


def test_every_file_declares_triggers_with_their_settings(folder: Folder) -> None:
    folder.write(
        "receipts.py",
        """
        from foldb import Change, trigger

        @trigger("orders", on=["INSERT", "MODIFY"], when="NEW.#s = 'PAID' AND OLD.#s <> 'PAID'", names={"#s": "status"},
                 batch=100, window=1.0, workers=4, retries=5, backoff="1s..60s", max_age="1h", dlq="orders.failed")
        def send_receipt(change: Change) -> None: ...

        @trigger("orders", "refunds", name="book")
        async def both(changes: list[Change]) -> None: ...
        """,
    )
    folder.write("billing/__init__.py", "")
    folder.write(
        "billing/rates.py", "import foldb\n@foldb.trigger('rates', on='REMOVE')\ndef gone(change): ...\n"
    )
    folder.write("app.py", "def lambda_handler(event, context): ...\nraise SystemExit")

    found = read(folder)

    assert found.problems == {}
    assert found.declared == {
        "billing/rates.py": [
            {
                "Name": "gone",
                "TableNames": ["rates"],
                "Events": ["REMOVE"],
                "Sink": {"Kind": "python", "Function": "billing.rates:gone"},
            }
        ],
        "receipts.py": [
            {
                "Name": "send_receipt",
                "TableNames": ["orders"],
                "Events": ["INSERT", "MODIFY"],
                "Filter": {
                    "Expression": "NEW.#s = :_1 AND OLD.#s <> :_2",
                    "ExpressionAttributeNames": {"#s": "status"},
                    "ExpressionAttributeValues": {":_1": {"S": "PAID"}, ":_2": {"S": "PAID"}},
                },
                "BatchSize": 100,
                "MaximumBatchingWindowInSeconds": 1,
                "ParallelizationFactor": 4,
                "MaximumRetryAttempts": 5,
                "Backoff": {"First": 1, "Most": 60},
                "MaximumRecordAgeInSeconds": 3600,
                "DeadLetterTable": "orders.failed",
                "Sink": {"Kind": "python", "Function": "receipts:send_receipt"},
            },
            {
                "Name": "book",
                "TableNames": ["orders", "refunds"],
                "Sink": {"Kind": "python", "Function": "receipts:both"},
            },
        ],
    }


def test_an_unreadable_file_does_not_affect_others(folder: Folder) -> None:
    good = "from foldb import trigger\n@trigger('orders')\ndef {}(change): ...\n"
    folder.write("a.py", good.format("a"))
    folder.write("b.py", good.format("b") + "import os\nos._exit(3)")
    folder.write("c.py", good.format("c") + "def (")
    folder.write("d.py", "from foldb import trigger\n@trigger('orders', window='soon')\ndef d(change): ...\n")
    folder.write("e.py", good.format("e"))

    found = read(folder)

    assert list(found.declared) == ["a.py", "e.py"]
    assert found.problems["b.py"].error == "importing it: its process ended: exit status 3"
    assert found.problems["c.py"].error.startswith("SyntaxError: ")
    assert found.problems["d.py"].error.startswith("ValueError: window: `soon` is not a duration")


@pytest.mark.parametrize(
    ("source", "table"),
    [
        (b"\xef\xbb\xbffrom foldb import trigger\r\n@trigger('\xc3\xa9')\r\ndef f(change): ...\r\n", "é"),
        (b"# coding: latin-1\nfrom foldb import trigger\n@trigger('\xe9')\ndef f(change): ...\n", "é"),
    ],
)
def test_a_file_is_read_in_its_declared_encoding(folder: Folder, source: bytes, table: str) -> None:
    (folder.path / "app.py").write_bytes(source)

    found = read(folder)

    assert found.problems == {}
    assert [declared["TableNames"] for declared in found.declared["app.py"]] == [[table]]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            b"\n\n# \xff",
            "it cannot be read: 'utf-8' codec can't decode byte 0xff in position 4: invalid start byte",
        ),
        (b"# coding: klingon\n", "it cannot be read: unknown encoding: klingon"),
        (b"# coding: hex\n00", "it cannot be read: 'hex' is not a text encoding"),
        (b"# coding: unicode_escape\n'\\ud800'", "it cannot be read: 'utf-8' codec can't encode character"),
        (None, "it cannot be read: it is not a file, or a link to none"),
    ],
)
def test_a_binary_file_is_a_problem_of_its_own(folder: Folder, source: bytes | None, error: str) -> None:
    folder.write("app.py", "from foldb import trigger\n@trigger('orders')\ndef f(change): ...\n")
    bad = folder.path / "bad.py"
    if source is None:
        bad.symlink_to("nowhere")
    else:
        bad.write_bytes(source)

    found = read(folder)

    assert list(found.declared) == ["app.py"]
    assert list(found.problems) == ["bad.py"]
    assert found.problems["bad.py"].error.startswith(error)


def test_a_pipe_in_the_folder_does_not_block(folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe.py")

    assert list(read(folder).problems) == ["pipe.py"]


def test_a_file_is_read_when_it_becomes_readable(folder: Folder, tmp_path: Path) -> None:
    (folder.path / "app.py").symlink_to(tmp_path / "later.py")
    triggers = TriggersFolder(folder.path)
    triggers.read()
    assert not triggers.changed()

    (tmp_path / "later.py").write_text("1")

    assert triggers.changed()
    assert triggers.read()["app"][1:] == ("1", None)


UTIL = """
import functools
from foldb import trigger

def logged(function):
    def wrapper(change):
        print("logged")
        return function(change)
    return wrapper

def named(function):
    return functools.wraps(function)(logged(function))

def on_orders(function):
    return trigger("orders")(function)

def handler(change): ...
"""
APP = "import util\nfrom foldb import trigger\nfrom util import handler, logged, named, on_orders\n"


@pytest.mark.parametrize(
    ("text", "name", "function"),
    [
        ("def f(change): ...\nreceipts = trigger('orders')(logged(f))", "receipts", "receipts"),
        ("def f(change): ...\nreceipts = trigger('orders')(named(f))", "receipts", "receipts"),
        ("def f(change): ...\nreceipts = trigger('orders')(f)", "f", "f"),
        ("@trigger('orders')\n@logged\ndef f(change): ...", "f", "f"),
        ("@logged\n@trigger('orders')\ndef f(change): ...", "f", "f"),
        ("@trigger('orders')\n@named\ndef f(change): ...", "f", "f"),
        ("@named\n@trigger('orders')\ndef f(change): ...", "f", "f"),
        ("trigger('orders')(handler)", "handler", "handler"),
        ("mine = trigger('orders', name='x')(util.handler)\ndel handler", "x", "mine"),
        ("@on_orders\ndef f(change): ...", "f", "f"),
        ("class F:\n    @staticmethod\n    @trigger('orders')\n    def f(change): ...", "f", "F.f"),
        ("class F:\n    @trigger('orders')\n    @staticmethod\n    def f(change): ...", "f", "F.f"),
        ("class F:\n    @classmethod\n    @trigger('orders')\n    def f(cls, change): ...", "f", "F.f"),
        ("class F:\n    def __call__(self, change): ...\nf = trigger('orders')(F())", "f", "f"),
    ],
)
def test_a_trigger_belongs_to_the_file_that_declares_it(
    folder: Folder, text: str, name: str, function: str
) -> None:
    folder.write("util.py", UTIL)
    folder.write("app.py", APP + text)

    found = read(folder)

    assert found.problems == {}
    assert found.declared == {
        "app.py": [
            {
                "Name": name,
                "TableNames": ["orders"],
                "Sink": {"Kind": "python", "Function": f"app:{function}"},
            }
        ],
        "util.py": [],
    }
    assert folder.deliver({"Kind": "python", "Function": f"app:{function}"}) == Success()


@pytest.mark.parametrize(
    "text",
    [
        "trigger('orders', name='x')(util.handler)\ndel handler",
        "def f(change): ...\ntrigger('orders', name='x')(logged(f))",
        "def f(change): ...\ntrigger('orders', name='x')(named(f))",
        "trigger('orders', name='x')(lambda change: None)",
    ],
)
def test_a_function_without_a_name_in_its_file_is_refused(folder: Folder, text: str) -> None:
    folder.write("util.py", UTIL)
    folder.write("app.py", APP + text)

    found = read(folder)

    assert list(found.declared) == ["util.py"]
    assert found.problems["app.py"].error == (
        "TypeError: app.py has no name for the function of its trigger x: assign the function to a name,"
        " as in `receipts = trigger('orders')(...)`"
    )


def test_the_decorator_returns_the_function() -> None:
    @trigger("orders")
    def double(change: Change) -> int:
        return 2 * int(change.new["n"]) if change.new else 0

    assert double(Change("INSERT", {"id": "a"}, new={"id": "a", "n": 21})) == 42


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"window": 0.25}, {"MaximumBatchingWindowInSeconds": "0.25"}),
        ({"window": "250ms"}, {"MaximumBatchingWindowInSeconds": "0.25"}),
        ({"tumbling": timedelta(minutes=1)}, {"TumblingWindowInSeconds": 60}),
        ({"timeout": "1.5m"}, {"TimeoutSeconds": 90}),
        ({"max_age": 3600}, {"MaximumRecordAgeInSeconds": 3600}),
        ({"backoff": "100ms..5m"}, {"Backoff": {"First": "0.1", "Most": 300}}),
        ({"start": "snapshot"}, {"Start": {"At": "SNAPSHOT"}}),
        ({"start": datetime(2026, 11, 20, tzinfo=UTC)}, {"Start": {"At": "TIME", "Time": 1795132800000}}),
        ({"transactions": "together", "max_lag": 9}, {"Transactions": "together", "MaximumLag": 9}),
        ({"bisect": True, "on_failure": "block"}, {"BisectBatchOnFunctionError": True, "OnFailure": "block"}),
        (
            {"patterns": {"dynamodb": {"NewImage": {"n": {"N": ["5"]}}}}},
            {"FilterCriteria": {"Filters": [{"Pattern": '{"dynamodb":{"NewImage":{"n":{"N":["5"]}}}}'}]}},
        ),
    ],
)  # fmt: skip
def test_a_setting_may_be_written_in_every_notation(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], made: dict[str, Any]
) -> None:
    assert declared(monkeypatch, **given) == made
    complete = check("f", {**made, "TableNames": ["orders"], "Sink": {"Kind": "python"}})
    assert {member: complete[member] for member in made} == made


@pytest.mark.parametrize(
    "given",
    [
        {"window": "soon"},
        {"window": "1 s"},
        {"backoff": "1s"},
        {"start": "yesterday"},
        {"start": datetime(2026, 11, 20)},
        {"when": "NEW.a = :v", "values": {":v": 1.5}},
        {"name": 5},
    ],
)
def test_an_invalid_setting_is_refused_at_the_decorator(given: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        trigger("orders", **given)


def test_a_trigger_names_a_table() -> None:
    with pytest.raises(TypeError, match="names its table"):
        trigger(lambda change: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("when", "expression", "names", "values"),
    [
        ("NEW.state = 'PAID'", "NEW.#_1 = :_1", {"#_1": "state"}, {":_1": {"S": "PAID"}}),
        ("NEW.n > -1.50", "NEW.#_1 > :_1", {"#_1": "n"}, {":_1": {"N": "-1.50"}}),
        ("NEW.a.b[2].c = true", "NEW.#_1.#_2[2].#_3 = :_1", {"#_1": "a", "#_2": "b", "#_3": "c"},
         {":_1": {"BOOL": True}}),
        ("contains(NEW.tags, 'it''s')", "contains(NEW.#_1, :_1)", {"#_1": "tags"}, {":_1": {"S": "it's"}}),
        ("attribute_exists(OLD) AND NEW.#s <> :v", "attribute_exists(OLD) AND NEW.#s <> :v", {"#s": "s"},
         {":v": {"L": [{"N": "1"}]}}),
    ],
)  # fmt: skip
def test_a_condition_may_have_values_and_names(
    when: str, expression: str, names: dict[str, str], values: dict[str, Any]
) -> None:
    given_names = {name: of for name, of in names.items() if not name.startswith("#_")}
    given_values = {":v": [1]} if ":v" in values else {}

    made = condition(when, given_names, given_values)

    assert made == {
        "Expression": expression,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
    ChangeFilter(check("f", {"TableNames": ["orders"], "Sink": {"Kind": "python"}, "Filter": made}))


def test_seconds_are_exact() -> None:
    assert seconds(0.1) == Decimal("0.1")
    assert seconds(timedelta(milliseconds=1)) == Decimal("0.001")
