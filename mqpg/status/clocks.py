"""Whose clock is wrong: the server's, this machine's, or that of a worker."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from .finding import Finding

__all__ = ["MOST_DIFFERENCE", "is_synchronised", "judge_clocks"]

MOST_DIFFERENCE = 5.0
"""Seconds by which two clocks may differ."""

_MOST_WORKERS = 3
_TIMEX_BYTES = 512  # more than struct timex has anywhere
_TIME_ERROR = 5


def judge_clocks(
    server: datetime, local: datetime, here: str, tolerance: float, workers: Mapping[str, float], synchronised: bool
) -> list[Finding]:
    """Compare the clocks of the server, this machine and workers, and say which are wrong.

    `tolerance` is the time that the question took, in seconds. `workers` says by how many seconds the
    clock of each host is ahead of the server's, and `synchronised` whether this machine's kernel knows
    that its clock is right.

    First comes what was found of this machine and the server, with both times if they differ. Then come
    the three workers' machines whose clocks differ most from the server's and from this machine's.
    """
    difference = (server - local).total_seconds()
    found = f"the clock of the server is {_apart(difference)} that of {here}"
    others = {host: ahead for host, ahead in workers.items() if host != here}
    if abs(difference) <= MOST_DIFFERENCE + tolerance:
        return [Finding("clock", True, found), *_workers(others)]
    found += f" ({server.astimezone(UTC):%H:%M:%S} and {local.astimezone(UTC):%H:%M:%S} UTC)"
    like_server = [host for host, ahead in others.items() if abs(ahead) <= MOST_DIFFERENCE]
    like_here = [host for host, ahead in others.items() if abs(ahead + difference) <= MOST_DIFFERENCE + tolerance]
    remedy = f"{_wrong(like_server, like_here, here, synchronised)}; times that are computed there are off by that"
    rest = {host: ahead for host, ahead in others.items() if host not in like_here}
    return [Finding("clock", False, found, remedy), *_workers(rest)]


def _workers(ahead: Mapping[str, float]) -> Iterator[Finding]:
    """The workers' machines whose clocks differ from the server's, the worst first."""
    off = [host for host, seconds in ahead.items() if abs(seconds) > MOST_DIFFERENCE]
    for host in sorted(off, key=lambda one: -abs(ahead[one]))[:_MOST_WORKERS]:
        found = f"the clock of the worker's machine {host} is {_apart(ahead[host])} that of the server"
        yield Finding("clock", False, found, f"synchronise the clock of {host}")


def _apart(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"


def is_synchronised() -> bool:
    """Ask the kernel whether a time service keeps this machine's clock right. False also if it does not say."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return False
    return 0 <= state < _TIME_ERROR


def _wrong(like_server: list[str], like_here: list[str], here: str, synchronised: bool) -> str:
    """Say whose clock is to be synchronised: the others decide, or else the kernel here."""
    if like_here and not like_server:
        return f"the clock of the server is wrong ({_some(like_here)} with {here}): synchronise that one"
    if like_server and not like_here:
        return f"the clock of {here} is wrong ({_some(like_server)} with the server): synchronise that one"
    if synchronised:
        return f"the clock of the server is wrong (a time service keeps that of {here}): synchronise that one"
    return "a look at any other clock tells which of the two is wrong: synchronise that one"


def _some(hosts: list[str]) -> str:
    """The workers' machines that agree, at most three by name."""
    agree = "agrees" if len(hosts) == 1 else "agree"
    more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    return f"{', '.join(sorted(hosts)[:3])}{more} {agree}"
