"""A partition in front of another: what it says nothing about goes straight through."""

from ...materializer.partition import Partition


class DelegatingPartition:
    """The methods that no partition in front of another changes, as they are behind it.

    They are the other's own and not calls of them, so that whoever is in front costs a read nothing.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.get = partition.get
        self.get_all = partition.get_all
        self.query = partition.query
        self.scan = partition.scan
        self.reach = partition.reach
        self.status = partition.status
