"""The origin policy: which web pages may send requests. By default no page may.

foldb listens on loopback, and the script of any page in a local browser can reach it there. Two header fields identify
a page, because a page can neither omit nor choose them. `Host` holds the name of the server in the page's URL; a page
whose own name resolves to this machine (DNS rebinding) sends that name, so only names of this machine are accepted.
`Origin`, or at least `Sec-Fetch-Site`, marks the request of a page; only allowed origins are accepted. Both are checked
before the body is read.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from .request_head import BadRequestError, RequestHead

# A name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
_HOST: Final = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9_.-]{1,255}))(?::[0-9]{1,5})?")
_ORIGIN: Final = re.compile(r"\*|[a-z][a-z0-9+.-]*://[a-z0-9_.:\[\]-]+")
# Limit of the accepted values of Host that are remembered. A client sends one, so there are few.
_KNOWN_MAX: Final = 1000
_ECHOED_BYTES: Final = 1024
_OWN_PAGES: Final = (None, b"same-origin", b"none")

_EXPOSED: Final = b"x-amzn-RequestId, x-amz-crc32, x-foldb-position, x-foldb-log-time"


class ForbiddenError(BadRequestError):
    """The request is well-formed, but its origin or host is not allowed. The reason is for the client's developer."""

    def __init__(self, reason: str) -> None:
        super().__init__(403, reason)


class OriginPolicy:
    """The host names of this server, and the origins whose pages may send requests.

    Args:
        hosts: Names in addition to those of loopback, without ports.
        origins: Origins as browsers send them, `http://localhost:3000`; `*` allows all.
        scheme: The scheme of the server's own origin.
        any_host: Accept every name. Where requests are signed, a page cannot create a request under any name.
        network_names: Accept every IP address and every name without a dot, such as the name of a service in a
            container network. A page can be rebound only under a name of public DNS, which has a dot.

    Attributes:
        known: Accepted values of Host.
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

    def admit(self, head: RequestHead) -> None:
        """Accept a request, and set the header fields that its answer needs for a browser.

        Raises:
            ForbiddenError: The Host is not a name of this server, or a page of another origin sent the request.
        """
        host = head.fields[b"host"]
        if host not in self.known:
            self._check_host(host)
        origin = head.fields.get(b"origin")
        if origin is not None and self._allows(origin):
            head.more = _allowing(b"*" if b"*" in self._origins else origin)
        elif head.method == b"POST" and not self._is_own(origin, host, head.fields.get(b"sec-fetch-site")):
            raise ForbiddenError("A page of another origin sent the request; --cors ORIGIN allows an origin.")

    def preflight(self, head: RequestHead) -> bytes:
        """Return the header fields of the answer to a preflight request; none if its origin is not allowed."""
        if not head.more:
            return b""
        requested = head.fields.get(b"access-control-request-headers", b"")[:_ECHOED_BYTES]
        fields = b"\r\nAccess-Control-Allow-Methods: POST\r\nAccess-Control-Max-Age: 172800"
        fields += b"\r\nAccess-Control-Allow-Headers: %b" % (requested or b"x-amz-target")
        if head.fields.get(b"access-control-request-private-network") == b"true":
            fields += b"\r\nAccess-Control-Allow-Private-Network: true"
        return fields

    def _check_host(self, host: bytes) -> None:
        match = _HOST.fullmatch(host)
        if match is None:
            raise ForbiddenError("The Host is malformed.")
        name = _bare((match[1] or match[2]).decode())
        if not self._is_ours(name):
            raise ForbiddenError(
                f"'{name[:100]}' is not a name of this server; start it with --allowed-host and that name to allow it."
            )
        if len(self.known) < _KNOWN_MAX:
            self.known.add(host)

    def _is_ours(self, name: str) -> bool:
        if self._any_host or name in self._names or is_loopback(name):
            return True
        return self._network_names and _is_network_name(name)

    def _is_own(self, origin: bytes | None, host: bytes, site: bytes | None) -> bool:
        """Return whether the client is not a browser, or the page has the server's own origin."""
        if origin is None:
            return site in _OWN_PAGES
        return origin.lower() == self._scheme + host.lower()

    def _allows(self, origin: bytes) -> bool:
        return b"*" in self._origins or origin.lower() in self._origins


def is_host(name: str) -> bool:
    """Return whether the text can be the name of a server: no port, no scheme, no wildcard."""
    if ":" not in name:
        return bool(_HOST.fullmatch(name.encode()))
    try:
        return bool(ipaddress.IPv6Address(name))
    except ValueError:
        return False


def is_origin(origin: str) -> bool:
    """Return whether the text is an origin as browsers send it, without a path, or `*`."""
    return bool(_ORIGIN.fullmatch(origin.lower()))


def _bare(name: str) -> str:
    """Return the name in lower case, without brackets and without the final dot of a fully qualified name."""
    return name.lower().strip("[]").removesuffix(".")


def is_loopback(name: str) -> bool:
    """Return whether the name always means this machine. Names in .localhost never resolve on the internet."""
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
