"""Long requests wait for each other, and short ones for none of them."""

from collections.abc import Callable
from typing import Any

from foldb.server.api.operations import OPERATIONS
from foldb.server.api.operations.streams import STREAMS
from foldb.server.http.fair_scheduler import LONG, SHARE_S, FairScheduler


class Loop:
    """An event loop whose turns the test takes; requests advance its time."""

    def __init__(self) -> None:
        self.now = 1.0
        self.ready: list[Callable[..., object]] = []
        self.done: list[str] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.ready.append(callback)

    def turn(self) -> None:
        ready, self.ready = self.ready, []
        for callback in ready:
            callback()

    def request(self, name: str, seconds: float) -> Callable[[], None]:
        def do() -> None:
            self.now += seconds
            self.done.append(name)

        return do

    def clock(self) -> float:
        return self.now


def turns(loop: Loop, bound: int = 1000) -> FairScheduler:
    return FairScheduler(loop, bound, loop.clock)


def test_a_short_request_runs_at_once_and_leaves_no_work() -> None:
    loop = Loop()
    long = turns(loop)
    for name in "abc":
        assert long.schedule(1, loop.request(name, SHARE_S / 4))
    loop.turn()

    assert (["a", "b", "c"], []) == (loop.done, loop.ready)


def test_past_its_share_of_a_turn_a_request_is_queued() -> None:
    loop = Loop()
    long = turns(loop)
    for name in "abcde":
        long.schedule(1, loop.request(name, SHARE_S * 0.6))
    done = [len(loop.done)]
    while loop.ready:
        loop.turn()
        done.append(len(loop.done))

    assert [2, 4, 5, 5] == done
    assert list("abcde") == loop.done


def test_the_longest_request_runs_and_so_do_those_behind_it() -> None:
    loop = Loop()
    long = turns(loop)
    for name in "abc":
        long.schedule(1, loop.request(name, SHARE_S * 50))
    for _ in range(3):
        loop.turn()

    assert ["a", "b", "c"] == loop.done


def test_the_queue_is_limited_in_bytes_but_takes_one_of_any_size() -> None:
    loop = Loop()
    long = turns(loop, bound=1000)
    long.schedule(1, loop.request("under way", SHARE_S * 2))
    taken = [long.schedule(size, loop.request("later", SHARE_S * 2)) for size in (5000, 1, 1)]
    loop.turn()
    taken.append(long.schedule(600, loop.request("later", 0)))
    taken.append(long.schedule(600, loop.request("later", 0)))

    assert [True, False, False, True, False] == taken


def test_none_begins_while_enough_long_pages_are_under_way() -> None:
    loop, is_full = Loop(), True
    long = FairScheduler(loop, 1000, loop.clock, is_full=lambda: is_full)
    for name in "ab":
        assert long.schedule(1, loop.request(name, 0))
    loop.turn()
    done = [*loop.done]
    is_full = False
    loop.turn()

    assert ([], ["a", "b"]) == (done, loop.done)


def test_operations_on_pages_or_several_items_are_long() -> None:
    several = {name for name in (*OPERATIONS, *STREAMS) if name.startswith(("Batch", "Execute", "Transact"))}

    assert {"GetRecords", "Query", "Scan"} | several == {name.decode().partition(".")[2] for name in LONG}
