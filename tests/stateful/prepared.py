"""The broker on which the histories run."""

from tests.stateful.checks import MAX_CHECKS
from tests.stateful.machine import Base
from tests.support.broker import Broker, seconds

__all__ = ["prepared"]


def prepared(dsn: str) -> Broker:
    """A broker with the producer groups that the rules use, and short waits."""
    broker = Base.broker = Broker(dsn)
    session = broker.session()
    session.call("create_producer_group", "pg", check_after=seconds(3600))
    session.call("create_producer_group", "ledger", check_after=seconds(0.01), checker="ledger")
    session.call("create_producer_group", "polled", check_after=seconds(0.01), max_checks=MAX_CHECKS)
    named = {"check_after": seconds(0.01), "max_checks": MAX_CHECKS, "on_exhausted": "rollback"}
    session.call("create_producer_group", "polled_rollback", **named)
    session.execute("update mqpg.settings set value = '40 ms' where name = 'lock_timeout'")
    session.conn.close()
    return broker
