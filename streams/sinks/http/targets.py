"""The addresses that a webhook may call.

A user who defines a webhook makes this process send requests inside a network that the user may not reach. So URLs are
parsed strictly, a host is resolved once, and the connection goes to the address that was checked:

    URL ──► Target ──► resolve ──► keep addresses that are public or explicitly allowed ──► connect to one of them

A later change of the name's resolution has no effect, and no spelling of an address passes unchecked.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from ....model.errors import ValidationError

IpAddress: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

MAX_URL: Final = 2048

_PRINTABLE: Final = re.compile("[!-~]+")
_NAME: Final = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)
# Forms that C libraries parse as an IPv4 address: 2130706433, 0x7f.1, 0177.0.0.1, 127.1.
_NUMERIC_LABEL: Final = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")

# The only public part of IPv6.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# IPv4 addresses inside IPv6: mapped, translated, and tunnelled.
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_TUNNELLED: Final = IPv6Network("2002::/16")
# Global addresses that are private in fact: a cloud provider's host agent, which serves secrets; and a network that
# releases of Python classify differently.
_INSIDE: Final = (IPv4Network("168.63.129.16/32"), IPv4Network("192.0.0.0/24"))


class Target(NamedTuple):
    """The parsed URL of a webhook.

    Attributes:
        is_tls: Whether the scheme is https.
        host: A name, or an address without brackets.
        port: The port, also if the URL has none.
        authority: The value of the Host header.
        path: Path and query.
    """

    is_tls: bool
    host: str
    port: int
    authority: str
    path: str


def target_of(url: str) -> Target:
    """Parse a URL.

    Raises:
        ValidationError: The URL is malformed, or a webhook may not have it.
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


def _is_address(text: str, kind: type[IpAddress]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def address_in(target: Target) -> IpAddress | None:
    """Return the address if the URL has one instead of a name."""
    try:
        return ipaddress.ip_address(target.host)
    except ValueError:
        return None


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return private addresses and networks that webhooks may call.

    Raises:
        ValueError: A text is neither an address nor a network.
    """
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def may_be_called(address: IpAddress, allowed: Sequence[Network]) -> bool:
    """Return whether a webhook may connect to `address`."""
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
    """Return the error text for a host without an address that may be called."""
    return (
        f"{host} is at {', '.join(addresses) or 'no address'}, which is not on the public internet; "
        "`--webhooks ADDRESS` of `foldb serve`, or of `foldb trigger test`, allows it"
    )


def _inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that receives packets to this address."""
    if address in _TUNNELLED:
        return address.sixtofour
    if address in _MAPPED or address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None
