"""The address that an HTTP server listens on, as an option names it."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from mqpg.values.errors import ConfigurationError

__all__ = ["Address", "is_loopback", "parse_address"]


class Address(NamedTuple):
    """Where an HTTP server listens.

    Attributes:
        host: A host name or an IP address.
        port: The port. 0: the system chooses one.
    """

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Read HOST:PORT.

    Args:
        text: For instance "127.0.0.1:9464" or "[::1]:9464".

    Returns:
        The address.

    Raises:
        ConfigurationError: It is no such text.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"an address is HOST:PORT, for instance 127.0.0.1:9464, not {text!r}")
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches an address.

    Args:
        host: A host name or an IP address.

    Returns:
        Whether it is. Of names, only localhost is.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
