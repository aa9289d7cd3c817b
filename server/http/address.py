"""The address to listen on, and whether other machines may reach it."""

import ipaddress
import socket
import sys
from typing import Final

from ...model.errors import FoldbError
from ..settings import Settings
from .origin_policy import is_loopback

# The receive buffer of a socket, and so the maximum of one read. A client that sends more has to wait.
_RECEIVE_BYTES: Final = 32 * 1024


class AddressRefusedError(FoldbError):
    """Other machines could reach the address, and neither keys nor TLS protect it."""


class ListenError(OSError):
    """The port is in use, or the address is not an address of this machine."""


def bind(settings: Settings) -> socket.socket:
    """Bind the address without listening: until the listener starts, the system refuses connections.

    Raises:
        AddressRefusedError: Other machines could reach the address, and nothing protects it.
        ListenError: The port is in use, or the address is not an address of this machine.
    """
    address = listen_address(settings)
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        if sys.platform != "win32":  # where the option lets two processes listen on one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        bound.bind((address, settings.port))
    except OSError as error:
        bound.close()
        raise ListenError(error.errno, error.strerror) from error
    return bound


def listen_address(settings: Settings) -> str:
    """Return the IP address to listen on.

    Raises:
        AddressRefusedError: The host is a name, or other machines can reach it, and neither keys with TLS protect it
            nor a setting allows it.
    """
    host = settings.host
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise AddressRefusedError(
            f"will not listen on {host}: it is not an IP address. Use 127.0.0.1, ::1 or localhost; with keys any other."
        ) from None
    if address.is_loopback:
        return host
    if settings.keys is None and not settings.insecure_any_address:
        raise AddressRefusedError(
            f"will not listen on {host}: nothing protects it from other machines. Use 127.0.0.1, ::1 or localhost, "
            "make keys with `foldb key create` and name their file with --keys, or, in a container for development, "
            "use --insecure-any-address."
        )
    if settings.keys is not None and settings.tls_cert is None and not settings.insecure_plaintext:
        raise AddressRefusedError(
            f"will not listen on {host}: without TLS others on the network can read and change all requests. Name a "
            "certificate with --tls-cert and --tls-key, or use --insecure-plaintext behind a TLS proxy."
        )
    return host


def is_open(settings: Settings) -> bool:
    """Return whether other machines can reach the address without a key."""
    return settings.keys is None and settings.host != "localhost" and not is_loopback(settings.host)
