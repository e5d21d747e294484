"""What earlier valid audits have judged, in a file between two runs of `mqpg audit --state`."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mqpg.values.errors import ConfigurationError

from .options import AuditOptions, Urls, urls_of

__all__ = ["FORMAT", "Digests", "Judged", "asked", "load_state", "locked_state", "save_state"]

FORMAT = 1
"""The version of the file. A newer one is refused."""

Digests = dict[str, dict[str, list[int]]]


@dataclass
class Judged:
    """The part of a history that valid audits have judged."""

    broker_id: str
    life: list[str]  # incarnation, server cluster and timeline
    asked: dict[str, Any]  # the options of those audits, without passwords
    meaning: dict[str, int] = field(default_factory=dict)  # a hash of each subscription, topic, producer group
    last_tick: int = -1  # the last tick whose queue rows are judged
    until_id: int = 0  # messages with ids below are judged, apart from `open`
    open: list[int] = field(default_factory=list)
    tails: list[list[Any]] = field(default_factory=list)  # topic, lane, queue, and where it ends at that tick
    # Where subscriptions started and until when they applied the judged part: subscription, queue, offset, time.
    starts: list[list[Any]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # messages, not judged or open, with a judged offset
    pairs: list[list[int]] = field(default_factory=list)  # messages with one dedup id, one of them judged
    # Failed deliveries of messages that are not judged, or open: subscription, message, what ended the delivery.
    failures: list[list[Any]] = field(default_factory=list)
    bounds: dict[str, list[str]] = field(default_factory=dict)  # lower ones, of the segments of each family
    digests: Digests = field(default_factory=dict)  # by table and part: number of judged rows, sum of hashes
    totals: dict[str, int] = field(default_factory=dict)  # how much was judged
    at: str = ""  # when the last of those audits ran


def asked(options: AuditOptions) -> dict[str, Any]:
    """What was asked, as far as it changes what a verdict says, without passwords."""
    from mqpg.connection.dsn import describe, to_sqlalchemy

    def described(urls: Urls) -> dict[str, str]:
        return {
            name: ", ".join(describe(to_sqlalchemy(url)) for url in urls_of(several))
            for name, several in sorted(urls.items())
        }

    tolerance = options.clock_tolerance
    return {
        "release": importlib.metadata.version("mqpg"),  # Another release may judge in another way.
        "ledgers": described(options.ledgers),
        "applied": described(options.applied),
        "topics": sorted(options.topics),
        "groups": sorted(options.groups),
        "drained": options.drained,
        "slack": options.slack.total_seconds(),
        "clock_tolerance": tolerance,
        "ledger_keep": options.ledger_keep.total_seconds(),
    }


def load_state(path: Path) -> Judged | None:
    """Read a state. None: there is no such file yet.

    Raises ConfigurationError if it cannot be read, is damaged, or comes from a newer release.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not isinstance(found.get("format"), int):
            raise ValueError("it is not a state of mqpg audit")
        if found["format"] > FORMAT:
            raise ConfigurationError(
                f"--state: {path} has format {found['format']}, and this release knows formats up to {FORMAT}"
            )
        names = {one.name for one in fields(Judged)}
        if set(found) - {"format"} != names:
            raise ValueError("it is not a complete state of mqpg audit")
        return Judged(**{name: found[name] for name in names})
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--state: {path} cannot be read: {error}. Delete it to audit in full") from error


def save_state(path: Path, state: Judged) -> None:
    """Write a state, so that a crash leaves either the old file or the new one."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"format": FORMAT} | asdict(state), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigurationError(f"--state: {path} cannot be written: {error}") from error


@contextlib.contextmanager
def locked_state(path: Path) -> Iterator[None]:
    """Keep every other audit away from a state, until the block ends. A killed one holds no lock.

    The lock is FILE.lock, which stays there.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"--state: {lock} cannot be written: {error}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(f"--state: another audit is using {path}") from error
        yield
    finally:
        os.close(handle)
