"""Checks transactions by the writes that they must have seen of each other, without trusting any position.

A read of a list shows the order of all appends to it. So each answer implies which transactions came before which:

    ww  appended the number before mine        wr  appended the last number that I read
    rw  appended the next number after those that I read, which I did not see
    time  was answered before I was called

A cycle of these is an impossible order, and its kind is the anomaly's name, as Adya gave them: G0 of ww alone; G1c
with wr; G-single with one rw; G2 with more; a real-time cycle if time is needed. In addition: a number that was
never appended, or by a refused transaction (G1a), is in no list; no read sees a part of a transaction's appends
(G1b); an earlier read of a list is a prefix of a later one; money is only moved.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.verification.histories import graph
from tests.verification.histories.history import History, Operation, ViolationError
from tests.verification.histories.model import ACCOUNTS, OPENING_BALANCE, Refused


@dataclass(slots=True)
class _List:
    """The known facts about one list.

    Attributes:
        order: The appends, as the longest read shows them.
        reads: The transactions that read it, with its length then.
        writers: By number, the operation that appended it, with any result.
    """

    order: tuple[int, ...] = ()
    reads: list[tuple[int, int]] = field(default_factory=list)
    writers: dict[int, int] = field(default_factory=dict)


def serializable(history: History) -> None:
    """Check the money and the lists of all transactions.

    Raises:
        ViolationError: No order of the transactions explains their results and agrees with time.
    """
    _check_money(history)
    operations = [one for one in history.operations if any(step.key[0] == "l" for step in one.steps)]
    lists = _lists(operations)
    for key, known in lists.items():
        _check_list(key, known, operations)
    edges = _dependencies(lists, operations)
    _add_time(edges, history, operations)
    for component in graph.components(edges):
        raise ViolationError(_anomaly(edges, component, operations))


def _check_money(history: History) -> None:
    for operation in history.operations:
        balances = [reported for key, reported in _seen(operation) if key[0] == "a"]
        if balances and min(balances) < 0:
            raise ViolationError(f"an account is overdrawn: {operation}")
        if len(balances) == ACCOUNTS and sum(balances) != ACCOUNTS * OPENING_BALANCE:
            raise ViolationError(f"the accounts come to {sum(balances)}: {operation}")


def _seen(operation: Operation) -> Iterator[tuple[str, Any]]:
    """Yield the items that an answer shows: those that were read, and those that failed a condition."""
    for step, reported in zip(operation.steps, operation.reported or (), strict=False):
        if type(reported) is Refused:
            yield step.key, reported.state
        elif step.verb == "get":
            yield step.key, reported


def _lists(operations: list[Operation]) -> dict[str, _List]:
    lists: dict[str, _List] = defaultdict(_List)
    for number, operation in enumerate(operations):
        for step in operation.steps:
            if step.verb == "append":
                lists[step.key].writers[step.argument] = number
        for step, reported in zip(operation.steps, operation.reported or (), strict=False):
            if step.verb == "size" and reported is None:  # the condition held
                lists[step.key].reads.append((number, step.argument))
            elif step.verb == "size" and len(reported.state) == step.argument:
                raise ViolationError(f"a condition held, and refused: {operation}")
        for key, read in _seen(operation):
            if key[0] == "l":
                known = lists[key]
                known.reads.append((number, len(read)))
                known.order = max(known.order, read, key=len)
    for number in _seen_writers(lists):
        if operations[number].in_doubt:  # it happened, so its conditions held
            for step in operations[number].steps:
                if step.verb == "size":
                    lists[step.key].reads.append((number, step.argument))
    return lists


def _seen_writers(lists: dict[str, _List]) -> set[int]:
    """Return the operations whose appends were read."""
    return {
        known.writers[appended]
        for known in lists.values()
        for appended in known.order
        if appended in known.writers
    }


def _check_list(key: str, known: _List, operations: list[Operation]) -> None:
    """Check the reads of one list: every number was appended, and the list only grew."""
    order, writers = known.order, known.writers
    if len(set(order)) < len(order):
        raise ViolationError(f"something was appended to {key} twice: {order}")
    for appended in order:
        writer = None if appended not in writers else operations[writers[appended]]
        if writer is None:
            raise ViolationError(f"nobody appended {appended} to {key}, which is in {order}")
        if writer.answered is not None and (writer.reported is None or writer.refused):
            raise ViolationError(f"G1a: {appended} is in {key}, and it was refused: {writer}")
    halves = _unfinished(known)
    for number, length in known.reads:
        for seen, read in _seen(operations[number]):
            if seen == key and read != order[: len(read)]:
                raise ViolationError(f"{key} was {order}, and not this before: {operations[number]}")
        if 0 < length <= len(order) and order[length - 1] in halves:
            raise ViolationError(f"G1b: half of an append to {key} was seen: {operations[number]}")


def _unfinished(known: _List) -> set[int]:
    """Return numbers after which their transaction appends again to the same list. DynamoDB has none."""
    last = {number: appended for appended, number in known.writers.items()}
    return {appended for appended, number in known.writers.items() if last[number] != appended}


def _dependencies(lists: dict[str, _List], operations: list[Operation]) -> graph.Edges:
    """Return the order that the reads imply. An edge of several kinds gets the first of ww, wr, rw."""
    edges: graph.Edges = defaultdict(dict)

    def add(before: int, after: int, kind: str) -> None:
        if before != after:
            edges[before].setdefault(after, kind)

    for known in lists.values():
        writers = [known.writers[appended] for appended in known.order]
        for before, after in pairwise(writers):
            add(before, after, "ww")
    for known in lists.values():
        for number, length in known.reads:
            if 0 < length <= len(known.order):
                add(known.writers[known.order[length - 1]], number, "wr")
    seen = _seen_writers(lists)
    for known in lists.values():
        unseen = _unseen(known, operations, seen)
        for number, length in known.reads:
            if length < len(known.order):
                add(number, known.writers[known.order[length]], "rw")
            elif length == len(known.order):
                for writer in unseen:
                    add(number, writer, "rw")
    return edges


def _unseen(known: _List, operations: list[Operation], seen: set[int]) -> list[int]:
    """Return the operations that certainly appended a number that no read of this list shows: they came after all
    reads.

    These are the operations that were answered, or whose appends were read in another list.
    """
    shown = set(known.order)
    return [
        writer
        for appended, writer in known.writers.items()
        if appended not in shown
        and (writer in seen or (operations[writer].reported is not None and not operations[writer].refused))
    ]


def _add_time(edges: graph.Edges, history: History, operations: list[Operation]) -> None:
    """Add that an operation came before all operations called after its answer.

    Moments are nodes of their own, in a chain: an answer leads to the next moment, that to the one after, and each
    to the calls at it. So the number of edges is that of the operations, not its square.
    """
    events = [(one.called, 0, number) for number, one in enumerate(operations)]
    for number, one in enumerate(operations):
        events.append((history.deadline(one) if one.answered is None else one.answered, 1, number))
    moment, answered = len(operations) - 1, list[int]()
    for _, is_answer, number in sorted(events):
        if is_answer:
            answered.append(number)
            continue
        if answered:
            if moment >= len(operations):
                edges[moment][moment + 1] = "time"
            moment += 1
            for before in answered:
                edges[before].setdefault(moment, "time")
            answered = []
        if moment >= len(operations):
            edges[moment][number] = "time"


_ANOMALIES: tuple[tuple[str, frozenset[str]], ...] = (
    ("G0", frozenset(("ww",))),
    ("G1c", frozenset(("ww", "wr"))),
    ("G2", frozenset(("ww", "wr", "rw"))),
    ("real-time cycle", frozenset(("ww", "wr", "rw", "time"))),
)


def _anomaly(edges: graph.Edges, component: set[int], operations: list[Operation]) -> str:
    """Name the anomaly of a component, and show its cycle."""
    for name, kinds in _ANOMALIES:
        if name == "G2" and (circle := _with_one_rw(edges, component)):
            return _shown("G-single", circle, edges, operations)
        for start in sorted(component):
            if circle := graph.path(edges, start, start, kinds, component):
                return _shown(name, circle, edges, operations)
    raise AssertionError("a component without a circle")


def _with_one_rw(edges: graph.Edges, component: set[int]) -> list[int] | None:
    for before in sorted(component):
        for after, kind in edges[before].items():
            if kind == "rw" and after in component:
                back = graph.path(edges, after, before, ("ww", "wr"), component)
                if back is not None:
                    return [before, *back]
    return None


def _shown(name: str, circle: list[int], edges: graph.Edges, operations: list[Operation]) -> str:
    lines = [f"{name}: each of these came before the next, and the last is the first"]
    for before, after in pairwise(circle):
        if before < len(operations):
            lines.append(f"{operations[before]}   --{edges[before][after]}-->")
    return "\n  ".join([*lines, str(operations[circle[-1]]) if circle[-1] < len(operations) else ""])
