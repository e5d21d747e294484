"""The appender as a process takes over from a killed one, drains, tolerates other callers, and
idles cheaply.
"""

import signal
import threading
from collections.abc import Callable
from typing import Any

import psutil
import psycopg
import pytest

from tests.support.appending import Sender, appended, check_dense_and_once
from tests.support.processes import Processes, workers
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]


@pytest.mark.chaos
def test_i12_standby_takes_over_from_a_killed_appender(
    processes: Processes, db: Connection, connect: Callable[..., Connection]
) -> None:
    db.execute("select mqpg.create_topic('t', 4)")
    pair = [processes.worker("appender"), processes.worker("appender")]
    sender = Sender(connect(), "t")
    sender.start()
    for _ in range(2):
        active = eventually(lambda: workers(db, "appender", "active"), why=processes.logs)
        eventually(lambda: workers(db, "appender", "standby"), why=processes.logs)
        wanted = appended(db) + 1
        eventually(lambda: appended(db) >= wanted, why=processes.logs)  # noqa: B023 (called at once)
        (victim,) = (process for process in pair if process.pid in active)
        victim.kill()
        db.execute("delete from mqpg.worker where pid = %s", [victim.pid])
        pair = [process for process in pair if process is not victim] + [processes.worker("appender")]
    eventually(lambda: workers(db, "appender", "active"), why=processes.logs)
    sent = sender.finish()
    eventually(lambda: appended(db) == len(sent), why=processes.logs)
    check_dense_and_once(db, sent)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_with_status_0(processes: Processes, db: Connection, signum: signal.Signals) -> None:
    db.execute("select mqpg.create_topic('t')")
    appender = processes.worker("appender")
    eventually(lambda: workers(db, "appender", "active"), why=processes.logs)
    assert appender.stop(signum) == 0
    assert appender.pid in workers(db, "appender", "stopped")
    assert "stopped" in appender.log()


def test_other_callers_of_append_do_no_harm(
    processes: Processes, db: Connection, connect: Callable[..., Connection]
) -> None:
    db.execute("select mqpg.create_topic('t', 4)")
    processes.worker("appender", "--max-messages", "10")
    other, done = connect(), threading.Event()

    def call_append() -> None:
        while not done.wait(0.001):
            other.execute("select mqpg.append(7)")

    caller = threading.Thread(target=call_append)
    caller.start()
    try:
        query = "select mqpg.send_batch('t', array_fill('{}'::text, array[25]))"
        sent = [row[0] for _ in range(40) for row in db.execute(query)]
        eventually(lambda: appended(db) == len(sent), why=processes.logs)
    finally:
        done.set()
        caller.join()
    check_dense_and_once(db, sent)


def test_an_idle_appender_needs_little_cpu_and_counts_its_work(processes: Processes, db: Connection) -> None:
    db.execute("select mqpg.create_topic('t')")
    appender = processes.worker("appender", "--interval", "0.05")
    db.execute("select mqpg.send('t', '{}'::text)")
    passes = eventually(
        lambda: next((d["iterations"] for d in workers(db, "appender", "active").values() if d["messages"] == 1), 0),
        why=processes.logs,
    )
    process = psutil.Process(appender.pid)
    spent, wanted = sum(process.cpu_times()[:2]), passes + 40
    detail = eventually(
        lambda: next((d for d in workers(db, "appender", "active").values() if d["iterations"] > wanted), None),
        why=processes.logs,
    )
    # At 20 calls a second at most: a quarter of the time would be a spin.
    assert detail["messages"] == 1
    assert sum(process.cpu_times()[:2]) - spent < 0.25 * (detail["iterations"] - passes) / 20


_LEADERS = """
select {} from pg_locks
where classid = 1836150837 and objid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
"""


@pytest.mark.chaos
def test_who_loses_the_connection_leads_no_more(
    processes: Processes, db: Connection, connect: Callable[..., Connection]
) -> None:
    pair = [processes.worker("appender"), processes.worker("appender")]
    eventually(lambda: workers(db, "appender", "active") and workers(db, "appender", "standby"), why=processes.logs)
    (old,) = workers(db, "appender", "active")
    # Both wait for the lock before it is free: they must see that neither leads, then ask again.
    holder = connect()
    waiting = threading.Thread(target=holder.execute, args=["select pg_advisory_lock(1836150837, 1)"])
    waiting.start()
    query = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
    eventually(lambda: db.execute(query, [holder.info.backend_pid]).fetchone() == (True,), why=processes.logs)
    db.execute(_LEADERS.format("pg_terminate_backend(pid, 10000)").encode())
    waiting.join()
    eventually(lambda: set(workers(db, "appender", "standby")) == {p.pid for p in pair}, why=processes.logs)
    holder.execute("select pg_advisory_unlock(1836150837, 1)")
    (leader,) = eventually(lambda: workers(db, "appender", "active"), why=processes.logs)
    (standby,) = workers(db, "appender", "standby")
    assert {leader, standby} == {p.pid for p in pair}
    details = dict(db.execute("select pid, detail from mqpg.worker").fetchall())
    assert details[old]["failures"] >= 1
    assert len(db.execute(_LEADERS.format("pid").encode()).fetchall()) == 1
