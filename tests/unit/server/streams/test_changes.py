"""Changes, where nobody's are kept: who waits for some is answered after a while, not at once."""

from types import SimpleNamespace
from typing import Any

from foldb.server.api.admin.changes import changes
from tests.unit.materializer.fake_loop import FakeLoop


class Answers:
    """What a request was answered."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def ok(self, body: bytes, _: Any = None) -> None:
        self.bodies.append(body)


def test_who_waits_where_nothing_is_kept_is_not_answered_at_once() -> None:
    """Or a client that follows the feed would ask again as fast as it can. A table may be watched by then."""
    loop, answers = FakeLoop(), Answers()
    node: Any = SimpleNamespace(
        loop=loop,
        state=SimpleNamespace(tables={}),
        log=SimpleNamespace(genesis=lambda _: SimpleNamespace(log_id=bytes(16))),
        partitions=SimpleNamespace(pasts=None, count=1),
        partitions_of_feed=lambda: {0: None},
    )

    changes(node, {"After": {"0": "7"}, "WaitMs": 20_000}, answers)  # type: ignore[arg-type]  # what is asked of one
    loop.advance(0.9)
    assert [] == answers.bodies
    loop.advance(0.2)
    assert [b'{"Changes":[],"Next":{"0":"7"},"IsEnd":true,"BehindMs":0}'] == answers.bodies

    changes(node, {"After": {"0": "7"}}, answers)  # type: ignore[arg-type]
    loop.advance(0)
    assert 2 == len(answers.bodies)
