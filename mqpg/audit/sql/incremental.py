"""Audits that leave out what earlier valid ones have judged."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.state import Judged, asked, load_state, locked_state, save_state
from mqpg.embedded.locate import resolve
from mqpg.values.errors import ConfigurationError

from .engine import run_tracked
from .judged import Rejudge
from .postgresql_source import PostgresqlSource

__all__ = ["Progress", "audit_with_state", "open_progress"]

_log = logging.getLogger(__name__)
_LIFE = """
select b.broker_id::text, array[
    b.incarnation::text, b.system_identifier::text, b.timeline,
    (select c.timeline_id::text from pg_control_checkpoint() as c)
] as life
from mqpg_audit.version as b
"""


class Progress:
    """What audits have judged so far. Each valid one adds to it, and to its file. Use `open_progress`."""

    def __init__(self, path: Path | None, judged: Judged | None) -> None:
        self._path, self._judged = path, judged

    def audit(self, options: AuditOptions) -> Report:
        """Run one audit of what is not judged yet, or of everything if that is safer.

        Raises ConfigurationError if what was judged belongs to another broker.
        """
        report, after = self._run(options)
        if after is not None:
            self._judged = after
            if self._path is not None:
                save_state(self._path, after)
        return report

    def _run(self, options: AuditOptions) -> tuple[Report, Judged | None]:
        nothing, judged = _nothing(options), self._judged
        why, altered = None, False
        if judged is not None:
            if judged.broker_id != nothing.broker_id:
                raise ConfigurationError(f"--state: {self._path or 'it'} belongs to another broker, {judged.broker_id}")
            if judged.asked != nothing.asked:
                why = "the options are others"
            elif judged.life != nothing.life:
                why = "the broker was restored or adopted"
            else:
                try:
                    return run_tracked(options, judged, nothing)
                except Rejudge as changed:
                    why, altered = str(changed), changed.altered
            _log.info("everything is judged again: %s", why)
        return run_tracked(options, None, nothing, why, altered=altered)


@contextlib.contextmanager
def open_progress(path: Path | None) -> Iterator[Progress]:
    """Continue where earlier audits ended, and keep others away from the file until the block ends.

    If there is no such file yet, everything is judged. The path None keeps the progress in memory.
    """
    if path is None:
        yield Progress(None, None)
        return
    with locked_state(path):
        yield Progress(path, load_state(path))


def audit_with_state(options: AuditOptions, path: Path) -> Report:
    """Run one incremental audit with a state in a file. If there is none yet, everything is judged."""
    with open_progress(path) as progress:
        return progress.audit(options)


def _nothing(options: AuditOptions) -> Judged:
    """Return a state in which nothing is judged."""
    from mqpg.schema import migrate

    dsn = resolve(options.dsn)
    migrate.check(dsn)
    with PostgresqlSource.open(dsn) as broker:
        row = broker.rows(_LIFE)[0]
    return Judged(row["broker_id"], row["life"], asked(options))
