"""What the owner of a partition does besides folding it: messages carried, timers, transactions given up."""

from .owner import Owner

__all__ = ["Owner"]
