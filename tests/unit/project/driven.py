"""Proof, while tests run, that those which docs/coverage.md counts as driving a served process do so.

A test drives one if a foldb that listens answers it over HTTP, which is seen by the fields that foldb alone sends. A
marked test in one of the folders `SERVED` that has no such answer fails, unless its marker says `served=False`: then
the page does not count it. Fixtures of the test itself count, those that several tests share count for the first alone.
Answers to other processes are not seen.
"""

import http.client
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.project.coverage import SERVED, is_served

_OWN_FIELDS = ("x-foldb-position", "x-foldb-log-time")


class Driven:
    """A plugin of pytest that counts the answers of foldb to this process.

    Args:
        root: The folder that the folders in `SERVED` are in.
    """

    def __init__(self, root: Path) -> None:
        self.count = 0
        self._root = root
        self._before = pytest.StashKey[int]()
        self._begin = http.client.HTTPResponse.begin

    def pytest_configure(self) -> None:
        """Look at the head of every answer."""
        begin = self._begin

        def counted(response: http.client.HTTPResponse) -> None:
            begin(response)
            self.count += any(field in response.headers for field in _OWN_FIELDS)

        # mypy takes no assignment to a method, and there is no other place that all clients of a process share.
        http.client.HTTPResponse.begin = counted  # type: ignore[method-assign,assignment]

    def pytest_unconfigure(self) -> None:
        """Look no longer at answers."""
        http.client.HTTPResponse.begin = self._begin  # type: ignore[method-assign]  # as above

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note the count before the test's own fixtures."""
        item.stash[self._before] = self.count

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test that is counted as one that drives a served process, and asked none."""
        result = yield
        if self._is_counted(item) and self.count == item.stash[self._before]:
            pytest.fail(
                "the test is marked as one that drives a served process, and no foldb answered it. Ask one, or write "
                "spec(..., served=False).",
                pytrace=False,
            )
        return result

    def _is_counted(self, item: pytest.Item) -> bool:
        file = item.path.relative_to(self._root) if item.path.is_relative_to(self._root) else item.path
        return file.as_posix().startswith(SERVED) and any(
            is_served(marker.kwargs) for marker in item.iter_markers("spec")
        )
