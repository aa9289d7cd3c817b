"""Nodes of a cluster as processes, and faults of nodes and brokers."""

import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from foldb.log.kafka.client import Clients
from foldb.log.kafka.settings import KafkaAddress, Security
from tests.support.broker import Brokers
from tests.support.forks import Fork
from tests.support.raw import ask
from tests.support.surprises import surprise_in

PARTITIONS = 4
_PATIENCE_S = 60
_CLUSTER = "Foldb_20261121.Cluster"
_LAG = 100  # entries: some are always on their way
SESSION_TIMEOUT = "2s"  # a third of the default: a test waits that long after each kill


class Process:
    """A node. Its output goes to a file, because a full pipe would block it.

    Attributes:
        url: Its URL, once it answers.
    """

    def __init__(self, folder: Path, *options: str, clock: Path | None = None) -> None:
        """Start the node, on the clock of a file if it is given. `wait` returns when it answers."""
        folder.mkdir(exist_ok=True)
        self._said = folder / "said"
        command = ["serve", "--db", str(folder), "--port", "0", *options]
        self._process: Fork | subprocess.Popen[bytes]
        with self._said.open("a") as said:
            self._begun = said.tell()
            if clock is None:
                self._process = Fork(command, stdout=said.fileno(), stderr=said.fileno())
            else:
                program = [sys.executable, "-m", "tests.behaviour.cluster.clocked_node", str(clock)]
                self._process = subprocess.Popen([*program, *command], stdout=said, stderr=said)
        self.url = ""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> float:
        """Stop the node, and return the seconds that it took."""
        begun = time.monotonic()
        self.signal(signal.SIGTERM)
        assert self._process.wait(_PATIENCE_S) == 0, self._said.read_text()
        return time.monotonic() - begun

    def check_said(self) -> None:
        """Check that the node has reported no bug."""
        said = self._said.read_text()
        assert not surprise_in(said), said

    def wait(self) -> None:
        """Wait until the node answers."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and self._process.poll() is None:
            said = self._said.read_bytes()[self._begun :].decode()
            if match := re.search(r"foldb serves (http://\S+:\d+)", said):
                self.url = match[1]
                return
            time.sleep(0.02)  # a file has no event for its growth
        self.kill()
        raise AssertionError(f"foldb serve has not begun: {self._said.read_text()}")


class Nodes:
    """Processes that share a log, from the start of the block to its end.

    Attributes:
        urls: The URLs of the running nodes; changed in place.
        awake: The same without the paused nodes.
    """

    def __init__(
        self, folder: Path, kafka: str, count: int, *options: str, clock: Path | None = None
    ) -> None:
        self.address = KafkaAddress.of(f"kafka://{kafka}/{uuid.uuid4().hex[:12]}")
        self.urls: list[str] = []
        self.awake: list[str] = []
        self._folder = folder
        self._options = options
        self._clock = clock
        self._processes = [self._start(number) for number in range(count)]

    def __enter__(self) -> Self:
        try:
            for number in range(len(self)):
                self._answers(number)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.signal(signal.SIGCONT)
            process.kill()
        for process in self._processes if kind is None else ():
            process.check_said()

    def __len__(self) -> int:
        return len(self._processes)

    def url_of(self, number: int) -> str:
        """Return the URL of a node."""
        return self._processes[number].url

    def kill(self, number: int) -> None:
        """Kill a node."""
        self._is_gone(number)
        self._processes[number].kill()

    def start(self, number: int) -> None:
        """Restart a node that has ended."""
        self._processes[number] = self._start(number)
        self._answers(number)

    def pause(self, number: int) -> None:
        """Pause the process of a node. Its clients continue to call it."""
        self.awake.remove(self._processes[number].url)
        self._processes[number].signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._processes[number].signal(signal.SIGCONT)
        self.awake.append(self._processes[number].url)

    def terminate(self, number: int) -> float:
        """Stop a node, and return the seconds that it took. Its clients call it until it does not answer."""
        seconds = self._processes[number].terminate()
        self._is_gone(number)
        return seconds

    def settle(self) -> None:
        """Wait until every partition has an owner and a standby that has folded it."""
        until = time.monotonic() + _PATIENCE_S
        while not self._is_settled():
            assert time.monotonic() < until, ask(self.urls[0], _CLUSTER, {}).body
            time.sleep(0.05)  # no event announces it; each node can be polled

    def _is_settled(self) -> bool:
        """Return whether all nodes have the same table and no lag."""
        reported = [ask(url, _CLUSTER, {}) for url in self.urls]
        if any(answer.status != 200 for answer in reported):
            return False
        nodes = [node for answer in reported for node in answer.body["Nodes"] if node["Answers"]]
        partitions = [partition for answer in reported for partition in answer.body["Partitions"]]
        return (
            len(nodes) == len(self.urls) ** 2
            and len({node["Generation"] for node in nodes}) == 1
            and all(not one["Moving"] and one["OwnerLag"] is not None for one in partitions)
            and all((one["StandbyLag"] or 0) < _LAG for one in partitions if one["Standby"])
            and all(one["StandbyLag"] is not None for one in partitions if one["Standby"])
        )

    def _answers(self, number: int) -> None:
        self._processes[number].wait()
        for urls in (self.urls, self.awake):
            urls.append(self._processes[number].url)

    def _is_gone(self, number: int) -> None:
        for urls in (self.urls, self.awake):
            urls.remove(self._processes[number].url)

    def _start(self, number: int) -> Process:
        return Process(
            self._folder / f"node-{number}",
            "--log",
            str(self.address),
            "--partitions",
            str(PARTITIONS),
            "--session-timeout",
            SESSION_TIMEOUT,
            *self._options,
            clock=self._clock,
        )


class Faults:
    """The faults of a cluster, on nodes drawn at random. Each is over when its function returns.

    Args:
        nodes: The nodes.
        cluster: Their brokers.
        dice: Draws the node or the broker.
        node_s: Seconds for which a node is paused.
        broker_s: Seconds for which a broker is paused.
    """

    def __init__(
        self, nodes: Nodes, cluster: Brokers, dice: random.Random, *, node_s: float, broker_s: float
    ) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self._dice = dice
        self._node_s = node_s
        self._broker_s = broker_s
        self.kinds: dict[str, Callable[[Callable[[], None]], None]] = {
            "node killed": self.kill_node,
            "node paused": self.pause_node,
            "broker killed": self.kill_broker,
            "broker paused": self.pause_broker,
            "node left": self.leave,
        }

    def kill_node(self, meanwhile: Callable[[], None]) -> None:
        number = self._dice.randrange(len(self._nodes))
        self._nodes.kill(number)
        meanwhile()
        self._nodes.start(number)

    def pause_node(self, meanwhile: Callable[[], None]) -> None:
        number = self._dice.randrange(len(self._nodes))
        begun = time.monotonic()
        self._nodes.pause(number)
        meanwhile()
        self._wait_until(begun + self._node_s)
        self._nodes.resume(number)

    def leave(self, meanwhile: Callable[[], None]) -> None:
        number = self._dice.randrange(len(self._nodes))
        self._nodes.terminate(number)
        meanwhile()
        self._nodes.start(number)

    def kill_broker(self, meanwhile: Callable[[], None]) -> None:
        self._cluster.kill(self._dice.randrange(1, 4))
        meanwhile()
        self._cluster.restart()
        self._wait_for_replicas()

    def pause_broker(self, meanwhile: Callable[[], None]) -> None:
        number = self._dice.randrange(1, 4)
        begun = time.monotonic()
        self._cluster.pause(number)
        meanwhile()
        self._wait_until(begun + self._broker_s)
        self._cluster.resume(number)
        self._wait_for_replicas()

    def _wait_until(self, moment: float) -> None:
        while (rest := moment - time.monotonic()) > 0:
            time.sleep(rest)  # the fault lasts so long: there is nothing to wait for

    def _wait_for_replicas(self) -> None:
        """Wait until every broker has the whole log again, because the next fault may hit another broker."""
        clients = Clients(self._nodes.address, Security())
        until = time.monotonic() + 60
        admin = clients.admin()
        try:
            while True:
                [topic] = admin.describe_topics([clients.address.topic])
                if all(len(one["isr_nodes"]) == 3 for one in topic["partitions"]):
                    return
                assert time.monotonic() < until, topic
                time.sleep(0.1)  # a broker announces no such condition, so poll it
        finally:
            admin.close()
