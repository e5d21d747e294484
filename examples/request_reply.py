"""Request and reply: the object that a handler returns goes back to the requester.

    MQPG_DATABASE_URL=postgresql://… python examples/request_reply.py

The reply is sent in the transaction of the effect. Where a replier dies, its reply is rolled back
with the effect, and the next replier answers.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

import mqpg


@mqpg.consumer("prices", group="pricing")
def price(message: mqpg.Message, conn: psycopg.Connection) -> Any:
    """Return the price of an item; the returned object is the payload of the reply."""
    return {"item": message.payload["item"], "price": len(message.payload["item"]) * 10}


def run(mq: mqpg.Client, stop: threading.Event) -> None:
    """Do what `mqpg worker` and `mqpg consume request_reply:price` do in a real application."""
    threading.Thread(target=price.run, args=(mq, stop)).start()
    while not stop.wait(0.02):
        mq.append()


def main() -> None:
    stop = threading.Event()
    with mqpg.connect() as mq:
        mq.create_topic("prices", queues=2)
        thread = threading.Thread(target=run, args=(mq, stop))
        thread.start()
        print(f"reply: {mq.request('prices', {'item': 'bolt'}, timeout=20).payload}")
        try:
            mq.request("prices", {"item": "nut"}, timeout=0.2, delay="1 hour")
        except mqpg.errors.NoReply:
            print("no reply in time")
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
