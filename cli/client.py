"""A thin HTTP client for foldb's wire protocol, on the standard library.

One request, one answer: a JSON object, or a ServerError that knows its exit code. The
Authorization header has SigV4's shape and no secret in it, which is all that a server on
this machine asks for.
"""

import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from http.client import HTTPMessage
from typing import Any
from urllib.parse import urlsplit

import orjson

from .failures import CommandError, ExitCode, ServerError, is_throttling

DYNAMODB = "DynamoDB_20120810"
ADMIN = "Foldb_20261121"

_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=foldb/20261121/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date;x-amz-target, Signature=" + "0" * 64
)
# Throttling and 503 mean that nothing was done, so these may be tried again; a 500 may not.
_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)

# In every answer of a DynamoDB endpoint, and in few of anybody else's.
_REQUEST_ID = "x-amzn-RequestId"
_SHOWN = 200
_HOST = re.compile(r"[0-9A-Za-z._:%-]+")


class Client:
    """Calls one server. Not for use by several threads: `copy()` gives each its own.

    Attributes:
        position: What the last answer was as of.
        log_time_ms: Log time there, in milliseconds since 1970.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 60, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.url, host, port = address(url)
        self.position: str | None = None
        self.log_time_ms: int | None = None
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)

    def copy(self) -> "Client":
        """Another client of the same server."""
        return Client(self.url, timeout_s=self._timeout_s, sleep=self._sleep)

    def close(self) -> None:
        self._connection.close()

    def call(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Do one operation of DynamoDB's API.

        Raises:
            ServerError: The server refused, after retries where these can help.
            CommandError: Nobody answers.
        """
        return self._retrying(f"{DYNAMODB}.{operation}", body)

    def admin(self, operation: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Do one of foldb's own operations."""
        return self._retrying(f"{ADMIN}.{operation}", body or {})

    def _retrying(self, target: str, body: Mapping[str, Any]) -> dict[str, Any]:
        for pause in _PAUSES_S:
            try:
                return self._once(target, body)
            except ServerError as failure:
                if not is_throttling(failure.name) and failure.name != "ServiceUnavailableException":
                    raise
            self._sleep(pause)
        return self._once(target, body)

    def _once(self, target: str, body: Mapping[str, Any]) -> dict[str, Any]:
        status, headers, answer = self._send(target, _body(body))
        if "x-foldb-position" in headers:
            self.position = headers["x-foldb-position"]
            self.log_time_ms = _milliseconds(headers.get("x-foldb-log-time"))
        content = _parsed(status, headers, answer, self.url)
        if status != 200:
            raise ServerError(
                str(content.get("__type", "")).rpartition("#")[2] or f"HTTP {status}", status, content
            )
        return content

    def _send(self, target: str, body: bytes) -> tuple[int, HTTPMessage, bytes]:
        headers = {
            "X-Amz-Target": target,
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": _AUTHORIZATION,
            "X-Amz-Date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        }
        try:
            self._connection.request("POST", "/", body, headers)
            response = self._connection.getresponse()
            return response.status, response.headers, response.read()
        except TimeoutError as error:
            self._connection.close()
            raise CommandError(
                f"{self.url} did not answer within {self._timeout_s:g} s; whether the request was done is unknown.",
                ExitCode.UNREACHABLE,
            ) from error
        except OSError as error:
            self._connection.close()
            raise CommandError(
                f"cannot reach {self.url}. Start a server with `foldb serve`, "
                "or open a database folder without one: --db PATH.",
                ExitCode.UNREACHABLE,
            ) from error
        except http.client.HTTPException as error:
            self._connection.close()
            raise _is_another(self.url, "what is not HTTP") from error


def address(url: str) -> tuple[str, str, int]:
    """An address as it is shown, its host and its port.

    >>> address("localhost:8001")
    ('http://localhost:8001', 'localhost', 8001)
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme != "http" or not host or not _HOST.fullmatch(host):
        raise CommandError(f"{url} is not an address such as http://127.0.0.1:8000", ExitCode.USAGE)
    return f"http://{parts.netloc}", host, 8000 if port is None else port


def _milliseconds(text: str | None) -> int | None:
    """A server of an older version does not tell the time."""
    return int(text) if text is not None and text.isdecimal() else None


def _body(request: Mapping[str, Any]) -> bytes:
    """The request's bytes. What does not fit the operation goes as it is: the server says it better."""
    try:
        return orjson.dumps(request, default=lambda number: orjson.Fragment(f"{number}"))
    except TypeError as error:
        raise CommandError(f"this cannot be sent, {error}: write it another way", ExitCode.USAGE) from error


def _parsed(status: int, headers: HTTPMessage, answer: bytes, url: str) -> dict[str, Any]:
    try:
        content = json.loads(answer, parse_float=Decimal)
    except ValueError:
        content = None
    if not isinstance(content, dict) or _REQUEST_ID not in headers:
        is_text = headers.get("Content-Type", "").startswith("text/plain")
        text = answer[:_SHOWN].decode(errors="replace") if is_text else ""
        raise _is_another(url, " ".join(f"HTTP {status} {text}".split()))
    return content


def _is_another(url: str, answers: str) -> CommandError:
    sentence = (
        f"{url} answers `{answers}`, not as a DynamoDB endpoint does: is it foldb, and is that its port?"
    )
    return CommandError(sentence, ExitCode.UNREACHABLE)
