"""`mqpg audit --follow`: incremental audits without end, and their heartbeat at the broker."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from mqpg.connection.text_session import one_line, text_session
from mqpg.embedded.locate import resolve
from mqpg.values.errors import ConnectionFailed, DatabaseError, LedgerError

from .incremental import open_progress

__all__ = ["Audited", "follow"]

_BEAT_SECONDS = 10.0
_BEAT = """
select mqpg._heartbeat(
    %s::text, 'audit'::text, %s::text, %s::int, %s::text, %s::jsonb || jsonb_strip_nulls(jsonb_build_object(
        'since', clock_timestamp() - make_interval(secs => %s::float8))))
"""


@dataclass(frozen=True)
class Audited:
    """One of the audits of `follow`."""

    verdict: Verdict  # unknown, if it was not finished
    report: Report | None  # None: it was not finished
    error: str | None  # why it was not; None: it was


def follow(
    options: AuditOptions,
    path: Path | None,
    interval: float,
    stop: threading.Event,
    show: Callable[[Audited], None],
    warn: Callable[[str], None],
) -> Verdict:
    """Audit again and again, until `stop` is set. The audit that is under way then is finished.

    An invalid verdict does not end it, because a reader must see when it is repaired. The view worker_status
    shows the newest verdict. `warn` is called once, if that view cannot be written. Returns the verdict of the
    last audit. Raises ConnectionFailed if a database does not answer at the first one.
    """
    with open_progress(path) as progress:
        heartbeat = _Heartbeat(resolve(options.dsn), warn)
        last: Audited | None = None
        try:
            while last is None or not stop.wait(interval):
                heartbeat.begin()
                try:
                    report = progress.audit(options)
                    last = Audited(report.verdict, report, None)
                except (ConnectionFailed, DatabaseError, LedgerError, psycopg.OperationalError) as error:
                    if last is None:
                        raise
                    last = Audited(Verdict.UNKNOWN, None, one_line(error))
                heartbeat.tell(last)
                show(last)
        finally:
            heartbeat.end()
        return last.verdict


class _Heartbeat:
    """Reports the newest verdict in the view worker_status, every ten seconds, by a thread."""

    def __init__(self, dsn: str, warn: Callable[[str], None]) -> None:
        self._dsn, self._warn = dsn, warn
        self._worker_id = f"audit-{uuid.uuid4().hex[:12]}"
        self._detail: dict[str, Any] = {"verdict": None}
        self._began: float | None = None  # when the audit that is under way did
        self._told, self._ended, self._warned = threading.Event(), False, False
        self._thread = threading.Thread(target=self._run, name="mqpg-audit-heartbeat", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Report, with the next heartbeat, that an audit is under way, and since when.

        The verdict stays that of the audit before, so only this shows that one hangs.
        """
        self._began = time.monotonic()

    def tell(self, audited: Audited) -> None:
        """Report a verdict at once."""
        detail: dict[str, Any] = {"verdict": str(audited.verdict)}
        if audited.report is None:
            detail["reasons"] = [audited.error]
        else:
            report = audited.report
            detail["reasons"] = list(report.reasons[:5])
            detail["anomalies"] = {kind: n for kind, n in report.anomalies.items() if n}
            detail["at"] = report.run["at"].isoformat()
            detail["seconds"] = report.run["seconds"]
            detail["judged_messages"] = report.run["incremental"]["judged"].get("messages", 0)
        self._detail, self._began = detail, None
        self._told.set()

    def end(self) -> None:
        """Report the end, and stop."""
        self._ended = True
        self._told.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        connection: psycopg.Connection[dict[str, Any]] | None = None
        while True:
            self._told.clear()
            ended = self._ended
            try:
                connection = connection or text_session(self._dsn, "mqpg audit")
                state = "stopped" if ended else "active"
                identity = (self._worker_id, socket.gethostname(), os.getpid())
                began = self._began
                seconds = None if began is None else time.monotonic() - began
                connection.execute(_BEAT, (*identity, state, json.dumps(self._detail), seconds))
            except (psycopg.Error, ConnectionFailed) as error:
                if not self._warned:
                    self._warn(f"worker_status does not show this audit: {one_line(error)}")
                self._warned = True
                if connection is not None:
                    connection.close()
                connection = None
            if ended:
                break
            self._told.wait(_BEAT_SECONDS)
        if connection is not None:
            connection.close()
