"""Which addresses a webhook may call.

Whoever defines a webhook makes this process send requests, from inside a network that they may not be in themselves. So
a URL is read strictly, its host is resolved once, and the connection goes to an address that was looked at:

    URL ──► Target ──► resolved ──► only what is on the public internet, or was allowed by name ──► connect to that

A name that resolves to something else a moment later changes nothing, and no spelling of an address gets past this.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from ....model.errors import ValidationError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

MAX_URL: Final = 2048

_PRINTABLE: Final = re.compile("[!-~]+")
_NAME: Final = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)
# What C libraries take for an address of version 4: 2130706433, 0x7f.1, 0177.0.0.1, 127.1.
_NUMERIC_LABEL: Final = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")

# The only part of IPv6 that is used on the public internet.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# Addresses of version 4 inside of version 6: mapped, translated, and tunnelled.
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_TUNNELLED: Final = IPv6Network("2002::/16")
# Public by their numbers, but what answers is inside of a provider's machines and holds their secrets; and a network
# of which releases of Python differ in how much is public.
_INSIDE: Final = (IPv4Network("168.63.129.16/32"), IPv4Network("192.0.0.0/24"))


class Target(NamedTuple):
    """What a URL says.

    Attributes:
        is_tls: Whether the scheme is https.
        host: A name, or an address without brackets.
        port: Of the host.
        authority: Host and port as the Host header has them.
        path: Path and query.
    """

    is_tls: bool
    host: str
    port: int
    authority: str
    path: str


def target_of(url: str) -> Target:
    """Read a URL.

    Raises:
        ValidationError: It is none that a webhook may have.
    """
    if len(url) > MAX_URL or not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise ValidationError("Sink.Url must be a URL of at most 2048 printable characters of ASCII")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValidationError("Sink.Url is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise ValidationError("Sink.Url must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValidationError("Sink.Url must hold no credentials: use Sink.Headers")
    if parts.fragment or port == 0:
        raise ValidationError("Sink.Url must have no fragment, and no port 0")
    host = parts.hostname or ""
    if not _is_host(host, is_bracketed="[" in parts.netloc):
        raise ValidationError(f"Sink.Url names no host: {host!r}")
    is_tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(is_tls, host, port or (443 if is_tls else 80), parts.netloc, path)


def _is_host(host: str, *, is_bracketed: bool) -> bool:
    if is_bracketed:
        return _is_address(host, IPv6Address) and "%" not in host
    if _NUMERIC_LABEL.fullmatch(host.removesuffix(".").rpartition(".")[2]):
        return _is_address(host, IPv4Address)
    return _NAME.fullmatch(host) is not None


def _is_address(text: str, kind: type[Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def address_in(target: Target) -> Address | None:
    """The address that the URL has in place of a name."""
    try:
        return ipaddress.ip_address(target.host)
    except ValueError:
        return None


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """The addresses and networks that may be called although they are not public.

    Raises:
        ValueError: A text is neither.
    """
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def may_be_called(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether a webhook may connect to `address`."""
    if any(address.version == network.version and address in network for network in allowed):
        return True
    if isinstance(address, IPv4Address):
        is_inside = any(address in network for network in _INSIDE)
        return address.is_global and not address.is_multicast and not is_inside
    inner = _inside(address)
    if inner is not None:
        return may_be_called(inner, allowed)
    return address in _GLOBAL_UNICAST and address.is_global


def not_public(host: str, addresses: Sequence[str]) -> str:
    """What is told where none of a host's addresses may be called."""
    return (
        f"{host} is at {', '.join(addresses) or 'no address'}, which is not on the public internet; "
        "`--webhooks ADDRESS` of `foldb serve`, or of `foldb trigger test`, allows it"
    )


def _inside(address: IPv6Address) -> IPv4Address | None:
    """The address of version 4 that packets to this one go to."""
    if address in _TUNNELLED:
        return address.sixtofour
    if address in _MAPPED or address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
