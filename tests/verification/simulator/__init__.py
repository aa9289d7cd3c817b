"""Simulation of whole nodes on a log in memory and on virtual time.

    python -m tests.verification.simulator --seed 17            one history, and its report
    python -m tests.verification.simulator --seeds 0:100000     many, on all processors

Everything between the clients' requests and the bytes of the log is the product's code: worker, owner, relays,
timers, router and fold. Time, log, network and processes are simulated (timeline.py, log.py, network.py, node.py),
and faults are drawn from the seed (faults.py). A seed determines one history, to the last callback; a failing one is
a command line.

The checks (run.py): soon after the last fault all requests end, and then no entry is written; every node's state
equals a refold of the log; indexes are projections of their tables, transactions are atomic and money is only moved
(checks.py), also at a cut of log time that the fold alone brought to rest (cuts.py); and the checkers of
tests/verification/histories accept the clients' answers.
"""

from tests.verification.simulator.run import Report, simulate

__all__ = ["Report", "simulate"]
