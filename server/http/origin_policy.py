"""Who may ask: what keeps the pages that a browser shows out of a database on the same machine.

foldb listens on loopback, and so does every page's script. Two fields that a page can neither leave out nor choose
tell it apart. `Host` is the name that the address was found under, so a page whose own name was made to point at this
machine (DNS rebinding) says that name: only names of this machine are answered. `Origin`, or at least
`Sec-Fetch-Site`, says that the request is a page's: only origins that were let in are answered. Both are looked at
before a byte of the body is.
"""

import ipaddress
import re
from collections.abc import Iterable

from .request_head import BadRequestError, Head

# A name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
_HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9_.-]{1,255}))(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[a-z0-9_.:\[\]-]+")
# Spellings of our own name that were found good: a client has one, so this is a bound and not a size.
_KNOWN_MAX = 1000
_ECHOED_BYTES = 1024
_OWN_PAGES = (None, b"same-origin", b"none")

_EXPOSED = b"x-amzn-RequestId, x-amz-crc32, x-foldb-position, x-foldb-log-time"


class ForbiddenError(BadRequestError):
    """The request is well-formed, but not of somebody who may ask; the reason is for who set the client up."""

    def __init__(self, reason: str) -> None:
        super().__init__(403, reason)


class OriginPolicy:
    """The names that this server answers to, and the origins that it lets in.

    Args:
        hosts: Names besides those of loopback, without ports.
        origins: As browsers say them, `http://localhost:3000`; `*` is any.
        scheme: Of our own pages.
        any_host: Whether it answers to any name: where requests are signed, no page can make one under any name.
        network_names: Whether it answers to every IP address and to every name without a dot, such as the name of a
            service in a container network. A page can be rebound only under a name of public DNS, which has a dot.

    Attributes:
        known: Values of Host that were found good.
    """

    def __init__(
        self,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        *,
        scheme: str = "http",
        any_host: bool = False,
        network_names: bool = False,
    ) -> None:
        self.known: set[bytes] = set()
        self._scheme = scheme.encode() + b"://"
        self._any_host = any_host
        self._network_names = network_names
        self._names = {"localhost", *(_bare(host) for host in hosts)}
        self._origins = {origin.lower().encode() for origin in origins}

    def admit(self, head: Head) -> None:
        """Let a request in, with what its answer has to say to its browser.

        Raises:
            ForbiddenError: It is another machine's name that it asks for, or a page that asks.
        """
        host = head.fields[b"host"]
        if host not in self.known:
            self._check_host(host)
        origin = head.fields.get(b"origin")
        if origin is not None and self._lets_in(origin):
            head.more = _allowing(b"*" if b"*" in self._origins else origin)
        elif head.method == b"POST" and not self._is_own(origin, host, head.fields.get(b"sec-fetch-site")):
            raise ForbiddenError("A page of another origin asks; --cors ORIGIN lets one in.")

    def preflight(self, head: Head) -> bytes:
        """What a browser that asks whether it may ask is told besides; nothing, where it may not."""
        if not head.more:
            return b""
        wanted = head.fields.get(b"access-control-request-headers", b"")[:_ECHOED_BYTES]
        told = b"\r\nAccess-Control-Allow-Methods: POST\r\nAccess-Control-Max-Age: 86400"
        told += b"\r\nAccess-Control-Allow-Headers: %b" % (wanted or b"x-amz-target")
        if head.fields.get(b"access-control-request-private-network") == b"true":
            told += b"\r\nAccess-Control-Allow-Private-Network: true"
        return told

    def _check_host(self, host: bytes) -> None:
        match = _HOST.fullmatch(host)
        if match is None:
            raise ForbiddenError("The Host is no name.")
        name = _bare((match[1] or match[2]).decode())
        if not self._is_ours(name):
            raise ForbiddenError(
                f"This server is not called '{name[:100]}'; if it is, start it with --allowed-host and that name."
            )
        if len(self.known) < _KNOWN_MAX:
            self.known.add(host)

    def _is_ours(self, name: str) -> bool:
        if self._any_host or name in self._names or is_loopback(name):
            return True
        return self._network_names and _is_network_name(name)

    def _is_own(self, origin: bytes | None, host: bytes, site: bytes | None) -> bool:
        """Whether no browser speaks, or the page is one of ours."""
        if origin is None:
            return site in _OWN_PAGES
        return origin.lower() == self._scheme + host.lower()

    def _lets_in(self, origin: bytes) -> bool:
        return b"*" in self._origins or origin.lower() in self._origins


def is_host(name: str) -> bool:
    """Whether it can be the name of a server: no port, no scheme, no wildcard."""
    if ":" not in name:
        return bool(_HOST.fullmatch(name.encode()))
    try:
        return bool(ipaddress.IPv6Address(name))
    except ValueError:
        return False


def is_origin(origin: str) -> bool:
    """Whether it is an origin as browsers say it, without a path; or `*`."""
    return bool(_ORIGIN.fullmatch(origin.lower()))


def _bare(name: str) -> str:
    """The name as names are compared. `localhost.` is `localhost`, only more so."""
    return name.lower().strip("[]").removesuffix(".")


def is_loopback(name: str) -> bool:
    """Whether the name can mean nothing but this machine: no server on the internet says what ends in .localhost."""
    if name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_network_name(name: str) -> bool:
    """Return whether the name cannot be registered in public DNS: it is an IP address or has no dot."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name != "" and "." not in name
    return True


def _allowing(origin: bytes) -> bytes:
    return (
        b"\r\nAccess-Control-Allow-Origin: %b\r\nAccess-Control-Expose-Headers: %b\r\nVary: Origin"
        % (origin, _EXPOSED)
    )  # fmt: skip
