"""Arbitrary bytes, decoder by decoder: each refuses them with its documented error, in time linear in their length.

A short run of the fuzzer takes the same inputs each time. FOLDB_SOAK=1 gives every target ten minutes and keeps in
the ledger what came of it. What has broken a target once lies in corpus/TARGET/ and is tried for ever.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verification import reliability
from tests.verification.fuzz.steps import TooManyStepsError, bounded
from tests.verification.fuzz.target import CORPUS
from tests.verification.fuzz.targets import TARGETS

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SECONDS = 600
RUNS = 200
ROOT = Path(__file__).parents[3]


@pytest.mark.guarantee("G48", "SEC21")
@pytest.mark.parametrize("seed", [1])
def test_no_bytes_break_a_decoder(seed: int) -> None:
    pytest.importorskip("atheris", reason="no atheris: there is no wheel of it for this platform")
    names = sorted(TARGETS)
    extent = ["--seconds", str(SECONDS)] if SOAK else ["--runs", str(RUNS)]
    result = subprocess.run(
        [sys.executable, "-m", "tests.verification.fuzz", *names, *extent, "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    _, *parts = re.split(r"^target (?=[a-z ]+$)", result.stdout, flags=re.MULTILINE)
    for name, said in zip(names, parts, strict=True):
        runs = re.search(r"number_of_executed_units: (\d+)", said)
        reliability.record(
            test=f"fuzz {name}",
            seeds=str(seed),
            checked=int(runs[1]) if runs else 0,
            failures=int("ERROR: libFuzzer" in said),
        )

    assert 0 == result.returncode, result.stdout[-8000:]


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_samples_keep_well_within_their_steps(name: str) -> None:
    target = TARGETS[name]
    fixed, each = target.steps
    for sample in target.samples:
        assert target.run(sample) * 2 <= fixed + each * len(sample)


def test_earlier_failures_of_a_decoder_stay_fixed() -> None:
    for path in sorted(CORPUS.glob("*/*")):
        TARGETS[path.parent.name].run(path.read_bytes())


def test_a_loop_without_an_end_is_stopped() -> None:
    def endless() -> None:
        while True:
            pass

    with pytest.raises(TooManyStepsError):
        bounded(1000, endless)
