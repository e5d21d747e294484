"""What others have sent, said or named is shown in a terminal, and never run by it: in every command that reads."""

import json
import re
from collections.abc import Iterator

import psycopg
import pytest
import typer
from psycopg import sql
from typer.testing import CliRunner

import mqpg
from mqpg.cli.options import say
from mqpg.cli.plugins import _unusable
from tests.support.in_process import Run

Connection = psycopg.Connection[tuple[object, ...]]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\nforged\x08\x7f"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
COMMANDS = [
    ("status",), ("status", "--watch", "--count", "1"), ("status", "--workers"), ("doctor",), ("why",), ("why", "g", "t"),
    ("why", "{letter}"), ("why", "{handle}"), ("peek", "t"), ("tail", "t"), ("trace", "{letter}"), ("trace", "{waiting}"),
    ("find", "t", EVIL.replace("\r\n", "")), ("dead-letters", "list", "g", "t"), ("half", "list"), ("half", "show", "{handle}"),
    ("topic", "list"), ("subscription", "list"), ("group", "list"), ("rights", "list"), ("audit", "--engine", "sql"),
    ("why", EVIL), ("peek", EVIL), ("trace", EVIL), ("half", "show", EVIL), ("topic", "create", EVIL),
    ("subscription", "create", "h", "t", "--filter", f'$.a == "{EVIL}"'), ("redrive", EVIL, "t"), ("rights", "list", EVIL),
]  # fmt: skip


@pytest.fixture
def hostile(db: Connection, dsn: str) -> Iterator[dict[str, str]]:
    """A broker with such text wherever one can be stored."""
    name = sql.Identifier(f"mean{EVIL}{db.info.backend_pid}")
    db.execute(sql.SQL("create role {} superuser").format(name))
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.subscribe("g", "t", max_attempts=1)
        mq.create_producer_group("pg", check_after=0.01)
        letter = mq.send("t", {EVIL: EVIL}, key=EVIL, tag=EVIL, headers={EVIL: EVIL})
        waiting = mq.send("t", {"a": EVIL}, key=EVIL)
        handle = mq.prepare("t", {"a": EVIL}, producer_group="pg", key=EVIL)
        mq.append()
        mq.receive("g", "t", 1).nack(EVIL, final=True)
        db.execute("select mqpg._heartbeat(%s, 'keeper', %s, 1, 'active', %s)", [
            f"keeper{EVIL}", f"host{EVIL}",
            json.dumps({EVIL: EVIL, "failing": {"seconds": 9, "times": 9, "error": EVIL}}),
        ])  # fmt: skip
        with psycopg.connect(dsn, application_name=EVIL) as other:
            other.execute("select 1")
            yield {"letter": str(letter), "waiting": str(waiting), "handle": handle}
    db.execute(sql.SQL("drop role {}").format(name))


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_nothing_reaches_the_terminal_raw(as_json: bool, hostile: dict[str, str], run: Run) -> None:
    for command in COMMANDS:
        arguments = [hostile.get(one.strip("{}"), one) for one in command]
        _, out, err = run(*arguments, *(["--json"] if as_json else []))
        assert not FORBIDDEN.search(out), command
        assert not FORBIDDEN.search(err), command
        assert not re.search("^forged", out + err, re.MULTILINE), command


def test_lines_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\nb\x1b[2J")
    assert capsys.readouterr().out == "a\nb\\x1b[2J\n"


def test_help_names_the_extra_with_its_brackets() -> None:
    broken = typer.Typer()
    broken.add_typer(_unusable("web", "it needs the extra: pip install 'mqpg[web]'"))
    for arguments in (["--help"], ["web", "--help"]):
        assert "mqpg[web]" in CliRunner().invoke(broken, arguments).output
