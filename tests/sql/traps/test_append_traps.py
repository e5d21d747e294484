"""The traps of the appender: each scenario holds, and shows the damage without its rule."""

from collections.abc import Callable

import psycopg
import pytest

from tests.support.broker import Broker, Session, message_id, messages_by_queue, positions, refused, seconds
from tests.support.mutation import PAUSE, Gate, mutate, only_if, without
from tests.support.waiting import eventually


def appended(mq: Session) -> list[int]:
    """Append until nothing is left, and return everything on the topic `one`."""
    while mq.append():
        pass
    return messages_by_queue(mq, "one").get(0, [])


def floor(mq: Session) -> int:
    return int(mq.scalar("select max(floor_id) from mqpg.tick"))


def age_floor(mq: Session, until: int | None = None) -> None:
    """Append messages one by one until the floor moves.

    A floor is the sequence's value at an earlier call, when nothing older runs any more. `until` is
    the floor to wait for, because transactions of other databases may hold it back for a while.
    """

    def passed() -> bool:
        mq.sent("one", "1")
        return until is None or floor(mq) >= until

    for _ in range(3):
        passed()
    eventually(passed)


# the xid first, then the batch id


XID_FIRST = """v_xid := pg_current_xact_id();    -- before the batch id: the appender relies on this order
    v_batch := nextval('mqpg.batch_id');"""
ID_FIRST = f"v_batch := nextval('mqpg.batch_id'); {PAUSE} v_xid := pg_current_xact_id();"
XID_FIRST_PAUSED = f"v_xid := pg_current_xact_id(); {PAUSE} v_batch := nextval('mqpg.batch_id');"


@without()
def test_trap_xid_before_batch_id_keeps_the_order(mq: Session, broker: Broker, mutant: bool) -> None:
    """One sender stops between xid and batch id, and another one sends and commits a message of the key meanwhile."""
    mutate(mq, "send", XID_FIRST, ID_FIRST if mutant else XID_FIRST_PAUSED, count=2)
    mq.send("t", "1")  # the sequence's first value is logged, which would give its caller an xid
    gate = Gate(broker)
    slow = gate.stopping()
    with gate.closed(slow, slow.send, "one", "1", key="k") as pending:
        quick = mq.send("one", "1", key="k")
    order = [quick, pending.result(45)]
    # The mutant's quick one committed before the slow one took its xid, and lies behind it.
    assert appended(mq) == (order[::-1] if mutant else order)


@pytest.mark.parametrize("key", [None, "k"])
@without()
def test_trap_xid_before_batch_id_keeps_rows_above_the_floor(
    mq: Session, broker: Broker, key: str | None, mutant: bool
) -> None:
    """One sender stops between xid and batch id, and the appender moves its floor meanwhile."""
    mutate(mq, "send", XID_FIRST, ID_FIRST if mutant else XID_FIRST_PAUSED, count=2)
    mq.send("t", "1")  # as above
    gate = Gate(broker)
    slow = gate.stopping()
    with gate.closed(slow, slow.send, "one", "1", key=key) as pending:
        age_floor(mq, 2 if mutant else None)
    assert (pending.result(45) in appended(mq)) is not mutant, "the row was to be hidden by the floor"


WRITE_FOR_THEM = ("_store_finals", "_relay_prepares", "_relay_decisions")  # called by those below, xid in hand
WRITERS = (
    "send",
    "send_batch",
    "_store",
    "_store_deduplicated",
    "prepare",
    "_decide",
    "_decide_batch",
    "_decide_run",
)


@pytest.mark.parametrize("function", WRITERS)
def test_trap_every_writer_takes_its_xid_first(mq: Session, function: str) -> None:
    """The text of each function that draws from the sequence has the xid first."""
    text = mq.scalar(
        """select string_agg(prosrc, '' order by oid) from pg_proc
           where proname = %s and pronamespace = 'mqpg'::regnamespace""",
        function,
    )
    draws = text.find("nextval('mqpg.batch_id')")
    assert 0 <= text.find("pg_current_xact_id()") < draws


def test_trap_nothing_else_writes_the_commit_log(mq: Session) -> None:
    writing = mq.rows(
        """select proname from pg_proc where pronamespace = 'mqpg'::regnamespace
           and prosrc like '%%insert into mqpg.commit_log%%' group by 1 order by 1"""
    )
    assert {r.proname for r in writing} <= {*WRITERS, *WRITE_FOR_THEM}


# append() in a READ COMMITTED transaction of its own


@without(("append", "perform mqpg._require_own_transaction('append');", ""))
def test_trap_append_refuses_a_caller_with_an_xid(mq: Session, broker: Broker, mutant: bool) -> None:
    """send, append, send in one transaction, while another has taken a later xid and committed."""
    other, sent = broker.session(), []
    with only_if(not mutant, refused("MQ015")), mq.transaction():
        sent.append(mq.send("one", "1"))
        sent.append(other.send("one", "2"))
        mq.append()
        sent.append(mq.send("one", "3"))
    # The mutant loses the caller's later row.
    assert appended(broker.session()) == (sent[:2] if mutant else sent[1:])


@without(
    (
        "_require_own_transaction",
        "if current_setting('transaction_isolation') <> 'read committed' then",
        "if false then",
    )
)
def test_trap_append_is_read_committed_only(mq: Session, other: Session, mutant: bool) -> None:
    """The appender runs in REPEATABLE READ with a snapshot that is older than the newest tick."""
    mq.send("one", "1")
    with pytest.raises(psycopg.errors.UniqueViolation) if mutant else refused("MQ015"), mq.snapshot():
        other.append()
        mq.append()


# the snapshot once, into a variable


def pause_before_the_tick(mq: Session) -> None:
    mutate(mq, "append", "if v_messages > 0 or v_new.due then", f"if v_messages > 0 or v_new.due then {PAUSE}")


@without(
    (
        "append",
        "pg_current_xact_id(), v_upto, pg_snapshot_xmax(v_upto),",
        "pg_current_xact_id(), pg_current_snapshot(), pg_snapshot_xmax(pg_current_snapshot()),",
    )
)
def test_trap_the_stored_snapshot_is_the_one_used(mq: Session, broker: Broker, mutant: bool) -> None:
    """A message commits after the appender took its snapshot and before it wrote its tick."""
    pause_before_the_tick(mq)
    gate = Gate(broker)
    appender = gate.stopping()
    mq.send("one", "1")
    with gate.closed(appender, appender.append) as running:
        late = mq.send("one", "2")
    running.result(45)
    assert (late in appended(mq)) is not mutant, "counted as appended, and never was"


# visible in S1 and not in S0: the late ones by lookup


def late_send(mq: Session, broker: Broker) -> int:
    """A transaction sends, stays open over a call of the appender, and then commits."""
    with broker.transaction() as slow:
        late = slow.send("one", "1")
        age_floor(mq)
    return late


def late_send_beside_a_decision(mq: Session, broker: Broker) -> int:
    """As `late_send`, in a pass with a decision, so that the other INSERT appends it."""
    late = late_send(mq, broker)
    mq.commit(mq.prepare("t", "1"))
    return late


def late_send_beside_another(mq: Session, broker: Broker) -> int:
    """As `late_send`, in a pass with a send that is not late."""
    late = late_send(mq, broker)
    mq.send("t", "1")
    return late


def late_commit(mq: Session, broker: Broker) -> int:
    slow = broker.session()
    handle = mq.prepare("one", "1")
    with slow.transaction():
        slow.commit(handle)
        age_floor(mq)
    return message_id(handle)


def late_commit_beside_another(mq: Session, broker: Broker) -> int:
    """As `late_commit`, in a pass with a commit that is not late."""
    late = late_commit(mq, broker)
    mq.commit(mq.prepare("t", "1"))
    return late


def late_delayed(mq: Session, broker: Broker) -> int:
    """A message becomes due, and the appender moves the due time, while its transaction is open."""
    with broker.transaction() as slow:
        late = slow.send("one", "1", delay=seconds(0.01))
        mq.execute("select pg_sleep(0.02)")
        age_floor(mq)
    return late


LATE: dict[str, tuple[Callable[[Session, Broker], int], str, str]] = {
    "send": (late_send_beside_another, "_new_sends", "l.xid = any(_new_sends.late)"),
    "send beside a decision": (late_send_beside_a_decision, "_new_sends", "l.xid = any(_new_sends.late)"),
    "commit": (late_commit_beside_another, "_new_commits", "o.xid = any(_new_commits.late)"),
    "delayed": (late_delayed, "_newly_due", "d.xid = any(_newly_due.late)"),
}


@pytest.mark.parametrize("scenario", [late_send, late_commit, *(late for late, *_ in LATE.values())])
def test_trap_a_late_commit_is_not_skipped(
    mq: Session, broker: Broker, scenario: Callable[[Session, Broker], int]
) -> None:
    late = scenario(mq, broker)
    assert appended(mq).count(late) == 1


@pytest.mark.parametrize("what", LATE)
def test_trap_a_late_commit_is_not_skipped_mutant(mq: Session, broker: Broker, what: str) -> None:
    scenario, function, rule = LATE[what]
    mutate(mq, function, rule, "false")
    assert scenario(mq, broker) not in appended(mq)


# due rows behind the due time


@without(("_newly_due", "d.visible_at <= _newly_due.due_from", "false", 2))
def test_trap_due_before_the_last_pass_but_visible_only_now(mq: Session, broker: Broker, mutant: bool) -> None:
    """A message's time lies before the last call's, and its transaction ends after it."""
    other = broker.session("begin")
    late = other.send("one", "2", delay=seconds(0.01))
    mq.execute("select pg_sleep(0.02)")
    mq.send("one", "1", delay=seconds(0.001))
    mq.execute("select pg_sleep(0.02)")
    mq.append()
    other.execute("commit")
    assert appended(mq).count(late) == (0 if mutant else 1)


@without(
    (
        "_newly_due",
        "d.visible_at > _newly_due.due_from and d.visible_at <= _newly_due.due_until",
        "d.visible_at <= _newly_due.due_until",
    )
)
def test_trap_what_was_due_before_is_not_due_again(mq: Session, mutant: bool) -> None:
    """A message is nacked once and becomes due between two calls."""
    (message_id,) = mq.sent_batch("one", ["1"])
    mq.nack(mq.receive("one")[0].receipt, [message_id], delay=seconds(0.01))
    for _ in range(3):
        mq.send("t", "1", delay=seconds(0.01))  # A call that finds nothing due looks for nothing due.
        mq.execute("select pg_sleep(0.02)")
        mq.append()
    attempts = [m.attempt for m in mq.drain("one")]
    assert len(attempts) > 1 if mutant else attempts == [2]


# the cut of a backlog

FLOOR_RULE = "where k.tick_id >= v_recent and k.xid <= pg_snapshot_xmin(v_upto) order by k.xid desc"
FLOOR_BY_XMAX = "where k.snapshot_xmax <= pg_snapshot_xmin(v_upto) order by k.snapshot_xmax desc"


@without(("_snapshot_of_backlog_part", "and l.xid >= v_s0_xmax and", "and"))
def test_trap_a_cut_is_never_below_the_last_snapshot(mq: Session, broker: Broker, mutant: bool) -> None:
    """A transaction that is older than five appended ones commits, and small calls of the appender follow."""
    with broker.transaction() as slow:
        late = slow.send("one", "0")
        ids = [mq.send("one", "1") for _ in range(5)]
        mq.append()
    mq.append(1)
    mq.append()
    order = [m for _, _, m in positions(mq, "one")]
    # The mutant appends five of five again.
    assert len(order) > 6 if mutant else order == [*ids, late]


@without(("_snapshot_of_backlog_part", "where x.xid::text::bigint < v_x", "where false"))
def test_trap_a_cut_keeps_the_running_transactions(mq: Session, broker: Broker, mutant: bool) -> None:
    """Small calls append a backlog while an older transaction is open, which commits later."""
    with broker.transaction() as slow:
        late = slow.send("one", "0")
        ids = [mq.send("one", "1") for _ in range(6)]
        while mq.append(2):
            pass
    order = appended(mq)
    assert late not in order if mutant else order == [*ids, late]


@without(("append", FLOOR_RULE, FLOOR_BY_XMAX))
def test_trap_a_cut_pass_does_not_move_the_floor_over_its_backlog(mq: Session, mutant: bool) -> None:
    """Calls leave most of a backlog, although its batch ids were drawn long ago."""
    ids = [mq.send("one", "1") for _ in range(12)]
    while mq.append(2):
        pass
    order = appended(mq)
    assert len(order) < len(ids) if mutant else order == ids


# floor_id


@without(("append", FLOOR_RULE, "where true order by k.xid desc"))
def test_trap_floor_waits_for_the_oldest_running_transaction(mq: Session, broker: Broker, mutant: bool) -> None:
    with broker.transaction() as slow:
        late = slow.send("one", "1")
        age_floor(mq, until=late // 1024 if mutant else None)
        assert (floor(mq) * 1024 < late) is not mutant
    assert (late in appended(mq)) is not mutant, "the floor was to pass over an open transaction's row"


@without(("append", FLOOR_RULE, FLOOR_BY_XMAX))
def test_trap_floor_waits_for_a_running_transaction_above_xmax(mq: Session, broker: Broker, mutant: bool) -> None:
    """A sender runs with an xid above the snapshot's xmax, because no greater xid has finished.

    The call's batch_seq covers its batch id, and the next call has its xid as xmin. A snapshot's xmax is
    the newest finished xid plus one, and says nothing about the xids that run above it.
    """
    before, slow = broker.session(), broker.session()
    with before.transaction():
        before.send("one", "1")
        slow.execute("begin")
        late = slow.send("one", "2")
    mq.append()
    age_floor(mq)
    slow.execute("commit")
    assert (late in appended(mq)) is not mutant


def test_trap_floor_moves_when_nothing_runs(mq: Session) -> None:
    """A floor that never moves would be safe and slow."""
    age_floor(mq, until=2)


SEQUENCE_READ = "v_batch_seq := coalesce(pg_sequence_last_value('mqpg.batch_id'), 0);"
SNAPSHOT_TAKEN = "v_s1 := pg_current_snapshot();"


@without()
def test_trap_the_sequence_is_read_before_the_pass_has_its_xid(mq: Session, broker: Broker, mutant: bool) -> None:
    """A sender takes xid and batch id while the appender stops before the sequence, and stays open
    over the next call.
    """
    paused = f"{PAUSE} {SEQUENCE_READ} {SNAPSHOT_TAKEN}"
    if mutant:
        paused = f"{SNAPSHOT_TAKEN} perform pg_current_xact_id(); {PAUSE} {SEQUENCE_READ}"
    mutate(mq, "append", f"{SEQUENCE_READ} {SNAPSHOT_TAKEN}", paused)
    gate = Gate(broker)
    appender, slow = gate.stopping(), broker.session()
    mq.send("one", "1")
    slow.execute("begin")
    with gate.closed(appender, appender.append) as running:
        late = slow.send("one", "2")
    running.result(45)
    age_floor(mq)
    slow.execute("commit")
    assert (late in appended(mq)) is not mutant


# runs


END_OF_PLAIN = "case when f.deliver_id is null then f.id + f.n end"


def two_full_batches(mq: Session, *, decision: bool) -> list[int]:
    """b * 1024 + 1023 and (b + 1) * 1024 are neighbours as numbers. A decision in the same pass chooses the INSERT."""
    ids = mq.send_batch("one", ["1"] * 1026)
    if decision:
        mq.commit(mq.prepare("t", "1"))
    assert ids[1024] == ids[1023] + 1
    mq.append()
    assert [m.message_id for m in mq.call("fetch", "one", 0, 0, 2000)] == ids
    return ids


@pytest.mark.parametrize("decision", [False, True])
def test_trap_runs_of_different_batches_never_join(mq: Session, decision: bool) -> None:
    two_full_batches(mq, decision=decision)
    assert mq.scalar("select cardinality(first_ids) from mqpg.consume_queue where n > 1") == 2


def test_trap_runs_of_different_batches_never_join_mutant(mq: Session) -> None:
    mutate(mq, "_write_offsets", "and f.id & 1023 <> 0", "")
    with refused("MQ014"):
        two_full_batches(mq, decision=True)


@without(("_write_offsets", f"lag({END_OF_PLAIN}) over w = f.id", "abs(lag(f.id) over w - f.id) = 1"))
def test_trap_decisions_join_only_where_ids_ascend(mq: Session, mutant: bool) -> None:
    rows = mq.call("prepare_batch", "one", ["0", "1", "2", "3"], "pg")
    handles = [r[0] for r in rows]
    order = [handles[i] for i in (3, 2, 0, 1)]
    for handle in order:
        mq.commit(handle)
    mq.append()
    with only_if(mutant, refused("MQ014")):  # the run 3, 2 is read as 3, 4
        assert [m.message_id for m in mq.call("fetch", "one", 0, 0)] == [message_id(h) for h in order]
        assert mq.scalar("select starts from mqpg.consume_queue") == [0, 1, 2]


@without(
    ("_write_offsets", END_OF_PLAIN, "f.id + f.n"),
    ("_write_offsets", "and f.deliver_id is null and f.attempt", "and f.attempt"),
)
def test_trap_final_payloads_never_join(mq: Session, mutant: bool) -> None:
    """A body that lies in another row must not be read as part of its neighbours' run."""
    handles = [r[0] for r in mq.call("prepare_batch", "one", ["0", "1", "2"], "pg")]
    mq.call("commit_batch", handles, [None, '"final"', None])
    mq.append()
    found = [m.payload for m in mq.call("fetch", "one", 0, 0)]
    assert found == [0, 1 if mutant else "final", 2], "the prepared body, not the final one"


# durability


DURABLE: dict[str, Callable[[Session], object]] = {
    "append": lambda mq: mq.append(),
    "prepare": lambda mq: mq.prepare("one", "1"),
    "prepare_batch": lambda mq: mq.call("prepare_batch", "one", ["1"], "pg"),
    "_decide": lambda mq: mq.commit(mq.scalar("select handle from made")),
    "_decide_batch": lambda mq: mq.call("rollback_batch", [mq.scalar("select handle from made")]),
    "_due_halves": lambda mq: mq.call("due_checks", "pg"),
    "recall": lambda mq: mq.call("recall", mq.scalar("select min(first_id) from mqpg.delayed")),
}


@pytest.mark.parametrize("function", DURABLE)
@without()
def test_trap_commits_wait_for_the_disk_whatever_the_session_says(
    mq: Session, broker: Broker, function: str, mutant: bool
) -> None:
    if mutant:
        mutate(mq, function, "perform mqpg._force_sync();", "")
    mq.execute("create table made (handle text)")
    mq.execute("insert into made values (%s)", mq.prepare("one", "1"))
    mq.send("one", "1")
    mq.send("one", "1", delay=seconds(3600))
    careless = broker.session("set synchronous_commit = off")
    with careless.transaction():
        DURABLE[function](careless)
        assert careless.scalar("show synchronous_commit") == ("off" if mutant else "on")
    assert careless.scalar("show synchronous_commit") == "off"


@pytest.mark.parametrize("level", ["remote_write", "remote_apply", "on"])
def test_trap_a_stronger_commit_is_left_as_it_is(mq: Session, broker: Broker, level: str) -> None:
    session = broker.session(f"set synchronous_commit = {level}")
    with session.transaction():
        session.prepare("one", "1")
        assert session.scalar("select current_setting('synchronous_commit')") == level


# another cluster


def foreign_system(mq: Session) -> None:
    mq.execute("update mqpg.broker set system_identifier = system_identifier + 1")


def later_snapshot(mq: Session) -> None:
    """Make the ticks as after a restore from a dump: they have seen xids that this cluster has not given out yet."""
    mq.execute("""update mqpg.tick set snapshot = '999999999:999999999:', snapshot_xmax = '999999999'
        where tick_id = (select max(tick_id) from mqpg.tick)""")


@pytest.mark.own_database
@pytest.mark.parametrize("restore", [foreign_system, later_snapshot])
def test_trap_append_refuses_in_another_cluster(mq: Session, restore: Callable[[Session], None]) -> None:
    mq.send("one", "1")
    restore(mq)
    with refused("MQ016"):
        mq.append()
    assert positions(mq, "one") == []


@pytest.mark.own_database
def test_trap_append_refuses_in_another_cluster_mutant(mq: Session) -> None:
    mutate(mq, "append", "perform mqpg._require_own_database(v_tick.snapshot);", "")
    sent = mq.send("one", "1")
    later_snapshot(mq)
    assert sent not in appended(mq), "what was sent after the restore was to be passed over in silence"


# two appenders


@without(("append", "lock table mqpg.append_lock in exclusive mode;", ""))
def test_trap_passes_are_one_after_the_other(mq: Session, broker: Broker, mutant: bool) -> None:
    pause_before_the_tick(mq)
    gate = Gate(broker)
    first, second = gate.stopping(), broker.session()
    ids = [mq.send("one", "1") for _ in range(3)]
    with gate.closed(first, first.append) as running:
        other = broker.background(second.append)
        waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        eventually(lambda: other.done() or mq.scalar(waits, second.pid))
    with only_if(mutant, pytest.raises((AssertionError, psycopg.Error))):
        running.result(45)
        other.result(45)
        assert [m for _, _, m in positions(mq, "one")] == ids


def test_a_recall_between_the_look_and_the_decision_is_put_off_too(mq: Session, broker: Broker) -> None:
    """The first look misses the recall.

    The insert waits for its decision, stops waiting, and the next look shows it.
    """
    mutate(mq, "_decide_due", "v_recalling := not", "v_recalling := false and not")
    recaller = broker.session()
    recalled, kept = mq.send_batch("one", ["0", "1"], delay=seconds(0.05))
    with recaller.transaction():
        assert recaller.value("recall", recalled) is True
        mq.execute("select pg_sleep(0.06)")
        assert mq.append() == 1
    mq.execute("select pg_sleep(1.1)")
    assert mq.append() == 0
    assert [m for _, _, m in positions(mq, "one")] == [kept]


# due against recall


def put_off_and_rolled_back(mq: Session, broker: Broker) -> list[int]:
    """The appender postpones a message for an open recall, which is rolled back.

    The message then has two rows in delayed.
    """
    recaller = broker.session()
    mq.send("one", "1", delay=seconds(0.05))
    with recaller.transaction(force_rollback=True):
        recaller.value("recall", mq.scalar("select first_id from mqpg.delayed"))
        mq.execute("select pg_sleep(0.06)")
        for _ in range(3):
            assert mq.append() == 0
    eventually(lambda: (mq.append(), positions(mq, "one"))[1])
    mq.execute("select pg_sleep(1.1)")
    return appended(mq)


def test_trap_a_message_put_off_comes_once(mq: Session, broker: Broker) -> None:
    assert len(put_off_and_rolled_back(mq, broker)) == 1
    assert mq.scalar("select count(*) from mqpg.delayed") <= 2


def test_trap_a_message_put_off_comes_once_mutant_no_tick(mq: Session, broker: Broker) -> None:
    """A call that postponed everything must store its tick.

    Otherwise the next one postpones the same messages again.
    """
    mutate(mq, "append", "if v_messages > 0 or v_new.due then", "if v_messages > 0 then")
    put_off_and_rolled_back(mq, broker)
    assert mq.scalar("select count(*) from mqpg.delayed") > 2


def test_trap_a_message_put_off_comes_once_mutant_any_decision(mq: Session, broker: Broker) -> None:
    """Only what this call decided counts.

    The second row meets the decision of the call that delivered the first one.
    """
    mutate(mq, "_write_offsets", "and k.xid = pg_current_xact_id()", "")
    message_id = mq.send("one", "1", delay=seconds(0.02))
    with broker.transaction(force_rollback=True) as recaller:
        recaller.value("recall", message_id)
        mq.execute("select pg_sleep(0.03)")
        mq.append()
    mq.execute("insert into mqpg.delayed select * from mqpg.delayed order by written_at desc limit 1")
    mq.execute("select pg_sleep(1.1)")
    mq.append()
    mq.execute(
        "insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)"
        " select clock_timestamp(), pg_current_xact_id(), first_id, n, written_at, topic_id, queue_id"
        " from mqpg.delayed limit 1"
    )
    mq.execute("select pg_sleep(0.01)")
    mq.append()
    assert len(appended(mq)) > 1, "delivered twice"


# the sequence of batch ids has no cache


@pytest.mark.own_database
@without()
def test_trap_the_sequence_has_no_cache(mq: Session, other: Session, mutant: bool) -> None:
    """Two sessions send a key's messages in turn. With a cache a later message comes first (I6)."""
    assert mq.scalar("select seqcache from pg_sequence where seqrelid = 'mqpg.batch_id'::regclass") == 1
    if mutant:
        mq.execute("alter sequence mqpg.batch_id cache 10")
    mq.send("one", "1", key="k")
    sent = [session.send("one", "1", key="k") for session in (other, mq, other, mq)]
    got = appended(mq)[1:]
    assert sorted(got) == sorted(sent)
    assert (got == sent) is not mutant
