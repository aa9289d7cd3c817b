"""The consoles that draw tables and progress bars."""

from typing import Protocol

from rich.console import Console


class Bar(Protocol):
    """A progress bar of Rich, whose module a table does not need."""

    def stop(self) -> None: ...


class Terminal(Console):
    """A console of Rich with at most one progress bar.

    Attributes:
        bar: The current progress bar.
    """

    bar: Bar | None = None

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, which the program handles. Rich would exit with code 1."""
        raise BrokenPipeError

    def clear_bar(self) -> None:
        """End the progress bar and erase it."""
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.stop()
