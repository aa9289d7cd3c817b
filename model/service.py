"""Validate requests against DynamoDB's own service description.

`service.json` holds the published input shapes of DynamoDB and DynamoDB Streams: members, lengths, ranges, patterns,
enums. The first request of an operation compiles its shape to closures. A check then costs about a microsecond, and
reports all violations at once, as DynamoDB does:

    2 validation errors detected: Value 'x' at 'returnValues' failed to satisfy constraint: ...; Value null at ...

A wrong JSON type is another error (SerializationException), which ends the check at once. The attribute values of
items, keys and expressions are not checked here: see `values.py`.
"""

import pkgutil
import re
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, Final, TypeAlias

import orjson

from .errors import SerializationError, UnknownOperationError, ValidationError

# Appends the violations of a value to the list. The text is the path of the structure around it.
Check: TypeAlias = Callable[[Any, str, list[str]], None]
Shape: TypeAlias = dict[str, Any]

_MODEL: Final = orjson.loads(pkgutil.get_data(__package__, "service.json") or b"")
_INPUTS: dict[str, str] = _MODEL["inputs"]
ABSENT: frozenset[str] = frozenset(_MODEL["absent"])
"""The operations of DynamoDB and DynamoDB Streams that foldb does not implement."""
OPERATIONS: frozenset[str] = ABSENT.union(_INPUTS)
"""All operations of DynamoDB and DynamoDB Streams."""
_SHAPES: dict[str, Shape] = _MODEL["shapes"]

_PACKAGE: Final = "com.amazonaws.dynamodb.v20120810"
_JAVA: Final = {
    "string": "String",
    "boolean": "Boolean",
    "integer": "Integer",
    "long": "Long",
    "double": "Double",
    "timestamp": "Date",
}
PYTHON_PATTERNS: Final = {
    # A run of letters has one division, so a match takes linear time.
    r"^[a-z0-9A-Z]+[\.\-\w]*[a-z0-9A-Z]+$": "[a-z0-9A-Z][a-z0-9A-Z_.-]*[a-z0-9A-Z]",
    r"\p{Print}+": r"[\x20-\x7e]+",
    r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]*": (
        r"[\u0020-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF\r\n\t]*"
    ),
}
"""Patterns of members that Python writes in another way."""
_TOKENS: Final = {"str": "STRING_VALUE", "int": "NUMBER_VALUE", "float": "DECIMAL_VALUE"}

_PYTHON: Final = {"string": str, "structure": dict, "map": dict, "list": list}
_TABLE_NAME: Shape = {"name": "TableArn", "type": "string"}
_UNBOUNDED: Final = 1 << 62

# DynamoDB stops at this number.
_VIOLATIONS_MAX: Final = 10
# Characters of a value in an error message; the rest is left out.
_SHOWN_MAX: Final = 256

TABLE_NAME_PATTERN: Final = "[a-zA-Z0-9_.-]+"
_is_table_name = re.compile("[a-zA-Z0-9_.-]{3,255}").fullmatch
_is_table_arn = re.compile("arn:[^:]*:dynamodb:[^:]*:[0-9]*:table/[a-zA-Z0-9_.-]{3,255}").fullmatch
_has_table_characters = re.compile(TABLE_NAME_PATTERN).fullmatch

_NOT_EMPTY: Final = "Member must have length greater than or equal to 1"
_MAP_KEYS: Final = (
    "Map keys must satisfy constraint: [Member must have length less than or equal to 255, "
    "Member must have length greater than or equal to 3, "
    f"Member must satisfy regular expression pattern: {TABLE_NAME_PATTERN}]"
)

# DynamoDB checks some members of these requests again, with texts of their own, when they have this member.
_SINGLE_WRITES: Final = {"PutItem": "Item", "UpdateItem": "Key", "DeleteItem": "Key"}
_RETURN_VALUES: Final = (
    "Failed to satisfy constraint: Member must satisfy enum value set: "
    "[ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"  # DynamoDB's own spelling
)
_OPERATORS: Final = (
    "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"  # also DynamoDB's own
)
# Unless another member is wrong, too.
_METRICS: Final = "ReturnItemCollectionMetrics can only be SIZE or NONE"
_CLIENT_REQUEST: Final = "Value at 'ClientRequestToken' "
# By member: its shape, and the text that such a write has for a value that is none of the enum.
_SINGLE_WRITE_TEXTS: Final = {
    "ReturnValues": ("ReturnValue", _RETURN_VALUES),
    "ConditionalOperator": ("ConditionalOperator", _OPERATORS),
    "ReturnItemCollectionMetrics": ("ReturnItemCollectionMetrics", _METRICS),
}
# Levels of JSON. DynamoDB reads a deeper write of one item with an older parser, which has the older texts.
OLDER_DEPTH: Final = 128

# Table operations have their own error text for a missing TableName.
_TABLE_OPERATIONS: Final = frozenset(
    name for name in _INPUTS if "Table" in name or "TimeToLive" in name or "ContinuousBackups" in name
)


def is_table(text: str) -> bool:
    """Return whether a text is the name of a table, or its ARN."""
    return bool(_is_table_name(text) or _is_table_arn(text))


_compiled: dict[str, Callable[[dict[str, Any]], None]] = {}


def validate(operation: str, body: dict[str, Any]) -> None:
    """Validate a request's body against the shape of its operation.

    Members that are null or unknown are removed from the body, because DynamoDB treats them like absent members.

    Raises:
        ValidationError: A member is missing, too long, too short, or not one of the allowed values.
        SerializationError: A member has the wrong JSON type.
        UnknownOperationError: The operation is unknown.
    """
    check = _compiled.get(operation)
    if check is None:
        check = _compiled[operation] = _operation(operation)
    check(body)


def attribute_values(operation: str, body: dict[str, Any]) -> Iterator[Any]:
    """Return the attribute values of a request, which `validate` does not check, in the order of the shapes."""
    return _values_in(_INPUTS[operation], body)


def _values_in(name: str, part: Any) -> Iterator[Any]:
    if name == "AttributeValue":
        yield part
        return
    shape = _SHAPES[name]
    match shape["type"], part:
        case "structure", dict():
            for member, kind in shape["members"].items():
                yield from _values_in(kind, part.get(member))
        case "map", dict():
            for member in part.values():
                yield from _values_in(shape["value"], member)
        case "list", list():
            for element in part:
                yield from _values_in(shape["member"], element)


def _operation(name: str) -> Callable[[dict[str, Any]], None]:
    if name not in _INPUTS:
        raise UnknownOperationError
    shape = _SHAPES[_INPUTS[name]]
    has_table = "TableName" in shape["required"]
    members = {
        member: kind for member, kind in shape["members"].items() if member != "TableName" or not has_table
    }
    check_members = _members({**shape, "members": members}, kept=("TableName",) if has_table else ())

    def check(body: dict[str, Any]) -> None:
        violations: list[str] = []
        check_members(body, "", violations)
        if has_table:
            table = body.get("TableName")
            if type(table) is not str or not _is_table_name(table):
                _check_own_table(name, table, body, violations)
        if violations:
            raise _error(_texts(name, body, violations))

    return check


def _texts(operation: str, body: dict[str, Any], violations: list[str]) -> list[str]:
    """Return the violations as the operation reports them.

    Raises:
        ValidationError: A Query has an unknown ConditionalOperator, which it reports before its other members.
    """
    if operation in _SINGLE_WRITES:
        return _of_single_write(operation, body, violations)
    if operation == "Query" and "ConditionalOperator" in body:
        operator = _enum_violation(
            _SHAPES["ConditionalOperator"], "conditionalOperator", body["ConditionalOperator"]
        )
        if operator in violations:
            raise ValidationError(_OPERATORS)
    # Malformed table names in a BatchWriteItem are reported after all other violations, a wrong token before them.
    if operation == "BatchWriteItem":
        return [violation for violation in violations if not violation.endswith(_MAP_KEYS)] or violations
    if operation == "TransactWriteItems":
        return [violation for violation in violations if violation.startswith(_CLIENT_REQUEST)] or violations
    return violations


def _of_single_write(operation: str, body: dict[str, Any], violations: list[str]) -> list[str]:
    """Return the violations with the texts that a write of one item has, unless it lacks its item or key."""
    if _SINGLE_WRITES[operation] not in body or is_deeper(body, OLDER_DEPTH):
        return violations
    texts = {
        _enum_violation(_SHAPES[shape], _spelled(name), body[name]): text
        for name, (shape, text) in _SINGLE_WRITE_TEXTS.items()
        if name in body and (name != "ReturnItemCollectionMetrics" or len(violations) == 1)
    }
    shown = [texts.get(violation, violation) for violation in violations]
    if operation == "UpdateItem" and _RETURN_VALUES in shown:
        return [_RETURN_VALUES]
    return shown


def _error(violations: list[str]) -> ValidationError:
    del violations[_VIOLATIONS_MAX:]
    errors = "error" if len(violations) == 1 else "errors"
    return ValidationError(f"{len(violations)} validation {errors} detected: {'; '.join(violations)}")


# Table names


def _check_own_table(operation: str, name: Any, body: dict[str, Any], violations: list[str]) -> None:
    """Check the request's own TableName. Violations of a TableName that is present are reported alone."""
    if name is None:
        if operation in _TABLE_OPERATIONS:
            raise ValidationError("The parameter 'TableName' is required but was not present in the request")
        violations.insert(
            _place_of_name(operation, violations),
            _violation("null", "tableName", "Member must not be null"),
        )
        return
    if type(name) is not str:
        raise _wrong_kind(name, _TABLE_NAME)
    if 0 < len(name) < 3 and operation != "CreateTable" and _has_table_characters(name):
        raise ValidationError("TableName must be at least 3 characters long and at most 255 characters long")
    if not name and operation in _SINGLE_WRITES:
        if _SINGLE_WRITES[operation] in body:
            raise _error([_bound_violation("", "tableName", _NOT_EMPTY, {"brief": True})])
        place = _place_of_name(operation, violations)
        violations[place:place] = _table_violations(name, "tableName", shortest=1)
        return
    wrong = _table_violations(name, "tableName", shortest=3 if operation == "CreateTable" else 1)
    if wrong:
        raise _error(wrong)


def _place_of_name(operation: str, violations: list[str]) -> int:
    """Return the place of the TableName's violation: first, in a write of one item after ReturnConsumedCapacity."""
    has_capacity = bool(violations) and "'returnConsumedCapacity'" in violations[0]
    return int(operation in _SINGLE_WRITES and has_capacity)


def _table_violations(name: str, path: str, shortest: int) -> list[str]:
    if _is_table_arn(name):
        return []
    if not name:
        return [_violation("''", path, _NOT_EMPTY)]
    constraints = []
    if not _has_table_characters(name):
        constraints.append(f"Member must satisfy regular expression pattern: {TABLE_NAME_PATTERN}")
    if len(name) < shortest:
        constraints.append(f"Member must have length greater than or equal to {shortest}")
    if len(name) > 255:
        constraints.append("Member must have length less than or equal to 255")
    return [_violation(f"'{_shorten(name)}'", path, constraint) for constraint in constraints]


def _table_name(field: str) -> Check:
    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not str:
            raise _wrong_kind(value, _TABLE_NAME)
        if not _is_table_name(value):
            violations.extend(_table_violations(value, path + field, shortest=1))

    return check


# Shapes


def _compile(name: str, field: str) -> Check:
    """Return the check of the member `field` (in DynamoDB's spelling: `tableName`) with the shape `name`."""
    if name == "TableArn":
        return _table_name(field)
    if name == "AttributeValue":
        return _unchecked
    shape = {**_SHAPES[name], "name": name}
    if (kind := _kind(name)) is not None:
        return _any_of_kind(kind, shape)
    match shape["type"]:
        case "structure":
            return _structure(shape, field)
        case "list":
            return _list(shape, field)
        case "map":
            return _map(shape, field)
        case "string":
            return _string(shape, field)
        case "timestamp" | "double":
            return _fraction(shape)
        case number:
            assert number in ("integer", "long"), number
            return _number(shape, field)


def _kind(name: str) -> type | None:
    """Return the Python type of a shape without further constraints, otherwise None."""
    shape = _SHAPES.get(name, {"type": "structure"})
    match shape["type"]:
        case "boolean":
            return bool
        case "string" if shape.keys().isdisjoint(("enum", "min", "max", "pattern")):
            return str
        case "map" if shape["value"] == "AttributeValue":
            return dict
    return None


def _unchecked(*_: object) -> None:
    """Accept every value: `values.py` checks attribute values."""


def _members(shape: Shape, kept: tuple[str, ...] = ()) -> Check:
    """Return the check of a structure's members. Members in `kept` are checked elsewhere."""
    checks = {name: _compile(kind, _spelled(name)) for name, kind in shape["members"].items()}
    known = frozenset((*checks, *kept))
    required = frozenset(shape["required"])
    # Most members need only a type check, and most requests have no other members.
    kinds = {name: _kind(kind) for name, kind in shape["members"].items()}
    kind_of = {**dict.fromkeys(kept, str), **kinds}.get
    find_check = {**dict.fromkeys(kept, _unchecked), **checks}.get

    def check(value: dict[str, Any], path: str, violations: list[str]) -> None:
        found = len(violations)
        absent = False
        for name, member in value.items():
            if type(member) is kind_of(name):
                continue
            check_member = find_check(name)
            if member is None or check_member is None:
                absent = True
            else:
                check_member(member, path, violations)
        if absent:
            _drop_absent(value, known)
        if len(violations) > found or not value.keys() >= required:
            violations[found:] = in_order(value, path)

    def in_order(value: dict[str, Any], path: str) -> list[str]:
        """Return the violations in the order of the shape instead of the request."""
        violations: list[str] = []
        for name, check_member in checks.items():
            if name in value:
                check_member(value[name], path, violations)
            elif name in required:
                violations.append(_violation("null", path + _spelled(name), "Member must not be null"))
        return violations

    return check


def _drop_absent(value: dict[str, Any], known: frozenset[str]) -> None:
    for name in [name for name, member in value.items() if member is None or name not in known]:
        del value[name]


def _structure(shape: Shape, field: str) -> Check:
    check_members = _members(shape)

    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not dict:
            raise _wrong_kind(value, shape)
        check_members(value, f"{path}{field}.", violations)

    return check


def _list(shape: Shape, field: str) -> Check:
    low, high = shape.get("min", 0), shape.get("max", _UNBOUNDED)
    check_elements = None if shape["member"] == "AttributeValue" else _elements(shape["member"], field)

    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not list:
            raise _wrong_kind(value, shape)
        found = len(violations)
        if check_elements is not None:
            check_elements(value, path, violations)
        if not low <= len(value) <= high:
            # The elements have the right types now, so the value can be printed.
            violations.insert(found, _length_violation(value, path + field, shape))

    return check


def _elements(name: str, field: str) -> Check:
    check_element = _compile(name, "member")
    expected = _PYTHON[_SHAPES[name]["type"]]

    def check(value: list[Any], path: str, violations: list[str]) -> None:
        for position, element in enumerate(value, 1):
            where = f"{path}{field}.{position}."
            if element is None:
                violations.append(_violation("null", f"{where}member", "Member must not be null"))
            elif type(element) is expected:
                check_element(element, where, violations)
            else:
                raise _wrong_kind_inside(element, name)

    return check


def _map(shape: Shape, field: str) -> Check:
    name = shape["value"]
    low, high = shape.get("min", 0), shape.get("max", _UNBOUNDED)
    expected = _PYTHON[_SHAPES[name]["type"]]
    check_member = _compile(name, "member") if expected is not list else _list_in_map(name, shape, field)
    is_by_table = name in ("KeysAndAttributes", "WriteRequests")

    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not dict:
            raise _wrong_kind(value, shape)
        found = len(violations)
        for key, member in value.items():
            where = f"{path}{field}.{key}."
            if member is None:
                violations.append(_violation("null", f"{where}member", "Member must not be null"))
                continue
            if type(member) is not expected:
                raise _wrong_kind_inside(member, name)
            check_member(member, where, violations)
        if is_by_table and not all(map(is_table, value)):
            # DynamoDB writes the map of a read as JSON.
            shown = _shorten(_text(value)) if name == "KeysAndAttributes" else _show(value, shape["name"])
            violations.insert(found, _violation(f"'{shown}'", path + field, _MAP_KEYS))
        if not low <= len(value) <= high:
            violations.insert(found, _length_violation(value, path + field, shape))

    return check


def _list_in_map(name: str, around: Shape, field: str) -> Check:
    """Return the check of a list that is a map's value. A length below the minimum violates a constraint of the map."""
    shape = _SHAPES[name]
    check_elements = _elements(shape["member"], "member")
    constraint = (
        f"Map value must satisfy constraint: [Member must have length less than or equal to {shape['max']}, "
        f"Member must have length greater than or equal to {shape['min']}]"
    )

    def check(value: list[Any], path: str, violations: list[str]) -> None:
        found = len(violations)
        check_elements(value, path, violations)
        if len(value) > shape["max"]:
            most = f"Member must have length less than or equal to {shape['max']}"
            violations.insert(found, _bound_violation("", f"{path}member", most, {"brief": True}))
        elif len(value) < shape["min"]:
            key = path.removeprefix(f"{field}.").removesuffix(".")
            wrong = _violation(f"'{_show({key: value}, around['name'])}'", field, constraint)
            violations.insert(found, wrong)

    return check


def _string(shape: Shape, field: str) -> Check:
    low, high = shape.get("min", 0), shape.get("max", _UNBOUNDED)
    if "enum" in shape:
        return _enum(shape, field)
    pattern: str | None = shape.get("pattern")
    matches = None if pattern is None else re.compile(PYTHON_PATTERNS.get(pattern, pattern)).fullmatch

    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not str:
            raise _wrong_kind(value, shape)
        if matches is not None and not matches(value):
            constraint = f"Member must satisfy regular expression pattern: {pattern}"
            violations.append(_violation(f"'{_shorten(value)}'", path + field, constraint))
        if not low <= len(value) <= high:
            violations.append(_length_violation(value, path + field, shape))

    return check


def _enum(shape: Shape, field: str) -> Check:
    allowed = frozenset(shape["enum"])

    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not str:
            raise _wrong_kind(value, shape)
        if value not in allowed:
            violations.append(_enum_violation(shape, path + field, value))

    return check


def _any_of_kind(expected: type, shape: Shape) -> Check:
    def check(value: Any, *_: object) -> None:
        if type(value) is not expected:
            raise _wrong_kind(value, shape)

    return check


def _fraction(shape: Shape) -> Check:
    """Return the check of a number with or without a fraction, such as a timestamp in seconds since 1970."""

    def check(value: Any, *_: object) -> None:
        if type(value) not in (int, float):
            raise _wrong_kind(value, shape)

    return check


def _number(shape: Shape, field: str) -> Check:
    low, high = shape.get("min", -(1 << 63)), shape.get("max", (1 << 63) - 1)

    def check(value: Any, path: str, violations: list[str]) -> None:
        if type(value) is not int:
            raise _wrong_kind(value, shape)
        if not low <= value <= high:
            constraint = (
                f"Member must have value greater than or equal to {low}"
                if value < low
                else f"Member must have value less than or equal to {high}"
            )
            violations.append(_bound_violation(str(value), path + field, constraint, shape))

    return check


# Words


def _spelled(name: str) -> str:
    return name[0].lower() + name[1:]


def _violation(value: str, path: str, constraint: str) -> str:
    return f"Value {value} at '{path}' failed to satisfy constraint: {constraint}"


def _enum_violation(shape: Shape, path: str, value: str) -> str:
    constraint = f"Member must satisfy enum value set: [{', '.join(shape['enum'])}]"
    return _violation(f"'{_shorten(value)}'", path, constraint)


def _length_violation(value: Any, path: str, shape: Shape) -> str:
    low, high = shape.get("min", 0), shape.get("max")
    bound = f"greater than or equal to {low}" if len(value) < low else f"less than or equal to {high}"
    return _bound_violation(_show(value, shape["name"]), path, f"Member must have length {bound}", shape)


def _bound_violation(value: str, path: str, constraint: str, shape: Shape) -> str:
    if not shape.get("brief"):
        return _violation(f"'{value}'", path, constraint)
    first, dot, last = path.rpartition(".")
    if last != "member":
        last = f"{last[:1].upper()}{last[1:]}"
    spelled = f"{first[:1].upper()}{first[1:]}{dot}{last}"
    return f"Value at '{spelled}' failed to satisfy constraint: {constraint}"


def _show(value: Any, name: str) -> str:
    """Return a value in the form of DynamoDB's errors: [Tag(key=k, value=v), ...]."""
    shape = _SHAPES.get(name)
    if shape is None:
        return f"{name}({_shorten(_text(value))})"
    if value is None:
        return "null"
    match shape["type"]:
        case "list":
            return f"[{_join(map(_show, value, repeat(shape['member'])))}]"
        case "map":
            inside = map(_show, value.values(), repeat(shape["value"]))
            return f"{{{_join(map('{}={}'.format, value, inside))}}}"
        case "structure":
            present = {member: kind for member, kind in shape["members"].items() if member in value}
            inside = map(_show, map(value.__getitem__, present), present.values())
            return f"{name}({_join(map('{}={}'.format, map(_spelled, present), inside))})"
        case _:
            return _shorten(str(value))


def _text(value: Any) -> str:
    """Return an unchecked attribute value as text; "..." if it is nested too deep for orjson."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return "..."


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether a JSON object or array has more levels of objects and arrays, itself included."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True


def _join(texts: Iterator[str]) -> str:
    shown: list[str] = []
    length = 0
    for text in texts:
        if length > _SHOWN_MAX:
            shown.append("...")
            break
        shown.append(text)
        length += len(text)
    return ", ".join(shown)


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _wrong_kind(value: Any, shape: Shape) -> SerializationError:
    kind = shape["type"]
    if type(value) is list and kind != "list":
        return SerializationError(f"Unrecognized collection type {_java_name(shape)}")
    if type(value) is dict:
        return SerializationError("Start of structure or map found where not expected")
    if kind not in _JAVA:
        return SerializationError("Unexpected field type")
    if type(value) is str and kind == "boolean":
        return SerializationError("Unexpected token received from parser")
    token = _TOKENS[type(value).__name__] if type(value) is not bool else f"{value!s}_VALUE".upper()
    return SerializationError(f"{token} cannot be converted to {_JAVA[kind]}")


def _wrong_kind_inside(value: Any, name: str) -> SerializationError:
    """Return the error for an element of a list or a value of a map with the wrong JSON type."""
    shape = {**_SHAPES[name], "name": name}
    if type(value) in (list, dict) or shape["type"] in _JAVA:
        return _wrong_kind(value, shape)
    return SerializationError("Unexpected value type in payload")


def _java_name(shape: Shape) -> str:
    if shape["type"] == "structure":
        return f"class {_PACKAGE}.{shape['name']}"
    if shape["type"] == "map":
        return f"java.util.Map<java.lang.String, {_java_name_inside(shape['value'])}>"
    return f"class java.lang.{_JAVA[shape['type']]}"


def _java_name_inside(name: str) -> str:
    shape = _SHAPES.get(name, {"type": "structure"})
    if shape["type"] == "list":
        return f"java.util.List<{_java_name_inside(shape['member'])}>"
    return _java_name({**shape, "name": name}).removeprefix("class ")
