"""Fixtures of the SQL tests: a broker for each test, mostly on its module's database.

The database is emptied between tests. Tests that change functions or roll segments have the mark `own_database`.
"""

from collections.abc import Iterator

import pytest

from tests.fixtures.databases import Databases
from tests.fixtures.emptying import empty
from tests.support.broker import Broker, Session, Spare
from tests.support.retention import retain


@pytest.fixture(scope="module")
def module_dsn(databases: Databases, template: str) -> Iterator[str]:
    """DSN of a migrated database that the tests of one module share."""
    with databases.lent(template) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def spare(module_dsn: str) -> Iterator[Spare]:
    """The session that the tests of one module hand on."""
    made = Spare()
    yield made
    if conn := made.take():
        conn.close()


@pytest.fixture
def shared_broker(module_dsn: str, spare: Spare) -> Iterator[Broker]:
    """A broker on the module's database, which is emptied first."""
    empty(module_dsn)
    broker = Broker(module_dsn, spare)
    yield broker
    broker.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    name = "own_broker" if request.node.get_closest_marker("own_database") else "shared_broker"
    found: Broker = request.getfixturevalue(name)
    return found


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A session on a broker with topic `t` (4 queues), topic `one` (1 queue), groups `g` and `pg`."""
    session = broker.session()
    session.call("create_topic", "t", queues=4)
    session.call("create_topic", "one", queues=1)
    session.call("subscribe", "g", "t")
    session.call("subscribe", "g", "one")
    session.call("create_producer_group", "pg")
    return session


@pytest.fixture
def brisk(mq: Session) -> Session:
    """Every closed segment is past its retention."""
    mq.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    retain(mq, "0 s")
    return mq
