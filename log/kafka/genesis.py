"""Write each partition's Genesis, and detect a topic that does not hold the log.

Several nodes may find the topic empty at the same time. Each appends a Genesis to partition 0. The one at offset 0
names the log, and the next node completes the other partitions with that name. The fold ignores a second Genesis.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from ...model.errors import CorruptionError, ForeignLogError, LogError
from ..codec import encode_message
from ..commands import Entry, Genesis
from ..log import genesis_entries
from .client import Clients
from .messages import raw_record

MAX_POLLS: Final = 30
POLL_MS: Final = 1_000
# Bytes fetched of each partition: enough for any Genesis.
_FETCH_BYTES: Final = 4_096


def genesis(clients: Clients, partitions: int) -> list[Genesis]:
    """Return the first command of each partition of an existing log.

    Raises:
        ForeignLogError: The topic holds no log, or parts of two logs.
        CorruptionError: The beginning of the topic was removed.
    """
    first = _first_commands(clients, range(partitions))
    return _one_log(clients, first)


def begin(
    clients: Clients, producer: KafkaProducer, partitions: int, first: Sequence[Entry]
) -> list[Genesis]:
    """Append the missing entries of `first` to empty partitions, and return the first command of each partition.

    A log that exists already keeps its id, its limits and its level.
    """
    found = _first_commands(clients, range(partitions))
    if 0 not in found and partitions != len(first):
        raise LogError(
            f"the empty topic {clients.address.topic} has {partitions} partitions, and the new log has {len(first)}: "
            "delete the topic if it is not used, and foldb creates it"
        )
    if 0 not in found:
        _append(clients, producer, {0: first[0]})
        found |= _first_commands(clients, [0])
    if isinstance(found[0], Genesis) and found[0] != first[0].commands[0]:
        log = found[0]
        first = genesis_entries(log.log_id, log.partitions, limits=log.limits, level=log.level)
    missing = {partition: entry for partition, entry in enumerate(first) if partition not in found}
    _append(clients, producer, missing)
    return _one_log(clients, found | _first_commands(clients, missing))


def _append(clients: Clients, producer: KafkaProducer, entries: dict[int, Entry]) -> None:
    try:
        for future in [
            producer.send(clients.address.topic, encode_message(entry), partition=partition)
            for partition, entry in entries.items()
        ]:
            future.get(timeout=30)
    except KafkaError as error:
        raise LogError(
            f"cannot write the first records to the topic {clients.address.topic}: {error}"
        ) from None


def _first_commands(clients: Clients, partitions: Iterable[int]) -> dict[int, object]:
    """Return the command at offset 0 of each partition that is not empty."""
    topic = clients.address.topic
    found: dict[int, object] = {}
    assigned = [TopicPartition(topic, partition) for partition in partitions]
    if not assigned:
        return found
    with closing(clients.consumer(max_partition_fetch_bytes=_FETCH_BYTES)) as consumer:
        try:
            ends = consumer.end_offsets(assigned)
            waiting = {each for each in assigned if ends[each]}
            consumer.assign(assigned)
            for each in assigned:
                consumer.seek(each, 0)
            for _ in range(MAX_POLLS):
                consumer.pause(*(each for each in assigned if each not in waiting))
                if not waiting:
                    return found
                for topic_partition, messages in consumer.poll(timeout_ms=POLL_MS).items():
                    found[topic_partition.partition] = raw_record(messages[0]).record().entry.commands[0]
                    waiting.discard(topic_partition)
        except OffsetOutOfRangeError:
            raise CorruptionError("0:0", f"the beginning of the topic {topic} was removed") from None
        except ValueError:
            raise ForeignLogError(f"the topic {topic} does not hold a log of foldb") from None
        except KafkaError as error:
            raise LogError(f"cannot read the topic {topic}: {error}") from None
    raise LogError(f"no broker serves the beginning of the topic {topic}")


def _one_log(clients: Clients, found: dict[int, object]) -> list[Genesis]:
    """Return the first command of each partition, after checking that they belong to one log."""
    topic = clients.address.topic
    log = found.get(0)
    if not isinstance(log, Genesis):
        raise ForeignLogError(f"the topic {topic} does not hold a log of foldb")
    commands: list[Genesis] = []
    for partition in range(log.partitions):
        each = found.get(partition)
        if not isinstance(each, Genesis) or (each.log_id, each.partition) != (log.log_id, partition):
            raise ForeignLogError(
                f"partition {partition} of the topic {topic} does not belong to the log {log.log_id.hex()}: "
                "the topic was changed by hand"
            )
        commands.append(each)
    return commands
