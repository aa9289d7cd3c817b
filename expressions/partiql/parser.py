"""Parse PartiQL statements.

    statement ::= SELECT columns FROM source [WHERE or] [ORDER BY key {"," key}]
                | INSERT INTO source VALUE struct
                | UPDATE source change+ [WHERE or] [returning] | FROM source [WHERE or] change+ [returning]
                | DELETE FROM source [WHERE or] [returning]
                | EXISTS "(" select ")"
    change    ::= SET path "=" sum {"," path "=" sum} | REMOVE path
    returning ::= RETURNING (ALL | MODIFIED) (OLD | NEW) "*"
    or        ::= and {OR and}
    and       ::= not {AND not}
    not       ::= {NOT} relation
    relation  ::= sum {comparator sum | [NOT] BETWEEN sum AND sum | [NOT] IN list | IS [NOT] type}
    sum       ::= term {("+" | "-") term}
    term      ::= "(" or ")" | function | path | literal | "?"

One token decides each step, so the time is linear in the text. Parentheses and functions nest at most 64 times, and
literals as deep as an item: no text exhausts the stack.
"""

from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

from ...model.errors import ValidationError
from ...model.limits import Limits
from ...model.values import Value
from ..plans import PlanCache
from ..tree import (
    AddAction,
    Among,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    ConditionNode,
    DeleteAction,
    Not,
    Operand,
    Or,
    Path,
    Reference,
    RemoveAction,
    SetAction,
    UpdateAction,
)
from .literals import LiteralReader
from .statements import Delete, Exists, Insert, Kind, OrderKey, Select, Statement, Update
from .tokens import END, NAME, NUMBER, QUOTED, STRING, SYMBOL

Node: TypeAlias = Operand | ConditionNode

_NESTING_MAX: Final = 64
_HIGHEST_INDEX: Final = 2**31 - 1
_COMPARATORS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORD_OPERATORS: Final = frozenset({"AND", "OR", "IS", "IN", "BETWEEN", "LIKE"})
_CONDITION_FUNCTIONS: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_UPDATE_FUNCTIONS: Final = {"list_append": 2}
_SET_FUNCTIONS: Final = ("set_add", "set_delete")

# The types of IS that DynamoDB has, and those that only PartiQL has.
_TYPES: Final = {
    "NULL": "NULL",
    "BOOL": "BOOL",
    "BOOLEAN": "BOOL",
    "BLOB": "B",
    "STRING": "S",
    "NUMERIC": "N",
    "STRUCT": "M",
    "TUPLE": "M",
    "LIST": "L",
}
_ONLY_PARTIQL = """
    ANY BAG BIGINT CHAR CHARACTER CLOB DATE DEC DECIMAL DOUBLE FLOAT INT INT2 INT4 INT8 INTEGER INTEGER2 INTEGER4
    INTEGER8 REAL SEXP SMALLINT SYMBOL TIME TIMESTAMP VARCHAR
"""
_OTHER_TYPES: Final = frozenset(_ONLY_PARTIQL.split())
_SECOND_WORDS: Final = {"DOUBLE": "PRECISION", "CHARACTER": "VARYING"}
_RETURNING: Final = {
    ("ALL", "OLD"): "ALL_OLD",
    ("ALL", "NEW"): "ALL_NEW",
    ("MODIFIED", "OLD"): "UPDATED_OLD",
    ("MODIFIED", "NEW"): "UPDATED_NEW",
}

_ALIAS = "Aliasing is not supported"
_INCOMPLETE = "Missing right-hand side expression of infix operator"
_LEFTOVER = "Unexpected token after expression"
_NO_BOOLEAN = "WHERE clause must contain an expression that resolves to a boolean"
_NO_EXPRESSION = "The arguments to AND/OR must be Expressions"
_CONDITION_OPERATOR = "Unsupported operator in Condition Expression. Operator: {}"
_UPDATE_OPERATOR = "Unsupported operator in Update Expression. Operator: {}"


_STATEMENTS: Final = PlanCache[Statement](capacity=512)
# Longer statements are rare and not cached: a thousand of them would need too much memory.
_CACHED_CHARACTERS: Final = 1024


def parse(text: str, limits: Limits) -> Statement:
    """Parse a statement, or return it from the cache.

    Raises:
        ValidationError: The text is no statement that DynamoDB has.
    """
    statement = _STATEMENTS.get((text, limits.name))
    if statement is None:
        statement = _StatementParser(text, limits).statement()
        if len(text) <= _CACHED_CHARACTERS:
            _STATEMENTS.put((text, limits.name), statement)
    return statement


class _Parser(LiteralReader):
    """Parses paths, operands and conditions."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text, limits)
        self.literals: dict[str, Value] = {}
        self.parameter_count = 0
        self._depth = 0
        self._is_update = False

    def path(self) -> Path:
        parts: list[str | int] = [self._name("Unexpected term")]
        while True:
            if self.skip("."):
                if self.token.text == "*" and self.token.kind == SYMBOL:
                    raise ValidationError("Unpivot path component like a.*.b are not supported")
                parts.append(self._name("Invalid path dot component"))
            elif self.skip("["):
                parts.append(self._step())
                self.expect("]", "RIGHT_BRACKET")
            else:
                return Path(tuple(parts))

    def _name(self, problem: str) -> str:
        token = self.token
        if token.kind not in (NAME, QUOTED) or token.is_keyword:
            self.fail(problem)
        if not token.text:
            raise ValidationError("Path component cannot be an empty string")
        return self.advance().text

    def _step(self) -> str | int:
        """Return the list index or the member in brackets."""
        token = self.token
        if token.kind == STRING:
            return self.advance().text
        if token.text == "*":
            raise ValidationError("Wildcard path component like a[*].b are not supported")
        sign = "-" if self.skip("-") else ""
        token = self.token
        if token.kind != NUMBER:
            self.fail("Unexpected term")
        self.advance()
        text = sign + token.text
        index = int(token.text) if token.text.isdigit() and len(token.text) <= 10 else _HIGHEST_INDEX + 1
        if index > _HIGHEST_INDEX or (sign and index):
            raise ValidationError(f"List index is not within the allowable range; index: [{text}] {token.at}")
        return index

    # Conditions

    def condition(self) -> ConditionNode:
        """Parse the condition of a WHERE."""
        return self._as_condition(self._or(), _NO_BOOLEAN)

    def _or(self) -> Node:
        return self._infix("OR", self._and, Or)

    def _and(self) -> Node:
        return self._infix("AND", self._not, And)

    def _infix(self, word: str, read: Callable[[], Node], join: type[And] | type[Or]) -> Node:
        node = read()
        if self.token.word != word or self.token.kind != NAME:
            return node
        terms = [self._as_condition(node, _NO_EXPRESSION)]
        while self.skip_word(word):
            self._require_operand()
            terms.append(self._as_condition(read(), _NO_EXPRESSION))
        return join(tuple(terms))

    def _not(self) -> Node:
        count = 0
        while self.skip_word("NOT"):
            count += 1
        node = self._relation()
        if not count:
            return node
        condition = self._as_condition(node, "The argument to NOT must be a Type or Expression")
        return Not(condition) if count % 2 else condition

    def _relation(self) -> Node:
        node = self._sum()
        while True:
            token = self.token
            operator = _COMPARATORS.get(token.text) if token.kind == "symbol" else None
            if operator is not None:
                self.advance()
                self._require_operand()
                node = self._compare(operator, node, self._sum())
            elif self.skip_word("IS"):
                node = self._is_type(node)
            elif self._word_relation_follows():
                node = self._word_relation(node)
            else:
                return node

    def _word_relation_follows(self) -> bool:
        word = self.peek().word if self.token.word == "NOT" else self.token.word
        return self.token.kind == NAME and word in ("BETWEEN", "IN", "LIKE")

    def _word_relation(self, left: Node) -> ConditionNode:
        negated = self.skip_word("NOT")
        word = self.advance().word
        node: ConditionNode
        if word == "LIKE":
            raise ValidationError(_CONDITION_OPERATOR.format("LIKE"))
        if word == "BETWEEN":
            low = self._operand(self._sum())
            if not self.skip_word("AND"):
                self.fail("Expected AND")
            node = Between(self._operand(left), low, self._operand(self._sum()))
        else:
            node = Among(self._operand(left), self._choices(left))
        return Not(node) if negated else node

    def _choices(self, left: Node) -> tuple[Operand, ...]:
        closing, name = ("]", "RIGHT_BRACKET") if self.token.text == "[" else (")", "RIGHT_PAREN")
        choices: list[Operand] = []
        if self.skip("[") or self.skip("("):
            while self.token.text != closing or self.token.kind != "symbol":
                choices.append(self._operand(self._sum()))
                if not self.skip(","):
                    break
            self.expect(closing, name)
        if not choices or not isinstance(left, Path | Call):
            raise ValidationError(
                "IN operator must have a left hand argument of type Variable Reference and right hand argument of "
                "type Seq with at least one member"
            )
        return tuple(choices)

    def _is_type(self, left: Node) -> ConditionNode:
        negated = self.skip_word("NOT")
        token = self.token
        word = token.word if token.kind == NAME else ""
        if word not in _TYPES and word not in _OTHER_TYPES and word != "MISSING":
            self.fail("Expected type name")
        self.advance()
        self.skip_word(_SECOND_WORDS.get(word, ""))
        if word in _OTHER_TYPES:
            raise ValidationError(
                f"Unsupported data type for IS operator: {word}. Supported data types are "
                "[MISSING, NULL, BOOLEAN, BLOB, STRING, NUMERIC, STRUCT, TUPLE, LIST]"
            )
        if not isinstance(left, Path):
            raise ValidationError(
                "The left hand side argument to IS must be a Variable Reference, Literal, or Path"
            )
        if word == "MISSING":
            return Call("attribute_exists" if negated else "attribute_not_exists", (left,))
        test = Call("attribute_type", (left, self._literal({"S": _TYPES[word]})))
        return Not(test) if negated else test

    def _compare(self, operator: str, left: Node, right: Node) -> ConditionNode:
        if _is_condition(left) or _is_condition(right):
            return self._compare_with_boolean(operator, left, right)
        return Comparison(operator, self._operand(left), self._operand(right))

    def _compare_with_boolean(self, operator: str, left: Node, right: Node) -> ConditionNode:
        """Return `condition = true` and its like as a condition; the classic expressions have no such comparison."""
        node, other = (left, right) if _is_condition(left) else (right, left)
        value = self.literals.get(other.name) if isinstance(other, Reference) else None
        if operator not in ("=", "<>"):
            raise ValidationError(
                "Incorrect operand type for operator or function; "
                f"operator or function: {operator}, operand type: BOOL"
            )
        if value is None or "BOOL" not in value:
            raise ValidationError(_CONDITION_OPERATOR.format(operator))
        condition = self._as_condition(node, _NO_BOOLEAN)
        return condition if value["BOOL"] == (operator == "=") else Not(condition)

    # Operands

    def _sum(self) -> Node:
        node = self._term()
        while self.token.kind == "symbol" and self.token.text in ("+", "-", "*", "/", "%", "||"):
            operator = self.advance().text
            if not self._is_update:
                raise ValidationError(_CONDITION_OPERATOR.format(operator))
            if operator not in ("+", "-") or isinstance(node, Arithmetic):
                raise ValidationError(_UPDATE_OPERATOR.format(operator))
            self._require_operand()
            right = self._operand(self._term())
            if isinstance(right, Arithmetic):
                raise ValidationError(_UPDATE_OPERATOR.format(right.operator))
            node = Arithmetic(operator, self._operand(node), right)
        return node

    def _term(self) -> Node:
        token = self.token
        if token.kind == QUOTED or (token.kind == NAME and not token.is_keyword):
            if token.kind == NAME and self.peek().text == "(":
                return self._function()
            return self.path()
        if token.text == "(" and token.kind == "symbol":
            self._enter()
            self.advance()
            node = self._or()
            self.expect(")", "RIGHT_PAREN")
            self._depth -= 1
            return node
        if token.text == "?" and token.kind == "symbol":
            self.advance()
            self.parameter_count += 1
            return Reference(f":p{self.parameter_count - 1}")
        if self.at_literal():
            return self._literal(self.literal("root", 1))
        if token.kind == END or token.text in (")", "]", "}", ">>", ",", ";", ":", "."):
            self.fail("Unexpected term")
        if token.kind != NAME or token.word in _WORD_OPERATORS:
            self.fail("Unexpected operator")
        if token.word == "MISSING":
            raise ValidationError("MISSING must be compared using IS operator")
        if self.peek().text != "(":
            self.fail("Unexpected keyword")
        return self._function()

    def _function(self) -> Call:
        token = self.advance()
        name = token.text.lower()
        count = (_UPDATE_FUNCTIONS if self._is_update else _CONDITION_FUNCTIONS).get(name)
        if count is None:
            raise ValidationError(f"Unrecognized function: {name} {token.at}")
        operands = self.arguments()
        if len(operands) != count:
            raise ValidationError(
                "Incorrect number of operands for operator or function; "
                f"operator or function: {name}, number of operands: {len(operands)}"
            )
        return Call(name, operands)

    def arguments(self) -> tuple[Operand, ...]:
        """Parse the operands of a function, with their parentheses."""
        self._enter()
        self.expect("(", "LEFT_PAREN")
        operands: list[Operand] = []
        while self.token.text != ")" or self.token.kind != "symbol":
            operands.append(self._operand(self._or()))
            if not self.skip(","):
                break
        self.expect(")", "RIGHT_PAREN")
        self._depth -= 1
        return tuple(operands)

    def sum(self) -> Operand:
        """Parse the right side of a SET."""
        self._require_operand()
        return self._operand(self._or())

    def _literal(self, value: Value) -> Reference:
        reference = Reference(f":v{len(self.literals)}")
        self.literals[reference.name] = value
        return reference

    def _operand(self, node: Node) -> Operand:
        if _is_condition(node) or not isinstance(node, Path | Reference | Call | Arithmetic):
            text = _UPDATE_OPERATOR if self._is_update else _CONDITION_OPERATOR
            raise ValidationError(text.format(_operator_name(node)))
        return node

    def _as_condition(self, node: Node, problem: str) -> ConditionNode:
        if not _is_condition(node) or isinstance(node, Path | Reference | Arithmetic):
            raise ValidationError(problem)
        return node

    def _require_operand(self) -> None:
        """Refuse the end of the statement after an operator."""
        if self.token.kind == END:
            self.fail(_INCOMPLETE)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _NESTING_MAX:
            self.fail("Too many nested expressions")


class _StatementParser(_Parser):
    """Parses statements."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text, limits)
        self._sets: list[tuple[str, str, str]] = []

    def statement(self) -> Statement:
        readers: dict[str, Callable[[], Kind]] = {
            "SELECT": self._select,
            "INSERT": self._insert,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "FROM": self._from_update,
            "EXISTS": self._exists,
        }
        read = readers.get(self.token.word) if self.token.kind == NAME else None
        if read is None:
            self._refuse_expression()
        self.advance()
        kind = read()
        self.skip(";")
        if self.token.kind != END:
            self.fail(_LEFTOVER)
        return Statement(kind, self.literals, self.parameter_count, tuple(self._sets))

    def _refuse_expression(self) -> NoReturn:
        """Refuse a text that begins with no keyword of a statement."""
        if self.peek().word == "IS" and self.token.kind == NAME and not self.token.is_keyword:
            raise ValidationError("Unsupported operation: IsType")
        self.fail("Expected data manipulation")

    def _select(self) -> Select:
        for word in ("DISTINCT", "VALUE", "PIVOT"):
            if self.skip_word(word):
                raise ValidationError("Select projection doesn't support value or pivot keywords")
        columns = self._columns()
        if not self.skip_word("FROM"):
            self.fail("Expected FROM")
        table, index = self._source("Unexpected term")
        if self.token.text == ",":
            raise ValidationError("Only select from a single table or index is supported.")
        self._refuse_alias()
        where = self._where()
        order: list[OrderKey] = []
        if self.skip_word("ORDER"):
            if not self.skip_word("BY"):
                self.fail("Expected BY")
            order.append(self._order_key())
            while self.skip(","):
                order.append(self._order_key())
        elif self.token.kind == NAME and self.token.word in ("LIMIT", "GROUP", "HAVING", "OFFSET"):
            raise ValidationError(f"Unsupported clause: {self.token.word} {self.token.at}")
        return Select(table, index, columns, where, tuple(order))

    def _columns(self) -> tuple[Path, ...]:
        if self.skip("*"):
            if self.token.text == ",":
                raise ValidationError(
                    "Other attributes should not be present in the projection when '*' is used."
                )
            return ()
        columns: list[Path] = []
        labels: dict[str, None] = {}
        while True:
            token = self.token
            if token.kind == NAME and self.peek().text == "(":
                raise ValidationError(f"Unexpected path component {token.at}")
            column = self.path()
            if self.token.word == "AS" and self.token.kind == NAME:
                raise ValidationError(_ALIAS)
            label = column_label(column)
            if label in labels:
                raise ValidationError(f"Duplicate identifiers in select clause: {label}")
            labels[label] = None
            columns.append(column)
            if not self.skip(","):
                return tuple(columns)

    def _source(self, problem: str) -> tuple[str, str | None]:
        """Parse the name of a table, and of an index."""
        parts = [self._name(problem)]
        while self.skip("."):
            parts.append(self._name("Invalid path dot component"))
        if len(parts) > 2:
            raise ValidationError("A path may contain at most 2 components in the FROM clause")
        return parts[0], parts[1] if len(parts) > 1 else None

    def _refuse_alias(self) -> None:
        token = self.token
        if token.kind == QUOTED or (token.kind == NAME and (not token.is_keyword or token.word == "AS")):
            raise ValidationError(_ALIAS)

    def _where(self) -> ConditionNode | None:
        self._is_update = False
        return self.condition() if self.skip_word("WHERE") else None

    def _order_key(self) -> OrderKey:
        path = self.path()
        if len(path.parts) > 1:
            raise ValidationError("Argument to ORDER BY must be of type VariableReference. Type: Path")
        is_descending = self.skip_word("DESC")
        if not is_descending:
            self.skip_word("ASC")
        return OrderKey(path.attribute, is_descending)

    def _insert(self) -> Insert:
        if not self.skip_word("INTO"):
            self.fail("Expected INTO")
        table, index = self._source("Expected identifier for simple path")
        if index is not None:
            raise ValidationError(
                "FROM clause may only contain a single table name in data manipulation statements"
            )
        if self.token.kind in (NAME, QUOTED) and self.token.word != "VALUE":
            self.fail(_LEFTOVER)
        if not self.skip_word("VALUE"):
            raise ValidationError(
                "Unsupported operation: Inserting multiple items in a single statement is not supported, use "
                '"INSERT INTO tableName VALUE item" instead'
            )
        if not self.skip("{"):
            raise ValidationError(
                "Unsupported format in item expression. Please use struct format {...} to express item values for "
                "insert statement."
            )
        item: dict[str, Reference] = {}
        while self.token.text != "}" or self.token.kind != "symbol":
            name = self.member_name(item, "root")
            if self.token.text == "?" and self.token.kind == "symbol":
                self.advance()
                item[name] = Reference(f":p{self.parameter_count}")
                self.parameter_count += 1
            else:
                item[name] = self._literal(self.literal("root", 1))
            if not self.skip(","):
                break
        self.expect("}", "RIGHT_CURLY")
        if self.token.word == "RETURNING" and self.token.kind == NAME:
            raise ValidationError("RETURNING is not supported in INSERT")
        return Insert(table, tuple(item.items()))

    def _update(self) -> Update:
        table, index = self._source("Expected identifier for simple path")
        self._refuse_alias()
        actions = self._changes()
        where = self._where()
        return Update(table, index, actions, where, self._returning())

    def _from_update(self) -> Update:
        table, index = self._source("Unexpected term")
        self._refuse_alias()
        where = self._where()
        return Update(table, index, self._changes(), where, self._returning())

    def _changes(self) -> tuple[UpdateAction, ...]:
        self._is_update = True
        actions: list[UpdateAction] = []
        while True:
            if self.skip_word("SET"):
                actions.append(self._assignment())
                while self.skip(","):
                    actions.append(self._assignment())
            elif self.skip_word("REMOVE"):
                actions.append(RemoveAction(self.path()))
            elif actions:
                return tuple(actions)
            else:
                self.fail("Expected data manipulation")

    def _assignment(self) -> UpdateAction:
        target = self.path()
        self.expect("=", "EQ")
        token = self.token
        name = token.text.lower()
        if token.kind == NAME and name in _SET_FUNCTIONS and self.peek().text == "(":
            return self._set_function(target, name)
        return SetAction(target, self.sum())

    def _set_function(self, target: Path, name: str) -> UpdateAction:
        function = self.advance()
        first = self.peek()
        operands = self.arguments()
        if len(operands) != 2:
            raise ValidationError(f"{name.upper()} must have exactly two arguments {function.at}")
        if operands[0] != target:
            raise ValidationError(
                f"The first argument to {name.upper()} must equal the assignment value {function.at}"
            )
        added = operands[1]
        if not isinstance(added, Reference):
            raise ValidationError(
                f"The second argument to {name.upper()} must be a value with type SET {first.at}"
            )
        self._sets.append((added.name, name.upper(), first.at))
        return AddAction(target, added) if name == "set_add" else DeleteAction(target, added)

    def _delete(self) -> Delete:
        if not self.skip_word("FROM"):
            self.fail("Expected FROM")
        table, index = self._source("Expected identifier for simple path")
        self._refuse_alias()
        where = self._where()
        returning = self._returning()
        if returning not in ("NONE", "ALL_OLD"):
            words = next(" ".join(words) for words, value in _RETURNING.items() if value == returning)
            raise ValidationError(
                f"Invalid returning clause: RETURNING {words} *. "
                "Only RETURNING ALL OLD * is allowed in DELETE statements."
            )
        return Delete(table, index, where, returning)

    def _returning(self) -> str:
        if not self.skip_word("RETURNING"):
            return "NONE"
        words = (self.token.word, self.peek().word)
        if words not in _RETURNING:
            self.fail("Expected ALL or MODIFIED, and OLD or NEW, after RETURNING")
        self.advance()
        self.advance()
        if not self.skip("*"):
            raise ValidationError("Expected '*' after ( MODIFIED | ALL ) ( NEW | OLD ) in RETURNING clause")
        if self.token.text == ",":
            raise ValidationError("Invalid syntax with multiple returning elements in RETURNING clause")
        return _RETURNING[words]

    def _exists(self) -> Exists:
        self.expect("(", "LEFT_PAREN")
        if not self.skip_word("SELECT"):
            self.fail("Expected data manipulation")
        select = self._select()
        self.expect(")", "RIGHT_PAREN")
        return Exists(select)


def column_label(path: Path) -> str:
    """Return the name of a selected path in the answer: its last name, with the indexes after it.

    >>> column_label(Path(("a", "b", 0, 1)))
    'b[0][1]'
    """
    parts = list(path.parts)
    indexes = ""
    while isinstance(parts[-1], int):
        indexes = f"[{parts.pop()}]{indexes}"
    return f"{parts[-1]}{indexes}"


def _is_condition(node: Node) -> bool:
    if isinstance(node, Call):
        return node.function not in ("size", "list_append")
    return not isinstance(node, Path | Reference | Arithmetic)


def _operator_name(node: Node) -> str:
    match node:
        case Comparison(operator):
            return operator
        case Call(function):
            return function
        case _:
            return {And: "AND", Or: "OR", Not: "NOT", Between: "BETWEEN", Among: "IN"}[type(node)]
