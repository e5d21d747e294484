"""A broker whose functions are called by pg_cron, and not by processes, is at work, too."""

from typing import Any

import psycopg
import pytest

from tests.support.in_process import Run

Connection = psycopg.Connection[Any]
IDLE = ("no appender is at work", "no compensator is at work", "no keeper is at work")


def call(db: Connection, *functions: str) -> None:
    for function in functions or ("append", "compensate", "keep"):
        db.execute(f"select mqpg.{function}()".encode())


def missing(run: Run) -> list[str]:
    """The roles that status, and doctor alike, say are not at work."""
    status, doctor = run("status")[1], run("doctor")[1]
    found = [one.split()[1] for one in IDLE if one in status]
    assert [one.split()[1] for one in IDLE if one in doctor] == found
    return found


def test_calls_are_work(db: Connection, run: Run) -> None:
    assert missing(run) == ["appender", "compensator", "keeper"]
    call(db, "compensate")
    assert missing(run) == ["appender", "keeper"]
    call(db)
    assert missing(run) == []
    db.execute("update mqpg.worker set seen_at = clock_timestamp() - interval '2 minutes'")  # called each minute
    assert missing(run) == []
    db.execute("update mqpg.worker set seen_at = clock_timestamp() - interval '6 minutes'")
    assert missing(run) == ["appender", "compensator", "keeper"]
    call(db)
    assert missing(run) == []
    assert db.execute("select count(*) from mqpg.worker").fetchone() == (3,)


def test_messages_that_wait_are_said(db: Connection, run: Run) -> None:
    db.execute("select mqpg.create_topic('t', 1)")
    call(db)
    db.execute("select mqpg.send('t', '1')")
    db.execute("update mqpg.commit_log set born_at = clock_timestamp() - interval '1 minute'")
    call(db, "keep")
    assert missing(run) == ["appender"]
    call(db)
    assert missing(run) == []


@pytest.mark.parametrize("state", ["active", "standby"])
def test_a_process_of_the_role_says_it_itself(db: Connection, state: str) -> None:
    for role in ("appender", "compensator", "keeper"):
        db.execute("select mqpg._heartbeat(%s, %s, 'h', 1, %s, '{}')", [role, role, state])
    call(db)
    assert db.execute("select count(*) from mqpg.worker where pid = 0").fetchone() == (0,)


def test_calls_at_the_same_time_do_not_wait(db: Connection, dsn: str) -> None:
    db.execute("set statement_timeout = '10s'")
    for _ in ("first", "later"):
        with psycopg.connect(dsn) as one, psycopg.connect(dsn) as other:
            one.execute("select mqpg.compensate()")
            other.execute("select mqpg.keep()")
            call(db, "compensate", "keep")
        db.execute("update mqpg.worker set seen_at = clock_timestamp() - interval '1 minute'")


def test_they_do_not_keep_the_schema(db: Connection, run: Run) -> None:
    call(db)
    assert run("uninstall", "--yes")[0] == 0
