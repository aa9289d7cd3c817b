"""Prices that the user gives, as Decimals: a file in TOML, or in JSON if it begins with a brace.

    write_unit_hour, read_unit_hour                     one provisioned unit for an hour
    million_write_requests, million_read_requests       a million request units on demand
    storage_gb_month, pitr_gb_month, backup_gb_month    a GB of 1024^3 bytes for a month
    million_stream_reads                                a million GetRecords
    free_write_units, free_read_units, free_storage_gb, free_stream_reads, currency         optional

foldb ships no prices. No amount is a float.
"""

import json
import tomllib
from dataclasses import MISSING, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from ...model.lazy_dataclass import dataclass
from .errors import CommandError, ExitCode

HOURS_A_MONTH: Final = 730
"""The hours of a month: 365 days in 12 months."""
GB: Final = 1024**3
_MILLION: Final = 1_000_000
_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices. A free amount is that of a month, of all tables together."""

    write_unit_hour: Decimal
    read_unit_hour: Decimal
    million_write_requests: Decimal
    million_read_requests: Decimal
    storage_gb_month: Decimal
    pitr_gb_month: Decimal
    backup_gb_month: Decimal
    million_stream_reads: Decimal
    free_write_units: Decimal = Decimal()
    free_read_units: Decimal = Decimal()
    free_storage_gb: Decimal = Decimal()
    free_stream_reads: Decimal = Decimal()
    currency: str = ""

    def break_even(self, access: str) -> Decimal | None:
        """Return the utilisation in percent above which provisioned units are cheaper; None if there is none.

        Args:
            access: `write` or `read`.
        """
        hour, million = getattr(self, f"{access}_unit_hour"), getattr(self, f"million_{access}_requests")
        requests_hour: Decimal = million * _SECONDS / _MILLION
        return hour / requests_hour * 100 if requests_hour else None


def read_prices(path: Path) -> Prices:
    """Read a file of prices.

    Raises:
        CommandError: The file is neither TOML nor JSON, lacks a price, or has an unknown key or another value than a
            number that is not negative.
    """
    text = path.read_text("utf-8", errors="replace")
    try:
        if text.lstrip().startswith("{"):
            found = json.loads(text, parse_float=Decimal)
        else:
            found = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, InvalidOperation) as error:
        raise CommandError(f"{path} is neither TOML nor JSON: {error}", ExitCode.USAGE) from error
    known = {each.name: each for each in fields(Prices)}
    for name, value in found.items():
        if name not in known:
            raise CommandError(
                f"{path}: the key {name} is unknown; the keys are {', '.join(known)}", ExitCode.USAGE
            )
        if name != "currency" and not _is_amount(value):
            raise CommandError(f"{path}: {name} is not a number of at least 0", ExitCode.USAGE)
    missing = [name for name, each in known.items() if each.default is MISSING and name not in found]
    if missing:
        raise CommandError(f"{path}: the key {missing[0]} is missing", ExitCode.USAGE)
    currency = str(found.pop("currency", ""))
    return Prices(**{name: Decimal(value) for name, value in found.items()}, currency=currency)


def _is_amount(value: Any) -> bool:
    return type(value) in (int, Decimal) and Decimal(value).is_finite() and value >= 0
