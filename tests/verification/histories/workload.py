"""Random requests of the clients.

A few keys get most of the requests, so that clients contend. Lists are retired as they grow: so reads stay small,
and a final read shows the order of all appends to a list.
"""

import random
from typing import Any

from tests.verification.histories.history import History, Operation, Step
from tests.verification.histories.model import ACCOUNTS

PAGE = "in a page"
"""The argument of the gets that one page of a Scan answers."""

_LISTS = 8  # in use at a time
_APPENDS = 16  # transactions until a new list replaces the oldest one


class Workload:
    """Draws requests, and remembers results, so that conditions hold often enough.

    Args:
        keys: The number of registers.
        transactions: The share of requests that are transactions.
    """

    def __init__(self, history: History, dice: random.Random, keys: int, transactions: float) -> None:
        self._history = history
        self.dice = dice
        self._keys = keys
        self._transactions = transactions
        self._versions: dict[str, int | None] = {}
        self._lengths: dict[str, int] = {}

    def draw(self) -> tuple[Step, ...]:
        """Return the next request."""
        if self.dice.random() < self._transactions:
            draw = self.dice.choices(_TRANSACTIONS, _TRANSACTION_WEIGHTS)[0]
            return draw(self)
        return self.single()

    def saw(self, operation: Operation) -> None:
        """Remember the results of an answer."""
        for step, reported in zip(operation.steps, operation.reported or (), strict=False):
            if step.verb == "get" and step.key[0] == "l":
                self._lengths[step.key] = len(reported)
            elif step.verb in ("get", "swap") and step.key[0] == "r":
                self._versions[step.key] = None if reported is None else reported[0]

    def single(self) -> tuple[Step, ...]:
        verb = self.dice.choices(_SINGLES, _WEIGHTS)[0]
        key = f"r{int(self._keys * self.dice.random() ** 3)}"
        argument: Any = None
        if verb == "add":
            argument = self.dice.randint(1, 1000)
        elif verb == "put_if":
            argument = (self._versions.get(key), self._history.fresh())
        elif verb in ("put", "swap", "set"):
            argument = self._history.fresh()
        return (Step(key, verb, argument),)

    def _list_keys(self, most: int) -> list[str]:
        first = self._history.appends // _APPENDS
        chosen = self.dice.sample(range(first, first + _LISTS), self.dice.randint(1, most))
        return [f"l{number}" for number in chosen]

    def append(self) -> tuple[Step, ...]:
        number = self._history.fresh()
        self._history.appends += 1
        return tuple(Step(key, "append", number) for key in self._list_keys(4))

    def append_if(self) -> tuple[Step, ...]:
        """Append to some lists, if others have the length of their last read: a write that depends on a read."""
        first, *others = self.append()
        checks = [Step(step.key, "size", self._lengths.get(step.key, 0)) for step in others]
        return (first, *checks)

    def _transfer(self) -> tuple[Step, ...]:
        source, target = self.dice.sample(range(ACCOUNTS), 2)
        amount = self.dice.randint(1, 60)
        return Step(f"a{source}", "move", -amount), Step(f"a{target}", "move", amount)

    def _audit(self) -> tuple[Step, ...]:
        return tuple(Step(f"a{number}", "get") for number in range(ACCOUNTS))

    def read_lists(self) -> tuple[Step, ...]:
        return tuple(Step(key, "get") for key in self._list_keys(4))

    def read_all(self) -> tuple[Step, ...]:
        """Read all accounts and the lists in use, in one page of a Scan."""
        first = self._history.appends // _APPENDS
        keys = [
            *(f"a{number}" for number in range(ACCOUNTS)),
            *(f"l{number}" for number in range(first, first + _LISTS)),
        ]
        return tuple(Step(key, "get", PAGE) for key in keys)

    def contended(self) -> tuple[Step, ...]:
        """Return a read of several items, or a transaction that writes some of them."""
        draw = self.dice.choices(
            (Workload._audit, Workload.read_lists, Workload._transfer, Workload.append), (25, 25, 20, 30)
        )[0]
        return draw(self)

    def _read_any(self) -> tuple[Step, ...]:
        register = f"r{self.dice.randrange(self._keys)}"
        account = f"a{self.dice.randrange(ACCOUNTS)}"
        return tuple(Step(key, "get") for key in (register, account, *self._list_keys(2)))


_SINGLES = ("get", "put", "swap", "put_if", "set", "add", "delete")
_WEIGHTS = (40, 12, 8, 14, 8, 12, 6)
_TRANSACTIONS = (
    Workload.append,
    Workload.append_if,
    Workload._transfer,
    Workload._audit,
    Workload.read_lists,
    Workload._read_any,
)
_TRANSACTION_WEIGHTS = (25, 15, 20, 10, 25, 5)
