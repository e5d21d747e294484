"""The command `mqpg`: results on stdout, one clear line of error on stderr, exit statuses."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from mqpg import migrate
from mqpg.cli import main
from mqpg.cli.commands import COMMANDS
from mqpg.cli.plugins import _load
from mqpg.cli.root import app

Run = Callable[..., "subprocess.CompletedProcess[str]"]

CORE = ("up", "down", "migrate", "topic", "subscription", "dead-letters", "group", "half", "status", "find", "trace")
EXTRA = ("worker", "consume", "audit", "crashtest")


@pytest.fixture
def mqpg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in an empty folder; MQPG_* and PG* of the test's environment are not seen."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("MQPG_", "PG", "DATABASE_URL"))]:
        monkeypatch.delenv(name)

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in ({"NO_COLOR": "1", "COLUMNS": "120"} | environment).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["mqpg", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_help_lists_every_command(mqpg: Run) -> None:
    done = mqpg("--help")
    assert done.returncode == 0
    for command in CORE + EXTRA:
        assert f" {command} " in done.stdout
    assert "Not available" not in done.stdout


def test_usage_errors(mqpg: Run) -> None:
    assert mqpg("no-such-command").returncode == 2
    assert mqpg("topic", "create").returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        "status --watch --interval inf",
        "ledger purge sqlite:///none.db --days inf",
        "ledger purge sqlite:///none.db --days 1e9",
        "subscription purge-journal g t --database sqlite:///none.db --days 1e9",
        "worker keeper --interval inf",
        "worker --heartbeat 60",
        "consume app:handle --heartbeat 60",
        "half settle HANDLE maybe --reason none",
    ],
)
def test_numbers_and_words_that_cannot_work(mqpg: Run, command: str) -> None:
    """With a heartbeat a minute, a worker would seem to be gone for half of the time."""
    done = mqpg(*command.split())
    assert (done.returncode, "Invalid value for" in done.stderr) == (2, True), done.stderr


def test_producer_groups(mqpg: Run, dsn: str) -> None:
    made = mqpg("group", "create", "shop", "--checker", "ledger", "--max-checks", "3", "--dsn", dsn)
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(mqpg("group", "list", "--json", "--dsn", dsn).stdout)
    assert (row["producer_group"], row["checker"], row["max_checks"]) == ("shop", "ledger", 3)
    assert row["expire_after"] == "168:00:00"
    for given, shown in (("30 days", "720:00:00"), ("never", "never")):
        altered = mqpg("group", "alter", "shop", "--expire-after", given, "--dsn", dsn)
        assert altered.returncode == 0, altered.stderr
        (row,) = json.loads(mqpg("group", "list", "--json", "--dsn", dsn).stdout)
        assert row["expire_after"] == shown


def test_no_server(mqpg: Run) -> None:
    for arguments in (["topic", "list"], ["migrate"], ["migrate", "status"]):
        _one_line(mqpg(*arguments, "--dsn", "postgresql://127.0.0.1:1/x?connect_timeout=2"), 3)


def test_schema_missing_older_newer(mqpg: Run, empty_dsn: str) -> None:
    _one_line(mqpg("topic", "list", MQPG_DATABASE_URL=empty_dsn), 3, "run mqpg migrate")
    assert mqpg("migrate", "status", "--dsn", empty_dsn).returncode == 1
    assert mqpg("migrate", "--dsn", empty_dsn).returncode == 0
    assert mqpg("migrate", "status", "--dsn", empty_dsn).returncode == 0
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(
            "update mqpg.alembic_version set version_num = '9999_mqpg'; update mqpg.installation set breaking = 9999"
        )
    _one_line(mqpg("topic", "list", MQPG_DATABASE_URL=empty_dsn), 4, "upgrade mqpg")
    _one_line(mqpg("migrate", MQPG_DATABASE_URL=empty_dsn), 4, "upgrade mqpg")
    assert "4 a schema that is too new" in mqpg("--help").stdout


def test_migrate_sql_is_the_script(mqpg: Run) -> None:
    assert mqpg("migrate", "sql").stdout == migrate.script()


def test_migrate_adopt(mqpg: Run, dsn: str, empty_dsn: str) -> None:
    done = mqpg("migrate", "adopt", "--dsn", dsn)
    assert done.returncode == 0
    assert "incarnation 2" in done.stdout
    with psycopg.connect(dsn) as connection:
        connection.execute("update mqpg.broker set system_identifier = 1")
    assert "transaction ids kept" in mqpg("migrate", "adopt", "--same-xids", "--dsn", dsn).stdout
    _one_line(mqpg("migrate", "adopt", MQPG_DATABASE_URL=empty_dsn), 3, "run mqpg migrate")


def test_migrate_adopt_promoted(mqpg: Run, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert "not promoted" in mqpg("migrate", "adopt", "--promoted", "--dsn", dsn).stdout
        conn.execute("update mqpg.broker set timeline = '000000FF'")
        assert "transaction ids kept" in mqpg("migrate", "adopt", "--promoted", "--dsn", dsn).stdout
        assert conn.execute("select incarnation from mqpg.broker").fetchone() == (2,)
    _one_line(mqpg("migrate", "adopt", "--promoted", "--same-xids", MQPG_DATABASE_URL=dsn), 2, "exclude each other")


def _one_line(done: subprocess.CompletedProcess[str], status: int, words: str = "") -> None:
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("mqpg: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_help_says_of_each_command_what_its_own_help_says() -> None:
    group: Any = get_command(app)
    context = Context(group)
    said = {name: (where, about) for commands in COMMANDS.values() for name, (where, about) in commands.items()}
    assert set(said) == set(group.list_commands(context))
    for name, (_, about) in said.items():
        own = (group.get_command(context, name).help or "").partition("\n\n")[0]
        assert " ".join(own.split()) == about, name


def test_help_loads_no_command() -> None:
    """So it takes a quarter of a second, of which most is Typer."""
    code = "import sys; sys.argv[1:] = ['--help']; from mqpg.cli import main; main()"
    code = f"import atexit, sys; atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr)); {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert [name for name in ("Run", "Look", "Mend", "Set up", "Prove") if f" {name} " not in done.stdout] == []
    assert "mqpg.cli.plugins" in done.stderr
    assert not re.search(r"'(psycopg|pydantic|sqlalchemy|starlette|mqpg\.connection)'", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["consume", "--help"], 0, "MODULE[:NAME]"),
        (["worker", "--nonsense"], 2, "No such option"),
        (["-v", "consume", "nowhere:handle", "--dsn", "dbname=none"], 2, "mqpg: cannot import 'nowhere'"),
    ],
)
def test_what_runs_all_day_reads_its_options_in_a_child(arguments: list[str], status: int, said: str) -> None:
    """This is so in a new process only, because Typer is loaded in that of the tests."""
    command = [sys.executable, "-m", "mqpg", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["--help", "tables sql", "migrate sql"])
def test_a_reader_that_is_gone_is_no_negative_result(command: str) -> None:
    """As with `mqpg … | head`. 1 would say, for example, that an audit is invalid."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    called = [sys.executable, "-m", "mqpg", *command.split()]
    with os.fdopen(write_end, "wb") as out:
        done = subprocess.run(called, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("tables sql >&-", 0),
        ("send orders --dsn port=1 <&-", 3),
        ("topic purge orders --dsn port=1 <&- >&-", 3),
        ("why nosuch --dsn port=1 <&- >&- 2>&-", 3),
    ],
)
def test_no_standard_streams(command: str, status: int) -> None:
    called = ["/bin/sh", "-c", f'exec "$0" -m mqpg {command}', sys.executable]
    done = subprocess.run(called, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr


def test_a_misspelled_command_is_suggested() -> None:
    for typed, meant in (("stauts", "status"), ("workr", "worker")):
        found = CliRunner().invoke(app, [typed])
        assert (found.exit_code, f"Did you mean '{meant}'" in found.output) == (2, True), found.output


def test_a_command_that_cannot_be_loaded_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    command = _load(EntryPoint("lost", "no_such_module:thing", "mqpg.commands"))
    with pytest.raises(SystemExit) as ended:
        command.main(["any", "--words"], prog_name="mqpg lost")
    assert ended.value.code == 2
    assert "mqpg: lost: cannot be loaded: No module named 'no_such_module'" in capsys.readouterr().err
