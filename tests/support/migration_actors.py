"""Programs of the release before, that send and receive while the schema is upgraded.

    python -m tests.support.migration_actors producer|consumer DSN NAME

Each runs until its standard input ends, and prints what it did as JSON. Any error ends it.
"""

import json
import sys
import threading

import mqpg
from mqpg.cli.stop_signals import stop_on_eof

__all__ = ["main"]


def _produce(mq: mqpg.Client, name: str, stop: threading.Event) -> int:
    """Plain sends, sends in the caller's transaction, and half messages, in turn."""
    sent = 0
    while not stop.is_set():
        key = f"{name}-{sent}"
        if sent % 3 == 0:
            mq.send("upgraded", key)
        elif sent % 3 == 1:
            with mq.transaction() as conn:
                mq.send("upgraded", key, conn=conn)
                conn.execute("insert into business values (%s)", [key])
        else:
            mq.commit(mq.prepare("upgraded", key, "makers"))
        sent += 1
    return sent


def _consume(mq: mqpg.Client, name: str, stop: threading.Event) -> int:
    """Effects in the transaction that acknowledges (C1), and after `stop` until nothing is left."""
    got, empty = 0, 0
    while not stop.is_set() or empty < 20:
        with mq.transaction() as conn:
            batch = mq.receive("group", "upgraded", max_messages=20, conn=conn)
            for message in batch:
                conn.execute("insert into effect values (%s)", [message.payload])
            if batch:
                batch.ack()
        got, empty = got + len(batch), 0 if batch else empty + 1
        if not batch:
            stop.wait(0.02) if not stop.is_set() else threading.Event().wait(0.05)
    return got


def main() -> None:
    """Run one of them."""
    role, dsn, name = sys.argv[1:]
    stop = threading.Event()
    stop_on_eof(stop)
    with mqpg.connect(dsn, retry_timeout=0) as mq:
        print("ready", flush=True)
        print(json.dumps((_produce if role == "producer" else _consume)(mq, name, stop)), flush=True)


if __name__ == "__main__":
    main()
