"""How a request is spoiled: its JSON as a tree, and its bytes."""

import json
import random
from typing import Any

from tests.verification.hostile.any_request import COMPARISONS, NAMES, NUMBERS, STRINGS

# Three such texts are below the limit of a body: beyond it the connection is closed without an answer of the API.
LONGEST_TEXT = 1 << 20
ODD_NUMBERS = [0, -1, 1, 1.5, -0.0, 1e308, float("inf"), float("nan"), 2**31, 2**63, 2**64, 10**400]
ODD_TEXTS = [
    *STRINGS,
    *NUMBERS,
    *COMPARISONS,
    *(
        "NaN",
        "Infinity",
        "\uff11\uff12",
        "1e999999999",
        "1e-999999999",
        "1e99999999999999999999",
        "1_0",
        "0x1",
        "9" * 5000,
    ),
    *(
        "\ud800",
        "\u0000",
        "\u202e",
        "\ufeff",
        "e\u0301",
        "()",
        "((a))",
        "#",
        ":",
        "#n0.#n0",
        "[0]",
        "a[-1]",
        "a..b",
    ),
    *(
        "SET a = :v0 SET b = :v0",
        "a = b AND (",
        "NOT " * 200 + "a = b",
        "(" * 2000,
        "a." * 200 + "a",
        "SIZE(a)",
    ),
    *(
        "a" + "[0]" * 100,
        "a IN (" + ",".join(["a"] * 101) + ")",
        " OR ".join(["a = b"] * 400),
        "x" * 70_000,
        "x" * 70_000 + "!",
    ),
    *(
        "arn:aws:dynamodb:us-east-1:000000000000:table/odd-0",
        "arn:aws:dynamodb::::table/",
        "../../x",
        "odd-0\n",
    ),
    *("HASH", "RANGE", "S", "SS", "L", "ALL_NEW", "NONE", "SIZE", "====", "YQ", "Y Q=", "ÿ" * 300),
]
ODD_VALUES: list[Any] = [
    *({}, {"S": "a", "N": "1"}, {"S": None}, {"X": 1}, {"S": 1}, {"N": 1}, {"B": "?"}, {"BOOL": "true"}),
    *({"SS": []}, {"NS": ["1", "1.0"]}, {"BS": [""]}, {"L": None}, {"M": []}, {"L": {}}, {"NULL": False}),
    *(
        {"SS": ["a", "a"]},
        {"SS": [None]},
        {"L": [{}]},
        {"M": {"": {"S": "a"}}},
        {"NS": ["x"]},
        {"N": "1" * 39},
    ),
]
MEMBERS = [*NAMES, "S", "N", "M", "L", "Key", "Item", "TableName", "Put", "Get", "Limit", "UpdateExpression"]
BAD_BYTES = [
    b"\xff",
    b"\x00",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"NaN",
    b"{",
    b"]",
    b'"',
    b"\xef\xbb\xbf",
    b"1e999",
]


def spoil(dice: random.Random, body: Any, others: list[Any]) -> Any:
    """The body with one thing changed; pieces of `others` may come in."""
    body = copied(body)
    found = list(places(body))
    if not found:
        return _odd(dice, others)
    holder, place = dice.choice(found)
    there = holder[place]
    match dice.randrange(9):
        case 0:
            del holder[place]
        case 1:
            _double(dice, holder, place)
        case 2 | 3:
            holder[place] = _odd(dice, others)
        case 4:
            holder[place] = _deep(dice, there)
        case 5 if isinstance(there, str):
            holder[place] = _text(dice, there)
        case 6:
            _swap(dice, holder, place, found)
        case 7:
            holder[place] = [there] if dice.random() < 0.5 else {dice.choice(MEMBERS): there}
        case _:
            holder[place] = dice.choice(ODD_TEXTS if isinstance(there, str) else ODD_VALUES)
    return body


def written(dice: random.Random, body: Any) -> bytes:
    """The body's bytes, in one of the ways in which JSON can be written."""
    if dice.random() < 0.5:
        return json.dumps(body).encode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def spoil_bytes(dice: random.Random, data: bytes) -> bytes:
    """Return the bytes with invalid or unusual JSON inserted."""
    at = dice.randrange(len(data) + 1)
    match dice.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + dice.choice(BAD_BYTES) + data[at:]
        case 2:
            return data[:at] + dice.choice(BAD_BYTES) + data[at + 1 :]
        case 3:
            return data[:1] + b'"TableName":"odd-0",' + data[1:]
        case 4:
            depth = dice.choice([100, 1000, 100_000])
            return data[:1] + b'"x":' + b"[" * depth + b"]" * depth + b"," + data[1:]
        case _:
            depth = dice.choice([31, 250, 1020, 50_000])
            return data[:1] + b'"Key":' + b'{"M":' * depth + b"{}" + b"}" * depth + b"," + data[1:]


def copied(node: Any) -> Any:
    """Return a deep copy; `copy.deepcopy` has a lower limit of nesting than JSON."""
    return json.loads(json.dumps(node))


def places(node: Any) -> Any:
    """Every (holder, index or name) in a tree."""
    pending = [node] if isinstance(node, dict | list) else []
    while pending:
        holder = pending.pop()
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for place, there in pairs:
            yield holder, place
            if isinstance(there, dict | list):
                pending.append(there)


def _odd(dice: random.Random, others: list[Any]) -> Any:
    match dice.randrange(5):
        case 0:
            return dice.choice([None, True, False, [], {}, [None], {"": None}])
        case 1:
            return dice.choice(ODD_NUMBERS)
        case 2:
            return dice.choice(ODD_TEXTS)
        case 3:
            return copied(dice.choice(ODD_VALUES))
        case _:
            pieces = [holder[place] for holder, place in places(dice.choice(others))] if others else []
            return copied(dice.choice(pieces)) if pieces else None


def _double(dice: random.Random, holder: Any, place: Any) -> None:
    """Have a thing twice, or often."""
    times = dice.choice([1, 1, 2, 30, 120])
    if isinstance(holder, list):
        holder.extend(copied(holder[place]) for _ in range(times))
    else:
        for nth in range(times):
            holder[f"{place}{nth}"] = copied(holder[place])


def _deep(dice: random.Random, there: Any) -> Any:
    """Wrap a thing in as many levels as an item may have, or too many."""
    for _ in range(dice.choice([1, 1, 29, 30, 31, 32, 130])):
        there = dice.choice([{"M": {"a": there}}, {"L": [there]}])
    return there


def _text(dice: random.Random, text: str) -> str:
    at = dice.randrange(len(text) + 1)
    match dice.randrange(4):
        case 0:
            return text[:at] + dice.choice(ODD_TEXTS) + text[at:]
        case 1:
            return text[:at] + text[at + 1 :]
        case 2:
            repeated = text * dice.choice([2, 10, 300])
            return repeated[:LONGEST_TEXT]
        case _:
            return text[::-1] if dice.random() < 0.5 else text.swapcase()


def _swap(dice: random.Random, holder: Any, place: Any, found: list[tuple[Any, Any]]) -> None:
    """Put another piece of the same request here. A copy: a tree stays a tree."""
    other, there = dice.choice(found)
    holder[place] = copied(other[there])
