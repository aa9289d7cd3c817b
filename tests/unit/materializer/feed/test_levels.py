"""Commands of an older log keep their meaning, and from level 3 on its streams are captured."""

from foldb.log.commands import Level
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.feed.capture import CapturePeriod
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import Completed
from foldb.model.sequence_numbers import sequence_number
from foldb.model.tables import SHARD_MS
from tests.unit.materializer.ledger import CONTEXT, START, Ledger, define, put, table_request

STREAM = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}


def old(**settings: object) -> Ledger:
    """Return a log of level 2 with a table whose stream is enabled, and an item in it."""
    ledger = Ledger(level=2)
    request = {**table_request("T", StreamSpecification=STREAM), **settings}
    ledger.fold(define("CreateTable", 0, request))
    ledger.fold(put(ledger.state.tables[1], {"pk": {"S": "a"}}))
    return ledger


def test_a_stream_of_an_older_log_is_in_the_state_as_it_was() -> None:
    ledger = old()

    frames = b"".join(dump(ledger.state))

    assert b'"stream":{"created_ms":1700000000000,"enabled":true,"view":"KEYS_ONLY"}' in frames
    assert b"watched" not in frames
    assert {} == ledger.state.periods


def test_a_level_ignores_settings_of_later_levels() -> None:
    assert digest(old().state) == digest(old(ShardAgeMs=5000).state)


def test_enabled_streams_are_captured_from_the_level_that_captures() -> None:
    ledger = old()
    ledger.create("Without")
    ledger.create("Disabled", StreamSpecification=STREAM)
    off = {"TableName": "Disabled", "StreamSpecification": {"StreamEnabled": False}}
    ledger.fold(define("UpdateTable", ledger.state.names["Disabled"], off))

    raised = ledger.fold(Level(3, CONTEXT))

    assert Completed(progressed=True) == raised
    begun = sequence_number(ledger.records[-1].offset, 0, 0)
    key = ledger.state.tables[1].definition.key
    assert {1: [CapturePeriod(1, START, "T", key, "KEYS_ONLY", SHARD_MS, begun)]} == ledger.state.periods
    assert digest(ledger.state) == digest(load(dump(ledger.state)))


def test_a_level_that_is_raised_again_changes_nothing() -> None:
    ledger = old()
    ledger.fold(Level(3, CONTEXT))
    windows = dict(ledger.state.periods)

    assert Completed(progressed=False) == ledger.fold(Level(3, CONTEXT))
    assert windows == ledger.state.periods


def test_a_stream_without_a_shard_age_has_the_usual_one() -> None:
    ledger = Ledger()
    table = ledger.create("T", StreamSpecification=STREAM)

    assert [SHARD_MS] == [window.shard_ms for window in ledger.state.capture_periods(table.definition.id)]
