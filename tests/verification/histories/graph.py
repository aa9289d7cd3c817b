"""Cycles in a graph whose edges have kinds.

Strongly connected components by Tarjan's algorithm, without recursion: a history is deeper than Python's stack. A
graph without a component of two or more nodes has no cycle, which is nearly always the result.
"""

from collections import deque
from collections.abc import Collection

Edges = dict[int, dict[int, str]]


def components(edges: Edges) -> list[set[int]]:
    """Return the strongly connected components of two or more nodes."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found = []
    for root in edges:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(edges[root]))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    path.append((target, iter(edges.get(target, ()))))
                    break
                if target in on_stack and order[target] < low[node]:
                    low[node] = order[target]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == order[node]:
                    component = _unwind(stack, on_stack, node)
                    if len(component) > 1:
                        found.append(component)
    return found


def path(edges: Edges, start: int, end: int, kinds: Collection[str], within: set[int]) -> list[int] | None:
    """Return a shortest path of at least one edge, over edges of these kinds and nodes of this set."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for target, kind in edges.get(node, {}).items():
            if kind not in kinds or target not in within or target in came_from:
                continue
            came_from[target] = node
            if target == end:
                return _traced(came_from, start, end)
            waiting.append(target)
    return None


def _traced(came_from: dict[int, int], start: int, end: int) -> list[int]:
    nodes = [end]
    while True:
        nodes.append(came_from[nodes[-1]])
        if nodes[-1] == start:
            return nodes[::-1]


def _unwind(stack: list[int], on_stack: set[int], root: int) -> set[int]:
    component = set()
    while True:
        node = stack.pop()
        on_stack.remove(node)
        component.add(node)
        if node == root:
            return component
