"""The operations by module, which a start knows without importing them."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from foldb.server.api import admin, operations
from foldb.server.api.operation import Operation
from foldb.server.api.operations import streams


@pytest.mark.parametrize(
    ("package", "listed"),
    [(operations, operations.OPERATIONS), (streams, streams.STREAMS), (admin, admin.ADMIN)],
    ids=["operations", "streams", "admin"],
)
def test_a_package_lists_each_operation_with_its_module(package: object, listed: object) -> None:
    name, path = vars(package)["__name__"], vars(package)["__path__"]
    declared = {
        each.name: tuple(
            sorted(
                member.name
                for member in vars(import_module(f"{name}.{each.name}")).values()
                if isinstance(member, Operation) and member.handler.__module__ == f"{name}.{each.name}"
            )
        )
        for each in iter_modules(path)
        if not each.ispkg
    }

    assert {module: names for module, names in declared.items() if names} == vars(listed)["modules"]
