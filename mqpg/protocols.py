"""Further protocols: several brokers, postMessage, FastMiniMQ's outbox, inboxes, reconciliation.

::

    from mqpg import protocols

    brokers = protocols.Brokers(["postgresql://one/mq", "postgresql://two/mq"])
    orders = mqpg.TransactionalProducer(brokers, group="orders", ledger=url)
    with orders.transaction("orders", {"id": 7}) as tx:
        ...
"""

from __future__ import annotations

from mqpg._async.consumer.half_message_inbox import AsyncInbox
from mqpg._async.consumer.purge_journal import purge_journal as purge_journal_async
from mqpg._async.consumer.realign import realign as realign_async
from mqpg._async.producer.brokers import AsyncBrokers
from mqpg._async.producer.outbox import AsyncOutboxProducer
from mqpg._async.producer.post_message import AsyncPostProducer
from mqpg._async.producer.reconciler import AsyncReconciler
from mqpg._sync.consumer.half_message_inbox import Inbox
from mqpg._sync.consumer.purge_journal import purge_journal
from mqpg._sync.consumer.realign import realign
from mqpg._sync.producer.brokers import Brokers
from mqpg._sync.producer.outbox import OutboxProducer
from mqpg._sync.producer.post_message import PostProducer
from mqpg._sync.producer.reconciler import Reconciler
from mqpg.values.messages import HalfState, LostHalf, Realigned, Result, Unsettled

__all__ = [
    "AsyncBrokers",
    "AsyncInbox",
    "AsyncOutboxProducer",
    "AsyncPostProducer",
    "AsyncReconciler",
    "Brokers",
    "HalfState",
    "Inbox",
    "LostHalf",
    "OutboxProducer",
    "PostProducer",
    "Realigned",
    "Reconciler",
    "Result",
    "Unsettled",
    "purge_journal",
    "purge_journal_async",
    "realign",
    "realign_async",
]
