"""An entry whose acknowledgement is lost: it is in the log once, or a second copy means nothing."""

import asyncio
import os
import random
import threading
import uuid
from contextlib import closing
from typing import Any

import pytest

from foldb.log.kafka import KafkaLog, client, producer
from foldb.log.kafka.producer import AppendProducer
from foldb.log.log import Appended
from tests.behaviour.kafka.counting import Node, Told, check, copies, count
from tests.behaviour.kafka.proxy import led_through, sometimes
from tests.unit.contracts.log_contract import Loop, entry


def anywhere(kafka: str) -> str:
    return f"kafka://{kafka}/t-{uuid.uuid4().hex[:12]}"


@pytest.mark.guarantee("G27")
@pytest.mark.parametrize("seed", range(2))
def test_a_connection_cut_after_a_send_loses_no_entry(
    kafka: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The client repeats the batch under its number, and the broker drops the second copy."""

    async def run() -> None:
        with led_through(monkeypatch, kafka, sometimes(random.Random(seed), "cut", 0.05)) as proxy:
            node, reported = await Node.start(anywhere(kafka)), Told()
            await node.create_table()
            await count(node, reported, until=lambda: proxy.lost > 5)
            await node.folded()
            assert not reported.unknown
            assert not node.fatal
            check(node, reported)
            assert 0 == copies(node.log)
            node.log.close()

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(2))
def test_a_worker_continues_when_it_receives_its_entry(
    kafka: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Responses are lost: the worker receives the entry nevertheless, and reports no unknown result."""
    monkeypatch.setattr(client, "REQUEST_TIMEOUT_MS", 300)

    async def run() -> None:
        with led_through(monkeypatch, kafka, sometimes(random.Random(seed), "swallow", 0.1)) as proxy:
            node, reported = await Node.start(anywhere(kafka)), Told()
            await node.create_table()
            await count(node, reported, until=lambda: proxy.lost > 2)
            await node.folded()
            assert not reported.unknown
            assert not node.fatal
            check(node, reported)
            node.log.close()

    asyncio.run(run())


@pytest.mark.guarantee("G27")
def test_an_append_dropped_by_the_client_is_repeated(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Answers that never come, for longer than the timeout of the client, and no reader of the log: the entry is sent
    by another producer. The broker cannot know that for a copy; the fold does, by origin and number.
    """
    monkeypatch.setattr(client, "REQUEST_TIMEOUT_MS", 300)
    monkeypatch.setattr(producer, "ACK_TIMEOUT_SECONDS", 0.4)
    loop, answers = Loop(), ["", "swallow", "swallow", "", "swallow", "swallow", "swallow"]

    with led_through(monkeypatch, kafka, lambda: answers.pop(0) if answers else ""):
        log = KafkaLog(anywhere(kafka), deliver=loop.deliver, random_bytes=os.urandom)
        reported: list[Any] = []
        for number in range(4):
            log.append(0, entry(number), reported.append)
            loop.turn(until=lambda number=number: len(reported) > number)  # type: ignore[misc]
        records = list(log.read(0, start=1))
        log.close()

    assert [] == answers, "every answer was lost that was to be"
    assert [0, 1, 2, 3] == list(dict.fromkeys(record.entry.entry_number for record in records))
    assert len(records) > 4
    standing = {record.offset: record.entry.entry_number for record in records}
    assert [0, 1, 2, 3] == [standing[each.offset] for each in reported]


def test_an_append_that_is_not_sent_yet_is_not_late(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watching thread sees an append as soon as it is pending."""
    looked, is_late, send = threading.Event(), AppendProducer._is_late, AppendProducer._send

    def look(log: AppendProducer) -> bool:
        late = is_late(log)
        looked.set()
        return late

    def send_slowly(log: AppendProducer, append: Any) -> None:
        for _ in range(2):  # the first look may have begun before
            looked.clear()
            assert looked.wait(20)
        send(log, append)

    monkeypatch.setattr(AppendProducer, "_is_late", look)
    monkeypatch.setattr(AppendProducer, "_send", send_slowly)
    monkeypatch.setattr(producer, "WATCH_SECONDS", 0.001)
    loop, reported = Loop(), list[Any]()
    with closing(
        KafkaLog(anywhere(kafka), deliver=loop.deliver, random_bytes=os.urandom, repeat=False)
    ) as log:
        log.append(0, entry(0), reported.append)
        loop.turn(until=lambda: bool(reported))

    assert [Appended] == [type(each) for each in reported]
