"""A managed service: its administrator is no superuser, and no process of mqpg runs beside it."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.in_process import Run
from tests.support.servers import temporary_server
from tests.support.waiting import eventually
from tests.support.working import working


@pytest.fixture
def admin() -> Iterator[str]:
    """The DSN of a role with createdb and createrole that owns its database, as services give one."""
    with temporary_server(settings={"fsync": "off"}) as server:
        dsn = server.create_database("shop")
        with psycopg.connect(dsn, autocommit=True) as boss:
            boss.execute("create role cloud_admin login createdb createrole password 'x'")
            boss.execute("alter database shop owner to cloud_admin; revoke all on schema public from public")
        yield make_conninfo(dsn, user="cloud_admin", password="x")


def connect(dsn: str, user: str) -> psycopg.Connection[Any]:
    return psycopg.connect(make_conninfo(dsn, user=user), autocommit=True)


def test_the_whole_of_it(admin: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", admin)
    assert run("migrate")[0] == 0
    with connect(admin, "cloud_admin") as boss:
        boss.execute("create role cloud_cron login password 'x'; create role cloud_app login password 'x'")
        boss.execute("select mqpg.create_topic('orders', 1), mqpg.subscribe('billing', 'orders')")
        boss.execute("select mqpg.grant_worker('cloud_cron'), mqpg.grant_send('orders', 'cloud_app')")
        boss.execute("select mqpg.grant_receive('billing', 'orders', 'cloud_app')")
        with working(make_conninfo(admin, user="cloud_cron")) as said, connect(admin, "cloud_app") as app:
            app.execute("select mqpg.send('orders', '7')")
            got = eventually(
                lambda: app.execute("select payload::text, receipt from mqpg.receive('billing', 'orders')").fetchall()
            )
            assert got[0][0] == "7"
            app.execute("select mqpg.ack(%s)", (got[0][1],))
            eventually(lambda: boss.execute("select from mqpg.worker_status where alive and pid = 0").rowcount == 3)
            status = run("status")
            assert "nothing needs attention" in status[1], status
            assert run("doctor")[0] in (0, 1)
        assert said == []
        audited = run("audit", "--engine", "sql")
        assert audited[0] == 0, audited
    assert run("uninstall", "--yes", "--force")[0] == 0
