"""A small HTTP client for foldb's wire protocol, on the standard library.

The response to a request is a JSON object, or a RequestFailedError with an exit code. Every request is signed; a server
without keys ignores the signature.
"""

import http.client
import json
import re
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from ...server.auth.signature import sign
from .errors import CommandError, ExitCode, NoAnswerError, RequestFailedError, is_throttling
from .settings import Credentials

DYNAMODB = "DynamoDB_20120810"
ADMIN = "Foldb_20261121"

# The pauses before retries. After throttling and a 503 the request had no effect, so a retry is safe; after a 500 not.
_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)

# A header of every DynamoDB endpoint, and of few other servers.
_REQUEST_ID = "x-amzn-RequestId"
_SHOWN = 200
_HOST = re.compile(r"[0-9A-Za-z._:%-]+")


class Client:
    """A client of one server. It is not thread-safe: each thread needs its own `copy()`.

    Attributes:
        position: The position of the last response.
        log_time_ms: The log time of that position, in milliseconds since 1970.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials | None = None,
        ca: Path | None = None,
        reason: str | None = None,
        timeout_s: float = 60,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a client, which connects at the first request.

        Args:
            url: The URL of the server.
            credentials: The access key. None: the default key, for a server without keys.
            ca: The file of trusted certificates, in PEM. None: those of the system.
            reason: The reason of the requests, which the log keeps with their writes.
            timeout_s: The timeout of a response, in seconds.
            sleep: Waits before a retry.
        """
        self.url, host, port = address(url)
        self.position: str | None = None
        self.log_time_ms: int | None = None
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._credentials = credentials or Credentials()
        self._ca = ca
        self._reason = reason
        self._connection = _connection(self.url, host, port, ca, timeout_s)

    def copy(self, timeout_s: float | None = None, reason: str | None = None) -> "Client":
        """Return another client of the same server, with the same timeout and reason or others."""
        return Client(
            self.url,
            credentials=self._credentials,
            ca=self._ca,
            reason=reason or self._reason,
            timeout_s=timeout_s or self._timeout_s,
            sleep=self._sleep,
        )

    def close(self) -> None:
        self._connection.close()

    def call(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation of DynamoDB's API.

        Raises:
            RequestFailedError: The server refused the request, after retries if it throttled it.
            NoAnswerError: The server did not answer within the timeout.
            CommandError: The server cannot be reached.
        """
        return self._retrying(f"{DYNAMODB}.{operation}", body)

    def call_once(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation without retries. The errors are those of `call`."""
        return self._once(f"{DYNAMODB}.{operation}", body)

    def admin(self, operation: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call one of foldb's own operations. The errors are those of `call`."""
        return self._retrying(f"{ADMIN}.{operation}", body or {})

    def _retrying(self, target: str, body: Mapping[str, Any]) -> dict[str, Any]:
        for pause in _PAUSES_S:
            try:
                return self._once(target, body)
            except RequestFailedError as failure:
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
            failure = RequestFailedError(
                str(content.get("__type", "")).rpartition("#")[2] or f"HTTP {status}", status, content
            )
            if failure.code is ExitCode.NOT_FOUND:
                failure.table = _table_of(body)
            raise failure
        return content

    def _send(self, target: str, body: bytes) -> tuple[int, HTTPMessage, bytes]:
        fields = {
            "Host": self._host,
            "X-Amz-Target": target,
            "Content-Type": "application/x-amz-json-1.0",
        }
        if self._reason is not None:
            fields["X-Foldb-Reason"] = self._reason
        key = self._credentials
        signed = sign(key.key_id, key.secret, fields, body, seconds=int(time.time()))
        # As bytes, because http.client encodes text in Latin-1, and a reason is UTF-8.
        headers = {name: value.encode() for name, value in signed.items()}
        try:
            self._connection.request("POST", "/", body, headers)
            response = self._connection.getresponse()
            return response.status, response.headers, response.read()
        except TimeoutError as error:
            self._connection.close()
            raise NoAnswerError(
                f"{self.url} did not answer within {self._timeout_s:g} s; whether the request was done is unknown.",
                ExitCode.UNREACHABLE,
            ) from error
        except OSError as error:
            self._connection.close()
            if type(error).__name__ == "SSLCertVerificationError":
                raise _untrusted(self.url, error) from error
            raise CommandError(
                f"cannot reach {self.url}. Start a server with `foldb serve`, "
                "or open a database folder without one: --db PATH.",
                ExitCode.UNREACHABLE,
            ) from error
        except http.client.HTTPException as error:
            self._connection.close()
            raise _is_another(self.url, "a response that is not HTTP") from error


def _table_of(body: Mapping[str, Any]) -> str | None:
    """Return the table of a request. None if it names several or none."""
    names = [body["TableName"]] if "TableName" in body else body.get("TableNames", [])
    return names[0] if len(names) == 1 else None


def address(url: str) -> tuple[str, str, int]:
    """Return the URL, the host and the port of an address.

    >>> address("localhost:8001")
    ('http://localhost:8001', 'localhost', 8001)

    Raises:
        CommandError: `url` is not an address.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or not _HOST.fullmatch(host):
        raise CommandError(f"{url} is not an address such as http://127.0.0.1:8000", ExitCode.USAGE)
    return f"{parts.scheme}://{parts.netloc}", host, 8000 if port is None else port


def _connection(url: str, host: str, port: int, ca: Path | None, timeout_s: float) -> HTTPConnection:
    if url.startswith("http:"):
        return HTTPConnection(host, port, timeout=timeout_s)
    import ssl  # its import takes as long as the rest of a command, and most servers here use plain HTTP

    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl's own errors are among them
        raise CommandError(
            f"{ca} has no readable certificates: give a file in PEM", ExitCode.USAGE
        ) from error
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _untrusted(url: str, error: OSError) -> CommandError:
    reason = getattr(error, "verify_message", "") or error
    return CommandError(
        f"the certificate of {url} is not trusted: {reason}. If a private CA signed it, give that CA with --ca FILE.",
        ExitCode.UNREACHABLE,
    )


def _milliseconds(text: str | None) -> int | None:
    """Return the log time of a response. A server of an older version does not send it."""
    return int(text) if text is not None and text.isdecimal() else None


def _body(request: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request. The server validates it, because its errors are more precise.

    Raises:
        CommandError: A value cannot be written as JSON.
    """
    try:
        return orjson.dumps(request, default=lambda number: orjson.Fragment(f"{number}"))
    except TypeError as error:
        raise CommandError(f"this cannot be sent, {error}: use another value", ExitCode.USAGE) from error


def _parsed(status: int, headers: HTTPMessage, answer: bytes, url: str) -> dict[str, Any]:
    try:
        content = json.loads(answer, parse_float=Decimal) if answer or status != 200 else {}
    except ValueError:
        content = None
    if not isinstance(content, dict) or _REQUEST_ID not in headers:
        is_text = headers.get("Content-Type", "").startswith("text/plain")
        text = answer[:_SHOWN].decode(errors="replace") if is_text else ""
        raise _is_another(url, " ".join(f"HTTP {status} {text}".split()))
    return content


def _is_another(url: str, answers: str) -> CommandError:
    sentence = (
        f"{url} answers `{answers}`, which no DynamoDB endpoint does: is it foldb, and is that its port?"
    )
    return CommandError(sentence, ExitCode.UNREACHABLE)
