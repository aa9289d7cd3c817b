"""A server's own report of a bug fails the test, whatever the client makes of the answer.

A request that meets a bug is answered with an InternalServerError, which a random client may take for a refusal. The
server writes a traceback to its log, and so does the event loop for a callback that raises. In the process of the test
a filter sees these records; `Process` reads them in the output of a server.
"""

import logging
from collections.abc import Generator
from typing import Any, Final

import pytest

_LOGGERS: Final = ("foldb.server.api.dispatch", "asyncio")
_TRACEBACK: Final = "Traceback (most recent call last):\n"
_REPORTS: Final = (
    "the client receives InternalServerError",
    "Exception in callback ",
    "Fatal error on transport ",  # uvloop
    "Fatal error: protocol.",  # asyncio
    "Task exception was never retrieved",
)


def surprise_in(text: str) -> bool:
    """Return whether the output of a server has the report of a bug."""
    return _TRACEBACK in text and any(report in text for report in _REPORTS)


class Surprises(logging.Filter):
    """A plugin of pytest that keeps the reports of the servers in this process. The log has them as before."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[str] = []

    def pytest_configure(self) -> None:
        """Begin to look at the log."""
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self)

    def pytest_unconfigure(self) -> None:
        """End."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep an error that has a traceback; let each record pass."""
        if record.levelno >= logging.ERROR and record.exc_info:
            self._found.append(logging.Formatter().format(record))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test during which a server reported a bug, unless the marker `meets_bug` says that it makes one."""
        self._found.clear()
        result = yield
        if self._found and item.get_closest_marker("meets_bug") is None:
            pytest.fail("a server reported a bug:\n" + "\n".join(self._found), pytrace=False)
        return result
