"""The embedded server: any folder, any user, crashes, and its end with the process that started it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from mqpg.embedded import EmbeddedServer
from mqpg.errors import ConfigurationError
from tests.support.servers import copied_files, free_port, restart, temporary_server
from tests.support.waiting import eventually


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., EmbeddedServer]]:
    """Start servers that are stopped at the end, whatever happens."""
    started: list[EmbeddedServer] = []

    def create(directory: Path | None, **options: object) -> EmbeddedServer:
        server = EmbeddedServer(directory, **options)  # type: ignore[arg-type]
        started.append(server)
        return server.start()

    yield create
    for server in started:
        server.destroy()


@pytest.fixture(scope="module")
def stopped() -> Iterator[EmbeddedServer]:
    """A server that has stopped. Its files are copied, because to make new ones takes a second."""
    with temporary_server() as server:
        server.stop()
        yield server


@pytest.fixture
def folder(stopped: EmbeddedServer) -> Path:
    """A folder with the data of a server, for a test that destroys it."""
    return copied_files(stopped)


def test_starts_in_a_folder_with_blanks_quotes_and_a_long_private_path(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    private = tmp_path / "it's private" / ("long " * 30)
    private.mkdir(parents=True)
    private.chmod(0o700)
    server = start(private / "data")
    assert _one(server, "show fsync") == "on"
    assert _one(server, "show full_page_writes") == "on"
    assert _one(server, "show server_encoding") == "UTF8"


def test_listens_on_this_machine_only_and_asks_for_a_password(
    folder: Path, start: Callable[..., EmbeddedServer]
) -> None:
    server = start(folder)
    assert _one(server, "show listen_addresses") == "127.0.0.1"
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres password=wrong")
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres")


def test_settings_and_a_given_port(folder: Path, start: Callable[..., EmbeddedServer]) -> None:
    port = free_port()
    server = start(folder, port=port, settings={"work_mem": "7MB", "application_name": "it's"})
    assert server.port == port
    assert _one(server, "show work_mem") == "7MB"
    assert _one(server, "select reset_val from pg_settings where name = 'application_name'") == "it's"


def test_a_taken_port_is_one_clear_error(folder: Path, tmp_path: Path, start: Callable[..., EmbeddedServer]) -> None:
    first = start(folder)
    with pytest.raises(ConfigurationError, match=rf"cannot have port {first.port}, because another") as caught:
        start(tmp_path / "second", port=first.port)
    assert "\n" not in str(caught.value)


def test_committed_data_survive_an_immediate_shutdown(folder: Path, start: Callable[..., EmbeddedServer]) -> None:
    server = start(folder)
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("create table t as select 42 as n")
    port, pid = server.port, server.pid
    restart(server)
    assert server.port == port
    assert server.pid != pid
    assert _one(server, "select n from t") == 42


def test_starts_after_the_postmaster_was_killed(folder: Path, start: Callable[..., EmbeddedServer]) -> None:
    server = start(folder)
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("create table t as select 42 as n")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: server.pid is None)
    server.start()
    assert _one(server, "select n from t") == 42


def test_another_server_with_the_pid_of_a_killed_one_is_left_alone(
    folder: Path, stopped: EmbeddedServer, start: Callable[..., EmbeddedServer]
) -> None:
    """Pids begin again after a restart of the machine or container, and `stop` sends a signal to one."""
    mine, other = start(folder), start(copied_files(stopped))
    pid_file = mine.pgdata / "postmaster.pid"
    _, *rest = pid_file.read_text().splitlines(keepends=True)
    mine.stop("immediate")
    children = subprocess.run(["pgrep", "-P", str(other.pid)], capture_output=True, text=True, check=True)
    for pid in (other.pid, *children.stdout.split()[:1]):
        pid_file.write_text("".join([f"{pid}\n", *rest]))
        assert mine.pid is None
        mine.stop()
    assert _one(other, "select 1") == 1
    pid_file.unlink()


def test_a_folder_that_was_moved_has_its_server(tmp_path: Path, start: Callable[..., EmbeddedServer]) -> None:
    server = start(tmp_path / "before")
    pid = server.pid
    (tmp_path / "before").rename(tmp_path / "after")
    moved = EmbeddedServer(tmp_path / "after")
    assert moved.pid == pid
    assert _one(moved, "select 1") == 1
    moved.destroy()


def test_joining_a_server_that_recovers_from_a_crash_waits_for_it(
    folder: Path, start: Callable[..., EmbeddedServer]
) -> None:
    server = start(folder, settings={"checkpoint_timeout": "1h"})
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create table t as select g as n, repeat('x', 500) as t from generate_series(1, 200000) g")
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        eventually(lambda: _refuses(server))
    joined = start(folder)
    assert joined.pid == server.pid
    assert _one(joined, "select count(*) from t") == 200_000


def test_data_and_password_stay_in_a_named_directory_until_it_is_destroyed(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        first = server.dsn("kept")
        server.create_database("kept")
    assert not server.pid is not None
    with EmbeddedServer(tmp_path / "data") as server:
        assert server.dsn("kept").split("@")[0] == first.split("@")[0]
        assert server.create_database("kept") == server.dsn("kept")
        data = Path(str(_one(server, "show data_directory")))
    assert data.exists()
    server.destroy()
    assert not data.exists()
    assert not server.directory.exists()


def test_a_second_one_in_the_same_directory_joins_the_first(folder: Path, start: Callable[..., EmbeddedServer]) -> None:
    first = start(folder)
    second = start(folder)
    assert second.dsn() == first.dsn()
    second.close()
    assert first.pid is not None


def test_data_of_another_major_version_are_refused(folder: Path, start: Callable[..., EmbeddedServer]) -> None:
    server = start(folder)
    server.stop()
    (folder / "pgdata" / "PG_VERSION").write_text("9\n")
    with pytest.raises(
        ConfigurationError,
        match=r"pg_upgrade or pg_dump move the data; .*initialized by PostgreSQL version 9, which is not compatible",
    ):
        server.start()


def test_an_interrupted_initdb_is_made_anew(tmp_path: Path, start: Callable[..., EmbeddedServer]) -> None:
    server = start(tmp_path / "data")
    server.close()
    data = (tmp_path / "data" / "pgdata").resolve()
    data.rename(data.parent / ".pgdata.new")
    again = start(tmp_path / "data")
    assert _one(again, "select 1") == 1


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_the_process_that_started_it(folder: Path, end: signal.Signals) -> None:
    code = (
        "import sys, time; from mqpg.embedded import EmbeddedServer; "
        "server = EmbeddedServer(sys.argv[1]).start(); print(server.pid, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    server = EmbeddedServer(folder)
    assert server.pid == pid
    process.send_signal(end)
    process.communicate()
    eventually(lambda: server.pid is None)
    server.destroy()


def test_a_child_that_leaves_the_block_stops_nothing() -> None:
    with EmbeddedServer() as server:
        child = os.fork()
        if child == 0:
            try:
                server.__exit__()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("select 1")
    assert server.pid is None
    assert not server.directory.exists()


def test_a_temporary_one_leaves_nothing() -> None:
    with EmbeddedServer() as server:
        directory, data = server.directory, _one(server, "show data_directory")
        assert _one(server, "show unix_socket_directories") == ""
    for path in (directory, data):
        assert not Path(str(path)).exists()


def test_binaries_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(ConfigurationError, match="MQPG_POSTGRES_BIN names no folder"):
        EmbeddedServer(tmp_path / "data").start()
    fake = tmp_path / "postgres"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    with pytest.raises(ConfigurationError, match=r"cannot run .*initdb|may not execute"):
        EmbeddedServer(tmp_path / "data").start()


def _one(server: EmbeddedServer, query: str) -> object:
    with psycopg.connect(server.dsn()) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _refuses(server: EmbeddedServer) -> bool:
    try:
        psycopg.connect(server.dsn()).close()
    except psycopg.OperationalError:
        return True
    return False
