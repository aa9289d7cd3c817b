"""More requests than a server can handle: connections that always send more, and read the answers.

    python -m tests.behaviour.http.flood URL CONNECTIONS SECONDS [put|mixed]

prints how many answers were 200 and how many were not. It does not wait for answers before it sends the next request,
so the sockets limit the load.
"""

import json
import random
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.behaviour.http.wire import request

AHEAD = 40  # requests that a connection sends before it looks for answers
GOOD, ANSWER = b"HTTP/1.1 200", b"HTTP/1.1 "


@dataclass
class Client:
    socket: socket.socket
    sending: bytes = b""
    tail: bytes = b""


def requests(dice: random.Random, kind: str) -> bytes:
    """A few requests for the table `orders`, puts or puts and gets."""
    return b"".join(
        one(dice, "PutItem" if kind == "put" or dice.random() < 0.5 else "GetItem") for _ in range(AHEAD)
    )


def one(dice: random.Random, operation: str) -> bytes:
    key = {"pk": {"S": f"user#{dice.randrange(5000)}"}, "sk": {"S": f"order#{dice.randrange(20)}"}}
    item = key | {"total": {"N": "123.45"}, "status": {"S": "SHIPPED"}, "note": {"S": "x" * 100}}
    asked = {"TableName": "orders"} | ({"Key": key} if operation == "GetItem" else {"Item": item})
    return request(operation, json.dumps(asked, separators=(",", ":")).encode())


def flood(url: str, connections: int, seconds: float, kind: str) -> tuple[int, int, int]:
    """Answers that were 200, answers that were not, connections that were lost."""
    address = urlsplit(url)
    dice = random.Random(20261121)
    blobs = [requests(dice, kind) for _ in range(50)]
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        client = Client(socket.create_connection((address.hostname or "", address.port or 0)))
        client.socket.setblocking(False)
        selector.register(client.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, client)
    good = answered = lost = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, events in selector.select(0.1):
            client = key.data
            try:
                if events & selectors.EVENT_READ:
                    data = client.tail + client.socket.recv(1 << 18)
                    good += data.count(GOOD)
                    answered += data.count(ANSWER)
                    client.tail = data[
                        -len(GOOD) + 1 :
                    ]  # too short to hold what is counted, but perhaps its beginning
                    answered -= client.tail.count(ANSWER)
                if events & selectors.EVENT_WRITE:
                    client.sending = client.sending or dice.choice(blobs)
                    client.sending = client.sending[client.socket.send(client.sending) :]
            except OSError:
                selector.unregister(client.socket)
                client.socket.close()
                lost += 1
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    return good, answered - good, lost


if __name__ == "__main__":
    url, connections, seconds, kind = (*sys.argv[1:4], "put")[:4] if len(sys.argv) == 4 else sys.argv[1:5]
    sys.stdout.write(json.dumps(flood(url, int(connections), float(seconds), kind)))
