"""Requests that are signed in their query, by botocore."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from foldb.model.errors import RequestError
from foldb.server.auth.rights import Rights
from foldb.server.auth.verify import Verifier
from foldb.server.http.request_head import RequestHead, read_head
from tests.behaviour.auth.policies import serving
from tests.behaviour.auth.signed import BODY, HOST, ID, KEY, KEYS, SECRET
from tests.support.tables import table_request

TARGET = {"X-Amz-Target": "DynamoDB_20120810.GetItem", "Content-Type": "application/x-amz-json-1.0"}


def presigned(
    body: bytes = BODY,
    *,
    expires: int = 60,
    token: str | None = None,
    key_id: str = ID,
    url: str = f"http://{HOST}/",
) -> tuple[str, int]:
    """The path of a request that is signed now, and the time in milliseconds."""
    signer = SigV4QueryAuth(Credentials(key_id, SECRET, token), "dynamodb", "us-east-1", expires=expires)
    # botocore's presigned URLs have no body.
    signer.payload = lambda _: sha256(body).hexdigest()
    request = AWSRequest("POST", url, headers=dict(TARGET))
    signer.add_auth(request)
    parts = urlsplit(request.url)
    date = next(part.partition("=")[2] for part in parts.query.split("&") if part.startswith("X-Amz-Date="))
    signed = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return f"/?{parts.query}", int(signed.timestamp()) * 1000


def head(path: str, fields: Mapping[str, str] = TARGET) -> RequestHead:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {HOST}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return read_head("\r\n".join((*lines, "", "")).encode())


def refusal(
    path: str, now_ms: int, body: bytes = BODY, fields: Mapping[str, str] = TARGET
) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        Verifier(KEYS).verify(head(path, fields), body, now_ms)
    return caught.value.wire_name, caught.value.message


@pytest.mark.guarantee("SEC2")
def test_a_request_that_is_signed_in_its_query_is_accepted() -> None:
    path, now_ms = presigned()

    assert Verifier(KEYS).verify(head(path), BODY, now_ms) is KEY


@pytest.mark.guarantee("SEC2")
def test_a_server_answers_a_presigned_request(tmp_path: Path) -> None:
    with serving(tmp_path, {"reader": Rights(["Cars"])}) as clients:
        clients["admin"].create_table(**table_request("Cars", "pk:S"))
        answers = []
        for key_id in ("reader", "stranger"):
            path, _ = presigned(key_id=key_id, url=f"{clients.url}/")
            connection = HTTPConnection(urlsplit(clients.url).netloc, timeout=10)
            connection.request("POST", path, BODY, TARGET)
            answers.append(connection.getresponse())
            connection.close()

    assert [200, 400] == [answer.status for answer in answers]


@pytest.mark.guarantee("SEC2")
def test_another_body_or_field_does_not_match() -> None:
    path, now_ms = presigned()
    other = {**TARGET, "X-Amz-Target": "DynamoDB_20120810.DeleteItem"}

    assert refusal(path, now_ms, BODY + b" ")[0] == "InvalidSignatureException"
    assert refusal(path, now_ms, BODY, other)[0] == "InvalidSignatureException"
    assert (
        refusal(path.replace("X-Amz-Expires=60", "X-Amz-Expires=61"), now_ms)[0]
        == "InvalidSignatureException"
    )


def test_an_unsigned_field_of_aws_is_refused() -> None:
    path, now_ms = presigned()

    assert refusal(path, now_ms, BODY, TARGET | {"X-Amz-Meta": "1"}) == (
        "InvalidSignatureException",
        "'x-amz-meta' must be a 'SignedHeader' in the AWS Authorization.",
    )


@pytest.mark.parametrize("expires", [60, 3600])
def test_a_signature_is_valid_until_it_expires(expires: int) -> None:
    path, now_ms = presigned(expires=expires)
    end = now_ms + expires * 1000

    assert Verifier(KEYS).verify(head(path), BODY, end) is KEY
    code, text = refusal(path, end + 1000)
    assert code == "InvalidSignatureException"
    assert text.startswith("Signature expired: ")
    assert text.endswith(f" - {expires // 60} min.)")


def test_the_token_of_a_session_is_unknown() -> None:
    path, now_ms = presigned(token="of a session")

    assert refusal(path, now_ms)[0] == "UnrecognizedClientException"


def test_a_missing_parameter_is_named() -> None:
    path, now_ms = presigned()
    kept = [part for part in path[2:].split("&") if not part.startswith(("X-Amz-Date", "X-Amz-Credential"))]

    assert refusal("/?" + "&".join(kept), now_ms) == (
        "IncompleteSignatureException",
        "AWS query-string parameters must include 'X-Amz-Credential'. "
        "AWS query-string parameters must include 'X-Amz-Date'. Re-examine the query-string parameters.",
    )


def test_two_signatures_are_refused() -> None:
    path, now_ms = presigned()

    assert refusal(path, now_ms, BODY, TARGET | {"Authorization": "AWS4-HMAC-SHA256 x"}) == (
        "InvalidSignatureException",
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    )


def test_another_parameter_is_refused() -> None:
    path, now_ms = presigned()

    assert refusal(f"{path}&Action=GetItem", now_ms)[0] == "InvalidSignatureException"
    assert refusal(f"{path}&X-Amz-Expires=60", now_ms)[0] == "InvalidSignatureException"
