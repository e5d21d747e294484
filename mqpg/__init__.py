"""mqpg: a transactional message queue that lives inside PostgreSQL.

::

    import mqpg

    mq = mqpg.connect()
    mq.send("orders", {"id": 7}, key="7")

Several brokers, postMessage, the outbox and reconciliation are in `mqpg.protocols`. All exceptions
are in `mqpg.values.errors`, and those that programs catch most are here too.
"""

from __future__ import annotations

from importlib import import_module
from os.path import dirname, isdir
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqpg import errors as errors
    from mqpg import migrate as migrate
    from mqpg import protocols as protocols
    from mqpg import tables as tables
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
    from mqpg.handlers.outcomes import Reject, Retry
    from mqpg.values.declarations import Grant, ProducerGroup, Subscription, Topic
    from mqpg.values.errors import (
        ConfigurationError,
        ConnectionFailed,
        Error,
        Fenced,
        LockTimeout,
        OutcomeUnknown,
        SerializationFailure,
    )
    from mqpg.values.messages import HalfCheck, Json, Message, Outcome, Verdict

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
    "Grant",
    "HalfCheck",
    "Json",
    "Ledger",
    "LockTimeout",
    "Message",
    "Outcome",
    "OutcomeUnknown",
    "ProducerGroup",
    "Reject",
    "Retry",
    "SerializationFailure",
    "Subscription",
    "Topic",
    "TransactionalProducer",
    "Verdict",
    "connect",
    "connect_async",
    "consumer",
]

# In a clone the folders of mqpg.sql, mqpg.workers and mqpg.spark lie beside this one (setup.py). A program
# that is started in the clone's folder imports this one, and not what pip has installed.
if not isdir(f"{__path__[0]}/sql"):
    __path__.append(dirname(__path__[0]))

# Where each name is. A program loads only what it uses: a client needs no SQLAlchemy, and nothing
# that is named here costs time before its first use.
_HOMES = {
    "mqpg._async.client.client": ("AsyncClient", "connect_async"),
    "mqpg._async.client.delivery": ("AsyncDelivery",),
    "mqpg._async.consumer.consumer": ("AsyncConsumer",),
    "mqpg._async.producer.transactional": ("AsyncTransactionalProducer",),
    "mqpg._async.stores.ledger": ("AsyncLedger",),
    "mqpg._sync.client.client": ("Client", "connect"),
    "mqpg._sync.client.delivery": ("Delivery",),
    "mqpg._sync.consumer.consumer": ("Consumer",),
    "mqpg._sync.producer.transactional": ("TransactionalProducer",),
    "mqpg._sync.stores.ledger": ("Ledger",),
    "mqpg.decorator": ("consumer",),
    "mqpg.values.errors": (
        "ConfigurationError",
        "ConnectionFailed",
        "Error",
        "Fenced",
        "LockTimeout",
        "OutcomeUnknown",
        "SerializationFailure",
    ),
    "mqpg.handlers.outcomes": ("Reject", "Retry"),
    "mqpg.values.declarations": ("Grant", "ProducerGroup", "Subscription", "Topic"),
    "mqpg.values.messages": ("HalfCheck", "Json", "Message", "Outcome", "Verdict"),
}
_MODULES = ("errors", "migrate", "protocols", "tables")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"mqpg.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mqpg' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
