"""YAML text of JSON values, with every digit of numbers, for readers of YAML 1.1 and 1.2.

The versions read some words differently: `1e3` is a text in 1.1 and a number in 1.2, `yes` is a Boolean in 1.1 only.
A string is therefore quoted unless it begins with a letter and PyYAML reads it as a string.
"""

from decimal import Decimal
from typing import Any

from .errors import CommandError, ExitCode
from .values import number_text

try:
    import yaml
except ImportError:
    raise CommandError(
        "-o yaml needs PyYAML: pip install 'foldb[yaml]', or use -o json", ExitCode.USAGE
    ) from None

_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TEXT = "tag:yaml.org,2002:str"

# Booleans of YAML 1.1 that PyYAML writes without quotes.
_BOOLEANS = frozenset("yYnN")

# PyYAML folds longer lines, which breaks a search for a text.
_WIDTH = 1 << 30


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # the library has no annotations
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # of the base class
        """Write an object that occurs twice in full."""
        return True


def write_yaml(value: Any) -> str:
    """Return the YAML document of a JSON value, whose numbers may be Decimals.

    >>> print(write_yaml({"n": Decimal("0.10"), "text": "1e3", "data": "b64:aGk="}), end="")
    n: 0.10
    text: '1e3'
    data: b64:aGk=
    """
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=_WIDTH)
    return text.removesuffix("...\n")  # the mark after a document that is one scalar


def _number(dumper: Any, value: Decimal) -> Any:
    text = number_text(value)
    digits, exponent, power = text.partition("E")
    if exponent and "." not in digits:
        digits += ".0"  # without a dot YAML 1.1 reads a text
    is_int = not exponent and "." not in digits
    return dumper.represent_scalar(_INT if is_int else _FLOAT, f"{digits}{exponent.lower()}{power}")


def _string(dumper: Any, value: str) -> Any:
    style = "'"
    if "\n" in value:
        style = "|"
    elif value[:1].isalpha() and value not in _BOOLEANS:
        style = ""
    return dumper.represent_scalar(_TEXT, value, style=style)


_Dumper.add_representer(Decimal, _number)
_Dumper.add_representer(str, _string)
