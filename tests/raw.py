"""Requests byte by byte, for what no client sends."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

SIGNED = "AWS4-HMAC-SHA256 Credential=key/20261121/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"


@dataclass
class Answer:
    """An answer as it came: `data` are the body's bytes, compressed where they were."""

    status: int
    headers: http.client.HTTPMessage
    data: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.data)


def send(endpoint: str, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
    """Send one request with exactly these headers (and those of HTTP itself)."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)
    try:
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def ask(endpoint: str, operation: str, body: Any, **headers: str) -> Answer:
    """Ask for an operation by name; a header is spelt with underscores, and one that is empty is left out."""
    sent = {
        "X-Amz-Target": operation if "." in operation else f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": SIGNED,
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return send(endpoint, "POST", "/", data, {name: value for name, value in sent.items() if value})
