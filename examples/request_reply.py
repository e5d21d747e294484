"""Request and reply: what a handler returns goes back to who asked.

    MQPG_DATABASE_URL=postgresql://… python examples/request_reply.py

The reply is sent in the transaction of the effect: a replier that dies takes it with it, and the next one replies.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

import mqpg


@mqpg.consumer("prices", group="pricing")
def price(message: mqpg.Message, conn: psycopg.Connection) -> Any:
    """The returned object is the reply's payload."""
    return {"item": message.payload["item"], "price": len(message.payload["item"]) * 10}


def run(mq: mqpg.Client, stop: threading.Event) -> None:
    """In daily life: `mqpg worker` and `mqpg consume request_reply:price`."""
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
            print("nobody answers in time")
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
