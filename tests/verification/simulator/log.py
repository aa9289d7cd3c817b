"""A log in memory to which several processes append, with faults in both directions.

    append ──► arrives, later ──► stored, perhaps twice ──► acknowledged, or the acknowledgement is lost
                                           └──► followers receive it, later, a few records at a time

Stored records never change: that is the log's only promise. Entries are encoded on arrival and decoded again, so
every entry here would have survived a restart.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Protocol

from foldb.log.codec import encode_entry
from foldb.log.commands import Entry, Genesis, Record
from foldb.log.log import (
    AppendCallback,
    Appended,
    OnFailure,
    OnRecords,
    RawRecord,
    Stop,
    WholeHistory,
    genesis_entries,
)
from foldb.model.errors import LogError
from tests.verification.simulator.timeline import START_MS, Process, Timeline

LOG_ID = b"a simulated log "


@dataclass(slots=True)
class Weather:
    """The current probabilities, from 0 to 1, and delays, in seconds. The initial values are calm."""

    quick: float = 0.003  # maximum of a usual delay
    slow: float = 0.0  # probability of a long delay
    slow_for: float = 0.0  # maximum of a long delay
    duplicated: float = 0.0  # probability of a duplicated append
    unacknowledged: float = 0.0  # probability of a lost acknowledgement
    lost: float = 0.0  # probability of a lost message between processes

    def delay(self, dice: random.Random) -> float:
        """Return a delay."""
        if self.slow and dice.random() < self.slow:
            return self.slow_for * dice.random()
        return self.quick * dice.random()


class _Written(RawRecord):
    """A stored record. It is decoded once for all followers, which must not change it."""

    decoded: Record | None = None

    def __str__(self) -> str:
        entry = self.record().entry
        what = ", ".join(f"{command}"[:300] for command in entry.commands)
        return f"{self.partition}:{self.offset} at {self.time} of {entry.origin.hex()[:6]} {entry.entry_number}: {what}"

    def record(self) -> Record:
        """Return the decoded record."""
        if self.decoded is None:
            self.decoded = super().record()
        return self.decoded


class Witness(Protocol):
    """Receives the events of the log."""

    def count(self, fault: str) -> None: ...

    def say(self, what: object) -> None: ...


@dataclass(slots=True)
class _Partition:
    """The records and followers of one partition. `skew_ms` is the error of its broker's clock."""

    number: int
    skew_ms: int
    records: list[RawRecord] = field(default_factory=list)
    followers: "list[_Follower]" = field(default_factory=list)
    silent_until: float = 0.0


class SharedLog:
    """The log itself."""

    def __init__(
        self,
        timeline: Timeline,
        dice: random.Random,
        weather: Weather,
        witness: Witness,
        partitions: int,
    ) -> None:
        self.timeline, self.dice, self.weather = timeline, dice, weather
        self.count, self._say = witness.count, witness.say
        self.broker = Process(timeline, "the log")
        self.partitions = [_Partition(number, dice.randint(-2000, 2000)) for number in range(partitions)]
        for number, entry in enumerate(genesis_entries(LOG_ID, partitions)):
            self._write(number, encode_entry(entry))

    def silence(self, partition: int, seconds: float) -> None:
        """Block a partition for some seconds: it accepts and delivers nothing."""
        self.partitions[partition].silent_until = self.timeline.now + seconds

    def later(self, partition: int, delay: float, call: Callable[[], None]) -> None:
        """Call a function of a partition after a delay, and after its silence."""
        silent = self.partitions[partition].silent_until - self.timeline.now
        if silent > delay:
            delay += silent
        self.timeline.after(delay, self.broker, self._unless_silent, partition, call)

    def _unless_silent(self, partition: int, call: Callable[[], None]) -> None:
        if self.partitions[partition].silent_until > self.timeline.now:
            self.later(partition, 0.001, call)
        else:
            call()

    def append(self, partition: int, entry: Entry, process: Process, callback: AppendCallback) -> None:
        """Send an entry to a partition."""
        self.later(
            partition,
            self.weather.delay(self.dice),
            partial(self._arrive, partition, encode_entry(entry), process, callback),
        )

    def _arrive(self, partition: int, body: bytes, process: Process, callback: AppendCallback) -> None:
        dice, weather = self.dice, self.weather
        if process.dead and dice.random() < 0.5:
            self.count("append lost with its node")
            return
        if process.paused and dice.random() < 0.5:
            self.count("append of a paused node that comes later")
            self.later(
                partition, 1.0 + dice.random(), partial(self._arrive, partition, body, process, callback)
            )
            return
        record = self._write(partition, body)
        if dice.random() < weather.duplicated:
            self.count("append that stands twice")
            late = dice.choice((0.0, 0.0, 20.0 * dice.random()))
            self.later(partition, weather.delay(dice) + late, lambda: _ignore(self._write(partition, body)))
        if dice.random() < weather.unacknowledged:
            self.count("acknowledgement lost")
            return
        appended = Appended(partition, record.offset, record.time, body)
        self.timeline.after(weather.delay(dice), process, callback, appended)

    def _write(self, partition: int, body: bytes) -> RawRecord:
        there = self.partitions[partition]
        there.skew_ms += self.dice.choice((-5, 0, 0, 0, 5))
        time = START_MS + int(self.timeline.now * 1000) + there.skew_ms
        record = _Written(partition, len(there.records), time, body)
        there.records.append(record)
        self._say(record)
        for follower in there.followers:
            follower.wake()
        return record

    def read(self, partition: int, start: int, end: int) -> Iterator[Record]:
        """Yield records decoded, as a new process reads them."""
        for received in self.partitions[partition].records[start:end]:
            yield RawRecord.record(received)

    def end(self, partition: int) -> int:
        """Return the offset of the next record."""
        return len(self.partitions[partition].records)

    @property
    def digest(self) -> str:
        """Return the hash of all records."""
        total = blake2b(digest_size=8)
        for partition in self.partitions:
            for received in partition.records:
                total.update(b"%d %d %b" % (received.offset, received.time, received.body))
        return total.hexdigest()


class _Follower:
    """One process that follows a partition."""

    def __init__(
        self, log: SharedLog, partition: int, start: int, process: Process, on_records: OnRecords
    ) -> None:
        self._log, self._partition, self._next = log, log.partitions[partition], start
        self._process, self._on_records = process, on_records
        self._awake = self._stopped = False
        self._partition.followers.append(self)
        self.wake()

    def wake(self) -> None:
        if not self._awake and self._next < len(self._partition.records):
            self._awake = True
            self._log.later(self._partition.number, self._log.weather.delay(self._log.dice), self._send)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self._partition.followers.remove(self)

    def _send(self) -> None:
        self._awake = False
        if self._process.dead:
            self.stop()
        if self._stopped:
            return
        count = self._log.dice.choice((1, 2, 5, 100))
        records = self._partition.records[self._next : self._next + count]
        self._next += len(records)
        self._process.call_soon(self._hear, records)
        self.wake()

    def _hear(self, records: list[RawRecord]) -> None:
        if not self._stopped:
            self._on_records(records)


def _ignore(_: RawRecord) -> None:
    """A second copy has no callback."""


class LogSeen(WholeHistory):
    """The log as one process sees it: a `foldb.log.log.SharedLog`."""

    def __init__(self, log: SharedLog, process: Process) -> None:
        self._log, self._process = log, process

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Append an entry after all records that are there when it arrives."""
        self._log.append(partition, entry, self._process, callback)

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """Yield the durable records."""
        return self._log.read(partition, start, self._log.end(partition))

    def end(self, partition: int) -> int:
        """Return the offset of the next record."""
        return self._log.end(partition)

    def genesis(self, partition: int) -> Genesis:
        """Return the partition's first command."""
        first = self._log.partitions[partition].records[0].record().entry.commands[0]
        assert isinstance(first, Genesis)
        return first

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Deliver all records from `start` on."""
        return _Follower(self._log, partition, start, self._process, on_records).stop

    def ask_end(self, partition: int, callback: Callable[[int | LogError], None]) -> None:
        """Return the end at the arrival of the question."""
        log = self._log

        def answer() -> None:
            log.timeline.after(log.weather.delay(log.dice), self._process, callback, log.end(partition))

        log.later(partition, log.weather.delay(log.dice), answer)

    def close(self) -> None:
        """Do nothing: the log is shared."""
