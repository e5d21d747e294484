"""`mqpg web`: run the dashboard."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from mqpg.cli.options import Dsn
from mqpg.metrics.address import is_loopback
from mqpg.values.choices import Login
from mqpg.values.errors import ConfigurationError

__all__ = ["web"]

_PASSWORD = "MQPG_WEB_PASSWORD"
_NOT_STARTED = 3  # as by uvicorn itself
_LOCAL = ["localhost", "127.0.0.1", "[::1]", "::1"]


def web(
    host: Annotated[str, typer.Option(help="The address to listen on. Others than loopback need a login.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0: any free one.", min=0, max=65535)] = 8765,
    actions: Annotated[
        bool, typer.Option("--actions", help="Let those who have logged in change something. Needs a login.")
    ] = False,
    login: Annotated[
        Login,
        typer.Option(
            help="password: all share one. role: each visitor logs in as a role of the database, with its password. "
            "The rights of that role decide what the pages show and what actions may do, and decisions keep its name."
        ),
    ] = "password",
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            help=f"A file whose first line is the password that all share. Default: {_PASSWORD}, or no login.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A host name that browsers use for it; may be repeated. Default: any."),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Also show the pages that mqpg audit --html has written to this folder, to who may read.",
            show_default=False,
        ),
    ] = None,
    dsn: Dsn = None,
) -> None:
    """Show the dashboard in a browser, until Ctrl-C.

    Without a login everybody who reaches it may read, and nobody may change anything.
    """
    try:
        import uvicorn

        from .application import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise ConfigurationError(f"the package {error.name} is missing: pip install 'mqpg[web]'") from error
    password = _password(password_file)
    is_open = password is None and login == "password"
    if is_open and not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines: set {_PASSWORD}, --password-file or --login role, or listen "
            "on 127.0.0.1"
        )
    # Without a login only this machine's own names are accepted, so no foreign page reads along.
    hosts = allow_host or (_LOCAL if is_open else None)
    server: uvicorn.Server
    made = app(
        dsn,
        password=password,
        login=login,
        actions=actions,
        hosts=hosts,
        reports=reports,
        stopping=lambda: server.should_exit,
    )
    level = "warning" if port else "info"
    server = uvicorn.Server(uvicorn.Config(made, host=host, port=port, log_level=level, timeout_graceful_shutdown=3))
    if port:
        typer.echo(f"mqpg: the dashboard is at http://{f'[{host}]' if ':' in host else host}:{port}/", err=True)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise typer.Exit(_NOT_STARTED)


def _password(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(_PASSWORD)
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0]:
        raise ConfigurationError(f"{file} is empty")
    return lines[0]
