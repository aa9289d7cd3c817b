"""Progress of long work, on stderr: a bar on a terminal, else a line every five seconds.

The first line of data on the same terminal ends the bar.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .settings import SessionSettings

# Rich is imported to draw a bar only: its import takes as long as most commands run.
if TYPE_CHECKING:
    from .terminal import Terminal

_LINE_EVERY_S = 5.0

Advance = Callable[[int], None]


@contextmanager
def progress(
    settings: SessionSettings,
    console: "Terminal",
    title: str,
    total: int | None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Show progress.

    Yields:
        A function that adds to the number of processed units.
    """
    if settings.quiet or not settings.progress:
        yield lambda _: None
    elif console.is_terminal:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bar(*columns, console=console, transient=True, redirect_stdout=False) as bar:
            console.bar = bar  # Output ends it before it writes data to the same terminal
            task = bar.add_task(title, total=total)
            yield lambda more: bar.advance(task, more)
    else:
        yield _Lines(console, title, total, clock)


class _Lines:
    def __init__(
        self, console: "Terminal", title: str, total: int | None, clock: Callable[[], float]
    ) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._clock = clock
        self._done = 0
        self._started = self._last = clock()

    def __call__(self, more: int) -> None:
        self._done += more
        now = self._clock()
        if now - self._last < _LINE_EVERY_S:
            return
        self._last = now
        of = "" if self._total is None else f" of {self._total:,}"
        rate = self._done / (now - self._started)
        self._console.print(f"{self._title}: {self._done:,}{of} · {rate:,.0f}/s", soft_wrap=True)
