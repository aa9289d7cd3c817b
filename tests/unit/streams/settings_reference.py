"""Tables of the documentation, generated from the declarations of subscription settings and of sinks.

python -m tests.unit.streams.settings_reference        writes both tables into docs/streams.md
"""

from pathlib import Path

from foldb.model.subscriptions.settings import REQUIRED, SUBSCRIPTION_SETTINGS, SubscriptionSetting
from foldb.streams.decorator import default_text
from foldb.streams.sinks import sink_kinds
from foldb.streams.sinks.kind import SinkKind, SinkSetting

DOCS = Path(__file__).parents[3] / "docs"


def tables() -> dict[str, str]:
    """Return each table by the name in its markers."""
    settings = ["| setting | `@trigger` | option | values | default | effect |", "| --- " * 6 + "|"]
    sinks = ["| kind | option | target | members of `Sink` |", "| --- " * 4 + "|"]
    return {
        "subscription settings": "\n".join([*settings, *map(_setting_row, SUBSCRIPTION_SETTINGS)]),
        "sinks": "\n".join([*sinks, *map(_sink_row, sink_kinds())]),
    }


def with_tables(page: str) -> str:
    """Return a page with the text between its markers replaced by the tables."""
    for name, table in tables().items():
        begin, end = markers(name)
        if begin in page:
            head, _, rest = page.partition(begin)
            page = f"{head}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return page


def markers(name: str) -> tuple[str, str]:
    return f"<!-- generated: {name} -->", f"<!-- end: {name} -->"


def pages() -> list[Path]:
    """Return the pages that have a generated table."""
    begins = [markers(name)[0] for name in tables()]
    return [page for page in sorted(DOCS.rglob("*.md")) if any(each in page.read_text() for each in begins)]


def _setting_row(setting: SubscriptionSetting) -> str:
    keyword = f"`{setting.keyword}`" if setting.keyword else ""
    flag = f"`{setting.flag}`" if setting.flag else ""
    default = "required" if setting.default is REQUIRED else default_text(setting)
    return f"| `{setting.name}` | {keyword} | {flag} | {setting.type} | {default} | {setting.help} |"


def _sink_row(kind: SinkKind) -> str:
    flag = f"`{kind.flag} {kind.metavar}`" if kind.flag else ""
    return f"| `{kind.name}` | {flag} | {kind.help} | {'; '.join(map(_member, kind.settings))} |"


def _member(setting: SinkSetting) -> str:
    required = ", required" if setting.default is REQUIRED else ""
    default = f", default {setting.default}" if isinstance(setting.default, str | int) else ""
    return f"`{setting.name}` ({setting.type}{required}{default})"


if __name__ == "__main__":
    for path in pages():
        path.write_text(with_tables(path.read_text()))
