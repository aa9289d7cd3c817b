"""A deliberate bug in foldb, and the tests that must find it.

A patch is a diff without line numbers; its old lines must be in the file exactly once:

    @ log/local/writer.py
                 write_all(self._file, self._position, data)
    -            if self._fsync == "always":
    -                self._file.sync()
             except OSError as error:
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """In one file of the repository, `old` becomes `new`."""

    path: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the file's text with the bug in it.

        Raises:
            ValueError: `old` is not in the file exactly once. The code has changed, and the patch must follow.
        """
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.path} holds this {found} times, not once:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Bug:
    """A short description of the fault; the edits that cause it; and tests, as pytest takes them, that fail by it."""

    what: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def bug(what: str, patch: str, *tests: str) -> Bug:
    """Return a bug by its patch."""
    return Bug(what, tuple(map(_edit, re.split("^@ ", patch, flags=re.MULTILINE)[1:])), tests)


def _edit(hunk: str) -> Edit:
    """
    >>> _edit("a.py\\n x = 1\\n-y = 2\\n+y = 3\\n")
    Edit(path='a.py', old='x = 1\\ny = 2\\n', new='x = 1\\ny = 3\\n')
    """
    path, *lines = hunk.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    return Edit(path, old, new)
