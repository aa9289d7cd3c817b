"""The tables that benchmarks print. A figure with a goal shows whether the goal is reached."""

from collections.abc import Sequence


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column left-aligned, figures right-aligned."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    print(f"\n{title}\n")
    for row in (columns, ["-" * width for width in widths], *rows):
        cells = [
            text.rjust(width) if place else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


def at_least(value: float, goal: float) -> str:
    """Return a figure with a lower goal.

    >>> at_least(2.71, 2.5)
    '2.71 (>= 2.5: reached)'
    """
    return f"{value:.2f} (>= {goal:g}: {'reached' if value >= goal else 'missed'})"


def at_most(value: float, goal: float, unit: str = "") -> str:
    """Return a figure with an upper goal.

    >>> at_most(310, 300, " ms")
    '310 ms (<= 300: missed)'
    """
    shown = f"{value:.2f}" if goal < 10 else f"{value:,.0f}"
    return f"{shown}{unit} (<= {goal:g}: {'reached' if value <= goal else 'missed'})"
