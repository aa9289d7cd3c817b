"""A log that several processes append to, in memory, with all that can go wrong on the way there and back.

    append ──► arrives, later ──► stands there, perhaps twice ──► acknowledged, or that is lost
                                          └──► whoever follows hears of it, later, a few at a time

What stands in a partition never changes; that much the log promises. Entries are encoded on their way in and
decoded again, so whatever passed through here would have survived a restart.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Protocol

from foldb.log.codec import encode_entry
from foldb.log.commands import Entry, Genesis, Record
from foldb.log.log import AppendCallback, Appended, OnFailure, OnRecords, RawRecord, Stop, genesis_entries
from foldb.model.errors import LogError
from tests.verification.simulator.timeline import START_MS, Process, Timeline

LOG_ID = b"a simulated log "


@dataclass(slots=True)
class Weather:
    """How bad it is now: chances from 0 to 1, delays in seconds. As it begins, it is calm."""

    quick: float = 0.003  # what a way usually takes at most
    slow: float = 0.0  # how many take far longer
    slow_for: float = 0.0  # and how much longer, at most
    duplicated: float = 0.0  # appends that stand twice
    unacknowledged: float = 0.0  # appends whose acknowledgement is lost
    lost: float = 0.0  # messages between processes that are

    def delay(self, dice: random.Random) -> float:
        """What one way takes now."""
        if self.slow and dice.random() < self.slow:
            return self.slow_for * dice.random()
        return self.quick * dice.random()


class _Written(RawRecord):
    """A record as it stands here. It is decoded once for all who follow: they must not change it."""

    decoded: Record | None = None

    def __str__(self) -> str:
        entry = self.record().entry
        what = ", ".join(f"{command}"[:300] for command in entry.commands)
        return f"{self.partition}:{self.offset} at {self.time} of {entry.origin.hex()[:6]} {entry.entry_number}: {what}"

    def record(self) -> Record:
        """The record."""
        if self.decoded is None:
            self.decoded = super().record()
        return self.decoded


class Witness(Protocol):
    """Who wants to know what happens."""

    def count(self, fault: str) -> None: ...

    def say(self, what: object) -> None: ...


@dataclass(slots=True)
class _Partition:
    """What stands in one partition, and who listens. `skew_ms` is its broker's clock's; it does not jump far."""

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
        """Nothing gets into a partition or out of it for so long."""
        self.partitions[partition].silent_until = self.timeline.now + seconds

    def later(self, partition: int, delay: float, call: Callable[[], None]) -> None:
        """Do something with a partition after a delay, and after its silence."""
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
        """Take an entry on its way."""
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
        """Records as a process reads them that knows nothing yet."""
        for heard in self.partitions[partition].records[start:end]:
            yield RawRecord.record(heard)

    def end(self, partition: int) -> int:
        """The offset of the next record."""
        return len(self.partitions[partition].records)

    @property
    def digest(self) -> str:
        """The hash of all that stands in it."""
        total = blake2b(digest_size=8)
        for partition in self.partitions:
            for heard in partition.records:
                total.update(b"%d %d %b" % (heard.offset, heard.time, heard.body))
        return total.hexdigest()


class _Follower:
    """One process that hears what is written to a partition."""

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
    """Nobody waits for a second copy."""


class LogSeen:
    """The log as one process has it: a `foldb.log.log.SharedLog`."""

    def __init__(self, log: SharedLog, process: Process) -> None:
        self._log, self._process = log, process

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Write an entry after all that is there when it arrives."""
        self._log.append(partition, entry, self._process, callback)

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """What is durable now."""
        return self._log.read(partition, start, self._log.end(partition))

    def end(self, partition: int) -> int:
        """Where the next record will stand."""
        return self._log.end(partition)

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        first = self._log.partitions[partition].records[0].record().entry.commands[0]
        assert isinstance(first, Genesis)
        return first

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Hear all that stands there from `start` on."""
        return _Follower(self._log, partition, start, self._process, on_records).stop

    def ask_end(self, partition: int, callback: Callable[[int | LogError], None]) -> None:
        """Tell the end, as it is when the question arrives."""
        log = self._log

        def answer() -> None:
            log.timeline.after(log.weather.delay(log.dice), self._process, callback, log.end(partition))

        log.later(partition, log.weather.delay(log.dice), answer)

    def truncate_before(self, partition: int, offset: int) -> None:
        """Refused: history is kept."""
        raise LogError("the log keeps its whole history")

    def close(self) -> None:
        """Nothing of it is this process's alone."""
