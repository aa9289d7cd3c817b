"""The options of a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Duration and size of a run.

    Attributes:
        seconds: The duration of a round of requests.
        rounds: The number of rounds. The median is printed.
        connections: The numbers of connections to measure.
        keys: The number of collections, of twenty items each, that requests use.
        sizes: The numbers of items that `flat` compares.
        items: The number of items of a large table.
        commands: The number of commands of a refold.
        nodes: The numbers of nodes of a cluster.
        port: The first port of the servers.
    """

    seconds: int = 3
    rounds: int = 3
    connections: tuple[int, ...] = (1, 32, 128)
    keys: int = 2000
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    items: int = 1_000_000
    commands: int = 200_000
    nodes: tuple[int, ...] = (1, 2, 4)
    port: int = 18_300


QUICK = Options(
    seconds=1,
    rounds=1,
    connections=(32,),
    keys=50,
    sizes=(1_000, 2_000),
    items=2_000,
    commands=2_000,
    nodes=(2,),
)
"""A check that every part runs. Its figures are meaningless."""
