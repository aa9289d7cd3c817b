"""Verification of signatures: the server computes the signature of a received request and compares.

No claim of the request is trusted. The hash is computed from the body, not taken from a header field. Every field with
a meaning to AWS must be signed and must not be repeated. The time is checked first, so that an old request costs no
hash. An unknown key is verified with a random secret, so that an unknown key and a wrong signature take the same time.
"""

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Protocol

from ...model.errors import (
    ExpiredTokenError,
    IncompleteSignatureError,
    InvalidSignatureError,
    MissingAuthenticationTokenError,
    UnrecognizedClientError,
)
from .keyfile import Key, Keys
from .query_signature import QuerySignature, is_signed
from .signature import ALGORITHM, SERVICE, TERMINATOR, SigningKey, canonical_request, iso, string_to_sign

CLOCK_S = 15 * 60  # tolerance for the clock of a client, in both directions

_HEADER = re.compile(
    rb"AWS4-HMAC-SHA256 +Credential=([^\s,=]+) *, *SignedHeaders=([^\s,=]+) *, *Signature=[0-9a-f]{64}"
)
_SIGNATURE = 64
# Fields that must be signed: AWS gives those with its prefix a meaning, and the log keeps the reason with the signer.
_SIGNED = (b"x-amz-", b"x-foldb-reason")
_ISO = re.compile(rb"\d{8}T\d{6}Z")
_SHOWN = 256  # limit of quoted text in an error
# Limits of the cached claims. A client sends the same claim all day, so there are few.
_CLAIMS_MAX = 1000
_CLAIM_BYTES = 1024


class SignedHead(Protocol):
    """The part of a request's head that signatures cover; see http/request_head.py."""

    fields: dict[bytes, bytes]
    path: bytes
    repeated: frozenset[bytes]


class Claim:
    """An Authorization header or a query without the signature: the key, the day and the signed fields.

    Attributes:
        key: The key; None if it is unknown.
        day: The day of the scope, YYYYMMDD.
        scope: The credential without the key id.
        signing_key: The signing key, after the first `derive`.
        listed: The names of the signed fields, joined by semicolons.
        names: The same names, sorted.
        signed: The same names, as a set.
    """

    __slots__ = ("_region", "_secret", "day", "key", "listed", "names", "scope", "signed", "signing_key")

    def __init__(self, credential: bytes, listed: bytes, keys: Keys) -> None:
        """Parse a credential and the list of signed fields.

        Raises:
            RequestError: The credential or the list is malformed, or the credential is for another service.
        """
        self.listed = listed
        self.names = _names(self.listed)
        self.signed = frozenset(self.names)
        parts = credential.split(b"/")
        if len(parts) != 5:
            raise IncompleteSignatureError(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
                f"got '{_text(credential)}'"
            )
        key_id, self.day, self._region, service, terminator = parts
        if service != SERVICE:
            raise InvalidSignatureError("Credential should be scoped to correct service: 'dynamodb'. ")
        if terminator != TERMINATOR:
            raise InvalidSignatureError(
                f"Credential should be scoped with a valid terminator: 'aws4_request', not '{_text(terminator)}'. "
            )
        self.scope = credential[len(key_id) + 1 :]
        self.key = keys.by_id.get(key_id.decode("latin-1"))
        self._secret = keys.decoy if self.key is None else self.key.secret
        self.signing_key: SigningKey | None = None

    def derive(self) -> SigningKey:
        """Compute the signing key and cache it."""
        self.signing_key = SigningKey(self._secret.encode(), self.day, self._region)
        return self.signing_key


class Verifier:
    """Verifies signatures with a fixed set of keys.

    It caches claims and their signing keys. A change of the keys needs a new verifier, so a revoked key is in no cache.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._claims: dict[bytes, Claim] = {}

    def verify(self, head: SignedHead, body: bytes, now_ms: int) -> Key:
        """Return the key that signed the request; `body` is as it was sent.

        Raises:
            RequestError: The signature is missing, malformed, wrong or expired, or its key is unknown.
        """
        fields = head.fields
        authorization = fields.get(b"authorization", b"")
        query: QuerySignature | None = None
        if head.path != b"/" and is_signed(head.path):
            query = QuerySignature(head.path, authorization)
            claim = Claim(query.credential, query.listed, self._keys)
            iso_time = _time(query.date, now_ms // 1000, query.expires_s)
        else:
            claim = self._claims.get(authorization[:-_SIGNATURE]) or self._read(authorization)
            iso_time = _time(_date(fields), now_ms // 1000)
        if claim.day != iso_time[:8]:
            raise InvalidSignatureError(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
                f"'{_text(claim.day)}' != '{_text(iso_time[:8])}', from '{_text(iso_time)}'."
            )
        _check_fields(head, claim, query)
        canonical_query = b"" if query is None else query.canonical
        try:
            request = canonical_request(fields, claim.names, claim.listed, body, canonical_query)
        except KeyError:  # a signed field is missing
            raise InvalidSignatureError from None
        signing_key = claim.signing_key or claim.derive()
        expected = signing_key.sign(string_to_sign(iso_time, claim.scope, request))
        given = authorization[-_SIGNATURE:] if query is None else query.signature
        is_right = hmac.compare_digest(expected, given)
        key = claim.key
        # Keys of foldb are long-term keys: a request with a session token was signed with another key.
        if key is None or b"x-amz-security-token" in fields or (query is not None and query.has_token):
            raise UnrecognizedClientError
        if not is_right:
            raise InvalidSignatureError
        if key.expires_ms is not None and key.expires_ms <= now_ms:
            raise ExpiredTokenError
        return key

    def _read(self, authorization: bytes) -> Claim:
        claim = Claim(*_parts(authorization), self._keys)
        if len(authorization) <= _CLAIM_BYTES:
            if len(self._claims) >= _CLAIMS_MAX:
                self._claims.clear()
            self._claims[authorization[:-_SIGNATURE]] = claim
        return claim


def _parts(authorization: bytes) -> tuple[bytes, bytes]:
    """Return the credential and the list of signed fields of a header."""
    match = _HEADER.fullmatch(authorization)
    if match is not None:
        credential, listed = match.groups()
        return credential, listed
    if not authorization.startswith(b"AWS4-"):
        raise MissingAuthenticationTokenError
    algorithm = authorization.partition(b" ")[0]
    if algorithm != ALGORITHM:
        raise IncompleteSignatureError(f"Unsupported AWS 'algorithm': '{_text(algorithm)}'.")
    raise incomplete(authorization)


def incomplete(authorization: bytes) -> IncompleteSignatureError:
    """Return the error for a malformed header of the right algorithm, with AWS's message where AWS has one."""
    lacking = [
        f"Authorization header requires '{part}' parameter."
        for part in ("Credential", "Signature", "SignedHeaders")
        if f"{part}=".encode() not in authorization
    ]
    wrong = " ".join(lacking) or (
        "Authorization header must be 'AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=...'."
    )
    return IncompleteSignatureError(f"{wrong} Authorization={_text(authorization)}")


def _names(listed: bytes) -> tuple[bytes, ...]:
    """Return the names in a list of signed fields. The list must be sorted, without duplicates."""
    names = tuple(listed.split(b";"))
    if names != tuple(sorted(set(names))) or listed != listed.lower():
        raise InvalidSignatureError
    if b"host" not in names:
        raise InvalidSignatureError(
            "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
        )
    return names


def _check_fields(head: SignedHead, claim: Claim, query: QuerySignature | None) -> None:
    """Refuse unsigned fields that must be signed, and repeated signed fields.

    Raises:
        InvalidSignatureError: A field has to be signed, or is repeated.
    """
    fields, signed = head.fields, claim.signed
    for name in fields.keys() - signed:
        if name.startswith(_SIGNED):
            raise InvalidSignatureError(f"'{_text(name)}' must be a 'SignedHeader' in the AWS Authorization.")
    if query is None and b"x-amz-date" not in fields and b"date" not in signed:
        raise InvalidSignatureError("'Date' must be a 'SignedHeader' in the AWS Authorization.")
    if head.repeated and not head.repeated.isdisjoint(signed):
        raise InvalidSignatureError
    if query is None and head.path != b"/":
        raise InvalidSignatureError("The API is at the path '/' and takes no query.")


def _date(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the time of a signature in the header.

    Raises:
        IncompleteSignatureError: The time is missing.
    """
    text = fields.get(b"x-amz-date") or fields.get(b"date")
    if text is None:
        raise IncompleteSignatureError(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
            f"Authorization={_text(fields[b'authorization'])}"
        )
    return text


def _time(text: bytes, now: int, expires_s: int | None = None) -> bytes:
    """Return the time of a signature that is valid for a number of seconds, or for the usual time.

    Raises:
        RequestError: The time is malformed, or too far from now.
    """
    valid_s = CLOCK_S if expires_s is None else expires_s
    iso_time, seconds = _read_time(text)
    if seconds < now - valid_s:
        limit, at = _text(iso(now - valid_s)), _text(iso(now))
        length = f"{valid_s} sec." if valid_s % 60 else f"{valid_s // 60} min."
        raise InvalidSignatureError(
            f"Signature expired: {_text(iso_time)} is now earlier than {limit} ({at} - {length})"
        )
    if seconds > now + CLOCK_S:
        limit, at = _text(iso(now + CLOCK_S)), _text(iso(now))
        raise InvalidSignatureError(
            f"Signature not yet current: {_text(iso_time)} is still later than {limit} ({at} + 15 min.)"
        )
    return iso_time


@lru_cache(maxsize=100)
def _read_time(text: bytes) -> tuple[bytes, int]:
    """Return a time in ISO 8601 basic format and in seconds since 1970. Cached: requests of one second share it."""
    try:
        if _ISO.fullmatch(text):
            read = datetime.strptime(text.decode(), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            return text, int(read.timestamp())
        seconds = int(parsedate_to_datetime(text.decode()).timestamp())
        return iso(seconds), seconds
    except (ValueError, OverflowError):
        raise IncompleteSignatureError(
            f"Date must be in ISO-8601 'basic format'. Got '{_text(text)}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None


def _text(data: bytes) -> str:
    return data[:_SHOWN].decode("latin-1")
