"""The digests of this process's partitions, for the operation Digest: one computation at a time.

An open view slows down every write, so requests that arrive during a computation wait and share the next one.
"""

from functools import partial

import orjson

from ...log.commands import Position
from ...materializer.digest_task import DigestTask
from ...materializer.worker import Scheduler
from ..api.reply import Reply
from ..routing import joined
from .replica import Partitions


class DigestJobs:
    """Computes digests on request, each of the states at the beginning of its computation."""

    def __init__(self, partitions: Partitions, scheduler: Scheduler) -> None:
        self._partitions = partitions
        self._scheduler = scheduler
        self._waiting: list[Reply] = []
        self._answering: list[Reply] = []  # by the present computation
        self._positions: list[Position] = []
        self._found: dict[Position, str] = {}

    def ask(self, reply: Reply) -> None:
        """Answer with the digest of a computation that begins now, or right after the present one."""
        self._waiting.append(reply)
        if not self._answering:
            self._begin()

    def _begin(self) -> None:
        self._answering, self._waiting = self._waiting, []
        hosted = list(self._partitions.hosted.values())
        self._positions, self._found = [each.worker.position for each in hosted], {}
        for each in hosted:
            DigestTask(each.state, self._scheduler, partial(self._take, each.worker.position))

    def _take(self, position: Position, digest: str) -> None:
        self._found[position] = digest
        if len(self._found) < len(self._positions):
            return
        replies, self._answering = self._answering, []
        self._answer(replies)
        if self._waiting and not self._answering:
            self._begin()

    def _answer(self, replies: list[Reply]) -> None:
        count, whole = self._partitions.count, joined(self._positions)
        digests = [{"Position": each.text(count), "Digest": self._found[each]} for each in self._positions]
        answer = digests[0] if count == 1 else {"Position": whole.text(count), "Digests": digests}
        for reply in replies:
            reply.ok(orjson.dumps(answer), whole)
