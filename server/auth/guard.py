"""The keys of a server at work: read at its start, looked at every second, read anew when their file has changed.

So a key that is made can be used, and one that is revoked cannot, within a second and without a restart. A file that
is wrong changes nothing but the log of the process: whoever edits one by hand does not lock everybody out.
"""

import hmac
import logging
import os
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

from ...model.errors import ExpiredTokenError, MissingAuthenticationTokenError, UnrecognizedClientError
from .keyfile import Key, KeyFileError, Keys, read_keys
from .verify import Head, Verifier

logger = logging.getLogger(__name__)


class Guard:
    """Lets in who has a key.

    Attributes:
        keys: As the file has them.
    """

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        """Read the file.

        Raises:
            KeyFileError: It cannot be used.
        """
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self.keys: Keys = read_keys(path)
        self._verifier = Verifier(self.keys)

    def admit(self, head: Head, body: bytes) -> Key:
        """The key of whoever asks; `body` is as it was sent.

        Raises:
            RequestError: Nobody whom we know asked, or not now.
        """
        return self._verifier.verify(head, body, self._clock())

    def admit_plainly(self, authorization: bytes) -> Key:
        """The key of whoever says id and secret, by HTTP's Basic scheme.

        Raises:
            RequestError: Nobody whom we know asked, or not now.
        """
        key_id, _, secret = _said(authorization).partition(b":")
        key = self.keys.by_id.get(key_id.decode("latin-1"))
        expected = self.keys.decoy if key is None else key.secret
        if not hmac.compare_digest(expected.encode(), secret) or key is None:
            raise UnrecognizedClientError
        if key.expires_ms is not None and key.expires_ms <= self._clock():
            raise ExpiredTokenError
        return key

    def reload_if_changed(self) -> None:
        """Read the file anew if it has changed."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.keys = read_keys(self._path)
        except KeyFileError as error:
            logger.error("the keys stay what they were: %s", error)
            return
        self._verifier = Verifier(self.keys)
        logger.info("read %d keys from %s", len(self.keys.by_id), self._path)


def _said(authorization: bytes) -> bytes:
    """What a Basic Authorization header says."""
    scheme, _, coded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        raise MissingAuthenticationTokenError
    try:
        return b64decode(coded, validate=True)
    except ValueError:
        raise UnrecognizedClientError from None


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Another one whenever the file was written, replaced, or given other rights."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
