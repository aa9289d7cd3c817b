"""Recorded answers of clients, and checkers for them.

    from tests.verification.histories import Clients, History, check, create

    history = History()
    for run in range(runs):
        with Process(folder) as server:
            if run == 0:
                create(server.url)
            with Clients(history, server.url, run=run, seed=seed) as clients:
                clients.wait_for(2000)      # answers of any kind
                server.kill()
                clients.join()              # they end when the server does not answer
    check(history)                          # ViolationError, an AssertionError that names the key and the operations

`History` holds the operations of all runs, with those in doubt. `run` is the number of restarts of the server: an
operation that a run left in doubt has happened when the next run begins, or never will. Clients that join a server
that was not restarted have the same run number.

`check` is three checkers, which share only the model of one step on one item (model.py):

    witness         trusts the positions of the answers: replayed in that order, is every answer right?
    linearizable    trusts no position: is there an order of each item's operations that explains every answer?
    serializable    trusts no position: do the transactions depend on each other in a cycle?

Each is a function of a history too, in the module of its name. `history.counts()` returns the number of operations.
"""

from tests.verification.histories.clients import Clients, create
from tests.verification.histories.history import History, Operation, Step, ViolationError
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.serializable import serializable
from tests.verification.histories.witness import witness

__all__ = ["Clients", "History", "Operation", "Step", "ViolationError", "check", "create"]


def check(history: History) -> None:
    """Run the three checkers on a history.

    Raises:
        ViolationError: No correct database could have produced the history.
    """
    witness(history)
    linearizable(history)
    serializable(history)
