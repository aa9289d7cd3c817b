"""The topic that holds the log: made with the settings that a log needs, and checked for them at every start.

A topic that forgets is no log. So what somebody set to make it forget is named and refused, unless it is let pass.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, TopicAlreadyExistsError

from ...model.errors import LogError
from .client import MESSAGE_BYTES

REPLICAS: Final = 3
_KNOWN_S: Final = 20.0
_AGAIN_S: Final = 0.05

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
    _TIME: "log time is the broker's, and the same for all",
    "unclean.leader.election.enable": "a broker that lacks acknowledged records may come to lead",
    "compression.type": "brokers would compress every batch anew",
    "max.message.bytes": "a request may have 16 MiB",
    "min.insync.replicas": "an acknowledged record must be on two brokers",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as brokers describe it.

    Attributes:
        id: What Kafka tells it from another of this name by.
        replicas: On how many brokers each record is, at the fewest.
    """

    name: str
    id: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]

    @property
    def has_log_time(self) -> bool:
        """Whether brokers give records their time. Nothing makes up for that: it is log time."""
        return self.settings[_TIME] == "LogAppendTime"

    def problems(self) -> list[str]:
        """What keeps it from being a log, each with the next step; the one that nothing makes up for first."""
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
        """What may stand, and should be known."""
        if self.replicas > 1:
            return []
        return [
            f"the topic {self.name} has one replica: when its broker's disk is lost so is the log, and what that "
            "broker had not synced yet is lost when its machine loses power. Three brokers keep three."
        ]


def find(admin: KafkaAdminClient, name: str) -> Topic | None:
    """The topic as it is, if there is one.

    Raises:
        LogError: There is one, and its settings are not told.
    """
    until = time.monotonic() + _KNOWN_S
    while True:
        [description] = admin.describe_topics([name])
        if description["error_code"] or not description["partitions"]:
            return None
        settings = _settings(admin, name)
        if _WHY.keys() <= settings.keys():
            break
        # Not every broker knows a new topic at once, and each question may go to another.
        if time.monotonic() > until:
            raise LogError(
                f"Kafka has the topic {name}, and does not tell its settings: whom foldb connects as must be allowed "
                "DescribeConfigs on it"
            )
        time.sleep(_AGAIN_S)
    return Topic(
        name,
        str(description["topic_id"]),
        len(description["partitions"]),
        min(len(partition["replica_nodes"]) for partition in description["partitions"]),
        {setting: settings[setting] for setting in _WHY},
    )


def _settings(admin: KafkaAdminClient, name: str) -> dict[str, str]:
    """What the broker that is asked tells; nothing where it refuses, as the library (3.0.12) drops its error."""
    told = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    [settings] = [settings for topics in told.values() for settings in topics.values()]
    return {setting: str(about["value"]) for setting, about in settings.items()}


def create(admin: KafkaAdminClient, name: str, partitions: int) -> Topic:
    """Make the topic, with as many replicas as there are brokers and at most three; another may be quicker.

    Raises:
        LogError: The brokers refused, or do not come to know it.
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
        raise LogError(f"Kafka did not make the topic {name}: {error}") from None
    admin.wait_for_topics([name], timeout_ms=round(_KNOWN_S * 1000))
    until = time.monotonic() + _KNOWN_S
    while (found := find(admin, name)) is None:  # not every broker knows it at once, and any may be asked
        if time.monotonic() > until:
            raise LogError(f"Kafka made the topic {name}, and does not find it")
        time.sleep(_AGAIN_S)
    return found
