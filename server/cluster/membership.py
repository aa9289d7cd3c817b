"""The membership in a consumer group of the broker, kept by a thread of its own.

    this node ──► its address and its folded partitions ──► the group ──► its leader assigns ──► the routing table

The broker detects failed members, elects a leader among the others and sends its decision to all. The group has no
partition of the topic to consume: the routing table is in the user data of the assignment, and the consumer never
fetches. A node that is out of the group, or cannot reach the broker, continues with its last table.
"""

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from kafka.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.errors import CoordinatorNotAvailableError, KafkaError

from ...model.errors import LogError
from .assignment import assign
from .link import PeerAddress
from .routes import Member, RoutingTable, decode_member, decode_table, encode_member, encode_table
from .wire import WireError

logger = logging.getLogger(__name__)

_FORMAT: Final = 0  # of Kafka's own consumer protocol
_ASSIGNING: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
)  # states in which a broker returns no metadata
_POLL_MS: Final = 200
_RETRY_S: Final = 0.2


class Assignor(AbstractPartitionAssignor):  # type: ignore[misc]  # untyped
    """Describes this node to the group, assigns partitions if it is the leader, and receives the routing table."""

    name = "foldb"
    version = _FORMAT

    def __init__(
        self, partitions: int, describe: Callable[[], bytes], on_table: Callable[[RoutingTable], None]
    ) -> None:
        self._partitions = partitions
        self._describe = describe
        self._on_table = on_table

    def metadata(self, topics: Any) -> ConsumerProtocolSubscription:
        """Return this node's description. The client calls it at every join."""
        return ConsumerProtocolSubscription(_FORMAT, list(topics), self._describe())

    def assign(self, cluster: Any, members: Any) -> dict[str, ConsumerProtocolAssignment]:  # noqa: ARG002
        """Assign for all members. The topic's metadata are not used: at a start they may be missing."""
        table = encode_table(assign(_decoded(members), self._partitions))
        return {member.member_id: ConsumerProtocolAssignment(_FORMAT, [], table) for member in members}

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Receive the leader's decision."""
        try:
            self._on_table(decode_table(bytes(assignment.user_data), generation))
        except WireError as error:
            logger.error("cannot read the routing table of the group: %s; the last one stays in use", error)


def _decoded(members: Any) -> list[Member]:
    """Return the members of this release. Others are assigned nothing."""
    decoded = []
    for member in members:
        try:
            decoded.append(decode_member(member.member_id, bytes(member.metadata.user_data)))
        except WireError as error:
            logger.error("cannot read a member of the group: %s; it is assigned nothing", error)
    return decoded


def addresses_of_members(admin: Any, group: str) -> list[PeerAddress] | None:
    """Return where the members of a group are called; None while it assigns or has no coordinator. Blocks.

    Raises:
        KafkaError: No broker answers.
    """

    async def describe() -> Any:
        # The public `describe_groups` (3.0.12) returns user data as text, in which bytes are lost.
        [coordinator] = (await admin._find_coordinator_ids([group])).values()
        request = admin._describe_groups_request([group])
        return await admin._manager.send(request, node_id=coordinator)

    try:
        [described] = admin._manager.run(describe).groups
    except CoordinatorNotAvailableError:
        return None
    if described.group_state in _ASSIGNING:
        return None
    members = [
        SimpleNamespace(
            member_id=each.member_id, metadata=ConsumerProtocolSubscription.decode(each.member_metadata)
        )
        for each in described.members
    ]
    return [member.address for member in _decoded(members)]


class Membership:
    """This node's membership in the group.

    Args:
        consumer: Makes a consumer of the brokers with these settings and those of the connection.
        topic: The topic of the log.
        group: The name of the group.
        partitions: The number of partitions of the log.
        address: Where other nodes call this one.
        folded: Returns the partitions that this node acts for, and those that it has folded. Called on the thread.
        on_table: Receives each new routing table, on the thread.
        session_timeout_ms: The silence after which other nodes take over this one's partitions.
    """

    def __init__(
        self,
        consumer: Callable[..., Any],
        topic: str,
        group: str,
        partitions: int,
        address: PeerAddress,
        *,
        folded: Callable[[], tuple[list[int], list[int]]],
        on_table: Callable[[RoutingTable], None],
        session_timeout_ms: int,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        assignor = Assignor(partitions, lambda: encode_member(address, *folded()), on_table)
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
        self._thread.start()

    def join_again(self) -> None:
        """Make the group assign again, because the partitions that this node has folded changed."""
        self._rejoin.set()

    def leave(self) -> None:
        """Begin to leave the group. `close` waits for the end of that."""
        self._stopped.set()

    def close(self, timeout_s: float) -> None:
        """Leave the group, and wait for that at most `timeout_s`."""
        self._stopped.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        """Stay in the group, and join it again after every error of the broker."""
        while not self._stopped.is_set():
            try:
                consumer = self._consumer(**self._options)
            except (KafkaError, LogError) as error:
                logger.warning("cannot reach the broker of the group: %s; retrying", error)
                self._stopped.wait(_RETRY_S)
                continue
            try:
                consumer.subscribe([self._topic])
                while not self._stopped.is_set():
                    if self._rejoin.is_set():
                        self._rejoin.clear()
                        consumer._coordinator.request_rejoin()
                    consumer.poll(timeout_ms=_POLL_MS)
            except Exception as error:
                logger.warning("lost the membership in the group: %s; joining again", error)
                self._stopped.wait(_RETRY_S)
            finally:
                self._close(consumer)

    def _close(self, consumer: Any) -> None:
        try:
            consumer.close(autocommit=False, timeout_ms=2000)
        except Exception as error:
            logger.warning("left the consumer group without notice: %s; its session expires", error)
