"""The texts that are generated from `Settings`: the table in docs/python.md, and the types of `foldb.serve`'s keywords.

python -m tests.unit.project.settings_reference      writes both
"""

import re
from pathlib import Path
from typing import Final

from foldb.server.settings import SETTINGS, Setting
from tests.unit.project.source import ROOT

PAGE: Final = ROOT / "docs" / "python.md"
KEYWORDS: Final = ROOT / "server" / "setting_keywords.py"

_HEAD: Final = "| setting | flag of `foldb serve` | default | effect |\n| --- | --- | --- | --- |\n"
_MIB: Final = 1024 * 1024
_UNITS_MS: Final = {"h": 3_600_000, "min": 60_000}
_FLAGS: Final = {setting.flag: name for name, setting in SETTINGS.items() if setting.flag is not None}


def page() -> str:
    """Return docs/python.md with the table of today's settings."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition("| setting |")
    return before + _HEAD + "".join(map(_row, SETTINGS.values())) + rest[rest.index("\n\n") + 1 :]


def keywords() -> str:
    """Return server/setting_keywords.py of today's settings."""
    names = "".join(f"    {name}: {_type(setting)}\n" for name, setting in SETTINGS.items())
    return (
        '"""The types of the keywords of `foldb.serve`.\n\n'
        "Generated from settings.py by `python -m tests.unit.project.settings_reference`.\n"
        '"""\n\n'
        "from pathlib import Path\n"
        "from typing import Literal, TypedDict\n\n\n"
        "class SettingKeywords(TypedDict, total=False):\n"
        '    """The settings in docs/python.md. A file name may be a str, and a tuple a list."""\n\n' + names
    )


def _row(setting: Setting) -> str:
    flag = "" if setting.flag is None else f"`{setting.flag}`"
    if setting.command_default is not None:
        flag += f" (default {_value(setting, setting.command_default)})"
    effect = re.sub(r"--[a-z-]+", lambda match: f"`{_FLAGS[match[0]]}`", setting.help)
    return f"| `{setting.name}` | {flag} | {_value(setting, setting.default)} | {effect} |\n"


def _value(setting: Setting, value: object) -> str:
    if isinstance(value, int) and value >= _MIB and value % _MIB == 0:
        return f"{value // _MIB} MiB"
    if isinstance(value, int) and setting.is_duration:
        for unit, unit_ms in _UNITS_MS.items():
            if value and value % unit_ms == 0:
                return f"{value // unit_ms} {unit}"
    return f"`{value}`"


def _type(setting: Setting) -> str:
    if setting.kind == Path | None:
        return "str | Path | None"
    if setting.kind == tuple[str, ...]:
        return "tuple[str, ...] | list[str]"
    if isinstance(setting.kind, type) and not hasattr(setting.kind, "__origin__"):
        return setting.kind.__name__
    return re.sub(r"typing\.", "", str(setting.kind)).replace("'", '"')


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    KEYWORDS.write_text(keywords(), "utf-8")
