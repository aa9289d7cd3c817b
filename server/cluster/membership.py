"""Who is there: a consumer group of the broker, joined by a thread of its own.

    this node ──► its address and what it has folded ──► the group ──► its leader assigns ──► the routing table

The broker notices who is gone, chooses a leader among the members and hands its decision to all. The group is given
no partition to consume: what a node is to do stands in the data that goes with the assignment, so the consumer never
fetches. A node that is out of the group, or cannot reach it, goes on by the table that it had last.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kafka.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.errors import KafkaError

from ...model.errors import LogError
from .assignment import assign
from .link import Address
from .routes import Member, Table, decode_member, decode_table, encode_member, encode_table
from .wire import WireError

logger = logging.getLogger(__name__)

_FORMAT: Final = 0  # of Kafka's own consumer protocol
_POLL_MS: Final = 200
_PAUSE_S: Final = 0.2


class Assignor(AbstractPartitionAssignor):  # type: ignore[misc]  # untyped
    """What this node tells the group, what it decides as its leader, and what it is told."""

    name = "foldb"
    version = _FORMAT

    def __init__(self, partitions: int, tell: Callable[[], bytes], told: Callable[[Table], None]) -> None:
        self._partitions = partitions
        self._tell = tell
        self._told = told

    def metadata(self, topics: Any) -> ConsumerProtocolSubscription:
        """What this node says of itself, asked for whenever it joins."""
        return ConsumerProtocolSubscription(_FORMAT, list(topics), self._tell())

    def assign(self, cluster: Any, members: Any) -> dict[str, ConsumerProtocolAssignment]:  # noqa: ARG002
        """Decide for all. The topic's metadata are not looked at: at a start they may not be there yet."""
        told = encode_table(assign(_read(members), self._partitions))
        return {member.member_id: ConsumerProtocolAssignment(_FORMAT, [], told) for member in members}

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """The group's decision."""
        try:
            self._told(decode_table(bytes(assignment.user_data), generation))
        except WireError as error:
            logger.error("the group's decision cannot be read: %s", error)


def _read(members: Any) -> list[Member]:
    """Those whose word can be read; who says something else cannot be given anything to do."""
    read = []
    for member in members:
        try:
            read.append(decode_member(member.member_id, bytes(member.metadata.user_data)))
        except WireError as error:
            logger.error("a member of the group cannot be understood: %s", error)
    return read


class Membership:
    """This node's place in the group.

    Args:
        consumer: Makes a consumer of the brokers with these settings besides those of the connection.
        topic: The log's.
        group: The name of the group.
        partitions: How many the log has.
        address: Where other nodes call this one.
        folded: The partitions that this node acts for, and those that it has folded. Called on the thread.
        told: Given each new table, on the thread.
        session_timeout_ms: How long a node may be silent before others take over what it has.
    """

    def __init__(
        self,
        consumer: Callable[..., Any],
        topic: str,
        group: str,
        partitions: int,
        address: Address,
        *,
        folded: Callable[[], tuple[list[int], list[int]]],
        told: Callable[[Table], None],
        session_timeout_ms: int,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        assignor = Assignor(partitions, lambda: encode_member(address, *folded()), told)
        self._options: dict[str, Any] = {
            "group_id": group,
            "partition_assignment_strategy": [assignor],
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": min(500, session_timeout_ms // 3),
            "max_poll_interval_ms": max(2 * session_timeout_ms, 10_000),
        }
        self._stopped = threading.Event()
        self._rejoin = threading.Event()
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> None:
        """Join."""
        self._thread.start()

    def join_again(self) -> None:
        """Have the group decide again: what this node has folded has changed."""
        self._rejoin.set()

    def leave(self) -> None:
        """Tell the group that this node goes. Returns before it is done; `close` waits for that."""
        self._stopped.set()

    def close(self, patience_s: float) -> None:
        """Leave, and wait until that is done or has taken too long."""
        self._stopped.set()
        self._thread.join(patience_s)

    def _run(self) -> None:
        """Stay in the group, and join it again after whatever the broker says of it."""
        while not self._stopped.is_set():
            try:
                consumer = self._consumer(**self._options)
            except (KafkaError, LogError) as error:
                logger.warning("the group cannot be reached: %s", error)
                self._stopped.wait(_PAUSE_S)
                continue
            try:
                consumer.subscribe([self._topic])
                while not self._stopped.is_set():
                    if self._rejoin.is_set():
                        self._rejoin.clear()
                        consumer._coordinator.request_rejoin()
                    consumer.poll(timeout_ms=_POLL_MS)
            except Exception as error:
                logger.warning("the group was lost, and is joined again: %s", error)
                self._stopped.wait(_PAUSE_S)
            finally:
                self._close(consumer)

    def _close(self, consumer: Any) -> None:
        try:
            consumer.close(autocommit=False, timeout_ms=2000)
        except Exception as error:
            logger.warning("the group was left without a word: %s", error)
