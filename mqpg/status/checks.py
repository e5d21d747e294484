"""What `mqpg doctor` looks at: the server, its sessions, and what the commands need here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

from mqpg.errors import ConfigurationError
from mqpg.jdbc_jar import find_jdbc_jar

from .finding import Finding, Row
from .moment import check_moment

__all__ = ["check_machine", "check_server"]

# What a setting must be, else what that costs.
_MUST_BE = {
    "fsync": ("on", "a crash of the machine may damage the database"),
    "full_page_writes": ("on", "a crash of the machine may damage the database"),
    "autovacuum": ("on", "tables and transaction ids are never cleaned up"),
    "track_counts": ("on", "autovacuum does not know what to clean up"),
}
_SETTINGS = """
select s.name, s.setting from pg_settings as s
where s.name in ('fsync', 'full_page_writes', 'autovacuum', 'track_counts', 'synchronous_commit',
    'max_locks_per_transaction', 'max_stack_depth', 'server_version')
"""
_PGMQ = """
select coalesce((select 'extension ' || e.extversion from pg_extension as e where e.extname = 'pgmq'),
    case when to_regclass('pgmq.q_mqpg_oplog') is not null then 'SQL from the PyPI package' end) as pgmq
"""
_LEAST_LOCKS = 64  # PostgreSQL's default of max_locks_per_transaction
_LEAST_JAVA = 17


def check_server(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """Look at the server's settings, its clock, its sessions and PGMQ.

    Args:
        rows: Runs a query and returns its rows as dictionaries.

    Returns:
        What was found.
    """
    settings = {row["name"]: row["setting"] for row in rows(_SETTINGS)}
    return [
        Finding("server", True, f"PostgreSQL {settings['server_version']}"),
        *_settings(settings),
        *check_moment(rows),
        _pgmq(rows(_PGMQ)[0]["pgmq"]),
    ]


def _settings(settings: dict[str, str]) -> Iterator[Finding]:
    for name, (wanted, consequence) in _MUST_BE.items():
        ok = settings[name] == wanted
        remedy = None if ok else f"{consequence}: alter system set {name} = {wanted}, then reload"
        yield Finding(name, ok, settings[name], remedy)
    level = settings["synchronous_commit"]
    relaxed = level in ("off", "local")
    yield Finding(
        "synchronous_commit",
        not relaxed,
        level,
        "decisions and ticks are flushed anyway, but a crash may lose sends: set it to on" if relaxed else None,
    )
    locks = int(settings["max_locks_per_transaction"])
    few = locks < _LEAST_LOCKS
    yield Finding(
        "max_locks_per_transaction", not few, str(locks), f"set it to {_LEAST_LOCKS} or more" if few else None
    )


def _pgmq(found: str | None) -> Finding:
    return Finding("PGMQ", found is not None, found or "missing", None if found else "run mqpg migrate check")


def check_machine() -> list[Finding]:
    """Look for what `mqpg audit` with Spark needs on this machine, where Spark is installed.

    Returns:
        What was found.
    """
    if importlib.util.find_spec("pyspark") is None:
        return [Finding("Spark", True, "not installed; mqpg audit --engine sql works without it")]
    return [Finding("Spark", True, "installed"), _java(), _jar()]


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    remedy = f"install Java {_LEAST_JAVA} or newer, or set JAVA_HOME; mqpg audit --engine sql needs none"
    try:
        ran = subprocess.run([program or "java", "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return Finding("Java", False, "missing", remedy)
    line = (ran.stderr or ran.stdout).partition("\n")[0]
    digits = line.partition('"')[2].partition(".")[0]
    ok = digits.isdecimal() and int(digits) >= _LEAST_JAVA
    return Finding("Java", ok, line, None if ok else remedy)


def _jar() -> Finding:
    try:
        return Finding("JDBC jar", True, str(find_jdbc_jar()))
    except ConfigurationError as error:
        return Finding("JDBC jar", False, "none that may be used", str(error))
