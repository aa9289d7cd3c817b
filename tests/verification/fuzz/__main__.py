"""Fuzz targets, one after the other: python -m tests.verification.fuzz TARGET... --seconds N

Coverage of our own code leads the fuzzer (atheris, which is libFuzzer). An input that breaks the target's property is
kept in corpus/TARGET/, where a test tries it for ever.
"""

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["foldb"]):
    from tests.verification.fuzz.targets import TARGETS

# libFuzzer's own alarm; a loop without an end is stopped by counted steps long before.
_SECONDS_MAX = 60


def fuzz(name: str, *, seconds: int, runs: int, seed: int) -> None:
    """Fuzz until the time or the runs are over. Ends the process, with another code than 0 if something broke."""
    # The output of a bug is suppressed: its response fails the target.
    logging.getLogger("foldb").setLevel(logging.CRITICAL)
    target = TARGETS[name]
    target.corpus.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"foldb-fuzz-{name}-"))
    seeds, words = folder / "seeds", folder / "words"
    seeds.mkdir()
    for number, sample in enumerate(target.samples):
        (seeds / f"sample-{number}").write_bytes(sample)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    options = [
        *([f"-dict={words}"] if target.words else []),
        f"-artifact_prefix={target.corpus}/",
        f"-max_len={target.bytes_max}",
        f"-max_total_time={seconds}",
        f"-runs={runs}",
        f"-seed={seed}",
        f"-timeout={_SECONDS_MAX}",
        "-print_final_stats=1",
    ]
    atheris.Setup(["fuzz", *options, str(seeds), str(target.corpus)], target.run)
    atheris.Fuzz()


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())


def fuzz_all(names: list[str], **extent: int) -> int:
    """Fuzz each in a process of its own, which libFuzzer ends; how many broke."""
    broken = 0
    for name in names:
        sys.stdout.write(f"target {name}\n")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            fuzz(name, **extent)
        broken += os.waitpid(child, 0)[1] != 0
    return broken


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.verification.fuzz", description=__doc__)
    parser.add_argument("target", nargs="+", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=0, help="how long each; 0 for no end")
    parser.add_argument("--runs", type=int, default=-1, help="how many inputs each; -1 for no end")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(fuzz_all(given.target, seconds=given.seconds, runs=given.runs, seed=given.seed))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The same seed makes the same inputs only if sets have the same order.
        again = [sys.executable, "-m", "tests.verification.fuzz", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    main()
