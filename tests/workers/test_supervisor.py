"""`mqpg worker` without a role restarts and drains its children and leaves none behind.

PostgreSQL restarts meanwhile.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.fixtures.databases import OwnServer
from tests.support.processes import Process, Processes
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

ROLES = {"appender", "compensator", "keeper"}
_ALIVE = "select role, pid from mqpg.worker_status where alive and state = %s and pid = any(%s)"


def family(supervisor: Process) -> list[int]:
    return [child.pid for child in psutil.Process(supervisor.pid).children()]


def told(db: Connection, state: str, pids: list[int]) -> dict[str, int]:
    """Return role -> pid of the processes that worker_status shows alive in that state."""
    return dict(db.execute(_ALIVE, [state, pids]).fetchall())


def all_active(db: Connection, supervisor: Process) -> dict[str, int] | None:
    roles = told(db, "active", family(supervisor))
    return roles if set(roles) == ROLES else None


def stopped(db: Connection, pids: list[int]) -> bool:
    query = "select count(*) from mqpg.worker where state = 'stopped' and pid = any(%s)"
    return db.execute(query, [pids]).fetchone() == (len(pids),)


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.chaos
def test_a_dead_child_is_replaced_and_sigterm_drains_all(processes: Processes, db: Connection) -> None:
    supervisor = processes.start("worker", "--heartbeat", "0.2")
    first = eventually(lambda: all_active(db, supervisor), why=processes.logs)
    psutil.Process(first["appender"]).kill()
    second = eventually(
        lambda: (now := all_active(db, supervisor)) and now["appender"] != first["appender"] and now,
        why=processes.logs,
    )
    assert (second["compensator"], second["keeper"]) == (first["compensator"], first["keeper"])
    assert supervisor.stop() == 0
    assert stopped(db, list(second.values()))
    assert not any(is_running(pid) for pid in second.values())


def test_workers_that_were_frozen_go_on(processes: Processes, db: Connection) -> None:
    """As by Ctrl-Z and `fg`, for longer than the supervisor's time-out and for less."""
    supervisor = processes.start("worker")
    eventually(lambda: all_active(db, supervisor), why=processes.logs)
    everybody = [supervisor.pid, *family(supervisor)]
    for seconds in (2, 0.1, 2):
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in everybody:
                os.kill(pid, number)
            time.sleep(seconds)
        assert is_running(supervisor.pid), processes.logs()
    eventually(lambda: all_active(db, supervisor), why=processes.logs)
    assert [supervisor.pid, *family(supervisor)] == everybody
    assert supervisor.stop() == 0


def test_sigterm_before_the_children_listen_is_no_failure(processes: Processes) -> None:
    supervisor = processes.start("worker")
    eventually(lambda: supervisor.log().count("child started") == len(ROLES), why=processes.logs)
    assert supervisor.stop() == 0, processes.logs()


def test_the_end_of_standard_input_drains_all(processes: Processes, db: Connection) -> None:
    supervisor = processes.start("worker", "--heartbeat", "0.2", "--stop-on-eof")
    children = list(eventually(lambda: all_active(db, supervisor), why=processes.logs).values())
    os.close(supervisor.stdin)
    supervisor.stdin = os.open(os.devnull, os.O_RDONLY)
    assert supervisor.wait() == 0
    assert stopped(db, children)
    assert "the parent process is gone" in supervisor.log()


@pytest.mark.chaos
def test_children_of_a_killed_supervisor_drain_by_themselves(processes: Processes, db: Connection) -> None:
    supervisor = processes.start("worker", "--heartbeat", "0.2")
    children = list(eventually(lambda: all_active(db, supervisor), why=processes.logs).values())
    supervisor.kill()
    eventually(lambda: not any(is_running(pid) for pid in children), why=processes.logs)
    assert stopped(db, children)


def test_metrics_that_cannot_listen_end_all(processes: Processes) -> None:
    supervisor = processes.start("worker", "--metrics", "nowhere")
    assert supervisor.wait() == 2, processes.logs()
    assert "HOST:PORT" in supervisor.log()


HANDLER = """
import mqpg

@mqpg.consumer("t", group="g")
def apply(message, conn):
    conn.execute("insert into effect values (%s)", [message.message_id])
"""


@pytest.fixture
def on_own_server(tmp_path: Path, own_server: OwnServer) -> Iterator[Processes]:
    """Starts processes on a server that the test may crash."""
    (tmp_path / "handlers.py").write_text(HANDLER)
    made = Processes(tmp_path, own_server.dsn)
    yield made
    made.close()
    print(made.logs())


@pytest.mark.chaos
def test_i12_all_workers_survive_a_crash_of_postgresql(on_own_server: Processes, own_server: OwnServer) -> None:
    processes = on_own_server
    with psycopg.connect(own_server.dsn, autocommit=True) as db:
        db.execute("create table effect (message_id bigint not null)")
        db.execute("select mqpg.create_topic('t', 4)")
        db.execute("select mqpg.create_producer_group('g', '100 ms', checker => 'ledger')")
        pair = [processes.start("worker", "--heartbeat", "0.2") for _ in range(2)]
        consumers = [processes.start("consume", "handlers:apply", "--consumer", name) for name in ("a", "b")]
        eventually(lambda: len(everybody(db, pair)) == 6, why=processes.logs)
        before = everybody(db, pair)
        sent = send(db, 100)
        eventually(lambda: effects(db), why=processes.logs)
    for _ in range(2):
        own_server.crash()
    with psycopg.connect(own_server.dsn, autocommit=True) as db:
        db.execute("update mqpg.worker set seen_at = '-infinity'")
        sent += send(db, 100)
        row = db.execute("select mqpg.prepare('t', '{}'::text, 'g')").fetchone()
        assert row is not None
        db.execute("select mqpg.local_begin(%s)", row)
        sent.append(int(row[0].split(".")[2]))
        eventually(lambda: len(effects(db)) >= len(sent), why=processes.logs)
        assert effects(db) == sorted(sent)
        after = eventually(lambda: len(now := everybody(db, pair)) == 6 and now, why=processes.logs)
        assert after == before
        for state in ("active", "standby"):
            eventually(lambda state=state: set(told(db, state, list(after))) == ROLES, why=processes.logs)  # type: ignore[misc]
        assert [process.stop() for process in (*pair, *consumers)] == [0, 0, 0, 0]
        assert stopped(db, list(after))


def everybody(db: Connection, supervisors: list[Process]) -> dict[int, str]:
    """Return pid -> role of the children that worker_status shows alive."""
    pids = [pid for supervisor in supervisors for pid in family(supervisor)]
    return dict(db.execute("select pid, role from mqpg.worker_status where alive and pid = any(%s)", [pids]).fetchall())


def send(db: Connection, count: int) -> list[int]:
    query = "select mqpg.send_batch('t', array_fill('{}'::text, array[%s]))"
    return [row[0] for row in db.execute(query, [count])]


def effects(db: Connection) -> list[int]:
    return [row[0] for row in db.execute("select message_id from effect order by message_id")]
