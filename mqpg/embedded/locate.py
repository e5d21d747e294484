"""Which broker is meant: a DSN, the environment, or the server of `mqpg up` in this folder."""

from __future__ import annotations

import os
from contextlib import suppress

from mqpg.connection.dsn import NOWHERE, from_libpq_variables, require_named, to_libpq
from mqpg.connection.settings import Settings
from mqpg.values.errors import ConfigurationError

__all__ = ["resolve", "running_dsn"]


def resolve(dsn: str | None = None, settings: Settings | None = None) -> str:
    """Find the broker's DSN, in libpq notation. `settings` are variables that were read before.

    The sources are, in this order: the argument, MQPG_DATABASE_URL, DATABASE_URL, libpq's own PG*
    variables, and the server that `mqpg up` runs in this folder. The DSN "embedded" starts that
    server if it does not run. Nothing else starts one. Raises ConfigurationError if what it finds
    is empty or unreadable, or nothing names a database, or the server cannot be started.
    """
    chosen = dsn
    if chosen is None:
        chosen = (settings or Settings.read()).database_url
        variable = next((name for name in ("MQPG_DATABASE_URL", "DATABASE_URL") if name in os.environ), "database_url")
        require_named(chosen, variable)
    else:
        require_named(chosen, "the DSN (--dsn)")
    if chosen == "embedded":
        from mqpg.embedded.home import Home

        return Home().up()
    if chosen is not None:
        return to_libpq(chosen)
    found = from_libpq_variables() or running_dsn()
    if found is None:
        raise ConfigurationError(_stopped() or NOWHERE)
    return found


def running_dsn() -> str | None:
    """Look for the server of `mqpg up` in the default directory.

    Returns:
        Its DSN, or None if it does not run.
    """
    from mqpg.embedded.home import DATABASE, Home

    server = Home().server
    with suppress(OSError):  # another user's
        return server.dsn(DATABASE) if server.pid is not None else None
    return None


def _stopped() -> str | None:
    """What to say if `mqpg up` has made a server in the default directory, which does not run now."""
    from mqpg.embedded.home import Home

    server = Home().server
    if server.last_port is None:
        return None
    return f"no database is named, and the server in {server.directory} does not run: mqpg up starts it again"
