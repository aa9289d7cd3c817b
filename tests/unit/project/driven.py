"""A check during the run that tests which docs/coverage.md counts as driving a served process do so.

A test drives one if a listening foldb answers it over HTTP, which the fields that only foldb sends prove. A marked
test in one of the folders `SERVED` without such an answer fails, unless its marker has `served=False`: then the page
does not count it. Requests of the test's own fixtures count; those of shared fixtures count for the first test
alone. Answers to other processes are not seen.
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
        """Count the answers of foldb by their heads."""
        begin = self._begin

        def counted(response: http.client.HTTPResponse) -> None:
            begin(response)
            self.count += any(field in response.headers for field in _OWN_FIELDS)

        # mypy allows no assignment to a method, and all clients of a process share no other function.
        http.client.HTTPResponse.begin = counted  # type: ignore[method-assign,assignment]

    def pytest_unconfigure(self) -> None:
        """Stop counting."""
        http.client.HTTPResponse.begin = self._begin  # type: ignore[method-assign]  # as above

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Store the count before the test's own fixtures run."""
        item.stash[self._before] = self.count

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test that is counted as driving a served process, but was answered by none."""
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
