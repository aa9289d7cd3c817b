"""The whole database behind the seam of one partition: which partition a request is for, and answers joined."""

from .fan_in import joined
from .router import Router
from .unassigned import UnassignedPartition

__all__ = ["Router", "UnassignedPartition", "joined"]
