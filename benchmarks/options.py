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
        items: The number of items of a large table.
        tables: The numbers of tables that `flat` compares.
        indexes: The numbers of global indexes that it compares.
        many_connections: The numbers of connections that it adds to busy ones.
        commands: The number of commands of a refold.
        nodes: The numbers of nodes of a cluster.
        port: The first port of the servers.
    """

    seconds: int = 3
    rounds: int = 3
    connections: tuple[int, ...] = (1, 32, 128)
    keys: int = 2000
    items: int = 1_000_000
    tables: tuple[int, ...] = (10, 100, 1_000, 2_400)  # DynamoDB's limit is 2,500, and `flat` creates some
    indexes: tuple[int, ...] = (0, 1, 5, 20)
    many_connections: tuple[int, ...] = (1_000,)
    commands: int = 200_000
    nodes: tuple[int, ...] = (1, 2, 4)
    port: int = 18_300

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of items that `flat` compares: powers of ten from 1,000 on, up to `items`."""
        powers = (10**exponent for exponent in range(3, len(str(self.items))))
        return (*(power for power in powers if power < self.items), self.items)


QUICK = Options(
    seconds=1,
    rounds=1,
    connections=(32,),
    keys=50,
    items=2_000,
    tables=(2, 10),
    indexes=(0, 1, 2),
    many_connections=(64,),
    commands=2_000,
    nodes=(2,),
)
"""A check that every part runs. Its figures are meaningless."""
