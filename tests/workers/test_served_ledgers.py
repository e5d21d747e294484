"""Several compensators that know different ledgers: who serves which, what nobody serves, what expires.

They are real processes, and their ledgers are SQLite files.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from tests.support.ledgers import Outside, sqlite_ledger
from tests.support.processes import Process, Processes
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

_VERDICT = "select op::text || ' by ' || decided_by from mqpg.op_log where message_id = split_part(%s, '.', 3)::bigint"
_LEDGERS = "select detail -> 'ledgers' from mqpg.worker where pid = %s and state <> 'stopped'"
_LEADER = """
select pid from pg_locks where locktype = 'advisory' and classid = 1836150837 and objid = 2 and granted
"""
_BACKENDS = """
select from pg_stat_activity where datname = current_database() and application_name like 'mqpg compensator%'
"""
_UNSERVED = (
    'no compensator knows the ledger shop: start "mqpg worker" with --ledger shop=URL '
    "or with the variable MQPG_LEDGER_SHOP=URL"
)


@pytest.fixture
def shop(tmp_path: Path) -> Outside:
    return sqlite_ledger(tmp_path / "shop.db")


@pytest.fixture
def broker(db: Connection) -> Connection:
    """The broker, with a topic and the group `shop`, whose ledger is the shop's."""
    db.execute("select mqpg.create_topic('t')")
    create_group(db, "shop")
    return db


def create_group(db: Connection, ledger: str, expire_after: str = "7 days") -> None:
    db.execute(
        "select mqpg.create_producer_group(%s, '100 ms', checker => 'url', checker_target => %s, expire_after => %s)",
        [ledger, ledger, expire_after],
    )


def prepare(db: Connection, group: str = "shop") -> str:
    row = db.execute("select mqpg.prepare('t', '{}'::text, %s)", [group]).fetchone()
    assert row is not None
    return str(row[0])


def verdict(db: Connection, handle: str) -> str:
    row = db.execute(_VERDICT, [handle]).fetchone()
    return row[0] if row else ""


def reason(db: Connection, handle: str) -> str:
    row = db.execute("select reason from mqpg.half_pending where handle = %s", [handle]).fetchone()
    return (row and row[0]) or ""


def start(processes: Processes, *ledgers: str, **environment: str) -> Process:
    options = [word for ledger in ledgers for word in ("--ledger", ledger)]
    return processes.worker("compensator", "--interval", "0.1", *options, **environment)


def leading(processes: Processes, db: Connection, *ledgers: str) -> Process:
    """Start a compensator, and wait until it leads."""
    process = start(processes, *ledgers)
    eventually(lambda: "leading" in process.log(), why=processes.logs)
    return process


def state(db: Connection, process: Process, ledger: str = "shop") -> str:
    """What the process reports about a ledger; empty where it reports nothing."""
    row = db.execute(_LEDGERS, [process.pid]).fetchone()
    return str(row[0].get(ledger, {}).get("state", "")) if row else ""


@contextmanager
def undecidable(connect: Callable[..., Connection]) -> Iterator[None]:
    """No decision can be written meanwhile: what wants to write one gives up after 50 ms."""
    with connect(autocommit=False) as locker:
        locker.execute("lock table mqpg.op_log in share mode")
        yield
        locker.rollback()


# who serves


def test_a_standby_serves_the_ledger_that_the_leader_lacks(
    processes: Processes, broker: Connection, shop: Outside
) -> None:
    leader = leading(processes, broker)
    handle = prepare(broker)
    shop.commit(handle)
    eventually(lambda: state(broker, leader) == "unknown", why=processes.logs)
    standby = start(processes, f"shop={shop.url}")
    eventually(lambda: verdict(broker, handle) == "c by checker", why=processes.logs)
    eventually(lambda: (state(broker, leader), state(broker, standby)) == ("elsewhere", "ok"), why=processes.logs)
    assert "leading" not in standby.log()
    assert "serves the ledger ledger=shop" in standby.log()
    row = broker.execute("select state from mqpg.worker where pid = %s", [standby.pid]).fetchone()
    assert row == ("active",)


@pytest.mark.chaos
def test_i12_another_compensator_takes_a_ledger_over_from_a_killed_one(
    processes: Processes, broker: Connection, shop: Outside
) -> None:
    """The killed one only stood by; the leader, which does not know the ledger, stays."""
    leader = leading(processes, broker)
    pair = [start(processes, f"shop={shop.url}") for _ in range(2)]

    def server() -> Process | None:
        return next((process for process in pair if state(broker, process) == "ok"), None)

    victim = eventually(server, why=processes.logs)
    (other,) = (process for process in pair if process is not victim)
    eventually(lambda: state(broker, other) == "standby", why=processes.logs)
    victim.kill()
    handle = prepare(broker)
    shop.commit(handle)
    eventually(lambda: verdict(broker, handle) == "c by checker", why=processes.logs)
    assert "serves the ledger" in other.log()
    assert "no longer leading" not in leader.log()


def test_a_ledger_is_served_once(processes: Processes, broker: Connection, shop: Outside) -> None:
    leader = leading(processes, broker, f"shop={shop.url}")
    others = [start(processes, f"shop={shop.url}") for _ in range(2)]
    eventually(
        lambda: [state(broker, p) for p in (leader, *others)] == ["ok", "standby", "standby"], why=processes.logs
    )
    assert not any("serves the ledger" in other.log() for other in others)


def test_a_ledger_that_no_group_names_any_more_is_left(
    processes: Processes, broker: Connection, shop: Outside, connect: Callable[..., Connection]
) -> None:
    create_group(broker, "nowhere")
    process = leading(processes, broker, f"shop={shop.url}")
    eventually(lambda: state(broker, process) == "ok", why=processes.logs)
    eventually(lambda: state(broker, process, "nowhere") == "unknown", why=processes.logs)
    for name in ("shop", "nowhere"):
        broker.execute("select mqpg.alter_producer_group(%s, checker => 'due_checks')", [name])
    eventually(lambda: broker.execute(_LEDGERS, [process.pid]).fetchone() == ({},), why=processes.logs)
    free = "select pg_try_advisory_lock(1836150846, mqpg._ledger_lock('shop'))"
    assert connect().execute(free).fetchone() == (True,)


# what nobody serves


def test_a_ledger_that_nobody_serves_is_an_error_everywhere_with_the_line_to_add(
    processes: Processes, broker: Connection
) -> None:
    handle = prepare(broker)
    pair = [leading(processes, broker), start(processes)]
    eventually(lambda: reason(broker, handle) == _UNSERVED, why=processes.logs)
    for process in pair:
        eventually(lambda: state(broker, process) == "unknown", why=processes.logs)  # noqa: B023
        eventually(lambda: "no compensator serves a ledger" in process.log(), why=processes.logs)  # noqa: B023
        assert "--ledger shop=URL or with the variable MQPG_LEDGER_SHOP=URL" in process.log()
    events = "select event from mqpg.check_log where message_id = split_part(%s, '.', 3)::bigint"
    assert broker.execute(events, [handle]).fetchall() == []  # no check is counted


def test_without_any_compensator_the_half_says_so(broker: Connection) -> None:
    handle = prepare(broker)
    eventually(lambda: reason(broker, handle) == _UNSERVED)


def test_a_ledger_that_does_not_answer_from_the_start_is_the_reason(processes: Processes, broker: Connection) -> None:
    handle = prepare(broker)
    start(processes, "shop=postgresql+psycopg://shop@127.0.0.1:1/shop")
    said = eventually(lambda: (found := reason(broker, handle)) != _UNSERVED and found, why=processes.logs)
    assert said.startswith("no verdict from the ledger shop: ")
    assert "refused" in said


def test_a_url_that_cannot_be_used_here_leaves_the_ledger_to_another_one(
    processes: Processes, broker: Connection, shop: Outside
) -> None:
    wrong = leading(processes, broker, "shop=oracle9://shop/x")
    handle = prepare(broker)
    shop.commit(handle)
    eventually(lambda: "oracle9" in reason(broker, handle), why=processes.logs)
    assert state(broker, wrong) == "refused"
    start(processes, MQPG_LEDGER_SHOP=shop.url)
    eventually(lambda: verdict(broker, handle) == "c by checker", why=processes.logs)


@pytest.mark.chaos
def test_a_ledger_that_one_compensator_cannot_reach_is_left_to_another_one(
    processes: Processes, broker: Connection, shop: Outside
) -> None:
    astray = leading(processes, broker, "shop=sqlite:////nowhere/at/all.db")
    eventually(lambda: state(broker, astray) == "no verdict", why=processes.logs)
    knowing = start(processes, f"shop={shop.url}")
    eventually(lambda: state(broker, knowing) == "standby", why=processes.logs)
    handle = prepare(broker)
    shop.commit(handle)
    eventually(lambda: verdict(broker, handle) == "c by checker", why=processes.logs)
    eventually(lambda: (state(broker, astray), state(broker, knowing)) == ("standby", "ok"), why=processes.logs)


# what expires


@pytest.mark.chaos
def test_a_half_that_expired_while_its_ledger_was_away_is_ruled_when_it_is_back(
    processes: Processes, broker: Connection, shop: Outside
) -> None:
    create_group(broker, "brief", "100 ms")
    broker.execute("select mqpg.alter_producer_group('brief', checker_target => 'shop')")
    broker.execute("select mqpg.alter_producer_group('brief', expire_after => '1 hour')")
    committed, absent = prepare(broker, "brief"), prepare(broker, "brief")
    shop.commit(committed)
    shop.disconnect()
    start(processes, f"shop={shop.url}")
    eventually(lambda: "ledger gives no verdict" in processes.logs(), why=processes.logs)
    older = "update pgmq.q_mqpg_oplog set enqueued_at = enqueued_at - interval '1 hour'"
    eventually(lambda: broker.execute(older).rowcount == 2, why=processes.logs)
    parked = "select handle from mqpg.half_parked where reason like 'undecided for longer than 01:00:00; %%'"
    eventually(lambda: broker.execute(parked).rowcount == 2, why=processes.logs)
    assert [verdict(broker, h) for h in (committed, absent)] == ["", ""]
    shop.reconnect()
    eventually(lambda: verdict(broker, committed) and verdict(broker, absent), why=processes.logs)
    assert [verdict(broker, h) for h in (committed, absent)] == ["c by checker", "b by checker"]
    with pytest.raises(mqpg.errors.Fenced):
        shop.local_transaction(absent)
    assert broker.execute("select from mqpg.half_parked").rowcount == 0


@pytest.mark.chaos
def test_i12_a_compensator_killed_between_the_fence_and_the_ruling_of_an_expired_half(
    processes: Processes, broker: Connection, shop: Outside, connect: Callable[..., Connection]
) -> None:
    broker.execute("select mqpg.alter_producer_group('shop', expire_after => '10 ms')")
    handle = prepare(broker)

    def compensated() -> bool:
        broker.execute("select mqpg.compensate()")
        return bool(broker.execute("select from mqpg.half_parked").rowcount)

    eventually(compensated)
    with undecidable(connect):
        victim = start(processes, f"shop={shop.url}")
        eventually(lambda: fenced(shop, handle), why=processes.logs)
        victim.kill()
        eventually(lambda: broker.execute(_BACKENDS).rowcount == 0)  # a ruling on its way ends unmade
    assert verdict(broker, handle) == ""
    with pytest.raises(mqpg.errors.Fenced):
        shop.local_transaction(handle)
    start(processes, f"shop={shop.url}")
    eventually(lambda: verdict(broker, handle) == "b by checker", why=processes.logs)


@pytest.mark.chaos
def test_the_worker_ends_abandoned_halves_and_says_so(processes: Processes, broker: Connection) -> None:
    """One group has no checker that answers. The ledger of the other one is gone, so its half stays."""
    broker.execute("select mqpg.create_producer_group('app', '100 ms', expire_after => '100 ms')")
    broker.execute("select mqpg.alter_producer_group('shop', expire_after => '100 ms')")
    abandoned, lost = prepare(broker, "app"), prepare(broker)
    process = leading(processes, broker)
    parked = "select handle from mqpg.half_parked where reason like 'undecided for longer than %%'"
    eventually(lambda: verdict(broker, abandoned) and broker.execute(parked).fetchall(), why=processes.logs)
    assert [verdict(broker, h) for h in (abandoned, lost)] == ["b by expiry", ""]
    assert broker.execute("select handle from mqpg.half_expired").fetchall() == [(abandoned,)]
    assert broker.execute(parked).fetchall() == [(lost,)]
    assert "half message expired undecided" in process.log()
    assert lost in process.log()


def fenced(shop: Outside, handle: str) -> bool:
    with shop.engine.connect() as connection:
        row = connection.exec_driver_sql("select entry from mqpg_ledger where handle = ?", (handle,)).first()
    return row is not None and row[0] == "fence"
