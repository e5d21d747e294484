"""mqpg: a transactional message queue that lives inside PostgreSQL.

::

    import mqpg

    mq = mqpg.connect()
    mq.send("orders", {"id": 7}, key="7")

Several brokers, postMessage, the outbox and reconciliation are in `mqpg.protocols`. All exceptions
are in `mqpg.errors`, and those that programs catch most are here too.
"""

from __future__ import annotations

from mqpg import protocols as protocols
from mqpg._async.client.client import AsyncClient, connect_async
from mqpg._async.client.delivery import AsyncDelivery
from mqpg._async.consumer.consumer import AsyncConsumer
from mqpg._async.producer.transactional import AsyncTransactionalProducer
from mqpg._async.stores.ledger import AsyncLedger
from mqpg._sync.client.client import Client, connect
from mqpg._sync.client.delivery import Delivery
from mqpg._sync.consumer.consumer import Consumer
from mqpg._sync.producer.transactional import TransactionalProducer
from mqpg._sync.stores.ledger import Ledger
from mqpg.decorator import consumer
from mqpg.errors import (
    ConfigurationError,
    ConnectionFailed,
    Error,
    Fenced,
    LockTimeout,
    OutcomeUnknown,
    SerializationFailure,
)
from mqpg.handlers.outcomes import Reject, Retry
from mqpg.message import HalfCheck, Json, Message, Outcome, Verdict

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "AsyncLedger",
    "AsyncTransactionalProducer",
    "Client",
    "ConfigurationError",
    "ConnectionFailed",
    "Consumer",
    "Delivery",
    "Error",
    "Fenced",
    "HalfCheck",
    "Json",
    "Ledger",
    "LockTimeout",
    "Message",
    "Outcome",
    "OutcomeUnknown",
    "Reject",
    "Retry",
    "SerializationFailure",
    "TransactionalProducer",
    "Verdict",
    "connect",
    "connect_async",
    "consumer",
]
