"""The user's modules, imported from texts that the server read, never from the folder itself.

    {"receipts": ["/triggers/receipts.py", "def send ...", null]} ──► import receipts

So all children of a subscription run one state of the code, whatever is saved meanwhile, and its version is the hash
of exactly what was imported. No compiled file is read or written either: those go by whole seconds and by sizes.
"""

import importlib
import sys
from collections.abc import Mapping
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from importlib.resources.abc import TraversableResources

_PACKAGE: Final = "__init__.py"


class Modules:
    """Finds and loads what is in `texts`: module -> (path, text, why it cannot be read, if so).

    Both a finder and a loader, as importlib has them.
    """

    def __init__(self, texts: Mapping[str, tuple[str, str, str | None]]) -> None:
        self._texts = texts
        self._used: set[str] = set()

    def install(self) -> None:
        """Be asked first, so that the user's `secrets.py` is what a user's `import secrets` means."""
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Say that a module is ours."""
        if fullname not in self._texts:
            return None
        spec = ModuleSpec(
            fullname, cast(Any, self), origin=self._texts[fullname][0], is_package=self.is_package(fullname)
        )
        spec.has_location = True
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """Have Python make it as it makes any."""

    def is_package(self, fullname: str) -> bool:
        """Whether it has modules below it."""
        return self._texts[fullname][0].endswith(_PACKAGE)

    def get_source(self, fullname: str) -> str:
        """Its text; a traceback shows lines of it."""
        return self._texts[fullname][1]

    def get_resource_reader(self, fullname: str) -> "TraversableResources":
        """Its folder, for `importlib.resources`. What is no module is read when it is asked for."""
        from importlib.readers import FileReader  # few need it

        return FileReader(cast(Any, SimpleNamespace(path=self._texts[fullname][0])))

    def get_code(self, fullname: str) -> CodeType:
        """Compile it."""
        self._used.add(fullname)
        path, text, trouble = self._texts[fullname]
        if trouble is not None:
            raise ImportError(f"{path} cannot be read: {trouble}", name=fullname, path=path)
        return compile(text, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run it."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102  importing a module is this

    def version(self) -> str:
        """Tells one state of what was imported so far from another."""
        return version_of((name, self._texts[name][1]) for name in sorted(self._used))

    def find(self, path: str) -> Any:
        """What `module:name` or `module:Class.name` means.

        Raises:
            LookupError: It is not in the folder.
            Exception: Whatever importing it raised.
        """
        module, _, name = path.partition(":")
        if module not in self._texts:
            raise LookupError(f"there is no {module.replace('.', '/')}.py in the folder of triggers")
        if module in sys.modules and module not in self._used:
            raise LookupError(f"{module}.py has the name of a module of Python's own: call it something else")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            if not hasattr(found, part):
                raise LookupError(f"{module.replace('.', '/')}.py has no {name}")
            found = getattr(found, part)
        return found


def version_of(parts: Any) -> str:
    """A short hash of names and texts."""
    digest = blake2b(digest_size=8)
    for name, text in parts:
        digest.update(b"%d %b %d " % (len(name.encode()), name.encode(), len(text.encode())))
        digest.update(text.encode())
    return digest.hexdigest()
