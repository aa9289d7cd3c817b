"""Changes without a feed: a wait for changes is answered after a delay."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from foldb.server.api.dispatch import ADMIN_API, dispatch
from foldb.server.api.long_answers import Portion, bytes_of
from foldb.server.api.reply import Reply
from tests.unit.materializer.fake_loop import FakeLoop


class Answers:
    """The bodies of the answers to requests."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def answer(self, _reply: Reply, status: int, body: bytes, _position: Any) -> None:
        assert 200 == status
        self.bodies.append(body)

    def answer_long(self, reply: Reply, portions: Iterator[Portion], position: Any) -> None:
        self.answer(reply, 200, b"".join(map(bytes_of, portions)), position)


@contextmanager
def running(loop: Any) -> Iterator[None]:
    """Make `loop` the running loop, which coroutines use for their futures."""
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


def ask(node: Any, body: dict[str, Any], answers: Answers) -> None:
    dispatch(node, f"{ADMIN_API}Changes".encode(), json.dumps(body).encode(), Reply(answers, "request"))


def test_a_wait_without_a_feed_is_not_answered_at_once() -> None:
    """Or a client that follows the feed would ask again as fast as it can. A table may be watched by then."""
    loop, answers = FakeLoop(), Answers()
    node: Any = SimpleNamespace(
        loop=loop,
        router=None,
        state=SimpleNamespace(tables={}),
        log=SimpleNamespace(genesis=lambda _: SimpleNamespace(log_id=bytes(16))),
        partitions=SimpleNamespace(count=1),
        partitions_of_feed=lambda: {0: None},
    )

    ask(node, {"After": {"0": "7"}, "WaitMs": 20_000}, answers)
    with running(loop):
        loop.advance(0.9)
    assert [] == answers.bodies
    with running(loop):
        loop.advance(0.2)
    assert [b'{"Changes":[],"Next":{"0":"7"},"IsEnd":true,"BehindMs":0}'] == answers.bodies

    ask(node, {"After": {"0": "7"}}, answers)
    with running(loop):
        loop.advance(0)
    assert 2 == len(answers.bodies)
