"""The door of attribute values, numbers and keys: refused in words, or canonical, and then every way there and back."""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import orjson

from foldb.model import keys, numbers
from foldb.model.errors import RequestError, ValidationError
from foldb.model.limits import LIMITS_2012, MODERN
from foldb.model.values import check_item, depth_of, dump, item_size, load
from tests.verification.fuzz.target import Target

# Wide enough to hold every sum exactly; the judge must not round either.
EXACT = Context(prec=1000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def judge_item(data: bytes) -> None:
    """The first byte chooses the limits; the rest is an item's JSON."""
    limits = (MODERN, LIMITS_2012)[data[0] & 1] if data else MODERN
    try:
        item = orjson.loads(data[1:])
        size = check_item(item, limits)
    except (orjson.JSONDecodeError, RequestError):
        return
    stored = dump(item)
    assert item == load(stored)
    assert size == item_size(item, limits)
    assert all(depth_of(value) <= limits.depth for value in item.values())
    again = load(stored)
    assert size == check_item(again, limits)
    assert stored == dump(again), "what is canonical stays as it is"


def judge_numbers(data: bytes) -> None:
    """Two texts, parted by a space."""
    found = []
    for text in data.decode("utf-8", "replace").split(" ", 1):
        try:
            canonical = numbers.canonical(text)
        except ValidationError:
            assert not fits(text), f"{text!r} was refused"
            continue
        assert fits(text), f"{text!r} was taken"
        assert canonical == numbers.canonical(canonical)
        assert canonical == numbers.decode(numbers.encode(canonical))
        assert exact(canonical) == exact(text)
        assert "e" not in canonical.lower()
        assert 1 <= numbers.size(canonical) <= 22
        found.append(canonical)
    if len(found) == 2:
        judge_pair(*found)


def judge_pair(a: str, b: str) -> None:
    """Order and sums of two canonical numbers."""
    left, right = exact(a), exact(b)
    order = (left > right) - (left < right)
    assert order == numbers.compare(a, b)
    encoded_a, encoded_b = numbers.encode(a), numbers.encode(b)
    assert order == (encoded_a > encoded_b) - (encoded_a < encoded_b)
    assert (order == 0) == (a == b)
    for calculate, result in (
        (numbers.add, EXACT.add(left, right)),
        (numbers.subtract, EXACT.subtract(left, right)),
    ):
        try:
            total = calculate(a, b)
        except ValidationError:
            assert not in_range(result)
        else:
            assert in_range(result)
            assert result == exact(total)
            assert total == numbers.canonical(total)


SYNTAX = frozenset("0123456789+-.eE")


def fits(text: str) -> bool:
    """Whether Decimal reads the text too, and finds a number that DynamoDB has."""
    if not set(text) <= SYNTAX:
        return False
    try:
        number = exact(text)
    except ArithmeticError:
        return False
    _, _, exponent = text.lower().partition("e")
    if len(exponent.lstrip("+-").lstrip("0")) > 10:
        return False
    return in_range(
        number or Decimal(1).scaleb(int(exponent or 0), EXACT)
    )  # a zero has the exponent of a one


def exact(text: str) -> Decimal:
    return EXACT.create_decimal(text)


def in_range(number: Decimal) -> bool:
    return not number or (
        -130 <= number.adjusted() <= 125 and len(number.normalize(EXACT).as_tuple().digits) <= 38
    )


def judge_keys(data: bytes) -> None:
    """Two keys of several binary parts: 0xFE parts the keys, 0xFD the parts."""
    composites = []
    for key in data.split(b"\xfe", 1):
        parts = key.split(b"\xfd")
        composite = b"".join(map(keys.part, parts))
        assert parts == keys.split(composite)
        composites.append((parts, composite))
        for part in parts:
            value = keys.decode("B", part)
            assert part == keys.encode(value)
            assert 0 <= keys.slot(keys.key_hash(len(part), part)) < keys.SLOTS
            judge_text_key(part)
    if len(composites) == 2:
        (a, bytes_a), (b, bytes_b) = composites
        if len(a) == len(b):
            assert (a < b) == (bytes_a < bytes_b)
            assert (a == b) == (bytes_a == bytes_b)
        assert not bytes_a.startswith(bytes_b) or a[: len(b)] == b


def judge_text_key(data: bytes) -> None:
    """A string's key bytes, and a number's where the text is one."""
    text = data.decode("utf-8", "replace")
    value = {"S": text}
    assert value == keys.decode("S", keys.encode(value))
    try:
        number = {"N": numbers.canonical(text)}
    except ValidationError:
        return
    assert number == keys.decode("N", keys.encode(number))


ITEMS = (
    {"p": {"S": "é"}, "n": {"N": "+01.50e3"}, "b": {"B": "AQ=="}, "t": {"BOOL": True}, "z": {"NULL": True}},
    {"s": {"SS": ["b", "a"]}, "m": {"NS": ["2", "1.0"]}, "c": {"BS": ["Ag==", "AQ=="]}},
    {"l": {"L": [{"M": {"a": {"L": [{"S": ""}]}}}, {"N": "-0"}]}, "m": {"M": {}}},
    {"a": {"S": "x", "N": None}, "b": {"X": 1, "S": "a"}},
)

TARGETS = (
    Target(
        "values",
        judge_item,
        [bytes([number]) + orjson.dumps(item) for number in (0, 1) for item in ITEMS],
        (
            *('{"S":"', '{"N":"', '{"B":"', '{"SS":["', '{"NS":["', '{"BS":["', '{"L":[', '{"M":{"', '"a":'),
            *('{"BOOL":true}', '{"NULL":true}', '"AQ=="', "null", "1e125", "1E-130", "\\ud800", "\\u0000"),
        ),
    ),
    Target(
        "numbers",
        judge_numbers,
        (
            b"1.5E2 -0.00",
            b"9.9999999999999999999999999999999999999E+125 1E-130",
            b"+007 .5",
            b"12345678901234567890123456789012345678 -1",
            b"5. 1e-0000000000000000131",
            b"0e99999999999 1E126",
        ),
        ("E+", "e-", "E125", "E-130", "0000000000", "9999999999", "-", "."),
        bytes_max=400,
    ),
    Target(
        "keys",
        judge_keys,
        (b"red\xfd\0\xff\xfd\xfe\xffred\0\0\xfd", b"1.5\xfd-2\xfe1.50\xfd\0", b"a\xfea\0"),
    ),
)
