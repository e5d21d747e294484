"""A broker whose segments roll, with a topic of one queue that one group reads."""

import pytest

from tests.support.broker import Broker, Session


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A session with topics `kept`, which asks for the archive, and `other`, group `g` and `pg`."""
    session = broker.session()
    for topic in ("kept", "other"):
        session.call("create_topic", topic, queues=1)
        session.call("subscribe", "g", topic)
    session.call("alter_topic", "kept", archive=True)
    session.call("create_producer_group", "pg")
    return session
