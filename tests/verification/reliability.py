"""The ledger of long runs: what was done to foldb, and what came of it.

    record(test="power cuts", seeds="0-199", cycles=200, faults={"power cut": 200}, acknowledged=81_244)

appends a line to reliability.jsonl, where only runs of `make soak` are kept. `python -m
tests.verification.reliability` adds them
up by test and format of the log.
"""

import datetime
import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foldb.log.codec import CURRENT

PATH = Path(__file__).with_name("reliability.jsonl")
SOAK = bool(os.environ.get("FOLDB_SOAK"))


def record(
    *,
    test: str,
    seeds: str = "",
    cycles: int = 0,
    faults: Mapping[str, int] | None = None,
    acknowledged: int = 0,
    checked: int = 0,
    failures: int = 0,
    figures: Mapping[str, float] | None = None,
) -> None:
    """Keep what a long run did; nothing, where the run is a short one.

    Args:
        test: What was tried, in a few words.
        seeds: Those that the run took, as a range.
        cycles: How often the server was brought down, or the input changed.
        faults: How many of each kind were injected.
        acknowledged: Writes that had been acknowledged and were looked for.
        checked: Operations or inputs whose result was judged.
        failures: What was found; a run that fails says so before it raises.
        figures: What was measured, by name and unit.
    """
    if not SOAK:
        return
    line: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "format": CURRENT.hex(),
        "test": test,
        "seeds": seeds,
        "cycles": cycles,
        "faults": dict(faults or {}),
        "acknowledged": acknowledged,
        "checked": checked,
        "failures": failures,
    }
    if figures:
        line["figures"] = dict(figures)
    with PATH.open("a") as ledger:
        ledger.write(json.dumps(line) + "\n")


def totals(lines: list[dict[str, Any]]) -> dict[tuple[str, str], Counter[str]]:
    """What all runs of a test came to, by (test, format)."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for line in lines:
        total = sums.setdefault((line["test"], line["format"]), Counter())
        total["runs"] += 1
        total.update({name: line[name] for name in ("cycles", "acknowledged", "checked", "failures")})
    return sums


def _commit() -> str:
    result = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PATH.parent, capture_output=True, text=True, check=False
    )
    return result.stdout.strip()


def main() -> None:
    """Print the totals."""
    lines = [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []
    columns = ("runs", "cycles", "acknowledged", "checked", "failures")
    print(f"{'test':44} {'format':16}" + "".join(f"{column:>14}" for column in columns))
    for (test, format_), total in sorted(totals(lines).items()):
        print(f"{test:44} {format_:16}" + "".join(f"{total[column]:>14,}" for column in columns))


if __name__ == "__main__":
    main()
