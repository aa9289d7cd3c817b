"""A condition's tree as text again, with a parenthesis around every term, and limits that such a text never reaches."""

from dataclasses import replace

from foldb.expressions.tree import (
    Among,
    And,
    Between,
    Call,
    Comparison,
    ConditionNode,
    Not,
    Operand,
    Or,
    Path,
    Reference,
)
from foldb.model.limits import MODERN

ROOMY = replace(
    MODERN,
    name="roomy",
    expression_bytes=2**20,
    expression_operators=2**20,
    path_depth=2**20,
    in_operands=2**20,
)


def shown(operand: Operand) -> str:
    if isinstance(operand, Path):
        head, *tail = operand.parts
        return str(head) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in tail)
    if isinstance(operand, Reference):
        return operand.name
    assert isinstance(operand, Call)
    return f"{operand.function}({', '.join(map(shown, operand.operands))})"


def printed(node: ConditionNode) -> str:
    match node:
        case Comparison(operator, left, right):
            return f"{shown(left)} {operator} {shown(right)}"
        case Between(operand, low, high):
            return f"{shown(operand)} BETWEEN {shown(low)} AND {shown(high)}"
        case Among(operand, choices):
            return f"{shown(operand)} IN ({', '.join(map(shown, choices))})"
        case Call():
            return shown(node)
        case Not(term):
            return f"NOT {wrapped(term)}"
        case And(parts):
            return " AND ".join(map(wrapped, parts))
        case Or(parts):
            return " OR ".join(map(wrapped, parts))


def wrapped(node: ConditionNode) -> str:
    return f"({printed(node)})"
