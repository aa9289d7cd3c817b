"""What can be said about a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How long and how large.

    Attributes:
        connections: At how many connections requests are measured.
        keys: Collections of twenty items that requests draw from.
        sizes: Of how many items a table is to tell whether cost is flat.
        items: What starts, memory and paging are measured with.
        commands: What a refold is measured with.
        nodes: How many share a log, in the clusters that are measured.
        port: The first of the ports that servers get.
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
"""Whether everything runs; its figures mean nothing."""
