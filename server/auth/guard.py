"""The keys of a running server, reloaded within a second after their file changes.

So a new key is valid and a revoked key is invalid without a restart. If the changed file is malformed, the server logs
an error and keeps the previous keys: a mistake in an edit locks no client out.
"""

import hmac
import logging
import os
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

from ...model.errors import ExpiredTokenError, MissingAuthenticationTokenError, UnrecognizedClientError
from .keyfile import Key, KeyFileError, Keys, read_keys
from .verify import SignedHead, Verifier

logger = logging.getLogger(__name__)


class Guard:
    """Authenticates requests.

    Attributes:
        keys: The keys that were read from the file.
    """

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        """Read the file.

        Raises:
            KeyFileError: The file cannot be used.
        """
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self.keys: Keys = read_keys(path)
        self._verifier = Verifier(self.keys)

    def admit(self, head: SignedHead, body: bytes) -> Key:
        """Return the key that signed a request; `body` is as it was sent.

        Raises:
            RequestError: The signature is missing or wrong, or its key is unknown or expired.
        """
        return self._verifier.verify(head, body, self._clock())

    def admit_basic(self, authorization: bytes) -> Key:
        """Return the key whose id and secret a Basic Authorization header holds.

        Raises:
            RequestError: The header is malformed, or the key is unknown, expired or has another secret.
        """
        key_id, _, secret = _credentials(authorization).partition(b":")
        key = self.keys.by_id.get(key_id.decode("latin-1"))
        expected = self.keys.decoy if key is None else key.secret
        if not hmac.compare_digest(expected.encode(), secret) or key is None:
            raise UnrecognizedClientError
        if key.expires_ms is not None and key.expires_ms <= self._clock():
            raise ExpiredTokenError
        return key

    def reload_if_changed(self) -> None:
        """Read the file again if it has changed."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.keys = read_keys(self._path)
        except KeyFileError as error:
            logger.error("cannot reload the keys: %s; the previous keys stay in use", error)
            return
        self._verifier = Verifier(self.keys)
        logger.info("read %d keys from %s", len(self.keys.by_id), self._path)


def _credentials(authorization: bytes) -> bytes:
    """Return the `id:secret` of a Basic Authorization header."""
    scheme, _, coded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        raise MissingAuthenticationTokenError
    try:
        return b64decode(coded, validate=True)
    except ValueError:
        raise UnrecognizedClientError from None


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes whenever the file is written, replaced or given other permissions."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
