"""`python -m tests.verification.planted [WORD...]`: plant each bug, or those that match a WORD, and print
the test that found it.

With the compiled package first on the path, the bugs in its hot modules are compiled. Exit code 1 if one was not found.
"""

import sys
import tempfile
from pathlib import Path

from tests.verification import reliability
from tests.verification.planted.bug import Bug
from tests.verification.planted.bugs import BUGS, NOT_YET
from tests.verification.planted.workshop import ROOT, Workshop


def main(words: list[str]) -> int:
    """Print the result of each bug, and the number of bugs found."""
    if {"-h", "--help"} & set(words):
        say(str(__doc__))
        return 0
    missed = 0
    with tempfile.TemporaryDirectory(prefix="foldb-planted-") as folder:
        workshop = Workshop(Path(folder))
        assert ROOT != workshop.imported(), "the copy is not what is imported"
        wanted = [
            bug
            for bug in BUGS
            if workshop.changes_the_build(bug)
            and (not words or any(word in place for word in words for place in places(bug)))
        ]
        whole = workshop.run(sorted({test for bug in wanted for test in bug.tests}))
        if whole.failed:
            say(f"{whole.said}\nwithout a bug these fail already: {whole.failed}")
            return 1
        for bug in wanted:
            failed = workshop.try_(bug).failed
            missed += failed is None
            say(f"{'MISSED' if failed is None else 'caught'}  {bug.what}: {failed or ' '.join(bug.tests)}")
    for what, why in NOT_YET.items():
        say(f"not yet  {what}: {why}")
    say(f"{len(wanted) - missed} of {len(wanted)} caught")
    reliability.record(test="planted bugs", cycles=len(wanted), checked=len(wanted), failures=missed)
    return 1 if missed else 0


def places(bug: Bug) -> list[str]:
    """Return the texts that a word is compared with: the description, and the paths of the files."""
    return [bug.what, *(edit.path for edit in bug.edits)]


def say(text: str) -> None:
    """Print one line and flush: the next may take a minute."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
