"""Projections, and the tree of document paths that updates use too.

    a.b, a.c[1], d      {"a": {"b": 0, "c": {1: 1}}, "d": 2}

A leaf is the index of its path. Two paths *overlap* if one is a prefix of the other, and *conflict* if one uses an
element as a map and the other as a list. DynamoDB refuses both; they are detected when a path is added.
"""

from dataclasses import field
from typing import Any, TypeAlias

from ..model.lazy_dataclass import dataclass
from ..model.values import Item, Value
from .parser import CONFLICT, OVERLAP, Parser, Problems
from .tokens import END
from .tree import Path

# Part of a path -> the following parts, or the index of the path that ends here.
Steps: TypeAlias = dict[str | int, Any]


class PathTree:
    """The tree, and the paths in the order of their addition."""

    __slots__ = ("_paths", "_problems", "steps")

    def __init__(self, problems: Problems) -> None:
        self.steps: Steps = {}
        self._paths: list[Path] = []
        self._problems = problems

    def add(self, path: Path) -> None:
        """Add a path, or note its overlap or conflict with another."""
        index = len(self._paths)
        self._paths.append(path)
        steps = self.steps
        for part in path.parts[:-1]:
            if self._conflicts(steps, part, path):
                return None
            inner = steps.setdefault(part, {})
            if isinstance(inner, int):
                return self._note(OVERLAP, "overlap", inner, path)
            steps = inner
        last = path.parts[-1]
        if self._conflicts(steps, last, path):
            return None
        if last in steps:
            return self._note(OVERLAP, "overlap", _first_leaf(steps[last]), path)
        steps[last] = index
        return None

    def _conflicts(self, steps: Steps, part: str | int, path: Path) -> bool:
        other = next(iter(steps), part)
        if type(other) is type(part):
            return False
        self._note(CONFLICT, "conflict", _first_leaf(steps[other]), path)
        return True

    def _note(self, kind: int, verb: str, index: int, path: Path) -> None:
        self._problems.note(
            kind,
            f"Two document paths {verb} with each other; must remove or rewrite one of these paths; "
            f"path one: {self._paths[index]}, path two: {path}",
        )


def _first_leaf(steps: Any) -> int:
    while not isinstance(steps, int):
        steps = next(iter(steps.values()))
    return int(steps)


@dataclass(frozen=True, slots=True)
class CompiledProjection:
    """Selects parts of an item.

    Attributes:
        attributes: The top-level attributes that it names, in order.
        nested: The attributes with nested paths.
        value_reads: The number of steps of all paths, which is the cost for small values.
    """

    steps: Steps
    attributes: tuple[str, ...] = field(init=False)
    nested: tuple[str, ...] = field(init=False)
    value_reads: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(map(str, self.steps)))
        object.__setattr__(
            self, "nested", tuple(str(name) for name, inner in self.steps.items() if isinstance(inner, dict))
        )

        object.__setattr__(self, "value_reads", _count(self.steps))

    def apply(self, item: Item) -> Item:
        """Return the named parts of `item`, each inside its maps and lists.

        A list keeps its order without gaps. Missing parts are left out, and so are maps and lists without a found
        part.
        """
        if not self.nested:
            return {name: item[name] for name in self.attributes if name in item}
        picked: Item = {}
        for name, inner in self.steps.items():
            value = item.get(str(name))
            found = value if value is None or isinstance(inner, int) else _pick(value, inner)
            if found is not None:
                picked[str(name)] = found
        return picked


def _count(steps: Any) -> int:
    return 1 if isinstance(steps, int) else len(steps) + sum(map(_count, steps.values()))


def _pick(value: Value, steps: Steps) -> Value | None:
    """Select the parts at `steps` from `value`. The recursion is as deep as the longest path, which is limited."""
    if isinstance(next(iter(steps)), str):
        members = value.get("M") or {}
        found = {name: _take(members.get(name), inner) for name, inner in steps.items()}
        kept = {name: part for name, part in found.items() if part is not None}
        return {"M": kept} if kept else None
    elements = value.get("L") or []
    indexes = sorted(index for index in steps if isinstance(index, int) and index < len(elements))
    parts = [_take(elements[index], steps[index]) for index in indexes]
    present = [part for part in parts if part is not None]
    return {"L": present} if present else None


def _take(value: Value | None, inner: Any) -> Value | None:
    return value if value is None or isinstance(inner, int) else _pick(value, inner)


class ProjectionParser(Parser):
    """Parses a projection: paths separated by commas."""

    def parse(self) -> CompiledProjection:
        """Parse the expression.

        Raises:
            ValidationError: The expression is invalid.
        """
        paths = [self.path()]
        while self.skip(","):
            paths.append(self.path())
        if self.token.kind != END:
            self.syntax_error()
        tree = PathTree(self.problems)
        for path in paths:
            tree.add(path)
        self.finish()
        return CompiledProjection(tree.steps)
