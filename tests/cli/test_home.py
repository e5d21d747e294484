"""`mqpg up` and `mqpg down`: embedded server and workers in the background, data kept in one folder."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest

import mqpg as library
from mqpg import Ledger, embedded, migrate
from mqpg.embedded import EmbeddedServer, Home
from mqpg.errors import ConfigurationError
from tests.support.forking import run_mqpg
from tests.support.waiting import eventually

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A folder of `mqpg up`, stopped at the end."""
    found = Home(tmp_path / "with blanks" / ".mqpg")
    yield found
    found.down(remove=True)


@pytest.fixture
def mqpg(home: Home) -> Run:
    """Run the command with MQPG_HOME set to that folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = _run(*arguments, MQPG_HOME=str(home.directory))
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_up_twice_work_down_twice_and_the_data_are_kept(home: Home, mqpg: Run) -> None:
    first = mqpg("up")
    dsn = first.stdout.strip()
    assert re.fullmatch(
        r"mqpg: making a server of PostgreSQL in .*, once\nmqpg: server in .* listens on 127\.0\.0\.1:\d+\n"
        r"mqpg: the database mqpg has the schema of mqpg \S+\nmqpg: workers run as process \d+, log in .*worker\.log\n",
        first.stderr,
    )
    migrate.check(dsn)
    workers = home.worker_pid()
    assert workers is not None
    assert mqpg("up").stdout.strip() == dsn
    assert home.worker_pid() == workers

    mqpg("topic", "create", "orders")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select mqpg.send('orders', '{}')")
        eventually(lambda: _scalar(connection, "select sum(next_offset) from mqpg.queue_depth") == 1)

    mqpg("down")
    assert home.worker_pid() is None
    assert home.server.pid is None
    assert "nothing was running" in mqpg("down").stderr

    with psycopg.connect(mqpg("up", "--no-workers").stdout.strip(), autocommit=True) as connection:
        assert _scalar(connection, "select sum(next_offset) from mqpg.queue_depth") == 1


def test_killed_workers_are_started_again_by_up(home: Home) -> None:
    home.up()
    first = home.worker_pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: home.worker_pid() is None)
    home.up()
    assert home.worker_pid() not in (None, first)


def test_a_group_right_after_up_has_a_ledger_that_is_known(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQPG_LEDGER_SHOP", f"sqlite:///{tmp_path}/shop.db")
    said: list[str | None] = []
    with psycopg.connect(home.up(), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.execute("select mqpg.create_producer_group('a', checker => 'url', checker_target => 'shop')")
        assert said == []
        connection.execute("select mqpg.create_producer_group('b', checker => 'url', checker_target => 'depot')")
        assert len(said) == 1


def test_a_running_up_takes_a_new_ledger(home: Home, tmp_path: Path) -> None:
    """A later `up` from a shell without the variable leaves the workers and their ledgers alone."""
    ledgers = {name: f"sqlite:///{tmp_path / name}.db" for name in ("shop", "depot")}
    for url in ledgers.values():
        with Ledger(url) as ledger:
            ledger.create()

    def up(**variables: str) -> str:
        done = _run("up", MQPG_HOME=str(home.directory), **variables)
        assert done.returncode == 0, done.stderr
        return done.stderr

    up()
    first = home.worker_pid()
    connection = psycopg.connect(home.server.dsn("mqpg"), autocommit=True)
    for name in ledgers:
        connection.execute(
            "select mqpg.create_producer_group(%s, checker => 'url', checker_target => %s)", [name, name]
        )

    def states() -> dict[str, str]:
        query = "select detail -> 'ledgers' from mqpg.worker_status where role = 'compensator' and state = 'active'"
        rows = connection.execute(query).fetchall()
        return {name: found["state"] for (detail,) in rows for name, found in detail.items()}

    eventually(lambda: states() == {"shop": "unknown", "depot": "unknown"})
    assert "restart with MQPG_LEDGER_SHOP" in up(MQPG_LEDGER_SHOP=ledgers["shop"])
    eventually(lambda: states() == {"shop": "ok", "depot": "unknown"})
    second = home.worker_pid()
    assert second not in (None, first)
    assert up() == up(MQPG_LEDGER_SHOP=ledgers["shop"])
    assert home.worker_pid() == second
    assert "restart with MQPG_LEDGER_DEPOT" in up(MQPG_LEDGER_DEPOT=ledgers["depot"])
    eventually(lambda: states() == {"shop": "ok", "depot": "ok"})
    connection.close()


def test_it_outlives_who_started_it_and_is_found(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_HOME", str(home.directory))
    assert embedded.running_dsn() is None
    code = "import sys; from mqpg.embedded import Home; Home(sys.argv[1]).up(workers=False)"
    subprocess.run([sys.executable, "-c", code, str(home.directory)], check=True, cwd="/")
    found = embedded.running_dsn()
    assert found == home.server.dsn("mqpg")
    assert home.worker_pid() is None
    home.down()
    assert embedded.running_dsn() is None


def test_workers_that_do_not_start_are_told(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such worker >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(ConfigurationError, match=r"workers do not start, see .*worker\.log: no such worker"):
        home.up()


@pytest.mark.parametrize("folder", ["/etc/passwd", "/etc/passwd/below", "/proc/x"])
def test_a_folder_that_cannot_be_used_is_one_line(folder: str) -> None:
    for done in (
        _run("up", "--data", folder),
        _run("topic", "list", "--dsn", "embedded", MQPG_HOME=folder),
    ):
        assert done.returncode == 2
        assert re.fullmatch(rf"mqpg: .*cannot use folder {folder}: .*MQPG_HOME.*\n", done.stderr)
    done = _run("down", "--data", folder)
    assert (done.returncode, done.stderr) == (0, f"nothing was running: {folder}\n")


@pytest.mark.parametrize("variables", [{}, {"MQPG_DATABASE_URL": ""}, {"DATABASE_URL": ""}])
@pytest.mark.parametrize(
    "command", [["topic", "list"], ["migrate"], ["migrate", "status"], ["worker"], ["worker", "appender"]]
)
def test_no_command_but_up_starts_a_server(tmp_path: Path, command: list[str], variables: dict[str, str]) -> None:
    for arguments in ([], ["--dsn", ""]):
        done = _run(*command, *arguments, cwd=str(tmp_path), **variables)
        assert done.returncode == 2
        assert re.fullmatch(r"mqpg: .*(is empty|no database is named): .*MQPG_DATABASE_URL.*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_connect_starts_a_server_only_by_the_name_embedded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MQPG_", "PG")) or name == "DATABASE_URL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MQPG_HOME", str(home.directory))
    with pytest.raises(ConfigurationError, match="no database is named"):
        library.connect()
    assert not home.directory.exists()
    with library.connect("embedded") as mq:
        dsn = mq.dsn
    with library.connect() as mq:
        assert mq.dsn == dsn


def test_a_command_names_the_server_that_does_not_run(home: Home, mqpg: Run) -> None:
    """After a reboot, or if it was killed: its data are there, so there is one to start."""
    mqpg("up", "--no-workers")
    mqpg("down")
    done = _run("status", MQPG_HOME=str(home.directory))
    assert done.returncode == 2
    assert done.stderr == (
        f"mqpg: no database is named, and the server in {home.directory} does not run: mqpg up starts it again\n"
    )
    mqpg("up", "--no-workers")
    assert _run("topic", "list", MQPG_HOME=str(home.directory)).returncode == 0


def test_the_port_and_so_the_dsn_stay_the_same(home: Home, mqpg: Run) -> None:
    dsn = mqpg("up", "--no-workers").stdout
    mqpg("down")
    assert mqpg("up", "--no-workers").stdout == dsn
    mqpg("down")
    port = home.server.last_port
    assert port is not None
    assert port < 32768  # the system gives those above to outgoing connections
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        done = _run("up", "--no-workers", MQPG_HOME=str(home.directory))
        assert done.returncode == 2
        assert re.fullmatch(rf"mqpg: .*port {port}, .*another program has it: .*mqpg up --port N.*\n", done.stderr)
        moved = mqpg("up", "--no-workers", "--port", "0").stdout
        assert moved != dsn
    mqpg("down")
    assert mqpg("up", "--no-workers").stdout == moved


def test_another_port_than_that_of_the_running_server_is_refused(home: Home) -> None:
    dsn = home.up(workers=False)
    port = home.server.port
    assert port is not None
    assert Home(home.directory, port=port).up(workers=False) == dsn
    with pytest.raises(ConfigurationError, match=rf"runs on port {port}, not {port + 1}: stop it first \(mqpg down\)"):
        Home(home.directory, port=port + 1).up(workers=False)
    assert home.server.pid is not None


@pytest.mark.parametrize("is_link", [False, True], ids=["folder", "link"])
def test_what_others_have_in_the_folder_stays(home: Home, mqpg: Run, tmp_path: Path, is_link: bool) -> None:
    """`--data .` is a folder with a project in it, and `--data ~` the home of somebody."""
    home.directory.mkdir(parents=True)
    others = [home.directory / "thesis.txt", home.directory / "src" / "password"]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(home.directory)
    mqpg("up", "--no-workers")
    assert (home.directory / "pgdata").is_dir()
    mqpg("down", "--remove", "--data", str(link if is_link else home.directory))
    assert sorted(path for path in home.directory.rglob("*") if path.is_file()) == sorted(others)
    assert home.server.pid is None


@pytest.mark.parametrize("command", ["up --no-workers", "down --remove"])
def test_an_empty_name_is_no_folder(command: str, tmp_path: Path) -> None:
    """As where a variable of a script was not set: it would be the current folder."""
    done = _run(*command.split(), "--data", "", cwd=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "mqpg: --data is empty: name a folder, or leave it out\n")
    assert list(tmp_path.iterdir()) == []


def _run(*command: str, cwd: str = "/", **variables: str) -> subprocess.CompletedProcess[str]:
    """Without the variables that name a broker, except `variables`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG"))}
    environment.pop("DATABASE_URL", None)
    return run_mqpg(*command, env=environment | variables, cwd=cwd)


def _scalar(connection: psycopg.Connection[tuple[object, ...]], query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_a_new_folder_is_small(home: Home) -> None:
    with psycopg.connect(home.up(workers=False)) as connection:
        assert _scalar(connection, "show wal_segment_size") == "2MB"
        assert _scalar(connection, "select sum(size)::int from pg_ls_waldir()") == 2 * 1024**2
        eventually(lambda: _scalar(connection, "show wal_recycle") == "on")


def test_segments_of_wal_are_kept_again_if_the_installation_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(dsn: str) -> NoReturn:
        raise ConfigurationError("no schema")

    monkeypatch.setattr("mqpg.embedded.home.migrate.upgrade", fail)
    with pytest.raises(ConfigurationError, match="no schema"):
        home.up(workers=False)
    with psycopg.connect(home.server.dsn()) as connection:
        eventually(lambda: _scalar(connection, "show wal_recycle") == "on")


def test_a_folder_of_an_earlier_release_keeps_working(home: Home) -> None:
    EmbeddedServer(home.directory, detach=True).start()
    for _ in range(2):
        with psycopg.connect(home.up(workers=False)) as connection:
            assert connection.execute("select current_database(), current_setting('wal_segment_size')").fetchone() == (
                "mqpg",
                "16MB",
            )
        home.down()
