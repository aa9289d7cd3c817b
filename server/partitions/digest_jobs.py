"""The digests of this process's partitions, for the operation Digest: one computation at a time.

An open view costs each write some time, so requests that arrive while a digest is computed wait, and share the next.
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
    """Computes digests on request, each of the states as they are when it is begun."""

    def __init__(self, partitions: Partitions, scheduler: Scheduler) -> None:
        self._partitions = partitions
        self._scheduler = scheduler
        self._waiting: list[Reply] = []
        self._asked: list[Reply] = []  # for the digest under way
        self._positions: list[Position] = []
        self._found: dict[Position, str] = {}

    def ask(self, reply: Reply) -> None:
        """Answer with a digest that is begun now, or when the one under way is done."""
        self._waiting.append(reply)
        if not self._asked:
            self._begin()

    def _begin(self) -> None:
        self._asked, self._waiting = self._waiting, []
        hosted = list(self._partitions.hosted.values())
        self._positions, self._found = [each.worker.position for each in hosted], {}
        for each in hosted:
            DigestTask(each.state, self._scheduler, partial(self._take, each.worker.position))

    def _take(self, position: Position, digest: str) -> None:
        self._found[position] = digest
        if len(self._found) < len(self._positions):
            return
        asked, self._asked = self._asked, []
        self._answer(asked)
        if self._waiting and not self._asked:
            self._begin()

    def _answer(self, asked: list[Reply]) -> None:
        count, whole = self._partitions.count, joined(self._positions)
        digests = [{"Position": each.text(count), "Digest": self._found[each]} for each in self._positions]
        answer = digests[0] if count == 1 else {"Position": whole.text(count), "Digests": digests}
        for reply in asked:
            reply.ok(orjson.dumps(answer), whole)
