"""The change from root to the user that the code of triggers runs as."""

import os
import pwd

from ....materializer.os_process import refuse_privileges, unhide


def become(name: str) -> None:
    """Give up root for a user and that user's groups. No program that this process runs gets it back."""
    entry = pwd.getpwnam(name)
    os.setgroups(os.getgrouplist(name, entry.pw_gid))
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    refuse_privileges()
    unhide()  # a process that has changed its user is hidden, from its own files in /proc too
