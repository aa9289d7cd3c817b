"""Requests that look signed but are refused, and AWS's messages for them."""

import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest

from foldb.model.errors import RequestError
from foldb.server.auth.keyfile import Keys
from foldb.server.auth.signature import SigningKey, canonical_request, string_to_sign
from foldb.server.auth.verify import Verifier
from foldb.server.http.request_head import BadRequestError, RequestHead, read_head
from tests.behaviour.auth.signed import BODY, HOST, ID, KEY, KEYS, SECRET, Request, signed

MINUTE_MS = 60_000
MUTATIONS = 1000
WRONG = "The request signature we calculated does not match the signature you provided."


def refusal(request: Request, now_ms: int | None = None, verifier: Verifier | None = None) -> str:
    """Name and message of the error that a request gets."""
    now_ms = request.time_ms if now_ms is None else now_ms
    with pytest.raises(RequestError) as caught:
        (verifier or Verifier(KEYS)).verify(request.head, request.body, now_ms)
    return f"{caught.value.wire_name}: {caught.value.message}"


def by_hand(names: str, **fields: str) -> Request:
    """Return a request that signs exactly these fields, even if no SDK would."""
    request = signed()
    lower = {name.lower().encode(): value.encode() for name, value in {**request.fields, **fields}.items()}
    time, listed = lower[b"x-amz-date"], names.encode()
    scope = b"%b/us-east-1/dynamodb/aws4_request" % time[:8]
    text = string_to_sign(
        time, scope, canonical_request(lower, [n.encode() for n in names.split(";")], listed, BODY)
    )
    signature = SigningKey(SECRET.encode(), time[:8], b"us-east-1").sign(text).decode()
    header = (
        f"AWS4-HMAC-SHA256 Credential={ID}/{scope.decode()}, SignedHeaders={names}, Signature={signature}"
    )
    return Request({**request.fields, **fields, "Authorization": header}, BODY, request.time_ms)


def test_by_hand_makes_good_requests() -> None:
    request = by_hand("host;x-amz-date;x-amz-target")

    assert KEY is Verifier(KEYS).verify(request.head, BODY, request.time_ms)


@pytest.mark.parametrize(
    ("request_", "reported"),
    [
        (signed().with_fields(authorization=None), "MissingAuthenticationTokenException: Request is missing"),
        (signed().with_fields(authorization="Basic Zm9vOmJhcg=="), "MissingAuthenticationTokenException: "),
        (
            signed().with_fields(authorization="AWS4-HMAC-SHA256 Credential=a/b"),
            "IncompleteSignatureException: Authorization header requires 'Signature' parameter. "
            "Authorization header requires 'SignedHeaders' parameter. "
            "Authorization=AWS4-HMAC-SHA256 Credential=a/b",
        ),
        (
            signed().with_fields(authorization="AWS4-ECDSA-P256-SHA256 Credential=a"),
            "IncompleteSignatureException: Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256'.",
        ),
        (
            signed(key_id="one/two"),
            "IncompleteSignatureException: Credential must have exactly 5 slash-delimited elements, "
            "e.g. keyid/date/region/service/term, got 'one/two/",
        ),
        (
            signed().with_fields(x_amz_date=None),
            "IncompleteSignatureException: Authorization header requires existence of either "
            "a 'X-Amz-Date' or a 'Date' header.",
        ),
        (
            signed().with_fields(x_amz_date="yesterday"),
            "IncompleteSignatureException: Date must be in ISO-8601 'basic format'. Got 'yesterday'.",
        ),
        (
            signed(service="s3"),
            "InvalidSignatureException: Credential should be scoped to correct service: 'dynamodb'. ",
        ),
        (signed(key_id="nobody"), "UnrecognizedClientException: The security token included in the request"),
        (signed(token="of a session"), "UnrecognizedClientException: The security token included in the"),
        (signed(secret="another one, which is not ours"), f"InvalidSignatureException: {WRONG}"),
        (replace(signed(), body=BODY + b" "), f"InvalidSignatureException: {WRONG}"),
        (signed().with_fields(content_type=None), f"InvalidSignatureException: {WRONG}"),
        (
            signed().with_fields(x_amz_content_sha256="UNSIGNED-PAYLOAD"),
            "InvalidSignatureException: 'x-amz-content-sha256' must be a 'SignedHeader'",
        ),
        (
            signed(fields={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}),
            f"InvalidSignatureException: {WRONG}",
        ),
        (
            by_hand("host;x-amz-date"),
            "InvalidSignatureException: 'x-amz-target' must be a 'SignedHeader' in the AWS Authorization.",
        ),
        (
            by_hand("x-amz-date;x-amz-target"),
            "InvalidSignatureException: 'Host' or ':authority' must be a 'SignedHeader'",
        ),
        (by_hand("host;x-amz-target;x-amz-date"), f"InvalidSignatureException: {WRONG}"),
        (by_hand("host;host;x-amz-date;x-amz-target"), f"InvalidSignatureException: {WRONG}"),
    ],
)  # fmt: skip
def test_a_request_that_is_not_as_it_should_be_gets_awss_words(request_: Request, reported: str) -> None:
    assert refusal(request_).startswith(reported)


@pytest.mark.guarantee("SEC2")
def test_an_unsigned_reason_is_refused_and_a_signed_one_not() -> None:
    """The log keeps the reason beside the principal, who must have given it."""
    good = signed(fields={"x-foldb-reason": "ticket 7"})
    unsigned, changed = signed(), good.with_fields(x_foldb_reason="ticket 8")

    assert KEY is Verifier(KEYS).verify(good.head, good.body, good.time_ms)
    assert refusal(unsigned.with_fields(x_foldb_reason="ticket 7")) == (
        "InvalidSignatureException: 'x-foldb-reason' must be a 'SignedHeader' in the AWS Authorization."
    )
    assert refusal(changed).startswith(f"InvalidSignatureException: {WRONG}")


def test_a_path_or_another_query_is_refused() -> None:
    request = signed()
    for line in (b"POST /?Action=GetItem HTTP/1.1", b"POST /table HTTP/1.1"):
        head = read_head(request.head_bytes().replace(b"POST / HTTP/1.1", line))
        with pytest.raises(RequestError, match="at the path '/' and takes no query"):
            Verifier(KEYS).verify(head, BODY, request.time_ms)


@pytest.mark.guarantee("SEC2")
@pytest.mark.parametrize("name", ["X-Amz-Date", "x-amz-meta", "Amz-Sdk-Invocation-Id"])
def test_a_signed_field_comes_once(name: str) -> None:
    """Which of two a server looks at must not be a question."""
    request = signed(fields={"x-amz-meta": "first"})
    again = next(value for field, value in request.fields.items() if field.lower() == name.lower())
    head = read_head(request.head_bytes(f"{name}: {again}"))

    with pytest.raises(RequestError, match="does not match"):
        Verifier(KEYS).verify(head, BODY, request.time_ms)


def test_an_unsigned_field_may_be_repeated() -> None:
    request = signed()
    head = read_head(request.head_bytes("Connection: keep-alive", "Connection: keep-alive"))

    assert KEY is Verifier(KEYS).verify(head, BODY, request.time_ms)


def test_the_day_of_the_key_is_the_day_of_the_request() -> None:
    """Otherwise a signing key that was lent for a day would be valid forever."""
    request = signed()
    day = request.fields["X-Amz-Date"][:8]
    authorization = request.fields["Authorization"].replace(f"/{day}/", "/20200101/")

    assert refusal(request.with_fields(authorization=authorization)).startswith(
        "InvalidSignatureException: Date in Credential scope does not match YYYYMMDD from ISO-8601 version of "
        f"date from HTTP: '20200101' != '{day}', from '{request.fields['X-Amz-Date']}'."
    )


@pytest.mark.parametrize("minutes", [-15, -14, 0, 14, 15])
def test_a_clock_may_be_fifteen_minutes_off(minutes: int) -> None:
    request = signed()

    assert KEY is Verifier(KEYS).verify(request.head, BODY, request.time_ms + minutes * MINUTE_MS)


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def test_a_request_is_refused_when_it_is_sixteen_minutes_old() -> None:
    request = signed()
    now = request.time_ms + 16 * MINUTE_MS
    limit = request.time_ms + MINUTE_MS

    assert (
        f"InvalidSignatureException: Signature expired: {iso(request.time_ms)} is now earlier than "
        f"{iso(limit)} ({iso(now)} - 15 min.)"
    ) == refusal(request, now)


def test_a_request_signed_16_minutes_ahead_is_refused() -> None:
    request = signed()
    now = request.time_ms - 16 * MINUTE_MS
    limit = request.time_ms - MINUTE_MS

    assert (
        f"InvalidSignatureException: Signature not yet current: {iso(request.time_ms)} is still later than "
        f"{iso(limit)} ({iso(now)} + 15 min.)"
    ) == refusal(request, now)


@pytest.mark.guarantee("SEC3")
def test_a_signed_request_can_be_replayed_for_15_minutes_only() -> None:
    request, verifier = signed(), Verifier(KEYS)
    assert KEY is verifier.verify(request.head, BODY, request.time_ms)
    assert KEY is verifier.verify(request.head, BODY, request.time_ms + 15 * MINUTE_MS)

    assert "expired" in refusal(request, request.time_ms + 15 * MINUTE_MS + 1000, verifier)


def test_the_clock_is_looked_at_before_anything_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    request = signed()
    for name in ("canonical_request", "SigningKey"):
        monkeypatch.setattr(f"foldb.server.auth.verify.{name}", None)

    assert "expired" in refusal(request, request.time_ms + 16 * MINUTE_MS)


def test_the_time_may_be_in_the_field_date() -> None:
    """botocore writes it there where a program has set that field; then it must be signed."""
    request = signed(fields={"Date": "soon"})
    assert "X-Amz-Date" not in request.fields
    authorization = request.fields["Authorization"]

    assert KEY is Verifier(KEYS).verify(request.head, BODY, request.time_ms)
    assert "expired" in refusal(request, request.time_ms + 16 * MINUTE_MS)
    assert "'Date' must be a 'SignedHeader'" in refusal(
        request.with_fields(authorization=authorization.replace("date;host", "host"))
    )


def test_a_key_is_good_until_it_expires() -> None:
    request = signed()
    expires = datetime.fromtimestamp(request.time_ms / 1000, UTC)
    verifier = Verifier(Keys({ID: replace(KEY, expires=expires)}))

    verifier.verify(request.head, BODY, request.time_ms - 1)
    assert "ExpiredTokenException: The security token included in the request is expired" == refusal(
        request, request.time_ms, verifier
    )
    assert "InvalidSignature" in refusal(
        signed(secret="another one, which is not ours"), request.time_ms, verifier
    )


@pytest.mark.guarantee("SEC4")
def test_an_unknown_key_takes_the_same_work_as_a_wrong_signature() -> None:
    """Counted, by function: a clock would see the machine."""
    verifier = Verifier(KEYS)
    unknown, wrong = signed(key_id="FOLDB000000000000000"), signed(secret="another one, which is not ours")
    for request in (unknown, wrong):
        work(Verifier(KEYS), request)  # the first request of a second parses its time for all

    assert work(verifier, unknown) == work(verifier, wrong)  # with a signing key to be made
    assert work(verifier, unknown) == work(verifier, wrong)  # and without


def work(verifier: Verifier, request: Request) -> list[str]:
    """Every function that is called, Python's and C's, until the refusal is raised."""
    head, called = request.head, []

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)
        elif event == "c_call":
            called.append(argument.__qualname__)

    sys.setprofile(look)
    try:
        verifier.verify(head, request.body, request.time_ms)
    except RequestError:
        pass
    finally:
        sys.setprofile(None)
    assert "SigningKey.sign" in called
    return [name for name in called if not name.endswith(("Error.__init__", "setprofile"))]


def test_the_cache_of_claims_is_limited() -> None:
    verifier = Verifier(KEYS)
    request = signed()
    authorization = request.fields["Authorization"]
    for n in range(3000):
        other = authorization.replace(ID, f"{n}")
        with pytest.raises(RequestError):
            verifier.verify(request.with_fields(authorization=other).head, BODY, request.time_ms)

    assert len(verifier._claims) <= 1000
    assert KEY is verifier.verify(request.head, BODY, request.time_ms)


@pytest.mark.guarantee("SEC2")
@pytest.mark.parametrize("seed", range(10))
def test_a_request_with_one_changed_byte_is_refused_or_the_same(seed: int) -> None:
    """
    A thousand times, a byte anywhere in the request is replaced, removed or inserted. An accepted request must have the
    same signature over the same fields and body. That leaves spaces, the case of names, and fields that clients do not
    sign because proxies change them.
    """
    dice = random.Random(seed)
    request = signed(fields={"x-amz-meta": "two words"})
    data, verifier = request.data(), Verifier(KEYS)
    meant = meaning(*taken_apart(data))
    passed = 0
    for _ in range(MUTATIONS):
        mutant = mutated(data, dice)
        try:
            head, body = taken_apart(mutant)
            verifier.verify(head, body, request.time_ms)
        except (BadRequestError, RequestError, EOFError):
            continue
        passed += 1
        assert meant == meaning(head, body), mutant
    assert passed < MUTATIONS / 4


def mutated(data: bytes, dice: random.Random) -> bytes:
    at, byte = dice.randrange(len(data)), bytes([dice.randrange(256)])
    return dice.choice(
        [data[:at] + byte + data[at + 1 :], data[:at] + data[at + 1 :], data[:at] + byte + data[at:]]
    )


def taken_apart(data: bytes) -> tuple[RequestHead, bytes]:
    """Head and body as a connection takes them."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        raise EOFError
    head = read_head(data[:end])
    body = data[end:]
    if head.method != b"POST" or head.length is None or head.length > len(body):
        raise EOFError  # answered without looking, or waited for
    return head, body[: head.length]


def meaning(head: RequestHead, body: bytes) -> tuple[Any, ...]:
    """Return the request and its key."""
    authorization = head.fields[b"authorization"]
    names = authorization.partition(b"SignedHeaders=")[2].partition(b",")[0].split(b";")
    fields = {name: b" ".join(head.fields[name].split()) for name in names}
    return b"".join(authorization.split()), head.path, fields, body


def test_every_field_that_selects_the_operation_is_signed() -> None:
    names = signed().fields["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")

    assert {"host", "x-amz-date", "x-amz-target", "content-type"} <= set(names)
    assert HOST == signed().fields["Host"]
