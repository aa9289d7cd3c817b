"""The folders of S3 buckets: DIR/<bucket>/<key>, with the DIR of --buckets.

Names of buckets and keys come from requests. They never lead out of DIR, neither by `..` nor by a symbolic link.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...model.errors import JobFailedError, ValidationError

NOT_CONFIGURED: Final = (
    "This server has no folder for buckets: start it with `foldb serve --buckets DIR`. The bucket NAME is then the "
    "folder DIR/NAME."
)

_is_bucket = re.compile("[a-zA-Z0-9][a-zA-Z0-9._-]*[a-zA-Z0-9]", re.ASCII).fullmatch


def check_bucket(name: str) -> None:
    """Check the name of a bucket.

    Raises:
        ValidationError: The name is not one of a folder in the folder of the buckets.
    """
    if not _is_bucket(name) or ".." in name:
        raise ValidationError(f"S3Bucket is not the name of a bucket: {name}")


def check_prefix(prefix: str, member: str) -> None:
    """Check a prefix of keys; `member` names it in the error.

    Raises:
        ValidationError: The keys would not be paths of a bucket's folder.
    """
    parts = prefix.removesuffix("/").split("/")
    if prefix and any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        raise ValidationError(
            f"{member} cannot be a path of the bucket's folder: its parts must not be empty, `.` or `..`"
        )
    if not _is_unicode(prefix):
        raise ValidationError(f"{member} is not valid Unicode")


def path_while_written(path: Path) -> Path:
    """Return the path of a file of a bucket until it is complete. As an object of S3, it is no key before."""
    return path.with_name(f".{path.name}.part")


def _is_being_written(name: str) -> bool:
    return name.startswith(".") and name.endswith(".part")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class BucketFolder:
    """The folder of one bucket.

    Args:
        root: The folder of all buckets; None if the server has none.
        name: The bucket.

    Raises:
        JobFailedError: The bucket does not exist.
    """

    def __init__(self, root: Path | None, name: str) -> None:
        if root is None:
            raise JobFailedError("BucketsNotConfigured", NOT_CONFIGURED)
        check_bucket(name)
        self.path = Path(os.path.realpath(root)) / name
        if not self.path.is_dir():
            raise JobFailedError(
                "S3NoSuchBucket", f"The bucket does not exist: {name} is no folder in {root}"
            )
        self._check_inside(self.path)

    def folder(self, key: str) -> Path:
        """Make the folder of a key that is to be written, and return its path.

        Raises:
            JobFailedError: A symbolic link leads out of the bucket.
        """
        path = self.path / key
        self._check_inside(path)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def file(self, key: str) -> Path:
        """Return the path of a file that exists.

        Raises:
            JobFailedError: No file has the key, or a symbolic link leads out of the bucket.
        """
        path = self.path / key
        self._check_inside(path)
        if not path.is_file():
            raise JobFailedError("S3NoSuchKey", f"The file does not exist: {key}")
        return path

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the files that begin with a prefix, in order, without those that are being written.

        Raises:
            JobFailedError: A symbolic link leads out of the bucket, or the name of a file is not valid Unicode.
        """
        begin = self.path / prefix.rpartition("/")[0]
        self._check_inside(begin)
        found = []
        for folder, _, names in os.walk(begin):
            below = Path(folder).relative_to(self.path)
            keys = ((below / name).as_posix() for name in names if not _is_being_written(name))
            found += [key for key in keys if key.startswith(prefix)]
        for key in sorted(found):
            if not _is_unicode(key):
                raise JobFailedError("S3InvalidKey", f"The name of a file is not valid Unicode: {key!a}")
            self.file(key)
            yield key

    def _check_inside(self, path: Path) -> None:
        if not Path(os.path.realpath(path)).is_relative_to(self.path):
            raise JobFailedError(
                "S3AccessDenied", f"A symbolic link leads out of the bucket {self.path.name}"
            )
