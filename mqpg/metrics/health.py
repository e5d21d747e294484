"""Whether the workers of a process, or of a machine, are at work."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mqpg.status.source import Source
from mqpg.values import errors

from .address import Address

__all__ = ["Health", "ask_endpoint", "ask_host"]

_ALIVE = """
select w.role, w.detail ->> 'last_error' as last_error from mqpg.worker_status as w
where w.alive and w.host = %(host)s and w.role = any(%(roles)s)
"""
_WAIT = 10.0


@dataclass(frozen=True)
class Health:
    """What /healthz and /readyz ask.

    Attributes:
        runs: Whether the process, and its child processes, run now.
        source: The broker.
        roles: The roles that the process runs.
    """

    runs: Callable[[], bool]
    source: Source
    roles: Sequence[str]

    def alive(self) -> str | None:
        """Ask whether the process is alive.

        Returns:
            None where it is, else what is wrong.
        """
        return None if self.runs() else "a child process is not running"

    def ready(self) -> str | None:
        """Ask whether the broker answers and each role has sent a heartbeat.

        Returns:
            None where it is so, else what is wrong.
        """
        return self.alive() or ask_host(self.source, self.roles)


def ask_host(source: Source, roles: Sequence[str]) -> str | None:
    """Ask the broker whether workers of this machine send heartbeats.

    Args:
        source: The broker.
        roles: The roles that must be there, at work or standing by.

    Returns:
        None where all of them are, else what is wrong.
    """
    try:
        found = {one["role"] for one in source.rows(_ALIVE, {"host": socket.gethostname(), "roles": list(roles)})}
    except errors.Error as error:
        return f"the broker does not answer: {error}"
    missing = [role for role in roles if role not in found]
    return f"no heartbeat of {', '.join(missing)} on this host within 30 s" if missing else None


def ask_endpoint(address: Address) -> str | None:
    """Ask the endpoint /readyz of a worker.

    Args:
        address: What the worker was given as --metrics. An address that stands for all interfaces
            is asked over loopback.

    Returns:
        None where the worker is ready, else what it says, or why it does not answer.
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    connection = http.client.HTTPConnection(host, address.port, timeout=_WAIT)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        text = answer.read(2000).decode("utf-8", "replace").strip()
        return None if answer.status == 200 else text
    except (OSError, http.client.HTTPException) as error:
        return f"no worker answers at {address.host}:{address.port}: {error}"
    finally:
        connection.close()
