"""The keeper as a process: it drops segments under any load, and a killed one leaves nothing behind."""

import logging
import re
import threading
from contextlib import AbstractContextManager

import pytest

from mqpg.workers.keeper import Keeper, _too_few_locks
from mqpg.workers.session import connect
from mqpg.workers.worker import Options
from tests.support.broker import Broker, Session
from tests.support.processes import Processes, workers
from tests.support.retention import keep, payloads, retain, roll
from tests.support.waiting import eventually
from tests.support.working import at_work

FIRST = ("commit_log_1", "op_log_1", "check_log_1", "consume_queue_1", "tick_1", "half_tick_1", "cursor_1")


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A broker whose first segment is closed and read, and still within its retention."""
    mq = broker.session()
    mq.subscribed("one")
    mq.call("create_producer_group", "pg")
    mq.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    mq.send_batch("one", ["1"] * 5)
    mq.rollback(mq.prepare("one"))
    mq.delivered("one")
    roll(mq)
    return mq


def left(mq: Session) -> list[str]:
    return [table for table in FIRST if mq.scalar("select to_regclass(%s)", f"mqpg.{table}")]


def works(mq: Session) -> None:
    mq.sent("one", '"new"')
    assert payloads(mq.drain("one")) == ["new"]


class Overlapping(threading.Thread):
    """Transactions that send and work for 0.15 s, so that one is open at every moment.

    No statement of them may wait for a lock for longer than 5 s.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._sessions = [broker.session("set lock_timeout = '5s'") for _ in range(2)]
        self._stop_sending = threading.Event()
        self.sent = 0
        self.error: Exception | None = None

    def run(self) -> None:
        open_one, next_one = self._sessions
        try:
            open_one.execute("begin")
            open_one.send("one")
            while not self._stop_sending.wait(0.15):
                next_one.execute("begin")
                next_one.send("one")
                next_one.rows("select count(*) from mqpg.consume_queue")
                open_one.execute("commit")
                self.sent += 1
                open_one, next_one = next_one, open_one
            open_one.execute("commit")
        except Exception as error:
            self.error = error

    def finish(self) -> None:
        self._stop_sending.set()
        self.join(30)
        if self.error is not None:
            raise self.error


def keeping(broker: Broker) -> AbstractContextManager[Keeper]:
    return at_work(Keeper, Options(dsn=broker.dsn, interval=0.1, heartbeat=0.1), long=0.5)


def test_segments_go_although_a_transaction_is_open_at_every_moment(
    mq: Session, broker: Broker, processes: Processes
) -> None:
    producers = Overlapping(broker)
    producers.start()
    eventually(lambda: producers.sent > 0 or producers.error)
    retain(mq, "0 s")
    processes.worker("keeper", "--interval", "0.2")
    eventually(lambda: left(mq) in ([], ["cursor_1"]), why=processes.logs)
    assert producers.is_alive()
    producers.finish()


def test_a_reader_that_holds_all_tables_holds_up_nothing_but_drops(
    mq: Session, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """As pg_dump does: it locks every table, and is at work for hours."""
    reader = broker.session()
    reader.execute("begin isolation level repeatable read")
    reader.rows("select from mqpg.topic")
    tables = [
        row.name
        for row in mq.rows(
            "select oid::regclass::text as name from pg_class where relnamespace = 'mqpg'::regnamespace"
            " and relkind in ('r', 'p') order by oid"
        )
    ]
    reader.execute(f"lock table {', '.join(tables)} in access share mode")
    retain(mq, "0 s")
    with caplog.at_level(logging.INFO, logger="mqpg.workers"), keeping(broker) as keeper:
        blocked = "select blocked_by from mqpg.blocked_segments where table_name = 'consume_queue_1'"
        eventually(lambda: any(reader.pid in row.blocked_by for row in mq.rows(blocked)))
        mq.execute("update mqpg.settings set value = '4' where name = 'segments_ahead'")
        eventually(lambda: mq.scalar("select count(*) >= 5 from mqpg.segment where family = 'tick'"))
        works(mq)
        eventually(
            lambda: (
                "consume_queue_1" in next(iter(workers(mq.conn, "keeper", "active").values()), {}).get("blocked", {})
            )
        )
        warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert any(
            getattr(record, "table", "") == "consume_queue_1" and str(reader.pid) in getattr(record, "sessions", "")
            for record in warnings
        ), [record.getMessage() for record in warnings]
        assert payloads(reader.call("fetch", "one", 0, 0)) == [1] * 5
        reader.execute("commit")
        eventually(lambda: left(mq) in ([], ["cursor_1"]))
        works(mq)
        eventually(lambda: keeper.detail["blocked"] == {})


def test_a_merge_that_never_finds_a_quiet_moment_shows_and_holds_nobody_up(
    mq: Session, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its last step needs one: where transactions overlap all the time it waits, and says for whom."""
    for _ in range(5):
        mq.sent("one")
        roll(mq)
    mq.drain("one")
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    producers = Overlapping(broker)
    producers.start()
    eventually(lambda: producers.sent > 0 or producers.error)
    with caplog.at_level(logging.INFO, logger="mqpg.workers"), keeping(broker) as keeper:
        merging = "segments cannot be merged, because transactions use their tables"
        eventually(lambda: any(record.getMessage() == merging for record in caplog.records))
        eventually(
            lambda: "consume_queue" in next(iter(workers(mq.conn, "keeper", "active").values()), {}).get("blocked", {})
        )
        assert "in a transaction for" in next(
            getattr(record, "sessions", "") or "" for record in caplog.records if record.getMessage() == merging
        )
        assert producers.is_alive()
        producers.finish()  # nobody waited for longer than 100 ms
        eventually(lambda: mq.rows("select from mqpg.segment where family = 'tick' and merged_at is not null"))
        eventually(lambda: keeper.detail["blocked"] == {})
    mq.delivered("one")
    works(mq)


def test_a_keeper_with_more_to_do_than_one_iteration_takes_no_pause(
    mq: Session, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqpg.workers.keeper._MOST_CALLS", 1)
    keeper = Keeper(Options(dsn=broker.dsn, interval=60))
    mq.sent("one")
    retain(mq, "0 s")
    pauses: list[float] = []
    with connect(broker.dsn, "keeper") as conn:
        while not pauses or pauses[-1] == 0:
            pauses.append(keeper.turn(conn))
    assert pauses[-1] == 60
    assert len(pauses) > 3  # how many depends on how fast its threads drop tables
    assert mq.scalar("select to_regclass('mqpg.consume_queue_1')") is None


def test_a_server_with_too_little_room_for_locks_is_reported(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with PostgreSQL's own settings has enough."""
    keeper = Keeper(Options(dsn=broker.dsn))
    with connect(broker.dsn, "keeper") as conn, caplog.at_level(logging.WARNING, logger="mqpg.workers"):
        keeper.turn(conn)
        assert "locks" not in keeper.detail
        monkeypatch.setattr("mqpg.workers.keeper._LEAST_LOCKS", 1_000_000)
        for _ in range(2):
            keeper.turn(conn)
        (found,) = [record.getMessage() for record in caplog.records if "max_locks" in record.getMessage()]
        assert re.search(r"which is too few: set it to \d{4} or more and restart the server$", found)
        assert keeper.detail["locks"] == found


@pytest.mark.parametrize(
    ("each", "own", "connections", "wanted"),
    [(64, 64, 100, None), (128, 128, 100, None), (64, 128, 100, 128), (64, 64, 10, 300), (128, 128, 10, 600)],
)
def test_version_19_makes_half_the_room_by_the_same_number(
    each: int, own: int, connections: int, wanted: int | None
) -> None:
    found = _too_few_locks(each, own, connections, prepared=0)
    assert found is None if wanted is None else f"set it to {wanted} or more" in (found or "")


@pytest.mark.parametrize("recovered_by", ["keeper", "keep()"])
@pytest.mark.parametrize("step", ["released", "detaching", "cut off", "detached"])
def test_a_keeper_killed_between_two_steps_of_a_drop(
    mq: Session, broker: Broker, processes: Processes, step: str, recovered_by: str
) -> None:
    """The test holds what the next step needs, kills the keeper there, and lets another one continue."""
    holder = broker.session()
    holder.execute("begin")
    holds = {
        "released": "select pg_advisory_xact_lock(1836150842, hashtext('consume_queue'))",
        "detaching": "select count(*) from mqpg.consume_queue",
        "cut off": "select count(*) from mqpg.consume_queue",
        "detached": "select from mqpg.segment where family = 'tick' and segment_no = 1 for update",
    }
    retain(mq, "0 s")
    eventually(
        lambda: mq.call("_keep", False) is None or mq.rows("select from mqpg.segment where leaving = 'consume_queue'"),
        interval=0,
    )
    holder.execute(holds[step])
    keeper = processes.worker("keeper", "--interval", "0.1")
    reached = {"released": "attached", "cut off": "detaching"}.get(step, step)
    state = "select state from mqpg.blocked_segments where table_name = 'consume_queue_1'"
    eventually(lambda: workers(mq.conn, "keeper", "active") and mq.scalar(state) == reached, why=processes.logs)
    keeper.kill()
    assert mq.scalar(state) == reached
    if step == "cut off":
        mq.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like %s"
            " and datname = current_database()",
            "mqpg keeper drops%",
        )
    works(mq)
    holder.execute("commit")
    if recovered_by == "keeper":
        processes.worker("keeper", "--interval", "0.1")
        eventually(lambda: left(mq) in ([], ["cursor_1"]), why=processes.logs)
    else:
        eventually(lambda: (keep(mq), left(mq) in ([], ["cursor_1"]))[1])
    assert mq.rows("select from mqpg.blocked_segments where table_name = 'consume_queue_1'") == []
    works(mq)
    assert mq.rows("select from mqpg.queue_depth where topic = 'one' and next_offset = 7")


def test_a_group_that_nobody_reads_is_reported_once(
    mq: Session, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    mq.call("subscribe", "nobody", "one")
    mq.call("subscribe", "paused", "one")
    mq.call("pause", "one", "paused")
    mq.sent("one")

    def reported() -> list[str]:
        found = [record for record in caplog.records if record.getMessage() == "no consumer reads a group"]
        return [f"{getattr(record, 'consumer_group', '')}: {getattr(record, 'remedy', '')}" for record in found]

    def report(group: str) -> str:
        return f"{group}: start mqpg consume for group {group}"

    with caplog.at_level(logging.WARNING, logger="mqpg.workers"), keeping(broker) as keeper:
        eventually(lambda: len(reported()) == 2)
        assert sorted(reported()) == [report("g"), report("nobody")]
        mq.drain("one")  # the group g
        eventually(lambda: ("g", "one") not in keeper._unread_groups._known)
        mq.sent("one")
        eventually(lambda: len(reported()) == 3)
    assert reported()[2] == report("g")
