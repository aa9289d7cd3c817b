"""The folder of triggers: the only source of functions and commands.

triggers/receipts.py, triggers/billing/__init__.py, ...   modules: read as texts, imported in workers alone
triggers/notify.sh                                        a command: an executable file
triggers/.env                                             KEY=VALUE lines for the environment of workers
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
Sources: TypeAlias = Mapping[str, tuple[str, str, str | None]]
"""The folder's modules at one moment: name as in `import` -> (path, text, error if the file cannot be read)."""

ENVIRONMENT_FILE: Final = ".env"
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_HANDLER = re.compile(r"[A-Za-z_]\w*([./][A-Za-z_]\w*)*\.[A-Za-z_]\w*", re.ASCII)
_VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", re.ASCII)


class CodeFolder:
    """Reads the folder; `path` is absolute. Its code runs as the system user `user`, None for the server's own."""

    def __init__(self, path: Path, user: str | None = None) -> None:
        self.path = path.resolve()
        self.user = user
        self._stamp: Stamp | None = None
        self._texts: Sources = {}

    def read(self) -> Sources:
        """Return the current modules: the same object until a file changes, which each call checks.

        A file that cannot be read is an error of its import only.

        Raises:
            OSError: The folder cannot be read.
        """
        stamp = self._current_stamp()
        if stamp != self._stamp:
            self._texts = {name: (str(path), *_text_of(path)) for name, path in self._files()}
            self._stamp = stamp
        return self._texts

    def changed(self) -> bool:
        """Return whether a file has changed since the last `read`."""
        return self._current_stamp() != self._stamp

    def module(self, function: str) -> None:
        """Check that the module of a `module:function` is in the folder.

        Raises:
            ValidationError: The folder has no such module.
        """
        module = function.partition(":")[0]
        if module not in self.read():
            file = module.replace(".", "/") + ".py"
            raise ValidationError(f"there is no {file} in the folder of triggers, {self.path}")

    def command(self, argv: list[str]) -> Path:
        """Return the file of a command.

        Raises:
            ValidationError: The file is not in the folder, or is not executable.
        """
        path = (self.path / argv[0]).resolve()
        if not path.is_relative_to(self.path):
            raise ValidationError(f"{argv[0]} is outside the folder of triggers, {self.path}")
        if not path.is_file():
            raise ValidationError(f"there is no {argv[0]} in the folder of triggers, {self.path}")
        if not os.access(path, os.X_OK):
            raise ValidationError(f"{path} is not executable: chmod +x it")
        return path

    def environment(self) -> dict[str, str]:
        """Return the variables of `.env`."""
        try:
            lines = (self.path / ENVIRONMENT_FILE).read_text().splitlines()
        except FileNotFoundError:
            return {}
        found = {}
        for line in lines:
            if match := _VARIABLE.fullmatch(line.strip()):
                found[match[1]] = _unquoted(match[2].lstrip())
        return found

    def _current_stamp(self) -> Stamp:
        return tuple((name, *_stamp_of(path)) for name, path in self._files())

    def _files(self) -> Iterator[tuple[str, Path]]:
        return _modules(self.path, "")


def version_of_file(path: Path) -> str:
    """Return a short hash of a file's content."""
    return blake2b(path.read_bytes(), digest_size=8).hexdigest()


def function_named(name: str) -> str:
    """Validate a `module:function`.

    Raises:
        ValidationError: The name has another form.
    """
    if not _FUNCTION.fullmatch(name):
        raise ValidationError("Sink.Function must be written module:function")
    return name


def handler_named(name: str) -> str:
    """Return the `module:function` of a name in Lambda's form `module.function`.

    >>> handler_named("billing/app.lambda_handler")
    'billing.app:lambda_handler'

    Raises:
        ValidationError: The name has another form.
    """
    if not _HANDLER.fullmatch(name):
        raise ValidationError("Sink.Handler must be written module.function, as in Lambda")
    module, _, function = name.rpartition(".")
    return f"{module.replace('/', '.')}:{function}"


def _modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules of a folder and of its packages, in order of their names."""
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
    """Read a file with the encoding that it declares, as Python does. Return its text, or empty text and the error."""
    try:
        if not path.is_file():  # opening a pipe would block
            return "", "it is not a file, or a link to none"
        text = decode_source(path.read_bytes())
        text.encode()  # some encodings have characters that UTF-8 has not
    except (PermissionError, SyntaxError, UnicodeError, LookupError) as error:
        return "", str(error)
    return text, None


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
