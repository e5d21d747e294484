"""C1: the effect is in the broker's own database.

    MQPG_DATABASE_URL=postgresql://… python examples/consumer_same_transaction.py

`receive`, the effect and `ack` are one transaction, so the effect happens exactly once. A real
application runs the handler with `mqpg consume consumer_same_transaction:bill`.
"""

from __future__ import annotations

import psycopg

import mqpg


@mqpg.consumer("sales", group="billing")
def bill(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Write the invoice of a sale.

    `conn` is in the transaction of `receive` and `ack`. An exception undoes the effect, and the
    message is retried later.
    """
    conn.execute(
        "insert into invoices (sale, amount) values (%s, %s)", (message.payload["id"], message.payload["amount"])
    )


def main() -> None:
    with mqpg.connect() as mq, psycopg.connect(mq.dsn, autocommit=True) as conn:
        conn.execute("create table if not exists invoices (sale int primary key, amount int not null)")
        mq.create_topic("sales", queues=2)
        mq.subscribe("billing", "sales")
        mq.send_batch("sales", [{"id": sale, "amount": 10 * sale} for sale in range(1, 6)])
        mq.append()  # `mqpg worker` does this all the time

        while bill.step(mq):
            pass
        rows = conn.execute("select sale, amount from invoices order by sale").fetchall()
        print(f"invoices: {rows}")


if __name__ == "__main__":
    main()
