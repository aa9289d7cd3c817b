"""The folder of triggers: the one place that functions and commands come from.

triggers/receipts.py, triggers/billing/__init__.py, ...   modules: read as texts, imported in children alone
triggers/notify.sh                                        a command: a file that may be executed
triggers/.env                                             KEY=VALUE lines for the environment of children
"""

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from importlib.util import decode_source
from pathlib import Path
from typing import Final, TypeAlias

from ...model.errors import ValidationError

Stamp: TypeAlias = tuple[tuple[str | int, ...], ...]
Texts: TypeAlias = Mapping[str, tuple[str, str, str | None]]
"""The folder's modules as they were at one moment: name -> (path, text, why it cannot be read, if so). Names are those
of `import`."""

ENVIRONMENT_FILE: Final = ".env"
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_HANDLER = re.compile(r"[A-Za-z_]\w*([./][A-Za-z_]\w*)*\.[A-Za-z_]\w*", re.ASCII)
_VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)", re.ASCII)


class Folder:
    """Looks at the folder; `path` is absolute. `user` is who runs what is in it, if not the server's own."""

    def __init__(self, path: Path, user: str | None = None) -> None:
        self.path = path.resolve()
        self.user = user
        self._stamp: Stamp | None = None
        self._texts: Texts = {}

    def look(self) -> Texts:
        """The modules as they are now. The same object as long as no file has changed, which is looked for each time.

        A file that cannot be read is whoever's trouble who imports it.

        Raises:
            OSError: The folder cannot be read.
        """
        stamp = self._look()
        if stamp != self._stamp:
            self._texts = {name: (str(path), *_text_of(path)) for name, path in self._files()}
            self._stamp = stamp
        return self._texts

    def changed(self) -> bool:
        """Whether `look` would find anything new."""
        return self._look() != self._stamp

    def module(self, function: str) -> None:
        """Refuse a `module:function` of which there is no module.

        Raises:
            ValidationError: It is not in the folder.
        """
        module = function.partition(":")[0]
        if module not in self.look():
            file = module.replace(".", "/") + ".py"
            raise ValidationError(f"there is no {file} in the folder of triggers, {self.path}")

    def command(self, argv: list[str]) -> Path:
        """The file that a command runs.

        Raises:
            ValidationError: It is not in the folder, or may not be executed.
        """
        path = (self.path / argv[0]).resolve()
        if not path.is_relative_to(self.path):
            raise ValidationError(f"{argv[0]} is outside of the folder of triggers, {self.path}")
        if not path.is_file():
            raise ValidationError(f"there is no {argv[0]} in the folder of triggers, {self.path}")
        if not os.access(path, os.X_OK):
            raise ValidationError(f"{path} may not be executed: chmod +x it")
        return path

    def environment(self) -> dict[str, str]:
        """What `.env` says."""
        try:
            lines = (self.path / ENVIRONMENT_FILE).read_text().splitlines()
        except FileNotFoundError:
            return {}
        found = {}
        for line in lines:
            if match := _VARIABLE.fullmatch(line.strip()):
                found[match[1]] = _unquoted(match[2])
        return found

    def _look(self) -> Stamp:
        return tuple((name, *_stamp_of(path)) for name, path in self._files())

    def _files(self) -> Iterator[tuple[str, Path]]:
        return _modules(self.path, "")


def version_of_file(path: Path) -> str:
    """A short hash of what is in a file."""
    return blake2b(path.read_bytes(), digest_size=8).hexdigest()


def function_named(name: str) -> str:
    """Check a `module:function`.

    Raises:
        ValidationError: It is none.
    """
    if not _FUNCTION.fullmatch(name):
        raise ValidationError("Sink.Function must be written module:function")
    return name


def handler_named(name: str) -> str:
    """The `module:function` that Lambda's `module.function` means.

    >>> handler_named("billing/app.lambda_handler")
    'billing.app:lambda_handler'

    Raises:
        ValidationError: It is none.
    """
    if not _HANDLER.fullmatch(name):
        raise ValidationError("Sink.Handler must be written module.function, as Lambda's is")
    module, _, function = name.rpartition(".")
    return f"{module.replace('/', '.')}:{function}"


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Modules of a folder and of the packages in it, in order of their names."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        stem, dot, suffix = entry.name.partition(".")
        if suffix == "py" and stem.isidentifier():
            name = prefix[:-1] if stem == "__init__" else prefix + stem
            if name:
                yield name, Path(entry.path)
        elif not dot and stem.isidentifier() and os.path.exists(os.path.join(entry.path, "__init__.py")):
            yield from _modules(Path(entry.path), f"{prefix}{stem}.")


def _stamp_of(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:  # a link to a file that is not there
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_mode


def _text_of(path: Path) -> tuple[str, str | None]:
    """A file as Python reads one, in the encoding that it names; empty, and why, where it cannot be read."""
    try:
        if not path.is_file():  # whoever opens a pipe waits for ever
            return "", "it is no file, or a link to none"
        text = decode_source(path.read_bytes())
        text.encode()  # some encodings have what cannot be handed on
    except (PermissionError, SyntaxError, UnicodeError, LookupError) as error:
        return "", str(error)
    return text, None


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
