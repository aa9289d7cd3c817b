"""The webhook: its requests, the meaning of responses, and the addresses that it calls."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model.errors import ValidationError
from foldb.model.sequence_numbers import position_of
from foldb.streams.formats.plain import plain
from foldb.streams.formats.table_view import event_id
from foldb.streams.sinks import webhook
from foldb.streams.sinks.http.exchange import MAX_RESPONSE, Resolve
from foldb.streams.sinks.sink import DeliveryResult, Failure, PartialFailure, Success, Unsubscribed
from tests.behaviour.auth.certificates import make_certificates
from tests.unit.streams.deliveries import delivery, numbered, order
from tests.unit.streams.sinks.context import NOW, batch, sink_context
from tests.unit.streams.sinks.receiver import (
    Answer,
    Receiver,
    drip,
    endless,
    hang_up,
    never,
    receiver,
    status,
    then_close,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def run(scenario: Callable[[Receiver], Awaitable[None]], tls: ssl.SSLContext | None = None) -> None:
    """Run a scenario with a new receiver."""

    async def whole() -> None:
        async with receiver(tls) as there:
            await scenario(there)

    asyncio.run(whole())


async def call(
    there: Receiver, count: int = 1, *, timeout_s: float = 30.0, replay: bool = False, **settings: Any
) -> DeliveryResult:
    """Deliver a number of changes."""
    given = {"Kind": "webhook", "Url": there.url(), **settings}
    sink = webhook.make(given, sink_context(Path(), timeout_s=timeout_s))
    await sink.start()
    verdict = await sink.deliver(batch(numbered(count), replay=replay))
    await sink.close()
    return verdict


# Requests


def test_a_change_is_one_request_with_a_structured_cloud_event() -> None:
    async def scenario(there: Receiver) -> None:
        assert Success() == await call(there, 2, replay=True)

        first, second = there.requests
        assert "POST /hook HTTP/1.1" == first.line
        assert "application/cloudevents+json; charset=utf-8" == first.headers["content-type"]
        assert f"127.0.0.1:{there.port}" == first.headers["host"]
        assert [event_id(each) for each in numbered(2)] == [each.json()["id"] for each in (first, second)]
        assert True is first.json()["data"]["replay"]

    run(scenario)


def test_in_binary_mode_the_plain_change_is_the_body() -> None:
    async def scenario(there: Receiver) -> None:
        await call(there, Mode="binary")

        [request] = there.requests
        [change] = numbered(1)
        assert plain(change) == request.body
        assert ("application/json", "1.0", event_id(change)) == tuple(
            request.headers[name] for name in ("content-type", "ce-specversion", "ce-id")
        )

    run(scenario)


def test_a_small_batch_is_one_request() -> None:
    async def scenario(there: Receiver) -> None:
        await call(there, 5, Mode="batch")
        await call(there, 5, Mode="batch", MaximumBodyBytes=2000)
        await call(there, 2, Mode="batch", MaximumBodyBytes=1)

        sizes = [len(request.json()) for request in there.requests]
        assert [5, 3, 2, 1, 1] == sizes
        assert all(len(request.body) <= 2000 for request in there.requests[1:3])
        assert (
            "application/cloudevents-batch+json; charset=utf-8" == there.requests[0].headers["content-type"]
        )

    run(scenario)


@pytest.mark.guarantee("SEC30")
def test_the_signature_follows_standard_webhooks() -> None:
    """The values come from the tests of its own libraries."""
    signed = webhook.signature(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [base64.b64decode(SECRET[6:])]
    )

    assert {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    } == signed


def test_a_request_has_each_signature_and_one_id() -> None:
    old = "whsec_" + base64.b64encode(bytes(24)).decode()

    async def scenario(there: Receiver) -> None:
        for _ in range(2):
            await call(there, Secrets=[SECRET, old], Headers={"Authorization": "Bearer x"})

        first, second = there.requests
        [change] = numbered(1)
        assert event_id(change) == first.headers["webhook-id"] == second.headers["webhook-id"]
        assert str(NOW // 1000) == first.headers["webhook-timestamp"]
        signed = b"%b.%d.%b" % (event_id(change).encode(), NOW // 1000, first.body)
        expected = [
            "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
            for secret in (base64.b64decode(SECRET[6:]), bytes(24))
        ]
        assert expected == first.headers["webhook-signature"].split()
        assert "Bearer x" == first.headers["authorization"]

    run(scenario)


def test_requests_of_a_batch_share_an_open_connection() -> None:
    async def scenario(there: Receiver) -> None:
        await call(there, 3)
        assert 1 == there.connections

        there.answers = [then_close(status(200, "connection: close"))]
        assert Success() == await call(there, 3)
        assert 3 == there.connections

    run(scenario)


def test_a_request_on_a_closed_connection_is_sent_again() -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [then_close(status(200))]  # without a header that announces the close
        assert Success() == await call(there, 3, timeout_s=5)
        assert [event_id(each) for each in numbered(3)] == [each.json()["id"] for each in there.requests]
        assert 2 == there.connections

        there.requests.clear()
        there.answers = [status(200), hang_up, hang_up]
        assert isinstance(await call(there, 3, timeout_s=5), PartialFailure), (
            "whoever hangs up twice means it"
        )
        assert 3 == len(there.requests)

    run(scenario)


# Responses


@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
def test_every_2xx_is_a_success(code: int) -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [status(code)]
        assert Success() == await call(there)

    run(scenario)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("retry-after: 7", 7.0),
        ("Retry-After: Tue, 14 Nov 2023 22:15:30 GMT", 30.0),
        ("retry-after: Tue, 14 Nov 2023 22:14:00 GMT", 0.0),
        ("retry-after: Tuesday, 14-Nov-23 22:15:30 GMT", 30.0),
        ("retry-after: 99999999", 3600.0),
        ("retry-after: -1", None),
        ("retry-after: soon", None),
        ("retry-after:", None),
    ],
)
@pytest.mark.parametrize("code", [400, 404, 408, 429, 500, 503])
def test_every_other_status_is_a_failure_with_retry_after(
    code: int, header: str | None, seconds: float | None
) -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [status(code, *([header] if header else []), body=b"no room")]
        expected = Failure(f"the webhook answered {code}: no room", retry_after_s=seconds)
        assert expected == await call(there)

    run(scenario)


@given(
    st.one_of(
        st.text(max_size=40),
        st.from_regex(r"\A[A-Z][a-z]{2}, [0-9]{1,9} [A-Z][a-z]{2} [0-9]{1,9} [0-9:]{1,9} [A-Z+0-9-]{1,5}\Z"),
    )
)
def test_a_retry_after_is_at_most_an_hour(text: str) -> None:
    assert 0 <= (webhook.retry_after(text, NOW) or 0) <= 3600


def test_a_410_ends_the_subscription() -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [status(204), status(410)]
        assert Unsubscribed("the webhook answered 410, which ends the subscription") == await call(there, 3)
        assert 2 == len(there.requests)

    run(scenario)


def test_a_failed_request_is_the_last_and_names_its_change() -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [status(200), status(503, "retry-after: 2")]

        verdict = await call(there, 4)

        assert isinstance(verdict, PartialFailure)
        assert ((2, 0), 0, 2.0) == (
            position_of(verdict.sequence_number),
            verdict.partition,
            verdict.retry_after_s,
        )
        assert 2 == len(there.requests)

    run(scenario)


def test_a_failed_request_of_several_changes_names_none() -> None:
    """The named change would become a dead letter, and another one may be at fault."""

    async def scenario(there: Receiver) -> None:
        there.answers = [status(200), status(503)]
        verdict = await call(there, 5, Mode="batch", MaximumBodyBytes=2000)
        assert Failure("the webhook answered 503") == verdict

        there.answers = [status(200), status(200), status(503)]
        verdict = await call(there, 3, Mode="batch", MaximumBodyBytes=1)
        assert isinstance(verdict, PartialFailure)
        assert (3, 0) == position_of(verdict.sequence_number)

    run(scenario)


@pytest.mark.guarantee("SEC27")
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(code: int) -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [status(code, f"location: {there.url('/secret')}")]

        verdict = await call(there)

        assert isinstance(verdict, Failure)
        assert "not followed" in verdict.error
        assert 1 == len(there.requests)

    run(scenario)


@pytest.mark.guarantee("SEC29")
@pytest.mark.parametrize(
    ("code", "says", "body"),
    [
        (404, "Cannot POST .../ with ...", "Cannot POST {path}/ with {query}"),
        (500, "no ... here", "no {path}?{query} here"),
        (301, "points to 'https://elsewhere.example/...'", ""),
    ],
)
def test_an_error_shows_no_token_of_the_url(code: int, says: str, body: str) -> None:
    """The error is in the server's log, in dead letters and in answers to keys without the right to administer."""
    path, query = "/hooks/hush", "token=hush"

    async def scenario(there: Receiver) -> None:
        location = f"location: https://elsewhere.example{path}?{query}"
        there.answers = [status(code, location, body=body.format(path=path, query=query).encode())]
        verdict = await call(there, Url=there.url(f"{path}?{query}"))

        assert isinstance(verdict, Failure)
        assert says in verdict.error
        assert "hush" not in verdict.error

    run(scenario)


@pytest.mark.parametrize("answer", [never, drip], ids=["silent", "dripping"])
def test_an_endless_response_ends_at_the_timeout(answer: Answer) -> None:
    """The deadline covers the whole response, however often some bytes arrive."""

    async def scenario(there: Receiver) -> None:
        there.answers = [answer]
        verdict = await call(there, timeout_s=0.05)
        assert Failure(f"127.0.0.1:{there.port} did not answer within 0.05 s") == verdict

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "does not speak HTTP"),
        (endless(b"HTTP/1.1 200 OK\r\n", b"x-more: %b\r\n" % (b"1" * 1000)), "the response exceeds"),
        (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "the response exceeds"),
        (then_close(b""), "without a response"),
        (then_close(b"HTTP/1.1 200 OK\r\nx"), "without a response"),
        (hang_up, "the connection"),
    ],
    ids=[
        "other protocol",
        "two lengths",
        "no length",
        "endless head",
        "endless hints",
        "closed",
        "half",
        "reset",
    ],
)
def test_an_invalid_response_is_a_failure(answer: Answer, said: str) -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [answer]
        verdict = await call(there)
        assert isinstance(verdict, Failure)
        assert said in verdict.error

    run(scenario)


@pytest.mark.guarantee("SEC27")
def test_an_endless_body_is_read_up_to_the_limit() -> None:
    said = 0

    async def babble(writer: asyncio.StreamWriter) -> None:
        nonlocal said
        writer.transport.set_write_buffer_limits(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            said += 10_000
            await writer.drain()

    async def scenario(there: Receiver) -> None:
        there.answers = [babble]
        assert Success() == await call(there)
        await there.ended.wait()
        assert said >= MAX_RESPONSE

    run(scenario)


def test_informational_and_extra_responses_are_skipped() -> None:
    async def scenario(there: Receiver) -> None:
        hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        there.answers = [hints + status(200) + status(410)]

        assert Success() == await call(there, 2)
        assert 2 == there.connections  # bytes after the first response do not answer the second request

    run(scenario)


def test_invalid_bytes_after_a_response_are_ignored() -> None:
    async def scenario(there: Receiver) -> None:
        there.answers = [status(200) + b"\0 and so on"]

        assert Success() == await call(there, 2, timeout_s=5)
        assert 2 == there.connections

    run(scenario)


def test_a_cancelled_call_closes_its_connection() -> None:
    async def scenario(there: Receiver) -> None:
        asked = asyncio.Event()

        async def hold(_: asyncio.StreamWriter) -> None:
            asked.set()
            await never(_)

        there.answers = [hold]
        task = asyncio.create_task(call(there))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario)


# Addresses


def resolver(*answers: list[str]) -> tuple[Resolve, list[str]]:
    """Return a resolver with these answers in order, and the list of its requests."""
    asked: list[str] = []
    left = list(answers)

    async def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return left.pop(0)

    return resolve, asked


async def call_by_name(there: Receiver, resolve: Resolve, count: int = 1, **about: Any) -> DeliveryResult:
    settings = {"Kind": "webhook", "Url": there.url(host="shop.example")}
    sink = webhook.Webhook(settings, sink_context(Path(), **about), resolve)
    return await sink.deliver(batch(numbered(count)))


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1", "fe80::1%1"]
)
def test_a_name_of_a_private_address_is_not_called(address: str) -> None:
    async def scenario(there: Receiver) -> None:
        resolve, _ = resolver([address])

        verdict = await call_by_name(there, resolve, webhooks=())

        assert isinstance(verdict, Failure)
        assert f"shop.example is at {address}, which is not on the public internet" in verdict.error
        assert 0 == there.connections

    run(scenario)


@pytest.mark.guarantee("SEC27")
def test_a_name_is_resolved_once_per_connection() -> None:
    """The checked address is the one that is connected to, so a changed resolution has no effect."""

    async def scenario(there: Receiver) -> None:
        resolve, asked = resolver(["127.0.0.1"], ["127.0.0.2"])

        assert Success() == await call_by_name(there, resolve, 3, webhooks=("127.0.0.1",))
        assert ["shop.example"] == asked
        assert f"shop.example:{there.port}" == there.requests[0].headers["host"]

        verdict = await call_by_name(there, resolve, webhooks=("127.0.0.1",))
        assert isinstance(verdict, Failure)
        assert 1 == there.connections

    run(scenario)


def test_only_permitted_addresses_of_a_name_are_called() -> None:
    async def scenario(there: Receiver) -> None:
        resolve, _ = resolver(["10.0.0.1", "127.0.0.2", "127.0.0.1"])

        # No server listens at 127.0.0.2, so the next address is tried.
        assert Success() == await call_by_name(there, resolve, webhooks=("127.0.0.0/30",))

    run(scenario)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "169.254.169.254"])
def test_a_private_address_in_the_url_is_refused(host: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ValidationError, match="--webhooks ADDRESS"):
            webhook.make({"Kind": "webhook", "Url": f"http://{host}/"}, sink_context(Path(), webhooks=()))

    asyncio.run(scenario())


def test_a_name_of_this_machine_is_not_called() -> None:
    async def scenario(there: Receiver) -> None:
        settings = {"Kind": "webhook", "Url": there.url(host="localhost")}
        verdict = await webhook.make(settings, sink_context(Path(), webhooks=())).deliver(batch(numbered(1)))
        assert isinstance(verdict, Failure)
        assert "--webhooks" in verdict.error
        assert 0 == there.connections

    run(scenario)


def test_a_server_without_a_valid_certificate_gets_no_request(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.cert, files.key)
    trusting = ssl.create_default_context(cafile=files.ca)

    async def verdict_of(there: Receiver, host: str, tls: ssl.SSLContext) -> DeliveryResult:
        settings = {"Kind": "webhook", "Url": there.url(scheme="https", host=host)}
        resolve, _ = resolver(["127.0.0.1"])
        return await webhook.Webhook(settings, sink_context(tmp_path), resolve, tls).deliver(
            batch(numbered(1))
        )

    async def scenario(there: Receiver) -> None:
        assert Success() == await verdict_of(there, "localhost", trusting)
        for host, tls in (("shop.example", trusting), ("localhost", ssl.create_default_context())):
            verdict = await verdict_of(there, host, tls)
            assert isinstance(verdict, Failure)
            assert "certificate" in verdict.error.lower()
        assert 1 == len(there.requests)

    run(scenario, server)


# Settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "Sink.Url must be given for the kind webhook"),
        ({"Url": 1}, "Sink.Url must be a text of 1 to 65,536 characters"),
        ({"Url": "http://u:p@example.com"}, "Sink.Url must hold no credentials: use Sink.Headers"),
        ({"Mode": "loud"}, "Sink.Mode must be one of structured, binary, batch"),
        ({"Secrets": SECRET}, "Sink.Secrets must be a list of texts"),
        ({"Secrets": ["hunter2"]}, "Sink.Secrets must be whsec_ and 24 to 64 bytes in base64"),
        ({"Secrets": ["whsec_AAAA"]}, "Sink.Secrets must be whsec_ and 24 to 64 bytes in base64"),
        ({"Headers": {"Host": "x"}}, "Sink.Headers must not have 'Host'"),
        ({"Headers": {"webhook-id": "x"}}, "Sink.Headers must not have 'webhook-id'"),
        ({"Headers": {"a b": "x"}}, "Sink.Headers must not have 'a b'"),
        ({"Headers": {"a": "x\r\ny: z"}}, "Sink.Headers must have printable ASCII for a"),
        ({"Headers": {"a": 1}}, "Sink.Headers must be an object of texts"),
        ({"MaximumBodyBytes": 0}, "Sink.MaximumBodyBytes must be an integer from 1 to 67,108,864"),
        ({"MaximumBodyBytes": True}, "Sink.MaximumBodyBytes must be an integer from 1 to 67,108,864"),
        ({"Follow": True}, "Sink has no member Follow for the kind webhook"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    given = {"Kind": "webhook", **({"Url": "https://example.com/"} if settings else {}), **settings}

    with pytest.raises(ValidationError) as refused:
        webhook.KIND.check(given)

    assert said == refused.value.message


def test_the_size_of_requests_follows_the_items() -> None:
    large = delivery(None, order(text={"S": "x" * 300_000}))

    async def scenario(there: Receiver) -> None:
        sink = webhook.make({"Kind": "webhook", "Url": there.url()}, sink_context(Path()))
        assert Success() == await sink.deliver(batch([large]))
        assert 300_000 < len(json.dumps(there.requests[0].json()["data"]["new"]))

    run(scenario)
