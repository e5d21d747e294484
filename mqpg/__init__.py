"""mqpg: a transactional message queue that lives inside PostgreSQL.

::

    import mqpg

    mq = mqpg.connect()
    mq.send("orders", {"id": 7}, key="7")

All exceptions are in `mqpg.errors`; those that programs catch most are here too.
"""

from __future__ import annotations

from mqpg._async.brokers import AsyncBrokers
from mqpg._async.client import AsyncClient, connect_async
from mqpg._async.consumer import AsyncConsumer
from mqpg._async.ledger import AsyncLedger
from mqpg._async.outboxing import AsyncOutboxProducer
from mqpg._async.posting import AsyncPostProducer
from mqpg._async.reconciler import AsyncReconciler
from mqpg._async.transactional import AsyncTransactionalProducer
from mqpg._consumer import consumer
from mqpg._signals import Reject, Retry
from mqpg._sync.brokers import Brokers
from mqpg._sync.client import Client, connect
from mqpg._sync.consumer import Consumer
from mqpg._sync.ledger import Ledger
from mqpg._sync.outboxing import OutboxProducer
from mqpg._sync.posting import PostProducer
from mqpg._sync.reconciler import Reconciler
from mqpg._sync.transactional import TransactionalProducer
from mqpg.errors import (
    ConfigurationError,
    ConnectionFailed,
    Error,
    Fenced,
    LockTimeout,
    OutcomeUnknown,
    SerializationFailure,
)
from mqpg.message import BrokerInfo, HalfCheck, Json, Message, Outcome, Result, Verdict

__all__ = [
    "AsyncBrokers",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncLedger",
    "AsyncOutboxProducer",
    "AsyncPostProducer",
    "AsyncReconciler",
    "AsyncTransactionalProducer",
    "BrokerInfo",
    "Brokers",
    "Client",
    "ConfigurationError",
    "ConnectionFailed",
    "Consumer",
    "Error",
    "Fenced",
    "HalfCheck",
    "Json",
    "Ledger",
    "LockTimeout",
    "Message",
    "OutboxProducer",
    "Outcome",
    "OutcomeUnknown",
    "PostProducer",
    "Reconciler",
    "Reject",
    "Result",
    "Retry",
    "SerializationFailure",
    "TransactionalProducer",
    "Verdict",
    "connect",
    "connect_async",
    "consumer",
]
