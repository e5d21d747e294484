"""`mqpg web`: run the dashboard."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from mqpg.cli.options import Dsn
from mqpg.values.errors import ConfigurationError

from . import passwords
from .application import app

__all__ = ["web"]

_LOCAL = ["localhost", "127.0.0.1", "[::1]", "::1"]
_PORT = 8765


def web(
    host: Annotated[str, typer.Option(help="The address to listen on. Others than loopback need users.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any free one.", min=0, max=65535)] = _PORT,
    actions: Annotated[bool, typer.Option("--actions", help="Let users change something. Needs users.")] = False,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", help="The users who may log in. Default: no login.", show_default=False),
    ] = None,
    add_user: Annotated[
        str | None,
        typer.Option(
            "--add-user",
            metavar="NAME",
            help="Add this user to --password-file, or change the password, and start nothing. The password is asked "
            "for, or is the first line of standard input.",
            show_default=False,
        ),
    ] = None,
    user_header: Annotated[
        str | None,
        typer.Option(
            "--user-header",
            metavar="NAME",
            help="The header in which a proxy sends the user's name. The proxy must set it on every request.",
            show_default=False,
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="An address or a network whose --user-header counts; may be repeated. Default: this machine.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            help="A host name that requests may name; may be repeated. Default: any with --password-file, else those "
            "of this machine.",
            show_default=False,
        ),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Also show the pages that mqpg audit --html has written to this folder.",
            show_default=False,
        ),
    ] = None,
    dsn: Dsn = None,
) -> None:
    """Show the dashboard in a browser, until Ctrl-C.

    Without users everybody who reaches it may read, and may not change anything.
    """
    if add_user is not None:
        _add_user(password_file, add_user)
        return
    if password_file is None and user_header is None and not _is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines: name users by --password-file or --user-header, or listen on "
            "127.0.0.1"
        )
    made = app(
        dsn,
        password_file=password_file,
        user_header=user_header,
        trusted_proxies=trusted_proxy or None,
        actions=actions,
        # Without passwords of its own only known names are accepted, so that no page of a foreign
        # name that resolves to this machine reads along, or sends the header from here.
        hosts=allow_host or (_LOCAL if password_file is None else None),
        reports=reports,
    )
    _require_free(host, port)
    if port:
        typer.echo(f"mqpg: the dashboard is at http://{f'[{host}]' if ':' in host else host}:{port}/", err=True)
    # The address of the connection, and not one that a header claims, says who is a trusted proxy.
    uvicorn.run(made, host=host, port=port, log_level="warning" if port else "info", proxy_headers=False)


def _add_user(file: Path | None, name: str) -> None:
    if file is None:
        raise ConfigurationError("--add-user needs --password-file, the file to write")
    password = getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    passwords.add_user(file, name, password)
    typer.echo(f"mqpg: {file} has user {name}; a dashboard that runs must be restarted", err=True)


def _require_free(host: str, port: int) -> None:
    """Raise ConfigurationError if this process cannot listen there."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for number, (family, _, _, _, address) in enumerate(found, 1):
            try:
                with socket.socket(family) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(address)
            except OSError as error:
                # The server leaves out an address of a family that the machine does not have.
                if number == len(found) or error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host}, port {port}: {error.strerror}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
