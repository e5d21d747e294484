"""No password is shown: not in the list of processes, in logs, errors, results, or the tables of the broker."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.bench import pgbench
from mqpg import errors
from mqpg.connection import dsn as dsns
from mqpg.embedded import locate
from tests.support.forking import run_mqpg
from tests.support.waiting import eventually

CANARY = "canary7f"
PASSWORD = f"{CANARY} @:/?#%41&='\"\\{CANARY}"
MQPG = str(Path(sys.executable).with_name("mqpg"))


@pytest.fixture
def parts(dsn: str) -> Iterator[dict[str, str]]:
    """The parameters of a superuser of the test's own, whose password has every special character."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        row = admin.execute("select 'canary_' || pg_backend_pid()").fetchone()
        assert row is not None
        name = sql.Identifier(row[0])
        statement = sql.SQL("create role {} login superuser password {}")
        admin.execute(statement.format(name, sql.Literal(PASSWORD)))
        found = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
        yield found | {"user": row[0], "password": PASSWORD}
        admin.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s", [row[0]])
        admin.execute(sql.SQL("drop role {}").format(name))


def url(parts: dict[str, str], scheme: str = "postgresql", *, password: bool = True) -> str:
    login = quote(parts["user"], safe="") + (f":{quote(parts['password'], safe='')}" if password else "")
    return f"{scheme}://{login}@{parts['host']}:{parts['port']}/{parts['dbname']}"


def passfile(folder: Path, parts: dict[str, str]) -> str:
    path = folder / "pgpass"
    escaped = parts["password"].replace("\\", "\\\\").replace(":", "\\:")
    path.write_text(f"*:*:*:{parts['user']}:{escaped}\n")
    path.chmod(0o600)
    return str(path)


def service_file(folder: Path, parts: dict[str, str]) -> str:
    path = folder / "services.conf"
    path.write_text("[queue]\n" + "".join(f"{name}={value}\n" for name, value in parts.items()))
    return str(path)


WAYS: dict[str, Callable[[Path, dict[str, str]], dict[str, str]]] = {
    "url": lambda _, parts: {"MQPG_DATABASE_URL": url(parts)},
    "sqlalchemy": lambda _, parts: {"MQPG_DATABASE_URL": url(parts, "postgresql+psycopg")},
    "conninfo": lambda _, parts: {"DATABASE_URL": make_conninfo(**parts)},
    "variables": lambda _, parts: {
        "PGHOST": parts["host"], "PGPORT": parts["port"], "PGDATABASE": parts["dbname"],
        "PGUSER": parts["user"], "PGPASSWORD": parts["password"],
    },
    "service": lambda folder, parts: {"PGSERVICE": "queue", "PGSERVICEFILE": service_file(folder, parts)},
    "service in the DSN": lambda folder, parts: {
        "MQPG_DATABASE_URL": "service=queue", "PGSERVICEFILE": service_file(folder, parts),
    },
    "passfile": lambda folder, parts: {
        "MQPG_DATABASE_URL": url(parts, password=False), "PGPASSFILE": passfile(folder, parts),
    },
}  # fmt: skip


def clean() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG"))}
    kept.pop("DATABASE_URL", None)
    return kept | {"NO_COLOR": "1", "COLUMNS": "120"}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_mqpg(*arguments, env=environment)


def command_lines(pid: int) -> dict[int, str]:
    """What `ps` shows of a process and all its descendants."""
    found = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    lines = {}
    for one in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines[one.pid] = Path(f"/proc/{one.pid}/cmdline").read_text().replace("\0", " ")
    return lines


@pytest.mark.parametrize("way", ["sqlalchemy", "service"])
def test_workers_show_no_password(way: str, parts: dict[str, str], tmp_path: Path, db: psycopg.Connection) -> None:
    """Supervisor and roles: arguments, log, tables, sessions."""
    environment, log = clean() | WAYS[way](tmp_path, parts), tmp_path / "log"
    ledger = environment.get("MQPG_DATABASE_URL", "")
    environment["MQPG_LEDGER_SHOP"] = ledger if ledger.startswith("postgresql+") else "sqlite://"
    with log.open("w") as stderr:
        supervisor = subprocess.Popen([MQPG, "-vv", "worker", "--log-level", "debug"], env=environment, stderr=stderr)

        def active() -> bool:
            rows = db.execute("select role from mqpg.worker where state = 'active'").fetchall()
            return supervisor.poll() is not None or {row[0] for row in rows} >= {"appender", "compensator", "keeper"}

        eventually(active, timeout=60)
        assert supervisor.poll() is None, log.read_text()
        lines = command_lines(supervisor.pid)
        tables = db.execute("select w::text from mqpg.worker w union all select v::text from mqpg.worker_status v")
        rows = tables.fetchall()
        sessions = db.execute("select application_name from pg_stat_activity").fetchall()
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0
    assert len(lines) == 4
    assert len(rows) >= 6
    shown = " ".join([*lines.values(), *map(str, rows), *map(str, sessions), log.read_text()])
    assert CANARY not in shown
    assert "child started" in shown


@pytest.mark.parametrize("way", WAYS)
def test_commands_work_and_show_no_password(way: str, tmp_path: Path, parts: dict[str, str]) -> None:
    done = run(clean() | WAYS[way](tmp_path, parts), "-vv", "topic", "create", "t")
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize("option", ["--dsn", "--ledger"])
def test_a_password_among_the_arguments_is_warned_of_in_one_line(option: str, parts: dict[str, str]) -> None:
    given = ["--dsn", make_conninfo(**parts)]
    if option == "--ledger":
        given = ["--ledger", f"shop={url(parts)}", "--ledger", f"bar={url(parts)}", "--dsn", "mysql://no/password"]
    done = run(clean(), *(["worker"] if option == "--ledger" else ["topic", "list"]), *given)
    assert done.returncode == (2 if option == "--ledger" else 0)
    (warning,) = (line for line in done.stderr.splitlines() if "warning" in line)
    for way in (option, "MQPG_DATABASE_URL", "MQPG_LEDGER_", "PGSERVICE", "PGPASSFILE"):
        assert way in warning
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        ("postgresql://u:x@h/db", True),
        ("postgresql://h/db?password=x", True),
        ("postgresql://h/db?sslpassword=x", True),
        ("host=h password=x", True),
        ("postgresql+psycopg://u:x@h/db", True),
        ("shop=mysql://u:x@h/db", True),
        ("shop=postgresql://u:x@h/db", True),
        ("postgresql://u@h/db", False),
        ("host=h user=u", False),
        ("shop=sqlite:////data/shop.db", False),
        ("shop=postgresql+psycopg://u@h/db", False),
        ("embedded", False),
        ("", False),
    ],
)
def test_what_carries_a_password(text: str, carries: bool) -> None:
    assert dsns.has_password(text) is carries


def test_no_warning_without_a_password(tmp_path: Path, parts: dict[str, str]) -> None:
    environment = clean() | {"PGPASSFILE": passfile(tmp_path, parts)}
    done = run(environment, "topic", "list", "--dsn", url(parts, password=False))
    assert (done.returncode, done.stderr) == (0, "")


RAW = [
    f"postgresql://u:{CANARY}@{CANARY}@127.0.0.1:1/db",
    f"postgresql://u:{CANARY}/{CANARY}@127.0.0.1:1/db",
    f"postgresql+psycopg://u:{CANARY}@{CANARY}@127.0.0.1:1/db",
    f"postgresql+psycopg://u:{CANARY}/{CANARY}@127.0.0.1:1/db",
    f"postgres://u:{CANARY}@/{CANARY}@127.0.0.1/db",
    f"postgresql://u:{CANARY}%zz@127.0.0.1:1/db",
    f"host=127.0.0.1 password='{CANARY}",
    f"host=127.0.0.1 password={CANARY} {CANARY}",
    f"host=127.0.0.1 pasword={CANARY}",
    f"mysql://u:{CANARY}@{CANARY}@127.0.0.1:1/db",
]


@pytest.mark.parametrize("text", RAW)
def test_a_password_that_is_not_encoded_is_not_quoted_in_the_error(text: str) -> None:
    """Read as it stands, its second half would be the host or the database, and messages name these."""
    assert dsns.has_password(text) or "pasword" in text
    assert CANARY not in dsns.describe(text)
    with pytest.raises(errors.ConfigurationError) as caught:
        locate.resolve(text)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["postgresql:///a@b", "postgresql://u%40x:p%2Fq@h/db?application_name=a@b", "sqlite:////a@b"]
)
def test_an_at_sign_elsewhere_is_no_error(text: str) -> None:
    assert dsns.to_sqlalchemy(text).drivername in ("postgresql+psycopg", "sqlite")


def test_errors_quote_no_password(parts: dict[str, str]) -> None:
    refused = run(clean() | {"MQPG_DATABASE_URL": url(parts | {"user": "nobody_here"})}, "-vv", "topic", "list")
    malformed = run(clean() | {"MQPG_DATABASE_URL": RAW[0]}, "topic", "list")
    assert (refused.returncode, malformed.returncode) == (3, 2)
    assert CANARY not in refused.stdout + refused.stderr + malformed.stdout + malformed.stderr


def test_pgbench_gets_its_password_by_the_environment(
    parts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "pgbench"
    fake.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(os.environ['PGPASSWORD'] + chr(0) + ' '.join(sys.argv))\n"
        "sys.exit(1)\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(pgbench, "find", lambda: str(fake))
    with pytest.raises(RuntimeError) as caught:
        pgbench.drive(make_conninfo(**parts), ["select 1"], 1, 1, {})
    password, arguments = (tmp_path / "seen").read_text().split("\0")
    assert password == PASSWORD
    assert CANARY not in arguments + str(caught.value)
    assert f"user={parts['user']}" in arguments


def test_up_shows_its_password_to_its_caller_only(tmp_path: Path) -> None:
    home = {"MQPG_HOME": str(tmp_path / "home")}
    try:
        started = run(clean() | home, "up")
        assert started.returncode == 0, started.stderr
        password = conninfo_to_dict(started.stdout.strip())["password"]
        pid = int((tmp_path / "home/worker.pid").read_text().split()[0])
        server = int((tmp_path / "home/pgdata/postmaster.pid").read_text().split()[0])
        lines = command_lines(pid) | command_lines(server)
        assert len(lines) > 4
        logs = (tmp_path / "home/worker.log").read_text() + (tmp_path / "home/pgdata/server.log").read_text()
        listed = run(clean() | home, "topic", "list", "--json")
        assert json.loads(listed.stdout) == []
        assert str(password) not in " ".join([*lines.values(), logs, started.stderr, listed.stderr])
        assert (tmp_path / "home/password").stat().st_mode & 0o077 == 0
    finally:
        run(clean() | home, "down", "--remove")
