"""The whole database behind the interface of one partition: requests are routed or split, and answers are merged."""

from .fan_in import joined
from .instant_reads import InstantReads
from .router import Router
from .unassigned import UnassignedPartition

__all__ = ["InstantReads", "Router", "UnassignedPartition", "joined"]
