"""`call mqpg.work(seconds)` does what the three worker processes do, in one statement of one session."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.in_process import Run
from tests.support.roles import LoginRole, Roles
from tests.support.waiting import eventually
from tests.support.working import NO_DDL, working

Connection = psycopg.Connection[Any]


@pytest.fixture
def worker(db: Connection, roles: Roles) -> LoginRole:
    """A role that has only `grant_worker`."""
    role = roles("cron")
    db.execute("select mqpg.grant_worker(%s)", [role.name])
    return role


def received(db: Connection) -> list[int]:
    rows = db.execute("select payload::text::int, mqpg.ack(receipt) from mqpg.receive('g', 't')").fetchall()
    return [number for number, _ in rows]


def test_one_statement_delivers_checks_and_keeps(db: Connection, worker: LoginRole, run: Run) -> None:
    db.execute(
        "select mqpg.create_topic('t', 1), mqpg.subscribe('g', 't'), mqpg.create_producer_group('p', checker => 'ledger')"
    )
    with working(worker.dsn) as said:
        for number in range(3):
            db.execute("select mqpg.send('t', %s::text)", (str(number),))
            assert eventually(lambda: received(db)) == [number]
        # No local transaction has confirmed it, so its check-back rolls it back.
        db.execute("select mqpg.prepare('t', '9'::text, 'p', check_after => '10 ms')")
        eventually(lambda: db.execute("select from mqpg.op_log where op = 'b' and decided_by = 'checker'").rowcount)
        eventually(
            lambda: db.execute("select count(*) from mqpg.worker_status where alive and pid = 0").fetchone() == (3,)
        )
        status = run("status")
        assert (status[0], "nothing needs attention" in status[1]) == (0, True), status
    assert said == []


def test_it_goes_on_while_keep_fails(db: Connection, dsn: str) -> None:
    db.execute("select mqpg.create_topic('t', 1), mqpg.subscribe('g', 't')")
    db.execute(NO_DDL.encode())
    with working(dsn) as said:
        eventually(lambda: said == ["keep: no DDL (P0001)"])
        db.execute("select mqpg.send('t', '1')")
        assert eventually(lambda: received(db)) == [1]
    db.execute("drop event trigger stop")


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("call mqpg.work(-1)", "MQ001", "seconds must be between 0 and 86400, not -1"),
        ("call mqpg.work(86401)", "MQ001", "not 86401"),
        ("call mqpg.work(null)", "MQ001", "not null"),
        ("call mqpg.work('NaN')", "MQ001", "not NaN"),
        ("begin; call mqpg.work(0)", "2D000", "invalid transaction termination"),
    ],
)
def test_what_it_refuses(connect: Callable[..., Connection], statement: str, code: str, words: str) -> None:
    with pytest.raises(psycopg.Error, match=words) as refused:
        connect().execute(statement.encode())
    assert refused.value.sqlstate == code


def test_a_careless_grant_is_not_the_right(db: Connection, worker: LoginRole) -> None:
    db.execute("select mqpg.revoke_worker(%s)", [worker.name])
    for grant in ("usage on schema mqpg", "execute on all routines in schema mqpg"):
        db.execute(f"grant {grant} to {worker.name}")
    with (
        psycopg.connect(worker.dsn, autocommit=True) as conn,
        pytest.raises(psycopg.Error, match="grant_worker") as refused,
    ):
        conn.execute("call mqpg.work(0)")
    assert refused.value.sqlstate == "MQ025"


def test_it_gives_back_the_search_path(connect: Callable[..., Connection]) -> None:
    caller = connect()
    caller.execute("set search_path = public")
    caller.execute("call mqpg.work(0)")
    assert caller.execute("show search_path").fetchone() == ("public",)
