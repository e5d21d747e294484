"""The demo's processes: started, killed, restarted and stopped by their own pids only."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mqpg.errors import Error

from .chaos import Target

__all__ = ["DemoError", "Fleet", "Member", "environment"]

log = logging.getLogger(__name__)

_MOST_CRASHES = 5  # of one process, before the demo gives up
_CRASH_PAUSE = 1.0  # seconds


class DemoError(Error):
    """The demo cannot go on; the message says why, in one line, and where to read more."""


@dataclass(slots=True)
class Member:
    """One process that the demo keeps alive until it finishes or is stopped."""

    name: str
    role: Target | str
    argv: Sequence[str]
    log_path: Path
    process: subprocess.Popen[bytes] | None = None
    start_at: float | None = None  # when to start it again, monotonic seconds
    finished: bool = False
    crashes: int = 0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class Fleet:
    """All processes of a run, with one environment and one folder of logs."""

    folder: Path
    env: Mapping[str, str]
    members: list[Member] = field(default_factory=list)

    def start(self, role: str, name: str, argv: Sequence[str]) -> None:
        """Start a process; its output goes to `<name>.log`."""
        member = Member(name, role, argv, self.folder / f"{name}.log")
        self.members.append(member)
        self._launch(member)

    def kill(self, role: Target, pick: int, pause: float) -> str | None:
        """SIGKILL one living process of a role, to be started again `pause` seconds later; its name, or None."""
        living = [member for member in self.members if member.role == role and member.alive]
        if not living:
            return None
        member = living[pick % len(living)]
        assert member.process is not None
        member.process.kill()
        _reap(member.process)
        if member.process.returncode != -signal.SIGKILL:
            return None  # it ended by itself just before
        member.start_at = time.monotonic() + pause
        return f"{member.name} (pid {member.process.pid})"

    def tend(self) -> None:
        """Start again what is due; note what finished; DemoError when one keeps crashing by itself."""
        now = time.monotonic()
        for member in self.members:
            if member.start_at is not None and member.start_at <= now:
                self._launch(member)
            elif member.start_at is None and not member.finished and not member.alive:
                self._note_exit(member, now)

    def finished(self, role: str) -> bool:
        """All processes of a role ended by themselves with status 0."""
        return all(member.finished for member in self.members if member.role == role)

    @property
    def crashes(self) -> int:
        """How often processes died although nobody struck them."""
        return sum(member.crashes for member in self.members)

    def stop(self, patience: float = 15.0) -> list[str]:
        """SIGTERM to everything alive, SIGKILL to what is left after `patience` seconds; names of the latter."""
        living = {member.name: member.process for member in self.members if member.process and member.alive}
        for member in self.members:
            member.finished, member.start_at = True, None
        for process in living.values():
            process.terminate()
        deadline = time.monotonic() + patience
        return [name for name, process in living.items() if not _ended(process, deadline)]

    def tail(self) -> str:
        """The last lines of the logs, of processes that crashed if any did, for an error report."""
        crashed = [member for member in self.members if member.crashes] or self.members
        texts = {member.name: member.log_path.read_text(errors="replace").splitlines() for member in crashed}
        return "; ".join(f"{name} said {' / '.join(text[-3:])}" for name, text in texts.items() if text)

    def _launch(self, member: Member) -> None:
        with member.log_path.open("ab") as output:
            # A session of its own: Ctrl-C reaches the demo only, which then stops the others in order. And a
            # pipe of which only the demo has the other end: told --stop-on-eof, nobody outlives a killed demo.
            member.process = subprocess.Popen(
                member.argv,
                env=dict(self.env),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=self.folder,
            )
        member.start_at = None

    def _note_exit(self, member: Member, now: float) -> None:
        assert member.process is not None
        status = _reap(member.process)
        if status == 0 and member.role == "producer":
            member.finished = True
            return
        member.crashes += 1
        log.warning("%s ended with status %s by itself", member.name, status)
        if member.crashes > _MOST_CRASHES:
            raise DemoError(f"{member.name} keeps ending with status {status}: {self.tail()}")
        member.start_at = now + _CRASH_PAUSE


def _ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether it ended by itself before the deadline; it has ended in any case."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        return False
    finally:
        _reap(process)


def _reap(process: subprocess.Popen[bytes]) -> int:
    status = process.wait()
    if process.stdin is not None:
        process.stdin.close()
    return status


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment plus `extra`, output unbuffered so that a kill loses no log line."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", **extra}
