"""Clients like SDKs: they wait for an answer until a timeout, and then retry.

    draw ──► send to a node ──► answer         an operation of the history, with its result
                            └──► no answer     retry; a transaction with the same ClientRequestToken
                                               after the last retry: in doubt

A retry without a token is another operation, because both may be applied.
"""

import random
from functools import partial
from typing import TYPE_CHECKING, Any

from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.storage import Stored
from foldb.materializer.partition import Conflict, Found, ResultPosition
from foldb.model.errors import RequestError
from tests.verification.histories.history import History, Operation, Step
from tests.verification.histories.model import Refused
from tests.verification.histories.workload import Workload
from tests.verification.simulator.clients import requests
from tests.verification.simulator.clients.requests import NotDoneError, UnclearError
from tests.verification.simulator.network import Asking

if TYPE_CHECKING:
    from tests.verification.simulator.node import Node
    from tests.verification.simulator.world import World

ATTEMPTS = 8
_SIZE = 300  # approximate size of a command


class Client:
    """One client: one request at a time, `count` of them."""

    def __init__(self, world: "World", number: int, workload: Workload, count: int) -> None:
        self.left = count
        self.number = number
        self._world = world
        self._dice: random.Random = world.dice
        self._workload = workload
        self._history: History = world.history

    def start(self) -> None:
        """Send the first request."""
        self._pause(self._next, 0.2)

    @property
    def idle(self) -> bool:
        """Whether it has sent all its requests."""
        return self.left <= 0

    def _pause(self, then: Any, longest: float) -> None:
        self._world.clients.call_later(longest * self._dice.random(), then)

    def _next(self) -> None:
        if self.left > 0:
            draw = self._workload.contended if self._world.contended else self._workload.draw
            Request(self, draw()).attempt()

    def ended(self, operation: Operation | None) -> None:
        """Continue after a request has ended."""
        if operation is not None:
            self._workload.saw(operation)
        self.left -= 1
        self._pause(self._next, self._world.think)

    def again(self, steps: tuple[Step, ...]) -> None:
        """Repeat a request in doubt, as a new operation."""
        Request(self, steps).attempt()

    @property
    def world(self) -> "World":
        """The world of the client."""
        return self._world


class Request:
    """One operation of a client, over all its attempts."""

    def __init__(self, client: Client, steps: tuple[Step, ...]) -> None:
        self._client, self._steps = client, steps
        self._world = client.world
        self._called = self._world.now_us
        self._reads = all(step.verb == "get" for step in steps)
        single = len(steps) == 1 and steps[0].verb != "append"
        self._token = None if single or self._reads else f"{self._world.dice.getrandbits(64):x}"
        self._attempts = 0
        self._in_doubt = False  # an attempt may have been, or still be, applied

    def attempt(self) -> None:
        """Send the request to any node."""
        self._attempts += 1
        world, node = self._world, self._world.any_node()
        Asking(
            world.network, world.clients, node.process, partial(self._ask, node), self._heard, (None, None)
        )

    def _ask(self, node: "Node", reply: Any) -> None:
        table, steps = self._world.table, self._steps
        if not self._reads:
            node.router.submit(requests.command(table, steps, self._token), _SIZE, reply)
        elif len(steps) == 1:
            node.router.get(table, requests.pk_of(steps[0].key), b"", True, reply)
        else:
            keys = [(table, requests.pk_of(step.key), b"") for step in steps]
            node.router.get_isolated(keys, None, reply)

    def _heard(self, answer: Any, place: ResultPosition | None) -> None:
        try:
            reported = self._told_of_reads(answer, place) if self._reads else self._told(answer)
        except UnclearError:
            self._in_doubt = True
            self._unanswered()
        except NotDoneError:
            self._not_done()
        else:
            self._done(reported)

    def _told(self, answer: Outcome | None) -> tuple[Any, ...]:
        if answer is None:
            raise UnclearError
        return requests.reported(self._steps, answer)

    def _told_of_reads(
        self, answer: Stored | list[Found] | RequestError | None, place: ResultPosition | None
    ) -> tuple[Any, ...]:
        if place is None or isinstance(answer, RequestError):
            raise UnclearError
        found = answer if isinstance(answer, list) else [answer]
        if any(isinstance(one, Conflict) for one in found):
            raise NotDoneError
        return tuple(
            requests.state(step.key, None if one is None else one[0])  # type: ignore[index]
            for step, one in zip(self._steps, found, strict=True)
        )

    def _unanswered(self) -> None:
        if self._reads or self._token is not None:
            self._try_again()
            return
        self._record(rejected=False)
        if self._world.dice.random() < 0.7:
            self._client.again(self._steps)
        else:
            self._client.ended(None)

    def _not_done(self) -> None:
        if self._world.dice.random() < 0.7 and self._attempts < ATTEMPTS:
            self._try_again()
        elif self._in_doubt:
            self._give_up()
        else:
            self._record(rejected=True)
            self._client.ended(None)

    def _try_again(self) -> None:
        if self._attempts >= ATTEMPTS:
            self._give_up()
        else:
            self._world.clients.call_later(0.05 * 2**self._attempts * self._world.dice.random(), self.attempt)

    def _give_up(self) -> None:
        if not self._reads:
            self._record(rejected=False)
        self._client.ended(None)

    def _done(self, reported: tuple[Any, ...]) -> None:
        operation = Operation(self._client.number, self._called, self._world.now_us, self._steps, reported)
        if operation.refused and self._in_doubt:
            # This attempt was refused, but an earlier one may still be applied.
            self._give_up()
            return
        if operation.refused and len(self._steps) > 1:
            self._record_refusal(operation)
        else:
            self._world.ended(operation)
        self._world.acknowledged += not operation.refused and not self._reads
        self._client.ended(operation)

    def _record_refusal(self, operation: Operation) -> None:
        """Record the items of a refused transaction: each was read at a moment of its own."""
        assert operation.reported is not None
        for step, reported in zip(operation.steps, operation.reported, strict=True):
            if type(reported) is Refused or step.verb == "size":
                self._world.ended(operation._replace(steps=(step,), reported=(reported,)))

    def _record(self, *, rejected: bool) -> None:
        """Record an operation without answer: it is known not to be applied, or it is in doubt."""
        answered = self._world.now_us if rejected else None
        operation = Operation(self._client.number, self._called, answered, self._steps, None)
        self._world.ended(operation)
