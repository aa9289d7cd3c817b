"""A client of servers that fail: it sends a request to any of them, and says whether the request was executed."""

import http.client
import random
import socket
import threading
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import orjson

from tests.support.raw import SIGNED

Fate: TypeAlias = Literal["acknowledged", "refused", "in doubt"]
"""Whether a write was executed: yes, no, or unknown."""

UNREACHABLE: Final = "Unreachable"
"""The error of a request for which there was no server."""

_PAUSE_S = 0.02
_REQUESTS_PER_SERVER = 50  # of several
_STREAMS = "DynamoDBStreams_20120810"
_STREAM_OPERATIONS = {"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"}


@dataclass(slots=True)
class Answer:
    """An answer. `error` is the name of DynamoDB's error, or empty."""

    fate: Fate
    body: dict[str, Any]
    error: str = ""


@dataclass
class Addresses:
    """The URLs of the servers that run. A test that starts and kills servers changes `urls` in place."""

    urls: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)


class Client:
    """The client of one thread. It sends each request once.

    `unavailable` is the fate of a write that is answered with 503.
    """

    def __init__(
        self,
        addresses: Addresses,
        dice: random.Random,
        timeout_s: float = 20.0,
        *,
        unavailable: Fate = "in doubt",
    ) -> None:
        self._addresses = addresses
        self._dice = dice
        self._timeout_s = timeout_s
        self._unavailable = unavailable
        self._requests = 0
        self._url = ""
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, operation: str, request: dict[str, Any]) -> Answer:
        """Send a request. It is refused if no server could be reached, and in doubt if none answered."""
        if not self._connect():
            self._addresses.stopped.wait(_PAUSE_S)
            return Answer("refused", {}, UNREACHABLE)
        assert self._connection is not None
        headers = {
            "X-Amz-Target": _target(operation),
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": SIGNED,
        }
        try:
            self._connection.request("POST", "/", orjson.dumps(request), headers)
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Answer("in doubt", {}, type(error).__name__)
        body: dict[str, Any] = orjson.loads(data)
        if response.status == 200:
            return Answer("acknowledged", body)
        error_name = str(body.get("__type", "")).rpartition("#")[2]
        if response.status < 500:
            return Answer("refused", body, error_name)
        return Answer("in doubt" if response.status == 500 else self._unavailable, body, error_name)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> bool:
        """Connect to a server, from time to time to another one. Return whether there is a connection."""
        urls = list(self._addresses.urls)
        self._requests += 1
        if self._url not in urls or (len(urls) > 1 and self._requests % _REQUESTS_PER_SERVER == 0):
            self.close()
        if self._connection is None and urls:
            self._url = self._dice.choice(urls)
            self._connection = http.client.HTTPConnection(urlsplit(self._url).netloc, timeout=self._timeout_s)
            try:
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                self.close()
        return self._connection is not None


def _target(operation: str) -> str:
    if "." in operation:
        return operation
    return f"{_STREAMS if operation in _STREAM_OPERATIONS else 'DynamoDB_20120810'}.{operation}"
