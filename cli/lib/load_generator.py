"""A load of requests: operations and arrival times from a seed, and the latencies of the answers.

    Workload: Zipf ranks, operations, payloads, arrival times ──► connections, one thread each ──► Measured

The loop is open: a request is due at its arrival time, whether or not earlier ones were answered. Its latency counts
from that time, so a server that stalls for a second delays the requests of that second, and their latencies show it.
A closed loop would send fewer requests during the stall, and measure one of them ("coordinated omission").
"""

import base64
import itertools
import math
import random
import threading
import time
from array import array
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from typing import Any, Final, NamedTuple, Protocol

from ...model.lazy_dataclass import dataclass
from .errors import CommandError, NoAnswerError, RequestFailedError, is_throttling
from .key_arguments import KeyArguments

OPERATIONS: Final = ("put", "get", "update", "query")

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_OFFSETS: Final = 4096
_QUERY_LIMIT: Final = 10
_PERCENTILES: Final = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0))


class Due(NamedTuple):
    """A request, and its arrival time in seconds since the start."""

    at_s: float
    name: str
    operation: str
    body: dict[str, Any]


class Caller(Protocol):
    """Sends one request without retries: a retry would hide a throttled one."""

    def call_once(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of a load.

    Attributes:
        rate: Requests per second.
        seconds: The time of arrivals.
        mix: The weight of each operation.
        keys: The number of partition keys.
        zipf: The exponent s: the key of rank r is drawn in proportion to 1 / r^s. 0 draws all alike.
        sort_keys: The number of sort keys of each partition key, drawn alike.
        sizes: The least and the most bytes of the payload.
        seed: Two loads with the same seed send the same requests at the same times.
    """

    rate: float
    seconds: float
    mix: Mapping[str, int]
    keys: int
    zipf: float
    sort_keys: int
    sizes: tuple[int, int]
    seed: int

    def requests(self, shape: KeyArguments) -> Iterator[Due]:
        """Yield the requests to a table in the order of their arrival, whose gaps are exponential (Poisson)."""
        draw = random.Random(self.seed)  # noqa: S311  # a load must repeat, and keeps no secret
        ranks = list(itertools.accumulate(1 / rank**self.zipf for rank in range(1, self.keys + 1)))
        names, weights = zip(*self.mix.items(), strict=True)
        mix = list(itertools.accumulate(weights))
        text = "".join(draw.choices(_LETTERS, k=self.sizes[1] + _OFFSETS))
        at_s = draw.expovariate(self.rate)
        while at_s < self.seconds:
            name = names[bisect(mix, draw.random() * mix[-1])]
            rank = bisect(ranks, draw.random() * ranks[-1])
            key = _key(shape, min(rank, self.keys - 1), draw.randrange(self.sort_keys))
            begin, size = draw.randrange(_OFFSETS), draw.randint(*self.sizes)
            yield Due(at_s, name, *_request(shape, name, key, text[begin : begin + size]))
            at_s += draw.expovariate(self.rate)


def _key(shape: KeyArguments, rank: int, sort: int) -> dict[str, Any]:
    """Return the key of a rank, in the types of the table."""
    types = {
        part["AttributeName"]: part["AttributeType"] for part in shape.description["AttributeDefinitions"]
    }
    numbers = dict(zip(shape.key_names(), (rank, sort), strict=False))
    return {name: _value(types[name], number) for name, number in numbers.items()}


def _value(kind: str, number: int) -> dict[str, str]:
    if kind == "N":
        return {"N": str(number)}
    text = f"key-{number:08d}"
    return {kind: text if kind == "S" else base64.b64encode(text.encode()).decode()}


def _request(shape: KeyArguments, name: str, key: dict[str, Any], payload: str) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {"TableName": shape.name, "ReturnConsumedCapacity": "TOTAL"}
    match name:
        case "put":
            return "PutItem", body | {"Item": key | {"payload": {"S": payload}}}
        case "get":
            return "GetItem", body | {"Key": key}
        case "update":
            return "UpdateItem", body | {
                "Key": key,
                "UpdateExpression": "SET payload = :payload ADD updates :one",
                "ExpressionAttributeValues": {":payload": {"S": payload}, ":one": {"N": "1"}},
            }
    [partition_key] = shape.key_names(role="HASH")
    return "Query", body | {
        "KeyConditionExpression": "#pk = :pk",
        "ExpressionAttributeNames": {"#pk": partition_key},
        "ExpressionAttributeValues": {":pk": key[partition_key]},
        "Limit": _QUERY_LIMIT,
    }


@dataclass(slots=True)
class Measured:
    """The answers to one operation.

    Attributes:
        latencies: Seconds from the arrival to the answer, or to the end of the load for a request that was not sent.
        errors: The failed requests by type. Throttled ones are among them.
        unsent: The requests that no connection was free for until the end.
    """

    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)
    throttled: int = 0
    unsent: int = 0
    read_units: float = 0.0
    write_units: float = 0.0

    def add(self, other: "Measured") -> None:
        self.latencies += other.latencies
        self.errors += other.errors
        self.throttled += other.throttled
        self.unsent += other.unsent
        self.read_units += other.read_units
        self.write_units += other.write_units

    def row(self, name: str, seconds: float) -> dict[str, Any]:
        """Return the output of an operation that ran for `seconds`."""
        ordered = sorted(self.latencies)
        answered = len(ordered) - self.unsent
        return {
            "operation": name,
            "requests": len(ordered),
            "rate": round(answered / seconds, 1) if seconds else 0.0,
            **{label: milliseconds(ordered, share) for label, share in _PERCENTILES},
            "errors": dict(sorted(self.errors.items())),
            "throttled": self.throttled,
            "unsent": self.unsent,
            "read_units": self.read_units,
            "write_units": self.write_units,
        }


def milliseconds(ordered: Sequence[float], share: float) -> float | None:
    """Return the least latency that `share` of the requests did not exceed; None without requests.

    >>> milliseconds([0.001, 0.002, 0.003, 0.004], 0.5), milliseconds([], 0.5)
    (2.0, None)
    """
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000, 3)


class Load:
    """A load that runs: its connections take the next due request, send it, and measure its answer."""

    def __init__(
        self,
        requests: Iterator[Due],
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.sent = 0
        self.seconds = 0.0
        self._requests = requests
        self._length_s = seconds
        self._clock = clock
        self._sleep = sleep
        self._started = clock()
        self._lock = threading.Lock()
        self._is_stopping = False
        self._found: defaultdict[str, Measured] = defaultdict(Measured)

    def stop(self) -> None:
        """Send no further request. Those that are not due yet do not count."""
        self._is_stopping = True

    def run(self, caller: Caller) -> None:
        """Send requests over one connection until the load is over."""
        own: defaultdict[str, Measured] = defaultdict(Measured)
        with closing(caller):
            while not self._is_stopping and (due := self._next()) is not None:
                wait = self._started + due.at_s - self._clock()
                if wait > 0:
                    self._sleep(wait)
                if self._clock() - self._started >= self._length_s + _GRACE_S:
                    self._skip(due, own[due.name])
                else:
                    self._send(caller, due, own[due.name])
        with self._lock:
            for name, measured in own.items():
                self._found[name].add(measured)
            self.seconds = max(self.seconds, self._clock() - self._started)

    def measured(self) -> dict[str, Measured]:
        """Return the measurements by operation, in the order of `OPERATIONS`."""
        with self._lock:
            return {name: self._found[name] for name in OPERATIONS if name in self._found}

    def _next(self) -> Due | None:
        with self._lock:
            return next(self._requests, None)

    def _skip(self, due: Due, measured: Measured) -> None:
        measured.unsent += 1
        measured.latencies.append(self._clock() - self._started - due.at_s)

    def _send(self, caller: Caller, due: Due, measured: Measured) -> None:
        try:
            answer = caller.call_once(due.operation, due.body)
            units = float(answer["ConsumedCapacity"]["CapacityUnits"])
            if due.name in ("put", "update"):
                measured.write_units += units
            else:
                measured.read_units += units
        except RequestFailedError as error:
            measured.errors[error.name] += 1
            measured.throttled += is_throttling(error.name)
        except NoAnswerError:
            measured.errors["no answer"] += 1
        except CommandError:
            measured.errors["unreachable"] += 1
        measured.latencies.append(self._clock() - self._started - due.at_s)
        self.sent += 1  # for the progress only: two threads may lose a count


_GRACE_S: Final = 1.0
"""Seconds after the last arrival in which late requests are still sent."""
