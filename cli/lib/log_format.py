"""The messages of a server on stderr, as text or as lines of JSON.

WARNING foldb.server.app: cannot reload the certificate ...        {"time": ..., "level": "WARNING", "logger": ...}
"""

import logging
from enum import StrEnum

import orjson

from ...model.durations import time_text


class LogFormat(StrEnum):
    """A format of messages."""

    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """Writes a message as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time_text(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def configure(log_format: LogFormat) -> None:
    """Write the messages of this process to stderr in a format."""
    handler = logging.StreamHandler()
    if log_format is LogFormat.JSON:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
