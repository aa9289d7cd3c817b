"""The allowed imports between layers."""

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.unit.project.source import LAYERS, imports, layer, modules

# The modules at the root are between them: `version`, which all may import, and those that serve, for the command line.
ORDER = ["version", *LAYERS[:-1], "", LAYERS[-1]]


def test_a_layer_imports_only_lower_layers() -> None:
    found = []
    for module, path in modules().items():
        if layer(module) not in LAYERS:
            continue
        for statement, name in imports(module, path):
            if name.startswith(".") and ORDER.index(layer(name[1:])) > ORDER.index(layer(module)):
                found.append(f"{path}:{statement.lineno}: imports {name}")
    assert [] == found


def test_inside_the_package_imports_are_relative() -> None:
    found = [
        f"{path}:{statement.lineno}: imports {name}"
        for module, path in modules().items()
        for statement, name in imports(module, path)
        if name.partition(".")[0] in ("foldb", "tests")
    ]
    assert [] == found


def test_no_module_needs_itself_to_be_imported() -> None:
    """An import for types alone, or inside a function, counts like any other."""
    needs = {
        module: {name[1:] for _, name in imports(module, path) if name[:1] == "."} - {module}
        for module, path in modules().items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
