"""Code that a refold must repeat byte for byte depends on its arguments alone.

model/, expressions/ and the fold read no clock, draw no random number, touch no file, socket, thread or log line,
compute in no float, and never depend on the order of a set, on `hash` or on `id`.
"""

import ast
from pathlib import Path

import pytest

from tests.unit.project.source import imports, layer, modules, only_for_types, tree

IMPURE_MODULES = {
    "asyncio", "concurrent", "contextvars", "ctypes", "glob", "io", "locale", "logging", "math",
    "multiprocessing", "os", "pathlib", "platform", "queue", "random", "secrets", "shutil", "signal", "socket",
    "statistics", "subprocess", "sys", "tempfile", "threading", "time", "uuid", "warnings", "weakref", "zoneinfo",
}  # fmt: skip

IMPURE_CALLS = {
    "float": "a float",
    "hash": "differs from process to process",
    "id": "an address in memory",
    "open": "a file",
    "print": "the terminal",
    "input": "the terminal",
}

# Methods of datetime that read the clock or the time zone, or return a float.
IMPURE_METHODS = {"now", "today", "utcnow", "fromtimestamp", "astimezone", "timestamp", "total_seconds"}


def pure_modules() -> dict[str, Path]:
    return {
        name: path
        for name, path in modules().items()
        if layer(name) in ("model", "expressions") or name.startswith("materializer.fold")
    }


def _impurity(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=float() as value):
            return f"the float {value}"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "true division, which yields a float"
        case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
            return f"{name}(): {IMPURE_CALLS[name]}"
        case ast.Call(func=ast.Attribute(attr=name)) if name in IMPURE_METHODS:
            return f"{name}(): the clock, the time zone or a float"
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated) if _is_set(iterated):
            return "iterates over a set"
        case ast.Call(func=ast.Name(id="list" | "tuple" | "iter" | "enumerate"), args=[argument, *_]) if (
            _is_set(argument)
        ):
            return "puts a set in order without sorting it"
        case ast.Call(func=ast.Attribute(attr="join"), args=[argument]) if _is_set(argument):
            return "joins a set without sorting it"
        case ast.Global():
            return "state outside the arguments"
    return None


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left) or _is_set(right)
    return False


def _set_names(function: ast.AST) -> set[str]:
    """Return the names that are bound to a set, or declared to be one."""
    names = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _says_set(annotation):
                names.add(name)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _says_set(annotation):
                names.add(name)
    return names


def _says_set(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return text.split("[")[0] in ("set", "frozenset", "Set", "AbstractSet")


def _in_hash_methods(module_tree: ast.Module) -> set[ast.AST]:
    """Return the nodes in `__hash__` methods: a value may define its hash, but pure code may not read it."""
    methods = (n for n in ast.walk(module_tree) if isinstance(n, ast.FunctionDef) and n.name == "__hash__")
    return {node for method in methods for node in ast.walk(method)}


@pytest.mark.guarantee("G14")
def test_the_fold_and_the_layers_below_it_are_pure() -> None:
    found = []
    for path in pure_modules().values():
        exempt = _in_hash_methods(tree(path))
        found += [
            f"{path}:{node.lineno}: {what}"  # type: ignore[attr-defined]
            for node in ast.walk(tree(path))
            if node not in exempt and (what := _impurity(node))
        ]
    assert [] == found


def test_pure_modules_import_no_impure_ones() -> None:
    found = []
    for module, path in pure_modules().items():
        for_types = only_for_types(tree(path))
        found += [
            f"{path}:{statement.lineno}: imports {name}"
            for statement, name in imports(module, path)
            if name.partition(".")[0] in IMPURE_MODULES and statement not in for_types
        ]
    assert [] == found


@pytest.mark.guarantee("G14")
def test_nothing_pure_depends_on_the_order_of_a_set() -> None:
    found = []
    for path in pure_modules().values():
        functions = (n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        for function in functions:
            names = _set_names(function)
            found += [
                f"{path}:{node.iter.lineno}: iterates over the set {node.iter.id}"
                for node in ast.walk(function)
                if isinstance(node, ast.For | ast.comprehension)
                and isinstance(node.iter, ast.Name)
                and node.iter.id in names
            ]
    assert [] == found
