"""Python functions in a worker: their arguments, and the meaning of their exceptions."""

from datetime import UTC, datetime
from decimal import Decimal
from textwrap import indent
from typing import Any

import pytest

from foldb import Change, ChangeError, Tx
from foldb.materializer.fold.outcomes import Tx as FoldedTx
from foldb.streams.formats.plain import plain
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks.sink import DeliveryResult, Failure, PartialFailure, Sink, Success, Window
from foldb.streams.workers.change import read_changes
from tests.unit.streams.deliveries import delivery, numbered, order
from tests.unit.streams.sinks.context import batch
from tests.unit.streams.workers.working import Folder, function

WRITE = """
import os
from pathlib import Path
from foldb import Change, ChangeError, Window

def write(text):
    with Path(os.environ["OUT"]).open("a") as file:
        file.write(text)
"""


async def twice(sink: Sink, changes: list[Delivery], **about: Any) -> list[DeliveryResult]:
    return [await sink.deliver(batch(changes, **about)) for _ in range(2)]


def test_a_change_has_the_plain_values_of_boto3() -> None:
    old = order(
        text={"S": "t"},
        number={"N": "1.50"},
        binary={"B": "aGk="},
        texts={"SS": ["a", "b"]},
        numbers={"NS": ["1", "2.5"]},
        binaries={"BS": ["aGk="]},
        flag={"BOOL": True},
        nothing={"NULL": True},
        list={"L": [{"N": "1"}, {"L": []}]},
        map={"M": {"k": {"M": {}}}},
    )
    reported = delivery(old, None, tx=FoldedTx("2:7.0", 1, 3), source="ttl", depth=2)

    [change] = read_changes(plain(reported, replay=True), "receipts")

    assert change == Change(
        op="REMOVE",
        keys={"customer": "ann", "order": Decimal(1)},
        old={
            "customer": "ann",
            "order": Decimal(1),
            "text": "t",
            "number": Decimal("1.50"),
            "binary": b"hi",
            "texts": {"a", "b"},
            "numbers": {Decimal(1), Decimal("2.5")},
            "binaries": {b"hi"},
            "flag": True,
            "nothing": None,
            "list": [Decimal(1), []],
            "map": {"k": {}},
        },
        new=None,
        table="Orders",
        sequence_number=reported.change.sequence_number,
        position="10482.0",
        time=datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
        tx=Tx("2:7.0", 1, 3),
        principal="alice",
        request_id="request-10482",
        source="ttl",
        depth=2,
        replay=True,
        subscription="receipts",
    )


@pytest.mark.parametrize(
    "definition",
    [
        "def f(change):\n    write(change.op + str(change.new['order']))",
        "def f(change: Change) -> None:\n    write(change.op + str(change.new['order']))",
        "async def f(change: Change) -> None:\n    write(change.op + str(change.new['order']))",
        "def f(changes: list[Change]):\n    for c in changes: write(c.op + str(c.new['order']))",
        "async def f(changes: 'list[Change]'):\n    for c in changes: write(c.op + str(c.new['order']))",
        "def f(changes: tuple[Change, ...]):\n    for c in () + changes: write(c.op + str(c.new['order']))",
        "class F:\n  @staticmethod\n  def f(change):\n    write(change.op + str(change.new['order']))\nf = F.f",
    ],
)
def test_a_function_takes_a_change_or_a_batch(folder: Folder, definition: str) -> None:
    folder.write("app.py", WRITE + definition)

    assert folder.deliver(function("f")) == Success()
    assert folder.out == "INSERT1INSERT2INSERT3"


def test_an_exception_for_one_change_fails_that_change(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        def f(change):
            if change.new["order"] == 2:
                raise KeyError("no such customer")
        """,
    )
    changes = numbered(3)

    result = folder.deliver(function("f"), changes)

    assert isinstance(result, PartialFailure)
    assert (result.partition, result.sequence_number) == (0, changes[1].change.sequence_number)
    assert result.error == "KeyError: 'no such customer'"
    assert result.traceback is not None
    assert 'app.py", line 4, in f' in result.traceback
    assert 'raise KeyError("no such customer")' in result.traceback
    assert "streams/workers" not in result.traceback


def test_a_change_error_names_the_failed_change(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        from foldb import Change, ChangeError

        def f(changes: list[Change]):
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise ChangeError(changes[2], "not payable") from error
        """,
    )
    changes = numbered(3)

    result = folder.deliver(function("f"), changes)

    assert isinstance(result, PartialFailure)
    assert result.sequence_number == changes[2].change.sequence_number
    assert result.error == "ChangeError: not payable"
    assert result.traceback is not None
    assert "ZeroDivisionError" in result.traceback


@pytest.mark.parametrize(
    "body", ["raise ValueError('no')", "raise ChangeError(Change('INSERT', {}), 'of another batch')"]
)
def test_another_exception_fails_the_whole_batch(folder: Folder, body: str) -> None:
    folder.write("app.py", WRITE + f"def f(changes: list[Change]):\n    {body}")

    assert isinstance(folder.deliver(function("f")), Failure)


def test_sys_exit_fails_the_call_and_keeps_the_process(folder: Folder) -> None:
    folder.write(
        "app.py",
        WRITE
        + "import sys\ndef f(changes: list[Change]):\n    write(str(os.getpid()) + ' ')\n    sys.exit(0)",
    )

    verdicts = folder.using(function("f"), lambda sink: twice(sink, numbered(1)))

    assert [type(result) for result in verdicts] == [Failure, Failure]
    assert len(set(folder.out.split())) == 1


def test_a_parameter_with_a_default_keeps_it(folder: Folder) -> None:
    folder.write("app.py", WRITE + "def f(changes: list[Change], target: str = 'lake'): write(target)")

    assert folder.deliver(function("f")) == Success()
    assert folder.out == "lake"


def test_a_function_with_a_window_keeps_its_state(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        from foldb import Change, Window

        def changed(changes: list[Change], window: Window):
            window.state["n"] = window.state.get("n", 0) + len(changes)

        def returned(changes: list[Change], window: Window):
            return {"start": window.start.isoformat(), "final": window.is_final}
        """,
    )
    window = Window(start_ms=60_000, end_ms=120_000, state={"n": 4}, is_final=False)

    assert folder.deliver(function("changed"), about={"window": window}) == Success({"n": 7})
    assert folder.deliver(function("returned"), about={"window": window}) == Success(
        {"start": "1970-01-01T00:01:00+00:00", "final": False}
    )


def test_a_window_keeps_the_state_before_a_failed_change(folder: Folder) -> None:
    folder.write(
        "app.py",
        """
        from foldb import Change, ChangeError, Window

        def f(changes: list[Change], window: Window):
            for change in changes:
                if change.new["order"] == 3:
                    raise ChangeError(change, "no")
                window.state["n"] = window.state.get("n", 0) + 1
        """,
    )
    changes = numbered(4)
    window = Window(start_ms=60_000, end_ms=120_000, state={"n": 4}, is_final=False)

    result = folder.deliver(function("f"), changes, about={"window": window})

    assert isinstance(result, PartialFailure)
    assert (result.sequence_number, result.state) == (changes[2].change.sequence_number, {"n": 6})


def test_an_error_text_that_is_not_unicode_fails_its_change(folder: Folder) -> None:
    folder.write(
        "app.py",
        WRITE + "def f(change):\n    write(f'{os.getpid()} ')\n"
        "    if change.new['order'] == 2:\n        raise ValueError(os.fsdecode(b'caf\\xe9'))\n",
    )
    changes = numbered(3)

    verdicts = folder.using(function("f"), lambda sink: twice(sink, changes))

    for result in verdicts:
        assert isinstance(result, PartialFailure)
        assert result.sequence_number == changes[1].change.sequence_number
        assert result.error == "ValueError: caf\\udce9"
        assert result.traceback is not None
        assert result.traceback.endswith("ValueError: caf\\udce9\n")
    assert len(set(folder.out.split())) == 1


@pytest.mark.parametrize(
    "how", ["raise error from cause", "try:\n    raise cause\nexcept KeyError:\n    raise error"]
)
def test_an_error_with_thousands_of_causes_is_shortened(folder: Folder, how: str) -> None:
    folder.write(
        "app.py",
        f"""
        def f(change):
            cause = KeyError(0)
            for n in range(1, 5000):
                error = KeyError(n)
                try:
                    {indent(how, 20 * " ").strip()}
                except KeyError as raised:
                    cause = raised
            raise cause
        """,
    )

    result = folder.deliver(function("f"), numbered(1))

    assert isinstance(result, PartialFailure)
    assert result.error == "KeyError: 4999"
    assert result.traceback is not None
    assert result.traceback.startswith("(The causes of the first of these are left out.)\n\nTraceback")
    assert result.traceback.endswith("KeyError: 4999\n")
    assert result.traceback.count("KeyError: ") == 20


@pytest.mark.parametrize("state", ["Decimal(1)", "1 << 64"])
def test_a_state_that_is_not_json_fails_its_batch(folder: Folder, state: str) -> None:
    folder.write(
        "app.py",
        WRITE + "from decimal import Decimal\ndef f(changes: list[Change], window: Window):\n"
        f"    write(f'{{os.getpid()}} ')\n    window.state['n'] = {state}\n",
    )
    window = Window(start_ms=60_000, end_ms=120_000, state={}, is_final=False)

    verdicts = folder.using(function("f"), lambda sink: twice(sink, numbered(1), window=window))

    for result in verdicts:
        assert isinstance(result, Failure)
        assert result.error.startswith("TypeError: the answer is not JSON: ")
    assert len(set(folder.out.split())) == 1


def test_each_lane_has_its_own_process(folder: Folder) -> None:
    folder.write("app.py", WRITE + "def f(change):\n    write(f'{os.getpid()} ')")

    async def two_lanes(sink: Sink) -> None:
        for lane in (0, 1, 0, 1):
            assert await sink.deliver(batch(numbered(1), lane=lane)) == Success()

    folder.using(function("f"), two_lanes)

    first, second, *rest = folder.out.split()
    assert first != second
    assert rest == [first, second]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing:f", "there is no missing.py in the folder of triggers"),
        ("app:missing", "app.py has no missing"),
        ("app:number", "is not a function"),
        ("json:loads", "there is no json.py in the folder of triggers"),
    ],
)
def test_a_name_without_a_function_is_refused(folder: Folder, name: str, said: str) -> None:
    folder.write("app.py", "number = 1")

    with pytest.raises(Exception, match=said):
        folder.deliver({"Kind": "python", "Function": name})


@pytest.mark.parametrize("definition", ["def", "async def"])
def test_a_generator_function_is_refused(folder: Folder, definition: str) -> None:
    folder.write("app.py", f"{definition} f(change):\n    yield change")

    with pytest.raises(Exception, match="app:f has a yield, so a call of it runs none of its lines"):
        folder.deliver(function("f"))


def test_a_generator_behind_a_decorator_fails_the_call(folder: Folder) -> None:
    folder.write("app.py", "def g(change):\n    yield change\ndef f(change):\n    return g(change)")

    result = folder.deliver(function("f"), numbered(1))

    assert isinstance(result, PartialFailure)
    assert result.error == "TypeError: it returned a generator, of which no line has run"


def test_modules_of_the_folder_import_each_other(folder: Folder) -> None:
    folder.write("prices.py", "def double(n): return 2 * n")
    folder.write("billing/__init__.py", "from .rates import RATE")
    folder.write("billing/rates.py", "RATE = 3")
    folder.write(
        "app.py",
        WRITE + "import billing, prices\ndef f(change):\n    write(str(prices.double(billing.RATE)))",
    )

    assert folder.deliver(function("f"), numbered(1)) == Success()
    assert folder.out == "6"


def test_a_package_of_the_folder_finds_its_resources(folder: Folder) -> None:
    folder.write("billing/__init__.py", "")
    folder.write("billing/terms.txt", "net 30")
    folder.write(
        "app.py",
        WRITE + "from importlib.resources import files\n"
        "def f(change):\n    write(files('billing').joinpath('terms.txt').read_text())",
    )

    assert folder.deliver(function("f"), numbered(1)) == Success()
    assert folder.out == "net 30"


def test_a_change_error_knows_its_change() -> None:
    change = Change("INSERT", {"id": "a"}, new={"id": "a"})

    assert ChangeError(change, "no").change is change
