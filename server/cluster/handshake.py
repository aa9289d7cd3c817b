"""Both ends of a connection between nodes prove that they know the cluster's secret, and have the same log.

    caller ──► hello: version, log, nonce, revision
           ◄── version, log, nonce, HMAC(secret, "listener" + nonces + log)
    caller ──► HMAC(secret, "caller" + nonces + log)

The secret itself never travels, what one end proves is of no use to prove the other, and nonces are drawn for each
connection. This keeps strangers out; who can change what others send is kept out by TLS.
"""

import hmac
from typing import Any, Final, NamedTuple

from ...model.errors import FoldbError
from .codec import Plain
from .wire import VERSION, WireError

MAGIC: Final = "foldb"
NONCE_BYTES: Final = 32
HANDSHAKE_BYTES: Final = 512
"""The longest frame that is taken from somebody who has proven nothing."""

LOOPBACK_SECRET: Final = b"every process of this machine"
"""Where no other machine can call, and nobody gave a secret."""


class ProofError(FoldbError):
    """The other end of a connection is no node of this cluster."""


class Identity(NamedTuple):
    """What a node shows and proves."""

    secret: bytes
    log_id: bytes


def hello(identity: Identity, nonce: bytes) -> Plain:
    """Return the first frame of either end: a caller adds its revision, a listener its proof."""
    return [MAGIC, VERSION, identity.log_id, nonce]


def read_hello(plain: Plain, identity: Identity) -> tuple[bytes, list[Any]]:
    """The other's nonce, and what follows it.

    Raises:
        ProofError: It is of another kind, version or log.
        WireError: It is no hello at all.
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
    """What only somebody with the secret can say in this role on this connection."""
    said = b"%b\0%b%b%b" % (role.encode(), caller_nonce, listener_nonce, identity.log_id)
    return hmac.digest(identity.secret, said, "sha256")


def check_proof(
    shown: object, identity: Identity, role: str, caller_nonce: bytes, listener_nonce: bytes
) -> None:
    """Refuse whoever could not say that.

    Raises:
        ProofError: It does not know the secret.
    """
    expected = proof(identity, role, caller_nonce, listener_nonce)
    if not isinstance(shown, bytes) or not hmac.compare_digest(shown, expected):
        raise ProofError("the other node does not know the cluster's secret")
