"""Another user of this machine than the one that runs the tests, and a foldb that this user may run."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

NAME = "nobody"


@dataclass(frozen=True)
class OtherUser:
    """The other user.

    Attributes:
        name: The user's name.
        folder: A folder of the user, below no private folder.
        foldb: The program `foldb` with a Python that the user may read.
        identity: A program that runs another one as this user.
    """

    name: str
    folder: Path
    foldb: tuple[str, ...]
    identity: tuple[str, ...]


@contextmanager
def other_user() -> Iterator[OtherUser]:
    """Yield a user; skip the test if processes cannot run as another user."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root starts processes as another user")
    entry = pwd.getpwnam(NAME)
    with tempfile.TemporaryDirectory(prefix="foldb-other-user-") as above:
        os.chmod(above, 0o755)
        python = _python(Path(above, "python"), entry.pw_uid)
        folder = Path(above, "own")
        folder.mkdir()
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        identity = ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups")
        yield OtherUser(NAME, folder, (str(python), "-P", "-m", "foldb"), identity)


def _python(environment: Path, user: int) -> Path:
    """Return a Python with the packages of this one, which may be in a private folder of root."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own, of_all = os.path.realpath(sys.executable), shutil.which(version, path="/usr/local/bin:/usr/bin")
    packages = environment / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "all.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    python = environment / "bin" / "python"
    python.parent.mkdir()
    for base in filter(None, (own, of_all)):
        (environment / "pyvenv.cfg").write_text(f"home = {Path(base).parent}\n")
        python.unlink(missing_ok=True)
        python.symlink_to(base)
        try:
            program = [str(python), "-P", "-c", "import foldb.server.app"]
            subprocess.run(program, user=user, env={}, cwd="/", check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("no Python of this version is one that another user may run")
