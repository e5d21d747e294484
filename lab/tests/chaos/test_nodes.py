"""A broker: a kill takes all of its processes, it recovers, and a stop is over after SIGCONT."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lab.chaos.nodes import Broker
from lab.processes import Process
from mqpg.embedded import EmbeddedServer

pytestmark = pytest.mark.chaos

IDLE = [sys.executable, "-c", "import time; time.sleep(60)"]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with EmbeddedServer() as server:
        made = Broker("broker-1", server, Process("worker-1", IDLE, tmp_path, os.environ))
        made.worker.start()
        yield made
        made.worker.kill()


def test_a_killed_broker_leaves_no_process_and_keeps_what_was_committed(broker: Broker) -> None:
    dsn = broker.server.dsn()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table kept (id int)")
        conn.execute("insert into kept values (1)")
        pids = [broker.server.pid or 0, conn.info.backend_pid]
        assert all(map(_alive, pids))
        broker.kill()
        assert not any(map(_alive, pids))
    assert broker.server.pid is None
    broker.start()
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select id from kept").fetchall() == [(1,)]
    assert broker.server.dsn() == dsn


def test_a_paused_broker_answers_again_after_it_is_resumed(broker: Broker) -> None:
    with psycopg.connect(broker.server.dsn(), autocommit=True) as conn:
        began = time.monotonic()
        broker.send(signal.SIGSTOP)
        conn.pgconn.send_query(b"select 1")
        conn.pgconn.flush()
        time.sleep(0.5)
        conn.pgconn.consume_input()
        assert conn.pgconn.is_busy()
        broker.send(signal.SIGCONT)
        while conn.pgconn.get_result():
            pass
        assert time.monotonic() - began < 30
