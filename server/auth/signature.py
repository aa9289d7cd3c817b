"""AWS Signature Version 4, with which clients of DynamoDB sign requests.

    method, path, signed fields, sha256(body)            ──► canonical request
    time, scope, sha256(canonical request)               ──► string to sign
    secret ──► day ──► region ──► service ──► signing key; its HMAC of the string to sign is the signature

A scope is `day/region/service/aws4_request`: so a secret has a signing key per day and region.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence

ALGORITHM = b"AWS4-HMAC-SHA256"
SERVICE = b"dynamodb"
TERMINATOR = b"aws4_request"

_BLOCK_BYTES = 64  # of SHA-256; RFC 2104 pads keys to this size


class SigningKey:
    """Signs strings of one scope.

    An HMAC is a hash of a hash, each with a prefix from the key. The states after both prefixes are kept, which takes
    half the time of the hmac module.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes, day: bytes, region: bytes, service: bytes = SERVICE) -> None:
        key = b"AWS4" + secret
        for part in (day, region, service, TERMINATOR):
            key = hmac.digest(key, part, "sha256")
        key = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def sign(self, text: bytes) -> bytes:
        """Return the signature in hexadecimal digits."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


def canonical_request(
    fields: Mapping[bytes, bytes], names: Sequence[bytes], listed: bytes, body: bytes, query: bytes = b""
) -> bytes:
    """Return the canonical request of a POST to `/`: the query, the signed header fields and the hash of the body.

    Args:
        fields: The header fields, by lower-case name.
        names: The names of the signed fields, sorted.
        listed: The same names, joined by semicolons.
        body: The body as it is sent.
        query: The canonical query.

    Raises:
        KeyError: A signed field is missing.
    """
    lines = b"".join([name + b":" + fields[name] + b"\n" for name in names])
    if lines.find(b"  ") >= 0 or lines.find(b" \n") >= 0 or lines.find(b"\t") >= 0:
        lines = b"".join([name + b":" + b" ".join(fields[name].split()) + b"\n" for name in names])
    return b"POST\n/\n%b\n%b\n%b\n%b" % (query, lines, listed, hashlib.sha256(body).hexdigest().encode())


def string_to_sign(iso_time: bytes, scope: bytes, request: bytes) -> bytes:
    return b"%b\n%b\n%b\n%b" % (ALGORITHM, iso_time, scope, hashlib.sha256(request).hexdigest().encode())


def iso(seconds: int) -> bytes:
    """Return a time in the basic format of ISO 8601.

    >>> iso(1795269600)
    b'20261121T144000Z'
    """
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds)).encode()


def sign(
    key_id: str,
    secret: str,
    fields: Mapping[str, str],
    body: bytes,
    *,
    seconds: int,
    region: str = "us-east-1",
) -> dict[str, str]:
    """Return `fields`, which have Host and X-Amz-Target, with X-Amz-Date and Authorization added."""
    signed = {**fields, "X-Amz-Date": iso(seconds).decode()}
    lower = {name.lower().encode(): value.encode() for name, value in signed.items()}
    names = sorted(lower)
    listed, day = b";".join(names), iso(seconds)[:8]
    scope = b"/".join((day, region.encode(), SERVICE, TERMINATOR))
    text = string_to_sign(lower[b"x-amz-date"], scope, canonical_request(lower, names, listed, body))
    signature = SigningKey(secret.encode(), day, region.encode()).sign(text)
    header = b"%b Credential=%b/%b, SignedHeaders=%b, Signature=%b" % (
        ALGORITHM, key_id.encode(), scope, listed, signature,
    )  # fmt: skip
    return {**signed, "Authorization": header.decode()}
