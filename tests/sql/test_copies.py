"""A copy of the database on the same server is another broker: it appends nothing and asks nobody until adopt()."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import mqpg
from mqpg import errors, migrate
from mqpg.workers.ledger_checker import LedgerChecker
from tests.fixtures.server import Server
from tests.support.broker import Broker, Session, refused
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database
COPIED = "copy of a broker on the same cluster"


@pytest.fixture
def halves(mq: Session) -> dict[str, str]:
    """A message that waits for append(), and an overdue half message of each kind of checker."""
    mq.call("create_producer_group", "local", checker="ledger")
    mq.call("create_producer_group", "url", checker="url", checker_target="shop")
    mq.call("create_producer_group", "polled", checker="due_checks")
    found = {group: mq.prepare("one", group=group, check_after="10 ms") for group in ("local", "url", "polled")}
    mq.sent("one", "1")
    mq.send("one", "2")
    return found


@pytest.fixture
def elsewhere(mq: Session) -> set[str]:
    """Overdue half messages whose checkers look for handles in users' tables, which have the original's."""
    mq.execute("create table public.business (handle text); grant select on public.business to public")
    mq.execute(
        "create function public.look(h text, k text, hs jsonb, p jsonb) returns mqpg.verdict security definer"
        " language sql as $$ select case when exists (select from public.business where handle = h)"
        " then 'commit' else 'rollback' end::mqpg.verdict $$"
    )
    mq.call("create_producer_group", "looked", checker="function", checker_target="public.look", expire_after="20 ms")
    looked = mq.prepare("one", group="looked", check_after="10 ms")
    mq.execute("insert into public.business values (%s)", looked)
    mq.call("create_producer_group", "marked", checker="due_checks")
    return {looked, mq.prepare("one", group="marked", check_after="10 ms", ledger="0a1b2c3d")}


@pytest.fixture
def copy(halves: dict[str, str], broker: Broker, server: Server) -> Iterator[Session]:
    """A session in a copy."""
    name = psycopg.conninfo.conninfo_to_dict(broker.dsn)["dbname"]
    assert isinstance(name, str)
    copied = f"{name}_copy"
    broker.close()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        pair = sql.Identifier(copied), sql.Identifier(name)
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        connection.execute(sql.SQL("create database {} template {}").format(*pair))
    opened = Broker(server.dsn(copied))
    yield opened.session()
    opened.close()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(copied)))


CALLS: dict[str, Callable[[Session], Any]] = {
    "append": lambda copy: copy.append(),
    "compensate": lambda copy: copy.call("compensate"),
    "_compensate": lambda copy: copy.call("_compensate", 1, "function"),
    "due_checks": lambda copy: copy.call("due_checks", "polled"),
    "due_checks for a ledger elsewhere": lambda copy: copy.call("due_checks", "url"),
    "_expire_halves": lambda copy: copy.call("_expire_halves", 1),
    "_parked_halves": lambda copy: copy.call("_parked_halves", "url", 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_copy_refuses(name: str, copy: Session) -> None:
    with refused("MQ016", "copy"):
        CALLS[name](copy)
    assert COPIED in copy.value("_append_refusal")


def test_a_renamed_database_stays_a_broker(halves: dict[str, str], broker: Broker, server: Server) -> None:
    name = psycopg.conninfo.conninfo_to_dict(broker.dsn)["dbname"]
    assert isinstance(name, str)
    broker.close()
    names = sql.Identifier(name), sql.Identifier(f"{name}_renamed")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        connection.execute(sql.SQL("alter database {} rename to {}").format(*names))
        renamed = Broker(server.dsn(f"{name}_renamed"))
        assert renamed.session().append() == 1
        renamed.close()
        connection.execute(sql.SQL("alter database {1} rename to {0}").format(*names))


def test_an_adopted_copy_is_another_broker(copy: Session, halves: dict[str, str]) -> None:
    before = copy.value("_broker")
    copy.execute("insert into mqpg.ledger (handle) values (%s)", halves["local"])
    copy.value("adopt")
    assert copy.value("_append_refusal") is None
    assert copy.value("_broker") != before
    assert copy.append() == 1
    assert [copy.commit(handle) for handle in halves.values()] == ["unknown"] * 3
    (polled,) = copy.call("due_checks", "polled")
    assert copy.commit(polled.handle) == "committed"
    copy.call("compensate")  # the ledger of this database was copied with it
    assert copy.append() == 2
    assert len(copy.receive("one", max_messages=10)) == 4


def checked_in(ledger: Path, session: Session, server: Server) -> bool:
    """Do once what a compensator does with a ledger in another database. Whether no half message of it is left."""
    dsn = server.dsn(session.conn.info.dbname)
    with psycopg.connect(dsn, autocommit=True) as connection:
        checker = LedgerChecker(dsn, "shop", f"sqlite:///{ledger}", ["url"], 0.1)
        checker.leads = True
        checker._check_groups(connection)
    return session.rows("select from mqpg.half_pending where producer_group = 'url'") == []


def committed_in(ledger: Path, handle: str) -> None:
    with mqpg.Ledger(f"sqlite:///{ledger}") as table:
        table.create()
        with table.database.engine.begin() as conn:
            table.begin(conn, handle)


def test_a_half_that_is_committed_elsewhere_is_parked_in_an_adopted_copy(
    copy: Session, halves: dict[str, str], server: Server, tmp_path: Path
) -> None:
    """The ledger has it under the handle of the original, so it would set a fence."""
    ledger = tmp_path / "ledger.db"
    committed_in(ledger, halves["url"])
    copy.value("adopt")
    (handle,) = [row.handle for row in copy.rows("select handle from mqpg.half_pending where producer_group = 'url'")]
    new = copy.prepare("one", group="url", check_after="10 ms")
    committed_in(ledger, new)
    eventually(lambda: checked_in(ledger, copy, server))
    parked = copy.rows("select handle, reason from mqpg.half_parked")
    assert [row.handle for row in parked] == [handle]
    assert "does not contain it" in parked[0].reason
    assert copy.commit(new) == "already_committed"
    assert copy.value("settle", handle, "commit", "the ledger has it") == "committed"


def test_what_a_function_or_due_checks_would_look_up_is_parked_in_an_adopted_copy(
    elsewhere: set[str], copy: Session
) -> None:
    copy.value("adopt")
    assert copy.call("due_checks", "marked") == []
    copy.call("compensate")
    copy.call("_expire_halves", 10)
    parked = copy.rows("select handle from mqpg.half_parked")
    assert {row.handle[12:] for row in parked} == {handle[12:] for handle in elsewhere}
    new = copy.prepare("one", group="looked", check_after="10 ms")
    copy.execute("insert into public.business values (%s)", new)
    eventually(lambda: copy.call("compensate") and copy.commit(new) == "already_committed")


def test_a_half_that_is_committed_elsewhere_is_committed_in_the_place_of_the_original(
    mq: Session, halves: dict[str, str], server: Server, tmp_path: Path
) -> None:
    committed_in(tmp_path / "ledger.db", halves["url"])
    mq.execute("update mqpg.broker set database_oid = 4294967294")  # that one was dropped
    mq.value("adopt")
    eventually(lambda: checked_in(tmp_path / "ledger.db", mq, server))
    assert mq.rows("select from mqpg.half_parked") == []
    assert mq.commit(halves["url"]) == "already_committed"


def test_a_database_in_the_place_of_its_original_keeps_its_id(mq: Session) -> None:
    """A dump that was restored after the original was dropped."""
    handle, before = mq.prepare("one"), mq.value("_broker")
    mq.execute("update mqpg.broker set database_oid = 4294967294")
    with refused("MQ016"):
        mq.append()
    mq.value("adopt")
    assert mq.value("_broker") == before
    assert mq.commit(handle) == "committed"
    assert mq.append() == 1


def test_status_and_doctor_say_it(mq: Session, broker: Broker) -> None:
    from mqpg.schema import migrate
    from mqpg.status import findings, read_overview

    mq.execute("update mqpg.broker set database_oid = 4294967294")
    assert any("copy" in line and "adopt" in line for line in migrate.problems(broker.dsn))
    with psycopg.connect(broker.dsn, row_factory=psycopg.rows.dict_row) as connection:
        found = findings(read_overview(lambda query: connection.execute(query.encode()).fetchall()))
    assert any(COPIED in one.found and "adopt" in (one.remedy or "") for one in found)


SCHEMA_ONLY: dict[str, Callable[[Session], Any]] = {
    "append": lambda bare: bare.append(),
    "compensate": lambda bare: bare.call("compensate"),
    "keep": lambda bare: bare.call("keep"),
    "adopt": lambda bare: bare.call("adopt"),
    "prepare": lambda bare: bare.prepare("one"),
    "prepare with a key": lambda bare: bare.prepare("one", key="k"),
    "prepare_batch": lambda bare: bare.call("prepare_batch", "one", ["1"], "pg"),
}


def test_a_dump_of_the_schema_alone_is_named(
    server: Server,
    server_bin: Callable[[str], str],
    template: str,
    new_database: Callable[..., str],
    psql: Callable[[str, str], None],
) -> None:
    """Nothing that is stored there would be delivered, and handles would name no broker."""
    dump = [server_bin("pg_dump"), "--schema-only", "--dbname", server.dsn(template)]
    text = subprocess.run(dump, capture_output=True, check=True, text=True, timeout=60).stdout
    dsn = new_database(empty=True)
    psql(dsn, text.replace("SET transaction_timeout = 0;\n", ""))
    broker = Broker(dsn)
    bare = broker.session()
    bare.call("create_topic", "one", queues=1)
    bare.call("create_producer_group", "pg")
    for name, call in SCHEMA_ONLY.items():
        with refused("MQ016", "without their rows"):
            call(bare)
            pytest.fail(name)
    broker.close()
    with pytest.raises(errors.DatabaseError, match="without their rows"):
        migrate.upgrade(dsn)
    psql(dsn, "drop schema if exists mqpg, mqpg_audit, mqpg_retired cascade")
    migrate.upgrade(dsn)
