"""The package's own source, for the tests of the project."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# From the bottom up: a layer imports only lower layers.
LAYERS = ["model", "expressions", "log", "materializer", "streams", "server", "cli"]


@cache
def folders() -> list[Path]:
    """Return every folder of the package: the root and those below the layers."""
    below = (path for layer in LAYERS for path in [ROOT / layer, *sorted((ROOT / layer).rglob("*/"))])
    return [ROOT, *(path for path in below if any(path.glob("*.py")))]


@cache
def modules() -> dict[str, Path]:
    """Return every module by its dotted name without `foldb.`; an `__init__` has its package's name.

    setup.py builds the package and is no part of it.
    """
    found = {}
    for folder in folders():
        for path in sorted({*folder.glob("*.py")} - {ROOT / "setup.py"}):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def layer(module: str) -> str:
    return module.partition(".")[0]


def imports(module: str, path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the imports of a module: the statement, and the dotted name; names of this package begin with a dot."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            yield node, node.module
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            base = [part for part in base if part]
            for alias in node.names:
                full = ".".join([*base, alias.name])
                yield node, "." + (full if full in modules() else ".".join(base))


def only_for_types(module_tree: ast.Module) -> set[ast.stmt]:
    """Return the statements under `if TYPE_CHECKING`, which no process executes."""
    return {
        statement
        for node in ast.walk(module_tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in ast.walk(node)
        if isinstance(statement, ast.stmt)
    }
