"""Several messages in one local transaction: consumers receive all of them or none.

    MQPG_DATABASE_URL=postgresql://… python examples/several_topics.py webshop.db

The messages may be of several topics. With a list of DSNs in mqpg.protocols.Brokers,
each transaction uses one broker and stays with it.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert

import mqpg
from mqpg.protocols import Reconciler

metadata = MetaData()
orders = Table(
    "orders", metadata, Column("id", Integer, primary_key=True), Column("customer", String(40), nullable=False)
)


def main(path: Path) -> None:
    shop = create_engine(f"sqlite:///{path}")
    metadata.create_all(shop)
    with mqpg.connect() as mq:
        mq.create_producer_group("webshop")
        for topic in ("placed", "invoices", "letters"):
            mq.create_topic(topic, queues=2)
            mq.subscribe("office", topic)
        producer = mqpg.TransactionalProducer(mq, group="webshop", ledger=shop)
        producer.create_ledger()

        with producer.transaction("placed", {"customer": "Ada"}, key="Ada") as tx:
            number = tx.execute(insert(orders).values(customer="Ada").returning(orders.c.id)).scalar_one()
            # The final payload has the id that the database generated.
            tx.commit_payload({"customer": "Ada", "order": number})
            tx.add("invoices", {"order": number, "amount": 90}, key="Ada")
            tx.add("letters", {"to": "Ada", "text": "thank you"}, delay=timedelta(seconds=0))

        mq.append()  # `mqpg worker` does this all the time
        for topic in ("placed", "invoices", "letters"):
            print(f"{topic}: {[message.payload for message in mq.receive('office', topic)]}")

        # Compare the ledger with what the broker has committed (T6): no message is missing.
        with Reconciler(mq, shop, older_than=timedelta(0)) as reconciler:
            print(f"lost: {reconciler.step()}")
    shop.dispose()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "webshop.db"))
