"""Requests byte by byte, for requests that no client sends."""

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

SIGNED = "AWS4-HMAC-SHA256 Credential=key/20261121/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"


@dataclass
class Answer:
    """A raw answer: `data` are the bytes of the body, still compressed."""

    status: int
    headers: http.client.HTTPMessage
    data: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.data)


def begin(
    endpoint: str, method: str, path: str, data: bytes | None, headers: dict[str, str]
) -> Callable[[], Answer]:
    """Send one request with exactly these headers (and those of HTTP itself); return the wait for its answer."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)

    def finish() -> Answer:
        with closing(connection):
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    try:
        connection.request(method, path, data, headers)
    except OSError:
        connection.close()
        raise
    return finish


def send(endpoint: str, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
    """Send one request, and return its answer."""
    return begin(endpoint, method, path, data, headers)()


def begin_to_ask(endpoint: str, operation: str, body: Any, **headers: str) -> Callable[[], Answer]:
    """Send a request for an operation; return a function that waits for its answer. See `ask`."""
    sent = {
        "X-Amz-Target": operation if "." in operation else f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": SIGNED,
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return begin(endpoint, "POST", "/", data, {name: value for name, value in sent.items() if value})


def ask(endpoint: str, operation: str, body: Any, **headers: str) -> Answer:
    """Send a request for an operation; underscores in header names become hyphens, and empty headers are omitted."""
    return begin_to_ask(endpoint, operation, body, **headers)()
