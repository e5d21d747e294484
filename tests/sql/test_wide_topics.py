"""A topic of a thousand queues with twelve groups: a call of an administrator takes few locks."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.broker import Broker, Session

QUEUES, GROUPS = 1000, 12
MOST = 300  # locks of one call; a server with default settings has room for 64 * max_connections

CALLS: dict[str, Callable[[Session], object]] = {
    "purge_topic": lambda s: s.call("purge_topic", "wide"),
    "seek": lambda s: [s.call("seek", f"g{i}", "wide", "earliest") for i in range(GROUPS)],
    "seek to a time": lambda s: [s.call("seek", f"g{i}", "wide", "2026-01-01 00:00+00") for i in range(GROUPS)],
    "unpin": lambda s: s.call("unpin", "pin", "wide"),
    "pause": lambda s: [s.call("pause", "wide", f"g{i}") for i in range(GROUPS)],
    "resume": lambda s: [s.call("resume", "wide", f"g{i}") for i in range(GROUPS)],
    "alter_topic": lambda s: s.call("alter_topic", "wide", retention="8 days"),
    "subscribe": lambda s: [s.call("subscribe", f"new{i}", "wide") for i in range(GROUPS)],
    "unsubscribe": lambda s: [s.call("unsubscribe", f"g{i}", "wide") for i in range(GROUPS)],
    "drop_topic": lambda s: s.call("drop_topic", "wide", force=True),
}


@pytest.fixture(scope="module")
def wide(module_dsn: str) -> Iterator[Session]:
    """The topic with a message in nearly every queue; the tests roll their calls back."""
    broker = Broker(module_dsn)
    mq = broker.session()
    mq.call("create_topic", "wide", queues=QUEUES)
    for i in range(GROUPS):
        mq.call("subscribe", f"g{i}", "wide")
    mq.call("subscribe", "pin", "wide", mode="pinned")
    mq.execute("select mqpg.send('wide', '1', key => i::text) from generate_series(1, 3000) i")
    mq.append()
    yield mq
    broker.close()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_few_locks_however_many_queues_there_are(wide: Session, call: str) -> None:
    with wide.conn.transaction(force_rollback=True):
        CALLS[call](wide)
        locks = wide.scalar("select count(*) from pg_locks where pid = pg_backend_pid()")
    assert locks <= MOST
