"""How the audit grows with the history: seconds, memory and temporary files (`make audit-scale`).

    python tools/audit_scale.py [--sizes 100000,1000000] [--engines spark,sql]

For each size the script fills a database by SQL, runs `mqpg audit --drained --json` on it with each
engine and prints one JSON object. With the SQL engine it then adds 1 % more messages and runs an
incremental audit of them. A fifth of the messages are half messages with their rows in the broker's
ledger, and one consumer group has applied all messages in a journal. The server is an
embedded one, or the one of `--dsn`, whose user must be able to create databases. Each database is
dropped at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from mqpg import migrate
from mqpg.embedded import EmbeddedServer

__all__ = ["fill", "main", "measure", "measure_both"]

# A crash of the machine may lose these databases.
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "shared_buffers": "512MB", "max_wal_size": "4GB"}
_TABLES = """
select mqpg.create_topic('orders', 8);
select mqpg.create_producer_group('shop', checker => 'ledger');
select mqpg.subscribe('board', 'orders');
create table mqpg_applied (
    consumer_group varchar(127) not null, topic varchar(127) not null, queue_id int not null,
    queue_offset bigint not null, message_id bigint not null, applied_at timestamptz not null)
"""
_SEND: LiteralString = """
do $$ begin
    for i in 1..%(calls)s loop
        perform mqpg.send_batch('orders',
            (select array_agg('{"n":' || g || '}') from generate_series(1, %(batch)s) g));
        commit;
        if i %% 50 = 0 then perform mqpg.append(); commit; end if;
    end loop;
    perform mqpg.append();
end $$
"""
_HALVES: LiteralString = """
do $$ declare
    v_handles text [];
begin
    for i in 1..%(calls)s loop
        select array_agg(h) into v_handles from mqpg.prepare_batch('orders',
            (select array_agg('{"h":' || g || '}') from generate_series(1, %(batch)s) g), 'shop') h;
        commit;
        insert into mqpg.ledger (handle) select unnest(v_handles);
        commit;
        perform mqpg.commit_batch(v_handles);
        commit;
        if i %% 20 = 0 then perform mqpg.append(); commit; end if;
    end loop;
    perform mqpg.append();
end $$
"""
_CONSUME: LiteralString = """
do $$ declare
    v_receipt text;
begin
    loop
        with d as (select * from mqpg.receive('board', 'orders', 1000)),
        j as (
            insert into mqpg_applied
            select 'board', 'orders', d.queue_id, d.queue_offset, d.message_id, clock_timestamp() from d)
        select min(d.receipt) into v_receipt from d;
        exit when v_receipt is null;
        perform mqpg.ack(v_receipt);
        commit;
    end loop;
end $$
"""


def fill(dsn: str, messages: int, batch: int) -> None:
    """Write a drained history of so many messages.

    Args:
        dsn: An empty database.
        messages: The number of messages. A fifth of them are half messages.
        batch: How many messages are sent or prepared in one call, 1 to 1000.
    """
    migrate.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in _TABLES.split(";"):
            conn.execute(statement.encode())
        _work(conn, messages, batch)
        conn.execute("vacuum analyze")


def _work(conn: psycopg.Connection[Any], messages: int, batch: int) -> None:
    halves = messages // 5 // batch
    conn.execute((_SEND % {"calls": messages // batch - halves, "batch": batch}).encode())
    conn.execute((_HALVES % {"calls": halves, "batch": batch}).encode())
    conn.execute(_CONSUME.encode())


def measure(dsn: str, options: list[str]) -> dict[str, Any]:
    """Audit a database in a process of its own.

    Args:
        dsn: The database.
        options: More options of `mqpg audit`.

    Returns:
        The figures: the verdict, rows, seconds and CPU seconds, peak MiB of the JVM, of Python and
        of temporary files, and the machine's load. `seconds` has the start of the process in it.
        The SQL engine's temporary tables and CPU seconds are the server's, so they are not counted.

    Raises:
        RuntimeError: The audit gave no report.
    """
    peak: Counter[str] = Counter()
    command = [sys.executable, "-m", "mqpg", "audit", "--dsn", dsn, "--drained", "--json", *options]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="audit-scale-") as folder:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": folder})
        watcher = threading.Thread(target=_watch, args=(process, Path(folder), peak))
        watcher.start()
        out, _ = process.communicate()
        watcher.join()
    seconds = time.monotonic() - started
    try:
        report = json.loads(out)
    except ValueError as error:
        raise RuntimeError(f"no report, exit status {process.returncode}") from error
    again = (report["run"].get("incremental") or {}).get("judged_again")
    if again:
        raise RuntimeError(f"everything was judged again: {again}")
    return {
        "verdict": report["verdict"],
        "rows": report["run"]["rows"],
        "seconds": round(seconds, 1),
        "read_seconds": report["run"]["read_seconds"],
        "judge_seconds": round(report["run"]["seconds"] - report["run"]["read_seconds"], 1),
        "cpu_seconds": round(peak["ticks"] / os.sysconf("SC_CLK_TCK")),
        "jvm_mib": peak["java"] >> 20,
        "python_mib": peak["python"] >> 20,
        "temporary_mib": peak["files"] >> 20,
        "load": round(os.getloadavg()[0], 1),
    }


def measure_both(dsn: str, size: int, options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Audit a database with each engine, and then incrementally.

    Args:
        dsn: The database.
        size: How many messages it has.
        options: The arguments of the command line.

    Yields:
        A name that begins with the number of messages, and the figures.
    """
    engines = options.engines.split(",")
    if "spark" in engines:
        heap = ["--memory", options.memory] if options.memory else []
        yield f"{size} messages", measure(dsn, heap)
    if "sql" in engines:
        with tempfile.TemporaryDirectory(prefix="audit-scale-") as folder:
            state = ["--engine", "sql", "--state", str(Path(folder) / "state.json")]
            yield f"{size} messages, sql", measure(dsn, state)
            with psycopg.connect(dsn, autocommit=True) as conn:
                _work(conn, size // 100, min(options.batch, size // 1000))
            yield f"{size} messages, sql after 1 % more", measure(dsn, state)


def _watch(process: subprocess.Popen[str], folder: Path, peak: Counter[str]) -> None:
    while process.poll() is None:
        ticks = 0
        for pid in _family(process.pid):
            ticks += sum(map(int, _read(pid, "stat").rpartition(") ")[2].split()[11:15]))
            kind = "java" if _read(pid, "comm").startswith("java") else "python"
            pages = _read(pid, "statm").split()[1:2]
            peak[kind] = max(peak[kind], int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0)
        peak["ticks"] = max(peak["ticks"], ticks)
        peak["files"] = max(peak["files"], _size(folder))
        time.sleep(0.5)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in _read(pid, f"task/{pid}/children").split():
        yield from _family(int(child))


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except OSError:
        return ""


def _size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(root, name))
            except OSError:
                continue
    return total


@contextmanager
def _database(server: str, name: str) -> Iterator[str]:
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(SQL("create database {}").format(Identifier(name)))
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            conn.execute(SQL("drop database {} with (force)").format(Identifier(name)))


@contextmanager
def _server(dsn: str | None) -> Iterator[str]:
    if dsn:
        yield dsn
        return
    with EmbeddedServer(settings=SETTINGS) as server:
        yield server.dsn()


def main(arguments: list[str]) -> int:
    """Measure all sizes and print the figures.

    Args:
        arguments: The arguments of the command line.

    Returns:
        The exit status: 1 if a verdict was not valid, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of messages (default %(default)s)")
    parser.add_argument("--batch", type=int, default=1000, help="messages sent in one call (default %(default)s)")
    parser.add_argument("--engines", default="spark,sql", help="spark and sql, or one of them (default %(default)s)")
    parser.add_argument("--memory", help="the JVM's heap, as in mqpg audit --memory")
    parser.add_argument("--dsn", help="the server; its user must be able to create databases")
    options = parser.parse_args(arguments)
    figures: dict[str, Any] = {}
    with _server(options.dsn) as server:
        for size in map(int, options.sizes.split(",")):
            with _database(server, f"audit_scale_{size}_{os.getpid()}") as dsn:
                fill(dsn, size, options.batch)
                for name, figures[name] in measure_both(dsn, size, options):
                    print(name, figures[name], file=sys.stderr, flush=True)
    print(json.dumps(figures))
    return int(any(one["verdict"] != "valid" for one in figures.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
