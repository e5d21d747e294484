"""The views of schema mqpg_audit: each shows a small known history, row by row."""

import hashlib
import json
import re
from typing import Any

import pytest

from tests.support.broker import Session, fill, message_id, positions
from tests.support.retention import keep, retain, roll


def states(mq: Session) -> dict[int, tuple[str, str]]:
    """Kind and state by message id."""
    rows = mq.rows("select message_id, kind, state from mqpg_audit.message")
    found = {row.message_id: (row.kind, row.state) for row in rows}
    assert len(found) == len(rows), "a message has two rows"
    return found


def plan(mq: Session, query: str) -> str:
    return "\n".join(row[0] for row in mq.rows(f"explain (verbose, costs off) {query}"))


def pending(mq: Session, group: str = "g") -> dict[int, tuple[str, int]]:
    """State and number of deliveries by message id."""
    rows = mq.rows("select message_id, state, deliveries from mqpg_audit.pending where consumer_group = %s", group)
    found = {row.message_id: (row.state, row.deliveries) for row in rows}
    assert len(found) == len(rows), "a message is pending twice"
    return found


class TestMessages:
    def test_every_kind_and_state(self, mq: Session) -> None:
        mq.call("create_topic", "relay", 1, kind="relay")
        sent = mq.send_batch("one", ["1", "22", "333"], keys=["a", "b", "a"])
        commits, rolls, waits, final = (mq.prepare("t") for _ in range(4))
        relayed = mq.prepare("relay")
        later, recalled = (mq.send("t", delay="1 hour") for _ in range(2))
        mq.commit(commits)
        mq.commit(final, "4444")
        mq.commit(relayed)
        mq.rollback(rolls)
        mq.call("recall", recalled)
        expected = dict.fromkeys(sent, ("normal", "committed")) | {
            message_id(commits): ("half", "committed"),
            message_id(final): ("half", "committed"),
            message_id(rolls): ("half", "rolled_back"),
            message_id(waits): ("half", "undecided"),
            message_id(relayed): ("half", "relayed"),
            later: ("delayed", "committed"),
            recalled: ("delayed", "recalled"),
        }
        mq.append()
        found = states(mq)
        delivered = {row.message_id for row in mq.rows("select message_id from mqpg_audit.queue_entry")}
        # The phases of a relay topic are messages of their own.
        phases = found.keys() - expected.keys()
        assert {id: found[id] for id in expected} == expected
        assert {found[id] for id in phases} == {("normal", "committed")}
        relayed_as = mq.scalar("select relayed_as from mqpg_audit.message where state = 'relayed'")
        assert relayed_as in phases
        mq.execute("update mqpg.op_log set deliver_id = null where visible_at = 'infinity'")  # nothing writes that
        for view in ("message", "decision"):
            named = f"select relayed_as from mqpg_audit.{view} where message_id = %s and relayed_as is not null"
            assert mq.scalar(named, message_id(relayed)) == message_id(relayed), view
        assert delivered == {*sent, message_id(commits), message_id(final), *phases}

    def test_columns_of_a_message(self, mq: Session) -> None:
        ids = mq.send_batch("one", ["1", "22"], keys=["a", "a"]) + mq.send_batch("one", ["333"])
        handle = mq.prepare("t", '{"half": true}')
        mq.commit(handle)
        undecided = mq.prepare("t")
        first, same, without, half, other = mq.rows(
            "select m.*, t.topic_id = m.topic_id as right_topic from mqpg_audit.message m "
            "join mqpg_audit.topic t on t.topic = m.topic order by m.message_id"
        )
        assert [m.message_id for m in (first, same, without)] == ids
        assert [m.payload_bytes for m in (first, same, without, half)] == [1, 2, 3, 14]
        assert first.key_hash is not None
        assert (without.key_hash, same.key_hash) == (None, first.key_hash)
        assert {m.batch_id for m in (first, same)} == {ids[0] // 1024}
        assert all(m.right_topic and not m.kept for m in (first, without, same, half, other))
        assert (first.topic, first.queue_id, half.topic) == ("one", 0, "t")
        assert first.committed_at == first.created_at
        assert (first.decided_at, first.producer_group, first.incarnation, first.handle_hash) == (None,) * 4
        assert half.created_at < half.committed_at == half.decided_at
        assert half.producer_group == other.producer_group == "pg"
        assert half.check_at > half.created_at
        for message, its in ((half, handle), (other, undecided)):
            broker_id, incarnation, _, nonce = its.split(".")
            assert message.handle_hash == hashlib.sha256(bytes.fromhex(nonce)).hexdigest()
            assert (broker_id, int(incarnation)) == tuple(
                mq.rows("select broker_id, incarnation from mqpg_audit.version")[0]
            )
        assert (other.committed_at, other.decided_at) == (None, None)

    def test_hashes_of_handles_are_comparable_and_give_no_handle_away(self, mq: Session) -> None:
        mq.send("one")
        handles = [row[0] for row in mq.rows("select mqpg.prepare_batch('t', array['1', '2', '3'], 'pg')")]
        mq.execute(
            "insert into mqpg.held (message_id, xid, born_at, topic_id, queue_id, kind, nonce, payload) "
            "select (l.batch_id + 1000) * 1024 + 2, l.xid, l.born_at, l.topic_id, l.queue_id, l.kind, l.nonce, "
            "l.payloads[3] from mqpg.commit_log l where l.kind = 'h'"
        )
        hashes = [hashlib.sha256(bytes.fromhex(handle.split(".")[3])).hexdigest() for handle in handles]
        rows = mq.rows("select b.*, row_to_json(b)::text as text from mqpg_audit.record_batch b order by b.batch_id")
        assert [(row.kind, row.kept) for row in rows] == [("normal", False), ("half", False), ("half", True)]
        assert [row.handle_hashes for row in rows[:2]] == [None, hashes]
        seen = " ".join(row.text for row in rows)
        secret = mq.scalar("select nonce::text from mqpg.held")
        for hidden in (secret, secret.replace("-", ""), *(handle.split(".")[3] for handle in handles)):
            assert hidden not in seen

    def test_contents_are_read_only_where_they_are_asked_for(self, mq: Session) -> None:
        mq.send_batch("one", ["1", "2"], keys=["a", "b"])
        query = "select message_id, state, topic, created_at from mqpg_audit.message"
        assert "octet_length" not in plan(mq, query)
        assert "hashtext" not in plan(mq, query)
        assert "octet_length" in plan(mq, "select payload_bytes from mqpg_audit.message")
        batch = "select {} from mqpg_audit.record_batch"
        assert not re.search("sha256|hash|payloads", plan(mq, batch.format("batch_id, first_id, n, xid, kind")))
        assert "payloads" in plan(mq, batch.format("intact"))
        assert "check_log" not in plan(mq, "select message_id, decision, xid from mqpg_audit.decision")
        assert "mqpg.tick" not in plan(mq, "select message_id, due_at, xid from mqpg_audit.delayed")
        assert "mqpg.tick" not in plan(mq, "select queue_offset from mqpg_audit.queue_entry")
        assert "mqpg.tick" in plan(mq, "select appended_at from mqpg_audit.queue_entry")

    @pytest.mark.parametrize(
        ("view", "condition", "table"),
        [
            ("message", "batch_id >= 10 and batch_id < 20", "commit_log"),
            ("message", "batch_id < 20 or batch_id is null", "commit_log"),
            ("record_batch", "batch_id >= 10 and batch_id < 20", "commit_log"),
            ("record_batch", "batch_id >= 10 and batch_id < 20 and not kept", "commit_log"),
            ("decision", "message_id >= 10240 and message_id < 20480", "op_log"),
            ("queue_entry", "tick_id >= 1 and tick_id < 2", "consume_queue"),
            ("queue_row", "tick_id >= 1 and tick_id < 2", "consume_queue"),
            ("tick", "tick_id < 2", "tick"),
        ],
    )
    def test_a_range_of_the_cut_column_leaves_out_partitions(
        self, mq: Session, view: str, condition: str, table: str
    ) -> None:
        """It goes below the expansion to one row for each message."""
        count = f"select count(*) from mqpg_audit.{view}"
        assert f"mqpg.{table}_2 " in plan(mq, count)
        # Only what asks whether a kept message is still in the log, by the id of its batch, knows all partitions.
        scans = [line for line in plan(mq, f"{count} where {condition}").splitlines() if f" on mqpg.{table}_" in line]
        assert {line.split(f"mqpg.{table}_")[1].split(" ")[0] for line in scans if " c_" not in line} == {"1"}

    @pytest.mark.own_database  # segments roll
    def test_kept_messages_are_still_there(self, mq: Session) -> None:
        mq.call("create_topic", "unread", 1)
        mq.call("alter_producer_group", "pg", check_after="1 hour")
        retain(mq, "0 s")
        gone = mq.send_batch("unread", ["1", "2"])
        handle = mq.prepare("unread", "333", key="k")
        mq.append()
        roll(mq)
        keep(mq)
        kept = mq.rows("select * from mqpg_audit.message")
        assert [(m.message_id, m.state, m.kept, m.payload_bytes) for m in kept] == [
            (message_id(handle), "undecided", True, 3)
        ]
        assert kept[0].handle_hash == hashlib.sha256(bytes.fromhex(handle.split(".")[3])).hexdigest()
        assert kept[0].key_hash is not None
        (segment,) = mq.rows(
            "select * from mqpg_audit.segment where cut_column = 'batch_id' and dropped_at is not null"
        )
        assert segment.lower_bound <= gone[0] // 1024 < segment.upper_bound
        assert segment.opened_at <= segment.closed_at <= segment.dropped_at
        mq.commit(handle)
        assert states(mq) == {message_id(handle): ("half", "committed")}


class TestQueues:
    def test_entries_are_what_the_queues_hold(self, mq: Session) -> None:
        for _ in range(3):
            mq.send_batch("t", ["1"] * 20, keys=[str(i) for i in range(20)])
            mq.sent("t")
        rows = mq.rows("select * from mqpg_audit.queue_entry order by queue_id, queue_offset")
        assert [(r.queue_id, r.queue_offset, r.message_id) for r in rows] == positions(mq, "t")
        ticks = {r.tick_id: r for r in mq.rows("select * from mqpg_audit.tick")}
        assert [r.appended_at for r in rows] == [ticks[r.tick_id].appended_at for r in rows]
        assert sum(tick.messages for tick in ticks.values()) == len(rows) == 63
        assert {(r.topic, r.attempt, r.subscription_id, r.batch_id - r.message_id // 1024) for r in rows} == {
            ("t", 1, None, 0)
        }

    def test_a_retry_lane(self, mq: Session) -> None:
        ids = mq.sent_batch("one", ["1", "2", "3"])
        mq.nack(mq.receive("one")[0].receipt, [ids[1]], reason="no", delay="1 microsecond")
        mq.execute("select pg_sleep(0.01)")
        mq.append()
        lane = mq.rows("select * from mqpg_audit.queue_entry where queue_id = -1")
        assert [(r.consumer_group, r.message_id, r.queue_offset, r.attempt) for r in lane] == [("g", ids[1], 0, 2)]
        assert lane[0].subscription_id == mq.scalar(
            "select subscription_id from mqpg_audit.subscription where consumer_group = 'g' and topic = 'one'"
        )

    def test_bounds_hold_all_ids(self, mq: Session) -> None:
        empty = {b.cut_column: (b.lower_bound, b.upper_bound) for b in mq.rows("select * from mqpg_audit.bound")}
        assert empty["batch_id"] == empty["message_id"] == (None, None)
        mq.send_batch("one", ["1", "2"])
        mq.commit(mq.prepare("t"))
        mq.append()
        mq.receive("one")
        for bound in mq.rows("select * from mqpg_audit.bound"):
            for view in bound.views.split(", "):
                edges = mq.rows(f"select min({bound.cut_column}), max({bound.cut_column}) from mqpg_audit.{view}")
                if view == "queue_entry":  # the first tick appends nothing
                    edges = [(0, edges[0][1])]
                assert tuple(edges[0]) == (bound.lower_bound, bound.upper_bound), view


class TestGroups:
    def test_pending_in_every_state(self, mq: Session) -> None:
        mq.call("subscribe", "s", "one", mode="shared", retry_delay="1 hour")
        ids = mq.sent_batch("one", [str(i) for i in range(12)])
        assert pending(mq, "s") == dict.fromkeys(ids, ("waiting", 0))
        held, done, mixed, free = (
            mq.receive("one", group="s", max_messages=2, consumer=name, lease="1 hour")[0].receipt for name in "abcd"
        )
        mq.ack(done)
        mq.nack(mixed, [ids[4]], reason="no")
        mq.call("release", free)
        expected = (
            dict.fromkeys(ids[0:2], ("in_flight", 1))
            | {ids[4]: ("retry", 1), ids[5]: ("in_flight", 1)}
            | dict.fromkeys(ids[6:8], ("returned", 0))  # a release takes the delivery back
            | dict.fromkeys(ids[8:], ("waiting", 0))
        )
        assert pending(mq, "s") == expected
        rows = {r.message_id: r for r in mq.rows("select * from mqpg_audit.pending where consumer_group = 's'")}
        assert (rows[ids[0]].holder, rows[ids[5]].holder, rows[ids[6]].holder) == ("a", "c", None)
        assert rows[ids[0]].lease_until is not None
        assert [rows[id].queue_offset for id in ids[5:]] == [5, 6, 7, 8, 9, 10, 11]
        assert (rows[ids[4]].queue_id, rows[ids[4]].queue_offset) == (-1, None)
        retry = mq.rows("select * from mqpg_audit.delayed where consumer_group = 's'")
        assert [(r.message_id, r.attempt, r.reason, r.is_due) for r in retry] == [(ids[4], 2, "no", False)]
        assert retry[0].due_at == rows[ids[4]].due_at
        # What the group can get now is what the view says.
        mq.ack(held)
        free_now = {id for id, (state, _) in pending(mq, "s").items() if state in ("waiting", "returned")}
        assert {m.message_id for m in mq.drain("one", group="s")} == free_now
        assert pending(mq, "s") == {ids[4]: ("retry", 1), ids[5]: ("in_flight", 1)}
        assert pending(mq) == dict.fromkeys(ids, ("waiting", 0))

    def test_pending_follows_a_retry_to_its_end(self, mq: Session) -> None:
        (id,) = mq.sent_batch("one", ["1"])
        mq.call("alter_subscription", "g", "one", max_attempts=2, retry_delay="1 microsecond")
        mq.nack(mq.receive("one")[0].receipt, [id], reason="first")
        assert pending(mq) == {id: ("retry", 1)}
        mq.execute("select pg_sleep(0.01)")
        mq.append()
        assert pending(mq) == {id: ("waiting", 1)}
        delivery = mq.receive("one")[0]
        assert pending(mq) == {id: ("in_flight", 2)}
        mq.nack(delivery.receipt, [id], reason="last")
        assert pending(mq) == {}
        (letter,) = mq.rows("select * from mqpg_audit.dead_letter")
        assert (letter.consumer_group, letter.topic, letter.message_id) == ("g", "one", id)
        assert (letter.state, letter.attempts, letter.reason, letter.left_at) == ("dead", 2, "last", None)
        mq.call("redrive", "g", "one")
        (letter,) = mq.rows("select * from mqpg_audit.dead_letter")
        assert (letter.state, letter.left_by) == ("redriven", mq.conn.info.user)
        assert letter.died_at < letter.left_at
        assert {state for state, _ in pending(mq).values()} <= {"retry", "waiting"}

    def test_pending_in_the_place_where_it_failed(self, mq: Session) -> None:
        mq.call("subscribe", "b", "one", on_failure="block_queue", retry_delay="1 hour")
        ids = mq.sent_batch("one", ["1", "2", "3"])
        mq.nack(mq.receive("one", group="b")[0].receipt, [ids[0]], reason="no")
        rows = mq.rows("select * from mqpg_audit.pending where consumer_group = 'b' order by queue_offset")
        assert [r.message_id for r in rows] == ids[: len(rows)]
        assert (rows[0].state, rows[0].deliveries, rows[0].queue_id, rows[0].queue_offset) == ("returned", 1, 0, 0)
        assert rows[0].due_at is not None
        assert mq.receive("one", group="b") == []

    def test_positions_are_those_of_subscription_lag(self, mq: Session) -> None:
        mq.call("subscribe", "all", "t", mode="broadcast")
        mq.call("subscribe", "new", "t", start="latest")
        for _ in range(2):
            mq.sent_batch("t", ["1"] * 20, keys=[str(i) for i in range(20)])
            mq.receive("t", max_messages=7)
            mq.receive("t", group="all", consumer="x", max_messages=3)
        lag = "select consumer_group, topic, queue_id, committed, next_offset, lag, claims from mqpg.subscription_lag"
        here = (
            "select consumer_group, topic, queue_id, committed_offset, end_offset, lag, deliveries "
            "from mqpg_audit.current_position"
        )
        assert sorted(mq.rows(here)) == sorted(mq.rows(lag))
        members = mq.rows("select distinct consumer from mqpg_audit.current_position where consumer_group = 'all'")
        assert [m.consumer for m in members] == ["x"]
        assert mq.scalar("select count(*) from mqpg_audit.subscription where consumer_group = 'all'") == 1

    @pytest.mark.own_database  # segments roll
    def test_positions_outlive_the_rows_of_a_queue(self, mq: Session) -> None:
        retain(mq, "0 s")
        fill(mq, 3)
        mq.drain("one")
        roll(mq)
        keep(mq)
        assert mq.scalar("select count(*) from mqpg_audit.queue_entry") == 0
        (row,) = mq.rows("select * from mqpg_audit.current_position where topic = 'one' and queue_id = 0")
        assert (row.committed_offset, row.end_offset, row.lag) == (3, 3, 0)

    def test_the_history_of_a_group(self, mq: Session) -> None:
        ids = mq.sent_batch("one", ["1", "2", "3"])
        mq.ack(mq.receive("one", max_messages=1)[0].receipt)
        mq.call("release", mq.receive("one", max_messages=1)[0].receipt)
        mq.call("seek", "g", "one", "latest")
        history = mq.rows(
            "select * from mqpg_audit.position_change where consumer_group = 'g' and topic = 'one' and queue_id = 0 "
            "order by version"
        )
        assert [(h.version, h.action, h.committed_offset) for h in history] == [
            (1, "subscribe", 0), (2, "receive", 0), (3, "ack", 1), (4, "receive", 1), (5, "release", 1), (6, "moved", 3),
        ]  # fmt: skip
        assert history[1].epoch == history[2].epoch != history[3].epoch
        jumps = mq.rows("select * from mqpg_audit.position_jump where queue_id = 0 order by from_offset")
        assert [(j.from_offset, j.to_offset) for j in jumps] == [(1, 2), (2, 3)]
        assert {(j.consumer_group, j.topic, j.why, j.moved_back, j.jumped_by) for j in jumps} == {
            ("g", "one", "seek", False, mq.conn.info.user)
        }
        left_out = mq.rows(
            "select e.message_id from mqpg_audit.position_jump j join mqpg_audit.queue_entry e on e.topic_id = "
            "j.topic_id and e.queue_id = j.queue_id and e.queue_offset between j.from_offset and j.to_offset - 1"
        )
        assert {row.message_id for row in left_out} == set(ids[1:])

    def test_every_action_has_one_word(self, mq: Session) -> None:
        """The view, the functions, and the comment on the column have the same ones."""
        source = mq.scalar("select col_description('mqpg.cursor'::regclass, attnum) from pg_attribute "
                           "where attrelid = 'mqpg.cursor'::regclass and attname = 'action'")  # fmt: skip
        codes = [part.split()[0] for part in source.partition(": ")[2].split(", ") if len(part.split()[0]) == 1]
        view = mq.scalar("select pg_get_viewdef('mqpg_audit.position_change'::regclass)")
        words = dict(re.findall(r"""WHEN '(.)'::"char" THEN '(\w+)'""", view))
        assert sorted(words) == sorted(codes)
        assert len(words) == 16
        assert {mq.scalar("select mqpg._action(%s)::text", word): word for word in words.values()} == words
        bodies = mq.scalar("select string_agg(prosrc, ' ') from pg_proc where pronamespace = 'mqpg'::regnamespace")
        used = [word for call in re.findall(r"mqpg\._actions?\(('.*?)\)", bodies) for word in call.split(", ")]
        assert {word.strip("'") for word in used} <= set(words.values())


class TestOthers:
    def test_decisions(self, mq: Session) -> None:
        mq.call("alter_producer_group", "pg", check_after="1 hour")
        commits, rolls, later = mq.prepare("t"), mq.prepare("t"), mq.prepare("t", delay="1 hour")
        delayed, recalled = mq.send("t", delay="1 microsecond"), mq.send("t", delay="1 hour")
        mq.commit(commits)
        mq.call("settle", rolls, "rollback", "by hand")
        mq.commit(later)
        mq.call("recall", recalled)
        mq.execute("select pg_sleep(0.01)")
        mq.append()
        rows = mq.rows("select * from mqpg_audit.decision order by order_no")
        found = {(r.message_id, r.decision, r.decided_by, r.reason) for r in rows}
        assert found == {
            (message_id(commits), "commit", "producer", None),
            (message_id(rolls), "rollback", "admin", "by hand"),
            (message_id(later), "commit", "producer", None),
            (recalled, "recall", "producer", None),
            (delayed, "due", "appender", None),
        }
        due = {r.message_id: r for r in mq.rows("select * from mqpg_audit.delayed")}
        assert {id: r.is_due for id, r in due.items()} == {message_id(later): False, recalled: False, delayed: True}
        (decided,) = [r for r in rows if r.message_id == message_id(later)]
        assert decided.due_at == due[message_id(later)].due_at

    def test_the_ledger_names_no_handle(self, mq: Session) -> None:
        handle = mq.prepare("t")
        with mq.transaction():
            mq.call("local_begin", handle)
        strange = ["a handle of another kind", f"{'f' * 12}.1.{'9' * 30}.{'0' * 32}"]  # no bigint
        mq.execute("insert into mqpg.ledger (handle) select unnest(%s::text[])", strange)
        (row,) = mq.rows("select l.*, row_to_json(l)::text as text from mqpg_audit.ledger l where l.message_id > 0")
        message = mq.rows("select * from mqpg_audit.message where batch_id = %s", row.batch_id)[0]
        assert (row.message_id, row.handle_hash) == (message.message_id, message.handle_hash)
        assert (f"{row.broker_id}.{row.incarnation}", row.entry) == (".".join(handle.split(".")[:2]), "local")
        assert handle.split(".")[3] not in row.text

    def test_topics_and_subscriptions(self, mq: Session) -> None:
        old = mq.scalar("select topic_id from mqpg_audit.topic where topic = 'one'")
        mq.call("subscribe", "f", "t", mode="shared", filter="$.a == 1", tags=["x"])
        mq.sent("one")
        mq.call("drop_topic", "one", True)
        mq.call("create_topic", "one", 1)
        both = mq.rows("select * from mqpg_audit.topic where topic = 'one' order by topic_id")
        assert [(t.topic_id == old, t.dropped_at is not None, t.queues) for t in both] == [
            (True, True, None), (False, False, 1),
        ]  # fmt: skip
        assert [(m.topic_id, m.topic) for m in mq.rows("select * from mqpg_audit.message")] == [(old, None)]
        rows = {s.consumer_group: s for s in mq.rows("select * from mqpg_audit.subscription where topic = 't'")}
        assert set(rows) == {"f", "g"}
        assert (rows["f"].mode, rows["f"].filter, rows["f"].tags) == ("shared", '($."a" == 1)', ["x"])

    def test_the_version(self, mq: Session) -> None:
        (row,) = mq.rows("select * from mqpg_audit.version")
        release, broker = (
            mq.scalar("select release from mqpg.installation"),
            mq.scalar("select broker_id from mqpg.broker"),
        )
        assert (row.contract, row.release, row.broker_id, row.incarnation) == (1, release, broker, 1)


def test_every_row_is_text_for_tools_that_know_few_types(mq: Session) -> None:
    """JDBC has no infinite time, and tools show a type that they do not know as nothing."""
    mq.sent("one")
    views: list[Any] = mq.rows("select relname from pg_class where relnamespace = 'mqpg_audit'::regnamespace")
    for view in views:
        for row in mq.rows(f"select row_to_json(v)::text as text from mqpg_audit.{view.relname} v"):
            assert "infinity" not in row.text
            assert json.loads(row.text)
