"""How each partition comes by its Genesis, and how a topic that is not the log's is noticed.

Several nodes may find the topic empty at once. Each appends a Genesis to partition 0; the one at offset 0 names the
log, and whoever comes next completes the other partitions in its name. A second Genesis means nothing to the fold.
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
from .messages import heard

PATIENCE_POLLS: Final = 30
POLL_MS: Final = 1_000
# Of each partition; there is room for a Genesis, whatever it names.
_FETCH_BYTES: Final = 4_096


def genesis(clients: Clients, partitions: int) -> list[Genesis]:
    """The first command of each partition of a log that is there.

    Raises:
        ForeignLogError: What is there is no log, or parts of two.
        CorruptionError: The beginning is gone.
    """
    first = _first_commands(clients, range(partitions))
    return _one_log(clients, first)


def begin(
    clients: Clients, producer: KafkaProducer, partitions: int, first: Sequence[Entry]
) -> list[Genesis]:
    """The same, where partitions that are empty get their entry of `first`.

    A log that is there already keeps its name, and what it was made with.
    """
    found = _first_commands(clients, range(partitions))
    if 0 not in found and partitions != len(first):
        raise LogError(
            f"the topic {clients.address.topic} has {partitions} partitions, and a log with {len(first)} was to begin "
            "there: delete it if nobody needs it, and it is made anew"
        )
    if 0 not in found:
        _append(clients, producer, {0: first[0]})
        found |= _first_commands(clients, [0])
    if isinstance(found[0], Genesis) and found[0] != first[0].commands[0]:
        log = found[0]
        first = genesis_entries(log.log_id, log.partitions, limits=log.limits, level=log.level)
    missing = {number: entry for number, entry in enumerate(first) if number not in found}
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
        raise LogError(f"the log cannot be begun in {clients.address.topic}: {error}") from None


def _first_commands(clients: Clients, partitions: Iterable[int]) -> dict[int, object]:
    """What stands at offset 0 of those that are not empty."""
    topic = clients.address.topic
    found: dict[int, object] = {}
    places = [TopicPartition(topic, partition) for partition in partitions]
    if not places:
        return found
    with closing(clients.consumer(max_partition_fetch_bytes=_FETCH_BYTES)) as consumer:
        try:
            ends = consumer.end_offsets(places)
            waiting = {place for place in places if ends[place]}
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            for _ in range(PATIENCE_POLLS):
                consumer.pause(*(place for place in places if place not in waiting))
                if not waiting:
                    return found
                for place, messages in consumer.poll(timeout_ms=POLL_MS).items():
                    found[place.partition] = heard(messages[0]).record().entry.commands[0]
                    waiting.discard(place)
        except OffsetOutOfRangeError:
            raise CorruptionError("0:0", f"the beginning of the topic {topic} was removed") from None
        except ValueError:
            raise ForeignLogError(f"the topic {topic} holds something else than a log of foldb") from None
        except KafkaError as error:
            raise LogError(f"the topic {topic} cannot be read: {error}") from None
    raise LogError(f"no broker serves the beginning of {topic}")


def _one_log(clients: Clients, found: dict[int, object]) -> list[Genesis]:
    """The commands, if they are the beginnings of one log."""
    topic = clients.address.topic
    log = found.get(0)
    if not isinstance(log, Genesis):
        raise ForeignLogError(f"the topic {topic} holds something else than a log of foldb")
    commands: list[Genesis] = []
    for partition in range(log.partitions):
        each = found.get(partition)
        if not isinstance(each, Genesis) or (each.log_id, each.partition) != (log.log_id, partition):
            raise ForeignLogError(
                f"partition {partition} of the topic {topic} is not that of the log {log.log_id.hex()}: "
                "the topic was changed by hand"
            )
        commands.append(each)
    return commands
