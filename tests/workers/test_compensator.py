"""The compensator as a process with ledgers in the broker's and in other databases (protocol T3).

Their rows are open, committed or absent, or they are unreachable.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

import mqpg
from tests.support.ledgers import Outside, mariadb_ledger, postgresql_ledger, sqlite_ledger
from tests.support.processes import Process, Processes, workers
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

_VERDICT = "select op from mqpg.op_log where message_id = split_part(%s, '.', 3)::bigint and stage = 0"
_ASKED = "select event from mqpg.check_log where message_id = split_part(%s, '.', 3)::bigint order by at"


@pytest.fixture(params=["postgresql", "sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def outside(
    request: pytest.FixtureRequest, tmp_path: Path, new_database: Callable[..., str], db: Connection
) -> Outside:
    """A ledger in another database."""
    if request.param == "mariadb":
        url = request.getfixturevalue("mariadb_url")
        return mariadb_ledger(request.getfixturevalue("mariadb"), url.rpartition("/")[2])
    if request.param == "sqlite":
        return sqlite_ledger(tmp_path / "shop.db")
    return postgresql_ledger(new_database(empty=True), db)


@pytest.fixture
def topic(db: Connection) -> str:
    db.execute("select mqpg.create_topic('t')")
    return "t"


def create_group(db: Connection, name: str, checker: str, target: str | None = None, max_checks: int = 15) -> None:
    db.execute(
        "select mqpg.create_producer_group(%s, '100 ms', %s, checker => %s, checker_target => %s)",
        [name, max_checks, checker, target],
    )


def prepare(db: Connection, group: str, check_after: str | None = None) -> str:
    row = db.execute("select mqpg.prepare('t', '{}'::text, %s, check_after => %s)", [group, check_after]).fetchone()
    assert row is not None
    return str(row[0])


def verdict(db: Connection, handle: str) -> str:
    """Return c or b, or an empty text while the half is open."""
    row = db.execute(_VERDICT, [handle]).fetchone()
    return row[0] if row else ""


def checks(db: Connection, handle: str) -> list[str]:
    return [event for (event,) in db.execute(_ASKED, [handle])]


def start(processes: Processes, *ledgers: str) -> Process:
    options = [word for ledger in ledgers for word in ("--ledger", ledger)]
    return processes.worker("compensator", "--interval", "0.1", *options)


def commit_unless_fenced(commit: Callable[[str], object], handle: str) -> str:
    """Commit the local transaction unless the compensator was faster, and return the verdict that
    must follow.
    """
    try:
        commit(handle)
    except (mqpg.errors.Fenced, psycopg.Error) as error:
        if not isinstance(mqpg.errors.translate(error), mqpg.errors.Fenced):
            raise
        return "b"
    return "c"


def ledger_detail(db: Connection, name: str) -> dict[str, Any]:
    """Return the counters of one ledger, as the active compensator last reported them."""
    found = workers(db, "compensator", "active").values()
    return next((detail["ledgers"].get(name, {}) for detail in found), {})


@pytest.mark.usefixtures("topic")
def test_local_transactions_elsewhere_are_open_committed_or_absent(
    processes: Processes, db: Connection, outside: Outside
) -> None:
    create_group(db, "shop", "url", "shop")
    committed, absent, still_open = (prepare(db, "shop") for _ in range(3))
    outside.commit(committed)
    local = outside.local_transaction(still_open)
    start(processes, f"shop={outside.url}")
    eventually(lambda: "waited" in checks(db, still_open), why=processes.logs)
    assert verdict(db, still_open) == ""
    local.commit()
    local.close()
    eventually(lambda: all(verdict(db, h) for h in (committed, absent, still_open)), why=processes.logs)
    assert [verdict(db, h) for h in (committed, absent, still_open)] == ["c", "b", "c"]
    with pytest.raises(mqpg.errors.Fenced):
        outside.local_transaction(absent)
    waits = db.execute(
        "select distinct reason from mqpg.check_log where event = 'waited'"
        " and message_id = split_part(%s, '.', 3)::bigint", [still_open]
    ).fetchall()  # fmt: skip
    assert all("the local transaction is open" in reason for (reason,) in waits)
    detail = eventually(
        lambda: (d := ledger_detail(db, "shop")) and d["commit"] + d["rollback"] == 3 and d, why=processes.logs
    )
    assert detail["wait"] >= 1


@pytest.mark.chaos
@pytest.mark.usefixtures("topic")
def test_an_unreachable_ledger_is_waited_for_and_holds_up_nobody(
    processes: Processes, db: Connection, outside: Outside, tmp_path: Path
) -> None:
    other = sqlite_ledger(tmp_path / "other.db")
    create_group(db, "shop", "url", "shop", max_checks=1)
    create_group(db, "other", "url", "other", max_checks=1)
    lost, absent = prepare(db, "shop"), prepare(db, "shop")
    outside.commit(lost)
    outside.disconnect()
    try:
        start(processes, f"shop={outside.url}", f"other={other.url}")
        eventually(lambda: ledger_detail(db, "shop").get("failures", 0) >= 3, why=processes.logs)
        elsewhere = prepare(db, "other")
        other.commit(elsewhere)
        eventually(lambda: verdict(db, elsewhere) == "c", why=processes.logs)
        assert [verdict(db, h) for h in (lost, absent)] == ["", ""]
    finally:
        outside.reconnect()
    eventually(lambda: verdict(db, lost) and verdict(db, absent), why=processes.logs)
    assert [verdict(db, h) for h in (lost, absent)] == ["c", "b"]
    assert "ledger gives no verdict" in processes.logs()


@pytest.mark.usefixtures("topic")
def test_a_ledger_that_dies_while_running_is_no_check(processes: Processes, db: Connection, outside: Outside) -> None:
    create_group(db, "shop", "url", "shop", max_checks=2)
    start(processes, f"shop={outside.url}")
    eventually(lambda: ledger_detail(db, "shop").get("state") == "ok", why=processes.logs)
    handle = prepare(db, "shop", check_after="3 s")  # not before it is committed
    outside.commit(handle)
    outside.disconnect()
    try:
        eventually(lambda: verdict(db, handle) or ledger_detail(db, "shop").get("failures", 0) >= 2, why=processes.logs)
    finally:
        outside.reconnect()
    eventually(lambda: verdict(db, handle) == "c", why=processes.logs)


@pytest.mark.usefixtures("topic")
def test_a_ledger_without_its_table_is_no_verdict(processes: Processes, db: Connection, tmp_path: Path) -> None:
    create_group(db, "shop", "url", "shop", max_checks=1)
    handle = prepare(db, "shop")
    (tmp_path / "empty.db").touch()
    start(processes, f"shop=sqlite:///{tmp_path / 'empty.db'}")
    eventually(lambda: ledger_detail(db, "shop").get("failures", 0) >= 2, why=processes.logs)
    assert verdict(db, handle) == ""
    assert "parked" not in checks(db, handle)
    row = db.execute("select reason from mqpg.half_pending where handle = %s", [handle]).fetchone()
    assert row is not None
    assert "no table mqpg_ledger in" in row[0]


@pytest.mark.usefixtures("topic")
def test_a_final_payload_that_the_broker_refuses_is_said_and_holds_up_nobody(
    processes: Processes, db: Connection, outside: Outside
) -> None:
    db.execute("select mqpg.alter_topic('t', max_payload => 50)")
    create_group(db, "shop", "url", "shop", max_checks=1)
    large, fine = (prepare(db, "shop", check_after="1 s") for _ in range(2))
    for handle, payload in ((large, '"' + "x" * 100 + '"'), (fine, '"y"')):
        with outside.local_transaction(handle) as local:
            outside.ledger.set_payload(local, handle, payload)
            local.commit()
    start(processes, f"shop={outside.url}")
    eventually(lambda: verdict(db, fine) == "c" and "waited" in checks(db, large), why=processes.logs)
    row = db.execute("select reason from mqpg.half_pending where handle = %s", [large]).fetchone()
    assert row is not None
    assert "the broker refuses its commit: payload has 102 bytes" in row[0]
    assert "parked" not in checks(db, large)
    assert ledger_detail(db, "shop").get("failures", 0) == 0


@pytest.mark.usefixtures("topic")
def test_a_ledger_of_another_broker_is_doubted_aloud(processes: Processes, db: Connection, outside: Outside) -> None:
    outside.commit("0123.1.7.x")
    create_group(db, "shop", "url", "shop")
    start(processes, f"shop={outside.url}")
    eventually(lambda: "doubt" in ledger_detail(db, "shop"), why=processes.logs)
    assert ledger_detail(db, "shop")["doubt"] == "holds handles of broker 0123 only"
    assert "is its URL right?" in processes.logs()


@pytest.mark.usefixtures("topic")
def test_a_ledger_that_is_locked_when_the_compensator_starts(
    processes: Processes, db: Connection, new_database: Callable[..., str]
) -> None:
    """Its half messages wait and are said to, and its URL is doubted when the lock has ended.

    Mutation that this notices: foreign_broker() waits for the end of the lock.
    """
    outside = postgresql_ledger(new_database(empty=True), db)
    outside.commit("0123.1.7.x")
    create_group(db, "shop", "url", "shop")
    handle = prepare(db, "shop")
    with outside.engine.connect() as locker:
        locker.execute(text("lock table mqpg_ledger"))  # a migration, say
        start(processes, f"shop={outside.url}")
        eventually(lambda: "waited" in checks(db, handle), why=processes.logs)
        assert verdict(db, handle) == ""
        assert "doubt" not in ledger_detail(db, "shop")
        locker.rollback()
    eventually(lambda: "doubt" in ledger_detail(db, "shop"), why=processes.logs)
    eventually(lambda: verdict(db, handle) == "b", why=processes.logs)


@pytest.mark.usefixtures("topic")
def test_check_timeout_cuts_a_function_off(processes: Processes, db: Connection) -> None:
    db.execute(
        "create function public.hangs(handle text, key text, headers jsonb, payload json) returns mqpg.verdict "
        "security definer language plpgsql as $$ begin perform pg_sleep(600); return 'commit'; end $$"
    )
    create_group(db, "hangs", "function", "public.hangs", max_checks=1)
    handle = prepare(db, "hangs")
    processes.worker("compensator", "--interval", "0.1", "--check-timeout", "0.2")
    eventually(lambda: "parked" in checks(db, handle), why=processes.logs)
    row = db.execute("select reason from mqpg.half_parked where handle = %s", [handle]).fetchone()
    assert row == ("no verdict after 1 check; the last one: public.hangs was cut off: it did not answer in time",)
    assert verdict(db, handle) == ""


@pytest.mark.usefixtures("topic")
def test_checkers_in_the_brokers_database_and_apps_that_poll(
    processes: Processes, db: Connection, connect: Callable[..., Connection]
) -> None:
    db.execute(
        "create function public.ask(handle text, key text, headers jsonb, payload json) returns mqpg.verdict "
        "security definer language sql as $$ select 'commit'::mqpg.verdict $$"
    )
    create_group(db, "here", "ledger")
    create_group(db, "asks", "function", "public.ask")
    create_group(db, "polls", "due_checks")
    committed, absent, still_open = (prepare(db, "here") for _ in range(3))
    asked, polled = prepare(db, "asks"), prepare(db, "polls")
    db.execute("select mqpg.local_begin(%s)", [committed])
    local = connect(autocommit=False)
    local.execute("select mqpg.local_begin(%s)", [still_open])
    start(processes)
    settled = (committed, absent, asked)
    eventually(lambda: all(verdict(db, h) for h in settled), why=processes.logs)
    assert [verdict(db, h) for h in settled] == ["c", "b", "c"]
    eventually(lambda: "waited" in checks(db, still_open), why=processes.logs)
    assert verdict(db, still_open) == ""
    local.commit()
    eventually(lambda: verdict(db, still_open) == "c", why=processes.logs)
    assert (verdict(db, polled), checks(db, polled)) == ("", [])


@pytest.mark.chaos
@pytest.mark.parametrize("checker", ["ledger", "url"])
@pytest.mark.usefixtures("topic")
def test_i12_a_standby_takes_over_from_a_killed_compensator(
    processes: Processes, db: Connection, tmp_path: Path, checker: str
) -> None:
    outside = sqlite_ledger(tmp_path / "shop.db")
    create_group(db, "shop", checker, "shop" if checker == "url" else None)

    def commit(handle: str) -> None:
        if checker == "url":
            outside.commit(handle)
        else:
            db.execute("select mqpg.local_begin(%s)", [handle])

    pair = [start(processes, f"shop={outside.url}") for _ in range(2)]
    active = eventually(lambda: workers(db, "compensator", "active"), why=processes.logs)
    eventually(lambda: workers(db, "compensator", "standby"), why=processes.logs)
    expected = {}
    for number in range(20):
        handle = prepare(db, "shop")
        expected[handle] = commit_unless_fenced(commit, handle) if number % 2 else "b"
    handles = list(expected)
    eventually(lambda: any(verdict(db, h) for h in handles), why=processes.logs)
    (victim,) = (process for process in pair if process.pid in active)
    victim.kill()
    eventually(lambda: all(verdict(db, h) for h in handles), why=processes.logs)
    assert {handle: verdict(db, handle) for handle in handles} == expected
    eventually(lambda: set(workers(db, "compensator", "active")) - {victim.pid}, why=processes.logs)
