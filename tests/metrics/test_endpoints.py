"""`mqpg worker --metrics` over HTTP, and `mqpg worker --health`."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import psycopg
import pytest

from mqpg.errors import ConfigurationError
from mqpg.metrics import Health, MetricsServer, parse_address
from mqpg.status import Source
from tests.support.processes import Processes
from tests.support.waiting import eventually


@pytest.fixture
def processes(tmp_path: Path, dsn: str) -> Iterator[Processes]:
    """Starts processes that work on `dsn`."""
    made = Processes(tmp_path, dsn)
    yield made
    made.close()
    print(made.logs())


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str) -> httpx.Response | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=10, trust_env=False)
    except httpx.TransportError:
        return None


def status(port: int, path: str) -> int:
    found = get(port, path)
    return 0 if found is None else found.status_code


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mqpg", "worker", "--health", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_supervisor_serves_metrics_and_health(processes: Processes, port: int, dsn: str) -> None:
    where = f"127.0.0.1:{port}"
    assert ask("--metrics", where).returncode == 1
    process = processes.start("worker", "--heartbeat", "0.2", "--metrics", where)
    eventually(lambda: status(port, "/readyz") == 200, 30)
    page = get(port, "/metrics")
    assert page is not None
    assert 'mqpg_workers_active{role="appender"} 1.0' in page.text
    assert page.headers["content-type"].startswith("text/plain")
    assert "process_resident_memory_bytes" in page.text
    assert (status(port, "/healthz"), status(port, "/other")) == (200, 404)
    asked = ask("--metrics", where)
    assert (asked.returncode, asked.stdout.strip()) == (0, "ok"), asked.stderr
    assert ask("--dsn", dsn).returncode == 0
    assert process.stop() == 0
    assert ask("--metrics", where).returncode == 1


def test_the_pass_time_is_measured(processes: Processes, port: int, dsn: str) -> None:
    processes.start("worker", "appender", "--heartbeat", "0.2", "--metrics", f"127.0.0.1:{port}")
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("select mqpg.create_topic('orders')")
        db.execute("select mqpg.send('orders', '1'::text)")

    def passed() -> bool:
        page = get(port, "/metrics")
        seconds = page and re.search(r"mqpg_append_pass_seconds\{.*\} (\S+)", page.text)
        return bool(seconds and 0 < float(seconds[1]) < 10)

    eventually(passed, 30)


def test_health_names_the_role_that_is_missing(dsn: str) -> None:
    done = ask("--dsn", dsn, "appender")
    assert done.returncode == 1
    assert "no heartbeat of appender on this host" in done.stderr


def test_the_broker_goes_away_and_comes_back(own_server: object) -> None:
    server, dsn = own_server.server, own_server.dsn  # type: ignore[attr-defined]
    health = Health(lambda: True, Source(dsn, "test"), [])
    with MetricsServer(parse_address("127.0.0.1:0"), health) as serving:
        port = serving.address.port
        assert status(port, "/readyz") == 200
        server.stop()
        assert status(port, "/readyz") == 503
        assert status(port, "/healthz") == 200
        page = get(port, "/metrics")
        assert page is not None
        assert "mqpg_up 0.0" in page.text
        server.start()
        eventually(lambda: "mqpg_up 1.0" in getattr(get(port, "/metrics"), "text", ""), 30)


def test_a_silent_client_does_not_stop_others(dsn: str) -> None:
    server = MetricsServer(parse_address("127.0.0.1:0"), Health(lambda: True, Source(dsn, "test"), []))
    with server as serving, socket.create_connection(serving.address):
        began = time.monotonic()
        assert status(serving.address.port, "/healthz") == 200
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["9464", "localhost", ":1", "h:x", "h:70000", "h:-1", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        parse_address(text)


def test_a_port_in_use_is_one_line(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = parse_address(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConfigurationError, match="cannot listen on"):
            MetricsServer(address, Health(lambda: True, Source(dsn, "test"), []))
