"""Dataclasses whose methods are generated when they are first called."""

import pickle
import re
import subprocess
import sys
from copy import copy
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from foldb.model.lazy_dataclass import dataclass

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list, compare=False)


@dataclass(slots=True)
class Counter:
    """A counter."""

    start: int
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.count = self.start


@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = ""


@dataclass(slots=True, eq=False)
class Connection:
    port: int


@dataclass(slots=True)
class Parsed:
    text: str

    def __init__(self, text: str) -> None:
        self.text = text.strip()

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __hash__(self) -> int:
        return hash(self.text)


def _method(cls: type, name: str) -> Any:
    return vars(cls)[name]


def test_a_method_is_generated_when_it_is_first_called() -> None:
    @dataclass(frozen=True, slots=True)
    class Size:
        width: int

    placeholders = {name: _method(Size, name) for name in ("__init__", "__repr__", "__eq__", "__hash__")}
    Size(1)
    assert _method(Size, "__init__") is not placeholders["__init__"]
    assert _method(Size, "__init__").__qualname__.endswith("Size.__init__")
    assert all(_method(Size, name) is each for name, each in placeholders.items() if name != "__init__")


def test_a_class_of_a_hot_module_gets_its_methods_late_too() -> None:
    """The fast build compiles it; a process of its own has called none of its methods."""
    code = """
from dataclasses import FrozenInstanceError
from foldb.log.commands import Entry
from foldb.model.tables import Projection
for kind, values in ((Entry, (b"", 1, [])), (Projection, ("ALL",))):
    early = {name: vars(kind)[name] for name in ("__init__", "__repr__", "__eq__")}
    made = kind(*values)
    late = [name for name, each in early.items() if vars(kind)[name] is not each]
    print(late, made, made == kind(*values))
try:
    made.kind = "KEYS_ONLY"
except FrozenInstanceError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "['__init__'] Entry(origin=b'', entry_number=1, commands=[], time=None, salt=None) True",
        "['__init__'] Projection(kind='ALL', attributes=()) True",
        "cannot assign to field 'kind'",
    ]


def test_instances_are_those_of_a_dataclass() -> None:
    point = Point(1, y=2)
    assert repr(point) == "Point(x=1, y=2, tags=[])"
    assert point == Point(1, 2, ["other"]) != Point(2, 2)
    assert hash(point) == hash(Point(1, 2))
    assert point.__eq__(1) is NotImplemented
    assert replace(point, x=3) == Point(3, 2)
    assert asdict(point) == {"x": 1, "y": 2, "tags": []}
    assert [each.name for each in fields(Point)] == ["x", "y", "tags"]
    assert Point.__match_args__ == ("x", "y", "tags")
    assert Point.__slots__ == ("x", "y", "tags")
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument"):
        Point()  # type: ignore[call-arg]


def test_a_frozen_instance_is_not_changed() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point.x == 1


def test_a_frozen_instance_is_pickled_and_copied() -> None:
    point = Point(1, 2, ["a"])
    assert pickle.loads(pickle.dumps(point)) == point
    assert copy(point).tags is point.tags


def test_a_changeable_instance_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter(1))
    assert Connection(1) != Connection(1)
    assert len({Connection(1), Connection(1)}) == 2


def test_fields_outside_of_init_get_their_values() -> None:
    assert repr(Counter(2)) == "Counter(start=2, count=2)"


def test_a_subclass_has_the_fields_of_its_base() -> None:
    named = Named(1, name="a")
    assert repr(named) == "Named(x=1, y=0, tags=[], name='a')"
    assert named != Point(1)
    assert Named.__mro__[1] is Point
    with pytest.raises(FrozenInstanceError):
        named.y = 1  # type: ignore[misc]


def test_methods_of_the_class_itself_are_kept() -> None:
    parsed = Parsed(" a ")
    assert repr(parsed) == "<a>"
    assert parsed == Parsed("a")
    assert hash(parsed) == hash("a")


def test_an_ordered_dataclass_is_generated_at_once() -> None:
    @dataclass(frozen=True, slots=True, order=True)
    class Version:
        major: int

    assert Version(1) < Version(2)


def test_every_dataclass_of_the_package_is_generated_lazily() -> None:
    """One of `dataclasses.dataclass` costs a start up to 0.6 ms; 200 of them were a third of its time."""
    packages = ("cli", "expressions", "log", "materializer", "model", "server", "streams")
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    eager = [
        path.relative_to(ROOT).as_posix()
        for path in sources
        if re.search(r"^from dataclasses import (.*\W)?dataclass\b", path.read_text(), re.MULTILINE)
    ]
    assert eager == []
