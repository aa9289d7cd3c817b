"""The system user that runs trigger code, if the server is root and an operator names one.

check    at the start of a server: refuse a user that cannot run a worker
lend     before a worker starts: give it its scratch folder
become   in the worker, before it reads any code (runtime/sandbox.py)
"""

import os
import pwd
import subprocess
import sys
from pathlib import Path

_WORKER = "foldb.streams.workers.runtime.worker"


def check(name: str) -> None:
    """Check that workers can run as a user.

    Raises:
        ValueError: The server is not root, or the user does not exist or is root, or cannot read Python or foldb.
    """
    if os.geteuid() != 0:
        raise ValueError(
            f"only root can run workers as {name}; start the server as root, or as {name} itself"
        )
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"there is no user {name!r} on this machine") from None
    if entry.pw_uid == 0:
        raise ValueError(f"{name} is root, which can read the server's secrets; name another user")
    try:
        subprocess.run(  # noqa: S603  foldb's own command
            [sys.executable, "-P", "-c", f"import {_WORKER}"],
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=os.getgrouplist(name, entry.pw_gid),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    except OSError as error:
        raise _unusable(name, str(error)) from error
    except subprocess.CalledProcessError as error:
        raise _unusable(name, error.stderr.strip().rpartition("\n")[2]) from error


def _unusable(name: str, reason: str) -> ValueError:
    return ValueError(
        f"{name} cannot run {sys.executable} with foldb ({reason}); install both where that user can read them"
    )


def lend(folder: Path, name: str, root: Path) -> None:
    """Give a user the ownership of a folder, and the right to pass through the folders above it, up to `root`.

    The folders above stay the server's, so that the user cannot place a link where the server makes a folder.
    """
    entry = pwd.getpwnam(name)
    for above in folder.parents:
        if above.is_relative_to(root):
            above.chmod(0o711)
    os.chown(folder, entry.pw_uid, entry.pw_gid, follow_symlinks=False)
