"""The demo's processes. They are killed and stopped by their own pids only."""

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

_MOST_CRASHES = 5  # of one process; after so many the demo ends
_CRASH_PAUSE = 1.0  # seconds


class DemoError(Error):
    """The demo cannot continue. The message says why in one line, and where to read more."""


@dataclass(slots=True)
class Member:
    """A process that the demo starts again whenever it dies, until it finishes or is stopped."""

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
    """All processes of a run. They share one environment and one folder of logs."""

    folder: Path
    env: Mapping[str, str]
    members: list[Member] = field(default_factory=list)

    def start(self, role: str, name: str, argv: Sequence[str]) -> None:
        """Start a process. Its output goes to `<name>.log`."""
        member = Member(name, role, argv, self.folder / f"{name}.log")
        self.members.append(member)
        self._launch(member)

    def kill(self, role: Target, pick: int, pause: float) -> str | None:
        """Kill one living process of a role with SIGKILL.

        `tend` starts it again `pause` seconds later.

        Returns:
            The process's name, or None where no process of the role lives.
        """
        living = [member for member in self.members if member.role == role and member.alive]
        if not living:
            return None
        member = living[pick % len(living)]
        assert member.process is not None
        member.process.kill()
        _reap(member.process)
        if member.process.returncode != -signal.SIGKILL:
            return None  # it ended by itself a moment ago
        member.start_at = time.monotonic() + pause
        return f"{member.name} (pid {member.process.pid})"

    def tend(self) -> None:
        """Start the killed processes whose pause is over, and note which processes finished.

        Raises:
            DemoError: A process keeps ending by itself.
        """
        now = time.monotonic()
        for member in self.members:
            if member.start_at is not None and member.start_at <= now:
                self._launch(member)
            elif member.start_at is None and not member.finished and not member.alive:
                self._note_exit(member, now)

    def finished(self, role: str) -> bool:
        """Whether all processes of a role ended by themselves with status 0."""
        return all(member.finished for member in self.members if member.role == role)

    @property
    def crashes(self) -> int:
        """How often a process died that was not struck."""
        return sum(member.crashes for member in self.members)

    def stop(self, patience: float = 15.0) -> list[str]:
        """Stop all processes: SIGTERM first, and SIGKILL after `patience` seconds.

        Returns:
            The names of the processes that needed SIGKILL.
        """
        living = {member.name: member.process for member in self.members if member.process and member.alive}
        for member in self.members:
            member.finished, member.start_at = True, None
        for process in living.values():
            process.terminate()
        deadline = time.monotonic() + patience
        return [name for name, process in living.items() if not _ended(process, deadline)]

    def tail(self) -> str:
        """The last lines of the logs for an error report; those of crashed processes if any."""
        crashed = [member for member in self.members if member.crashes] or self.members
        texts = {member.name: member.log_path.read_text(errors="replace").splitlines() for member in crashed}
        return "; ".join(f"{name} said {' / '.join(text[-3:])}" for name, text in texts.items() if text)

    def _launch(self, member: Member) -> None:
        with member.log_path.open("ab") as output:
            # In a session of its own, so that Ctrl-C reaches only the demo, which then stops the
            # others in order. Only the demo holds the other end of the pipe: with --stop-on-eof no
            # process outlives it.
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
    """Wait until the deadline, then kill; whether the process ended by itself."""
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
    """This process's environment and `extra`.

    Output is unbuffered, so that a kill loses no log line.
    """
    return {**os.environ, "PYTHONUNBUFFERED": "1", **extra}
