"""Nodes: a kill takes the whole group, a broker recovers, and a stop is over after SIGCONT."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lab.chaos.nodes import BrokerNode, ProcessNode
from mqpg.embedded import EmbeddedServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.chaos

# A process with a child, both of which write their pids.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ProcessNode]:
    (tmp_path / "parent.py").write_text(PARENT)
    made = ProcessNode("parent", ["parent", str(tmp_path / "pids")], tmp_path, os.environ)
    yield made
    made.kill()


def test_a_kill_takes_the_children_too(node: ProcessNode, tmp_path: Path) -> None:
    node.start()
    eventually((tmp_path / "pids").exists)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(map(_alive, pids))
    node.kill()
    eventually(lambda: not any(map(_alive, pids)))
    assert node.ended() is None  # it was killed, and did not end by itself


def test_a_node_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "brief.py").write_text("import sys; print('no more', file=sys.stderr); sys.exit(3)")
    made = ProcessNode("brief", ["brief"], tmp_path, os.environ)
    made.start()
    eventually(lambda: made.ended() == 3)
    assert made.tail == "no more"
    made.kill()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerNode]:
    (tmp_path / "idle.py").write_text("import time; time.sleep(60)")
    with EmbeddedServer() as server:
        made = BrokerNode("broker-1", server, ProcessNode("worker-1", ["idle"], tmp_path, os.environ))
        made.worker.start()
        yield made
        made.worker.kill()


def test_a_killed_broker_leaves_no_process_and_keeps_what_was_committed(broker: BrokerNode) -> None:
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


def test_a_paused_broker_answers_again_after_it_is_resumed(broker: BrokerNode) -> None:
    with psycopg.connect(broker.server.dsn(), autocommit=True) as conn:
        began = time.monotonic()
        broker.pause()
        conn.pgconn.send_query(b"select 1")
        conn.pgconn.flush()
        time.sleep(0.5)
        conn.pgconn.consume_input()
        assert conn.pgconn.is_busy()
        broker.resume()
        while conn.pgconn.get_result():
            pass
        assert time.monotonic() - began < 30
