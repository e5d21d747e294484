"""A full file system: writes fail, the server breaks off, and nothing that was committed is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from lab.chaos.disk import SETTINGS, enlarge, recover, run_full, small_disk
from mqpg.embedded import EmbeddedServer

pytestmark = [pytest.mark.chaos, pytest.mark.rounds, pytest.mark.timeout(300)]

# The tests must not need root: in a user namespace of its own a process may mount.
PREFIX = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]


def write(dsn: str, noted: list[int], refused: list[str | None]) -> None:
    """Insert rows that need space until told to stop; note those whose commit was answered."""
    number = 0
    until = time.monotonic() + 8
    while time.monotonic() < until:
        try:
            with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
                while time.monotonic() < until:
                    number += 1
                    conn.execute("insert into big values (%s, repeat(md5(random()::text), 2000))", [number])
                    noted.append(number)
        except psycopg.Error as error:
            refused.append(error.sqlstate)
            time.sleep(0.05)


def fill_a_server(folder: Path) -> None:
    """Fill the disk of a server while somebody writes, and compare what is there afterwards."""
    noted: list[int] = []
    refused: list[str | None] = []
    with small_disk(folder), EmbeddedServer(folder, settings=SETTINGS) as server:
        dsn = server.create_database("broker")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("create table big (id int, filler text)")
            conn.execute("alter table big alter filler set storage external")
        writer = threading.Thread(target=write, args=(dsn, noted, refused))
        writer.start()
        before = server.pid
        run_full(server, dsn, 4.0)
        recover(server)
        ended = (
            server.pid != before or (server.pgdata / "server.log").read_text().count("ready to accept connections") > 1
        )
        writer.join()
        with psycopg.connect(dsn, autocommit=True) as conn:
            kept = {row[0] for row in conn.execute("select id from big")}
            conn.execute("insert into big values (0, 'there is space again')")
            enlarge(folder)
            conn.execute("insert into big select 0, repeat('x', 1000000) from generate_series(1, 600)")
    left = os.path.ismount(folder)
    print(json.dumps({"broke off": ended, "refused": refused, "lost": sorted(set(noted) - kept), "left": left}))


def test_a_full_disk_breaks_the_server_off_and_nothing_committed_is_gone(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o711)  # root's server runs as another user
    code = "import sys, pathlib; from lab.tests.chaos.test_disk import fill_a_server as fill; fill(pathlib.Path(sys.argv[1]))"
    command = [*PREFIX, sys.executable, "-c", code, str(tmp_path / "server")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "53100" in found.pop("refused")
    assert found == {"broke off": True, "lost": [], "left": False}


def test_who_may_not_mount_is_told_so_in_one_line() -> None:
    # In a new user namespace nobody has rights on the file systems of the old one.
    command = ["unshare", "--user", "--map-current-user", sys.executable, "-m", "lab.chaos", "--faults", "disk"]
    done = subprocess.run([*command, "--engines", "sql"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "--faults disk mounts a small file system, which this user may not: run it as root" in said
