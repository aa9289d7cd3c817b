"""The digests of this process's partitions, for the operation Digest: one computation at a time.

    ask   of all partitions here, each at its position when the computation begins
    at    of one partition at a given offset, so that two nodes can compare their states

An open view slows down every write, so requests that arrive during a computation wait and share the next one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from ...log.commands import Position, Record
from ...materializer.digest_task import DigestTask, StateDigest
from ...materializer.partition import ResultPosition
from ...materializer.worker import Scheduler
from ...model.errors import ResourceNotFoundError
from ..routing import joined
from .replica import Partitions

# A node that has not folded the offset after this time reports its own.
_REACH_S: Final = 2.0
# A call between nodes is answered within this time; the caller repeats it until the digest is computed.
_ANSWER_S: Final = 5.0
# A result that no caller fetches is dropped after this time.
_KEPT_S: Final = 120.0


OnDigest: TypeAlias = Callable[[tuple[bytes, ResultPosition]], None]
"""Receives the body of the answer, and its position."""


class DigestJobs:
    """Computes digests on request, each of the states at the beginning of its computation."""

    def __init__(self, partitions: Partitions, scheduler: Scheduler) -> None:
        self._partitions = partitions
        self._scheduler = scheduler
        self._waiting: list[OnDigest] = []
        self._answering: list[OnDigest] = []  # by the present computation
        self._positions: list[Position] = []
        self._found: dict[Position, StateDigest] = {}
        self._at: dict[tuple[int, int], asyncio.Future[StateDigest | None]] = {}

    def ask(self, reply: OnDigest) -> None:
        """Call back with the digest of a computation that begins now, or right after the present one."""
        self._waiting.append(reply)
        if not self._answering:
            self._begin()

    def folded(self, partition_id: int) -> int:
        """Return the offset of the last entry that is folded into a partition.

        Raises:
            ResourceNotFoundError: This process does not fold the partition.
        """
        replica = self._partitions.hosted.get(partition_id)
        if replica is None:
            raise ResourceNotFoundError(f"This node does not fold partition {partition_id}")
        return replica.state.next_offset - 1

    async def at(self, partition_id: int, offset: int) -> dict[str, Any]:
        """Return the digests of a partition after the entry at an offset.

        The answer has the last folded offset, and the digests, unless the partition has passed the offset, or does not
        reach it soon. It is `pending` if the computation takes longer than a call between nodes may: repeat the call.

        Raises:
            ResourceNotFoundError: This process does not fold the partition.
        """
        folded = self.folded(partition_id)
        key = partition_id, offset
        job = self._at.get(key)
        if job is None:
            if folded > offset:
                return {"folded": folded}
            job = self._at[key] = self._begin_at(partition_id, offset)
            self._scheduler.call_later(_KEPT_S, self._at.pop, key, None)
        done, _ = await asyncio.wait([job], timeout=_ANSWER_S)
        if not done:
            return {"folded": offset, "pending": True}
        self._at.pop(key, None)
        found = job.result()
        if found is None:
            return {"folded": self.folded(partition_id)}
        return {
            "folded": offset,
            "digest": found.whole,
            "tables": found.tables,
            "snapshots": await asyncio.to_thread(self._snapshots, partition_id),
        }

    def _snapshots(self, partition_id: int) -> list[tuple[int, str]]:
        """Return offset and chain of the snapshots of a partition."""
        snapshots = self._partitions.snapshots(partition_id)
        heads = [] if snapshots is None else snapshots.heads()
        return [(head.offset, head.chain.hex()) for head in heads if head.chain is not None]

    def _begin_at(self, partition_id: int, offset: int) -> "asyncio.Future[StateDigest | None]":
        """Return a future of the digests at an offset; None if the partition does not reach it soon."""
        replica = self._partitions.hosted[partition_id]
        job: asyncio.Future[StateDigest | None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            DigestTask(replica.state, self._scheduler, job.set_result)

        if replica.state.next_offset > offset:
            begin()
            return job
        stop: Callable[[], None]

        def on_record(record: Record) -> None:
            if record.offset == offset:
                stop()
                timer.cancel()
                begin()

        def on_timeout() -> None:
            stop()
            job.set_result(None)

        stop = replica.worker.on_records.add(on_record)
        timer = self._scheduler.call_later(_REACH_S, on_timeout)
        return job

    def _begin(self) -> None:
        self._answering, self._waiting = self._waiting, []
        hosted = list(self._partitions.hosted.values())
        self._positions, self._found = [each.worker.position for each in hosted], {}
        for each in hosted:
            DigestTask(each.state, self._scheduler, partial(self._take, each.worker.position))

    def _take(self, position: Position, digest: StateDigest) -> None:
        self._found[position] = digest
        if len(self._found) < len(self._positions):
            return
        replies, self._answering = self._answering, []
        self._answer(replies)
        if self._waiting and not self._answering:
            self._begin()

    def _answer(self, replies: list[OnDigest]) -> None:
        count, whole = self._partitions.count, joined(self._positions)
        digests = [described(each, self._found[each], count) for each in self._positions]
        answer = digests[0] if count == 1 else {"Position": whole.text(count), "Digests": digests}
        for reply in replies:
            reply((orjson.dumps(answer), whole))


def described(position: Position, digest: StateDigest, partitions: int) -> dict[str, Any]:
    """Return the digests at a position, as the operation Digest has them."""
    return {"Position": position.text(partitions), "Digest": digest.whole, "Tables": digest.tables}
