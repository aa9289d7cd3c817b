"""PartiQL: any text is refused in words, or compiles to requests that the classic parsers accept or refuse in words."""

from typing import Any

from foldb.expressions.partiql import Select, action_of, bind, reads_of, request_of
from foldb.expressions.partiql.parser import _StatementParser
from foldb.model.errors import ValidationError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN
from foldb.server.api import parameters
from foldb.server.api.operations.transact_write_items import parse_action
from tests.verification.fuzz.target import Target

TABLE = KeySchema((KeyAttribute("p", "S"),), (KeyAttribute("q", "N"),))
PARAMETERS: tuple[dict[str, Any], ...] = (
    {"S": "a"},
    {"N": "1"},
    {"SS": ["a"]},
    {"L": [{"N": "1"}]},
    {"M": {"a": {"NULL": True}}},
)

TEXTS = (
    "SELECT * FROM \"abc\" WHERE p = 'a' AND q BETWEEN 1 AND 2.5e0 ORDER BY q DESC",
    "SELECT a.b[0], \"c\" FROM abc.gsi WHERE p IN ['a', ?] AND (NOT n = 1 OR size(s) > 3); -- note",
    "SELECT * FROM abc WHERE p = 'a' AND (q = 1 OR q = 5 AND x IS MISSING) OR p = 'b' AND q > 1",
    "INSERT INTO abc VALUE {'p': 'it''s', 'q': -1, 'm': {'l': [1, null, true, {}]}, 's': <<1, .5>>}",
    "UPDATE abc SET a = a + 1, l = list_append(l, [2]) REMOVE b[1] SET s = set_add(s, <<'x'>>) "
    "WHERE p = 'a' AND q = 1 AND attribute_exists(a) = false RETURNING MODIFIED OLD *",
    "FROM abc WHERE p = ? AND q = ? SET a['b'] = c /* note */ REMOVE d",
    "DELETE FROM abc WHERE (p = 'a' AND q = 1) AND contains(n, 'x') RETURNING ALL OLD *",
    "EXISTS(SELECT * FROM abc WHERE p = 'a' AND q = 1 AND begins_with(n, 'x'))",
)
WORDS = (
    *("SELECT ", "INSERT INTO ", "UPDATE ", "DELETE ", "FROM ", "WHERE ", "VALUE ", "EXISTS(", "ORDER BY "),
    *("AND ", "OR ", "NOT ", "BETWEEN ", "IN ", "IS ", "MISSING", "NULL", "SET ", "REMOVE ", "RETURNING "),
    *("ALL OLD *", "DESC", "<<", ">>", "<>", "!=", "--", "/*", "*/", "''", '""', "attribute_type(", "size("),
    *("set_delete(", "list_append(", "p = 'a'", "q = 1", "1e126", "?", "{'a': ", "[", "abc"),
)


def judge_statement(data: bytes) -> None:
    """The bytes are the text of a statement, cut to the length that the service model allows."""
    try:
        compile_statement(data.decode("utf-8", "replace")[:8192])
    except ValidationError:
        return


def compile_statement(text: str) -> None:
    """Compile a statement to all of its requests, without the cache of statements.

    Raises:
        ValidationError: The text is no statement, or a request of it is refused.
    """
    statement = _StatementParser(text, MODERN).statement()
    values = [PARAMETERS[nth % len(PARAMETERS)] for nth in range(statement.parameter_count)]
    bound = bind(statement, values)
    if not isinstance(bound.kind, Select):
        action = action_of(bound, TABLE)
        parse_action(action.kind, action.request, MODERN, "UpdateItem")
        return
    found = reads_of(bound, bound.kind, TABLE, composite=bound.kind.index is not None)
    # A page compiles its reads one after the other, so one is enough.
    request = request_of(found.reads[0], bound, bound.kind, forward=found.forward)
    parameters.check(request, MODERN)
    parameters.read(request, MODERN)


TARGETS = (
    Target(
        "statements",
        judge_statement,
        [text.encode() for text in TEXTS],
        WORDS,
        steps=(6000, 150),
        bytes_max=8192,
    ),
)
