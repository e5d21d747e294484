"""The log of faults that were injected while the audited messages were on their way."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = ["Fault", "read_faults", "write_faults"]


@dataclass(frozen=True)
class Fault:
    """A fault, such as a killed process.

    Attributes:
        what: What it was, such as "SIGKILL".
        target: What it hit, such as "broker-1".
        recovered_at: When the target worked again. None means that this is not known.
    """

    at: datetime
    what: str
    target: str
    recovered_at: datetime | None = None

    @property
    def recovery_seconds(self) -> float | None:
        """How long the recovery took. None means that this is not known."""
        return None if self.recovered_at is None else (self.recovered_at - self.at).total_seconds()


def read_faults(path: Path) -> list[Fault]:
    """Read a log of faults, in the order of time: one JSON object in each line.

        {"at": "2026-11-23T10:00:00Z", "what": "SIGKILL", "target": "broker-1",
         "recovered_at": "2026-11-23T10:00:02.5Z"}

    `recovered_at` may be missing. A time without a zone is in UTC. Raises ConfigurationError if the file
    cannot be read, or a line is no fault.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"--faults: {path} cannot be read: {error}") from error
    found = [_fault(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    return sorted(found, key=lambda fault: fault.at)


def write_faults(path: Path, faults: Iterable[Fault]) -> None:
    """Write a log of faults that `read_faults` reads. The file is replaced."""
    rows = [
        {"at": fault.at.isoformat(), "what": fault.what, "target": fault.target}
        | ({} if fault.recovered_at is None else {"recovered_at": fault.recovered_at.isoformat()})
        for fault in faults
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _fault(line: str, where: str) -> Fault:
    try:
        row = json.loads(line)
        recovered = row.get("recovered_at")
        return Fault(
            _time(row["at"]), str(row["what"]), str(row["target"]), None if recovered is None else _time(recovered)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"--faults: {where} must be an object with at, what and target, and times in ISO 8601: {error}"
        ) from error


def _time(text: Any) -> datetime:
    read = datetime.fromisoformat(text)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
