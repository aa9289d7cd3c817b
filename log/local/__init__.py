"""A log on this machine's disk: segments in a folder, one writer, a sync before each acknowledgement."""

from .log import Background, LocalLog, WriterThread, disk_of

__all__ = ["Background", "LocalLog", "WriterThread", "disk_of"]
