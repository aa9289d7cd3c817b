"""Who may import whom."""

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.house.source import LAYERS, imports, inside_functions, layer, modules, only_for_types, tree


def test_a_layer_imports_only_what_stands_below_it() -> None:
    found = []
    for module, path in modules().items():
        if layer(module) not in LAYERS:
            continue
        for statement, name in imports(module, path):
            # The root's `__version__` is everybody's.
            target = layer(name[1:]) if name.startswith(".") else ""
            if target and LAYERS.index(target) > LAYERS.index(layer(module)):
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
    """Imports for types alone, or inside a function, are not in the way of an import."""
    needs: dict[str, set[str]] = {}
    for module, path in modules().items():
        later = only_for_types(tree(path)) | inside_functions(tree(path))
        at_once = {
            name[1:]
            for statement, name in imports(module, path)
            if name[:1] == "." and statement not in later
        }
        needs[module] = at_once - {module, ""}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
