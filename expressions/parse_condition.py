"""Parse conditions, filters and key conditions.

    condition  ::= and-terms { OR and-terms }
    and-terms  ::= term { AND term }
    term       ::= NOT term | "(" condition ")" | operand comparator operand
                 | operand BETWEEN operand AND operand | operand IN "(" operands ")" | function
    operand    ::= "(" operand ")" | function | path | :value
    function   ::= name "(" operands ")"

After an opening parenthesis a condition or an operand may follow; lookahead or backtracking would take quadratic time.
So every parenthesis opens a frame, and the parser knows its kind when the parenthesis is closed.
"""

from typing import Final, NamedTuple, TypeAlias

from ..model.values import Value
from .operands import ordered
from .parser import (
    FUNCTION_NAME,
    FUNCTION_USE,
    LIMIT,
    OPERAND,
    OPERAND_COUNT,
    PARENTHESES,
    SAME_OPERANDS,
    UNDEFINED,
    Parser,
)
from .tokens import END, NAME, REFERENCE
from .tree import Among, And, Between, Call, Comparison, ConditionNode, Not, Operand, Or, Path, Reference

_COMPARATORS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})
_EQUALITIES: Final = frozenset({"=", "<>"})
_ORDERED_TYPES: Final = frozenset({"S", "N", "B"})
_OPERAND_COUNTS: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_UPDATE_FUNCTIONS: Final = frozenset({"if_not_exists", "list_append"})
_TYPES: Final = frozenset({"S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M"})
_ANY_TYPE: Final = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"  # in DynamoDB's errors about a path
_UNSIZED_TYPES: Final = frozenset({"N", "BOOL", "NULL"})
_SHOWN: Final = 256  # characters of a value in a message

SyntaxNode: TypeAlias = Operand | ConditionNode

_WHOLE, _GROUP, _CALL, _LIST = range(4)


class ValueChecks(NamedTuple):
    """The checks of every request that depend on values and not on their types."""

    bounds: tuple[tuple[str, str], ...]  # of BETWEEN
    type_names: tuple[str, ...]  # of attribute_type


NO_CHECKS: Final = ValueChecks((), ())


class _Frame:
    """An open part: the entire expression, a parenthesis, a call, the list of an IN."""

    __slots__ = (
        "alternatives",
        "function",
        "kind",
        "left",
        "low",
        "negations",
        "only_operand",
        "operands",
        "operator",
        "terms",
    )

    def __init__(self, kind: int, *, only_operand: bool = False, function: str = "") -> None:
        self.kind = kind
        self.only_operand = only_operand
        self.function = function
        self.operands: list[Operand] = []  # of a call or a list
        self.alternatives: list[ConditionNode] = []  # the terms of OR so far
        self.terms: list[ConditionNode] = []  # the terms of AND since the last OR
        self.negations = 0  # the number of NOTs before the next term
        self.operator = ""  # a comparator or BETWEEN without its last operand
        self.left: Operand | None = None
        self.low: Operand | None = None

    @property
    def empty(self) -> bool:
        """Whether the frame has no node before the current one."""
        return not (self.alternatives or self.terms or self.negations)


class ConditionParser(Parser):
    """Parses a condition, a filter or a key condition."""

    keywords = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN"})
    undefined_value = UNDEFINED

    def parse(self) -> ConditionNode:
        """Parse the expression.

        Raises:
            ValidationError: The expression is invalid.
        """
        self._frames = [_Frame(_WHOLE)]
        self._bounds: dict[tuple[str, str], None] = {}
        self._type_names: dict[str, None] = {}
        tree = None
        while tree is None:
            tree = self._attach(self._first_operand())
        self.finish()
        return tree

    @property
    def value_checks(self) -> ValueChecks:
        """The checks that `parse` cannot do for other values of the same types."""
        return ValueChecks(tuple(self._bounds), tuple(self._type_names))

    def _first_operand(self) -> Operand:
        """Open all frames that begin at the token, and parse their first operand."""
        while True:
            frame, token = self._frames[-1], self.token
            only_operand = frame.only_operand or bool(frame.operator)
            if self.skip("("):
                self._frames.append(_Frame(_GROUP, only_operand=only_operand))
            elif token.kind == REFERENCE:
                return self.reference()
            elif not only_operand and self.skip_word("NOT"):
                self.count_operator()
                frame.negations += 1
            elif token.kind == NAME and self.at_name() and self.next_is("("):
                self.advance()
                self.advance()
                self.count_operator()
                self._frames.append(_Frame(_CALL, only_operand=True, function=token.text))
            else:
                return self.path()

    def _attach(self, node: SyntaxNode) -> ConditionNode | None:
        """Add `node` to the open frames, and close the frames that end after it.

        Returns:
            The entire condition, or None if another operand must follow.
        """
        grouped = False  # whether `node` had parentheses of its own
        while True:
            frame = self._frames[-1]
            if grouped and isinstance(node, Path) and self.token.text in (".", "["):
                node, grouped = self.extend(node), False
            if frame.kind in (_CALL, _LIST):
                frame.operands.append(_operand(node))
                if self.skip(","):
                    return None
                self.expect(")")
                self._frames.pop()
                node, grouped = (
                    self._close_call(frame) if frame.kind == _CALL else self._close_list(frame),
                    False,
                )
                continue
            if frame.operator:
                if frame.operator == "BETWEEN" and frame.low is None:
                    frame.low = _operand(node)
                    if not self.skip_word("AND"):
                        self.syntax_error()
                    return None
                node, grouped = self._close_operator(frame, _operand(node)), False
            elif isinstance(node, Path | Reference | Call):
                if not frame.only_operand and self._open_operator(frame, node):
                    return None
                if frame.kind == _GROUP and frame.empty and self.skip(")"):
                    self._close_group(grouped)
                    grouped = True
                    continue
                if frame.only_operand or not isinstance(node, Call):
                    self.syntax_error()
                self._check_alone(node)
            alone = grouped and frame.empty
            term = self._join(frame, _condition(node))
            if term is None:
                return None
            if frame.kind == _WHOLE:
                if self.token.kind != END:
                    self.syntax_error()
                return term
            self.expect(")")
            self._close_group(alone)
            node, grouped = term, True

    def _open_operator(self, frame: _Frame, left: Operand) -> bool:
        if self.token.text in _COMPARATORS:
            frame.operator = self.advance().text
            frame.left = left
        elif self.skip_word("BETWEEN"):
            frame.operator = "BETWEEN"
            frame.left = left
        elif self.skip_word("IN"):
            self.expect("(")
            self._frames.append(_Frame(_LIST, only_operand=True))
            self._frames[-1].left = left
        else:
            return False
        self.count_operator()
        return True

    def _close_group(self, redundant: bool) -> None:
        self._frames.pop()
        if redundant:
            self.problems.note(PARENTHESES, "The expression has redundant parentheses;")

    def _join(self, frame: _Frame, term: ConditionNode) -> ConditionNode | None:
        """Add a term to the frame's condition; return None if AND or OR follows."""
        if frame.negations % 2:
            term = term.term if isinstance(term, Not) else Not(term)
        frame.negations = 0
        if self.skip_word("AND"):
            self.count_operator()
            frame.terms.append(term)
            return None
        if frame.terms:
            term = And((*frame.terms, term))
        if self.skip_word("OR"):
            self.count_operator()
            frame.alternatives.append(term)
            frame.terms = []
            return None
        return Or((*frame.alternatives, term)) if frame.alternatives else term

    def _close_operator(self, frame: _Frame, right: Operand) -> ConditionNode:
        operator, left, low = frame.operator, frame.left, frame.low
        assert left is not None
        frame.operator, frame.left, frame.low = "", None, None
        node: ConditionNode
        if low is not None:
            self._check_uses(left, low, right)
            self._check_distinct("BETWEEN", left, low, right)
            self._check_ordered("BETWEEN", left, low, right)
            self._check_bounds(low, right)
            node = Between(left, low, right)
        else:
            self._check_uses(left, right)
            self._check_distinct(operator, left, right)
            if operator not in _EQUALITIES:
                self._check_ordered(operator, left, right)
            node = Comparison(operator, left, right)
        self.problems.settle()
        return node

    def _close_list(self, frame: _Frame) -> ConditionNode:
        assert frame.left is not None
        self._check_uses(frame.left, *frame.operands)
        self._check_distinct("IN", frame.left, *frame.operands)
        if len(frame.operands) > self.limits.in_operands:
            self.problems.note(
                LIMIT,
                f"The IN operator is provided with too many operands; number of operands: {len(frame.operands)}",
            )
        self.problems.settle()
        return Among(frame.left, tuple(frame.operands))

    def _close_call(self, frame: _Frame) -> Call:
        call = Call(frame.function, tuple(frame.operands))
        self._check_uses(*call.operands)
        count = _OPERAND_COUNTS.get(call.function)
        if call.function in _UPDATE_FUNCTIONS:
            self.problems.note(
                FUNCTION_NAME,
                f"The function is not allowed in a condition expression; function: {call.function}",
            )
        elif count is None:
            self.problems.note(FUNCTION_NAME, f"Invalid function name; function: {call.function}")
        elif count != len(call.operands):
            self.problems.note(
                OPERAND_COUNT,
                "Incorrect number of operands for operator or function; "
                f"operator or function: {call.function}, number of operands: {len(call.operands)}",
            )
        else:
            self._check_operands(call)
        return call

    def _check_operands(self, call: Call) -> None:
        name, first = call.function, call.operands[0]
        if len(call.operands) > 1:
            self._check_distinct(name, first, call.operands[1])
        if name in ("attribute_exists", "attribute_not_exists"):
            if not isinstance(first, Path):
                self.problems.note(
                    OPERAND,
                    f"Operator or function requires a document path; operator or function: {name}",
                )
        elif name == "begins_with":
            for operand in call.operands:
                type_name = self.type_of(operand)
                if type_name not in (None, "S", "B"):
                    self.wrong_type(name, str(type_name))
        elif name == "attribute_type":
            self._check_type_name(call.operands[1])
        elif name == "size" and self.type_of(first) in _UNSIZED_TYPES:
            self.wrong_type(name, str(self.type_of(first)))

    def _check_type_name(self, operand: Operand) -> None:
        value = self.literal(operand)
        if value is None or "S" not in value:
            self.wrong_type("attribute_type", self.type_of(operand) or _ANY_TYPE)
            return
        assert isinstance(operand, Reference)
        self._type_names[operand.name] = None
        problem = type_name_problem(value)
        if problem:
            self.problems.note(OPERAND, problem)

    def _check_bounds(self, low: Operand, high: Operand) -> None:
        if isinstance(low, Reference) and isinstance(high, Reference):
            self._bounds[low.name, high.name] = None
            low_value, high_value = self.literal(low), self.literal(high)
            problem = low_value and high_value and bounds_problem(low_value, high_value)
            if problem:
                self.problems.note(OPERAND, problem)

    def _check_ordered(self, operator: str, *operands: Operand) -> None:
        for operand in operands:
            type_name = self.type_of(operand)
            if type_name is not None and type_name not in _ORDERED_TYPES:
                self.wrong_type(operator, type_name)

    def _check_distinct(self, operator: str, first: Operand, *rest: Operand) -> None:
        if isinstance(first, Path) and first in rest:
            self.problems.note(
                SAME_OPERANDS,
                "The first operand must be distinct from the remaining operands for this operator or function; "
                f"operator: {operator}, first operand: {first}",
            )

    def _check_uses(self, *operands: Operand) -> None:
        """Note functions that are used as a value: only size() has one."""
        for operand in operands:
            if isinstance(operand, Call) and operand.function != "size":
                self._misused(operand)

    def _check_alone(self, call: Call) -> None:
        if call.function == "size":
            self._misused(call)
        self.problems.settle()

    def _misused(self, call: Call) -> None:
        self.problems.note(
            FUNCTION_USE,
            f"The function is not allowed to be used this way in an expression; function: {call.function}",
        )


def bounds_problem(low: Value, high: Value) -> str | None:
    """Return the error text for invalid bounds of BETWEEN, or None."""
    if low.keys() != high.keys():
        rule = "requires same data type for lower and upper bounds"
    elif (ordered(low, high) or 0) > 0:
        rule = "requires upper bound to be greater than or equal to lower bound"
    else:
        return None
    return (
        f"The BETWEEN operator {rule}; lower bound operand: AttributeValue: {_shown(low)}, "
        f"upper bound operand: AttributeValue: {_shown(high)}"
    )


def type_name_problem(value: Value) -> str | None:
    """Return the error text for an invalid second operand of attribute_type, or None."""
    name = value["S"]
    if name in _TYPES:
        return None
    return (
        f"Invalid attribute type name found; type: {name[:_SHOWN]}, "
        "valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
    )


def _shown(value: Value) -> str:
    ((type_name, content),) = value.items()
    return f"{{{type_name}:{str(content)[:_SHOWN]}}}"


def _operand(node: SyntaxNode) -> Operand:
    assert isinstance(node, Path | Reference | Call)
    return node


def _condition(node: SyntaxNode) -> ConditionNode:
    assert isinstance(node, Comparison | Between | Among | Call | Not | And | Or)
    return node
