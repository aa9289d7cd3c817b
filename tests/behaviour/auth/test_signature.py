"""Signatures, compared with AWS's example and with botocore."""

import gzip
import hashlib
import hmac

import pytest

from foldb.server.auth.signature import SigningKey, sign
from foldb.server.auth.verify import Verifier
from tests.behaviour.auth.signed import BODY, ID, KEY, KEYS, SECRET, signed

# From "Deriving the signing key" in AWS's General Reference.
EXAMPLE_SECRET = b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
EXAMPLE_SIGNING_KEY = bytes.fromhex("f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d")


def test_the_signing_key_is_that_of_awss_example() -> None:
    key = SigningKey(EXAMPLE_SECRET, b"20120215", b"us-east-1", b"iam")

    for text in (b"", b"a", b"x" * 1000):
        assert hmac.new(EXAMPLE_SIGNING_KEY, text, hashlib.sha256).hexdigest().encode() == key.sign(text)


@pytest.mark.parametrize("body", [b"", b"{}", BODY, bytes(range(256)) * 300, gzip.compress(BODY, mtime=0)])
@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1", "local", "ddblocal"])
def test_signatures_of_botocore_are_accepted(body: bytes, region: str) -> None:
    request = signed(body, region=region)

    assert KEY is Verifier(KEYS).verify(request.head, body, request.time_ms)


@pytest.mark.parametrize(
    "fields",
    [
        {"X-Amz-Meta": "two  spaces, and   three"},
        {"X-Amz-Meta": "a space behind it "},
        {"X-Amz-Meta": ""},
        {"Host": "dynamodb.us-east-1.amazonaws.com"},
        {"Host": "[::1]:8000"},
        {"x-amz-content-sha256": hashlib.sha256(BODY).hexdigest()},
        {"Content-Encoding": "identity"},
        {"x-foldb-position": "10482"},
        {"Zebra": "at the end", "AAA": "at the beginning"},
    ],
    ids=lambda fields: " ".join(fields),
)
def test_every_field_is_signed_as_botocore_signs_it(fields: dict[str, str]) -> None:
    request = signed(fields=fields)

    assert KEY is Verifier(KEYS).verify(request.head, BODY, request.time_ms)


def test_the_command_line_signs_as_botocore_does() -> None:
    theirs = signed(region="eu-west-1")
    fields = {
        name: value
        for name, value in theirs.fields.items()
        if name.lower() not in ("authorization", "x-amz-date", "user-agent")
    }

    ours = sign(ID, SECRET, fields, BODY, seconds=theirs.time_ms // 1000, region="eu-west-1")

    assert ours == {name: value for name, value in theirs.fields.items() if name != "User-Agent"}
