"""A warning where a command line carries a password."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from mqpg.connection.dsn import has_password

__all__ = ["warn_of_password"]


def warn_of_password(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Callback of an option that takes DSNs or URLs: warn in one line on stderr of a password.

    The value is one of them, several, or None. Each may have a name in front, as in name=url.
    """
    source = context.get_parameter_source(param.name or "")
    if source is not None and source.name == "COMMANDLINE":
        given: Sequence[str] = [value] if isinstance(value, str) else value or ()
        if any(has_password(one) for one in given):
            typer.echo(
                f"mqpg: warning: everyone on this machine can read the password of {param.opts[0]} in the list of "
                "processes: give it by MQPG_DATABASE_URL or MQPG_LEDGER_<NAME>, a service file (PGSERVICE) "
                "or a passfile (PGPASSFILE)",
                err=True,
            )
    return value
