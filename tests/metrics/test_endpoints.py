"""`mqpg worker --metrics` over HTTP, and `mqpg worker --health`, which asks the broker."""

import re
import socket
import subprocess
from functools import partial
from typing import Any

import httpx2 as httpx
import psycopg
import pytest

from mqpg.errors import ConfigurationError
from mqpg.metrics.server import serving
from mqpg.status import Source
from tests.support.forking import run_mqpg
from tests.support.processes import Processes
from tests.support.servers import free_port
from tests.support.waiting import eventually


@pytest.fixture
def port() -> int:
    return free_port()


def get(port: int) -> httpx.Response | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10, trust_env=False)
    except httpx.TransportError:
        return None


def serves(port: int, line: str) -> bool:
    page = get(port)
    return page is not None and line in page.text


def ask(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_mqpg("worker", "--health", "--dsn", dsn, *arguments)


def test_a_supervisor_serves_metrics_and_sends_heartbeats(processes: Processes, port: int, dsn: str) -> None:
    process = processes.start("worker", "--heartbeat", "0.2", "--metrics", f"127.0.0.1:{port}")
    eventually(lambda: ask(dsn).returncode == 0)
    page = eventually(lambda: get(port))  # the workers may have begun before the endpoint
    assert 'mqpg_workers_active{role="appender"} 1.0' in page.text
    assert page.headers["content-type"].startswith("text/plain")
    assert "process_resident_memory_bytes" in page.text
    assert ask(dsn).stdout.strip() == "ok"
    assert process.stop() == 0
    assert get(port) is None
    done = ask(dsn)
    assert (done.returncode, "no heartbeat of appender, compensator, keeper on " in done.stderr) == (1, True)


def test_the_pass_time_is_measured(processes: Processes, port: int, dsn: str) -> None:
    processes.start("worker", "appender", "--heartbeat", "0.2", "--metrics", f"127.0.0.1:{port}")
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("select mqpg.create_topic('orders')")
        db.execute("select mqpg.send('orders', '1'::text)")

    def passed() -> bool:
        page = get(port)
        seconds = page and re.search(r"mqpg_append_pass_seconds\{.*\} (\S+)", page.text)
        return bool(seconds and 0 < float(seconds[1]) < 10)

    eventually(passed)


def test_health_names_the_role_that_is_missing(dsn: str) -> None:
    done = ask(dsn, "appender")
    assert done.returncode == 1
    assert "no heartbeat of appender on " in done.stderr
    assert ask("host=127.0.0.1 port=1 dbname=x").returncode == 3


def test_the_broker_goes_away_and_comes_back(own_server: Any) -> None:
    with serving("127.0.0.1:0", Source(own_server.dsn, "test")) as port:
        for change, line in (
            (lambda: None, "mqpg_up 1.0"),
            (own_server.server.stop, "mqpg_up 0.0"),
            (own_server.server.start, "mqpg_up 1.0"),
        ):
            change()
            eventually(partial(serves, port, line))


def test_a_silent_client_does_not_stop_others(dsn: str) -> None:
    with serving("127.0.0.1:0", Source(dsn, "test")) as port, socket.create_connection(("127.0.0.1", port)):
        assert get(port) is not None


@pytest.mark.parametrize("text", ["9464", "localhost", ":1", "h:x", "h:70000", "h:-1", "", "[h:1"])
def test_what_is_no_address_is_refused(dsn: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"), serving(text, Source(dsn, "test")):
        pass


def test_a_port_in_use_is_one_line(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match="cannot listen on"), serving(address, Source(dsn, "test")):
            pass


def test_the_server_gives_up_a_scraper_whose_host_vanished(dsn: str) -> None:
    source = Source(dsn, "mqpg metrics")
    found = {one["name"]: one["setting"] for one in source.rows("select * from pg_settings where name like 'tcp_%%'")}
    source.close()
    assert int(found["tcp_user_timeout"]) == 10_000  # milliseconds
    assert int(found["tcp_keepalives_idle"]) + 2 * int(found["tcp_keepalives_interval"]) == 20
