"""The whole database behind the seam of one partition: which partition a request is for, and answers joined."""

from .joining import joined
from .nowhere import Nowhere
from .router import Router

__all__ = ["Nowhere", "Router", "joined"]
