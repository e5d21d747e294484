"""I10: the hot tables see no UPDATE and no DELETE; pg_stat_user_tables proves it."""

import random
from typing import Any

from tests.support.broker import HOT_TABLES, Broker, Session, seconds
from tests.support.history import run_history
from tests.support.waiting import eventually

_STATISTICS = """
select t.relname, coalesce(sum(s.n_tup_ins), 0)::bigint as ins, coalesce(sum(s.n_tup_upd), 0)::bigint as upd,
    coalesce(sum(s.n_tup_del), 0)::bigint as del_
from pg_class as t
left join pg_inherits as i on i.inhparent = t.oid
left join pg_stat_user_tables as s on s.relid in (i.inhrelid, t.oid)
where t.relnamespace = 'mqpg'::regnamespace and t.relname = any (%s)
group by t.relname
"""


def statistics(broker: Broker) -> dict[str, Any]:
    """Return the statistics of each hot table, summed over its partitions, from a session of its own."""
    return {r.relname: r for r in broker.session().rows(_STATISTICS, list(HOT_TABLES))}


def _consume_in_every_way(mq: Session) -> None:
    mq.subscribed("s", queues=2, max_attempts=2, retry_delay=seconds(0))
    mq.call("subscribe", "pin", "s", mode="pinned")
    mq.sent_batch("s", ["1"] * 40, keys=[f"k{i % 5}" for i in range(40)])
    for i in range(30):
        lease = seconds(0.01 if i % 4 == 0 else 30)
        if not (got := mq.receive("s", max_messages=5, lease=lease)):
            mq.execute("select pg_sleep(0.01)")
            mq.append()
            continue
        receipt = got[0].receipt
        match i % 5:
            case 1:
                mq.ack(receipt, through=got[0].queue_offset)
                if len(got) > 1:
                    mq.call("release", receipt)
            case 2:
                mq.nack(receipt, [m.message_id for m in got])
            case 3:
                mq.call("extend", receipt, seconds(5))
                mq.ack(receipt)
            case 4:
                mq.ack(receipt)
    got = mq.receive("s", group="pin", consumer="a")
    mq.ack(got[0].receipt)
    mq.call("unpin", "pin", "s", consumer="a")


def _produce_in_every_way(mq: Session) -> None:
    mq.send("one", "1", dedup_id="d")
    mq.send("one", "1", dedup_id="d")
    mq.send_batch("one", ["1", "2"], dedup_ids=["d", "e"])
    recalled = mq.send("one", "1", delay=seconds(0.01))
    mq.send("one", "1", delay=seconds(0.01))
    mq.value("recall", recalled)
    mq.commit(mq.prepare("one", "1", delay=seconds(0.01)), "2")
    handle = mq.prepare("one", "1")
    mq.rollback(handle)
    mq.commit(handle)


def _check_back(mq: Session) -> None:
    mq.call("create_producer_group", "quick", check_after=seconds(0.02), max_checks=1)
    mq.call("create_producer_group", "led", check_after=seconds(0.02), checker="ledger")
    open_half, ours = mq.prepare("one", "1", "quick"), mq.prepare("one", "1", "led")
    mq.call("local_begin", ours)
    waiting = mq.prepare("one", "1", "quick")
    eventually(lambda: mq.call("due_checks", "quick", lease=seconds(0.02)))
    mq.call("check_wait", waiting, seconds(0.02))

    def parked() -> bool:
        mq.call("due_checks", "quick", lease=seconds(0.02))
        mq.call("compensate")
        return bool(mq.rows("select 1 from mqpg.check_log where event = 'parked'"))

    eventually(parked)
    mq.value("settle", open_half, "commit", "by hand")


def test_I10_hot_tables_are_only_inserted_into(mq: Session, broker: Broker, rng: random.Random) -> None:
    run_history(broker, rng, "t", producers=4, steps=8)
    mq.drain("t", max_messages=500)
    _produce_in_every_way(mq)
    _consume_in_every_way(mq)
    _check_back(mq)
    if mq.rows("select from pg_proc where pronamespace = 'mqpg'::regnamespace and proname = 'keep'"):
        mq.call("keep")
    mq.append()
    present = [t for t in HOT_TABLES if mq.rows("select 1 from pg_class where oid = to_regclass('mqpg.' || %s)", t)]
    stored = {t: mq.scalar(f"select count(*) from mqpg.{t}") for t in present}
    broker.close()  # a session reports its statistics at the latest when it ends
    assert present == list(HOT_TABLES)
    eventually(lambda: all(statistics(broker)[t].ins >= stored[t] for t in present))
    counted = statistics(broker)
    assert all(counted[t].ins > 0 for t in present), "the workload left a hot table untouched"
    assert {t: (counted[t].upd, counted[t].del_) for t in present if counted[t].upd or counted[t].del_} == {}
