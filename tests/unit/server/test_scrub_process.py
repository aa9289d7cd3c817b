"""Scrubs of a server: their start, and a scrub that fails."""

import sys
from pathlib import Path
from typing import Any

import pytest

from foldb.server.partitions.scrub_process import ScrubProcess
from tests.support.subscribed import until
from tests.unit.materializer.fake_loop import FakeLoop

HOUR_MS = 3_600_000


def scrubbing(folder: Path, loop: FakeLoop, every_ms: int) -> ScrubProcess:
    return ScrubProcess(
        folder,
        [],
        every_ms=every_ms,
        rate=1 << 20,
        maker=None,
        mend=lambda: None,
        clock=loop.clock,
        scheduler=loop,
        deliver=loop.call_soon_threadsafe,
    )


@pytest.mark.parametrize(("every_ms", "first_s"), [(24 * HOUR_MS, 600), (60_000, 60)])
def test_the_first_scrub_begins_ten_minutes_after_the_start(
    every_ms: int, first_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or earlier, where they are made more often: a server that is restarted daily is scrubbed too."""
    begun = list[int]()
    monkeypatch.setattr(ScrubProcess, "_begin", lambda _: begun.append(1))
    loop = FakeLoop()
    scrubbing(tmp_path, loop, every_ms)

    loop.advance(first_s - 1)
    assert [] == begun
    loop.advance(1)
    assert [1] == begun


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/python"])
def test_a_scrub_that_fails_is_reported_and_the_next_begins(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    loop = FakeLoop()
    each = scrubbing(tmp_path, loop, 60_000)
    for count in (1, 2):
        loop.advance(60)
        until(lambda: settled(loop, caplog, count))  # noqa: B023  it is called here

    assert all("a scrub failed" in message for message in caplog.messages)
    assert 0 == each.finished_ms
    each.close()


def settled(loop: FakeLoop, caplog: Any, count: int) -> bool:
    """Whether that number of failures was reported."""
    loop.settle()
    return len(caplog.messages) == count


def test_no_scrub_begins_after_the_server_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[int]()
    monkeypatch.setattr(ScrubProcess, "_begin", lambda _: begun.append(1))
    loop = FakeLoop()
    each = scrubbing(tmp_path, loop, 60_000)
    each.close()
    loop.advance(1000)

    assert [] == begun
