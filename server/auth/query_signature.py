"""A signature in the query string of a request, as a presigned URL has it.

    /?X-Amz-Algorithm=...&X-Amz-Credential=...&X-Amz-Date=...&X-Amz-Expires=...&X-Amz-SignedHeaders=...&X-Amz-Signature=...

The canonical request has all parameters but the signature. A URL is valid for X-Amz-Expires seconds after its date, and
for 15 minutes without it. The API has no other parameters, so any other is refused.
"""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from ...model.errors import IncompleteSignatureError, InvalidSignatureError
from .signature import ALGORITHM

EXPIRES_MAX_S: Final = 7 * 24 * 60 * 60

_ALGORITHM, _CREDENTIAL, _DATE = b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Date"
_EXPIRES, _NAMES, _SIGNATURE = b"X-Amz-Expires", b"X-Amz-SignedHeaders", b"X-Amz-Signature"
_TOKEN: Final = b"X-Amz-Security-Token"
_REQUIRED: Final = (_ALGORITHM, _CREDENTIAL, _SIGNATURE, _NAMES, _DATE)  # in the order of DynamoDB's text
_KNOWN: Final = frozenset((*_REQUIRED, _EXPIRES, _TOKEN))
_is_signature = re.compile(rb"[0-9a-f]{64}").fullmatch
_is_number = re.compile(rb"[0-9]{1,7}").fullmatch


def is_signed(path: bytes) -> bool:
    """Return whether the query of a path has a part of a signature."""
    return path.startswith(b"/?") and b"X-Amz-" in path


class QuerySignature:
    """The parameters of a signature, decoded.

    Attributes:
        credential: The credential: key id, day, region, service and terminator.
        listed: The names of the signed header fields, joined by semicolons.
        date: The time of the signature, as the client wrote it.
        expires_s: The seconds for which it is valid; None if it has the usual time.
        signature: The signature in hexadecimal digits.
        has_token: Whether it has the token of a session.
        canonical: The query of the canonical request.
    """

    __slots__ = ("canonical", "credential", "date", "expires_s", "has_token", "listed", "signature")

    def __init__(self, path: bytes, authorization: bytes = b"") -> None:
        """Parse the query of a path.

        Raises:
            IncompleteSignatureError: A parameter is missing or malformed.
            InvalidSignatureError: A parameter is repeated or unknown, or the request has an Authorization header too.
        """
        parts = [part.partition(b"=") for part in path.partition(b"?")[2].split(b"&")]
        pairs = [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in parts]
        given = dict(pairs)
        if authorization and _ALGORITHM in given:
            raise InvalidSignatureError(
                "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
            )
        missing = [name for name in _REQUIRED if not given.get(name)]
        if missing:
            raise IncompleteSignatureError(
                " ".join(f"AWS query-string parameters must include '{name.decode()}'." for name in missing)
                + " Re-examine the query-string parameters."
            )
        if len(given) < len(pairs) or not given.keys() <= _KNOWN:
            raise InvalidSignatureError("The API takes no query but one signature.")
        if given[_ALGORITHM] != ALGORITHM:
            raise IncompleteSignatureError(
                f"Unsupported AWS 'algorithm': '{given[_ALGORITHM][:256].decode('latin-1')}'."
            )
        if not _is_signature(given[_SIGNATURE]):
            raise InvalidSignatureError
        self.credential = given[_CREDENTIAL]
        self.listed = given[_NAMES]
        self.date = given[_DATE]
        self.expires_s = _seconds(given[_EXPIRES]) if _EXPIRES in given else None
        self.signature = given[_SIGNATURE]
        self.has_token = _TOKEN in given
        signed = sorted((_quoted(name), _quoted(value)) for name, value in pairs if name != _SIGNATURE)
        self.canonical = "&".join(f"{name}={value}" for name, value in signed).encode()


def _seconds(text: bytes) -> int:
    if not _is_number(text) or not 1 <= int(text) <= EXPIRES_MAX_S:
        raise IncompleteSignatureError(
            f"X-Amz-Expires must be a number of seconds from 1 to {EXPIRES_MAX_S}."
        )
    return int(text)


def _quoted(text: bytes) -> str:
    return quote(text, safe="-_.~")
