"""What `mqpg doctor` looks at: the server and its sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .finding import Finding, Row
from .live_checks import check_moment

__all__ = ["check_server"]

# What a setting must be, else what that costs.
_MUST_BE = {
    "fsync": ("on", "a crash of the machine may damage the database"),
    "full_page_writes": ("on", "a crash of the machine may damage the database"),
    "autovacuum": ("on", "tables and transaction ids are never cleaned up"),
    "track_counts": ("on", "autovacuum does not know what to clean up"),
}
_SETTINGS = """
select s.name, s.setting, s.boot_val from pg_settings as s
where s.name in ('fsync', 'full_page_writes', 'autovacuum', 'track_counts', 'synchronous_commit',
    'max_locks_per_transaction', 'max_stack_depth', 'server_version')
"""
# to_regclass() needs the right to use the schema.
_PGMQ = """
select coalesce((select 'extension ' || e.extversion from pg_extension as e where e.extname = 'pgmq'), (
    select 'SQL from the PyPI package' from pg_class as c
    where c.relnamespace = to_regnamespace('pgmq') and c.relname = 'q_mqpg_oplog')) as pgmq
"""


def check_server(rows: Callable[[str], list[Row]]) -> list[Finding]:
    """Look at the server's settings, its clock, its sessions and PGMQ."""
    found = {row["name"]: row for row in rows(_SETTINGS)}
    settings = {name: row["setting"] for name, row in found.items()}
    return [
        Finding("server", True, f"PostgreSQL {settings['server_version']}"),
        *_settings(settings),
        _locks(**found["max_locks_per_transaction"]),
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


def _locks(name: str, setting: str, boot_val: str) -> Finding:
    """PostgreSQL's own default is enough. From version 19 on that is 128, and means as many locks as 64 did."""
    few = int(setting) < int(boot_val)
    return Finding(name, not few, setting, f"set it to {boot_val} or more" if few else None)


def _pgmq(found: str | None) -> Finding:
    return Finding("PGMQ", found is not None, found or "missing", None if found else "the dump was not restored whole")
