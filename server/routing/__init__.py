"""The whole database behind the seam of one partition: which partition a request is for, and answers joined."""

from .joining import joined
from .router import Router

__all__ = ["Router", "joined"]
