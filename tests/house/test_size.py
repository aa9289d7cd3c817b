"""Files and folders stay small enough to be read."""

from collections import Counter
from pathlib import Path

from tests.house.source import ROOT, modules

LONGEST_FILE = 600
FULLEST_FOLDER = 15


# One file an operation is the rule there, and DynamoDB has that many: who wants PutItem types put_item.
BY_RULE = {ROOT / "server" / "operations"}


def _files() -> list[Path]:
    return [*modules().values(), *sorted((ROOT / "tests").rglob("*.py"))]


def test_a_file_has_at_most_600_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _files()}

    assert {} == {name: length for name, length in lengths.items() if length > LONGEST_FILE}


def test_a_folder_has_at_most_15_files() -> None:
    counts = Counter(path.parent for path in _files() if path.parent not in BY_RULE)

    assert {} == {str(folder.relative_to(ROOT)): n for folder, n in counts.items() if n > FULLEST_FOLDER}
