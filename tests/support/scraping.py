"""A scrape of a broker, and a broker in which something of everything can be measured."""

import json

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mqpg.metrics.server import BrokerCollector
from mqpg.status import Source
from tests.support.broker import Session

__all__ = ["Samples", "busy", "heartbeat", "page", "scrape"]

Samples = dict[str, list[tuple[dict[str, str], float]]]
"""Name of a sample -> its labels and values."""

_HEARTBEAT = "select mqpg._heartbeat(%s, %s, 'h', 1, 'active', %s::jsonb)"


def page(source: Source) -> str:
    """Scrape a broker.

    Returns:
        The page that Prometheus gets.
    """
    registry = CollectorRegistry()
    registry.register(BrokerCollector(source))
    return generate_latest(registry).decode()


def scrape(source: Source) -> Samples:
    """Scrape a broker, and read the page as Prometheus does, which refuses a sample that is there twice."""
    found: Samples = {}
    for family in text_string_to_metric_families(page(source)):
        found.setdefault(family.name, [])
        for sample in family.samples:
            listed = found.setdefault(sample.name, [])
            assert sample.labels not in [labels for labels, _ in listed], sample
            listed.append((sample.labels, sample.value))
    return found


def heartbeat(mq: Session, role: str, number: int = 1, **detail: object) -> None:
    """Report as a worker that is at work does."""
    mq.execute(_HEARTBEAT, f"{role}-{number}", role, json.dumps(detail))


def busy(mq: Session) -> None:
    """One of everything that can be measured."""
    mq.subscribed("orders", queues=2, group="board", max_attempts=1)
    mq.call("subscribe", "other", "orders")
    mq.call("create_producer_group", "shop", check_after="00:10:00")
    mq.commit(mq.prepare("orders", "1", "shop"))
    mq.prepare("orders", "2", "shop")
    mq.sent("orders", "3", key="k")
    (got, *_) = mq.receive("orders", group="board", max_messages=1)
    mq.nack(got.receipt, [got.message_id], reason="no")
    mq.send("orders", "4", key="k")
    mq.call("pause", "orders", "other")
    ledger = {"state": "ok", "commit": 3, "rollback": 1, "wait": 0}
    heartbeat(mq, "audit", verdict="valid")
    heartbeat(mq, "compensator", failures=0, checked=2, ledgers={"shop": ledger}, functions={})
    heartbeat(mq, "appender", messages=7, iterations=5, append_seconds=0.5, pass_seconds=0.1)
    heartbeat(mq, "consumer", consumer_group="board", topic="orders", handled=9, raised=1, consumer="c")
