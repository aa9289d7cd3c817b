"""The effect of one step on one item: the checkers' whole model of DynamoDB.

    (state, argument) ──► verb ──► (state after, the client's result)

The first letter of a key is the type of its item, and a missing item has a state too:

    r  a register   (v, n): the number of the last write, and a counter; None if it is missing
    l  a list       the appended numbers, as a tuple
    a  an account   its balance

The model shares no code with the database.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

State: TypeAlias = Any  # hashable; its shape depends on the key

ACCOUNTS = 8
OPENING_BALANCE = 100
_INITIAL: dict[str, State] = {"r": None, "l": (), "a": OPENING_BALANCE}


@dataclass(frozen=True, slots=True)
class Refused:
    """A condition did not hold for this state, so nothing changed."""

    state: State


class States(dict[str, State]):
    """Items by key, missing ones included."""

    def __missing__(self, key: str) -> State:
        return _INITIAL[key[0]]


def initial(key: str) -> State:
    """Return the state of an item before its first write."""
    return _INITIAL[key[0]]


def _get(state: State, _: Any) -> tuple[State, Any]:
    return state, state


def _put(_: State, version: int) -> tuple[State, Any]:
    return (version, None), None


def _swap(state: State, version: int) -> tuple[State, Any]:
    return (version, None), state


def _put_if(state: State, argument: tuple[int | None, int]) -> tuple[State, Any]:
    expected, version = argument
    if (None if state is None else state[0]) != expected:
        return state, Refused(state)
    return (version, None), None


def _set(state: State, version: int) -> tuple[State, Any]:
    return (version, None if state is None else state[1]), state


def _add(state: State, amount: int) -> tuple[State, Any]:
    version, number = (None, None) if state is None else state
    number = amount if number is None else number + amount
    return (version, number), number


def _delete(state: State, _: Any) -> tuple[State, Any]:
    return None, state


def _append(state: State, number: int) -> tuple[State, Any]:
    return (*state, number), None


def _size(state: State, length: int) -> tuple[State, Any]:
    return state, None if len(state) == length else Refused(state)


def _move(state: State, amount: int) -> tuple[State, Any]:
    return (state, Refused(state)) if state + amount < 0 else (state + amount, None)


VERBS: dict[str, Callable[[State, Any], tuple[State, Any]]] = {
    "get": _get,
    "put": _put,
    "swap": _swap,  # a put that returns the old item
    "put_if": _put_if,  # if the version is the expected one
    "set": _set,  # the version alone; returns the old item
    "add": _add,  # to the counter; returns its new value
    "delete": _delete,  # returns the old item
    "append": _append,
    "size": _size,  # a condition: the list has this length
    "move": _move,  # add to an account or subtract, if the balance allows it
}

# They leave every state unchanged.
LOOKS = frozenset(("get", "size"))
