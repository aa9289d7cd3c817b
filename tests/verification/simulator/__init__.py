"""Whole nodes on a log in memory, on time that does not exist.

    python -m tests.verification.simulator --seed 17            one history, and what it was like
    python -m tests.verification.simulator --seeds 0:100000     many, on all processors

Everything between the clients' requests and the bytes of the log is real: worker, owner, relays, timers, router and
fold. Time, log, network and processes are made (timeline.py, log.py, network.py, node.py), and what goes wrong with
them is drawn from the seed (faults.py). A seed is one history, to the last callback; a failing one is a command
line.

What is judged (run.py): that everything comes to an end soon after the last fault, and then nothing is written any
more; that every node's state is what a refold makes of the log; that indexes are projections of their tables,
transactions whole and money only moved (checks.py), at a cut of log time too, brought to rest by the fold alone
(cuts.py); and what clients were told by the judges of tests/verification/histories.
"""

from tests.verification.simulator.run import Report, simulate

__all__ = ["Report", "simulate"]
