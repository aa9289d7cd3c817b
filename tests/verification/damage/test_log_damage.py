"""A log with any damaged bytes is refused by position, or its state is the acknowledged one.

Every flipped bit, every length, zeros from every byte, sectors that changed places: all of them in `make soak`, every
few in `make test`. States are compared by the digest of a refold, not by counting records.
"""

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from foldb.log.local import segment
from tests.unit.log import damage
from tests.unit.log.damage import DETECTED, HARMLESS, Files, Sample, judge
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

# One in this many positions is tested: primes, so that every bit and every position in a block is covered.
BIT, HEAD_BIT, LENGTH, ZEROS, SECTORS = (1, 1, 1, 1, 1) if SOAK else (37, 163, 29, 53, 5)
RANDOM = 2000 if SOAK else 20

WHOLE = damage.sample(24, segment_bytes=10_260)
TORN = damage.sample(24, segment_bytes=10_260, in_flight=3)
SAMPLES = pytest.mark.parametrize("sample", [WHOLE, TORN], ids=["closed", "crashed"])


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A cut is logged as a warning; here are thousands."""
    caplog.set_level(logging.ERROR, "foldb.log.local.recovery")


def head_of(sample: Sample, name: str) -> int:
    return segment.read_header(sample.files[name]).size


def judged(test: str, sample: Sample, damaged: Iterator[Files]) -> Counter[str]:
    """Count the results of each case for the ledger of long runs."""
    came = Counter(judge(files, sample.expected) for files in damaged)
    tried = sum(came.values())
    assert tried
    record(test=f"log: {test}", cycles=tried, faults={test: tried}, checked=tried)
    return came


def test_the_samples_are_logs_of_several_segments_and_groups() -> None:
    """Without damage the logs have their expected states."""
    for sample in (WHOLE, TORN):
        assert HARMLESS == judge(sample.files, sample.expected)
        assert 3 == len(sample.segments)
    assert (1, 4) == (len(WHOLE.expected), len(TORN.expected))


@SAMPLES
def test_a_flipped_bit_of_an_acknowledged_record_is_detected(sample: Sample) -> None:
    for name in sample.segments:
        flips = damage.flips(sample, name, head_of(sample, name), len(sample.files[name]), BIT)
        came = judged("flipped bits of records", sample, flips)
        assert came[DETECTED]
        assert sample is TORN or not came[HARMLESS]


@SAMPLES
def test_a_flipped_bit_of_a_head_is_detected(sample: Sample) -> None:
    for name in sample.segments:
        flips = damage.flips(sample, name, 0, head_of(sample, name), HEAD_BIT)
        assert {DETECTED} == set(judged("flipped bits of heads", sample, flips))


@SAMPLES
def test_a_flipped_bit_of_the_mark_is_harmless(sample: Sample) -> None:
    assert {HARMLESS} == set(judged("flipped bits of marks", sample, damage.flips(sample, "mark", 0, 32)))


@SAMPLES
def test_a_shorter_or_longer_segment_is_detected(
    sample: Sample,
) -> None:
    for name in sample.segments:
        came = judged("truncations", sample, damage.truncations(sample, name, LENGTH))
        assert came[DETECTED]
        assert not came[HARMLESS] or (sample is TORN and name == sample.segments[-1])


@SAMPLES
@pytest.mark.parametrize("length", [1, 16, 512, None], ids=["one", "sixteen", "sector", "rest"])
def test_zeros_in_acknowledged_records_are_detected(sample: Sample, length: int | None) -> None:
    for name in sample.segments:
        first = 0 if SOAK else head_of(sample, name) - 600
        came = judged("zeros", sample, damage.zeros(sample, name, length, first, ZEROS))
        assert sample is TORN or not came[HARMLESS]


@SAMPLES
def test_zeros_behind_the_end_are_no_records(sample: Sample) -> None:
    """A crash may leave a file longer than its written bytes."""
    name = sample.segments[-1]
    longer = (
        sample.with_file(name, sample.files[name] + bytes(n)) for n in (1, 2, 15, 511, 512, 4096, 70_000)
    )

    assert {HARMLESS} == set(judged("zeros behind the end", sample, longer))


@SAMPLES
def test_swapped_sectors_of_acknowledged_records_are_detected(sample: Sample) -> None:
    came = judged("swapped sectors", sample, islice(damage.sector_swaps(sample), None, None, SECTORS))
    assert sample is TORN or not came[HARMLESS]


@SAMPLES
def test_a_misplaced_acknowledged_sector_is_detected(sample: Sample) -> None:
    came = judged("copied sectors", sample, islice(damage.sector_copies(sample), None, None, SECTORS))
    assert sample is TORN or not came[HARMLESS]


@SAMPLES
def test_without_its_mark_a_log_loses_at_most_its_last_group(sample: Sample) -> None:
    """
    What no later block proves to have been durable looks like a torn write once the mark is lost. So of a log that
    was copied without it damage to the last group is not told from a crash; damage to anything before it is.
    """
    bare = damage.without_mark(sample)
    for name in bare.segments:
        flips = damage.flips(bare, name, head_of(bare, name), len(bare.files[name]), 3 * BIT)
        came = judged("flipped bits without a mark", bare, flips)
        assert came[DETECTED]
        assert not came[HARMLESS] or name == bare.segments[-1]


@pytest.mark.parametrize("seed", range(2))
def test_a_large_log_with_random_damage_is_refused(seed: int) -> None:
    dice = random.Random(seed)
    sample = damage.sample(600 if SOAK else 200, segment_bytes=40_000)
    came = judged("random damage to a larger log", sample, damage.at_random(sample, dice, RANDOM))

    assert {DETECTED} == set(came)


def test_older_damage_is_refused_before_a_torn_write_is_cut() -> None:
    """Else a log that is refused would have lost something in the refusal. `judge` sees that nothing changed."""
    torn = TORN.files[TORN.segments[-1]].rstrip(b"\0")[:-7]
    older = TORN.segments[0]
    flipped = bytearray(TORN.files[older])
    flipped[-40] ^= 1

    files = TORN.files | {TORN.segments[-1]: torn, older: bytes(flipped)}

    assert DETECTED == judge(files, TORN.expected)
