"""Imports the user's modules from texts that the server read, never from the folder itself.

    {"receipts": ["/triggers/receipts.py", "def send ...", null]} ──► import receipts

All workers of a subscription therefore run one state of the code, even while files are saved, and its version is the
hash of exactly the imported texts. No compiled file is read or written: their checks use whole seconds and sizes.
"""

import importlib
import sys
from collections.abc import Mapping
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, Final, cast

_PACKAGE: Final = "__init__.py"


class Modules:
    """Finds and loads the modules in `texts`: module -> (path, text, error if the file cannot be read).

    It is both a finder and a loader of importlib.
    """

    def __init__(self, texts: Mapping[str, tuple[str, str, str | None]]) -> None:
        self._texts = texts
        self._used: set[str] = set()

    def install(self) -> None:
        """Become the first finder, so that `import secrets` in user code imports the user's `secrets.py`."""
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of the user, None for other modules."""
        if fullname not in self._texts:
            return None
        spec = ModuleSpec(
            fullname, cast(Any, self), origin=self._texts[fullname][0], is_package=self.is_package(fullname)
        )
        spec.has_location = True
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """Let Python make the module."""

    def is_package(self, fullname: str) -> bool:
        return self._texts[fullname][0].endswith(_PACKAGE)

    def get_source(self, fullname: str) -> str:
        """Return a module's text; tracebacks show its lines."""
        return self._texts[fullname][1]

    def get_resource_reader(self, fullname: str) -> object:
        """Return a module's folder, for `importlib.resources`. Files that are not modules are read from the disk."""
        from importlib.readers import FileReader  # rarely needed

        return FileReader(cast(Any, SimpleNamespace(path=self._texts[fullname][0])))

    def get_code(self, fullname: str) -> CodeType:
        self._used.add(fullname)
        path, text, trouble = self._texts[fullname]
        if trouble is not None:
            raise ImportError(f"{path} cannot be read: {trouble}", name=fullname, path=path)
        return compile(text, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102  importing a module is this

    def version(self) -> str:
        """Return a version of the modules imported so far."""
        return version_of((name, self._texts[name][1]) for name in sorted(self._used))

    def find(self, path: str) -> Any:
        """Import the object that `module:name` or `module:Class.name` names.

        Raises:
            LookupError: The folder has no such module, or the module has no such name.
            Exception: The module raised it while it was imported.
        """
        module, _, name = path.partition(":")
        if module not in self._texts:
            raise LookupError(f"there is no {module.replace('.', '/')}.py in the folder of triggers")
        if module in sys.modules and module not in self._used:
            raise LookupError(f"{module}.py has the name of a module of Python: rename it")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            if not hasattr(found, part):
                raise LookupError(f"{module.replace('.', '/')}.py has no {name}")
            found = getattr(found, part)
        return found


def version_of(parts: Any) -> str:
    """Return a short hash of names and texts."""
    digest = blake2b(digest_size=8)
    for name, text in parts:
        digest.update(b"%d %b %d " % (len(name.encode()), name.encode(), len(text.encode())))
        digest.update(text.encode())
    return digest.hexdigest()
