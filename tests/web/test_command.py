"""`mqpg web` as a process."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

from mqpg.web.passwords import is_right, read_users
from tests.support.forking import run_mqpg
from tests.support.servers import free_port
from tests.support.waiting import eventually


def run(*arguments: str, dsn: str, text: str = "") -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as typed:
        typed.write(text.encode())
        typed.seek(0)
        return run_mqpg("web", *arguments, env=os.environ | {"MQPG_DATABASE_URL": dsn}, stdin=typed.fileno())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_addresses_need_users(dsn: str, host: str) -> None:
    done = run("--host", host, dsn=dsn)
    assert done.returncode == 2
    assert "can be reached from other machines" in done.stderr


def test_actions_need_users(dsn: str, tmp_path: Path) -> None:
    assert "actions need users" in run("--actions", dsn=dsn).stderr
    (tmp_path / "empty").touch()
    assert "has no user" in run("--password-file", str(tmp_path / "empty"), dsn=dsn).stderr


def test_users_are_added_and_their_passwords_changed(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "users"
    for name, password in (("ada", "first"), ("eve", "second"), ("ada", "third")):
        done = run("--password-file", str(file), "--add-user", name, dsn=dsn, text=f"{password}\n")
        assert done.returncode == 0, done.stderr
    users = read_users(file)
    assert list(users) == ["eve", "ada"]
    assert is_right("third", users["ada"])
    assert run("--add-user", "bob", dsn=dsn, text="x\n").returncode == 2
    done = run("--password-file", str(tmp_path / "no folder" / "users"), "--add-user", "bob", dsn=dsn, text="x\n")
    assert (done.returncode, "cannot write" in done.stderr) == (2, True)


def test_a_taken_port_is_one_line(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--port", str(taken.getsockname()[1]), dsn=dsn)
    assert done.returncode == 2
    assert done.stderr.startswith("mqpg: cannot listen on 127.0.0.1, port ")
    assert done.stderr.count("\n") == 1


@contextmanager
def running(dsn: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `mqpg web`, and yield the process and its address once it answers."""
    port = free_port()
    command = [sys.executable, "-m", "mqpg", "web", "--port", str(port), *options]
    process = subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn}, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: status(f"{address}/healthz") == 200)
        yield process, address
    finally:
        process.kill()
        process.communicate()


def status(address: str, **headers: str) -> int:
    try:
        return httpx.get(address, headers=headers, trust_env=False).status_code
    except httpx.TransportError:
        return 0


def test_it_serves_until_sigterm(dsn: str) -> None:
    with running(dsn) as (process, address):
        assert status(f"{address}/topics") == 200
        assert status(f"{address}/topics", Host="evil.example") == 400
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=45)
    assert process.returncode == -signal.SIGTERM
    assert f"{address}/" in said


def test_the_address_of_the_connection_says_who_is_a_proxy(dsn: str) -> None:
    """Not the one that a header claims, and a page of a foreign name on this machine is no proxy."""
    with running(dsn, "--user-header", "Remote-User") as (_, address):
        assert status(f"{address}/topics", **{"Remote-User": "ada"}) == 200
        assert status(f"{address}/topics", **{"Remote-User": "ada", "X-Forwarded-For": "192.0.2.1"}) == 200
        assert status(f"{address}/topics", **{"Remote-User": "ada", "Host": "evil.example"}) == 400
        assert status(f"{address}/topics") == 403
    with running(dsn, "--user-header", "Remote-User", "--trusted-proxy", "192.0.2.1") as (_, address):
        for forwarded in ({}, {"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}):
            assert status(f"{address}/topics", **{"Remote-User": "ada"}, **forwarded) == 403
