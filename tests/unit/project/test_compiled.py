"""The modules of the compiled build (setup.py) hold only code that means the same when mypyc compiles it.

mypyc compiles a class into a C structure: a class that is not compiled cannot derive from it. A name of two `except`
clauses has one type, so the second clause would refuse its exception. A generator expression becomes a list. Two other
rules are limits of mypyc that end the build, found here in milliseconds instead of minutes.
"""

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from .source import ROOT, modules, tree

SETUP = runpy.run_path(str(ROOT / "setup.py"))
HOT: list[str] = SETUP["hot_modules"]()
TREES = {path: tree(ROOT / path) for path in HOT}
# They take every element, or mypyc makes a loop of the call.
CONSUMERS = frozenset((
    "all", "any", "bytes", "Counter", "extend", "frozenset", "join", "list", "max", "min", "next", "set", "sorted",
    "sum", "tuple", "update",
))  # fmt: skip


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield all modules of the package and of the tests, by path."""
    for path in [*modules().values(), *(ROOT / "tests").rglob("*.py")]:
        yield path.relative_to(ROOT).as_posix(), tree(path)


def test_each_pattern_of_the_build_matches_modules() -> None:
    assert [] == [pattern for pattern in SETUP["HOT"] if not [*ROOT.glob(pattern)]]


@pytest.mark.parametrize("path", HOT)
def test_an_except_name_has_one_type_in_a_function(path: str) -> None:
    for function in ast.walk(TREES[path]):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            handlers = [
                each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler) and each.name
            ]
            kinds: dict[str | None, set[str]] = {}
            for handler in handlers:
                assert handler.type is not None
                kinds.setdefault(handler.name, set()).add(ast.unparse(handler.type))
            assert [] == [(function.name, *each) for each in kinds.values() if len(each) > 1]


@pytest.mark.parametrize("path", HOT)
def test_no_lambda_is_in_a_lambda_and_no_class_assigns_in_chains(path: str) -> None:
    lambdas = [each for each in ast.walk(TREES[path]) if isinstance(each, ast.Lambda)]
    classes = [each for each in ast.walk(TREES[path]) if isinstance(each, ast.ClassDef)]

    assert [] == [
        inner.lineno for outer in lambdas for inner in ast.walk(outer.body) if isinstance(inner, ast.Lambda)
    ]
    assert [] == [
        each.lineno
        for body in classes
        for each in body.body
        if isinstance(each, ast.Assign) and len(each.targets) > 1
    ]


def test_no_class_binds_a_method_to_a_second_name() -> None:
    """mypyc makes each name that a class body assigns an attribute, with its value as the default of each instance."""
    bound = [
        f"{path}:{each.lineno}: {ast.unparse(each)}"
        for path, hot in TREES.items()
        for body in ast.walk(hot)
        if isinstance(body, ast.ClassDef)
        for each in body.body
        if isinstance(each, ast.Assign)
        and ast.unparse(each.value)
        in {method.name for method in body.body if isinstance(method, ast.FunctionDef)}
    ]

    assert [] == bound


@pytest.mark.parametrize("path", HOT)
def test_no_slots_are_read(path: str) -> None:
    """A compiled class has none, although its source assigns them: `dataclasses.fields` names the fields."""
    read = [
        each for each in ast.walk(TREES[path]) if isinstance(each, ast.Attribute) and each.attr == "__slots__"
    ]

    assert [] == [each.lineno for each in read]


@pytest.mark.parametrize("path", HOT)
def test_a_generator_expression_is_consumed_where_it_stands(path: str) -> None:
    """mypyc makes a list of it first. Elsewhere the first element of a million would cost as much as all of them."""
    consumed = {
        part
        for each in ast.walk(TREES[path])
        for part in ast.iter_child_nodes(each)
        if isinstance(each, ast.Starred)
        or (isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in CONSUMERS)
    }
    lazy = [each for each in ast.walk(TREES[path]) if isinstance(each, ast.GeneratorExp)]

    assert [] == [each.lineno for each in lazy if each not in consumed]


def test_only_compiled_classes_derive_from_compiled_ones() -> None:
    plain = ("Protocol", "NamedTuple", "TypedDict", "Enum", "IntEnum", "TypeAlias")
    compiled = {
        each.name
        for hot in TREES.values()
        for each in hot.body
        if isinstance(each, ast.ClassDef)
        and not [base for base in each.bases if ast.unparse(base).endswith(plain)]
    }
    derived = [
        f"{path}: {each.name}({', '.join(bases)})"
        for path, source in sources()
        if path not in TREES
        for each in ast.walk(source)
        if isinstance(each, ast.ClassDef)
        and (bases := [ast.unparse(base) for base in each.bases if ast.unparse(base) in compiled])
    ]

    assert [] == derived


def test_a_constant_that_a_test_replaces_is_not_final() -> None:
    """mypyc writes the value of a Final constant into the code that uses it."""
    replaced = {
        call.args[1].value
        for path, source in sources()
        if path.startswith("tests/")
        for call in ast.walk(source)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "monkeypatch.setattr"
        and len(call.args) == 3
        and isinstance(call.args[1], ast.Constant)
    }
    final = [
        f"{path}: {each.target.id}"
        for path, hot in TREES.items()
        for each in hot.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and ast.unparse(each.annotation).startswith("Final")
        and each.target.id in replaced
    ]

    assert [] == final


def test_no_tuple_constant_is_compared_by_identity() -> None:
    """Compiled code passes a tuple as its fields, and makes a new one where interpreted code receives it."""
    constants = {
        each.target.id
        for hot in TREES.values()
        for each in hot.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Tuple)
    }
    compared = [
        f"{path}:{each.lineno}: {ast.unparse(each)}"
        for path, source in sources()
        for each in ast.walk(source)
        if isinstance(each, ast.Compare)
        and isinstance(each.ops[0], ast.Is | ast.IsNot)
        and constants & {*map(ast.unparse, [each.left, *each.comparators])}
    ]

    assert "UNKNOWN" in constants
    assert [] == compared


def test_a_checkout_has_no_extension_module_beside_its_sources() -> None:
    built = [
        path
        for path in ROOT.glob("**/*.so")
        if not path.relative_to(ROOT).parts[0].startswith((".", "build"))
    ]

    assert [] == built, "it would hide its newer source"
    assert not Path(ROOT, "build/lib").exists()
