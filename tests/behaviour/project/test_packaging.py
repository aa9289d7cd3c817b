"""What pyproject.toml says, against what is on disk."""

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.project.source import ROOT, folders, imports, modules, tree

# What is imported under another name, and what another dependency finds by itself.
IMPORTED_AS = {
    "amazon.ion": "amazon",
    "backports.zstd": "backports",
    "kafka-python": "kafka",
    "crc32c": "kafka",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "PyYAML": "yaml",
}
# Used as a command or as a plugin, never imported.
COMMANDS = {"awscli": "AWS", "mypy": "mypy", "pytest-xdist": "-n 2", "ruff": "ruff"}


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def extras() -> list[str]:
    optional = pyproject()["project"]["optional-dependencies"]
    return [name for extra, texts in optional.items() if extra != "dev" for name in _names(texts)]


def _names(requirements: list[str]) -> list[str]:
    return [match[0] for text in requirements if (match := re.match(r"[\w.-]+", text))]


def runtime() -> list[str]:
    return _names(pyproject()["project"]["dependencies"])


def development() -> list[str]:
    return _names(pyproject()["project"]["optional-dependencies"]["dev"])


def _imported(paths: dict[str, Path]) -> set[str]:
    return {name.partition(".")[0] for module, path in paths.items() for _, name in imports(module, path)} - {
        ""
    }


@cache
def _imported_by_product() -> set[str]:
    return _imported(modules())


@cache
def _tests() -> dict[str, Path]:
    return {".".join(path.relative_to(ROOT).parts): path for path in (ROOT / "tests").rglob("*.py")}


def _is_imported_by_tests(package: str) -> bool:
    """Whether a module of the tests imports a package. Only those that have its name are parsed."""
    return any(
        package in _imported({module: path})
        for module, path in _tests().items()
        if package in path.read_text()
    )


def test_every_folder_with_code_is_in_the_wheel() -> None:
    """A package missing from the list passes every test of an editable install, and is absent from the wheel."""
    on_disk = [".".join(("foldb", *folder.relative_to(ROOT).parts)) for folder in folders()]

    assert sorted(on_disk) == pyproject()["tool"]["setuptools"]["packages"]


def test_every_package_has_a_docstring() -> None:
    inits = [folder / "__init__.py" for folder in folders()]

    assert [] == [init for init in inits if not init.exists() or not ast.get_docstring(tree(init))]


def test_every_data_file_is_in_the_wheel() -> None:
    listed = {
        path
        for package, patterns in pyproject()["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    on_disk = {
        path
        for folder in folders()[1:]
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".md")
    }

    assert on_disk == listed - {ROOT / "py.typed"}


@pytest.mark.parametrize("name", runtime())
def test_every_dependency_is_used(name: str) -> None:
    assert IMPORTED_AS.get(name, name) in _imported_by_product()


@pytest.mark.parametrize("name", development())
def test_every_development_dependency_is_used(name: str) -> None:
    if name in COMMANDS:
        texts = [path.read_text() for path in (ROOT / "Makefile", *_tests().values())]
        assert any(COMMANDS[name] in text for text in texts)
    else:
        package = IMPORTED_AS.get(name, name)
        assert package in _imported_by_product() or _is_imported_by_tests(package)


def test_every_import_is_declared() -> None:
    ours = {
        IMPORTED_AS.get(name, name) for name in [*runtime(), *extras(), "pytest"]
    }  # the plugin's user has it

    assert [] == sorted(_imported_by_product() - ours - sys.stdlib_module_names)


@pytest.mark.parametrize("name", dict.fromkeys([*runtime(), *development(), *extras()]))
def test_every_dependency_has_a_line_that_says_why(name: str) -> None:
    lines = (ROOT / "docs" / "dependencies.md").read_text().splitlines()

    assert any(line.startswith(f"| {name} |") for line in lines)
