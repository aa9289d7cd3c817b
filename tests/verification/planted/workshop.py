"""A copy of the repository, in which one bug after the other is planted and its tests are run.

<folder>/foldb      the copy: its root is the package, as everywhere
<folder>/compiled   the C sources and objects of its hot modules, if this process runs the compiled package
PYTHONPATH          is <folder>, so that tests and their child processes import the copy

On the compiled package a bug in a hot module is compiled before its tests run.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foldb.version import build
from tests.verification.planted.bug import Bug

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 600

# A test that failed, or could not be set up. A module that could not be imported has no `::`, and does not count.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a run of tests: the first that failed, if one did, and the output."""

    failed: str | None
    said: str


class Workshop:
    """See the module. `folder` is any empty folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copy = folder / "foldb"
        unwanted = shutil.ignore_patterns(".*", "__pycache__", "data", "build", "dist", "*.egg-info")
        shutil.copytree(ROOT, self._copy, ignore=unwanted)
        self._hot: list[str] = []
        if build() == "compiled":
            self._hot = runpy.run_path(str(ROOT / "setup.py"))["hot_modules"]()
            refusal = self._compile()
            if refusal is not None:
                raise RuntimeError(refusal)

    def changes_the_build(self, bug: Bug) -> bool:
        """Return whether the bug can behave otherwise in this build than in the pure one, where it is tried anyway."""
        return build() == "pure" or any(edit.path in self._hot for edit in bug.edits)

    def imported(self) -> Path:
        """Return the folder from which a process of the workshop imports foldb."""
        program = "import foldb; print(*foldb.__path__)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self._folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return Path(done.stdout.strip())

    def try_(self, bug: Bug) -> Finding:
        """Plant a bug, run its tests, and remove it again."""
        with self._planted(bug):
            refusal = self._compile() if self._hot else None
            return self.run(bug.tests) if refusal is None else Finding(f"the compiler: {refusal}", "")

    def run(self, tests: Sequence[str]) -> Finding:
        """Run tests up to the first that fails."""
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
                cwd=self._copy,
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            return Finding(f"no end within {PATIENCE_S} s", "")
        failed = _FAILED.search(done.stdout)
        if done.returncode and not failed:
            raise RuntimeError(f"the tests did not run: {done.stdout}{done.stderr}")
        return Finding(failed[1] if failed else None, done.stdout)

    def _compile(self) -> str | None:
        """Compile the modules that have changed; return the error if mypy refuses one.

        Raises:
            RuntimeError: The build failed for another reason.
        """
        program = Path(__file__).with_name("compile_copy.py")
        done = subprocess.run(
            [sys.executable, program, self._copy, self._folder / "compiled"],
            cwd=self._folder,
            capture_output=True,
            text=True,
        )
        # mypyc raises a KeyError for a lambda that a bug made unreachable.
        refused = re.search(r"^\S+\.py:\d+: (?:error|KeyError): .*$", done.stdout + done.stderr, re.MULTILINE)
        if done.returncode and not refused:
            raise RuntimeError(f"the copy was not compiled: {done.stdout}{done.stderr}")
        return refused[0] if refused else None

    @contextmanager
    def _planted(self, bug: Bug) -> Iterator[None]:
        before = {edit.path: (self._copy / edit.path).read_text() for edit in bug.edits}
        try:
            for edit in bug.edits:
                path = self._copy / edit.path
                self._write(path, edit.applied(path.read_text()))
            yield
        finally:
            for name, text in before.items():
                self._write(self._copy / name, text)

    def _write(self, path: Path, text: str) -> None:
        """Write a file and remove its compiled form: within one second Python could use the old one."""
        path.write_text(text)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("FOLDB_SOAK", "CI")}
        return {**kept, "PYTHONPATH": str(self._folder)}
