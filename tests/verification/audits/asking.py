"""A client of servers that die: it asks whichever there is, and says what became of a request."""

import http.client
import random
import socket
import threading
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import orjson

from tests.support.raw import SIGNED

Fate: TypeAlias = Literal["acknowledged", "refused", "in doubt"]

_PAUSE_S = 0.02
_STAY = 50  # requests to one node, where there are several
_STREAMS = "DynamoDBStreams_20120810"
_OF_STREAMS = {"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"}


@dataclass(slots=True)
class Answer:
    """`error` is the name of DynamoDB's error, empty where there is none."""

    fate: Fate
    body: dict[str, Any]
    error: str = ""


@dataclass
class Addresses:
    """Where servers answer at the moment; whoever starts and kills them changes `urls` in place."""

    urls: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)


class Client:
    """One thread's. A request is sent once."""

    def __init__(self, addresses: Addresses, dice: random.Random, patience_s: float = 20.0) -> None:
        self._addresses = addresses
        self._dice = dice
        self._patience_s = patience_s
        self._asked = 0
        self._url = ""
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, operation: str, request: dict[str, Any]) -> Answer:
        """Ask once. What nobody was there to hear is refused; what nobody answered is in doubt."""
        if not self._connect():
            self._addresses.stopped.wait(_PAUSE_S)
            return Answer("refused", {}, "NobodyIsThere")
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
            self.leave()
            return Answer("in doubt", {}, type(error).__name__)
        body: dict[str, Any] = orjson.loads(data)
        if response.status == 200:
            return Answer("acknowledged", body)
        error_name = str(body.get("__type", "")).rpartition("#")[2]
        return Answer("in doubt" if response.status >= 500 else "refused", body, error_name)

    def leave(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> bool:
        """Have a connection to somebody who answers, now and then to another."""
        urls = list(self._addresses.urls)
        self._asked += 1
        if self._url not in urls or (len(urls) > 1 and self._asked % _STAY == 0):
            self.leave()
        if self._connection is None and urls:
            self._url = self._dice.choice(urls)
            self._connection = http.client.HTTPConnection(
                urlsplit(self._url).netloc, timeout=self._patience_s
            )
            try:
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                self.leave()
        return self._connection is not None


def _target(operation: str) -> str:
    if "." in operation:
        return operation
    return f"{_STREAMS if operation in _OF_STREAMS else 'DynamoDB_20120810'}.{operation}"
