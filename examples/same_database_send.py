"""T1: the business tables and the queue are in one database.

    MQPG_DATABASE_URL=postgresql://… python examples/same_database_send.py

`send` in the business transaction is all that you need: the order and its message are committed
together or not at all. The database needs the schema (`mqpg migrate`). A real application also
needs a running `mqpg worker`.
"""

from __future__ import annotations

import psycopg

import mqpg


def place_order(conn: psycopg.Connection, mq: mqpg.Client, order: int, amount: int) -> None:
    """Write the order and its message in one transaction: both are committed, or neither is."""
    with conn.transaction():
        conn.execute("insert into orders (id, amount) values (%s, %s)", (order, amount))
        mq.send("orders", {"id": order, "amount": amount}, key=str(order), conn=conn)
        if amount <= 0:
            raise ValueError(f"order {order} has no amount")


def main() -> None:
    with mqpg.connect() as mq, psycopg.connect(mq.dsn, autocommit=True) as conn:
        conn.execute("create table if not exists orders (id int primary key, amount int not null)")
        mq.create_topic("orders", queues=2)
        mq.subscribe("billing", "orders")

        place_order(conn, mq, 1, 90)
        try:
            place_order(conn, mq, 2, 0)
        except ValueError as error:
            print(f"rolled back: {error}")

        mq.append()  # gives committed messages their offsets; `mqpg worker` does this all the time
        for message in mq.receive("billing", "orders"):
            print(f"received: {message.payload}")
        print(f"orders in the table: {[row[0] for row in conn.execute('select id from orders')]}")


if __name__ == "__main__":
    main()
