"""Mutual authentication: both ends of a connection prove that they know the cluster's secret and have the same log.

    caller ──► hello: version, log, nonce, revision
           ◄── version, log, nonce, HMAC(secret, "listener" + nonces + log), revision
    caller ──► HMAC(secret, "caller" + nonces + log)

The secret is never sent. The proof of one end cannot be used as the proof of the other, and each connection has new
nonces. This keeps strangers out. It does not protect against a third party that can change frames: TLS does.
"""

import hmac
from typing import Any, Final, NamedTuple

from ...model.errors import FoldbError
from .codec import PlainValue
from .wire import VERSION, WireError

MAGIC: Final = "foldb"
NONCE_BYTES: Final = 32
HANDSHAKE_BYTES: Final = 512
"""The longest frame that is accepted before authentication."""

LOOPBACK_SECRET: Final = b"every process of this machine"
"""The secret on loopback addresses if none is configured: other machines cannot call there."""


class ProofError(FoldbError):
    """The other end of a connection is no node of this cluster."""


class Identity(NamedTuple):
    """The secret that a node proves to know, and the log that it serves."""

    secret: bytes
    log_id: bytes


def hello(identity: Identity, nonce: bytes) -> PlainValue:
    """Return the first frame of either end: a caller adds its revision, a listener its proof and its revision."""
    return [MAGIC, VERSION, identity.log_id, nonce]


def read_hello(plain: PlainValue, identity: Identity) -> tuple[bytes, list[Any]]:
    """Return the nonce of the other end's hello, and the members that follow it.

    Raises:
        ProofError: The other end has another protocol version or another log.
        WireError: The frame is no hello.
    """
    if not isinstance(plain, list) or len(plain) < 4:
        raise WireError("a connection that begins with something else than a hello")
    magic, version, log_id, nonce, *more = plain
    if magic != MAGIC or not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES:
        raise WireError("a connection that begins with something else than a hello")
    if version != VERSION:
        raise ProofError(f"the other node speaks version {version} of the protocol, this one {VERSION}")
    if log_id != identity.log_id:
        raise ProofError("the other node serves another log")
    return nonce, more


def proof(identity: Identity, role: str, caller_nonce: bytes, listener_nonce: bytes) -> bytes:
    """Return the proof of a role on one connection. It can only be computed with the secret."""
    signed = b"%b\0%b%b%b" % (role.encode(), caller_nonce, listener_nonce, identity.log_id)
    return hmac.digest(identity.secret, signed, "sha256")


def check_proof(
    shown: object, identity: Identity, role: str, caller_nonce: bytes, listener_nonce: bytes
) -> None:
    """Verify the proof of the other end.

    Raises:
        ProofError: The proof is wrong: the other end does not know the secret.
    """
    expected = proof(identity, role, caller_nonce, listener_nonce)
    if not isinstance(shown, bytes) or not hmac.compare_digest(shown, expected):
        raise ProofError("the other node does not know the cluster's secret")
