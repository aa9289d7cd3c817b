"""Readers of a stream through its API, with different habits, while servers are killed.

A reader takes a shard when it has read the parent to its end, and finishes when every shard is closed and read, after
the stream is disabled. The judge examines the changes that it saw.
"""

import random
import threading
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from tests.support.failing_servers import UNREACHABLE, Addresses, Answer, Client
from tests.verification.audits.judge import Seen, Shards
from tests.verification.audits.ledger import version_of

_FEW = 20
_SERVICE = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


@dataclass(frozen=True)
class Habits:
    """The habits of a reader.

    Attributes:
        limit: Maximum number of records per page.
        pause_s: Pause between two pages.
        forgets: The share of pages after which it drops the iterator and takes one by sequence number.
    """

    limit: int = 1000
    pause_s: float = 0.0
    forgets: float = 0.0


STEADY = Habits()
FORGETFUL = Habits(limit=200, forgets=0.5)
SLOW = Habits(limit=37, pause_s=0.02, forgets=0.1)


@dataclass
class Shard:
    """A shard that a reader knows: the changes seen, the iterator, and whether its end is reached."""

    id: str
    parent: str | None
    seen: list[Seen] = field(default_factory=list)
    iterator: str | None = None
    is_done: bool = False


class Reader:
    """A thread that reads a stream from the start of the block until `join` returns.

    Attributes:
        pages: Number of pages read.
        restarts: Number of times it continued by a sequence number.
    """

    def __init__(self, addresses: Addresses, arn: str, habits: Habits = STEADY, seed: int = 0) -> None:
        self.pages = self.restarts = 0
        self._arn = arn
        self._habits = habits
        self._dice = random.Random(f"reader {seed}")
        self._client = Client(addresses, self._dice)
        self._stopped = threading.Event()
        self._shards: dict[str, Shard] = {}
        self._order: list[str] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(timeout=60)
        self._client.close()
        if self._error is not None and error is None:
            raise self._error

    def join(self, seconds: float = 60) -> None:
        """Wait until it has read a disabled stream to its end; it reads without pauses from now on."""
        self._habits = replace(self._habits, limit=STEADY.limit, pause_s=0.0)
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        assert not self._thread.is_alive(), f"not at the end after {self.pages} pages: {self._order[-3:]}"

    @property
    def shards(self) -> Shards:
        """Return the changes seen, with the shards in reading order."""
        return {name: self._shards[name].seen for name in self._order}

    def _run(self) -> None:
        try:
            while not self._stopped.is_set() and not self._round():
                pass
        except BaseException as error:
            self._error = error
            raise

    def _round(self) -> bool:
        """Read a page of each readable shard. Return whether all is read."""
        is_disabled = self._discover()
        readable = [shard for shard in self._shards.values() if not shard.is_done and self._may_read(shard)]
        self._dice.shuffle(readable)
        progressed = [self._page(shard) for shard in readable if not self._stopped.is_set()]
        if is_disabled and all(shard.is_done for shard in self._shards.values()):
            return True
        if not any(progressed):
            self._stopped.wait(0.01)
        return False

    def _may_read(self, shard: Shard) -> bool:
        parent = self._shards.get(shard.parent or "")
        return parent is None or parent.is_done

    def _discover(self) -> bool:
        """List the shards, page by page. Return whether the stream is disabled."""
        few = len(self._shards) < _FEW  # small pages only while there are few shards
        limit = self._dice.choice([1, 2, 7]) if few else 100
        request: dict[str, Any] = {"StreamArn": self._arn, "Limit": limit}
        while True:
            answer = self._client.ask("DescribeStream", request)
            if answer.fate != "acknowledged":
                _check(answer)
                return False
            described = answer.body["StreamDescription"]
            for each in described["Shards"]:
                name = each["ShardId"]
                self._shards.setdefault(name, Shard(name, each.get("ParentShardId")))
            if "LastEvaluatedShardId" not in described:
                return bool(described["StreamStatus"] == "DISABLED")
            request["ExclusiveStartShardId"] = described["LastEvaluatedShardId"]

    def _page(self, shard: Shard) -> bool:
        """Read a page. Return whether it had new changes."""
        if shard.iterator is None and not self._go_on(shard):
            return False
        request = {
            "ShardIterator": shard.iterator,
            "Limit": self._dice.randrange(1, self._habits.limit + 1),
        }
        answer = self._client.ask("GetRecords", request)
        if answer.fate != "acknowledged":
            _check(answer)
            shard.iterator = None
            return False
        if shard.id not in self._order:
            self._order.append(shard.id)
        new = [seen(record) for record in answer.body["Records"]]
        shard.seen += new
        shard.iterator = answer.body.get("NextShardIterator")
        shard.is_done = shard.iterator is None
        self.pages += 1
        if self._dice.random() < self._habits.forgets:
            shard.iterator = None
        if self._habits.pause_s:
            self._stopped.wait(self._habits.pause_s)
        return bool(new) or shard.is_done

    def _go_on(self, shard: Shard) -> bool:
        """Take an iterator at the last sequence number, by one of the iterator types."""
        where: dict[str, str] = {"ShardIteratorType": "TRIM_HORIZON"}
        again = 0
        if shard.seen:
            kind = self._dice.choice(["AFTER_SEQUENCE_NUMBER", "AT_SEQUENCE_NUMBER"])
            again = int(kind == "AT_SEQUENCE_NUMBER")
            where = {"ShardIteratorType": kind, "SequenceNumber": str(shard.seen[-1].number)}
        answer = self._client.ask("GetShardIterator", {"StreamArn": self._arn, "ShardId": shard.id} | where)
        if answer.fate != "acknowledged":
            _check(answer)
            return False
        self.restarts += bool(shard.seen)
        shard.iterator = answer.body["ShardIterator"]
        # AT repeats the last change: it is removed here, so that it must come again.
        del shard.seen[len(shard.seen) - again :]
        return True


class Glimpses:
    """A reader of random parts of a stream, by iterators of every type, which keeps the pieces.

    Each piece must be a contiguous part of one shard, which `pieces_not_of` checks. `wrong` has those that do not begin
    where their iterator says.
    """

    def __init__(self, addresses: Addresses, arn: str, seed: int) -> None:
        self.pieces: list[tuple[str, list[Seen]]] = []
        self.wrong: list[str] = []
        self._arn = arn
        self._dice = random.Random(f"glimpses {seed}")
        self._client = Client(addresses, self._dice)

    def look(self, known: Shards) -> None:
        """Read a piece of a shard that another reader has seen."""
        known = {name: list(changes) for name, changes in known.items() if changes}
        if not known:
            return None
        shard = self._dice.choice(list(known))
        first, some = known[shard][0], self._dice.choice(known[shard])
        kind = self._dice.choice(
            ["TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP"]
        )
        request: dict[str, Any] = {"StreamArn": self._arn, "ShardId": shard, "ShardIteratorType": kind}
        if kind.endswith("SEQUENCE_NUMBER"):
            request["SequenceNumber"] = str(some.number)
        if kind == "AT_TIMESTAMP":
            request["Timestamp"] = _time_in(shard)
        answer = self._client.ask("GetShardIterator", request)
        if answer.fate != "acknowledged":
            return _check(answer)
        read = self._client.ask(
            "GetRecords",
            {"ShardIterator": answer.body["ShardIterator"], "Limit": self._dice.randrange(1, 300)},
        )
        if read.fate != "acknowledged":
            return _check(read)
        piece = [seen(record) for record in read.body["Records"]]
        self.pieces.append((shard, piece))
        begin = {"AT_SEQUENCE_NUMBER": some, "TRIM_HORIZON": first, "AT_TIMESTAMP": first}.get(kind)
        if begin is not None and piece[:1] != [begin]:
            self.wrong.append(f"{kind} {begin} begins with {piece[:1]}")
        if kind == "AFTER_SEQUENCE_NUMBER" and piece and piece[0].number <= some.number:
            self.wrong.append(f"{kind} {some} begins with {piece[0]}")
        return None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _time_in(shard: str) -> int:
    """Return the second in which a shard begins, by its name: all its changes are later."""
    return int(shard.split("-")[1]) // 1000


def seen(record: dict[str, Any]) -> Seen:
    """Parse a stream record, and check everything that follows from the rest."""
    reported = record["dynamodb"]
    old, new = reported.get("OldImage"), reported.get("NewImage")
    item = new or old
    assert item is not None, record
    assert {"pk": item["pk"]} == reported["Keys"], record
    kind = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
    assert kind == record["eventName"], record
    assert "NEW_AND_OLD_IMAGES" == reported["StreamViewType"], record
    assert reported["SizeBytes"] > 0, record
    who = record.get("userIdentity")
    assert who in (None, _SERVICE), record
    return Seen(
        int(reported["SequenceNumber"]),
        item["pk"]["S"],
        version_of(old),
        version_of(new),
        who == _SERVICE,
    )


def _check(answer: Answer) -> None:
    """Accept that a server is down, but not an answer that kept changes are gone."""
    gone = answer.error == UNREACHABLE or answer.fate == "in doubt"
    assert gone or answer.error in ("ExpiredIteratorException", "ThrottlingException"), answer
