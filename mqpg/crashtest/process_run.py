"""One run: a process works until it ends or is killed, and what it reports meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from mqpg.crashtest.control import Desk
from mqpg.crashtest.fault_injector import FaultInjector, Point, Ruling, Session
from mqpg.crashtest.fork_server import ForkServer
from mqpg.crashtest.options import Options
from mqpg.crashtest.proxy import Proxy
from mqpg.crashtest.scratch import Copy, Scratch

__all__ = ["MOST_FAILURES", "Bench", "Ran"]

MOST_FAILURES = 3
"""After so many failures of the handler a run ends. In production a dead letter would follow."""

_RETRY_DELAY = 0.05
_LEASE = 2.0
_LEFT = "select count(*) from mqpg_audit.pending where consumer_group = %s and topic = %s"
_UNDECIDED = """
select h.handle from mqpg.half_pending h
join mqpg.producer_group g on g.name = h.producer_group
where g.checker in ('url', 'due_checks')
"""


@dataclass
class Ran:
    """What one process did.

    Attributes:
        injector: What it sent, and whether it was killed.
        status: How it ended: an exit status, or a signal below 0.
        about: What the target is.
        calls: How many calls of the handler began.
        raised: What the handler raised, apart from Retry and Reject.
        left: Threads and tasks that were still running when the handler had returned.
        outside: How often each effect outside of databases happened, by kind and name.
        failed: Why the process failed. None: it did not.
        usage: Whether that is an error that mqpg explains.
        stuck: Whether it was ended because it took too long.
        said: The end of what it printed.
    """

    injector: FaultInjector
    status: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    calls: int = 0
    raised: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    outside: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: str | None = None
    usage: bool = False
    stuck: bool = False
    said: str = ""


class Bench:
    """Where runs happen one after another: a proxy, a desk and a place at the fork server.

    `number`, from 0, tells this bench from the others.
    """

    def __init__(self, scratch: Scratch, fork_server: ForkServer, options: Options, number: int) -> None:
        self.scratch, self.options = scratch, options
        self._desk = Desk(scratch.root / f"desk{number}")
        self._proxy = Proxy(scratch.server)
        self._fork = partial(fork_server.run, number)
        self._log = scratch.root / f"log{number}"

    def close(self) -> None:
        """End the proxy and the desk."""
        self._proxy.close()
        self._desk.close()

    def run(self, copy: Copy, what: str, about: dict[str, Any], point: Point | None = None, **job: Any) -> Ran:
        """Run a process to its end, and end its connections.

        Args:
            copy: The databases and the folder.
            what: The job: consume, produce or finish.
            about: What the target is.
            point: Where the process is killed. None: nowhere.
            **job: Further arguments of the job.
        """
        ran = Ran(FaultInjector(point), about=about)
        timer = threading.Timer(self.options.patience, _give_up, [ran])
        timer.start()
        try:
            self._run(ran, copy, lambda about: None, job | {"what": what, "port": self._proxy.port, "lease": _LEASE})
        finally:
            timer.cancel()
        ran.said = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
        if ran.status not in (0, 1, -signal.SIGKILL) and ran.failed is None:
            ran.failed = f"the process ended with status {ran.status}"
        return ran

    def set_up(self, copy: Copy, on_about: Callable[[dict[str, Any]], None]) -> Ran:
        """Run the set-up in the template. `on_about` is called with what the target is, before anything is made."""
        ran = Ran(FaultInjector())
        functions = [name for name in self.options.setups if not name.endswith(".sql")]
        messages = list(self.options.messages)
        self._run(ran, copy, on_about, {"what": "set_up", "setups": functions, "messages": messages})
        return ran

    def _run(self, ran: Ran, copy: Copy, on_about: Callable[[dict[str, Any]], None], job: dict[str, Any]) -> None:
        self._log.write_bytes(b"")
        self._proxy.serve(ran.injector)
        job |= {
            "desk": self._desk.path,
            "target": self.options.target,
            "modules": str(Path(self.options.modules).absolute()),
            "retry_delay": _RETRY_DELAY,
        }
        with (
            psycopg.connect(self.scratch.dsn(copy.broker), autocommit=True) as conn,
            self._desk.answered_by(_Answers(ran, conn, on_about).answer),
        ):
            ran.status = self._fork(job, copy.folder, self._log, **self._environment(copy))
        self._proxy.hang_up()
        self.scratch.wait_until_alone(copy)

    def _environment(self, copy: Copy) -> dict[str, str]:
        broker, second = self._proxy.dsn(copy.broker), self._proxy.dsn(copy.second)
        effect = second.replace("postgresql:", "postgresql+psycopg:", 1)
        given = {
            name: second.replace("postgresql:", f"{driver}:", 1) if driver else second
            for name, driver in self.options.databases.items()
        }
        return {
            "MQPG_DATABASE_URL": broker,
            "DATABASE_URL": broker,
            "MQPG_CONSUMER": "crashtest",
            "MQPG_CRASHTEST_EFFECT": effect,
            "MQPG_LEDGER_CRASHTEST": effect,
            # Code that connects without an address must not find a real database.
            "PGUSER": self._proxy.user,
            "PGPASSWORD": self._proxy.password,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self._proxy.port),
            "PGDATABASE": copy.broker,
        } | given


class _Answers:
    """Answers the questions of one process."""

    def __init__(self, ran: Ran, conn: psycopg.Connection[Any], on_about: Callable[[dict[str, Any]], None]) -> None:
        self._ran, self._conn, self._on_about = ran, conn, on_about
        self._session = Session(ours=True)
        self._held = False

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        ran = self._ran
        match question:
            case {"pid": pid}:
                ran.injector.pid = pid
            case {"about": about}:
                ran.about = about
                self._on_about(about)
            case {"handler": "enter"}:
                ran.calls += 1
                ran.injector.in_handler = True
            case {"handler": "leave", "left": left}:
                ran.injector.in_handler = False
                ran.left += left
            case {"raised": text, "asked": asked}:
                ran.raised += [] if asked else [text]
            case {"outside": [kind, name], "times": times}:
                ran.outside += Counter({(kind, name): times})  # which leaves none that is 0
            case {"failed": text, "usage": usage}:
                ran.failed, ran.usage = text, usage
            case {"statement": text, "when": when}:
                return self._statement(text, when)
            case {"quiet": True}:
                return {"end": self._is_done()}
            case {"undecided": True}:
                return {"handles": [row[0] for row in self._conn.execute(_UNDECIDED)]}
            case _:
                pass
        return {}

    def _statement(self, text: str, when: str) -> dict[str, Any]:
        """A statement that goes to another database than PostgreSQL."""
        injector = self._ran.injector
        if when == "before":
            ruling = injector.before(self._session, text)
            self._held = ruling is Ruling.HOLD
            return {"refuse": ruling is Ruling.REFUSE}
        if self._held:
            self._held = False
            injector.after()
        return {}

    def _is_done(self) -> bool:
        """Do the appender's work, and look whether the group has finished."""
        if len(self._ran.raised) >= MOST_FAILURES or self._ran.stuck:
            return True
        appended = self._conn.execute("select mqpg.append()").fetchone()
        left = self._conn.execute(_LEFT, [self._ran.about["group"], self._ran.about["topic"]]).fetchone()
        if appended == (0,) and left == (0,):
            return True
        if appended == (0,):
            time.sleep(0.05)
        return False


def _give_up(ran: Ran) -> None:
    ran.stuck = True
    ran.injector.kill()
