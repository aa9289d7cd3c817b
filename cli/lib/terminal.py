"""The consoles that draw tables and progress bars."""

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress


class Terminal(Console):
    """A console of Rich with at most one progress bar.

    Attributes:
        bar: The progress bar that is drawn now.
    """

    bar: "Progress | None" = None

    def on_broken_pipe(self) -> None:
        """Leave it to the top of the program, which knows that it is no error. Rich would leave with 1."""
        raise BrokenPipeError

    def clear_bar(self) -> None:
        """End the progress bar and erase it."""
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.stop()
