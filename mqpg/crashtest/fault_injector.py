"""Who decides at each statement whether the process lives: the injector of one run."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, StrEnum

from mqpg.connection.lent import ended_by
from mqpg.crashtest.wire import normalised

__all__ = ["Moment", "Point", "FaultInjector", "Ruling", "Sent", "Session"]

_WRITES = re.compile(r"^\s*(insert|update|delete|merge|copy|call|do|truncate|select\s+mqpg\.)", re.IGNORECASE)
_ACKNOWLEDGES = re.compile(r"\bmqpg\.(ack|nack|receive)\b")


class Moment(StrEnum):
    """What happens to a statement."""

    BEFORE = "before"
    """The process is killed before the statement reaches the server."""
    AFTER = "after"
    """The process is killed after the server has answered and before it sees the answer."""
    REFUSED = "refused"
    """The server refuses the statement, and the process lives."""


class Ruling(Enum):
    """What becomes of a statement that is about to be sent."""

    GO = "go"
    HOLD = "hold"
    REFUSE = "refuse"
    DIE = "die"


@dataclass(slots=True)
class Session:
    """One connection of the process.

    Attributes:
        application: The application_name that it gave. Empty if it gave none.
        ours: Whether the library has used it, so it is the consumer's or the client's.
    """

    application: str = ""
    in_transaction: bool = False
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement that the process sent.

    Attributes:
        key: The statement without its literals.
        nth: How many statements of this key there were before it and with it.
        by_handler: Whether the handler was at work.
        ours: Whether the library had used its connection before.
        in_transaction: Whether a transaction was open on its connection.
    """

    text: str
    key: str
    nth: int
    by_handler: bool
    ours: bool
    in_transaction: bool

    @property
    def ends_transaction(self) -> bool:
        """Whether it is COMMIT or ROLLBACK, and not to a savepoint."""
        return ended_by(self.text) is not None

    @property
    def commits(self) -> bool:
        """Whether it is COMMIT."""
        return ended_by(self.text) in ("commit", "end")

    @property
    def writes(self) -> bool:
        """Whether it changes rows, or calls mqpg."""
        return bool(_WRITES.match(self.text))

    @property
    def acknowledges(self) -> bool:
        """Whether it receives messages or acknowledges them."""
        return bool(_ACKNOWLEDGES.search(self.text))


@dataclass(frozen=True, slots=True)
class Point:
    """A crash point: a statement by its key and number, and the moment."""

    key: str
    nth: int
    moment: Moment


class FaultInjector:
    """Sees every statement of one run, and kills its process at one of them. The point None: at none."""

    def __init__(self, point: Point | None = None) -> None:
        self.trace: list[Sent] = []
        self.pid: int | None = None
        self.in_handler = False
        self.fired = False
        self._point = point
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def dead(self) -> bool:
        """Whether the process was killed."""
        return self.fired and self._point is not None and self._point.moment is not Moment.REFUSED

    def before(self, session: Session, text: str) -> Ruling:
        """Note a statement, and rule what becomes of it."""
        with self._lock:
            if self.dead:
                return Ruling.DIE
            key = normalised(text)
            self._counts[key] += 1
            if not self.in_handler and (session.application.startswith("mqpg") or "mqpg" in text):
                session.ours = True
            sent = Sent(text, key, self._counts[key], self.in_handler, session.ours, session.in_transaction)
            self.trace.append(sent)
            if self._point is None or (self._point.key, self._point.nth) != (sent.key, sent.nth) or self.fired:
                return Ruling.GO
            if self._point.moment is Moment.AFTER:
                return Ruling.HOLD
            self.fired = True
        if self._point.moment is Moment.REFUSED:
            return Ruling.REFUSE
        self.kill()
        return Ruling.DIE

    def after(self) -> None:
        """Kill the process, because the answer to the statement that was held has arrived."""
        self.fired = True
        self.kill()

    def kill(self) -> None:
        """Kill the process and everything that it has started."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
