"""The declaration of a kind of sink: one `SinkKind` in the module of the kind.

    KIND = SinkKind(name="webhook", flag="--webhook", settings=(SinkSetting("Url", ...), ...), make=make, ...)

A new kind is such a module and its line in `MODULES` (streams/sinks/__init__.py). The server's validation, the options
of `foldb trigger add` and `foldb trigger test`, and the table in docs/streams.md follow from the declaration.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from ...model.errors import ValidationError
from ...model.lazy_dataclass import dataclass
from ...model.subscriptions.setting_types import INVALID, SettingType
from ...model.subscriptions.settings import REQUIRED
from .sink import Sink, SinkContext

HIDDEN = "..."


@dataclass(frozen=True, slots=True)
class SinkSetting:
    """A member of a subscription's Sink.

    Attributes:
        name: The member.
        type: Validates values.
        default: REQUIRED, or the value of an absent member; None where the kind derives that value.
        secret: Answers and listings hide the value.
        reader_view: Returns the value as keys see it that do not administer subscriptions.
    """

    name: str
    type: SettingType
    default: Any = REQUIRED
    secret: bool = False
    reader_view: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkKind:
    """A kind of sink.

    Attributes:
        help: The target, for `--help` and the reference page.
        settings: The members of a Sink other than Kind.
        make: Returns a sink that is not started. Raises ValidationError if this server cannot have it.
        verify: Further checks of the members, which raise ValidationError. They look at no file and no network.
        flag: The option of `foldb trigger add`; None for a kind that only the server's own operations use.
        metavar: The value of the flag, in help.
        example: A value of the flag.
        flag_member: The member that the flag's value gives, unless `parse_flag` says otherwise.
        parse_flag: Returns the members that the flag's value gives. Raises ValueError.
        label: Returns the target of a Sink as listings show it.
        runs_code: The sink runs code from the folder of triggers.
        function: Returns the `module:function` of a Sink.
        acts_outside: A call has effects outside the database, and its receiver may not look whether it is a replay. A
            replay makes such calls only if the user asks for its side effects.
        may_be_single: A started sink may report `is_single`.
        writes: The objects that a server of the database alone may write, because they belong to its folder or its
            brokers; `foldb trigger test --call` refuses them. None if the test may call the sink.
        shared_target: Returns the name of the target of a Sink and a subscription. Subscriptions with equal names
            write to the same target.
        check_tables: Raises ValidationError if a target cannot hold these tables together.
    """

    name: str
    help: str
    settings: tuple[SinkSetting, ...]
    make: Callable[[dict[str, Any], SinkContext], Sink]
    verify: Callable[[dict[str, Any]], object] | None = None
    flag: str | None = None
    metavar: str = "VALUE"
    example: str = ""
    flag_member: str = ""
    parse_flag: Callable[[str], dict[str, Any]] | None = None
    label: Callable[[Mapping[str, Any]], str] | None = None
    runs_code: bool = False
    function: Callable[[Mapping[str, Any]], str] | None = None
    acts_outside: bool = False
    may_be_single: bool = False
    writes: str | None = None
    shared_target: Callable[[Mapping[str, Any], str], str] | None = None
    check_tables: Callable[[Iterable[str]], None] | None = None
    _by_name: dict[str, SinkSetting] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {setting.name: setting for setting in self.settings})

    def check(self, sink: dict[str, Any]) -> None:
        """Validate the members of a Sink of this kind.

        Raises:
            ValidationError: A member is unknown, missing or invalid.
        """
        for name in sorted(sink.keys() - self._by_name.keys() - {"Kind"}):
            raise ValidationError(f"Sink has no member {name} for the kind {self.name}")
        for setting in self.settings:
            if setting.name in sink:
                _check(setting, sink[setting.name])
            elif setting.default is REQUIRED:
                raise ValidationError(f"Sink.{setting.name} must be given for the kind {self.name}")
        if self.verify is not None:
            self.verify(sink)

    def value(self, sink: Mapping[str, Any], name: str) -> Any:
        """Return a member of a Sink, or its default."""
        return sink.get(name, self._by_name[name].default)

    def from_flag(self, text: str) -> dict[str, Any]:
        """Return the Sink that the value of the kind's flag gives.

        Raises:
            ValueError: The text is not a value of the flag.
        """
        members = {self.flag_member: text} if self.parse_flag is None else self.parse_flag(text)
        return {"Kind": self.name, **members}

    def shown(self, sink: Mapping[str, Any]) -> dict[str, Any]:
        """Return a Sink without the values by which a reader could sign requests or log in."""
        return {name: _hidden(value) if self._is_secret(name) else value for name, value in sink.items()}

    def shown_to_readers(self, sink: Mapping[str, Any]) -> dict[str, Any]:
        """Return a Sink as a key sees it that does not administer subscriptions."""
        shown = self.shown(sink)
        for setting in self.settings:
            if setting.reader_view is not None and setting.name in shown:
                shown[setting.name] = setting.reader_view(shown[setting.name])
        return shown

    def hidden_members(self, sink: Mapping[str, Any]) -> list[str]:
        """Return the members of a Sink whose values `shown_to_readers` hid before."""
        public = self.shown_to_readers(sink)
        return [
            setting.name
            for setting in self.settings
            if (setting.secret or setting.reader_view is not None)
            and sink.get(setting.name)
            and sink[setting.name] == public[setting.name]
        ]

    def _is_secret(self, name: str) -> bool:
        return name in self._by_name and self._by_name[name].secret


def _check(setting: SinkSetting, value: Any) -> None:
    try:
        setting.type.check(f"Sink.{setting.name}", value)
    except ValidationError as error:
        raise ValidationError(error.message.removeprefix(INVALID)) from None


def site_of(url: str) -> str:
    """Return a URL without its credentials, path and query.

    >>> site_of("https://hooks.example:8443/services/T0/B0?key=hush")
    'https://hooks.example:8443/...'
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket without an address
        return HIDDEN
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/{HIDDEN}" if host else HIDDEN


def _hidden(value: Any) -> Any:
    if isinstance(value, list):
        return [HIDDEN for _ in value]
    return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN
