"""The clock of a node: a step of the system clock is taken when it has lasted, and a drift at once."""

import pytest

from foldb.server.clock import GuardedClock, clock_of, monotonic_ms, refused_ms, system_ms
from foldb.server.settings import Settings

NOON = 1_700_000_000_000
HOUR = 3_600_000
LIMIT, CONFIRM = 10_000, 300_000


class Machine:
    """Two clocks; a test moves them."""

    def __init__(self) -> None:
        self.system, self.monotonic = NOON, 5000
        self.clock = GuardedClock(
            lambda: self.system, lambda: self.monotonic, limit_ms=LIMIT, confirm_ms=CONFIRM
        )

    def pass_(self, ms: int, *, drift: int = 0) -> int:
        """Let time pass, and return the time of the node's clock."""
        self.monotonic += ms
        self.system += ms + drift
        return self.clock()

    def step(self, ms: int) -> int:
        self.system += ms
        return self.clock()


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("ahead", [LIMIT + 1, 2 * HOUR, -LIMIT - 1, -2 * HOUR])
def test_a_step_beyond_the_limit_is_not_taken(ahead: int, machine: Machine) -> None:
    assert NOON == machine.step(ahead)
    assert NOON + 2000 == machine.pass_(2000)
    assert ahead == machine.clock.refused_ms

    assert NOON + 2000 == machine.step(-ahead)
    assert 0 == machine.clock.refused_ms
    assert NOON + 3000 == machine.pass_(1000)


@pytest.mark.parametrize("ahead", [LIMIT, -LIMIT, 1, -1])
def test_a_step_up_to_the_limit_is_taken_at_once(ahead: int, machine: Machine) -> None:
    assert NOON + ahead == machine.step(ahead)
    assert 0 == machine.clock.refused_ms


def test_a_drift_is_followed_however_far_it_leads(machine: Machine) -> None:
    """As a clock that NTP slews: the sum of its steps is beyond the limit, and none of them is."""
    for _ in range(100):
        machine.pass_(1000, drift=500)

    assert machine.system == machine.clock() == NOON + 100 * 1500


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("ahead", [2 * HOUR, -2 * HOUR])
def test_a_step_that_lasts_is_taken(ahead: int, machine: Machine) -> None:
    """A machine that started with a wrong clock gets the right one."""
    machine.step(ahead)
    for _ in range(CONFIRM // 1000 - 1):
        machine.pass_(1000)
    assert NOON + CONFIRM - 1000 == machine.clock()

    assert NOON + CONFIRM + ahead == machine.pass_(1000)
    assert NOON + CONFIRM + ahead + 1000 == machine.pass_(1000)
    assert 0 == machine.clock.refused_ms


def test_a_step_on_top_of_another_begins_its_time_again(machine: Machine) -> None:
    machine.step(HOUR)
    machine.pass_(CONFIRM - 1)
    machine.step(HOUR)

    assert NOON + CONFIRM == machine.pass_(1)
    assert NOON + 2 * HOUR + 2 * CONFIRM - 1 == machine.pass_(CONFIRM - 1)


def test_a_clock_that_runs_too_fast_is_never_taken(machine: Machine) -> None:
    for _ in range(1000):
        machine.pass_(1000, drift=LIMIT + 1)

    assert NOON + 1_000_000 == machine.clock()


def test_a_jump_is_reported_once(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.step(2 * HOUR)
    for _ in range(10):
        machine.pass_(1000)
    [refused] = caplog.messages
    assert "a step of 2 h 0 min ahead" in refused
    assert "ignores the step unless it lasts for 5 min 0 s" in refused

    machine.step(-2 * HOUR)
    assert "reverted its step of 2 h 0 min ahead" in caplog.messages[-1]
    assert 2 == len(caplog.messages)


def test_a_node_goes_by_a_guarded_clock() -> None:
    clock = clock_of(Settings())

    assert isinstance(clock, GuardedClock)
    assert abs(clock() - system_ms()) < LIMIT
    assert 0 == refused_ms(clock)


def test_the_guard_can_be_switched_off() -> None:
    clock = clock_of(Settings(clock_step_ms=0))

    assert clock is system_ms
    assert 0 == refused_ms(clock)


def test_the_monotonic_clock_counts_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that resumes has made no step: CLOCK_MONOTONIC would say that it has."""
    monkeypatch.setattr("time.CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr("time.clock_gettime_ns", lambda which: {7: 9_000_000}[which])

    assert 9 == monotonic_ms()
