"""`mqpg web` as a process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.support.waiting import eventually


def run(*arguments: str, dsn: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mqpg", "web", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "MQPG_WEB_PASSWORD"}
    env |= {"MQPG_DATABASE_URL": dsn} | environment
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_addresses_need_a_password(dsn: str, host: str) -> None:
    done = run("--host", host, dsn=dsn)
    assert done.returncode == 2
    assert "can be reached from other machines" in done.stderr


def test_actions_need_a_password(dsn: str, tmp_path: Path) -> None:
    assert "actions need a login" in run("--actions", dsn=dsn).stderr
    (tmp_path / "empty").touch()
    assert "is empty" in run("--password-file", str(tmp_path / "empty"), dsn=dsn).stderr


def test_roles_share_no_password(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x\n")
    done = run("--login", "role", "--password-file", str(tmp_path / "password"), dsn=dsn)
    assert (done.returncode, "leave it out" in done.stderr) == (2, True)


def test_it_serves_until_sigterm(dsn: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mqpg", "web", "--port", str(port)]
    process = subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn}, stderr=subprocess.PIPE, text=True)

    def page(host: str = "127.0.0.1") -> int:
        try:
            headers = {"Host": host}
            return httpx.get(f"http://127.0.0.1:{port}/topics", headers=headers, trust_env=False).status_code
        except httpx.TransportError:
            return 0

    try:
        eventually(lambda: page() == 200, 30)
        assert page("evil.example") == 400
        with httpx.stream("GET", f"http://127.0.0.1:{port}/events", trust_env=False, timeout=30) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("event:")) == "event: live"
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=20)
            list(lines)  # it ends in order
    finally:
        process.kill()
        process.wait()
    assert "exceeded" not in said, "no stream holds the end up"
    assert re.search(rf"http://127\.0\.0\.1:{port}/", said)
