"""A page in a browser on this machine can reach the port. It gets nothing: not by its name, not by its origin."""

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

import foldb
from foldb.server.http.origin_policy import is_host, is_origin
from tests.behaviour.http.wire import Wire, head, request
from tests.support.raw import SIGNED
from tests.support.served import foldb as command

OURS = [
    "localhost",
    "localhost:8000",
    "LOCALHOST",
    "LocalHost:80",
    "localhost.",
    "localhost.:8000",
    "dynamodb.localhost",
    "us-east-1.dynamodb.localhost:8000",
    "127.0.0.1",
    "127.0.0.1:8000",
    "127.0.0.1:1",
    "127.8.9.10:8000",
    "[::1]",
    "[::1]:8000",
    "[0:0:0:0:0:0:0:1]:8000",
]
NOT_OURS = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "evillocalhost",
    "localhost.evil",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io:8000",
    "localhost..",
    ".localhost.evil",
    "localhost@evil.example",
    "evil.example@localhost",
    "localhost evil.example",
    "localhost,evil.example",
    "localhost/evil",
    "localhost:80:80",
    "localhost:x",
    "localhost:",
    "localhost:-1",
    ":8000",
    "",
    "0.0.0.0",
    "0",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.0.0.256",
    "10.0.0.1",
    "192.168.1.1:8000",
    "169.254.169.254",
    "8.8.8.8",
    "[::]",
    "[::ffff:10.0.0.1]",
    "[fe80::1]",
    "[::1",
    "::1",
    "[localhost]",
    "[::1%25lo]:8000",
    "dynamodb.us-east-1.amazonaws.com",
    "dynamodb",
    "l\u00f6calhost",
    "xn--lcalhost-90a",
    "*",
    "file",
]


def asked_as(host: str) -> bytes:
    return request().replace(b"Host: localhost\r\n", b"Host: %b\r\n" % host.encode())


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_machine_match_in_any_case_with_any_port(endpoint: str, host: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(asked_as(host), asked_as(host))

        assert [200, 200] == wire.statuses()


@pytest.mark.guarantee("G52", "SEC11")
@pytest.mark.parametrize("host", NOT_OURS)
def test_any_other_name_is_refused_and_the_connection_closes(endpoint: str, host: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(asked_as(host), request())

        assert [403] == wire.statuses()


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1", b"OPTIONS / HTTP/1.1", b"HEAD / HTTP/1.1"])
def test_the_health_page_checks_the_host_name(endpoint: str, start: bytes) -> None:
    with Wire(endpoint) as wire:
        wire.send(start + b"\r\nHost: evil.example\r\n\r\n")

        assert b"HTTP/1.1 403 Forbidden" == wire.line()


def test_another_host_name_is_refused_before_the_body(endpoint: str) -> None:
    with Wire(endpoint) as wire:
        wire.send(
            head("PutItem", "Content-Length: 10000000").replace(b"Host: localhost", b"Host: evil.example")
        )
        status, _, body = wire.answer()

    assert 403 == status
    assert "AccessDeniedException" == json.loads(body)["__type"].rpartition("#")[2]
    assert "start it with --allowed-host" in json.loads(body)["Message"]


@pytest.mark.parametrize("allowed", ["dynamodb", "DynamoDB.", "host.docker.internal", "10.0.0.1", "fd00::1"])
def test_a_name_that_is_allowed_is_answered(allowed: str) -> None:
    host = f"[{allowed}]:8000" if ":" in allowed else f"{allowed.lower()}:8000"
    with foldb.serve(allowed_hosts=(allowed,)) as server:
        for name, status in ((host, 200), ("localhost", 200), ("other:8000", 403)):
            with Wire(server.endpoint_url) as wire:
                wire.send(asked_as(name))
                assert [status] == wire.statuses()


# Pages

FOREIGN = [
    ("Origin: http://evil.example",),
    ("Origin: null",),
    ("Origin: http://localhost:3000",),
    ("Origin: https://localhost",),
    ("Origin: http://127.0.0.1",),
    ("Origin:",),
    ("Origin: file://",),
    ("Origin: http://localhost.evil.example",),
    ("Origin: http://localhost", "Sec-Fetch-Site: cross-site", "Host: 127.0.0.1"),
    ("Sec-Fetch-Site: cross-site",),
    ("Sec-Fetch-Site: same-site",),
    ("Sec-Fetch-Site: anything",),
]


@pytest.mark.guarantee("G52", "SEC12")
@pytest.mark.parametrize("fields", FOREIGN)
def test_a_page_of_another_origin_is_refused_before_its_body(endpoint: str, fields: tuple[str, ...]) -> None:
    start = head("PutItem", "Content-Length: 10000000", *fields)
    if fields[-1].startswith("Host"):
        start = start.replace(b"Host: localhost\r\n", b"")
    with Wire(endpoint) as wire:
        wire.send(start)
        status, answered, _ = wire.answer()

    assert 403 == status
    assert not [name for name in answered if name.startswith("access-control")]


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ("Origin: http://localhost",),
        ("Origin: HTTP://LocalHost", "Sec-Fetch-Site: same-origin"),
        ("Sec-Fetch-Site: same-origin",),
        ("Sec-Fetch-Site: none",),
        ("Sec-Fetch-Mode: cors",),
    ],
)
def test_programs_and_pages_of_the_own_origin_are_answered(endpoint: str, fields: tuple[str, ...]) -> None:
    with Wire(endpoint) as wire:
        wire.send(request("ListTables", {}, *fields))

        assert [200] == wire.statuses()


# A page may send these types without a preflight, without own header fields and without Authorization.
SIMPLE = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
    "text/html",
]


@pytest.mark.guarantee("SEC12")
@pytest.mark.parametrize("kind", SIMPLE)
@pytest.mark.parametrize("length", [True, False])
def test_a_simple_cross_origin_post_is_never_a_request(endpoint: str, kind: str, length: bool) -> None:
    """And with DynamoDB's answer to it: 404, in XML."""
    body = b'{"TableName":"Cars"}'
    framing = f"Content-Length: {len(body)}" if length else "Transfer-Encoding: chunked"
    lines = (
        "POST / HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {kind}",
        f"Authorization: {SIGNED}",
        framing,
    )
    start = "\r\n".join(
        line for line in (*lines, "X-Amz-Target: DynamoDB_20120810.ListTables") if kind or line != lines[2]
    )
    with Wire(endpoint) as wire:
        wire.send(
            start.encode(), b"\r\n\r\n", body if length else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        )
        status, _, answer = wire.answer()

    assert (404, b"<UnknownOperationException/>\n") == (status, answer)


def test_without_a_target_nothing_is_done(endpoint: str) -> None:
    data = request().replace(b"X-Amz-Target: DynamoDB_20120810.ListTables\r\n", b"")
    with Wire(endpoint) as wire:
        wire.send(data)
        status, _, body = wire.answer()

    assert 400 == status
    assert "UnknownOperationException" in json.loads(body)["__type"]


# Pages that are let in

PAGE = "http://localhost:3000"
ASKS = (
    "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: {}\r\nAccess-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization,content-type,x-amz-target\r\n"
    "Access-Control-Request-Private-Network: true\r\n\r\n"
)


@pytest.fixture(scope="module")
def open_endpoint() -> Iterator[str]:
    with foldb.serve(cors=(PAGE, "https://app.example")) as server:
        yield server.endpoint_url


def preflight(endpoint: str, origin: str) -> dict[str, str]:
    with Wire(endpoint) as wire:
        wire.send(ASKS.format(origin).encode())
        _, fields, _ = wire.answer()
    return {name: value for name, value in fields.items() if name.startswith("access-control")}


@pytest.mark.spec("X6")
def test_a_page_that_is_let_in_may_ask_and_reads_its_answer(open_endpoint: str) -> None:
    with Wire(open_endpoint) as wire:
        wire.send(request("ListTables", {}, f"Origin: {PAGE}", "Sec-Fetch-Site: same-site"))
        status, fields, _ = wire.answer()
        wire.send(request("Nothing", {}, f"Origin: {PAGE}"))
        refused, also, _ = wire.answer()

    assert (200, 400) == (status, refused)
    assert PAGE == fields["access-control-allow-origin"] == also["access-control-allow-origin"]
    assert "Origin" == fields["vary"]
    assert "x-amz-crc32" in fields["access-control-expose-headers"]


def test_a_preflight_answer_lists_the_allowed_headers(open_endpoint: str) -> None:
    reported = preflight(open_endpoint, "https://app.example")

    assert "https://app.example" == reported["access-control-allow-origin"]
    assert "POST" == reported["access-control-allow-methods"]
    assert "172800" == reported["access-control-max-age"]
    assert "authorization,content-type,x-amz-target" == reported["access-control-allow-headers"]
    assert "true" == reported["access-control-allow-private-network"]


@pytest.mark.spec("X6")
def test_other_pages_are_refused_without_cors_headers(open_endpoint: str, endpoint: str) -> None:
    with Wire(open_endpoint) as wire:
        wire.send(request("ListTables", {}, "Origin: http://localhost:3001"))
        status, fields, _ = wire.answer()

    assert 403 == status
    assert not [name for name in fields if name.startswith("access-control")]
    assert {} == preflight(open_endpoint, "http://localhost:3001")
    assert {} == preflight(endpoint, PAGE)


def test_a_star_lets_in_every_page() -> None:
    with foldb.serve(cors=("*",)) as server:
        assert "*" == preflight(server.endpoint_url, "null")["access-control-allow-origin"]
        with Wire(server.endpoint_url) as wire:
            wire.send(request("ListTables", {}, "Origin: null", "Sec-Fetch-Site: cross-site"))
            assert 200 == wire.answer()[0]


# At the terminal


@pytest.mark.parametrize(
    "options",
    [
        ("--allowed-host", "a:80"),
        ("--allowed-host", "*"),
        ("--allowed-host", "http://a"),
        ("--cors", "localhost"),
        ("--cors", "http://a/b"),
    ],
)
def test_a_malformed_host_or_origin_is_refused_at_the_terminal(options: tuple[str, str]) -> None:
    result = command("serve", "--memory", "--port", "0", *options)

    assert 2 == result.returncode
    assert options[1] in result.stderr


def test_names_and_origins() -> None:
    assert all(map(is_host, ["dynamodb", "a.b-c.d", "10.0.0.1", "::1"]))
    assert all(
        map(is_origin, ["*", "http://a", "https://a.b:8443", "app://x", "http://[::1]:80", "HTTP://A"])
    )
    assert not any(map(is_origin, ["", "a", "http://", "http://a/", "http://a b", "null"]))


def test_the_address_given_at_the_start_is_a_name_too() -> None:
    with foldb.serve(host="127.0.0.7") as server, Wire(server.endpoint_url) as wire:
        wire.send(asked_as(urlsplit(server.endpoint_url).netloc))

        assert [200] == wire.statuses()
