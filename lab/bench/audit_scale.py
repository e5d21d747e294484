"""How the audit grows with the history: seconds, memory and temporary files (`make audit-scale`).

    python -m lab.bench.audit_scale [--sizes 100000,1000000] [--engines spark,sql]

For each size it fills a database by SQL, runs `mqpg audit --drained --json` on it with each engine
and prints one JSON object. With the SQL engine it then adds 1 % more messages and runs an incremental
audit of them. A fifth of the messages are half messages with their rows in the broker's ledger, and
one consumer group has applied all messages in a journal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import psutil
import psycopg

from mqpg import migrate
from mqpg.embedded import EmbeddedServer

__all__ = ["main"]

# A crash of the machine may lose these databases.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "shared_buffers": "512MB", "max_wal_size": "4GB"}
_BATCH = 1000  # messages that are sent or prepared in one call
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


def _work(dsn: str, messages: int, batch: int) -> None:
    """Send and consume so many messages. A fifth of them are half messages."""
    halves = messages // 5 // batch
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute((_SEND % {"calls": messages // batch - halves, "batch": batch}).encode())
        conn.execute((_HALVES % {"calls": halves, "batch": batch}).encode())
        conn.execute(_CONSUME.encode())
        conn.execute("vacuum analyze")


def _measure(dsn: str, *options: str) -> dict[str, Any]:
    """Audit a database in a process of its own.

    The figures are the verdict, rows, seconds (with the start of the process) and CPU seconds, peak MiB
    of the JVM, of Python and of temporary files, and the machine's load. The SQL engine's temporary
    tables and CPU seconds are the server's, so they are not counted.
    """
    command = [sys.executable, "-m", "mqpg", "audit", "--dsn", dsn, "--drained", "--json", *options]
    started, peak = time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="audit-scale-") as folder, tempfile.TemporaryFile() as out:
        process = psutil.Popen(command, stdout=out, env=os.environ | {"TMPDIR": folder})
        while process.poll() is None:
            _note_peaks(process, Path(folder), peak)
            time.sleep(0.5)
        seconds = time.monotonic() - started
        out.seek(0)
        report = json.load(out)
    if again := (report["run"].get("incremental") or {}).get("judged_again"):
        raise RuntimeError(f"everything was judged again: {again}")
    return {
        "verdict": report["verdict"],
        "rows": report["run"]["rows"],
        "seconds": round(seconds, 1),
        "read_seconds": report["run"]["read_seconds"],
        "judge_seconds": round(report["run"]["seconds"] - report["run"]["read_seconds"], 1),
        "cpu_seconds": peak["cpu"],
        "jvm_mib": peak["java"],
        "python_mib": peak["python"],
        "temporary_mib": peak["files"],
        "load": round(os.getloadavg()[0], 1),
    }


def _note_peaks(process: psutil.Process, folder: Path, peak: Counter[str]) -> None:
    try:
        now = Counter[str]()
        for one in (process, *process.children(recursive=True)):
            kind = "java" if one.name().startswith("java") else "python"
            now[kind] = max(now[kind], one.memory_info().rss >> 20)
            now["cpu"] += round(one.cpu_times().user + one.cpu_times().system)
        now["files"] = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) >> 20
    except (OSError, psutil.Error):
        return  # a process has ended, or a file is gone
    for name, value in now.items():
        peak[name] = max(peak[name], value)


def _measure_each(dsn: str, size: int, engines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Audit a database with each engine, and then incrementally."""
    if "spark" in engines:
        yield f"{size} messages", _measure(dsn)
    if "sql" in engines:
        with tempfile.TemporaryDirectory(prefix="audit-scale-") as folder:
            state = ["--engine", "sql", "--state", str(Path(folder) / "state.json")]
            yield f"{size} messages, sql", _measure(dsn, *state)
            _work(dsn, size // 100, min(_BATCH, size // 1000))
            yield f"{size} messages, sql after 1 % more", _measure(dsn, *state)


def main() -> int:
    """Measure all sizes and print the figures. The status is 1 if a verdict was not valid."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of messages (default %(default)s)")
    parser.add_argument("--engines", default="spark,sql", help="spark and sql, or one of them (default %(default)s)")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with EmbeddedServer(settings=_SETTINGS) as server:
        for size in map(int, options.sizes.split(",")):
            dsn = server.create_database(f"audit_scale_{size}")
            migrate.upgrade(dsn)
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute(_TABLES.encode())
            _work(dsn, size, _BATCH)
            for name, figures[name] in _measure_each(dsn, size, options.engines.split(",")):
                print(name, figures[name], file=sys.stderr, flush=True)
    print(json.dumps(figures))
    return int(any(one["verdict"] != "valid" for one in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
