"""A topic that is not fit for the log, or not the log's, is noticed: at the start, or where it is read."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foldb.log.kafka import Clients, KafkaAddress, KafkaLog, Security, topic
from foldb.model.errors import CorruptionError, ForeignLogError, LogError
from tests.behaviour.kafka.counting import Node, Told, count
from tests.behaviour.kafka.test_contract import anywhere, open_log
from tests.unit.contracts.log_contract import Loop, entry
from tests.unit.contracts.shared_log_contract import Ear

FIT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": "20971520",
    "message.timestamp.type": "LogAppendTime",
}


@pytest.fixture
def url(kafka: str) -> str:
    return anywhere(kafka)


@pytest.fixture
def admin(url: str) -> Iterator[Any]:
    with closing(clients_of(url).admin()) as client:
        yield client


def clients_of(url: str) -> Clients:
    return Clients(KafkaAddress.of(url), Security())


def topic_of(url: str) -> str:
    return KafkaAddress.of(url).topic


def make_topic(admin: Any, url: str, settings: dict[str, str], partitions: int = 1) -> None:
    """Create a topic with the default settings of another tool."""
    options = {"num_partitions": partitions, "replication_factor": 1, "configs": settings}
    admin.create_topics({topic_of(url): options})
    admin.wait_for_topics([topic_of(url)])


def produce(url: str, *values: bytes, **configuration: Any) -> None:
    """Write to the topic like another program."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=list(KafkaAddress.of(url).servers), **configuration)
    with closing(producer):
        if "transactional_id" in configuration:
            producer.init_transactions()
            producer.begin_transaction()
        for value in values:
            producer.send(topic_of(url), value, partition=0)
        if "transactional_id" in configuration:
            producer.commit_transaction()


def wait_for_end(url: str, end: int) -> None:
    """Wait until the next offset of the topic is `end`."""
    from kafka import TopicPartition

    partition = TopicPartition(topic_of(url), 0)
    with closing(clients_of(url).consumer()) as consumer:
        while consumer.end_offsets([partition])[partition] < end:
            pass


def appended(loop: Loop, log: KafkaLog, count: int) -> None:
    results: list[Any] = []
    for number in range(count):
        log.append(0, entry(number), results.append)
    loop.turn(until=lambda: len(results) == count)


def test_a_topic_created_by_foldb_has_only_the_replica_warning(url: str) -> None:
    with closing(open_log(url, Loop(), partitions=3)) as log:
        [said] = log.problems()

    assert "one replica" in said


@pytest.mark.guarantee("G28")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000000"),
        ("max.message.bytes", "1048588"),
        ("unclean.leader.election.enable", "true"),
        ("compression.type", "gzip"),
    ],
)
def test_a_topic_that_removes_records_is_refused_by_setting(
    url: str, admin: Any, name: str, value: str
) -> None:
    make_topic(admin, url, FIT | {name: value})

    with pytest.raises(LogError, match=f"has {name}={value}.*--add-config {name}="):
        open_log(url, Loop())
    if name != "cleanup.policy":
        open_log(url, Loop(), allow_unsafe=True).close()


def test_the_brokers_timestamp_is_required_in_any_case(url: str, admin: Any) -> None:
    make_topic(admin, url, FIT | {"message.timestamp.type": "CreateTime"})

    with pytest.raises(LogError, match=r"message\.timestamp\.type=CreateTime"):
        open_log(url, Loop(), allow_unsafe=True)


def test_a_new_log_needs_a_topic_with_its_number_of_partitions(url: str, admin: Any) -> None:
    with closing(open_log(url, Loop(), partitions=3)):
        pass
    admin.delete_topics([topic_of(url)])
    make_topic(admin, url, FIT, partitions=2)

    with pytest.raises(LogError, match="has 2 partitions, and the new log has 3"):
        open_log(url, Loop(), partitions=3)


def test_partitions_added_to_a_topic_are_not_used_and_reported(
    url: str, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    open_log(url, Loop(), partitions=2).close()
    admin.create_partitions({topic_of(url): 5})

    with closing(open_log(url, Loop(), partitions=2)) as log:
        assert 2 == log.partitions
        assert "5 partitions and the log 2" in caplog.text
        assert any("5 partitions and the log 2" in said for said in log.problems())


def test_one_of_several_nodes_creates_the_log_in_an_empty_topic(url: str) -> None:
    logs: list[KafkaLog] = []
    threads = [
        threading.Thread(target=lambda: logs.append(open_log(url, Loop(), partitions=4))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 4 == len(logs)
    assert 1 == len({log.log_id for log in logs})
    assert all(log.genesis(3).log_id == logs[0].log_id for log in logs)
    for log in logs:
        log.close()


class Behind:
    """Asks about settings somebody who does not know the topic, some times first: a broker's own answer to that."""

    def __init__(self, admin: Any, times: int) -> None:
        self._admin = admin
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    def describe_configs(self, resources: list[Any], **options: Any) -> Any:
        from kafka.admin import ConfigResource

        self._times -= 1
        if self._times >= 0:
            resources = [ConfigResource(one.resource_type, f"{one.name}-of-nobody") for one in resources]
        return self._admin.describe_configs(resources, **options)


def test_incomplete_settings_of_a_new_topic_are_fetched_again(url: str, admin: Any) -> None:
    found = topic.create(Behind(admin, 2), topic_of(url), 1)

    assert [] == found.problems()


def test_a_topic_without_readable_settings_is_refused(
    url: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(admin, url, FIT)
    monkeypatch.setattr(topic, "_METADATA_TIMEOUT_S", 0)

    with pytest.raises(LogError, match=f"{topic_of(url)}.*allow .* DescribeConfigs"):
        topic.find(Behind(admin, 1000), topic_of(url))


def test_a_brokers_refusal_at_the_start_is_one_sentence(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka import KafkaAdminClient
    from kafka.errors import NodeNotReadyError

    def refuse(*_: Any) -> None:
        raise NodeNotReadyError

    monkeypatch.setattr(KafkaAdminClient, "describe_topics", refuse)

    with pytest.raises(LogError, match=r"cannot reach Kafka at .*NodeNotReadyError"):
        open_log(url, Loop())


def test_a_reader_does_not_create_a_missing_log(url: str) -> None:
    with pytest.raises(LogError, match="there is no topic"):
        KafkaLog.open_reader(url)
    with pytest.raises(LogError, match="there is no topic"):
        open_log(url, Loop(), create=False)


def test_a_reader_reads_beside_the_writer(url: str) -> None:
    loop = Loop()
    with closing(open_log(url, loop)) as log, closing(KafkaLog.open_reader(url)) as reader:
        appended(loop, log, 3)
        assert list(log.read(0)) == list(reader.read(0))
        assert (log.log_id, log.end(0)) == (reader.log_id, reader.end(0))
        assert log.hash_of(0, 3) == reader.hash_of(0, 3) != reader.hash_of(0, 2)


def test_a_process_ends_although_it_has_not_read_to_the_end(url: str) -> None:
    """As the process of the histories does whose server was killed."""
    program = (
        "import sys; from foldb.log.kafka import KafkaLog; "
        "records = KafkaLog.open_reader(sys.argv[1]).read(0); print(next(records).offset)"
    )
    loop = Loop()
    with closing(open_log(url, loop)) as log:
        appended(loop, log, 3)

    ended = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, timeout=30)

    assert (0, "0\n") == (ended.returncode, ended.stdout)


@pytest.mark.guarantee("G28")
def test_a_recreated_topic_is_not_taken_for_the_old_log(url: str, admin: Any, tmp_path: Path) -> None:
    open_log(url, Loop(), identity_folder=tmp_path).close()
    admin.delete_topics([topic_of(url)])

    with pytest.raises(ForeignLogError, match="created again"):
        open_log(url, Loop(), identity_folder=tmp_path)


@pytest.mark.guarantee("G28")
def test_a_log_that_lost_its_end_is_not_taken_for_whole(url: str, tmp_path: Path) -> None:
    with closing(open_log(url, Loop(), identity_folder=tmp_path)):
        pass
    kept = (tmp_path / "kafka.json").read_text()
    (tmp_path / "kafka.json").write_text(kept.replace("[1]", "[7]"))

    with pytest.raises(CorruptionError, match="ended at 7 and now ends at 1"):
        open_log(url, Loop(), identity_folder=tmp_path)


def test_a_worker_stops_when_its_topic_is_recreated(url: str, admin: Any) -> None:
    async def run() -> None:
        node, reported = await Node.start(url), Told()
        await node.create_table()
        await count(node, reported, until=lambda: reported.total > 500)
        await asyncio.get_running_loop().run_in_executor(None, admin.delete_topics, [topic_of(url)])
        with closing(await asyncio.get_running_loop().run_in_executor(None, open_log, url, Loop())):
            await count(node, reported, until=lambda: bool(node.fatal))
        assert isinstance(node.fatal[0], CorruptionError)
        node.log.close()

    asyncio.run(run())


@pytest.mark.guarantee("G28")
def test_records_removed_by_retention_are_an_error(url: str, admin: Any) -> None:
    from kafka import TopicPartition

    loop = Loop()
    with closing(open_log(url, loop)) as log:
        appended(loop, log, 10)
        admin.delete_records({TopicPartition(topic_of(url), 0): 5})

        with pytest.raises(CorruptionError, match="0:2"):
            list(log.read(0, start=2))
        assert 6 == len(list(log.read(0, start=5)))
        ear = Ear(log, start=2)
        loop.turn(until=lambda: bool(ear.failures))
        assert [] == ear.received
        assert "0:2" in str(ear.failures[0])
    with pytest.raises(CorruptionError, match="beginning of the topic"):
        open_log(url, Loop())


def test_a_position_after_the_end_is_an_error(url: str) -> None:
    loop = Loop()
    with closing(open_log(url, loop)) as log:
        ear = Ear(log, start=1000)
        loop.turn(until=lambda: bool(ear.failures))

    assert isinstance(ear.failures[0], CorruptionError)


@pytest.mark.parametrize("value", [b"", b"hello, is this the orders topic?", b"\xc3\x01short"])
def test_a_foreign_message_is_reported_by_position(url: str, value: bytes) -> None:
    loop = Loop()
    with closing(open_log(url, loop)) as log:
        appended(loop, log, 2)
        produce(url, value)

        ear = Ear(log)
        loop.turn(until=lambda: bool(ear.failures))
        assert [0, 1, 2] == ear.offsets
        assert "0:3: not an entry" in str(ear.failures[0])
        with pytest.raises(CorruptionError, match="0:3"):
            list(log.read(0))


def test_a_topic_that_holds_something_else_is_refused(url: str) -> None:
    open_log(url, Loop()).close()
    other = f"{url}-other"
    with closing(clients_of(other).admin()) as admin:
        make_topic(admin, other, FIT)
    produce(other, b"hello")

    with pytest.raises(CorruptionError, match="not an entry"):
        open_log(other, Loop())


def test_a_gap_in_the_offsets_is_a_gap_in_the_log(url: str) -> None:
    """Kafka's transactions write control records to the topic, which no consumer returns: the gap must be an error."""
    loop = Loop()
    with closing(open_log(url, loop)) as log:
        appended(loop, log, 1)
        from foldb.log.codec import encode_message

        produce(url, encode_message(entry(1)), transactional_id=os.urandom(4).hex())
        wait_for_end(url, 4)  # the broker writes the control record after it has answered
        produce(url, encode_message(entry(2)))

        ear = Ear(log)
        loop.turn(until=lambda: bool(ear.failures))
        assert [0, 1, 2] == ear.offsets
        assert "0:3: missing in the topic" in str(ear.failures[0])


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_unreachable_broker_is_an_error_of_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from foldb.log.kafka import client

    monkeypatch.setattr(client, "BOOTSTRAP_TIMEOUT_MS", 200)
    with pytest.raises(LogError, match=r"cannot reach Kafka at 127\.0\.0\.1:1 .*compose/kafka-local start"):
        open_log("kafka://127.0.0.1:1/x", Loop())
    gc.collect()  # kafka-python leaves the socket of a connection that was not made to the collector
