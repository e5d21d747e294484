"""Fixtures of the SQL tests: a broker for each test, mostly on its module's database.

The database is emptied between tests. Tests that roll segments have the mark `own_database`.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fixtures.databases import Databases
from tests.fixtures.emptying import empty
from tests.support.broker import Broker, Session, Spare
from tests.support.mutation import mutate
from tests.support.retention import retain


@pytest.fixture(scope="module")
def module_dsn(databases: Databases, template: str) -> Iterator[str]:
    """DSN of a migrated database that the tests of one module share."""
    with databases.lent(template) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def spare(module_dsn: str) -> Iterator[Spare]:
    """The session that the tests of one module hand on."""
    with closing(Spare(module_dsn)) as made:
        yield made


@pytest.fixture
def shared_broker(module_dsn: str, spare: Spare) -> Iterator[Broker]:
    """A broker on the module's database, which is emptied first."""
    with spare.borrowed() as conn:
        empty(conn)
    with closing(Broker(module_dsn, spare)) as broker:
        yield broker


@pytest.fixture(scope="session")
def furnished(databases: Databases, template: str) -> Iterator[str]:
    """Name of a database that is as `mq` finds it."""
    name = databases.create(template)
    with closing(Broker(databases.server.dsn(name))) as broker:
        furnish(broker.session())
    yield name
    databases.drop(name)


@pytest.fixture
def own_broker(databases: Databases, furnished: str) -> Iterator[Broker]:
    """A broker on a database of this test's own."""
    with databases.lent(furnished) as dsn, closing(Broker(dsn)) as broker:
        yield broker


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    name = "own_broker" if request.node.get_closest_marker("own_database") else "shared_broker"
    found: Broker = request.getfixturevalue(name)
    return found


def furnish(session: Session) -> None:
    session.subscribed("t", queues=4)
    session.subscribed("one")
    session.call("create_producer_group", "pg")


@pytest.fixture
def mq(request: pytest.FixtureRequest, broker: Broker) -> Session:
    """A session on a broker with topic `t` (4 queues), topic `one` (1 queue), groups `g` and `pg`."""
    session = broker.session()
    if not request.node.get_closest_marker("own_database"):
        furnish(session)
    return session


@pytest.fixture
def other(mq: Session, broker: Broker) -> Session:
    """A second session on the broker of `mq`."""
    return broker.session()


@pytest.fixture
def brisk(mq: Session) -> Session:
    """Every closed segment is past its retention."""
    mq.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    retain(mq, "0 s")
    return mq


@pytest.fixture
def mutant(request: pytest.FixtureRequest, mq: Session) -> bool:
    """Whether functions of the broker lack the rules that the decorator `without` names."""
    lacks, rules = request.param
    for rule in rules if lacks else ():
        mutate(mq, *rule)
    return bool(lacks)
