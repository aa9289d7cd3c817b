"""The operations of a package, each imported with its module when it is first used: a start needs none of them."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from .operation import Operation


class OperationModules(Mapping[str, Operation]):
    """The operations of a package by name. The names are known without an import.

    Args:
        package: The name of the package.
        modules: The operations that each module declares.
    """

    def __init__(self, package: str, modules: Mapping[str, tuple[str, ...]]) -> None:
        self.modules: Final = modules
        self._package = package
        self._module_of = {name: module for module, names in modules.items() for name in names}

    def __getitem__(self, name: str) -> Operation:
        module = import_module(f"{self._package}.{self._module_of[name]}")
        return next(
            each for each in vars(module).values() if isinstance(each, Operation) and each.name == name
        )

    def __contains__(self, name: object) -> bool:
        return name in self._module_of

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._module_of))

    def __len__(self) -> int:
        return len(self._module_of)
