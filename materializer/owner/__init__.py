"""The duties of a partition's owner: relay messages, propose timed commands, abort undecided transactions."""

from .owner import Owner, OwnerSettings

__all__ = ["Owner", "OwnerSettings"]
