"""The topic that holds the log: created with the settings that a log needs, and checked at every start.

A setting that removes or reorders records is refused by name, unless the operator allows it.
"""

import time
from collections.abc import Mapping
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError

from ...model.errors import LogError
from ...model.lazy_dataclass import dataclass
from .client import MESSAGE_BYTES

REPLICAS: Final = 3
_METADATA_TIMEOUT_S: Final = 20.0
_RETRY_S: Final = 0.05

_TIME: Final = "message.timestamp.type"
_SETTINGS: Final = {
    _TIME: "LogAppendTime",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
}
_WHY: Final = {
    "cleanup.policy": "compaction removes records",
    "retention.ms": "records are removed when they are old",
    "retention.bytes": "records are removed when there are many",
    _TIME: "log time must be the broker's time",
    "unclean.leader.election.enable": "a broker that lacks acknowledged records may become leader",
    "compression.type": "brokers would compress every batch again",
    "max.message.bytes": "a request may have 16 MiB",
    "min.insync.replicas": "an acknowledged record must be on two brokers",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """The brokers' description of a topic.

    Attributes:
        id: Kafka's id, which differs if the topic is deleted and created again.
        replicas: The lowest number of replicas of a partition.
    """

    name: str
    id: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]

    @property
    def has_log_time(self) -> bool:
        """Whether brokers set the timestamp of records, which is log time. A log cannot work without it."""
        return self.settings[_TIME] == "LogAppendTime"

    def problems(self) -> list[str]:
        """Return the settings that are unsafe for a log, each with its remedy, the timestamp type first."""
        wanted = dict(_SETTINGS)
        if self.replicas >= REPLICAS:
            wanted["min.insync.replicas"] = "2"
        wrong = [name for name, value in wanted.items() if self._is_less(name, value)]
        if int(self.settings["max.message.bytes"]) < MESSAGE_BYTES:
            wrong.append("max.message.bytes")
            wanted["max.message.bytes"] = str(MESSAGE_BYTES)
        return [
            f"the topic {self.name} has {name}={self.settings[name]}, and {_WHY[name]}: set it to {wanted[name]} "
            f"(kafka-configs.sh --alter --topic {self.name} --add-config {name}={wanted[name]})"
            for name in wrong
        ]

    def _is_less(self, name: str, wanted: str) -> bool:
        value = self.settings[name]
        return int(value) < int(wanted) if name == "min.insync.replicas" else value != wanted

    def warnings(self) -> list[str]:
        """Return the settings that are accepted with a warning."""
        if self.replicas > 1:
            return []
        return [
            f"the topic {self.name} has one replica: the log is lost with its broker's disk, and records that the "
            "broker has not synced yet are lost when its machine loses power. Use three brokers for three replicas."
        ]


def find(admin: KafkaAdminClient, name: str) -> Topic | None:
    """Return the current description of a topic, or None if it does not exist.

    Raises:
        LogError: The brokers refuse to describe the topic's settings.
    """
    until = time.monotonic() + _METADATA_TIMEOUT_S
    while True:
        [description] = admin.describe_topics([name])
        if description["error_code"] or not description["partitions"]:
            return None
        settings = _settings(admin, name)
        if _WHY.keys() <= settings.keys():
            break
        # A new topic reaches the brokers one after the other, and each request may go to another broker.
        if time.monotonic() > until:
            raise LogError(
                f"cannot read the settings of the Kafka topic {name}: allow foldb's Kafka user DescribeConfigs on it"
            )
        time.sleep(_RETRY_S)
    return Topic(
        name,
        str(description["topic_id"]),
        len(description["partitions"]),
        min(len(partition["replica_nodes"]) for partition in description["partitions"]),
        {setting: settings[setting] for setting in _WHY},
    )


def _settings(admin: KafkaAdminClient, name: str) -> dict[str, str]:
    """Return the topic's settings. They are empty if the broker refuses: the library (3.0.12) drops its error."""
    response = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    [settings] = [settings for topics in response.values() for settings in topics.values()]
    return {setting: str(attributes["value"]) for setting, attributes in settings.items()}


def create(admin: KafkaAdminClient, name: str, partitions: int) -> Topic:
    """Create the topic with one replica for each broker, at most three. Another node may create it first.

    Raises:
        LogError: The brokers refused the topic, or do not report it in time.
    """
    replicas = min(REPLICAS, len(admin.describe_cluster()["brokers"]))
    settings = {
        **_SETTINGS,
        "max.message.bytes": str(MESSAGE_BYTES),
        "min.insync.replicas": "2" if replicas >= REPLICAS else "1",
    }
    options = {"num_partitions": partitions, "replication_factor": replicas, "configs": settings}
    try:
        admin.create_topics({name: options}, timeout_ms=20_000)
    except TopicAlreadyExistsError:
        pass
    except KafkaError as error:
        raise LogError(f"Kafka did not create the topic {name}: {error}") from None
    admin.wait_for_topics([name], timeout_ms=round(_METADATA_TIMEOUT_S * 1000))
    until = time.monotonic() + _METADATA_TIMEOUT_S
    while (found := find(admin, name)) is None:  # a new topic reaches the brokers one after the other
        if time.monotonic() > until:
            raise LogError(f"Kafka created the topic {name}, but does not describe it: start foldb again")
        time.sleep(_RETRY_S)
    return found
